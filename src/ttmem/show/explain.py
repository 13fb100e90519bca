# SPDX-License-Identifier: Apache-2.0
"""Verdicts on refusals as text: what happened, why, who is there, what would do, and one line to grep for."""

from __future__ import annotations

from collections.abc import Sequence

from ttmem.explain.verdicts import Verdict
from ttmem.explain.words import headline, sentences
from ttmem.show.text import BOLD, Style, wrap

_HEADING = 14


def render(found: Sequence[tuple[str, Verdict]], failures: int, style: Style) -> str:
    """Verdicts, each with where it was found, and how many different failures there were."""
    lines: list[str] = []
    for place, verdict in found:
        lines += [*block(place, verdict, style), ""]
    rest = "" if len(found) == failures else f", {failures - len(found)} not shown (--all shows them)"
    counted = f"{failures} failure{'' if failures == 1 else 's'}"
    return "\n".join([*lines, f"ttmem explain: {counted}{rest}; {style.clean(headline(found[-1][1]))}"])


def block(place: str, verdict: Verdict, style: Style) -> list[str]:
    """One verdict."""
    lines = wrap(style.clean(f"{place}: {headline(verdict)}" if place else headline(verdict)), style)
    lines = [style.paint(line, BOLD) for line in lines]
    for heading, texts in sentences(verdict):
        mark = "- " if len(texts) > 1 else ""
        for number, text in enumerate(texts):
            first = f"  {heading if not number else '':<{_HEADING}}{mark}"
            lines += wrap(style.clean(text), style, " " * len(first), first)
    return lines
