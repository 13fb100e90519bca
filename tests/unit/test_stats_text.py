# SPDX-License-Identifier: Apache-2.0
"""The text of `ttmem stats` and `ttmem tree`, compared with tests/data/stats.txt.

`make screens` regenerates that file; then read the diff.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.screens import RENEW
from tests.unit.test_call_tree import tree
from tests.unit.test_stats_document import Script, stats
from ttmem.show import stats_text, tree_text
from ttmem.show.chip_table import Names
from ttmem.show.text import Style, cells

FILE = Path(__file__).parents[1] / "data" / "stats.txt"
HOST = {"after_s": 0.001, "processes": 1, "resident": 3 << 30, "huge_pages": 1 << 30, "dram": 5000, "l1_buffers": 600}


@pytest.fixture(scope="module")
def document() -> Any:
    """Of a scripted recording. Its own clock differs from run to run by nanoseconds."""
    script = Script(8, 1, 2)
    recording = script.recording(300)
    length = recording.end - recording.begin
    found, _ = stats(recording, after=recording.begin + 0.25 * length)
    script.close()
    found |= {"begin": "2026-01-02T03:04:05.678901Z", "command": "python serve.py", "lost": 12, "events": 0}
    found["host"] = {"samples": 3, "first": HOST, "peak": {**HOST, "resident": 4 << 30, "after_s": 2.5}, "last": HOST}
    found["problems"] = ["pid 7: its records are invalid from here on: no such mesh"]
    return rounded(found)


def rounded(value: Any) -> Any:
    """With all times in whole microseconds."""
    if isinstance(value, dict):
        return {key: rounded(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [rounded(inner) for inner in value]
    return round(value, 6) if isinstance(value, float) else value


def text(found: Any, style: Style) -> str:
    return stats_text.render(found, "run.ttmem", Names([], style, {}), style)


def test_the_text_is_that_of_the_file(document: Any) -> None:
    parts = {
        "stats, 80 columns": text(document, Style(80)),
        "stats, 140 columns": text(document, Style(140)),
        "tree, 80 columns": tree_text.render(tree(), Style(80)),
        "tree, ascii, depth 2, at least 60 B": tree_text.render(tree(), Style(80, ascii=True), depth=2, smallest=60),
        "tree, nothing found": tree_text.render(tree(search="nowhere"), Style(80)),
    }
    found = "".join(f"==== {name}\n{part}\n" for name, part in parts.items())
    if RENEW:
        FILE.write_text(found, encoding="utf-8")
    assert found == FILE.read_text(encoding="utf-8"), "see the top of this file"


@pytest.mark.parametrize("width", [80, 100, 120, 200])
def test_every_line_fits(document: Any, width: int) -> None:
    for style in (Style(width), Style(width, ascii=True)):
        for shown in (text(document, style), tree_text.render(tree(), style)):
            assert max(map(cells, shown.splitlines())) <= width
            assert not style.ascii or shown.isascii()


def test_names_are_made_printable(document: Any) -> None:
    hostile = {**document, "command": "a\x1b[2Jb"}
    assert "\x1b" not in text(hostile, Style(80))
