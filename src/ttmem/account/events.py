# SPDX-License-Identifier: Apache-2.0
"""The event vocabulary. The account is a fold over these; nothing enters it another way.

Each event is applied for a source (a stream of reports by one process) at a time, both given beside it. Device
numbers are the process's own; which chip they mean is the ledger's business.
"""

from __future__ import annotations

from typing import NamedTuple, Union

from ttmem.account.identity import ChipInfo
from ttmem.account.kinds import Kind

MAX_SIZE = 100 << 30  # of one thing: the legacy server's limit, three times the largest chip


class Extra(NamedTuple):
    """What only some sources know about a thing. ``cores`` is a mask (see grid); 0 means unknown."""

    reserved: int | None = None
    cores: int = 0
    allocator: int = 0
    tag: str | None = None
    shared: bool = False  # lies inside an L1 buffer that is counted already (globally allocated CB)


class Allocated(NamedTuple):
    """A thing exists. ``refs`` 0 is a plain report; above 0 it is a re-sent thing with that many references."""

    device: int
    kind: Kind
    address: int
    size: int
    program: int = 0
    refs: int = 0
    extra: Extra | None = None


class Freed(NamedTuple):
    """A thing is gone. Legacy clients do not say the kind; size and kind are hints then."""

    device: int
    kind: Kind | None
    address: int
    size: int = 0
    program: int = 0
    allocator: int = 0
    cores: int = 0


class ProgramRun(NamedTuple):
    """A program was launched: its circular and dataflow buffers are now the resident ones on these cores."""

    device: int
    program: int
    cores: int


class ProgramDestroyed(NamedTuple):
    """A program and everything it held is gone."""

    device: int
    program: int


class DeviceOpened(NamedTuple):
    """A process says which chip its device number means, and how large it is."""

    device: int
    chip: ChipInfo


class DeviceClosed(NamedTuple):
    """Everything this source holds on the device is gone."""

    device: int


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


class Rejected(NamedTuple):
    """Input that could not be understood; kept as a number."""

    records: int


class Claimed(NamedTuple):
    """The source calls itself by another pid than the kernel does."""

    pid: int


class Mark(NamedTuple):
    """A moment the user named."""

    text: str


class ProcessExited(NamedTuple):
    """The process is gone, and with it all it held."""


class PeaksReset(NamedTuple):
    """From now on "recent" peaks count anew."""


Event = Union[
    Allocated,
    Freed,
    ProgramRun,
    ProgramDestroyed,
    DeviceOpened,
    DeviceClosed,
    ChipFound,
    ResyncBegin,
    ResyncEnd,
    Lost,
    Rejected,
    Claimed,
    Mark,
    ProcessExited,
    PeaksReset,
]
