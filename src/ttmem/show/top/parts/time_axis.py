# SPDX-License-Identifier: Apache-2.0
"""The time axis of a chart: labels, and marks for the phases that workloads named."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from time import localtime, strftime

from ttmem.documents.common_text import zone
from ttmem.show.text import Style, cells
from ttmem.show.top.parts.chip_history import Phase


@lru_cache(maxsize=4)  # all charts of a grid have the same
def times(since: float, until: float, width: int) -> str:
    """The axis of time: how long ago, or for long windows the time of day, with its zone at the end."""
    span = until - since
    clock = span >= 3600
    # A label every fifteen cells or more, at round fractions of the window.
    count = next((count for count in (6, 5, 4, 3, 2) if width // count >= 14), 1)
    end = strftime("%H:%M", localtime(until)) + zone(localtime(until)) if clock else "now"
    out = ""
    for number in range(count):
        ago, start = span * (1 - number / count), round(width * number / count)
        text = strftime("%H:%M", localtime(until - ago)) if clock else f"-{duration(ago)}"
        if start + len(text) < width - len(end):
            out = f"{out:<{start}}{text}"
    return f"{out:<{width}}"[: max(0, width - len(end))] + end[:width]


def duration(seconds: float) -> str:
    """A time in few letters.

    >>> duration(30), duration(90), duration(300), duration(3600), duration(86400)
    ('30s', '1m30s', '5m', '1h', '24h')
    """
    total = round(seconds)
    hours, minutes, rest = total // 3600, total // 60 % 60, total % 60
    parts = ((hours, "h"), (minutes, "m"), (rest, "s"))
    return "".join(f"{value}{unit}" for value, unit in parts if value) or "0s"


def moment(since: float, until: float) -> str:
    """A short stretch of local time with its zone, to the second, or to a tenth of one if it is shorter than that.

    >>> moment(1_794_800_040.0, 1_794_800_043.0), moment(1_794_800_040.25, 1_794_800_040.5)
    ('03:34:00 to 03:34:03 UTC', '03:34:00.2 to 03:34:00.5 UTC')
    """
    tenths = until - since < 1
    begin, end = (
        strftime("%H:%M:%S", localtime(time)) + (f".{int(time * 10 % 10)}" if tenths else "") for time in (since, until)
    )
    return f"{begin} to {end}{zone(localtime(until))}"


def phase_bars(phases: Sequence[Phase], since: float, now: float, cell: float, width: int, style: Style) -> str:
    """A bar for each phase in cells of so many seconds, with as much of its name as there is room for."""
    out = [" "] * width
    for phase in phases:
        begin, end = (
            int((time - since) // cell) for time in (phase.since, now if phase.until is None else phase.until)
        )
        first, last = max(0, begin), min(width - 1, end)
        if last < first:
            continue
        open_, line, close = ("[", "=", "]") if style.ascii else ("╞", "═", "╡")
        out[first : last + 1] = line * (last + 1 - first)
        out[first] = open_ if begin >= 0 else line
        if last > first and phase.until is not None:
            out[last] = close
        name = style.cut(style.clean((phase.path or "?").rpartition("/")[2]), last - first - 1)
        if cells(name) == len(name):
            out[first + 1 : first + 1 + len(name)] = name
    return "".join(out)
