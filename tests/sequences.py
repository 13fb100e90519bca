# SPDX-License-Identifier: Apache-2.0
"""Replays recordings of tests/programs/ttnn_sequence.py on a simulated device, and compares every step."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ttmem.model.geometry import BOARDS, Arch
from ttmem.model.kinds import Kind
from ttmem.sim.allocator import Allocator
from ttmem.sim.errors import OutOfMemory, SimError
from ttmem.sim.reports import dump_device_memory_state
from ttmem.sim.tensors import BufferNeed, Dtype, Layout, MemoryConfig, MemoryLayout, TensorSpec, Tile

DRAM_ALIGNMENT = {Arch.WORMHOLE_B0: 32, Arch.BLACKHOLE: 64}
CHIPS = {"t3k": "n300"}
FIELDS_OF_NEED = {
    "page_size": "page",
    "aligned_page_size": "aligned_page",
    "total_size": "total",
    "banks_used": "banks",
    "size_per_bank": "per_bank",
}


class Replay:
    """A simulated device that repeats the steps of a recorded one."""

    def __init__(self, header: dict[str, Any], dram_base: int, folder: Path | None = None) -> None:
        x, y = header["compute_grid"]
        geometry = BOARDS[CHIPS.get(header["board"], header["board"])]._replace(grid_x=x, grid_y=y)
        self.allocator = Allocator(
            geometry,
            dram_base=dram_base,
            dram_alignment=DRAM_ALIGNMENT[geometry.arch],
            l1_small_size=header["l1_small_size"],
            trace_region_size=header["trace_region_size"],
        )
        self.seen = Counter[str]()
        self._folder = folder
        self._addresses: dict[int, int] = {}

    def step(self, record: dict[str, Any]) -> None:
        """Do a step and compare everything that was recorded."""
        number, what = record["step"], record["op"]
        self.seen[what] += 1
        if what == "free":
            kind = Kind[record["buffer_type"]]
            address = self._addresses.pop(record["of_step"])
            assert address == record["address"], number
            assert self.allocator.free(kind, address) == bool(address), number
        else:
            kind = self._allocate(record)
        self._compare_bank(kind, record)
        if self._folder is not None and "reports" in record:
            self._compare_reports(record["reports"], self._folder)

    def _allocate(self, record: dict[str, Any]) -> Kind:
        number, config = record["step"], record["memory_config"]
        kind = Kind[config["buffer_type"]]
        self.seen[f"{kind.name} {config['memory_layout']} {record['layout']}"] += 1
        refusal: SimError | None = None
        try:
            need = self.allocator.need(kind, spec_of(record))
            self._compare_need(need, record)
            address = self.allocator.allocate(kind, need)
        except SimError as error:
            refusal = error
        assert (None if refusal is None else str(refusal)) == record.get("error"), number
        assert isinstance(refusal, OutOfMemory) == (record["op"] == "oom"), number
        if refusal is not None:
            return kind
        assert address == record["address"], number
        self._addresses[number] = address
        if need is not None and "block_size" in record:
            assert self.allocator.blocks(kind).taken(need.per_bank) == record["block_size"], number
        for page, core_x, core_y, at in record.get("pages", ()):
            assert need is not None
            place = self.allocator.page_place(kind, address, need, page)
            assert (place.core, place.address) == ((core_x, core_y), at), (number, page)
            self.seen["pages"] += 1
        return kind

    def _compare_need(self, need: BufferNeed | None, record: dict[str, Any]) -> None:
        said = {ours: record[theirs] for theirs, ours in FIELDS_OF_NEED.items() if theirs in record}
        assert need is not None or not said, record["step"]
        if need is not None:
            assert {name: getattr(need, name) for name in said} == said, record["step"]

    def _compare_bank(self, kind: Kind, record: dict[str, Any]) -> None:
        number, bank = record["step"], record["bank"]
        view = self.allocator.view(kind)
        assert view.total_bytes_per_bank == bank["size"], number
        assert view.total_bytes_allocated_per_bank == bank["allocated"], number
        assert view.total_bytes_free_per_bank == bank["free"], number
        assert view.largest_contiguous_bytes_free_per_bank == bank["largest_free"], number
        assert len(view.block_table) == bank["blocks"], number
        assert self.allocator.reserved(kind) == bank["allocated"] * view.num_banks, number
        if "blocks" in record:
            assert view.block_table == table_of(record["blocks"]), number
            self.seen["tables"] += 1

    def _compare_reports(self, reports: dict[str, str], folder: Path) -> None:
        dump_device_memory_state(self.allocator, folder)
        ours = {path.name: path.read_text() for path in (folder / "generated" / "reports").iterdir()}
        assert ours == reports
        self.seen["reports"] += 1


def spec_of(record: dict[str, Any]) -> TensorSpec:
    config = record["memory_config"]
    memory = MemoryConfig(
        MemoryLayout[config["memory_layout"]], tuple(config.get("shard_shape", ())), config.get("num_cores", 0)
    )
    return TensorSpec(
        tuple(record["shape"]),
        Dtype(record["dtype"]),
        Layout[record["layout"]],
        memory,
        Tile(*record.get("tile", (32, 32))),
    )


def table_of(blocks: list[list[int]]) -> list[dict[str, str]]:
    """ttnn's table of blocks, from id, address, size and use in the order of addresses."""
    none = "18446744073709551615"
    idents = [none, *(str(block[0]) for block in blocks), none]
    table = [
        {
            "blockID": str(ident),
            "address": str(address),
            "size": str(size),
            "prevID": before,
            "nextID": after,
            "allocated": "yes" if used else "no",
        }
        for (ident, address, size, used), before, after in zip(blocks, idents, idents[2:])
    ]
    return sorted(table, key=lambda block: int(block["blockID"]))


def lines_of(path: Path) -> Iterable[dict[str, Any]]:
    with open(path) as file:
        yield from map(json.loads, file)
