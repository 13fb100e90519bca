# SPDX-License-Identifier: Apache-2.0
"""Explanations of failed allocations as text: what was requested, what holds the rest, and the details."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ttmem.show.text import BOLD, RED, YELLOW, Style, wrap

if TYPE_CHECKING:
    from ttmem.model.schema import Explanation, VerdictRow

_HEADING_COLUMNS = 15


def render(document: Explanation, style: Style) -> str:
    """A document with at least one explanation; the last line is a summary to search for."""
    lines: list[str] = []
    explained, failures = document["explained"], document["failures"]
    for one in explained:
        lines += [*block(one, style, ("found", one["where"])), ""]
    rest = "" if len(explained) == failures else f", {failures - len(explained)} not shown (--all shows them)"
    counted = f"{failures} failure{'' if failures == 1 else 's'}"
    return "\n".join([*lines, f"ttmem explain: {counted}{rest}; {style.clean(explained[-1]['headline'])}"])


def block(verdict: VerdictRow, style: Style, found: tuple[str, str]) -> list[str]:
    """One verdict. ``found`` is where or when it was found, under its heading."""
    lines = [style.paint(line, RED) for line in wrap(style.clean(verdict["headline"]), style, "    ", "")]
    lines += [style.paint(line, YELLOW) for line in wrap(style.clean(verdict["held_by"]), style, "    ", "")]
    for heading, texts in [(found[0], [found[1]]), *((one["heading"], one["lines"]) for one in verdict["sections"])]:
        mark = "- " if len(texts) > 1 else ""
        for number, text in enumerate(texts):
            shown = f"{heading if not number else '':<{_HEADING_COLUMNS}}"
            wrapped = wrap(style.clean(text), style, " " * (2 + len(shown) + len(mark)), f"  {shown}{mark}")
            if wrapped and not number:
                wrapped[0] = f"  {style.paint(shown, BOLD)}{wrapped[0][2 + len(shown) :]}"
            lines += wrapped
    return lines
