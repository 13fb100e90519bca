# SPDX-License-Identifier: Apache-2.0
"""Live allocations of each pool, grouped by operation, line, shape, program or kind, as a list with bars."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlencode

from ttmem.documents.breakdown_words import NO_KEY
from ttmem.documents.common_text import short_line
from ttmem.model.kinds import BREAKDOWN_POOLS
from ttmem.model.units import human
from ttmem.show.breakdown_table import WORDS, per_chip, title
from ttmem.show.chip_table import percent
from ttmem.show.text import Style
from ttmem.show.top.parts.event_list import EventFilter, kind_style
from ttmem.show.top.parts.listing import Column, Cursor, arrange, chosen, counted, heading, line
from ttmem.show.top.parts.rows import Characters, FineBars, Row, Size

if TYPE_CHECKING:
    from typing import Literal

    from ttmem.model.schema import Breakdown, BreakdownPoolRow, BreakdownRow, SumOverChips
    from ttmem.show.breakdown_table import By
    from ttmem.show.top.dashboard_state import Model

ASKING = "asking..."  # the summary before the first answer
BY: tuple[By | Literal[""], ...] = ("", "op", "line", "shape", "program", "kind")
_MOST_ROWS = 500  # per pool
_BAR_COLUMNS = 16
_KINDS = {pool.label: tuple(kind.label for kind in kinds) for pool, kinds in BREAKDOWN_POOLS.items()}


class Entry(NamedTuple):
    """A line of the list: a group of a pool, or the pool itself above its groups."""

    pool: BreakdownPoolRow
    row: BreakdownRow | None

    def kinds(self, by: By) -> tuple[str, ...]:
        """The kinds of memory of its allocations."""
        if self.row is not None and by == "kind":
            return (str(self.row["kind"]),)
        return _KINDS[self.pool["pool"]]

    def made_by(self, by: By) -> tuple[str, str] | None:
        """The filter for its allocations, in addition to their kinds."""
        return None if self.row is None or by == "kind" else (by, self.row[by] or "")


class BreakdownList:
    """The groups of each pool, largest first, and the selected one."""

    def __init__(self) -> None:
        self.cursor = Cursor()
        self.seen = range(0)
        self._entries: list[Entry] = []
        self._answer: Breakdown | None = None

    @property
    def chosen(self) -> Entry | None:
        return self._entries[self.cursor.place] if self.cursor.place < len(self._entries) else None

    @property
    def pools(self) -> dict[str, SumOverChips]:
        """The sums of each listed pool."""
        return {entry.pool["pool"]: entry.pool for entry in self._entries if entry.row is None}

    def forget(self) -> None:
        """Drop the last answer."""
        self._answer = None

    def path(self, by: By, wanted: EventFilter) -> str:
        return f"/breakdown?{urlencode({'by': by, **wanted.query(), 'limit': _MOST_ROWS})}"

    def look(self, model: Model, by: By, wanted: EventFilter) -> tuple[str, str | None]:
        """Take the server's answer. Returns a summary of the list, and the error if there is one."""
        answer = model.answers.get(self.path(by, wanted))
        if answer is not None and answer.data is not None:
            self._answer = answer.data
        trouble = answer.trouble if answer is not None else None
        if self._answer is None or self._answer["by"] != by:
            self._entries = []
            return ASKING, trouble
        pools = self._answer["pools"]
        self._entries = [Entry(pool, row) for pool in pools for row in (None, *pool["rows"])]
        groups, listed = sum(pool["groups"] for pool in pools), sum(len(pool["rows"]) for pool in pools)
        count = counted(groups, "group", "groups")
        count += f", the {_MOST_ROWS} largest of each pool below" if groups > listed else ""
        return f"by {WORDS[by]}, {count}", trouble

    def rows(self, by: By, size: Size, signs: Characters, style: Style) -> list[Row]:
        """The titles of the list, and the visible entries."""
        keys = [(entry.pool["pool"], entry.row is None, entry.row and entry.row[by]) for entry in self._entries]
        self.seen = self.cursor.look(keys, max(1, size.height - 1))
        rows = [entry.row for entry in self._entries if entry.row is not None]
        several = any(row["chips"] > 1 for row in rows)
        columns = [
            Column("bytes", "ALL CHIPS" if several else "SIZE", 10, 11, 0, right=True),
            Column("share", "SHARE", 5, 5, 1, right=True),
            Column("bar", "", _BAR_COLUMNS, _BAR_COLUMNS, 3),
            Column("count", "COUNT", 6, 8, 1, right=True),
            Column("key", WORDS[by].upper(), 20, 46, 0),
        ]
        if several:
            columns.insert(4, Column("chips", "CHIPS", 5, 5, 2, right=True))
            columns.insert(1, Column("per_chip", "PER CHIP", 10, 12, 1, right=True))
        if by != "kind":
            columns.append(Column("kinds", "KINDS, ALL CHIPS" if several else "KINDS", 24, 80, 2))
        placed = arrange(columns, size.width)
        out = [heading(placed, size.width, signs, "bytes", True)]
        for place in self.seen:
            entry = self._entries[place]
            if entry.row is None:
                text = style.cut(style.clean(title(entry.pool)), size.width)
                row: Row = [(f"{text:<{size.width}}", "bold")]
            else:
                texts = _texts(entry.row, entry.pool, by, style)
                row = line([texts[one.column.name] for one in placed], placed, size.width, style)
            out.append(chosen(row) if place == self.cursor.place else row)
        return out


def _texts(row: BreakdownRow, pool: BreakdownPoolRow, by: By, style: Style) -> dict[str, tuple[str, str]]:
    key = short_line(row[by]) if by == "line" else row[by]
    part = row["bytes"] / pool["bytes"] if pool["bytes"] else 0.0
    bar = FineBars(ascii=style.ascii).bar(part, _BAR_COLUMNS)[0].rstrip("░.") or ("#" if part else "")
    largest = max(row["kinds"], key=row["kinds"].__getitem__, default="")
    kinds = ", ".join(f"{kind} {human(size)}" for kind, size in row["kinds"].items())
    return {
        "bytes": (human(row["bytes"]), "bold"),
        "per_chip": (per_chip(row, human, style.ascii), ""),
        "share": (percent(part), ""),
        "bar": (bar, kind_style(largest)),
        "count": (f"{row['count']:,}", ""),
        "chips": (f"{row['chips']:,}", ""),
        "key": (style.clean(key) if key else NO_KEY[by], "" if key else "dim"),
        "kinds": (kinds if len(row["kinds"]) > 1 else largest, "dim"),
    }
