# SPDX-License-Identifier: Apache-2.0
"""The runs of `ttmem fit --vary` as a table and as a picture."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from ttmem.show.text import BOLD, DIM, GREEN, NONE, RED, YELLOW, Column, Style, table, wrap

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ttmem.model.schema import Fit, FitBoard, FitBorder, FitVaried

VERDICTS = {"fits": "fits", "fails": "does not fit", "unknown": "cannot tell"}
_COLOURS = {"fits": GREEN, "fails": RED, "unknown": YELLOW}
_MOST_COLUMNS = 64  # of the picture
_LEAST_COLUMNS = 16
# What a cell of the picture shows, the most important first: block characters, ASCII, colour, words.
_MARKS = {
    "fails": ("x", "x", RED, "does not fit"),
    "unknown": ("?", "?", YELLOW, "cannot tell"),
    "fits": ("█", "#", GREEN, "fits"),
    "below": ("░", "-", DIM, "not run, below one that fits"),
    "above": ("·", ".", DIM, "not run"),
}


def grid(document: Fit, style: Style) -> list[str]:
    """A table of all combinations; with a range in --vary, of the largest values, and a picture of the runs."""
    if document["borders"]:
        return [*_border_table(document["borders"], style), "", *picture(document, style)]
    if len(document["varied"]) == 1:
        return _machine_table(document["boards"], style)
    return _matrix(document, style)


def border_name(border: FitBorder) -> str:
    """The machine and the other values of a border."""
    return " ".join([border["board"], *_values(border["values"])])


def _values(values: dict[str, str]) -> list[str]:
    return [f"{name}={value}" for name, value in values.items()]


def _border_table(borders: Sequence[FitBorder], style: Style) -> list[str]:
    """A line for each machine and combination: the largest value, and the one above it, which was run as well."""
    names = list(borders[0]["values"])
    columns = [Column("machine", [style.clean(border["board"]) for border in borders], 0, gap=2)]
    columns += [Column(name, [border["values"][name] for border in borders], 0, right=True, gap=2) for name in names]
    largest = ["none" if border["largest"] is None else str(border["largest"]) for border in borders]
    above = [
        ("end of the range", NONE)
        if border["next"] is None
        else (f"{border['next']} {VERDICTS[border['next_verdict'] or 'unknown']}", NONE)
        for border in borders
    ]
    columns += [
        Column(f"largest {borders[0]['name']}", [(text, BOLD) for text in largest], 0, right=True, gap=2),
        Column("above it", above, 0, gap=2),
        Column("runs", [str(len(border["tried"])) for border in borders], 1, right=True),
    ]
    lines = table(columns, style)
    for border in borders:
        if border["fits_again"]:
            again = ", ".join(map(str, border["fits_again"]))
            note = f"{border_name(border)}: above the border, {border['name']} {again} fits again"
            lines += wrap(style.clean(note), style, "  ", "")
    return lines


def picture(document: Fit, style: Style) -> list[str]:
    """A line for each border. Each column of it stands for one value of the range or several."""
    borders = document["borders"]
    searched = next(one for one in document["varied"] if one["searched"])
    names = [style.clean(border_name(border)) for border in borders]
    first = max(len(searched["name"]), *(len(name) for name in names)) + 2
    count = searched["last"] - searched["first"] + 1
    width = min(count, _MOST_COLUMNS, max(_LEAST_COLUMNS, style.width - first))
    low, high = str(searched["first"]), str(searched["last"])
    axis = f"{low}{high:>{width - len(low)}}" if width > len(low) + len(high) else f"{low} .. {high}"
    lines = [f"{searched['name']:<{first}}{axis}"]
    verdicts = _verdicts(document)
    seen: set[str] = set()
    for border, name in zip(borders, names):
        found = _cells(border, searched, verdicts[border_name(border)], width)
        seen.update(found)
        lines.append(f"{name:<{first}}" + "".join(_marks(what, len(list(run)), style) for what, run in groupby(found)))
    legend = [f"{_MARKS[what][style.ascii]} {_MARKS[what][3]}" for what in _MARKS if what in seen]
    return [*lines, *wrap(", ".join(legend), style, " " * first, " " * first)]


def _verdicts(document: Fit) -> dict[str, dict[int, str]]:
    """The verdict on each value of the range that was run, by the name of the border."""
    found: dict[str, dict[int, str]] = {}
    name = document["borders"][0]["name"]
    for board in document["boards"]:
        others = {key: value for key, value in board["values"].items() if key != name}
        row = found.setdefault(" ".join([board["board"], *_values(others)]), {})
        row[int(board["values"][name])] = board["verdict"]
    return found


def _cells(border: FitBorder, searched: FitVaried, verdicts: dict[int, str], width: int) -> list[str]:
    """What each column shows."""
    count = searched["last"] - searched["first"] + 1
    found = []
    for column in range(width):
        start = searched["first"] + column * count // width
        end = searched["first"] + (column + 1) * count // width
        here = {verdict for value, verdict in verdicts.items() if start <= value < end}
        below = "below" if border["largest"] is not None and start <= border["largest"] else "above"
        found.append(next((what for what in _MARKS if what in here), below))
    return found


def _marks(what: str, count: int, style: Style) -> str:
    block, plain, colour, _ = _MARKS[what]
    return style.paint((plain if style.ascii else block) * count, colour)


def _machine_table(boards: Iterable[FitBoard], style: Style) -> list[str]:
    """One list of values: a line for each value and a column for each machine."""
    rows: dict[str, dict[str, str]] = {}
    machines: dict[str, None] = {}
    for board in boards:
        rows.setdefault(" ".join(_values(board["values"])), {})[board["board"]] = board["verdict"]
        machines[board["board"]] = None
    columns = [Column("", list(rows), 0)]
    columns += [
        Column(style.clean(machine), [_verdict(row.get(machine)) for row in rows.values()], 0, gap=2)
        for machine in machines
    ]
    return _spaced(columns, style)


def _matrix(document: Fit, style: Style) -> list[str]:
    """Several lists of values: a table for each machine, with a column for each value of the last list."""
    across = document["varied"][-1]["name"]
    tables: dict[str, dict[str, dict[str, str]]] = {}
    titles: dict[str, None] = {}
    for board in document["boards"]:
        others = " ".join(_values({key: value for key, value in board["values"].items() if key != across}))
        title = f"{across}={board['values'][across]}"
        titles[title] = None
        tables.setdefault(board["board"], {}).setdefault(others, {})[title] = board["verdict"]
    lines: list[str] = []
    for machine, rows in tables.items():
        columns = [Column(style.clean(machine), list(rows), 0)]
        columns += [Column(title, [_verdict(row.get(title)) for row in rows.values()], 0, gap=2) for title in titles]
        lines += [*([""] if lines else []), *_spaced(columns, style)]
    return lines


def _verdict(verdict: str | None) -> tuple[str, str]:
    return ("-", NONE) if verdict is None else (VERDICTS[verdict], _COLOURS[verdict])


def _spaced(columns: list[Column], style: Style) -> list[str]:
    columns[0].gap = 2
    return table(columns, style)
