# SPDX-License-Identifier: Apache-2.0
"""Reads a cluster descriptor that was taken from a real machine, and gives its chips other unique ids.

Only the few keys that are needed are read, in the form in which tt-metal writes them. There is no YAML parser among
the dependencies, and ttnn checks the rest of the file itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

_MOST_BYTES = 1 << 20  # that of a Galaxy has 30 KB
_TOP = re.compile(r"^(\w+):[ \t]*(.*)$")
_PAIR = re.compile(r"(\d+):\s*([\w.+-]+)")
_BOARD_TYPE = re.compile(r"board_type:\s*(\w+)")


class ClusterFileError(Exception):
    """The file is no cluster descriptor; the message says why."""


class ClusterFile(NamedTuple):
    """A cluster descriptor: its chips, the types of its boards, and its text."""

    chips: tuple[int, ...]
    board_types: frozenset[str]
    text: str

    def with_ids(self, chip_ids: Mapping[int, int]) -> str:
        """The text with other unique ids of its chips."""
        lines = ["chip_unique_ids:", *(f"  {chip}: {chip_ids[chip]}" for chip in self.chips)]
        kept: list[str] = []
        skipping = False
        for line in self.text.splitlines():
            top = _TOP.match(line)
            if top is not None:
                skipping = top[1] == "chip_unique_ids"
            if not skipping and line.strip() != "...":
                kept.append(line)
        return "\n".join([*kept, *lines]) + "\n"


def read_cluster_file(path: Path) -> ClusterFile:
    """Read a descriptor, as `ttmem fit --describe` writes it."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read(_MOST_BYTES)
    except OSError as error:
        raise ClusterFileError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ClusterFileError(f"{path} is no text file, so it is no cluster descriptor") from None
    chips = tuple(sorted(int(chip) for chip, _ in _PAIR.findall(_section(text, "arch"))))
    if not chips:
        raise ClusterFileError(
            f"{path} names no chips under `arch:`, so it is no cluster descriptor; write one with "
            "`ttmem fit --describe > machine.yaml` on a machine with the boards"
        )
    return ClusterFile(chips, frozenset(_BOARD_TYPE.findall(text)), text)


def _section(text: str, name: str) -> str:
    """The text of a key at the top level."""
    found: list[str] = []
    inside = False
    for line in text.splitlines():
        top = _TOP.match(line)
        if top is not None:
            inside = top[1] == name
            line = top[2]
        if inside:
            found.append(line)
    return "\n".join(found)
