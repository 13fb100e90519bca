# SPDX-License-Identifier: Apache-2.0
"""The allocations, frees and failures of a recording, in order, as steps that a simulated allocator can repeat."""

from __future__ import annotations

from typing import NamedTuple

from ttmem.account.ledger import Ledger
from ttmem.analyze.failure_messages import parse
from ttmem.analyze.failure_types import OutOfMemory
from ttmem.analyze.page_sizes import page_of
from ttmem.model.events import Allocated, Described, DeviceClosed, DeviceOpened, Event, Failed, Freed
from ttmem.model.geometry import Geometry
from ttmem.model.kinds import Kind
from ttmem.model.stack_frames import line_of
from ttmem.recording.recording_file import Recording

KINDS = (Kind.DRAM, Kind.L1, Kind.L1_SMALL)
_INTERLEAVED = 0


class Step(NamedTuple):
    """One step. A free has the number of the step that allocated; a failure has no address."""

    frees: int | None
    kind: Kind
    size: int  # of all banks, as requested
    per_bank: int
    banks: int  # banks of the recorded device
    address: int | None
    failed: bool
    sharded: bool
    name: str  # operation, shape and line, as far as known
    page: int | None  # bytes of a page, if they follow from the shape


class Steps(NamedTuple):
    """The steps of the first device that the recording has, and its geometry."""

    steps: list[Step]
    geometry: Geometry
    left_out: int  # allocations that cannot be repeated: on other devices, per core, of unknown size


class NotReplayable(Exception):
    """The recording has nothing that can be repeated; the message says why."""


class _Collector:
    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.geometry: Geometry | None = None
        self.left_out = 0
        self._device: object = None
        self._live: dict[tuple[Kind, int], int] = {}

    def see(self, ledger: Ledger, event: Event) -> bool:
        if isinstance(event, DeviceOpened):
            self.geometry = self.geometry or event.chip.geometry
        elif isinstance(event, Allocated) and not event.program and event.kind in KINDS:
            self._allocated(event)
        elif isinstance(event, Described) and event.device == self._device:
            self._described(event)
        elif isinstance(event, Freed) and event.kind in KINDS and event.device == self._device:
            self._freed(event.kind, event.address)
        elif isinstance(event, Failed):
            self._failed(event)
        elif isinstance(event, DeviceClosed) and event.device == self._device:
            for kind, address in list(self._live):
                self._freed(kind, address)
        return False

    def _allocated(self, event: Allocated) -> None:
        extra, geometry = event.extra, self.geometry
        if self._device is None:
            self._device = event.device
        if (
            geometry is None
            or extra is None
            or extra.reserved is None
            or extra.per_core
            or event.device != self._device
        ):
            self.left_out += 1
            return
        banks = geometry.dram_banks if event.kind is Kind.DRAM else geometry.cores
        sharded = extra.layout not in (None, _INTERLEAVED)
        name = " ".join(filter(None, (extra.tag, extra.shape, line_of(extra.stack))))
        if (event.kind, event.address) in self._live:
            return  # sent again
        self._live[event.kind, event.address] = len(self.steps)
        page = page_of(extra.shape, interleaved=not sharded)
        self.steps.append(
            Step(
                None, event.kind, event.size, extra.reserved // banks, banks, event.address, False, sharded, name, page
            )
        )

    def _described(self, event: Described) -> None:
        """The shape is known after the operation has returned."""
        number, extra = self._live.get((event.kind, event.address)), event.extra
        if number is not None and extra.shape is not None:
            step = self.steps[number]
            page = page_of(extra.shape, interleaved=not step.sharded)
            name = " ".join(filter(None, (extra.tag, extra.shape, line_of(extra.stack))))
            self.steps[number] = step._replace(name=name, page=page)

    def _freed(self, kind: Kind, address: int) -> None:
        number = self._live.pop((kind, address), None)
        if number is not None:
            self.steps.append(self.steps[number]._replace(frees=number))

    def _failed(self, event: Failed) -> None:
        found = parse(event.text)
        if not isinstance(found, OutOfMemory) or found.kind not in KINDS:
            return
        geometry = self.geometry
        banks = found.banks if geometry is None else geometry.dram_banks if found.kind is Kind.DRAM else geometry.cores
        name = " ".join(filter(None, (event.tag, line_of(event.stack))))
        sharded = found.banks != banks
        self.steps.append(Step(None, found.kind, found.size, found.per_bank, banks, None, True, sharded, name, None))


def steps_of(recording: Recording) -> Steps:
    """Read all steps. A device, or a mesh of devices in lock step, has one allocator; the first one is taken."""
    if len(recording.processes) > 1:
        raise NotReplayable(
            f"the recording has {len(recording.processes)} processes, each with its own allocator; record one with "
            "`ttmem run --record`"
        )
    collector = _Collector()
    recording.replay(Ledger(), reached=collector.see)
    if collector.geometry is None or not collector.steps:
        raise NotReplayable("the recording has no allocations of known size on a device of known geometry")
    return Steps(collector.steps, collector.geometry, collector.left_out)
