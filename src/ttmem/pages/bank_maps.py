# SPDX-License-Identifier: Apache-2.0
"""The maps of a report: for each chip group, addresses over time in one bank of DRAM and in one core's L1."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ttmem.model.geometry import Geometry
from ttmem.model.kinds import BREAKDOWN_POOLS, BreakdownPool
from ttmem.pages.address_rectangles import (
    RASTER_COLUMNS,
    RASTER_ROWS,
    Boxes,
    chosen_boxes,
    coverage,
    rectangle_columns,
)
from ttmem.pages.chip_groups import ChipGroup
from ttmem.pages.sections import Column, Sections
from ttmem.recording.allocation_table import NEVER, AllocationTable, BankRegion
from ttmem.recording.record_arrays import Array

if TYPE_CHECKING:
    from ttmem.model.page_schema import ReportMap

_LABELS = {
    BreakdownPool.DRAM: "one bank of DRAM",
    BreakdownPool.L1_BUFFERS: "L1 of one core; buffers have the same address on every core",
}


class BankRange(NamedTuple):
    """The addresses of a bank that a map shows; ``main`` is without L1_SMALL and without the region of traces."""

    base: int
    size: int
    banks: int
    main_base: int
    main_size: int


class MadeMaps(NamedTuple):
    maps: list[ReportMap]
    notes: list[str]


def bank_maps(
    table: AllocationTable, group: ChipGroup, geometry: Geometry | None, sites: Array, until: int, sections: Sections,
    prefix: str, reach: list[Column] | None,
) -> MadeMaps:  # fmt: skip
    """The maps of a group. ``sites`` has the site of each row; ``reach`` is what programs take in L1."""
    made = MadeMaps([], [])
    for pool, label in _LABELS.items():
        kinds = np.array(BREAKDOWN_POOLS[pool], np.uint8)
        rows = group.rows[np.isin(table.kind[group.rows], kinds)]
        bank = _range(table, rows, pool, geometry)
        if bank is None or not bank.size or not (len(rows) or (pool is BreakdownPool.L1_BUFFERS and reach)):
            continue
        size, estimated = _sizes(table, rows, bank)
        address = table.address[rows].astype(np.int64)
        inside = (address >= bank.base) & (address < bank.base + bank.size) & (size > 0)
        _note(made.notes, label, group, int((~inside).sum()), int((estimated & inside).sum()))
        rows, size, address = rows[inside], size[inside], address[inside]
        live = table.end[rows] == NEVER
        boxes = Boxes(np.maximum(table.begin[rows], 0), np.where(live, until, table.end[rows]), address, size)
        kept = chosen_boxes(boxes, until)
        name = f"{prefix}/{pool.label}"
        rectangles = sections.add_columns(
            f"{name}/rectangles", rectangle_columns(boxes.where(kept), live[kept], sites[rows[kept]], rows[kept])
        )
        raster = None
        if len(kept) < len(rows):
            rest = np.ones(len(rows), bool)
            rest[kept] = False
            used = coverage(boxes.where(rest), until, bank.base, bank.size)
            raster = sections.add_columns(f"{name}/coverage", [Column("used", "u8", used)])
            made.notes.append(
                f"{group_words(group)}, {label}: {len(kept):,} of {len(rows):,} buffers have a rectangle; "
                "the others are drawn as a raster"
            )
        reached = None
        if pool is BreakdownPool.L1_BUFFERS and reach:
            reached = sections.add_columns(f"{name}/reach", reach)
        made.maps.append({
            "pool": pool.label, "label": label, "base": bank.base, "size": bank.size, "banks": bank.banks,
            "main_base": bank.main_base, "main_size": bank.main_size, "total": len(rows),
            "rectangles": rectangles, "coverage": raster, "columns": RASTER_COLUMNS,
            "rows": RASTER_ROWS, "reach": reached,
        })  # fmt: skip
    return made


def group_words(group: ChipGroup) -> str:
    return f"chip {group.shown_chip}" if len(group.chips) == 1 else f"{len(group.chips)} chips"


def _range(table: AllocationTable, rows: Array, pool: BreakdownPool, geometry: Geometry | None) -> BankRange | None:
    """The addresses that the allocators of these buffers give out; without one, those of the geometry."""
    numbers = np.unique(table.allocator[rows])
    allocators = [table.allocators[number].regions for number in numbers[numbers >= 0].tolist()]
    kinds = BREAKDOWN_POOLS[pool]
    regions = [region for one in allocators for kind, region in one.items() if kind in kinds]
    if regions:
        base, size = _around(regions)
        main = [one[kinds[0]] for one in allocators if kinds[0] in one]
        return BankRange(base, size, max(one.banks for one in regions), *(_around(main) if main else (base, size)))
    if geometry is None:
        return None
    if pool is BreakdownPool.DRAM:
        base, size, banks = 0, geometry.dram_bank_size, geometry.dram_banks
    else:
        base, size, banks = geometry.l1_base, geometry.l1_size - geometry.l1_base, geometry.cores
    return BankRange(base, size, banks, base, size)


def _around(regions: list[BankRegion]) -> tuple[int, int]:
    """The lowest address of some regions, and the bytes from there to their end."""
    base = min(one.base for one in regions)
    return base, max(one.base + one.size for one in regions) - base


def _sizes(table: AllocationTable, rows: Array, bank: BankRange) -> tuple[Array, Array]:
    """Bytes of each buffer in a bank, and which are an estimate: the size divided by the number of banks."""
    per_bank, reserved = table.per_bank[rows], table.reserved[rows]
    estimated = per_bank <= 0
    total = np.where(reserved > 0, reserved, table.size[rows])
    return np.where(estimated, -(-total // bank.banks), per_bank), estimated


def _note(notes: list[str], label: str, group: ChipGroup, outside: int, estimated: int) -> None:
    if outside:
        notes.append(f"{group_words(group)}, {label}: {outside:,} buffers have no address there and are not drawn")
    if estimated:
        notes.append(
            f"{group_words(group)}, {label}: the source did not report the bytes in a bank; heights of "
            f"{estimated:,} buffers are their size divided by the number of banks"
        )
