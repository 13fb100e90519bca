# SPDX-License-Identifier: Apache-2.0
"""The table of boards, compared with figures that ttnn 0.81.1 printed."""

from __future__ import annotations

import pytest

from ttmem.model.geometry import BOARDS, NOC_GRIDS, Arch, Geometry, board_geometry, noc_capacity, noc_limits, region_at
from ttmem.model.kinds import Kind

# name: grid x, y, cores, L1 per core, map end, ring, base, allocatable per core, DRAM banks, bytes each, total L1
FIGURES = {
    "n150": (8, 8, 64, 1499136, 35168, 70656, 105824, 1393312, 12, 1073741824, 95944704),
    "n300": (8, 8, 64, 1499136, 35168, 70656, 105824, 1393312, 12, 1073741824, 95944704),
    "galaxy-wormhole": (8, 9, 72, 1499136, 35168, 70656, 105824, 1393312, 12, 1073741824, 107937792),
    "p100": (11, 10, 110, 1572864, 41088, 70656, 111744, 1461120, 7, 4278190080, 173015040),
    "p150": (11, 10, 110, 1572864, 41088, 70656, 111744, 1461120, 8, 4278190080, 173015040),
    "p300": (11, 10, 110, 1572864, 41088, 70656, 111744, 1461120, 8, 4278190080, 173015040),
    "galaxy-blackhole": (12, 10, 120, 1572864, 41088, 70656, 111744, 1461120, 8, 4278190080, 188743680),
    "quasar": (8, 4, 32, 4194304, 230464, 102400, 332864, 3861440, 2, 1073741824, 134217728),
}
FAMILIES = {"n": Arch.WORMHOLE_B0, "p": Arch.BLACKHOLE, "q": Arch.QUASAR}


@pytest.mark.parametrize("name", FIGURES)
def test_board(name: str) -> None:
    x, y, cores, l1, map_end, ring, base, allocatable, banks, bank, total = FIGURES[name]
    board = BOARDS[name]
    assert (board.grid_x, board.grid_y, board.cores) == (x, y, cores)
    assert (board.l1_size, board.map_end, board.ring_size, board.l1_base) == (l1, map_end, ring, base)
    assert board.l1_size - board.l1_base == allocatable
    assert (board.dram_banks, board.dram_bank_size) == (banks, bank)
    assert board.dram_capacity == banks * bank
    assert board.l1_capacity == total
    assert not board.live


def test_every_board_is_checked() -> None:
    assert set(BOARDS) == set(FIGURES)


def test_families() -> None:
    for name, board in BOARDS.items():
        family = FAMILIES.get(name[0]) or (Arch.WORMHOLE_B0 if "wormhole" in name else Arch.BLACKHOLE)
        assert board.arch is family, name


def test_numbers_of_the_legacy_wire() -> None:
    assert [(arch.value, arch.label) for arch in Arch] == [
        (0, "unknown"),
        (1, "grayskull"),
        (2, "wormhole_b0"),
        (3, "blackhole"),
        (4, "quasar"),
    ]


@pytest.mark.parametrize(
    ("spelled", "name"),
    [
        ("n150", "n150"),
        ("n300", "n300"),
        ("galaxy-wormhole", "galaxy-wormhole"),
        ("galaxy-blackhole", "galaxy-blackhole"),
        *((spelled, "p100") for spelled in ("p100", "p100a")),
        *((spelled, "p150") for spelled in ("p150a", "p150b", "p150c")),
        *((spelled, "p300") for spelled in ("p300a", "p300b", "p300c")),
    ],
)
def test_names_as_the_driver_spells_them(spelled: str, name: str) -> None:
    assert board_geometry(spelled) == BOARDS[name]


@pytest.mark.parametrize("board", [None, "", "unknown", "n900"])
def test_unknown_boards_fall_back_to_the_family(board: str | None) -> None:
    assert board_geometry(board, Arch.WORMHOLE_B0) == BOARDS["n150"]
    assert board_geometry(board, Arch.BLACKHOLE) == BOARDS["p150"]
    assert board_geometry(board, Arch.QUASAR) == BOARDS["quasar"]
    assert board_geometry(board, Arch.GRAYSKULL) is None
    assert board_geometry(board) is None


def test_what_the_proof_of_concept_called_capacity() -> None:
    assert noc_capacity(BOARDS["p150"]) == 306 * 1048576
    assert noc_capacity(BOARDS["n150"]) == 10 * 12 * 1499136
    assert noc_capacity(BOARDS["quasar"]) == BOARDS["quasar"].l1_capacity
    assert {arch: tuple(grid) for arch, grid in NOC_GRIDS.items()} == {
        Arch.WORMHOLE_B0: (10, 12),
        Arch.BLACKHOLE: (17, 12),
    }


def test_limits_of_per_core_ids() -> None:
    assert noc_limits(BOARDS["n300"]) == ((10, 12), 1499136)
    assert noc_limits(BOARDS["p100"]) == ((17, 12), 1572864)
    assert noc_limits(None) == ((17, 12), 1572864)


@pytest.mark.parametrize(
    ("board", "address", "name", "kind"),
    [
        ("n150", 0, "launch message", Kind.FIRMWARE),
        ("n150", 35167, "firmware", Kind.FIRMWARE),
        ("n150", 35168, "kernel", Kind.KERNEL),
        ("n150", 105823, "kernel", Kind.KERNEL),
        ("n150", 105824, "data", Kind.L1),
        ("p150", 0, "launch message", Kind.FIRMWARE),
        ("p150", 41087, "firmware", Kind.FIRMWARE),
        ("p150", 41088, "kernel", Kind.KERNEL),
        ("p150", 111743, "kernel", Kind.KERNEL),
        ("p150", 111744, "data", Kind.L1),
        ("quasar", 0, "firmware", Kind.FIRMWARE),
        ("quasar", 332864, "data", Kind.L1),
        (None, 105824, "data", Kind.L1),
    ],
)
def test_regions(board: str | None, address: int, name: str, kind: Kind) -> None:
    assert region_at(BOARDS[board] if board else None, address) == (name, kind)


def test_a_moved_base_moves_the_ring() -> None:
    """The base changes with each release; 105536 was ttnn 0.75.0's."""
    older = BOARDS["n150"]._replace(l1_base=105536)
    assert older.ring_size == 105536 - 35168
    assert region_at(older, 105600).name == "data"
    assert isinstance(older, Geometry)
