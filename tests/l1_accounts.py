# SPDX-License-Identifier: Apache-2.0
"""An account of one chip, for tests of what is on its cores."""

from __future__ import annotations

from typing import Any

from ttmem.account.ledger import Ledger
from ttmem.l1.core_map import (
    Core,
    L1Map,
    complete_map,
)
from ttmem.l1.core_segments import Segment, segments
from ttmem.model.core_sets import CoreRange, mask_of
from ttmem.model.events import Allocated, DeviceOpened, Extra
from ttmem.model.geometry import BOARDS, Arch, Geometry
from ttmem.model.identity import ChipInfo, ProcessInfo
from ttmem.model.kinds import Confidence, Kind

SMALL = Geometry(Arch.WORMHOLE_B0, 3, 2, 2048, 256, 96, 12, 1 << 30, l1_small_size=128, live=True)
N150 = BOARDS["n150"]._replace(live=True)
GRID = mask_of([CoreRange(0, 0, 7, 7)])


class Account:
    """A ledger with one chip, and its map."""

    def __init__(self, geometry: Geometry, *sources: tuple[str, Confidence]) -> None:
        self.geometry = geometry
        self.ledger = Ledger()
        self.sources = [
            self.ledger.source(0.0, ProcessInfo(pid, 1), name, confidence)
            for pid, (name, confidence) in enumerate(sources or (("agent", Confidence.EXACT),), 1)
        ]
        for source in self.sources:
            self.ledger.apply(0.0, source, DeviceOpened(0, ChipInfo("77", geometry=geometry)))

    def apply(self, *events: Any, source: int = 0) -> None:
        for event in events:
            self.ledger.apply(1.0, self.sources[source], event)

    def buffer(self, address: int, on_each: int, kind: Kind = Kind.L1, **extra: Any) -> None:
        reserved = on_each * self.geometry.cores
        size = extra.pop("size", reserved)
        self.apply(Allocated(0, kind, address, size, extra=Extra(reserved, **extra)))

    def part(self, program: int, address: int, on_each: int, cores: int, kind: Kind = Kind.CB, **extra: Any) -> None:
        size = on_each * cores.bit_count()
        self.apply(Allocated(0, kind, address, size, program, extra=Extra(cores=cores, **extra)))

    def map(self) -> L1Map:
        return complete_map(self.ledger.chips["77"], self.geometry)

    def core(self, x: int = 0, y: int = 0) -> Core:
        found = self.map().core(x, y)
        assert found is not None
        return found

    def segments(self, x: int = 0, y: int = 0) -> list[Segment]:
        found = self.map()
        core = found.core(x, y)
        assert core is not None
        return [*segments(found, core)]
