# SPDX-License-Identifier: Apache-2.0
"""Explanations of failed allocations as text: what happened, why, who holds the memory, what would help."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ttmem.show.text import BOLD, Style, wrap

if TYPE_CHECKING:
    from ttmem.model.schema import Explanation, VerdictRow

_HEADING_COLUMNS = 15


def render(document: Explanation, style: Style) -> str:
    """A document with at least one explanation; the last line is a summary to search for."""
    lines: list[str] = []
    explained, failures = document["explained"], document["failures"]
    for one in explained:
        lines += [*block(one["where"], one, style), ""]
    rest = "" if len(explained) == failures else f", {failures - len(explained)} not shown (--all shows them)"
    counted = f"{failures} failure{'' if failures == 1 else 's'}"
    return "\n".join([*lines, f"ttmem explain: {counted}{rest}; {style.clean(explained[-1]['headline'])}"])


def block(where: str, verdict: VerdictRow, style: Style) -> list[str]:
    """One verdict."""
    headline = verdict["headline"]
    lines = wrap(style.clean(f"{where}: {headline}" if where else headline), style)
    lines = [style.paint(line, BOLD) for line in lines]
    for section in verdict["sections"]:
        mark = "- " if len(section["lines"]) > 1 else ""
        for number, text in enumerate(section["lines"]):
            first = f"  {section['heading'] if not number else '':<{_HEADING_COLUMNS}}{mark}"
            lines += wrap(style.clean(text), style, " " * len(first), first)
    return lines
