# SPDX-License-Identifier: Apache-2.0
"""The true contents of simulated devices, read from their allocators and programs, not from reports.

Tests compare the account with it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from ttmem.model.core_sets import CoreRange, cores_of, mask_of
from ttmem.model.kinds import BUFFER_KINDS, Kind
from ttmem.sim.device import SYSTEM_KERNELS, AnyDevice, Chip

_OF_ALLOCATOR = [kind for kind in BUFFER_KINDS if kind is not Kind.HOST]
_SYSTEM_KINDS = {1: Kind.FABRIC_KERNEL, 2: Kind.DISPATCH_KERNEL}

Core = tuple[int, int]


class Held:
    """The contents of one chip: requested and reserved bytes by kind, and bytes by kind on each core of the grid."""

    def __init__(self) -> None:
        self.used: Counter[Kind] = Counter()
        self.reserved: Counter[Kind] = Counter()
        self.cores: dict[Core, Counter[Kind]] = {}

    def json(self) -> dict[str, Any]:
        return {
            "used": {kind.label: size for kind, size in self.used.items() if size},
            "reserved": {kind.label: size for kind, size in self.reserved.items() if size},
            "cores": {
                f"{x},{y}": {kind.label: size for kind, size in sizes.items() if size}
                for (x, y), sizes in self.cores.items()
            },
        }


def held(devices: Iterable[AnyDevice]) -> dict[str, Held]:
    """The contents by unique id of the chip; closed devices hold nothing."""
    chips: dict[str, Held] = {}
    for device in devices:
        if device.is_open:
            for chip in device.get_devices():
                _add(chips.setdefault(chip.unique_id, Held()), device, chip)
    return chips


def _add(sum_: Held, device: AnyDevice, chip: Chip) -> None:
    geometry = device.allocator.geometry
    grid = [(x, y) for y in range(geometry.grid_y) for x in range(geometry.grid_x)]
    if not sum_.cores:  # the first device on this chip: count what opening the chip put there
        sum_.cores = {core: Counter({Kind.FIRMWARE: geometry.map_end}) for core in grid}
        sum_.used[Kind.FIRMWARE] = geometry.map_end * len(grid)
        for kernel_type, _, size, cores in SYSTEM_KERNELS:
            sum_.used[_SYSTEM_KINDS[kernel_type]] = size * cores
    for kind in _OF_ALLOCATOR:
        taken = sum(device.allocator.blocks(kind).live().values())
        sum_.reserved[kind] += taken * device.allocator.banks(kind)
        if kind in (Kind.L1, Kind.L1_SMALL):
            for core in grid:
                sum_.cores[core][kind] += taken
    for buffer in device.buffers():
        sum_.used[buffer.buffer_type] += buffer.need.pages * buffer.need.page
    for program in device.programs():
        for kind, parts in (
            (Kind.CB, program.circular_buffers),
            (Kind.DFB, program.dataflow_buffers),
            (Kind.SCRATCHPAD, program.scratchpads),
        ):
            for part in parts:
                if part.backing is None:
                    _add_on_cores(sum_, kind, part.size, part.cores)
        if not device.options.kernel_writes:
            for group in program.groups():
                _add_on_cores(sum_, Kind.KERNEL, group.size, group.cores)
    for (x, y), size in device.written.items():
        _add_on_cores(sum_, Kind.KERNEL, size, mask_of([CoreRange(x, y, x, y)]))


def _add_on_cores(sum_: Held, kind: Kind, size: int, cores: int) -> None:
    for core in cores_of(cores):
        sum_.cores[core][kind] += size
        sum_.used[kind] += size
