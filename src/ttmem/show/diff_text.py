# SPDX-License-Identifier: Apache-2.0
"""The comparison of two runs as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ttmem.documents.breakdown_words import POOLS
from ttmem.documents.diff_words import COUNTS, MORE_IS_BETTER, life_text
from ttmem.model.units import human
from ttmem.show.text import BOLD, GREEN, NONE, RED, YELLOW, Style, wrap

if TYPE_CHECKING:
    from ttmem.model import schema

_SHOWN = 20


def render(data: schema.Diff, style: Style) -> str:
    """The text of a document with schema "ttmem.diff/1"."""
    data = style.clean(data)
    old, new = data["old"], data["new"]
    commands = old["command"] != new["command"]
    lines = [*_side("OLD", old, style, commands), *_side("NEW", new, style, commands), ""]
    lines += [style.paint(line, BOLD) for line in wrap(data["headline"][:1].upper() + data["headline"][1:], style)]
    lines += ["", *_figures(data["figures"], style)]
    for pool in data["pools"]:
        lines += ["", *_pool(pool, data, style)]
    if data["lives"]:
        lines += ["", style.paint("Freed at another place", BOLD)]
        for life in data["lives"][:_SHOWN]:
            lines += wrap(life_text(life), style, "    ", "  ")
        if len(data["lives"]) > _SHOWN:
            lines.append(f"  and {len(data['lives']) - _SHOWN:,} more")
    for words in data["exceeded"]:
        lines += ["", *(style.paint(line, RED) for line in wrap(f"Over the limit: {words}", style, "  ", ""))]
    return "\n".join(lines)


def _side(name: str, side: schema.DiffSide, style: Style, with_command: bool) -> list[str]:
    boards = ", ".join(f"{count} x {board}" if count > 1 else board for board, count in side["boards"].items())
    parts = [part for part in (side["file"], boards, side["moment"], with_command and side["command"]) if part]
    lines = [style.cut(f"{name}  {'; '.join(parts)}", style.width)]
    for reason in side["incomplete"]:
        lines += [style.paint(line, YELLOW) for line in wrap(f"incomplete: {reason}", style, "     ", "     ")]
    return lines


def _figures(rows: list[schema.DiffFigure], style: Style) -> list[str]:
    """A table of the figures that changed, and in one line those that did not."""
    changed = [row for row in rows if row["change"] or row["old"] is None or row["new"] is None]
    lines = []
    if changed:
        lines.append(style.paint(f"{'OLD':>12} {'NEW':>12} {'CHANGE':>12}  WHOLE RUN", BOLD))
    for row in changed:
        show = _count if row["name"] in COUNTS else _size
        change = row["change"]
        worse = change is not None and (change < 0 if row["name"] in MORE_IS_BETTER else change > 0)
        sign = "" if change is None else ("+" if change > 0 else "-") + show(abs(change))
        line = f"{show(row['old']):>12} {show(row['new']):>12} {sign:>12}  {row['what']}"
        lines.append(style.paint(line, (RED if worse else GREEN) if change else NONE))
    same = [row["name"] for row in rows if row not in changed]
    if same:
        lines += wrap(f"Figures of the whole run that are the same: {', '.join(same)}", style, "  ", "")
    return lines


def _pool(pool: schema.DiffPool, data: schema.Diff, style: Style) -> list[str]:
    title = f"{POOLS[pool['pool']]} {data['new']['moment']}: {human(pool['old'])} {style.arrow} {human(pool['new'])}"
    lines = [style.paint(title[:1].upper() + title[1:], BOLD)]
    if pool["rows"]:
        lines.append(f"{'CHANGE':>12} {'OLD':>12} {'NEW':>12}  {'COUNT':>11}  {data['by'].upper()}")
    for row in pool["rows"][:_SHOWN]:
        change = row["change"]
        sign = "0 B" if not change else ("+" if change > 0 else "-") + human(abs(change))
        counts = f"{row['old_count']:,} {style.arrow} {row['new_count']:,}"
        head = f"{sign:>12} {human(row['old_bytes']):>12} {human(row['new_bytes']):>12}  {counts:>11}  "
        words = f"{row['key']}: {'; '.join(row['what'])}"
        lines += wrap(words, style, " " * len(head), head)
    rest = len(pool["rows"]) - _SHOWN
    if rest > 0:
        lines.append(f"  and {rest:,} more")
    if pool["unchanged_groups"]:
        groups = f"{pool['unchanged_groups']:,} group{'s' * (pool['unchanged_groups'] != 1)}"
        lines.append(f"  unchanged: {groups}, {human(pool['unchanged_bytes'])}")
    return lines


def _size(value: int | None) -> str:
    return "unknown" if value is None else human(value)


def _count(value: int | None) -> str:
    return "unknown" if value is None else f"{value:,}"
