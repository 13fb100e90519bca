# SPDX-License-Identifier: Apache-2.0
"""The machines of the tests: those of `ttmem fit`, and one more."""

from __future__ import annotations

from collections.abc import Mapping

from ttmem.fit import mock_boards
from ttmem.fit.mock_boards import N150, MockBoard

BOARDS: dict[str, MockBoard] = {
    **mock_boards.BOARDS,
    "n150x2": MockBoard(N150, ((0,), (1,)), {0: (0, 0), 1: (1, 0)}),
}


def board_named(name: str) -> MockBoard:
    try:
        return BOARDS[name]
    except KeyError:
        raise ValueError(f"no board {name!r}; there are {', '.join(BOARDS)}") from None


def descriptor(name: str, chip_ids: Mapping[int, int]) -> str:
    """The machine in the form that TT_METAL_MOCK_CLUSTER_DESC_PATH wants, with a unique id for each chip."""
    return mock_boards.descriptor(board_named(name), chip_ids)
