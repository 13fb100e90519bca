# SPDX-License-Identifier: Apache-2.0
"""The simulated allocator against sequences that were recorded from ttnn 0.81.1, and against its error texts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sequences import Replay, lines_of
from ttmem.model.geometry import BOARDS
from ttmem.model.kinds import Kind
from ttmem.sim.allocator import Allocator, MemoryView, PagePlace, bank_cores
from ttmem.sim.errors import OutOfMemory, SimError
from ttmem.sim.tensors import BufferNeed, Dtype, Layout, MemoryConfig, MemoryLayout, TensorSpec

DATA = Path(__file__).parent.parent / "data"
TILE = 2048
KINDS = (Kind.DRAM, Kind.TRACE, Kind.L1, Kind.L1_SMALL)


def n150(l1_small_size: int = 0, trace_region_size: int = 0) -> Allocator:
    return Allocator(
        BOARDS["n150"],
        dram_base=1048640,
        dram_alignment=32,
        l1_small_size=l1_small_size,
        trace_region_size=trace_region_size,
    )


def p150(l1_small_size: int = 0, trace_region_size: int = 0) -> Allocator:
    return Allocator(
        BOARDS["p150"],
        dram_base=1048704,
        dram_alignment=64,
        l1_small_size=l1_small_size,
        trace_region_size=trace_region_size,
    )


def tiles(number: int) -> TensorSpec:
    return TensorSpec((32 * number, 32))


def one_shard(number: int, cores: int = 1) -> TensorSpec:
    return TensorSpec(
        (32 * number * cores, 32), memory=MemoryConfig(MemoryLayout.HEIGHT_SHARDED, (32 * number, 32), cores)
    )


def test_a_sequence_on_n150() -> None:
    lines = iter(lines_of(DATA / "allocator_n150.jsonl"))
    header = next(lines)["header"]
    replay = Replay({**header, "board": "n150"}, header["banks"]["DRAM"]["base"])
    for name, said in header["banks"].items():
        blocks = replay.allocator.blocks(Kind[name])
        assert (blocks.base, blocks.statistics().size) == (said["base"], said["size"])
        assert replay.allocator.banks(Kind[name]) == said["num_banks"]
    for record in lines:
        replay.step(record)
    assert (replay.seen["alloc"], replay.seen["free"], replay.seen["oom"], replay.seen["tables"]) == (308, 268, 24, 600)


def test_a_sequence_on_p150() -> None:
    lines = iter(lines_of(DATA / "allocator_p150.jsonl"))
    header = next(lines)["header"]
    replay = Replay(header, header["bases"]["DRAM"])
    assert {name: replay.allocator.banks(Kind[name]) for name in header["banks"]} == header["banks"]
    assert replay.allocator.blocks(Kind.L1).base == header["bases"]["L1"]
    for record in lines:
        replay.step(record)
    assert replay.seen["alloc"] + replay.seen["free"] + replay.seen["oom"] + replay.seen["refused"] == 600
    assert replay.seen["tables"] == 60
    assert min(replay.seen[what] for what in ("oom", "refused", "pages")) > 0


def fragmented() -> Allocator:
    """The state in which the errors of ttnn were recorded: five holes of 128 KiB between five buffers of that size."""
    memory = n150(l1_small_size=32768)
    need = memory.need(Kind.L1, tiles(64 * 64))
    made = [memory.allocate(Kind.L1, need) for _ in range(10)]
    for address in made[::2]:
        memory.free(Kind.L1, address)
    return memory


def test_out_of_memory_in_ttnns_words() -> None:
    memory = n150(l1_small_size=32768)
    with pytest.raises(OutOfMemory) as l1:
        memory.allocate(Kind.L1, memory.need(Kind.L1, TensorSpec((16384, 16384))))
    assert str(l1.value) == (
        "Out of Memory: Not enough space to allocate 536870912 B L1 buffer across 64 banks, where each bank needs to "
        "store 8388608 B, but bank size is 1360544 B (allocated: 0 B, free: 1360544 B, largest free block: 1360544 B)."
    )
    with pytest.raises(OutOfMemory) as dram:
        memory.allocate(Kind.DRAM, memory.need(Kind.DRAM, TensorSpec((65536, 131072))))
    assert str(dram.value) == (
        "Out of Memory: Not enough space to allocate 17179869184 B DRAM buffer across 12 banks, where each bank needs "
        "to store 1431656448 B, but bank size is 1072693184 B (allocated: 0 B, free: 1072693184 B, largest free "
        "block: 1072693184 B)."
    )


def test_out_of_memory_among_holes() -> None:
    memory = fragmented()
    with pytest.raises(OutOfMemory) as interleaved:
        memory.allocate(Kind.L1, memory.need(Kind.L1, tiles(64 * 512)))
    tail = "but bank size is 1360544 B (allocated: 655360 B, free: 705184 B, largest free block: 131072 B)."
    assert str(interleaved.value) == (
        "Out of Memory: Not enough space to allocate 67108864 B L1 buffer across 64 banks, "
        f"where each bank needs to store 1048576 B, {tail}"
    )
    with pytest.raises(OutOfMemory) as sharded:
        memory.allocate(Kind.L1, memory.need(Kind.L1, one_shard(512, cores=8)))
    assert str(sharded.value) == (
        "Out of Memory: Not enough space to allocate 8388608 B L1 buffer across 8 banks, "
        f"where each bank needs to store 1048576 B, {tail}"
    )


def test_out_of_memory_in_l1_small_gives_the_remedy() -> None:
    memory = n150(l1_small_size=4096)
    memory.allocate(Kind.L1_SMALL, memory.need(Kind.L1_SMALL, one_shard(1)))
    with pytest.raises(OutOfMemory) as full:
        memory.allocate(Kind.L1_SMALL, memory.need(Kind.L1_SMALL, one_shard(2)))
    assert str(full.value) == (
        "Out of Memory: Not enough space to allocate 4096 B L1_SMALL buffer across 1 banks, where each bank needs to "
        "store 4096 B, but bank size is 4096 B (allocated: 2048 B, free: 2048 B, largest free block: 2048 B). "
        "The L1_SMALL region is sized at device open; increase l1_small_size when opening the device."
    )
    with pytest.raises(OutOfMemory) as none:
        n150().allocate(Kind.L1_SMALL, memory.need(Kind.L1_SMALL, one_shard(1)))
    assert str(none.value) == (
        "Out of Memory: Not enough space to allocate 2048 B L1_SMALL buffer across 1 banks, where each bank needs to "
        "store 2048 B, but bank size is 0 B (allocated: 0 B, free: 0 B, largest free block: 0 B). The L1_SMALL region "
        "is 0 B because it is reserved at device open; set l1_small_size large enough for this allocation when opening "
        "the device."
    )


def test_without_a_trace_region_nothing_fits_into_it() -> None:
    memory = n150()
    with pytest.raises(OutOfMemory, match=r"2048 B TRACE buffer across 12 banks.* bank size is 0 B .*0 B\)\.$"):
        memory.allocate(Kind.TRACE, memory.need(Kind.TRACE, tiles(1)))


def test_what_is_refused_before_any_search() -> None:
    memory = n150(l1_small_size=32768)
    with pytest.raises(SimError, match=r"^L1_SMALL only supports sharded allocations, see validate_num_banks$"):
        memory.allocate(Kind.L1_SMALL, memory.need(Kind.L1_SMALL, tiles(1)))
    for kind in (Kind.DRAM, Kind.L1):
        with pytest.raises(
            SimError, match=r"^Expected number of shards 65 to be less than or equal to total number of"
        ):
            memory.allocate(kind, memory.need(kind, one_shard(1, cores=65)))
        assert memory.reserved(kind) == 0


def test_reserved_sizes_must_leave_something() -> None:
    n150(l1_small_size=1393280)
    with pytest.raises(SimError, match=r"^Reserved size must be less than bank size$"):
        n150(l1_small_size=1393281)
    with pytest.raises(SimError, match="leaves nothing of a DRAM bank"):
        n150(trace_region_size=1 << 40)


@pytest.mark.parametrize(
    ("memory", "sizes"),
    [
        (n150(), {Kind.DRAM: 1072693184, Kind.TRACE: 0, Kind.L1: 1393312, Kind.L1_SMALL: 0}),
        (n150(32768, 4 << 20), {Kind.DRAM: 1072340928, Kind.TRACE: 352256, Kind.L1: 1360544, Kind.L1_SMALL: 32768}),
        (n150(33, 1000), {Kind.DRAM: 1072684992, Kind.TRACE: 8192, Kind.L1: 1393248, Kind.L1_SMALL: 64}),
        (p150(0, 50_000_000), {Kind.DRAM: 4270890880, Kind.TRACE: 6250496, Kind.L1: 1461120, Kind.L1_SMALL: 0}),
    ],
)
def test_the_sizes_of_the_banks(memory: Allocator, sizes: dict[Kind, int]) -> None:
    assert {kind: memory.statistics(kind).size for kind in KINDS} == sizes
    assert memory.blocks(Kind.TRACE).base == memory.blocks(Kind.DRAM).base + sizes[Kind.DRAM]
    assert memory.blocks(Kind.L1_SMALL).base + sizes[Kind.L1_SMALL] == memory.geometry.l1_size


def test_what_is_empty_takes_nothing() -> None:
    memory = n150()
    need = memory.need(Kind.DRAM, TensorSpec((0, 32)))
    assert need is None
    assert memory.allocate(Kind.DRAM, need) == 0
    assert not memory.free(Kind.DRAM, 0)
    assert memory.reserved(Kind.DRAM) == 0


def test_the_view_is_that_of_ttnn() -> None:
    memory = n150()
    address = memory.allocate(Kind.L1, memory.need_bytes(Kind.L1, 100, 100))
    assert address == 1499136 - 128
    none = str((1 << 64) - 1)
    assert memory.view(Kind.L1) == MemoryView(
        num_banks=64,
        total_bytes_per_bank=1393312,
        total_bytes_allocated_per_bank=128,
        total_bytes_free_per_bank=1393184,
        largest_contiguous_bytes_free_per_bank=1393184,
        block_table=[
            {"blockID": "0", "address": "1393184", "size": "128", "prevID": "1", "nextID": none, "allocated": "yes"},
            {"blockID": "1", "address": "0", "size": "1393184", "prevID": none, "nextID": "0", "allocated": "no"},
        ],
    )
    assert memory.reserved(Kind.L1) == 64 * 128
    assert memory.lowest_l1() == address
    assert memory.free(Kind.L1, address)
    assert memory.lowest_l1() is None


def test_directions() -> None:
    memory = n150(l1_small_size=32768, trace_region_size=1 << 20)
    need = memory.need(Kind.DRAM, tiles(1))
    assert memory.allocate(Kind.DRAM, need) == 1048640
    assert memory.allocate(Kind.DRAM, need, bottom_up=False) == memory.blocks(Kind.TRACE).base - TILE
    assert memory.allocate(Kind.TRACE, need) == memory.blocks(Kind.TRACE).base
    assert memory.allocate(Kind.L1, memory.need(Kind.L1, tiles(1))) == 1499136 - 32768 - TILE
    assert memory.allocate(Kind.L1, memory.need(Kind.L1, tiles(1)), bottom_up=True) == 105824
    assert memory.allocate(Kind.L1_SMALL, memory.need(Kind.L1_SMALL, one_shard(1))) == 1499136 - TILE


def test_a_buffer_at_an_address() -> None:
    memory = n150()
    need = memory.need_bytes(Kind.DRAM, TILE, TILE)
    assert memory.allocate_at(Kind.DRAM, 1048640 + 4096, need) == 1048640 + 4096
    with pytest.raises(OutOfMemory):
        memory.allocate_at(Kind.DRAM, 1048640 + 4096 + 1024, need)
    with pytest.raises(SimError, match="L1_SMALL only supports sharded"):
        memory.allocate_at(Kind.L1_SMALL, 0, BufferNeed(TILE, TILE, 1, 1, TILE, TILE))


@pytest.mark.parametrize(("x", "y"), [(8, 8), (8, 7), (7, 9), (8, 9), (11, 10), (12, 10), (1, 1), (2, 1), (3, 1)])
def test_every_core_has_one_bank(x: int, y: int) -> None:
    cores = bank_cores(x, y)
    assert sorted(cores) == [(column, row) for column in range(x) for row in range(y)]


def test_banks_of_an_n150() -> None:
    assert bank_cores(8, 8)[:4] == ((1, 4), (4, 4), (4, 1), (2, 2))


def test_pages_go_round_the_banks() -> None:
    memory = n150()
    need = memory.need(Kind.L1, TensorSpec((130, 30), Dtype.UINT8, Layout.ROW_MAJOR))
    assert need is not None
    address = memory.allocate(Kind.L1, need)
    assert memory.page_place(Kind.L1, address, need, 3) == PagePlace(3, (2, 2), address)
    assert memory.page_place(Kind.L1, address, need, 129) == PagePlace(1, (4, 4), address + 2 * 32)
    assert memory.page_place(Kind.DRAM, 1048640, memory.need_bytes(Kind.DRAM, 26 * 64, 64), 25) == PagePlace(
        1, None, 1048640 + 2 * 64
    )
