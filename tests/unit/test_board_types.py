# SPDX-License-Identifier: Apache-2.0
"""The machines that can be simulated, compared with the account's own tables."""

from __future__ import annotations

import pytest

from ttmem.model.core_sets import core_id, split_core_id
from ttmem.model.geometry import BOARDS, NOC_GRIDS, Arch
from ttmem.sim.board_types import MACHINES, SILICON, Board, Dispatch, MachineType, machine_named
from ttmem.sim.errors import SimError

EVERY = pytest.mark.parametrize("machine", MACHINES.values(), ids=list(MACHINES))
ON_A_NOC = pytest.mark.parametrize(
    "board", {m.board.name: m.board for m in MACHINES.values() if BOARDS[m.board.table].arch in NOC_GRIDS}.values(),
    ids=lambda board: board.name,
)  # fmt: skip


def noc_places(board: Board) -> list[tuple[int, int]]:
    columns, rows = board.grid
    return [board.noc_of(x, y) for y in range(rows) for x in range(columns)]


@EVERY
def test_the_compute_grid_is_the_tables(machine: MachineType) -> None:
    known = BOARDS[machine.board.table]
    assert machine.board.compute_grid == (known.grid_x, known.grid_y)
    assert machine.board.geometry() == known._replace(live=True)


@EVERY
def test_harvested_rows_or_columns_are_missing(machine: MachineType) -> None:
    board = machine.board
    made = len(board.silicon.noc_x), len(board.silicon.noc_y)
    lost = (0, len(board.harvested)) if board.silicon.harvests_rows else (len(board.harvested), 0)
    assert board.grid == (made[0] - lost[0], made[1] - lost[1])
    columns, rows = board.noc
    gone = [(board.silicon.noc_y if board.silicon.harvests_rows else board.silicon.noc_x)[n] for n in board.harvested]
    assert not set(gone) & set(rows if board.silicon.harvests_rows else columns)


@pytest.mark.parametrize(
    ("dispatch", "less"),
    [(Dispatch.ROW, (0, 1)), (Dispatch.COLUMN, (1, 0)), (Dispatch.ETHERNET, (0, 0)), (Dispatch.NONE, (0, 0))],
)
def test_dispatch_costs_a_row_or_a_column_or_nothing(dispatch: Dispatch, less: tuple[int, int]) -> None:
    board = MACHINES["n150"].board._replace(dispatch=dispatch)
    assert board.grid == (8, 9)
    assert board.compute_grid == (8 - less[0], 9 - less[1])


@ON_A_NOC
def test_cores_have_places_of_their_own_on_the_noc(board: Board) -> None:
    places = noc_places(board)
    noc = NOC_GRIDS[BOARDS[board.table].arch]
    assert len(set(places)) == len(places) == board.grid[0] * board.grid[1]
    assert all(0 < x < noc.x and 0 < y < noc.y for x, y in places)


@pytest.mark.parametrize(
    ("arch", "columns", "rows"), [(Arch.WORMHOLE_B0, {0, 5}, {0, 6}), (Arch.BLACKHOLE, {0, 8, 9}, {0, 1})]
)
def test_columns_and_rows_of_the_noc_that_have_no_tensix_cores(arch: Arch, columns: set[int], rows: set[int]) -> None:
    """These coordinates have DRAM, Ethernet, PCIe and so on."""
    noc, silicon = NOC_GRIDS[arch], SILICON[arch]
    assert set(silicon.noc_x) == set(range(noc.x)) - columns
    assert set(silicon.noc_y) == set(range(noc.y)) - rows


@ON_A_NOC
def test_ids_of_their_memory_are_read_back(board: Board) -> None:
    geometry = board.geometry()
    noc = NOC_GRIDS[geometry.arch]
    for x, y in noc_places(board):
        for address in (0, geometry.map_end, geometry.l1_size - 1):
            assert split_core_id(core_id(x, y, address), noc, geometry.l1_size) == (x, y, address)


@EVERY
def test_every_chip_is_in_the_mesh_and_some_have_no_pcie(machine: MachineType) -> None:
    assert machine.chips == machine.mesh[0] * machine.mesh[1]
    assert machine.remote < set(range(machine.chips))


def test_the_machines_people_have() -> None:
    assert {name: machine.chips for name, machine in MACHINES.items() if name in ("t3k", "galaxy")} == {
        "t3k": 8,
        "galaxy": 32,
    }
    assert len(MACHINES["t3k"].remote) == 4


@pytest.mark.parametrize(
    ("machine", "over", "base"),
    # Results of ttnn 0.81.1 for kernel rings of 0, 32, 64 and 1000 bytes.
    [("n150", 0, 35168), ("n150", 32, 35200), ("n150", 1000, 36192), ("p150", 0, 41088), ("p150", 1, 41152)],
)
def test_the_base_follows_the_ring(machine: str, over: int, base: int) -> None:
    board = MACHINES[machine].board
    known = BOARDS[machine]
    geometry = board.geometry(worker_l1_size=known.l1_size - known.map_end - over)
    assert geometry.l1_base == base
    assert geometry.ring_size == base - known.map_end


def test_sizes_of_regions_are_passed_on() -> None:
    geometry = MACHINES["p150"].board.geometry(l1_small_size=64, trace_size=8192)
    assert (geometry.l1_small_size, geometry.trace_size) == (64, 8192)


def test_every_family_with_silicon_has_a_mailbox_below_its_firmware() -> None:
    for arch, silicon in SILICON.items():
        ends = {known.map_end for known in BOARDS.values() if known.arch is arch}
        assert 0 < silicon.mailbox < min(ends)
    assert set(SILICON) == {Arch.WORMHOLE_B0, Arch.BLACKHOLE, Arch.QUASAR}


def test_a_machine_by_its_name() -> None:
    assert machine_named("t3k") is MACHINES["t3k"]
    with pytest.raises(SimError, match=r"no machine 'x' to simulate; there are n150, .*quasar$"):
        machine_named("x")
