# SPDX-License-Identifier: Apache-2.0
"""The CSV reports of ``ttnn.dump_device_memory_state``, written from a simulated device."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ttmem.model.kinds import Kind
from ttmem.sim.allocator import Allocator
from ttmem.sim.free_list import CLASS_BASE_BYTES, FreeList

# The stock wheel leaves out the trace region.
_KINDS = (Kind.DRAM, Kind.L1, Kind.L1_SMALL)
_COLUMN_CHARACTERS = 12


def dump_device_memory_state(allocator: Allocator, folder: Path, prefix: str = "") -> None:
    """Write the three reports below ``folder/generated/reports``, replacing existing ones."""
    reports = folder / "generated" / "reports"
    reports.mkdir(parents=True, exist_ok=True)
    for name, lines in (
        ("memory_usage_summary", _memory_summary(allocator)),
        ("l1_usage_summary", _l1_summary(allocator)),
        ("detailed_memory_usage", _details(allocator)),
    ):
        (reports / f"{prefix}{name}.csv").write_text("".join(f"{line}\n" for line in lines))


def _memory_summary(allocator: Allocator) -> Iterator[str]:
    """Bytes of one bank, a line each for DRAM, L1 and L1_SMALL, without their names."""
    yield ", Total Allocatable Size (B), Total Allocated (B), Total Free (B), Largest Free Block (B)"
    for kind in _KINDS:
        yield "".join(f",{number}" for number in allocator.statistics(kind))


def _l1_summary(allocator: Allocator) -> Iterator[str]:
    largest = allocator.statistics(Kind.L1).largest
    yield "This report indicates available space for interleaving L1 buffers"
    yield ", Largest Contiguous Free Block (B), Total Free L1 Space (B)"
    # The stock wheel's "total" is the largest free block in every bank, not all free bytes.
    yield f",{largest},{largest * allocator.banks(Kind.L1)}"


def _details(allocator: Allocator) -> Iterator[str]:
    """Bytes of all banks together, then the blocks of one."""
    for kind in _KINDS:
        statistics, banks = allocator.statistics(kind), allocator.banks(kind)
        yield f",{kind.name}"
        yield f",Total allocatable (B):,{statistics.size * banks}"
        yield f",Total allocated (B):,{statistics.allocated * banks}"
        yield f",Total free (B):,{statistics.free * banks}"
        yield from _blocks(allocator.blocks(kind))


def _blocks(blocks: FreeList) -> Iterator[str]:
    yield "FreeListOpt allocator info:"
    yield "segregated free blocks by size:"
    classes = blocks.free_classes()
    for number, idents in enumerate(classes):
        end = CLASS_BASE_BYTES << (number + 1) if number + 1 < len(classes) else "inf"
        yield f"  Size class {number}: ({CLASS_BASE_BYTES << number} - {end}) blocks: {_each(idents)}"
    yield f"Free slots in block table: {_each(blocks.spare_ids())}"
    yield "Block table:"
    yield "".join(
        f"{name:>{_COLUMN_CHARACTERS}} " for name in ("Block", "Address", "Size", "PrevID", "NextID", "Allocated")
    )
    for block in blocks.blocks():
        neighbours = ("none" if ident is None else ident for ident in (block.previous, block.following))
        cells = (block.ident, block.address, block.size, *neighbours, "yes" if block.used else "no")
        yield " ".join(f"{cell:>{_COLUMN_CHARACTERS}}" for cell in cells)


def _each(idents: list[int]) -> str:
    return "".join(f"{ident} " for ident in idents)
