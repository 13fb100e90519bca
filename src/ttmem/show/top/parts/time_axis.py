# SPDX-License-Identifier: Apache-2.0
"""The time axis of a chart: labels, and marks for the phases that workloads named."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import floor, log10
from time import localtime, strftime

from ttmem.documents.common_text import zone
from ttmem.show.text import Style, cells
from ttmem.show.top.parts.chip_history import Phase


@lru_cache(maxsize=4)  # all charts of a grid have the same axis
def times(since: float, until: float, width: int, origin: float | None = None) -> str:
    """The axis of time: how long ago, or for long windows the time of day, with its zone at the end.

    With an origin, it is the time since then.
    """
    span = until - since
    if origin is not None:
        return _times_after(origin, since, span, width)
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


def _times_after(origin: float, since: float, span: float, width: int) -> str:
    """
    >>> _times_after(100.0, 100.0, 2.0, 60)
    '+0.000s        +0.500s        +1.000s        +1.500s        '
    """
    count = next((count for count in (6, 5, 4, 3, 2) if width // count >= 14), 1)
    digits = max(0, min(6, 2 - floor(log10(max(span, 1e-9) / count))))
    out = ""
    for number in range(count):
        after = since + span * number / count - origin
        text = f"{'+' if after >= 0 else '-'}{abs(after):.{digits}f}s" if span < 3600 else f"+{duration(after)}"
        out = f"{out:<{round(width * number / count)}}{text}"
    return f"{out:<{width}}"[:width]


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
    """A short interval in local time with its zone, in seconds, or in tenths if it is shorter than a second.

    >>> moment(1_794_800_040.0, 1_794_800_043.0), moment(1_794_800_040.25, 1_794_800_040.5)
    ('03:34:00 to 03:34:03 UTC', '03:34:00.2 to 03:34:00.5 UTC')
    """
    tenths = until - since < 1
    begin, end = (
        strftime("%H:%M:%S", localtime(time)) + (f".{int(time * 10 % 10)}" if tenths else "") for time in (since, until)
    )
    return f"{begin} to {end}{zone(localtime(until))}"


def phase_bars(phases: Sequence[Phase], since: float, now: float, cell: float, width: int, style: Style) -> str:
    """A bar for each phase, with as much of its name as fits; ``cell`` is the seconds of a cell."""
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
