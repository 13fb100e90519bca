# SPDX-License-Identifier: Apache-2.0
"""View 6: live allocations as the server lists them, and events as they happen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from ttmem.documents.unknown_rows import KINDS
from ttmem.model.units import human, parse
from ttmem.show.chip_table import Names
from ttmem.show.text import Style, cells, wrap
from ttmem.show.top.parts import allocation_rows as allocation_rows
from ttmem.show.top.parts import event_list as eventlist
from ttmem.show.top.parts.breakdown_list import BY, BreakdownList
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
from ttmem.show.top.parts.rows import Characters, Row, Size

if TYPE_CHECKING:
    from typing import Literal

    from ttmem.model import schema
    from ttmem.show.breakdown_table import By
    from ttmem.show.top.dashboard_state import Model

EVENTS = "/events"
_SORTS = {"size": ("size", True), "newest": ("age", False), "oldest": ("age", True)}  # column, largest first
_MOST_OFFSET = 100_000  # what lies beyond cannot be asked for
_LIMIT_STEP = 10  # by which the number of allocations asked for grows, so that a screen that is resized asks the same


class Allocations:
    """What is allocated, and what happens."""

    name = "Allocations"
    keys: tuple[tuple[str, str], ...] = (
        ("e", "allocations or events"),
        ("s", "sort by size, newest or oldest"),
        (
            "g",
            "break allocations down by operation, line, shape, program, kind; enter: the allocations of the chosen row",
        ),
        ("/", "filter: allocations by their tag, events by any of their text; escape clears all filters"),
        ("f", "only one kind of memory: the next one"),
        ("c", "only the chip that is chosen, or all"),
        ("p", "only the process of the chosen row, or all processes"),
        ("m", "only from a size on, such as 1M"),
        ("pgup, pgdn, home, end", "turn pages"),
        ("F", "events: follow the newest, or hold still"),
    )
    kept = ("sort", "events", "by")  # of its attributes, from one start to the next

    def __init__(self) -> None:
        self.sort = "size"
        self.events = False  # are they shown, instead of allocations?
        self.by = ""  # what allocations are put together by
        self._breakdown = BreakdownList()
        self._kind: str | None = None
        self._one_chip = False
        self._pid: int | None = None
        self._least = 0
        self._text = ""
        self._prompt: Prompt | None = None
        self._asks_size = False
        self._cursor = Cursor()
        self._follower = EventFollower()
        self._answer: schema.Allocations | None = None  # the last that fitted, until the next one is there
        self._placed: list[Placed] = []
        self._shown: dict[int, schema.AllocationRow | dict[str, Any]] = {}  # the allocation or event at each place
        self._seen = range(0)

    # -- what is asked ---------------------------------------------------------------------------------------------

    def wants(self, model: Model) -> list[str]:
        if model.snapshot is None or not model.snapshot["server"]:
            return []
        if self.events:
            return [EVENTS]
        by = self._by()
        return [self._breakdown.path(by, self._wanted(model))] if by else [self._path(model)]

    def _by(self) -> By | Literal[""]:
        return "" if self.events else next((by for by in BY if by == self.by), "")

    def _wanted(self, model: Model) -> EventFilter:
        here = (model.selected,) if self._one_chip and model.selected is not None else _shown(model)
        return EventFilter(self._kind, here, self._pid, self._least, self._text)

    def _path(self, model: Model) -> str:
        """A page more than is seen on either side, so that scrolling need not wait."""
        query = self._wanted(model).query()
        page = max(2, -(-self._cursor.height // _LIMIT_STEP)) * _LIMIT_STEP
        query |= {"sort": self._order(), "limit": 3 * page}
        if self._cursor.top >= 2 * page:
            query["offset"] = (self._cursor.top // page - 1) * page
        return f"/allocations?{urlencode(query)}"

    def _order(self) -> str:
        return self.sort if self.sort in tuple(_SORTS) else "size"

    # -- what is shown ---------------------------------------------------------------------------------------------

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
        make = self._event_rows if self.events else self._allocation_rows
        return finished(make(model, size, signs, style, names, longest), size)

    def _allocation_rows(
        self, model: Model, size: Size, signs: Characters, style: Style, names: Names, chip: int
    ) -> list[Row]:
        answer = model.answers.get(self._path(model))
        if answer is not None and answer.data is not None:
            self._answer = answer.data
        data = self._answer or None  # an answer without keys says nothing
        head: Row = [("" if data is None else _sum(data, self._all(model), self._filtered(model)), "bold")]
        if answer is None:
            head.append(("  asking...", "dim"))
        status = self._status(model, head, names, style)
        if answer is not None and answer.trouble:
            return [status, [], *_wrapped(answer.trouble, style=style, name="warn")]
        if data is None or not data["matched"] or not data["allocations"]:
            return [status, [], *([] if answer is None else _wrapped(self._nothing(model), style=style))]
        allocations, first = data["allocations"], data["offset"]
        panel = 6 if size.height >= 16 else 0
        height = max(1, size.height - 3 - panel)
        total = min(data["matched"], _MOST_OFFSET)
        self._seen = self._cursor.look(
            [allocation_rows.key(allocation) for allocation in allocations], height, first, total
        )
        kind = max(len(allocation["kind"]) for allocation in allocations)
        self._placed = arrange(allocation_rows.columns(size.width >= WIDE_COLUMNS, chip, kind), size.width)
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
            rows += _wrapped(*allocation_rows.details(current, names), style=style)
        return rows

    def _breakdown_rows(
        self, by: By, model: Model, size: Size, signs: Characters, style: Style, names: Names
    ) -> list[Row]:
        summary, trouble = self._breakdown.look(model, by, self._wanted(model))
        status = self._status(model, [(summary, "bold")], names, style)
        if trouble:
            return [status, [], *_wrapped(trouble, style=style, name="warn")]
        rows = self._breakdown.rows(by, Size(size.width, size.height - 1), signs, style)
        self._seen = self._breakdown.seen
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
            why = "No event since this view was opened." if not events else "None of the last events fits the filters."
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
        words = [wanted.kind, f"chip {names.several(wanted.chips)}" if wanted.chips else None]
        words += [f"pid {wanted.pid}" if wanted.pid is not None else None]
        words += [f"from {human(wanted.least)}" if wanted.least else None]
        words += [f"{'text' if self.events else 'tag'} {style.clean(wanted.text)!r}" if wanted.text else None]
        text = ", ".join(word for word in words if word)
        return [*row, (f"  only {text}", "warn")] if text else row

    def _filtered(self, model: Model) -> bool:
        """By what can be chosen here; which chips are shown at all is chosen elsewhere."""
        return self._wanted(model) != EventFilter(chips=_shown(model))

    def _all(self, model: Model) -> int:
        return sum(process["allocations"] or 0 for process in model.processes if process["state"] == "tracked")

    def _nothing(self, model: Model) -> str:
        if self._filtered(model):
            return "Nothing that is allocated fits the filters; escape clears them."
        return "Nothing is allocated: no process that reports holds anything. `ttmem run -- COMMAND` tracks a program."

    def _left_out(self, data: schema.Allocations) -> str:
        """How much of what fits is on the screen, and how much is not."""
        size = sum(allocation["size"] for allocation in self._shown.values())
        count, more = len(self._shown), data["matched"] - len(self._shown)
        seen = f"{self._seen.start + 1:,}-{self._seen.start + count:,}: {human(size)}"
        if not more:
            return seen
        beyond = f" (those beyond {_MOST_OFFSET:,} cannot be shown)" if data["matched"] > _MOST_OFFSET else ""
        return f"{seen}; {more:,} more: {human(max(0, data['bytes'] - size))}{beyond}"

    # -- what the user does ----------------------------------------------------------------------------------------

    def press(self, key: str, model: Model) -> bool:
        if self._prompt is not None:
            self._typed(key, self._prompt, model)
        elif key == "slash":
            self._prompt = Prompt("Text:" if self.events else "Tag:", self._text)
        elif key == "m":
            text = human(self._least) if self._least else ""
            self._prompt = Prompt("From which size on:", text, "such as 64K or 1.5M; escape for all")
            self._asks_size = True
        elif key == "escape" and self._filtered(model):
            self._kind, self._pid, self._least, self._text, self._one_chip = None, None, 0, "", False
        elif key == "e":
            self.events = not self.events
        elif key == "g" and not self.events:
            self.by = BY[(BY.index(self._by()) + 1) % len(BY)]
            self._breakdown.cursor.press("home")
        elif key == "enter" and self._by():
            self._open_row(model)
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
            self._cursor.press("home")  # another list: its first page
        return True

    @property
    def _list(self) -> Cursor | EventFollower:
        return self._follower if self.events else self._breakdown.cursor if self._by() else self._cursor

    def _open_row(self, model: Model) -> None:
        """The allocations of the chosen row, where there is a filter that means them."""
        by, breakdown = self._by(), self._breakdown
        key = (
            breakdown.shown[breakdown.cursor.place][by]
            if by and breakdown.cursor.place < len(breakdown.shown)
            else None
        )
        if by == "kind" and key is not None:
            self._kind, self.by = key, ""
        elif by == "op" and key is not None:
            self._text, self.by = key, ""
        else:
            model.message = "only operations and kinds can be opened"

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
            model.message = "the chosen row has no pid"
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
    """The chips that are shown, if those are not all."""
    return tuple(chip["chip"] for chip in model.chips) if model.wanted else ()


def _nobody_to_ask(model: Model) -> str | None:
    if model.snapshot is None:
        return "Waiting for the first look at the machine."
    why = no_server(model)
    return None if why is None else f"Allocations and events are known to a server alone: {why}"


def _wrapped(*sentences: str, style: Style, name: str = "") -> list[Row]:
    return [[(row, name)] for text in sentences for row in wrap(style.clean(text), style, "  ", " ")]


def _sum(data: schema.Allocations, every: int, filtered: bool) -> str:
    of = f" of {every:,}" if filtered and every >= data["matched"] else ""
    return f"{counted(data['matched'], 'allocation', 'allocations')}{of}, {human(data['bytes'])}"
