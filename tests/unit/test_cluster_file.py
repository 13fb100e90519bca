# SPDX-License-Identifier: Apache-2.0
"""Cluster descriptors are read in the forms in which tt-metal and people write them."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from ttmem.fit.cluster_file import ClusterFileError, read_cluster_file
from ttmem.fit.mock_boards import BOARDS, descriptor

FLOW = """arch: {0: wormhole_b0, 1: wormhole_b0}
chips: {0: [0, 0, 0, 0], 1: [1, 0, 0, 0]}
chip_unique_ids: {0: 11, 1: 12}
chips_with_mmio: [0: 0]
boards:
  - [board_id: 72058000000000001, board_type: n300, chips: [0, 1]]
...
"""


@pytest.mark.parametrize("name", BOARDS)
def test_ids_are_replaced_and_nothing_else(name: str, tmp_path: Path) -> None:
    board = BOARDS[name]
    path = tmp_path / "machine.yaml"
    path.write_text(descriptor(board, {chip: 7000 + chip for chip in board.chips}))
    found = read_cluster_file(path)
    assert found.chips == tuple(board.chips)
    assert found.board_types == {board.kind.name}
    new = yaml.safe_load(found.with_ids({chip: 9000 + chip for chip in board.chips}))
    old = yaml.safe_load(path.read_text())
    assert new.pop("chip_unique_ids") == {chip: 9000 + chip for chip in board.chips}
    assert old.pop("chip_unique_ids") == {chip: 7000 + chip for chip in board.chips}
    assert new == old


def test_the_short_form_of_yaml(tmp_path: Path) -> None:
    path = tmp_path / "machine.yaml"
    path.write_text(FLOW)
    found = read_cluster_file(path)
    assert list(found.chips) == [0, 1]
    assert found.board_types == {"n300"}
    assert yaml.safe_load(found.with_ids({0: 1, 1: 2}))["chip_unique_ids"] == {0: 1, 1: 2}


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"", "names no chips"), (b"boards: []\n", "--describe"), (b"\xff\xfe\x00", "is no text file")],
)
def test_what_is_no_descriptor_is_refused(content: bytes, words: str, tmp_path: Path) -> None:
    path = tmp_path / "machine.yaml"
    path.write_bytes(content)
    with pytest.raises(ClusterFileError, match=words):
        read_cluster_file(path)
    with pytest.raises(ClusterFileError, match="cannot read"):
        read_cluster_file(tmp_path / "nothing.yaml")
