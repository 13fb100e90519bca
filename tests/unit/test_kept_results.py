# SPDX-License-Identifier: Apache-2.0
"""Kept answers of `ttmem fit`: everything that changes an answer changes its key, and nothing else does."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from ttmem.fit.kept_results import KeptResults
from ttmem.fit.mock_boards import BOARDS
from ttmem.fit.mock_environment import Machine
from ttmem.fit.mock_run import RunOptions
from ttmem.fit.ttnn_root import Ttnn
from ttmem.fit.until import parse_until
from ttmem.model import schema

TTNN = Ttnn("/usr/bin/python3", "0.81.1", Path("/opt/ttnn"))
OPTIONS = RunOptions(TTNN)
N150 = Machine("n150", BOARDS["n150"])


def key(command: list[str] | None = None, machine: Machine = N150, options: RunOptions = OPTIONS) -> str:
    return KeptResults(None).key(command or ["python", "model.py"], machine, options)


@pytest.mark.parametrize(
    "changed",
    [
        {"real_kernels": True},
        {"fake_weights": True},
        {"bytes_per_token": 4096},
        {"until": parse_until("ops:5")},
        {"ttnn": TTNN._replace(version="0.79.0")},
        {"ttnn": TTNN._replace(root=Path("/srv/ttnn"))},
    ],
    ids=lambda changed: "-".join(changed),
)
def test_an_option_that_changes_the_answer_changes_the_key(changed: dict[str, Any]) -> None:
    assert key(options=OPTIONS._replace(**changed)) != key()


def test_command_and_machine_are_part_of_the_key() -> None:
    keys = {key(), key(["python", "other.py"]), key(machine=Machine("p150", BOARDS["p150"]))}
    assert len(keys) == 3


def test_the_output_that_is_shown_does_not_matter() -> None:
    assert key(options=OPTIONS._replace(show_output=True)) == key()


def test_a_changed_script_has_another_key(tmp_path: Path) -> None:
    script = tmp_path / "model.py"
    script.write_text("a")
    before = key(["python", str(script)])
    script.write_text("b")
    assert key(["python", str(script)]) != before


def test_answers_are_kept_unless_they_cannot_tell(tmp_path: Path) -> None:
    kept = KeptResults(tmp_path / "kept")
    kept.put("known", cast("schema.FitBoard", {"verdict": "fits", "board": "n150"}))
    kept.put("open", cast("schema.FitBoard", {"verdict": "unknown"}))
    found = kept.get("known")
    assert found is not None
    assert found["board"] == "n150"
    assert kept.get("open") is None
    assert kept.used == 1
    (tmp_path / "kept" / "known.json").write_text("{")  # cut off
    assert kept.get("known") is None
