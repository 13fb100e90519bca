# SPDX-License-Identifier: Apache-2.0
"""The allocations, frees and failures of a recording, in order, as steps that a simulated allocator can repeat."""

from __future__ import annotations

from typing import NamedTuple

from ttmem.account.ledger import Ledger
from ttmem.analyze.failure_messages import parse
from ttmem.analyze.failure_types import OutOfMemory
from ttmem.analyze.page_sizes import page_of
from ttmem.model.events import (
    Allocated,
    Described,
    Device,
    DeviceClosed,
    DeviceOpened,
    Event,
    Extra,
    Failed,
    Freed,
    device_numbers,
)
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
    """The steps of one device, or of a mesh whose devices allocate in lock step, and its geometry."""

    numbers: tuple[int, ...]  # of the devices
    steps: list[Step]
    geometry: Geometry


class Recorded(NamedTuple):
    """The steps of each allocator of the recording, in the order of their first use."""

    allocators: list[Steps]
    left_out: int  # allocations that cannot be repeated: per core, of unknown size, on a device of unknown geometry


class NotReplayable(Exception):
    """The recording has nothing that can be repeated; the message says why."""


class _Device:
    """The steps of one device or mesh."""

    def __init__(self, geometry: Geometry) -> None:
        self.geometry = geometry
        self.steps: list[Step] = []
        self._live: dict[tuple[Kind, int], int] = {}

    def allocated(self, event: Allocated, extra: Extra) -> None:
        banks = self.geometry.dram_banks if event.kind is Kind.DRAM else self.geometry.cores
        sharded = extra.layout not in (None, _INTERLEAVED)
        name = " ".join(filter(None, (extra.tag, extra.shape, line_of(extra.stack))))
        if (event.kind, event.address) in self._live:
            return  # sent again
        self._live[event.kind, event.address] = len(self.steps)
        page = page_of(extra.shape, interleaved=not sharded)
        per_bank = (extra.reserved or 0) // banks
        self.steps.append(
            Step(None, event.kind, event.size, per_bank, banks, event.address, False, sharded, name, page)
        )

    def described(self, event: Described) -> None:
        """The shape is known after the operation has returned."""
        number, extra = self._live.get((event.kind, event.address)), event.extra
        if number is not None and extra.shape is not None:
            step = self.steps[number]
            page = page_of(extra.shape, interleaved=not step.sharded)
            name = " ".join(filter(None, (extra.tag, extra.shape, line_of(extra.stack))))
            self.steps[number] = step._replace(name=name, page=page)

    def freed(self, kind: Kind, address: int) -> None:
        number = self._live.pop((kind, address), None)
        if number is not None:
            self.steps.append(self.steps[number]._replace(frees=number))

    def closed(self) -> None:
        for kind, address in list(self._live):
            self.freed(kind, address)

    def failed(self, event: Failed, found: OutOfMemory) -> None:
        banks = self.geometry.dram_banks if found.kind is Kind.DRAM else self.geometry.cores
        name = " ".join(filter(None, (event.tag, line_of(event.stack))))
        sharded = found.banks != banks
        self.steps.append(Step(None, found.kind, found.size, found.per_bank, banks, None, True, sharded, name, None))


class _Collector:
    """Gives each event to its device."""

    def __init__(self) -> None:
        self.devices: dict[Device, _Device] = {}
        self.left_out = 0
        self._geometries: dict[int, Geometry] = {}

    def see(self, ledger: Ledger, event: Event) -> bool:
        if isinstance(event, DeviceOpened):
            if event.chip.geometry is not None:
                self._geometries[event.device] = event.chip.geometry
        elif isinstance(event, Allocated) and not event.program and event.kind in KINDS:
            device, extra = self._device(event.device), event.extra
            if device is None or extra is None or extra.reserved is None or extra.per_core:
                self.left_out += 1
            else:
                device.allocated(event, extra)
        elif isinstance(event, Failed):
            self._failed(event)
        elif isinstance(event, (Described, Freed, DeviceClosed)) and event.device in self.devices:
            device = self.devices[event.device]
            if isinstance(event, Described):
                device.described(event)
            elif isinstance(event, DeviceClosed):
                device.closed()
            elif event.kind in KINDS:
                device.freed(event.kind, event.address)
        return False

    def _device(self, key: Device) -> _Device | None:
        """The device or mesh; None if the geometry of its chips is not known."""
        if key not in self.devices:
            geometry = self._geometries.get(device_numbers(key)[0])
            if geometry is None:
                return None
            self.devices[key] = _Device(geometry)
        return self.devices[key]

    def _failed(self, event: Failed) -> None:
        """A failure has the number of one device; of the meshes with this device, the one that was used last."""
        found = parse(event.text)
        if not isinstance(found, OutOfMemory) or found.kind not in KINDS:
            return
        number = event.device
        keys = [key for key in self.devices if number is None or number in device_numbers(key)]
        if not keys and number is not None:
            keys = [number]
        device = self._device(keys[-1]) if len(keys) == 1 or (keys and number is not None) else None
        if device is None:
            self.left_out += 1
        else:
            device.failed(event, found)


def steps_of(recording: Recording) -> Recorded:
    """Read all steps. Each device, and each mesh of devices in lock step, has an allocator of its own."""
    if len(recording.processes) > 1:
        raise NotReplayable(
            f"the recording has {len(recording.processes)} processes, and only one can be repeated; record one with "
            "`ttmem run --record`"
        )
    collector = _Collector()
    recording.replay(Ledger(), reached=collector.see)
    found = [
        Steps(device_numbers(key), device.steps, device.geometry)
        for key, device in collector.devices.items()
        if device.steps
    ]
    if not found:
        raise NotReplayable("the recording has no allocations of known size on a device of known geometry")
    return Recorded(found, collector.left_out)
