# SPDX-License-Identifier: Apache-2.0
"""Prints figures, and at the end whether the budgets were met."""

from __future__ import annotations

import statistics
from collections.abc import Sequence


class Report:
    """Collects the verdicts on the budgets of DESIGN."""

    def __init__(self) -> None:
        self._verdicts: list[tuple[str, str, bool]] = []

    def title(self, text: str) -> None:
        print(f"\n{text}\n{'-' * len(text)}", flush=True)

    def figure(self, name: str, value: str, note: str = "") -> None:
        print(f"  {name:<52} {value:>14}  {note}".rstrip(), flush=True)

    def budget(self, name: str, value: float, limit: float, unit: str, *, at_least: bool = False) -> None:
        """A figure with an upper or lower limit."""
        met = value >= limit if at_least else value <= limit
        text = f"{value:.3g} {unit}, {'at least' if at_least else 'at most'} {limit:.3g} {unit}"
        self._verdicts.append((name, text, met))

    def verdict(self) -> None:
        self.title("Budgets")
        for name, text, met in self._verdicts:
            print(f"  {'met   ' if met else 'MISSED'}  {name}: {text}")
        missed = sum(not met for _, _, met in self._verdicts)
        print(f"\nbudgets: {len(self._verdicts) - missed} met, {missed} missed")


def spread(values: Sequence[float], scale: float = 1.0, digits: int = 0) -> str:
    """The median and the range."""
    low, mid, high = min(values), statistics.median(values), max(values)
    return f"{mid * scale:,.{digits}f} ({low * scale:,.{digits}f}..{high * scale:,.{digits}f})"
