# SPDX-License-Identifier: Apache-2.0
"""View 6: live allocations as the server lists them, and events as they happen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode

from ttmem.documents.breakdown_words import NO_KEY, POOLS
from ttmem.documents.common_text import short_line
from ttmem.documents.unknown_rows import KINDS
from ttmem.model.units import human, parse
from ttmem.show.breakdown_table import per_chip
from ttmem.show.chip_table import Names, short_size
from ttmem.show.text import Style, cells, wrap
from ttmem.show.top.parts import allocation_rows as allocation_rows
from ttmem.show.top.parts import event_list as eventlist
from ttmem.show.top.parts.breakdown_list import ASKING, BY, BreakdownList
from ttmem.show.top.parts.event_list import EventFilter, EventFollower
from ttmem.show.top.parts.listing import (
    WIDE_COLUMNS,
    Cursor,
    Placed,
    Prompt,
    arrange,
    chosen,
    counted,
    finished,
    heading,
    no_server,
    rule,
    time_of,
)
from ttmem.show.top.parts.rows import Characters, Row, Size, width_of

if TYPE_CHECKING:
    from typing import Literal

    from ttmem.model import schema
    from ttmem.show.breakdown_table import By
    from ttmem.show.top.dashboard_state import Model

EVENTS = "/events"
_SORTS = {"size": ("size", True), "newest": ("age", False), "oldest": ("age", True)}  # column, largest first
_MOST_OFFSET = 100_000  # limit of the API
_TALL_ROWS = 34  # minimum height with room for a stack
_SHORT_POOLS = {"dram": "DRAM", "l1_buffers": "L1", "programs": "programs", "host": "host", "system": "runtime"}
_LIMIT_STEP = 10  # requests are rounded up to this, so that a resized screen often sends the same request


class _Opened(NamedTuple):
    """A group of a breakdown whose allocations are listed."""

    by: By
    kinds: tuple[str, ...]
    made_by: tuple[str, str] | None
    words: str


class Allocations:
    """Live allocations and events."""

    name = "Allocations"
    keys: tuple[tuple[str, str], ...] = (
        ("e", "allocations or events"),
        ("s", "sort by size, newest or oldest"),
        ("g", "group by operation, line, shape, program, kind, or not at all"),
        ("enter, escape", "open the allocations of a group, and go back"),
        ("/", "search operations, lines, shapes, or events; escape clears it"),
        ("f, c, p", "only the next kind, the selected chip, the selected row's process"),
        ("m", "only from a minimum size, such as 1M"),
        ("PgUp, PgDn", "turn pages; home and end: the first and the last row"),
        ("F", "events: follow the newest, or pause"),
    )
    kept = ("sort", "events", "by")  # attributes that are stored between runs
    needs_server = True

    def __init__(self) -> None:
        self.sort = "size"
        self.events = False  # whether events are shown instead of allocations
        self.by = ""  # what allocations are grouped by, if anything
        self._breakdown = BreakdownList()
        self._kind: str | None = None
        self._opened: _Opened | None = None
        self._one_chip = False
        self._pid: int | None = None
        self._least = 0
        self._text = ""
        self._prompt: Prompt | None = None
        self._asks_size = False
        self._cursor = Cursor()
        self._follower = EventFollower()
        self._answer: schema.Allocations | None = None  # the last answer, until the next one arrives
        self._placed: list[Placed] = []
        self._shown: dict[int, schema.AllocationRow | dict[str, Any]] = {}  # the allocation or event in each row
        self._seen = range(0)

    # -- requests --------------------------------------------------------------------------------------------------

    def wants(self, model: Model) -> list[str]:
        if not model.answering:
            return []
        if self.events:
            return [EVENTS]
        by = self._by()
        return [self._breakdown.path(by, self._wanted(model))] if by else [self._path(model)]

    def forget(self) -> None:
        """Drop the last answers: they are of another moment."""
        self._answer = None
        self._breakdown.forget()

    def _by(self) -> By | Literal[""]:
        return "" if self.events else next((by for by in BY if by == self.by), "")

    def _wanted(self, model: Model) -> EventFilter:
        here = (model.selected,) if self._one_chip and model.selected is not None else _shown(model)
        opened = None if self.events else self._opened
        kinds = (self._kind,) if self._kind is not None else opened.kinds if opened is not None else ()
        made_by = opened.made_by if opened is not None else None
        return EventFilter(kinds, here, self._pid, self._least, self._text, made_by)

    def _path(self, model: Model) -> str:
        """The path of the request: the visible page and one more on each side, so that scrolling does not wait."""
        query = self._wanted(model).query()
        page = max(2, -(-self._cursor.height // _LIMIT_STEP)) * _LIMIT_STEP
        query |= {"sort": self._order(), "limit": 3 * page}
        if self._cursor.top >= 2 * page:
            query["offset"] = (self._cursor.top // page - 1) * page
        return f"/allocations?{urlencode(query)}"

    def _order(self) -> str:
        return self.sort if self.sort in tuple(_SORTS) else "size"

    # -- rows ------------------------------------------------------------------------------------------------------

    def rows(self, model: Model, size: Size, signs: Characters) -> list[Row]:
        style = Style(size.width, ascii=signs.ascii)
        names = Names(model.chips, style, model.numbers)
        self._shown, self._seen = {}, range(0)
        why = _nobody_to_ask(model)
        if why is not None:
            return finished([self._status(model, [], names, style), [], *_wrapped(why, style=style)], size)
        longest = min(12, max((cells(names.short(chip["chip"])) for chip in model.chips), default=1))
        if by := self._by():
            return finished(self._breakdown_rows(by, model, size, signs, style, names), size)
        if self.events:
            return finished(self._event_rows(model, size, signs, style, names, longest), size)
        return finished(self._allocation_rows(model, size, signs, style, names), size)

    def _allocation_rows(self, model: Model, size: Size, signs: Characters, style: Style, names: Names) -> list[Row]:
        answer = model.answers.get(self._path(model))
        if answer is not None and answer.data is not None:
            self._answer = answer.data
        data = self._answer or None  # an answer without keys has no information
        head: Row = [("" if data is None else _count(data, self._all(model), self._filtered(model)), "bold")]
        if answer is None:
            head.append(("  asking...", "dim"))
        status = self._status(model, head, names, style)
        if data is not None and self._prompt is None:
            status.append((f"  {_whole(_sizes(data['pools'], style), style.width - width_of(status) - 2)}", "bold"))
        if answer is not None and answer.trouble:
            return [status, [], *_wrapped(answer.trouble, style=style, name="warn")]
        if data is None or not data["matched"] or not data["allocations"]:
            return [status, [], *([] if answer is None else _wrapped(self._nothing(model), style=style))]
        allocations, first = data["allocations"], data["offset"]
        stacks = size.height >= _TALL_ROWS and any(allocation["stack"] for allocation in allocations)
        panel = 0 if size.height < 16 else 11 if stacks else 6
        height = max(1, size.height - 3 - panel)
        total = min(data["matched"], _MOST_OFFSET)
        self._seen = self._cursor.look(
            [allocation_rows.key(allocation) for allocation in allocations], height, first, total
        )
        self._placed = arrange(allocation_rows.columns(size.width >= WIDE_COLUMNS, names, allocations), size.width)
        column, down = _SORTS[self._order()]
        rows = [status, heading(self._placed, size.width, signs, column, down)]
        writer = allocation_rows.Writer(self._placed, names, time_of(model), style)
        current: schema.AllocationRow | None = None
        for place in self._seen:
            if not 0 <= place - first < len(allocations):
                rows.append([(" ...", "dim")])
                continue
            allocation = self._shown[place] = allocations[place - first]
            row = writer.row(allocation)
            if place == self._cursor.place:
                current, row = allocation, chosen(row)
            rows.append(row)
        rows.append([(f" {self._left_out(data)}", "dim"), (f"   {writer.legend()}", "dim")])
        if panel and current is not None:
            rows.append(rule(style.clean(allocation_rows.title(current, model.processes)), size.width, signs))
            rows += allocation_rows.details(current, names, style, panel - 1)
        return rows

    def _breakdown_rows(
        self, by: By, model: Model, size: Size, signs: Characters, style: Style, names: Names
    ) -> list[Row]:
        summary, trouble = self._breakdown.look(model, by, self._wanted(model))
        status = self._status(model, [(summary, "bold")], names, style)
        if self._prompt is None:  # also names pools that are further down in the list
            room = style.width - width_of(status) - 2
            status.append((f"  {_whole(_sizes(self._breakdown.pools, style), room)}", "bold"))
        if trouble:
            return [status, [], *_wrapped(trouble, style=style, name="warn")]
        rows = self._breakdown.rows(by, Size(size.width, size.height - 1), signs, style)
        self._seen = self._breakdown.seen
        if not self._seen and summary != ASKING:
            rows = [[], *_wrapped(self._nothing(model), style=style)]
        return [status, *rows]

    def _event_rows(
        self, model: Model, size: Size, signs: Characters, style: Style, names: Names, chip: int
    ) -> list[Row]:
        answer = model.answers.get(EVENTS)
        data: dict[str, Any] = (answer.data if answer is not None else None) or {"events": [], "lost": 0}
        events, lost = data["events"], data["lost"]
        found = eventlist.rates(events, time_of(model), data.get("since"))
        each = ", ".join(f"{name} {eventlist.number(rate)}" for name, rate in found[:5])
        total = eventlist.number(sum(rate for _, rate in found))
        head: Row = [(f"{total} events/s", "bold")]
        if lost:
            head.append((f"  {lost:,} lost: too many for this screen", "bad"))
        if not self._follower.follows:
            head.append(("  held: F or end follows", "warn"))
        status = [*self._status(model, head, names, style), (f"  {each}", "dim")]
        shown, self._seen = self._follower.look(events, self._wanted(model), max(1, size.height - 2))
        if not shown:
            none = "No event since this view was opened." if model.playback is None else "No event up to this moment."
            why = none if not events else "None of the last events fits the filters."
            if answer is not None and answer.trouble:
                why = answer.trouble
            return [status, [], *_wrapped(why, style=style)]
        self._placed = arrange(eventlist.columns(size.width >= WIDE_COLUMNS, chip), size.width)
        rows = [status, heading(self._placed, size.width, signs)]
        for place in self._seen:
            self._shown[place] = shown[place]
            row = eventlist.row(shown[place], self._placed, names, style)
            held = place == self._follower.cursor.place and not self._follower.follows
            rows.append(chosen(row) if held else row)
        return rows

    def _status(self, model: Model, head: Row, names: Names, style: Style) -> Row:
        if self._prompt is not None:
            return self._prompt.row(style.width, style)
        row: Row = [("EVENTS  " if self.events else "BREAKDOWN  " if self._by() else "ALLOCATIONS  ", "title"), *head]
        wanted = self._wanted(model)
        words = [self._opened.words if self._opened is not None and not self.events else None, self._kind]
        words += [f"chip {names.several(wanted.chips)}" if wanted.chips else None]
        words += [f"pid {wanted.pid}" if wanted.pid is not None else None]
        words += [f"from {human(wanted.least)}" if wanted.least else None]
        words += [f"text {wanted.text!r}" if wanted.text else None]
        text = style.clean(", ".join(word for word in words if word))
        return [*row, (f"  only {text}", "warn")] if text else row

    def _filtered(self, model: Model) -> bool:
        """Whether a filter of this view is set. The choice of chips for the whole dashboard does not count."""
        return self._wanted(model) != EventFilter(chips=_shown(model))

    def _all(self, model: Model) -> int:
        return sum(process["allocations"] or 0 for process in model.processes if process["state"] == "tracked")

    def _nothing(self, model: Model) -> str:
        if self._filtered(model):
            return "No allocation matches the filters; escape clears them."
        if model.playback is not None:
            return "Nothing is allocated at this moment."
        return "Nothing is allocated: no process that reports holds anything. `ttmem run -- COMMAND` tracks a program."

    def _left_out(self, data: schema.Allocations) -> str:
        """Which of the matching allocations are on the screen."""
        first, last = self._seen.start + 1, self._seen.start + len(self._shown)
        beyond = f" (those beyond {_MOST_OFFSET:,} cannot be shown)" if data["matched"] > _MOST_OFFSET else ""
        return f"{first:,}-{last:,} of {data['matched']:,}{beyond}"

    # -- keys and clicks -------------------------------------------------------------------------------------------

    def press(self, key: str, model: Model) -> bool:
        if self._prompt is not None:
            self._typed(key, self._prompt, model)
        elif key == "slash":
            self._prompt = Prompt("Search:", self._text)
        elif key == "m":
            text = human(self._least) if self._least else ""
            self._prompt = Prompt("Minimum size:", text, "such as 64K or 1.5M; escape for all")
            self._asks_size = True
        elif key == "escape" and self._opened is not None and not self.events:
            self.by, self._opened = self._opened.by, None  # back to the breakdown
        elif key == "escape" and self._filtered(model):
            self._kind, self._pid, self._least, self._text, self._one_chip = None, None, 0, "", False
        elif key == "e":
            self.events = not self.events
        elif key == "g" and not self.events:
            self.by, self._opened = BY[(BY.index(self._by()) + 1) % len(BY)], None
            self._breakdown.cursor.press("home")
        elif key == "enter" and self._by():
            self._open_group(model)
        elif key == "s" and not self.events:
            order = list(_SORTS)
            self.sort = order[(order.index(self._order()) + 1) % len(order)]
        elif key == "f":
            kinds = (None, *KINDS)
            self._kind = kinds[(kinds.index(self._kind) + 1) % len(kinds)]
        elif key == "c":
            self._one_chip = not self._one_chip
        elif key == "p":
            self._pick_process(model)
        else:
            return self._list.press(key)
        if key in ("s", "f", "c", "p", "escape") and not self.events:
            self._cursor.press("home")  # a new list starts at its first page
        return True

    @property
    def _list(self) -> Cursor | EventFollower:
        return self._follower if self.events else self._breakdown.cursor if self._by() else self._cursor

    def _open_group(self, model: Model) -> None:
        """List the allocations of the selected group or pool."""
        by, entry = self._by(), self._breakdown.chosen
        if not by or entry is None:
            model.message = "there is nothing to open"
            return
        key = entry.row[by] if entry.row is not None else None
        words = POOLS[entry.pool["pool"]]
        if entry.row is not None:
            shown = short_line(key) if by == "line" else key
            words += f", {shown}" if shown else f", {NO_KEY[by]}"
        self._opened = _Opened(by, entry.kinds(by), entry.made_by(by), words)
        self.by = ""
        self._cursor.press("home")

    def _typed(self, key: str, prompt: Prompt, model: Model) -> None:
        meant = prompt.press(key)
        if not self._asks_size:
            self._text = "" if meant is False else prompt.text
        elif meant is not None:
            try:
                self._least = parse(prompt.text) if meant and prompt.text.strip() else 0
            except ValueError as error:
                model.message = str(error)
                return
        if meant is not None:
            self._prompt, self._asks_size = None, False
        self._cursor.press("home")

    def _pick_process(self, model: Model) -> None:
        if self._pid is not None:
            self._pid = None
            return
        row = self._shown.get(self._follower.cursor.place if self.events else self._cursor.place)
        if row is None or row.get("pid") is None:
            model.message = "the selected row has no pid"
        else:
            self._pid = row["pid"]

    def click(self, x: int, y: int, model: Model) -> bool:
        if y == 1 and not self.events and not self._by() and self._shown:
            for one in self._placed:
                if one.x <= x <= one.x + one.width and one.column.name in ("size", "age"):
                    self.sort = "size" if one.column.name == "size" else "oldest" if self.sort == "newest" else "newest"
                    self._cursor.press("home")
                    return True
        place = self._seen.start + y - 2
        if y < 2 or place not in self._seen:
            return False
        if self.events:
            self._follower.hold()
        (self._follower.cursor if self.events else self._breakdown.cursor if self._by() else self._cursor).go(place)
        return True


def _shown(model: Model) -> tuple[str, ...]:
    """The ids of the shown chips; empty if all are shown."""
    return tuple(chip["chip"] for chip in model.chips) if model.wanted else ()


def _whole(text: str, room: int) -> str:
    """A list without the parts that do not fit: a number that is cut would be wrong.

    >>> _whole("DRAM 24.3G, L1 34.2M", 20), _whole("DRAM 24.3G, L1 34.2M", 19)
    ('DRAM 24.3G, L1 34.2M', 'DRAM 24.3G, ...')
    """
    parts, more = text.split(", "), ", ..."
    if len(text) <= room:
        return text
    while len(parts) > 1 and len(", ".join(parts)) + len(more) > room:
        parts.pop()
    return ", ".join(parts) + more


def _nobody_to_ask(model: Model) -> str | None:
    if model.snapshot is None:
        return "Waiting for the first snapshot."
    why = no_server(model)
    return None if why is None else f"Allocations and events need a server: {why}"


def _wrapped(*sentences: str, style: Style, name: str = "") -> list[Row]:
    return [[(row, name)] for text in sentences for row in wrap(style.clean(text), style, "  ", " ")]


def _count(data: schema.Allocations, every: int, filtered: bool) -> str:
    of = f" of {every:,}" if filtered and every >= data["matched"] else ""
    return f"{counted(data['matched'], 'allocation', 'allocations')}{of}"


def _sizes(pools: Mapping[str, schema.SumOverChips], style: Style) -> str:
    """The size of each pool on one chip, and if there is room, on all chips.

    Pools are not added up, because cached programs use L1 in turn.
    """
    wide = style.width >= WIDE_COLUMNS
    names, size_of = (POOLS, human) if wide else (_SHORT_POOLS, short_size)
    each = ", ".join(f"{names.get(pool, pool)} {per_chip(sums, size_of, style.ascii)}" for pool, sums in pools.items())
    if all(sums["chips"] < 2 for sums in pools.values()):
        return each
    every = ", ".join(f"{names.get(pool, pool)} {size_of(sums['bytes'])}" for pool, sums in pools.items())
    return f"per chip: {each}" + (f"; all chips: {every}" if wide else "")
