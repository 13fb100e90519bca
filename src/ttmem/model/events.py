# SPDX-License-Identifier: Apache-2.0
"""The events. The account is computed from events alone.

Each event is applied for a source (a stream of reports by one process) at a time; both are passed with it. Device
numbers are those of the process. The ledger maps them to chips. An event on a mesh is one
event, with the numbers of all its devices. An allocation on a mesh is one allocation, and is freed on the same mesh.
"""

from __future__ import annotations

from typing import NamedTuple, Union

from ttmem.model.identity import ChipInfo
from ttmem.model.kinds import Kind

MAX_SIZE = 100 << 30  # of one allocation: the limit of the legacy server, three times the largest chip


# Where an event happened: on a device of the process, or on all devices of a mesh at once. A mesh of one is its device.
Device = Union[int, tuple[int, ...]]


def device_numbers(device: Device) -> tuple[int, ...]:
    """The numbers of a device or mesh.

    >>> device_numbers(3), device_numbers((0, 1))
    ((3,), (0, 1))
    """
    return device if isinstance(device, tuple) else (device,)


class Extra(NamedTuple):
    """Properties that only some sources report. ``cores`` is a mask (see core_sets); 0 means unknown."""

    reserved: int | None = None
    cores: int = 0
    allocator: int = 0
    tag: str | None = None
    shared: bool = False  # lies inside an L1 buffer that is already counted (globally allocated CB)
    layout: int | None = None  # tt-metal's TensorMemoryLayout code
    core_count: int = 0  # cores that hold pages of a sharded buffer
    binary: bool = False  # holds the kernel binaries of a cached program
    system: bool = False  # allocated by the runtime for itself when the device was opened
    shape: str | None = None  # of the tensor, with data type and layout
    stack: str | None = None  # Python stack: "file:line function", one line per frame, innermost first
    kept: bool = False  # made by an operation that also made a program, and not returned by it
    per_core: bool = False  # has a different address on each core; only the first is known


class Allocated(NamedTuple):
    """An allocation exists. ``refs`` is 0 for a new allocation, else the reference count of one that is sent again.

    ``ident`` is the source's own number for a buffer; 0 means that its address identifies it.
    """

    device: Device
    kind: Kind
    address: int
    size: int
    program: int = 0
    refs: int = 0
    extra: Extra | None = None
    ident: int = 0


class Freed(NamedTuple):
    """An allocation was freed. Legacy clients do not report the kind; then size and kind are only hints."""

    device: Device
    kind: Kind | None
    address: int
    size: int = 0
    program: int = 0
    allocator: int = 0
    cores: int = 0
    ident: int = 0


class Described(NamedTuple):
    """Adds properties to a live buffer. Its sizes do not change."""

    device: Device
    kind: Kind
    address: int
    extra: Extra
    ident: int = 0


class Failed(NamedTuple):
    """The runtime threw an exception while it allocated memory. ``device`` is None if the device is not known."""

    device: int | None
    text: str
    tag: str | None = None
    stack: str | None = None


class ProgramRun(NamedTuple):
    """A program was launched: its circular and dataflow buffers are now resident on these cores."""

    device: Device
    program: int
    cores: int


class WorkloadRun(NamedTuple):
    """Programs were launched together, each on its own device and cores. ``ident`` is the source's own number.

    While the programs of a workload stay the same, each of its events should have the very same tuple of them: then an
    event costs no more than that of one program.
    """

    ident: int
    runs: tuple[ProgramRun, ...]


class ProgramCompiled(NamedTuple):
    """A program was compiled: the bytes it needs in a core's kernel ring, tt-metal's number for it, its operation."""

    device: Device
    program: int
    ring: int
    metal_id: int
    tag: str | None = None
    stack: str | None = None


class ProgramDestroyed(NamedTuple):
    """A program was destroyed, with everything that it held."""

    device: Device
    program: int


class DeviceOpened(NamedTuple):
    """A process reports which chip its device number refers to, and the sizes of that chip."""

    device: int
    chip: ChipInfo


class DeviceClosed(NamedTuple):
    """The device or mesh was closed: this source holds nothing on it any more. Other meshes of its chips stay open."""

    device: Device


class ChipFound(NamedTuple):
    """The machine has this chip. Does not belong to a process."""

    chip: ChipInfo


class ResyncBegin(NamedTuple):
    """The source starts to send all its live allocations again."""

    generation: int


class ResyncStep(NamedTuple):
    """A resync is about to end, and some of what its end removes is removed now, because all of it may take long."""

    generation: int


class ResyncEnd(NamedTuple):
    """Allocations that were not sent again since the matching begin are removed."""

    generation: int


class Lost(NamedTuple):
    """Number of events that the source could not send. The resync has their result, but not their order."""

    events: int


class MissedHigh(NamedTuple):
    """How high one kind or pool of a process was on these devices, by its own meters, while records were lost.

    ``gauge`` is the label of a kind, or one of `POOL_GAUGES`.
    """

    numbers: tuple[int, ...]
    gauge: str
    at_least: int  # among the lost records
    at_most: int
    reset_at_least: int  # among those of them that were written after the last reset of the peaks
    reset_at_most: int
    ever: int  # since the process started
    reserved_ever: int


class OpenPhaseHighs(NamedTuple):
    """A phase that is open after a loss: bytes when it began, and at most since, for each row of `CaughtUp.highs`."""

    ident: int
    name: str
    parent: int
    began: float
    begins: tuple[int, ...]
    peaks: tuple[int, ...]


class GapBegan(NamedTuple):
    """Records of the source are not read from here on. What it holds in the account stays as it was until it is
    caught up."""

    reset: bool = False  # what the account has of it is from before the last reset of the peaks


class CaughtUp(NamedTuple):
    """Records of the source were lost, and what it holds is exact again. Follows the events that corrected it."""

    since: float  # time of the last record before the loss
    highs: tuple[MissedHigh, ...]
    phases: tuple[OpenPhaseHighs, ...]
    missed_phases: int  # that began among the lost records; some of them may be in ``phases``
    first: bool  # the source was already there when its records were first read
    reset: bool = False  # the peaks were reset among the lost records
    unmetered: bool = False  # how high it was among the lost records is not known
    apart: bool = False  # what it holds is as of an earlier moment than what others hold


class Uncertain(NamedTuple):
    """The source counted more problems of one kind (see uncertain_reasons); ``events`` is the increase."""

    reason: str
    events: int


class Sees(NamedTuple):
    """The kinds that the source can track (one bit each), and as text what it cannot track and why."""

    kinds: int
    trouble: str | None = None


class Audited(NamedTuple):
    """Compares what the source tracks on a device with what the allocator reports; bytes in one bank."""

    device: Device
    allocator: int
    ours: tuple[int, int]  # DRAM and TRACE together, L1 and L1_SMALL together
    theirs: tuple[int, int]
    largest_free: tuple[int, int]  # DRAM, L1
    banks: tuple[int, int]
    mismatches: int = 0

    @property
    def agreement(self) -> tuple[int, int]:
        """Bytes that both sides count, and bytes that either side counts: a surplus is as wrong as a gap."""
        both = sum(min(mine, real) * banks for mine, real, banks in zip(self.ours, self.theirs, self.banks))
        either = sum(max(mine, real) * banks for mine, real, banks in zip(self.ours, self.theirs, self.banks))
        return both, either


class Rejected(NamedTuple):
    """Number of records that could not be decoded."""

    records: int


class Claimed(NamedTuple):
    """The source reports a pid that differs from the one the kernel reports."""

    pid: int


class Mark(NamedTuple):
    """A point in time that the user named."""

    text: str


class PhaseBegan(NamedTuple):
    """A phase that the user named begins; ``parent`` is the enclosing phase, 0 for none."""

    ident: int
    name: str
    parent: int = 0


class PhaseEnded(NamedTuple):
    """A phase ended."""

    ident: int


class Viewed(NamedTuple):
    """The numbers that an allocator reports for one kind of memory; bytes in one bank."""

    device: Device
    allocator: int
    kind: Kind
    banks: int
    size: int
    allocated: int
    largest_free: int


class ProcessExited(NamedTuple):
    """The process exited, so everything that it held is free."""


class PeaksReset(NamedTuple):
    """The peaks "since reset" start again from the current values."""


Event = Union[
    Allocated,
    Freed,
    Described,
    Failed,
    ProgramRun,
    WorkloadRun,
    ProgramCompiled,
    ProgramDestroyed,
    DeviceOpened,
    DeviceClosed,
    ChipFound,
    ResyncBegin,
    ResyncStep,
    ResyncEnd,
    Lost,
    GapBegan,
    CaughtUp,
    Uncertain,
    Sees,
    Audited,
    Rejected,
    Claimed,
    Mark,
    PhaseBegan,
    PhaseEnded,
    Viewed,
    ProcessExited,
    PeaksReset,
]
