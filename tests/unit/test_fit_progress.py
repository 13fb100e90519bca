# SPDX-License-Identifier: Apache-2.0
"""The progress of `ttmem fit`: a line on a terminal, nothing in a file."""

from __future__ import annotations

import io

from ttmem.show.fit_progress import Progress, progress_line
from ttmem.show.text import Style


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_on_a_terminal_the_line_is_replaced_and_removed() -> None:
    terminal = Terminal()
    progress = Progress(terminal)
    progress.show(0.5, "run 1: n150")
    progress.end()
    first, last = terminal.getvalue().split("\r\x1b[K")[1:]
    assert first.endswith("50 % run 1: n150")
    assert last == ""


def test_elsewhere_nothing_is_written() -> None:
    file = io.StringIO()
    progress = Progress(file)
    progress.show(0.5, "run 1: n150")
    progress.end()
    assert file.getvalue() == ""


def test_a_line_is_within_the_width_and_has_no_control_characters() -> None:
    line = progress_line(1.0, "run 1: \x1b[2J" + "x" * 100, Style(width=50, ascii=True))
    assert len(line) < 50
    assert "\x1b" not in line
