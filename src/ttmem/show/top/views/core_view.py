# SPDX-License-Identifier: Apache-2.0
"""View 5: the L1 of every core of the selected chip as a heat map, and the map of one core with its owners."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from ttmem.model.units import human
from ttmem.show.chip_table import Names, percent, share
from ttmem.show.l1_text import (
    MOST_CORES,
    at_least,
    floor_text,
    known,
    last_program,
    program_of,
    program_text,
    size_text,
    worst_core,
)
from ttmem.show.text import Style, wrap
from ttmem.show.top.parts.core_grid import headroom_style, map_rows, snapshot
from ttmem.show.top.parts.heat_map import HEADROOM, USED, Form, form_of, grid_rows, key_row, legend
from ttmem.show.top.parts.listing import counted, finished, no_server, rule
from ttmem.show.top.parts.recent_history import L1, RecentHistory
from ttmem.show.top.parts.rows import Characters, Row, Size, Span, fitted, shortened, width_of

if TYPE_CHECKING:
    from ttmem.model import schema
    from ttmem.show.top.dashboard_state import Model

_STEPS = {"left": (-1, 0), "right": (1, 0), "up": (0, -1), "k": (0, -1), "down": (0, 1), "j": (0, 1)}
_PAGE_ROWS = 5
_BESIDE_COLUMNS = 60  # width of a core's map next to the grid
_BELOW_ROWS = 12  # height of a core's map below the grid
_LEGEND_COLUMNS = 24  # width of the legend next to the grid


class Cores:
    """The L1 of each core, and the headroom of its program."""

    name = "Cores"
    keys: tuple[tuple[str, str], ...] = (
        ("arrows, j, k", "choose a core; or click it"),
        ("m", "the heat map: used, or headroom"),
        ("w", "the core with the least headroom"),
        ("page up, down", "scroll the map of the core by a page"),
    )
    kept = ("heat",)
    needs_server = True

    def __init__(self) -> None:
        self.heat = USED
        self._core = (0, 0)
        self._top: int | None = None  # rows of the map above the visible part; None: scroll to the gap
        self._answer: schema.Cores | None = None  # the last answer, until the next one arrives
        self._grid_row = 0  # where the first row of cores was drawn
        self._form: Form | None = None  # and how
        self._shown = 0  # as _top was when it was drawn
        self._recent = RecentHistory()

    def wants(self, model: Model) -> list[str]:
        if not model.answering or model.selected is None:
            return []
        paths = [self._path(model, core=True)]
        if self._data(model) is None:
            paths.append(self._path(model, core=False))  # the selected core may not exist on this chip
        return [*paths, *self._recent.wants(model)]

    def _path(self, model: Model, *, core: bool) -> str:
        query = {"chip": model.selected, **({"core": "{},{}".format(*self._core)} if core else {})}
        return f"/cores?{urlencode(query)}"

    def _data(self, model: Model) -> schema.Cores | None:
        """The data of the selected chip, with the selected core if it exists."""
        for core in (True, False):
            answer = model.answers.get(self._path(model, core=core))
            if answer is not None and answer.data is not None:
                if core or self._answer is None or self._answer["chip"] != model.selected:
                    self._answer = answer.data
                break
        if self._answer is None or self._answer["chip"] != model.selected:
            return None
        grid = self._answer["grid"]
        if grid is not None:
            if grid["x"] * grid["y"] > MOST_CORES:
                raise ValueError(f"a grid of {grid['x']} x {grid['y']} cores")
            self._core = min(self._core[0], grid["x"] - 1), min(self._core[1], grid["y"] - 1)
        return self._answer

    def forget(self) -> None:
        """Drop the last answer: it is of another moment."""
        self._answer = None

    # -- rows ----------------------------------------------------------------------------------------------------

    def rows(self, model: Model, size: Size, signs: Characters) -> list[Row]:
        style = Style(size.width, ascii=signs.ascii)
        why = self._nothing(model)
        data = None if why else self._data(model)
        if data is None or data["grid"] is None or data["why"]:
            why = why or (f"{self._name(model, style)}: {data['why']}." if data else "asking...")
            return finished([[(line, "")] for line in wrap(style.clean(why), style, "  ", " ")], size)
        head = [self._status(model, data, style), *self._warnings(data, style)[: max(0, size.height - 4)]]
        self._grid_row = len(head) + 1
        high = size.height - len(head)
        least = form_of(data, Size(0, 0)).width
        beside = size.width - least - 3 >= _BESIDE_COLUMNS
        room = (
            Size(min(size.width // 2, size.width - _BESIDE_COLUMNS - 3), high - 4)
            if beside
            else Size(0, high - _BELOW_ROWS)
        )
        form = form_of(data, room)
        lines = len(_wrapped(legend(data, self.heat, form), form.width, signs))
        if beside and lines > 2:  # leave room for a longer legend
            form = form_of(data, Size(room.width, high - 2 - lines))
        self._form = form
        grid = grid_rows(data, self.heat, self._core, form, signs)
        words = legend(data, self.heat, form)
        if beside:
            left = [*grid, [], *key_row(self.heat, form.width, signs), *_wrapped(words, form.width, signs)]
            right = size.width - form.width - 3
            chosen = self._chosen(data, Size(right, high), signs)
            chosen += self._recent.rows(model, L1, Size(right, high - len(chosen)), signs)
            body = _beside(left, chosen, form.width, signs)
        else:
            left_over = size.width - form.width - 3
            if left_over >= _LEGEND_COLUMNS:
                aside = [*key_row(self.heat, left_over, signs), *_wrapped(words, left_over, signs)]
                grid = _beside(grid, aside[: len(grid)], form.width, signs)
            body = [*grid, *self._chosen(data, Size(size.width, high - len(grid)), signs)]
        return finished([*head, *body], size)

    def _nothing(self, model: Model) -> str | None:
        if model.snapshot is None:
            return "Waiting for the first snapshot."
        missing = no_server(model)
        if missing is not None:
            return f"The L1 of cores needs a server: {missing}"
        if model.selected is None:
            return "There is no chip."
        answers = [model.answers.get(self._path(model, core=core)) for core in (True, False)]
        troubles = [answer.trouble for answer in answers if answer is not None and answer.trouble]
        return troubles[-1] if len(troubles) == len([a for a in answers if a is not None]) and troubles else None

    def _name(self, model: Model, style: Style) -> str:
        return Names(model.chips, style, model.numbers).title(str(model.selected))

    def _status(self, model: Model, data: schema.Cores, style: Style) -> Row:
        grid, size = known(data["grid"]), known(data["l1"])["size"]
        capacity = grid["x"] * grid["y"] * size
        headroom, used = data["headroom_min"], data["used"]
        row: Row = [
            (self._name(model, style), "title"),
            ("  least headroom ", ""),
            (size_text(headroom), headroom_style(headroom, data)),
            (f"  used {at_least(data)}{human(used)} of {human(capacity)}, {percent(share(used, capacity))}", ""),
            (f"  fullest core {percent(share(data['max_core'], size))}", ""),
            ("  with firmware and kernel ring", "dim"),
        ]
        seconds = known(data["age_s"])
        if seconds >= 1:
            row.insert(3, (f"  {seconds:.0f} s old", "warn"))
        while len(row) > 3 and width_of(row) > style.width:  # the last ones are the least important
            row.pop()
        return row

    def _warnings(self, data: schema.Cores, style: Style) -> list[Row]:
        rows: list[Row] = [[(f"! {text}", "bad")] for text in data["warnings"]]
        missing = sum(one["allocations"] for one in data["unplaced"])
        if missing:
            why = "; ".join(one["why"] for one in data["unplaced"])
            are = "is" if missing == 1 else "are"
            rows.append([(f"? {counted(missing, 'allocation', 'allocations')} {are} not in the map: {why}", "warn")])
        return [[(style.cut(text, style.width), name) for text, name in row] for row in rows]

    def _chosen(self, data: schema.Cores, size: Size, signs: Characters) -> list[Row]:
        """The selected core: its numbers, the owners on both sides of its gap, and its map."""
        x, y = self._core
        core = next((core for core in data["cores"] if (core["x"], core["y"]) == (x, y)), None)
        if core is None or size.height < 1:
            return []
        style = Style(size.width, ascii=signs.ascii)
        worst = worst_core(data)
        note = " (least headroom)" if worst is not None and worst["headroom"] == core["headroom"] else ""
        rows = [rule(f"core {x},{y}{note}", size.width, signs), *_numbers(core, data, style)]
        detail = data["core"]
        if detail is None or (detail["x"], detail["y"]) != (x, y):
            return [*rows, [("asking...", "dim")]]
        rows += snapshot(detail["segments"], core, data, size, signs)
        room = size.height - len(rows)
        found, gap = map_rows(detail, data["floor"]["address"], style, room)
        most = max(0, len(found) - room)
        top = min(most, max(0, gap - room // 2)) if self._top is None else min(most, self._top)
        self._shown = top
        return [*rows, *found[top : top + max(0, room)]]

    # -- keys and clicks -----------------------------------------------------------------------------------------

    def press(self, key: str, model: Model) -> bool:
        data = self._answer
        if key in _STEPS and data is not None and data["grid"] is not None:
            x, y = self._core[0] + _STEPS[key][0], self._core[1] + _STEPS[key][1]
            self._choose(x, y)
        elif key == "m":
            self.heat = USED if self.heat == HEADROOM else HEADROOM
            model.message = f"heat map: {self.heat}"
        elif key == "w" and data is not None:
            worst = worst_core(data)
            if worst is not None:
                self._choose(worst["x"], worst["y"])
        elif key in ("pagedown", "pageup"):
            self._top = max(0, self._shown + (_PAGE_ROWS if key == "pagedown" else -_PAGE_ROWS))
        else:
            return key in _STEPS or key == "w"
        return True

    def click(self, x: int, y: int, model: Model) -> bool:
        if self._form is None:
            return False
        column, line = self._form.at(x, y - self._grid_row)
        if self._answer is None or not any((c["x"], c["y"]) == (column, line) for c in self._answer["cores"]):
            return False
        self._choose(column, line)
        return True

    def _choose(self, x: int, y: int) -> None:
        grid = self._answer["grid"] if self._answer else None
        if grid is not None:
            self._core = max(0, min(x, grid["x"] - 1)), max(0, min(y, grid["y"] - 1))
            self._top = None


def _numbers(core: schema.CoreRow, data: schema.Cores, style: Style) -> list[Row]:
    """Used and free bytes, and the owners on both sides of the gap."""
    size = known(data["l1"])["size"]
    first: Span = (f"headroom {size_text(core['headroom'])}", headroom_style(core["headroom"], data))
    parts = [
        f"largest free block {human(core['largest_free'])}",
        f"used {human(core['used'])} {percent(share(core['used'], size))}",
    ]
    parts.append(f"free {human(core['free'])}")
    if core["unknown"]:
        parts.append(f"not known {human(core['unknown'])}")
    rows: list[Row] = [[first]]
    for text in parts:
        if width_of(rows[-1]) + 2 + len(text) > style.width:
            rows.append([(text, "")])
        else:
            rows[-1].append((f", {text}", ""))
    floor = data["floor"]["address"]
    above = "not known" if floor is None else style.clean(floor_text(data))
    ran = style.clean(last_program(data, core))

    def side(what: str, address: int | None, whose: str, name: str) -> Row:
        head = f"{what:14}{'-' if address is None else f'{address:#x}':>8} "
        return [(head, "dim"), (shortened(whose, max(0, style.width - len(head)), style), name)]

    rows += [side("lowest buffer", floor, above, "l1"), side("last run ends", core["end"], ran, "cb")]
    worst = core["worst"]
    if worst is not None and worst["end"] > (core["end"] or 0):
        left = worst["headroom"]
        words = "" if left is None else f"{human(left)} left, "
        words += style.clean(program_text(program_of(data, worst["program"])))
        rows.append(side("highest end", worst["end"], words, "bad" if left is not None and left < 0 else ""))
    return rows


def _wrapped(text: str, width: int, signs: Characters) -> list[Row]:
    return [[(line, "dim")] for line in wrap(text, Style(width, ascii=signs.ascii))]


def _beside(left: list[Row], right: list[Row], width: int, signs: Characters) -> list[Row]:
    """Two blocks next to each other, as high as the higher one."""
    line = " | " if signs.ascii else " │ "
    empty: Row = []
    return [[*fitted(one, width), (line, "dim"), *two] for one, two in zip_longest(left, right, fillvalue=empty)]
