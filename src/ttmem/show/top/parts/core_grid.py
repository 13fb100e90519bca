# SPDX-License-Identifier: Apache-2.0
"""The L1 of one core in a few rows: a strip to scale, and a list of its segments with their owners."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ttmem.model.units import human
from ttmem.show.l1_text import WORDS, known, segment_text
from ttmem.show.text import Style
from ttmem.show.top.parts.rows import Characters, Row, Size, fitted, shortened

if TYPE_CHECKING:
    from ttmem.model.schema import CoreDetail, CoreRow, Cores, SegmentRow

# The character of a kind in the strip, with block elements and in ASCII, and its style.
_SIGNS = {
    "firmware": ("▒", "f", "firmware"),
    "ring": ("▒", "r", "kernel"),
    "cb": ("█", "C", "cb"),
    "dfb": ("█", "D", "dfb"),
    "scratchpad": ("█", "S", "scratchpad"),
    "l1": ("▓", "L", "l1"),
    "l1_small": ("▓", "s", "l1_small"),
    "free": ("░", ".", "free"),
    "small_free": ("░", ",", "free"),
    "unknown": ("?", "?", "warn"),
}


def strip(segments: list[SegmentRow], size: int, width: int, signs: Characters) -> Row:
    """All of L1 in one row; a cell shows the kind that has most of it."""
    row: Row = []
    place = 0
    for cell in range(width):
        start, end = cell * size // width, (cell + 1) * size // width
        while place < len(segments) and segments[place]["end"] <= start:
            place += 1
        shares: dict[str, int] = {}
        at = place
        while at < len(segments) and segments[at]["start"] < end:
            one = segments[at]
            length = min(end, one["end"]) - max(start, one["start"])
            shares[one["kind"]] = shares.get(one["kind"], 0) + length
            at += 1
        kind = max(shares, key=lambda kind: shares[kind], default="unknown")
        block, plain, style = _SIGNS[kind]
        sign = plain if signs.ascii else block
        if row and row[-1][1] == style:
            row[-1] = (row[-1][0] + sign, style)
        else:
            row.append((sign, style))
    return row


def snapshot(segments: list[SegmentRow], core: CoreRow, data: Cores, size: Size, signs: Characters) -> list[Row]:
    """The strip, higher if there is room, and below it the gap between program and lowest buffer, to scale."""
    layout = known(data["l1"])
    l1_size = layout["size"]
    row = strip(segments, l1_size, size.width, signs)
    high = 3 if size.height >= 24 else 2 if size.height >= 18 else 1
    rows = [row] * high
    headroom, floor = core["headroom"], data["floor"]["address"]
    if headroom is None or floor is None or size.height < 8:
        return rows
    end = layout["base"] if core["end"] is None else core["end"]
    low, top = sorted((end, floor))
    first, last = low * size.width // l1_size, max(low * size.width // l1_size + 1, top * size.width // l1_size - 1)
    what = f" headroom {human(headroom)} " if headroom >= 0 else f" CLASH by {human(-headroom)} "
    left, bar, right = ("<", "-", ">") if signs.ascii else ("├", "─", "┤")
    arrow = left + f"{what:{bar}^{max(0, last - first - 1)}}"[: max(0, last - first - 1)] + right
    if len(what) > last - first - 1:  # too narrow for the text, which is placed next to it
        arrow = left + bar * max(0, last - first - 1) + right
        before = first - len(what) >= 0
        arrow = what + arrow if before else arrow + what
        first = first - len(what) if before else first
    name = headroom_style(headroom, data)
    row = [(" " * first, ""), (arrow, name)]
    for words in ("lowest L1 buffer", "buffers"):
        wall = f"{'^' if signs.ascii else '▲'} {words}"
        if headroom >= 0 and first + len(arrow) + len(wall) < size.width:
            row.append((wall, "bold"))
            break
    return [*rows, fitted(row, size.width)]


def headroom_style(headroom: int | None, data: Cores) -> str:
    """The style of a headroom: normal, warning or bad."""
    if headroom is None:
        return "dim"
    layout = known(data["l1"])
    part = headroom / max(1, layout["size"] - layout["base"])
    return "bad" if part < 0.02 else "warn" if part < 0.1 else "good"


def map_rows(detail: CoreDetail, floor: int | None, style: Style, room: int) -> tuple[list[Row], int]:
    """A row for each segment, high addresses first, and the index of the one just below the floor.

    If there are more segments than rows, adjacent segments of one kind are merged.
    """
    found = [[segment] for segment in detail["segments"]]
    if len(found) > room:
        found = _joined(found)
    rows: list[Row] = []
    gap = 0
    if detail["listed_to"] is not None:
        rows.append([(f"above {detail['listed_to']:#x} there is more", "dim")])
    for group in reversed(found):
        if group[-1]["end"] == floor:
            gap = len(rows)
        rows.append(_row(group, style))
    return rows, gap


def _row(group: list[SegmentRow], style: Style) -> Row:
    first, last = group[0], group[-1]
    kind = first["kind"]
    what = WORDS[kind] if len(group) == 1 else f"{len(group)} x {WORDS[kind]}"
    texts = [text for text in map(segment_text, group) if text]
    whose = "; ".join(dict.fromkeys(texts[:3])) + (" ..." if len(texts) > 3 else "")
    head = f"{first['start']:>#8x} {human(last['end'] - first['start']):>10} "
    overlap = kind != "unknown" and any(len(segment["owners"]) > 1 for segment in group)
    name = "bad" if overlap else "dim" if kind in ("free", "small_free", "firmware", "ring") else _SIGNS[kind][2]
    text = style.clean(f"{what} {whose}".rstrip())
    return [(head, "dim"), (shortened(text, max(0, style.width - len(head)), style), name)]


def _joined(found: list[list[SegmentRow]]) -> list[list[SegmentRow]]:
    out: list[list[SegmentRow]] = []
    for group in found:
        if out and out[-1][0]["kind"] == group[0]["kind"]:
            out[-1] = [*out[-1], *group]
        else:
            out.append(group)
    return out
