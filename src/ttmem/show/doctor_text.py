# SPDX-License-Identifier: Apache-2.0
"""The doctor's document as text: problems first and in full, one line for each other finding, then the verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ttmem.model.schema import Doctor, FindingRow, LevelCounts
    from ttmem.show.text import Style

_PROBLEMS = ("broken", "warning")


def render(document: Doctor, style: Style, *, verbose: bool = False) -> str:
    """The text of a document with schema "ttmem.doctor/1"; ``verbose`` shows all findings in full."""
    found = document["findings"]
    lines: list[str] = []
    for level in _PROBLEMS:
        for finding in found:
            if finding["level"] == level:
                lines += [*_in_full(finding), ""]
    rest = [finding for finding in found if finding["level"] not in _PROBLEMS]
    for finding in rest:
        lines += [*_in_full(finding), ""] if verbose else [_in_short(finding)]
    if rest and not verbose:
        lines.append("")
    return "\n".join([*map(style.clean, lines), verdict_line(document["verdict"])])


def verdict_line(counts: LevelCounts) -> str:
    """The number of findings of each level, in one line."""
    warnings = f"{counts['warning']} warning{'' if counts['warning'] == 1 else 's'}"
    missed = f", {counts['unknown']} unknown" if counts["unknown"] else ""
    return f"ttmem doctor: {counts['broken']} broken, {warnings}, {counts['ok']} ok{missed}"


def _in_full(finding: FindingRow) -> list[str]:
    lines = [
        f"{finding['level'].upper():<8} {finding['check']}",
        f"    looked at: {finding['looked_at']}",
        f"    found:     {finding['found']}",
    ]
    return lines if finding["todo"] is None else [*lines, f"    to do:     {finding['todo']}"]


def _in_short(finding: FindingRow) -> str:
    return f"{finding['level']:<8} {finding['check']:<18} {finding['found']}"
