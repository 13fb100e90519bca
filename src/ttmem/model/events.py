# SPDX-License-Identifier: Apache-2.0
"""The event vocabulary. The account is a fold over these; nothing enters it another way.

Each event is applied for a source (a stream of reports by one process) at a time, both given beside it. Device
numbers are the process's own; which chip they mean is the ledger's business. An event on a mesh is one event, with the
numbers of all its devices; an allocation on it is one allocation, and is freed on the same mesh.
"""

from __future__ import annotations

from typing import NamedTuple, Union

from ttmem.model.identity import ChipInfo
from ttmem.model.kinds import Kind

MAX_SIZE = 100 << 30  # of one allocation: the legacy server's limit, three times the largest chip


# Where an event happened: on a device of the process, or on all devices of a mesh at once. A mesh of one is its device.
Device = Union[int, tuple[int, ...]]


def device_numbers(device: Device) -> tuple[int, ...]:
    """The numbers of a device or mesh.

    >>> device_numbers(3), device_numbers((0, 1))
    ((3,), (0, 1))
    """
    return device if isinstance(device, tuple) else (device,)


class Extra(NamedTuple):
    """What only some sources know about an allocation. ``cores`` is a mask (see grid); 0 means unknown."""

    reserved: int | None = None
    cores: int = 0
    allocator: int = 0
    tag: str | None = None
    shared: bool = False  # lies inside an L1 buffer that is counted already (globally allocated CB)
    layout: int | None = None  # tt-metal's TensorMemoryLayout code
    core_count: int = 0  # cores that hold pages of a sharded buffer
    binary: bool = False  # holds the kernel binaries of a cached program
    system: bool = False  # the runtime took it for itself when the device was opened
    shape: str | None = None  # of the tensor in it, with data type and layout
    stack: str | None = None  # of Python when it was made: "file:line function", one line a frame, innermost first
    kept: bool = False  # an operation that made a program made it, too, and did not return it
    per_core: bool = False  # has an address of its own on each core, of which only the first is known


class Allocated(NamedTuple):
    """An allocation exists. ``refs`` 0 is a plain report; above 0 it is a re-sent allocation with that many references.

    ``ident`` is the source's own number of a buffer; 0 means that its address tells it from all others.
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
    """An allocation is gone. Legacy clients do not say the kind; size and kind are hints then."""

    device: Device
    kind: Kind | None
    address: int
    size: int = 0
    program: int = 0
    allocator: int = 0
    cores: int = 0
    ident: int = 0


class Described(NamedTuple):
    """More is known of a buffer than when it was allocated; its sizes are what they were."""

    device: Device
    kind: Kind
    address: int
    extra: Extra
    ident: int = 0


class Failed(NamedTuple):
    """The runtime threw where memory is taken. ``device`` is None if it is not known where that was."""

    device: int | None
    text: str
    tag: str | None = None
    stack: str | None = None


class ProgramRun(NamedTuple):
    """A program was launched: its circular and dataflow buffers are now the resident ones on these cores."""

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
    """A program exists: what it needs of the kernel ring of a core, Metal's own number of it, and its operation."""

    device: Device
    program: int
    ring: int
    metal_id: int
    tag: str | None = None
    stack: str | None = None


class ProgramDestroyed(NamedTuple):
    """A program and everything it held is gone."""

    device: Device
    program: int


class DeviceOpened(NamedTuple):
    """A process says which chip its device number means, and how large it is."""

    device: int
    chip: ChipInfo


class DeviceClosed(NamedTuple):
    """Everything this source holds on the device or mesh is gone. Other meshes with the same chips are not meant."""

    device: Device


class ChipFound(NamedTuple):
    """The machine has this chip; no process needed."""

    chip: ChipInfo


class ResyncBegin(NamedTuple):
    """The source starts to re-send all that is live."""

    generation: int


class ResyncEnd(NamedTuple):
    """What was not re-sent since the matching begin is gone."""

    generation: int


class Lost(NamedTuple):
    """Events that the source could not send; their effect is in the resync, their course is not."""

    events: int


class Uncertain(NamedTuple):
    """The source counted something for one of the reasons in `uncertainty`, so many times more than before."""

    reason: str
    events: int


class Sees(NamedTuple):
    """Which kinds the source is able to see (a bit each), and in words what it cannot and why."""

    kinds: int
    trouble: str | None = None


class Audited(NamedTuple):
    """What the source tracks on a device beside what that allocator itself says; bytes in one bank."""

    device: Device
    allocator: int
    ours: tuple[int, int]  # DRAM and TRACE together, L1 and L1_SMALL together
    theirs: tuple[int, int]
    largest_free: tuple[int, int]  # DRAM, L1
    banks: tuple[int, int]
    mismatches: int = 0

    @property
    def agreement(self) -> tuple[int, int]:
        """Bytes on the chip that both agree on, and that either knows: tracked and not there is as wrong as missed."""
        both = sum(min(mine, real) * banks for mine, real, banks in zip(self.ours, self.theirs, self.banks))
        either = sum(max(mine, real) * banks for mine, real, banks in zip(self.ours, self.theirs, self.banks))
        return both, either


class Rejected(NamedTuple):
    """Input that could not be understood; kept as a number."""

    records: int


class Claimed(NamedTuple):
    """The source calls itself by another pid than the kernel does."""

    pid: int


class Mark(NamedTuple):
    """A moment the user named."""

    text: str


class PhaseBegan(NamedTuple):
    """The user named a stretch of the run that begins here; ``parent`` is the phase it lies in, 0 for none."""

    ident: int
    name: str
    parent: int = 0


class PhaseEnded(NamedTuple):
    """A phase that had begun is over."""

    ident: int


class Viewed(NamedTuple):
    """What an allocator says of one kind of memory; bytes in one bank."""

    device: Device
    allocator: int
    kind: Kind
    banks: int
    size: int
    allocated: int
    largest_free: int


class ProcessExited(NamedTuple):
    """The process is gone, and with it all it held."""


class PeaksReset(NamedTuple):
    """From now on "recent" peaks count anew."""


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
    ResyncEnd,
    Lost,
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
