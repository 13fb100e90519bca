# SPDX-License-Identifier: Apache-2.0
"""An open ttnn device: its chips, their sizes, and the allocations reported on them."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from operator import attrgetter
from typing import Any

from ttmem.collect.client import AllocationClient
from ttmem.collect.ttnn_graph import GraphBuffer, GraphPart, GraphProgram
from ttmem.model.geometry import Arch, Geometry
from ttmem.model.identity import ChipInfo, assumed_chip_id
from ttmem.model.kinds import Kind

Place = tuple[int, int]  # kind, address

_KINDS = (Kind.DRAM, Kind.L1, Kind.L1_SMALL, Kind.TRACE)
# The number of a kind is that of ttnn's BufferType. Reading the value by its public name costs five times as much.
_place = attrgetter("buffer_type._value_", "address")
_HYBRID = "TT_METAL_ALLOCATOR_MODE_HYBRID"


class Mesh:
    """One device of ttnn: one or more chips with one allocator. It is kept alive until it is closed."""

    def __init__(self, ttnn: Any, device: Any, client: AllocationClient) -> None:
        self._ttnn = ttnn
        self._client = client
        self.device = device
        self.ident: int = device.id()
        self.chips: list[int] = [int(chip) for chip in device.get_device_ids()]
        self._foreign = 0  # programs in the cache that were made before tracking
        self._banks = {int(kind): self._view(kind).num_banks for kind in _KINDS}
        self.unit: int = ttnn.get_dram_alignment()  # alignment of blocks in a bank and of program parts, also in L1
        self._hybrid = os.environ.get(_HYBRID) == "1"  # then block sizes are computed differently
        self._live: set[Place] = set()
        self._programs: dict[int, list[int]] = {}  # number -> chips
        self.base: int = ttnn._ttnn.reports.get_device_info(device).address_at_first_l1_cb_buffer

    @property
    def allocator(self) -> int:
        return self.ident + 1  # 0 means no particular allocator

    # -- buffers -------------------------------------------------------------------------------------------------

    def apply(self, buffer: GraphBuffer, tag: str) -> None:
        """Report what an operation did."""
        if buffer.kind in _KINDS and buffer.address:  # address 0 is used only by virtual buffers
            place = int(buffer.kind), buffer.address
            if place in self._live:
                self._freed(place)
            if buffer.came:
                per_bank = -(-buffer.per_bank // self.unit) * self.unit
                self._came(place, buffer.size, per_bank, tag)

    def look(self) -> int:
        """Compare with ttnn's list and report changes that no operation reported; returns the number of new buffers.

        The list has no requested sizes, so the reserved size is used for these buffers.
        """
        listed = self._ttnn._ttnn.reports.get_buffers([self.device])
        found = set(map(_place, listed))
        new = found.difference(self._live)
        if len(found) - len(new) < len(self._live):
            for place in [place for place in self._live if place not in found]:
                self._freed(place)
        if new:
            for buffer in listed:
                place, per_bank = _place(buffer), buffer.max_size_per_bank
                if place in new:
                    exact = per_bank % self.unit == 0  # else the gaps between its pages are not included
                    self._came(place, per_bank * self._banks[place[0]], per_bank if exact else None, None)
        return len(new)

    def _came(self, place: Place, size: int, per_bank: int | None, tag: str | None) -> None:
        kind, address = place
        self._live.add(place)
        reserved = None if per_bank is None or self._hybrid else per_bank * self._banks[kind]
        self._client.report_allocation(
            device_id=tuple(self.chips), size=size, buffer_type=kind, buffer_id=address, reserved=reserved,
            allocator=self.allocator, tag=tag,
        )  # fmt: skip

    def _freed(self, place: Place) -> None:
        self._live.remove(place)
        self._client.report_deallocation(
            device_id=tuple(self.chips), buffer_id=place[1], buffer_type=place[0], allocator=self.allocator
        )

    # -- programs ------------------------------------------------------------------------------------------------

    def made(self, number: int, program: GraphProgram) -> None:
        """Report a new program and its circular buffers."""
        chips = sorted(set(program.chips) | {part.device for part in program.parts}) or self.chips
        self._programs[number] = chips
        for chip in chips:
            self._client.report_program_compiled(device_id=chip, program=number, tag=program.name)
        for part in program.parts:
            self._part(part.device, number, part, program.name)

    def revealed(self, number: int, parts: list[GraphPart], tag: str) -> None:
        """Report the parts of a program that a virtual run showed."""
        for chip in self._programs[number]:
            for part in parts:
                self._part(chip, number, part, tag)

    def _part(self, chip: int, number: int, part: GraphPart, tag: str) -> None:
        what: dict[str, Any] = {
            "device_id": chip,
            "size": part.total,
            "program": number,
            "cores": part.cores,
            "tag": tag,
        }
        if part.kind is Kind.CB:
            self._client.report_cb_allocation(cb_id=part.address, shared=part.shared, **what)
        elif part.kind is Kind.DFB:
            self._client.report_dfb_allocation(dfb_id=part.address, **what)
        else:
            self._client.report_scratchpad_allocation(address=part.address, **what)

    def settle(self, numbers: list[int]) -> None:
        """Remove the new programs that did not get into the cache: the last ones, after a failure."""
        missing = len(self._programs) + self._foreign - self.device.num_program_cache_entries()
        for number in numbers[max(0, len(numbers) - missing) :] if missing > 0 else ():
            self.destroyed(number)

    def holds(self, number: int) -> bool:
        return number in self._programs

    def destroyed(self, number: int) -> None:
        for chip in self._programs.pop(number):
            self._client.report_program_destroyed(device_id=chip, program=number)

    def check_cache(self) -> None:
        """A program cache that shrank was cleared, because entries are never removed one by one."""
        entries = self.device.num_program_cache_entries()
        if entries < len(self._programs) + self._foreign:
            for number in list(self._programs):
                self.destroyed(number)
        self._foreign = entries - len(self._programs)

    # -- the whole -----------------------------------------------------------------------------------------------

    def forget(self) -> None:
        """Report everything as freed."""
        for place in list(self._live):
            self._freed(place)
        for number in list(self._programs):
            self.destroyed(number)

    def parts_of(self) -> Iterator[int]:
        """The devices that were made from this one, and those made from them."""
        todo = list(self.device.get_submeshes())
        while todo:
            device = todo.pop()
            yield device.id()
            todo += device.get_submeshes()

    def chip_infos(self) -> Iterator[tuple[int, ChipInfo]]:
        """The number of each chip, and what ttnn reports about it."""
        geometry = self._geometry()
        chip_ids = self._chip_ids()
        for chip in self.chips:
            yield chip, ChipInfo(chip_ids.get(chip) or assumed_chip_id(chip), arch=geometry.arch, geometry=geometry)

    def _geometry(self) -> Geometry:
        ttnn, device = self._ttnn, self.device
        info = ttnn._ttnn.reports.get_device_info(device)
        sizes = {kind: self._view(kind).total_bytes_per_bank for kind in _KINDS}
        l1_size: int = info.worker_l1_size
        dram_base = ttnn.get_allocator_base_address(device, ttnn.BufferType.DRAM)
        return Geometry(
            arch=Arch.__members__.get(device.arch().name, Arch.UNKNOWN),
            grid_x=info.num_x_compute_cores,
            grid_y=info.num_y_compute_cores,
            l1_size=l1_size,
            l1_base=self.base,
            map_end=l1_size - ttnn._ttnn.device.get_max_worker_l1_unreserved_size(),
            dram_banks=self._banks[Kind.DRAM],
            dram_bank_size=dram_base + sizes[Kind.DRAM] + sizes[Kind.TRACE],
            l1_small_size=sizes[Kind.L1_SMALL],
            trace_size=sizes[Kind.TRACE],
            live=True,
        )

    def _view(self, kind: Kind) -> Any:
        return self._ttnn.get_memory_view(self.device, getattr(self._ttnn.BufferType, kind.name))

    def _chip_ids(self) -> dict[int, str]:
        """Unique ids by chip, as far as this ttnn has them."""
        ttnn, device = self._ttnn, self.device
        found = {}
        try:
            for coordinate in itertools.starmap(ttnn.MeshCoordinate, itertools.product(*map(range, device.shape))):
                node = device.get_fabric_node_id(coordinate)
                chip_id = ttnn._ttnn.cluster.get_chip_unique_id_from_fabric_node_id(
                    device, int(node.mesh_id), int(node.chip_id)
                )
                found[int(device.get_device_id(coordinate))] = str(chip_id)
        except Exception:
            return {}
        return found
