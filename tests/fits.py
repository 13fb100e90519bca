# SPDX-License-Identifier: Apache-2.0
"""Runs `ttmem fit` on programs of the tests."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

from tests.mock.wheel import wheel
from tests.runs import TTMEM
from tests.schema_conformance import problems
from tests.support import PATIENCE
from ttmem.model import schema


class Fitted(NamedTuple):
    code: int
    data: dict[str, Any]
    err: str

    @property
    def board(self) -> dict[str, Any]:
        (found,) = self.data["boards"]
        return dict(found)


def environment(folder: Path) -> dict[str, str]:
    """That of the tests, without the variables that a user would not have set."""
    (folder / "tmp").mkdir(exist_ok=True)
    return {**os.environ, "TMPDIR": str(folder / "tmp"), "HOME": str(folder)}


def fit(folder: Path, *arguments: str, command: list[str], version: str = "0.81.1", **env: str) -> Fitted:
    """Run `ttmem fit --json`. The first word of a command without a path is a program of the tests."""
    python = wheel("3.10", version).python
    done = subprocess.run(
        [*TTMEM, "fit", "--json", *arguments, "--", python, *command],
        env={**environment(folder), **env}, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=PATIENCE,
    )  # fmt: skip
    assert done.stdout, done.stderr
    data = json.loads(done.stdout)
    assert problems(data, schema.Fit) == []
    assert data["exit_code"] == done.returncode
    return Fitted(done.returncode, data, done.stderr)


def script(folder: Path, text: str) -> list[str]:
    path = folder / "model.py"
    path.write_text(text)
    return [str(path)]
