# SPDX-License-Identifier: Apache-2.0
"""Counts the instructions and cache misses of a command with callgrind, by the library that they are in.

Such counts are independent of the load of the machine.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

# The caches of a recent server: 32 KiB for code and 48 KiB for data.
_CACHES = ("--cache-sim=yes", "--I1=32768,8,64", "--D1=49152,12,64")


class Counts(NamedTuple):
    """Of one library."""

    instructions: int = 0
    code_misses: int = 0  # cache lines of code that were not in the first-level cache
    data_misses: int = 0

    def plus(self, other: Counts) -> Counts:
        return Counts(*(a + b for a, b in zip(self, other)))

    def minus(self, other: Counts) -> Counts:
        return Counts(*(a - b for a, b in zip(self, other)))


def available() -> bool:
    return shutil.which("valgrind") is not None


def count(command: Sequence[str], env: Mapping[str, str], folder: Path) -> dict[str, Counts]:
    """By the name of the library's file. Fails as the command does."""
    out = folder / "callgrind.out"
    tool = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", *_CACHES]
    subprocess.run([*tool, *command], env=dict(env), capture_output=True, check=True)
    return _read(out)


def _read(out: Path) -> dict[str, Counts]:
    """Sums of the own cost of all functions.

    In the file, lines that begin with a number are costs, in the order of the line `events:`, of the library of the
    last `ob=` line. The line after a `calls=` line is the cost of a call, which is in the called function, too.
    """
    names: dict[str, str] = {}
    found: dict[str, Counts] = {}
    events: list[str] = []
    library = ""
    called = False
    with open(out, errors="replace") as lines:
        for line in lines:
            if line.startswith("events: "):
                events = line.split()[1:]
            elif line.startswith(("ob=", "cob=")):
                number, _, name = line.partition("=")[2].strip().partition(" ")
                names[number] = name or names[number]
                library = Path(names[number]).name if line.startswith("ob=") else library
            elif line.startswith("calls="):
                called = True
            elif line[:1] in "0123456789+-*":
                costs = dict(zip(events, map(int, line.split()[1:])))
                if not called:
                    own = Counts(costs.get("Ir", 0), costs.get("I1mr", 0), costs.get("D1mr", 0) + costs.get("D1mw", 0))
                    found[library] = found.get(library, Counts()).plus(own)
                called = False
    return found
