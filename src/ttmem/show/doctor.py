# SPDX-License-Identifier: Apache-2.0
"""Findings of the doctor as text: problems first and in full, the rest in a line each, then one verdict to grep for."""

from __future__ import annotations

from collections.abc import Sequence

from ttmem.account.printable import printable
from ttmem.doctor.checks import verdict
from ttmem.doctor.findings import LEVELS, Finding

_PROBLEMS = LEVELS[:2]


def render(found: Sequence[Finding], *, verbose: bool = False) -> str:
    """``verbose`` shows in full what is fine, too."""
    lines: list[str] = []
    for level in _PROBLEMS:
        for finding in found:
            if finding.level == level:
                lines += [*_in_full(finding), ""]
    rest = [finding for finding in found if finding.level not in _PROBLEMS]
    for finding in rest:
        lines += [*_in_full(finding), ""] if verbose else [_in_short(finding)]
    if rest and not verbose:
        lines.append("")
    return "\n".join([*map(printable, lines), verdict_line(found)])


def verdict_line(found: Sequence[Finding]) -> str:
    counts = verdict(found)
    warnings = f"{counts['warning']} warning{'' if counts['warning'] == 1 else 's'}"
    missed = f", {counts['unknown']} not looked at" if counts["unknown"] else ""
    return f"ttmem doctor: {counts['broken']} broken, {warnings}, {counts['ok']} fine{missed}"


def _in_full(finding: Finding) -> list[str]:
    lines = [
        f"{finding.level.upper():<8} {finding.check}",
        f"    looked at: {finding.looked_at}",
        f"    found:     {finding.found}",
    ]
    return lines if finding.todo is None else [*lines, f"    to do:     {finding.todo}"]


def _in_short(finding: Finding) -> str:
    return f"{finding.level:<8} {finding.check:<18} {finding.found}"
