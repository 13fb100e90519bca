# SPDX-License-Identifier: Apache-2.0
"""How close a chip's programs are to the wall: the L1 buffer that ttnn would refuse to overlap."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from ttmem.account.units import human
from ttmem.show.chips import percent
from ttmem.show.text import Style, cells
from ttmem.show.top.model import Model
from ttmem.show.top.rows import Row, fitted, spans

Json = dict[str, Any]

_BAR = 10


def path_of(model: Model) -> list[str]:
    """What is to be asked about the chosen chip."""
    if model.picture is None or model.picture["server"] is None or model.selected is None:
        return []
    return [f"/headroom?chip={quote(model.selected, safe='')}"]


def wall_rows(model: Model, style: Style) -> list[Row]:
    """For the program that ran last, and for the cached one that comes closest; nothing if nobody knows."""
    answers = [model.answers[path] for path in path_of(model) if path in model.answers]
    if not answers or answers[0].data is None:
        return []
    found = [chip for chip in answers[0].data["chips"] if chip["chip"] == model.selected]
    if not found or found[0]["floor"] is None:
        return []
    wall = found[0]
    launched = min(wall["launched"], key=lambda program: program["headroom"], default=None)
    rows = [_row("wall, last run", launched, wall, style)] if launched else []
    worst = wall["worst_cached"]
    if worst and (launched is None or worst["program"] != launched["program"]):
        rows.append(_row("wall, any cached", worst, wall, style))
    return rows


def _row(name: str, program: Json, wall: Json, style: Style) -> Row:
    """Like a row of the breakdown, but of one core: how far a program reaches up to the lowest buffer."""
    end, floor, left = program["end"], wall["floor"], program["headroom"]
    bar, warning = style.bar(end / floor if floor else 1.0, _BAR)
    first = spans(f"  {name:<17} [{style.paint(bar, warning)}] {human(end):>10} / {human(floor):<9} ")
    holder = wall["floor_holder"]
    what = f"{holder['tag'] or holder['kind']} of pid {holder['pid'] or '?'}" if holder else "the end of L1"
    room = f"{human(left)} left" if left >= 0 else f"{human(-left)} TOO MUCH"
    row: Row = [
        *first,
        (f"{percent(min(1.0, end / floor) if floor else None):>4}  ", ""),
        (room, "bad" if left <= 0 else "bold"),
    ]
    used = sum(cells(text) for text, _ in row)
    rest = f" below {what}"
    return fitted([*row, (style.cut(rest, max(0, style.width - used)), "dim")], style.width)
