# SPDX-License-Identifier: Apache-2.0
"""Live allocations by what made them, as a list with bars: operation, line of Python, shape, program, kind."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlencode

from ttmem.documents.common_text import short_line
from ttmem.model.units import human
from ttmem.show.breakdown_table import NONE, WORDS
from ttmem.show.text import Style
from ttmem.show.top.parts.event_list import EventFilter, kind_style
from ttmem.show.top.parts.listing import Column, Cursor, arrange, chosen, counted, heading, line
from ttmem.show.top.parts.rows import Characters, FineBars, Row, Size

if TYPE_CHECKING:
    from typing import Literal

    from ttmem.model.schema import Breakdown, BreakdownRow
    from ttmem.show.breakdown_table import By
    from ttmem.show.top.dashboard_state import Model

BY: tuple[By | Literal[""], ...] = ("", "op", "line", "shape", "program", "kind")
_MOST_ROWS = 500
_BAR_COLUMNS = 16


class BreakdownList:
    """The rows, largest first, and which is chosen."""

    def __init__(self) -> None:
        self.cursor = Cursor()
        self.shown: list[BreakdownRow] = []
        self.seen = range(0)
        self._answer: Breakdown | None = None

    def path(self, by: By, wanted: EventFilter) -> str:
        return f"/breakdown?{urlencode({'by': by, **wanted.query(), 'limit': _MOST_ROWS})}"

    def look(self, model: Model, by: By, wanted: EventFilter) -> tuple[str, str | None]:
        """Takes what is answered. What it sums up to, in words, and what is wrong."""
        answer = model.answers.get(self.path(by, wanted))
        if answer is not None and answer.data is not None:
            self._answer = answer.data
        trouble = answer.trouble if answer is not None else None
        if self._answer is None or self._answer["by"] != by:
            self.shown = []
            return "asking...", trouble
        self.shown = self._answer["rows"]
        count = counted(self._answer["count"], "row", "rows")
        count += f", the {len(self.shown)} largest below" if self._answer["count"] > len(self.shown) else ""
        return f"{human(self._answer['bytes'])} by {WORDS[by]}, {count}", trouble

    def rows(self, by: By, size: Size, signs: Characters, style: Style) -> list[Row]:
        """The head of the list and as much of it as fits."""
        total = (self._answer["bytes"] if self._answer else 0) or 1
        self.seen = self.cursor.look([row[by] for row in self.shown], max(1, size.height - 1))
        columns = [
            Column("bytes", "BYTES", 9, 10, 0, right=True),
            Column("share", "SHARE", 5, 5, 1, right=True),
            Column("bar", "", _BAR_COLUMNS, _BAR_COLUMNS, 3),
            Column("count", "ALLOCATIONS", 7, 8, 1, right=True),
            Column("key", WORDS[by].upper(), 20, 46, 0),
            Column("kinds", "KINDS", 24, 80, 2),
        ]
        placed = arrange([column for column in columns if by != "kind" or column.name != "kinds"], size.width)
        out = [heading(placed, size.width, signs, "bytes", True)]
        for place in self.seen:
            texts = self._texts(self.shown[place], by, total, style)
            row = line([texts[one.column.name] for one in placed], placed, size.width, style)
            out.append(chosen(row) if place == self.cursor.place else row)
        return out

    def _texts(self, row: BreakdownRow, by: By, total: int, style: Style) -> dict[str, tuple[str, str]]:
        key = short_line(row[by]) if by == "line" else row[by]
        part = row["bytes"] / total
        bar = FineBars(ascii=style.ascii).bar(part, _BAR_COLUMNS)[0].rstrip("░.") or ("#" if part else "")
        largest = max(row["kinds"], key=row["kinds"].__getitem__, default="")
        kinds = ", ".join(f"{kind} {human(size)}" for kind, size in row["kinds"].items())
        return {
            "bytes": (human(row["bytes"]), "bold"),
            "share": (f"{100 * part:.0f}%" if part >= 0.01 or not part else "<1%", ""),
            "bar": (bar, kind_style(largest)),
            "count": (f"{row['count']:,}", ""),
            "key": (style.clean(key) if key else NONE[by], "" if key else "dim"),
            "kinds": (kinds, "dim"),
        }
