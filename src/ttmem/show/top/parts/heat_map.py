# SPDX-License-Identifier: Apache-2.0
"""The cores of a chip as a heat map: a coloured cell for each core, as large as possible."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from ttmem.show.chip_table import short_size
from ttmem.show.l1_text import clashes, known, shade
from ttmem.show.top.parts.rows import HEAT, Characters, Row, Size

if TYPE_CHECKING:
    from ttmem.model.schema import CoreRow, Cores

USED, HEADROOM = "used", "headroom"
MARGIN_COLUMNS = 4  # numbers of the rows, left of the grid
_LEAST_CELL_COLUMNS, _MOST_CELL_COLUMNS = 4, 18
_MOST_CELL_ROWS = 8
_TWO_NUMBERS_SIZE = (3, 6)  # minimum rows and columns of a cell with a second number
# Limits of the heat levels. For headroom, hot means little headroom.
_STEPS = {USED: (0.1, 0.25, 0.5, 0.75, 0.9), HEADROOM: (0.25, 0.5, 0.75, 0.9, 0.98)}
_KEY = {
    USED: ("<10%", "<25%", "<50%", "<75%", "<90%", "90%+"),
    HEADROOM: ("75%+", "<75%", "<50%", "<25%", "<10%", "<2%"),
}


class Form(NamedTuple):
    """The layout of the grid on the screen: the number of cells and their size."""

    columns: int
    lines: int
    cell: Size

    @property
    def width(self) -> int:
        return MARGIN_COLUMNS + self.columns * self.cell.width

    def at(self, x: int, y: int) -> tuple[int, int]:
        """The core at a cell of the terminal, counted from the first row of cores."""
        return (x - MARGIN_COLUMNS) // self.cell.width, y // self.cell.height


def form_of(data: Cores, room: Size) -> Form:
    """The largest cells with which the grid fits, about as high as wide; the smallest if it does not fit."""
    places = [(core["x"], core["y"]) for core in (*data["cores"], *data["dispatch"])]
    columns, lines = max(x for x, _ in places) + 1, max(y for _, y in places) + 1
    width = max(_LEAST_CELL_COLUMNS, min(_MOST_CELL_COLUMNS, (room.width - MARGIN_COLUMNS) // columns))
    height = max(1, min(_MOST_CELL_ROWS, (room.height - 1) // lines, (width + 1) // 2 if width > 7 else 2 * width // 3))
    return Form(columns, lines, Size(width, height))


def grid_rows(data: Cores, heat: str, chosen: tuple[int, int], form: Form, signs: Characters) -> list[Row]:
    """Numbers of the columns, then all cores."""
    cores = {(core["x"], core["y"]): core for core in data["cores"]}
    dispatch = {(core["x"], core["y"]) for core in data["dispatch"]}
    width, height = form.cell
    blank = " " * width
    rows: list[Row] = [[(" " * MARGIN_COLUMNS + "".join(f"{x:^{width}}" for x in range(form.columns)), "dim")]]
    write = _writer(data, heat, form.cell, signs)
    middle = (height - 1) // 2
    for y in range(form.lines):
        cells: list[tuple[str, str, str]] = []
        for x in range(form.columns):
            core = cores.get((x, y))
            if core is None:
                cells.append((f"{'D':^{width}}" if (x, y) in dispatch else blank, blank, "dim"))
                continue
            first, second, name = write(core)
            if (x, y) == chosen:
                first, second, name = _bracketed(first), _bracketed(second), "title"
            cells.append((first, second, name))
        for line in range(height):
            at = line - middle
            row: Row = [(f"{y:>3} " if at == 0 else " " * MARGIN_COLUMNS, "dim")]
            for first, second, name in cells:
                text = first if at == 0 else second if at == 1 else _bracketed(blank) if name == "title" else blank
                if row[-1][1] == name:  # fewer spans are faster to draw
                    text = row.pop()[0] + text
                row.append((text, name))
            rows.append(row)
    return rows


def _bracketed(text: str) -> str:
    """Brackets for terminals without colours, unless a more important character is there."""
    return f"[{text[1:-1]}]" if text[0] == text[-1] == " " else text


def _writer(data: Cores, heat: str, cell: Size, signs: Characters) -> Callable[[CoreRow], tuple[str, str, str]]:
    """A function that writes a core: its percentage, the text below it, and its style."""
    layout = known(data["l1"])
    size, base = layout["size"], layout["base"]
    width, both = cell.width, cell.height >= _TWO_NUMBERS_SIZE[0] and cell.width >= _TWO_NUMBERS_SIZE[1]
    blank = " " * width
    steps = _STEPS[heat]
    written: dict[Any, tuple[str, str, str]] = {}  # many cores are alike

    def write(core: CoreRow) -> tuple[str, str, str]:
        headroom, clash = core["headroom"], clashes(core)
        look = (core["used"], headroom, clash, bool(core["unknown"]))
        found = written.get(look)
        if found is not None:
            return found
        sign = "!" if clash else "?" if core["unknown"] else " " if width < 6 else "%"
        if heat == HEADROOM and headroom is None:
            return f"{'-' + sign.replace('%', ' '):^{width}}", blank, "dim"
        part = max(0.0, known(headroom) / max(1, size - base)) if heat == HEADROOM else known(core["used"]) / size
        number = min(99, int(100 * part) if heat == HEADROOM else round(100 * part))
        hot = 1 - part if heat == HEADROOM else part
        name = HEAT[5 if clash else sum(hot >= step for step in steps)]
        ink = shade(part, True) if signs.ascii else " "  # visible with and without colours
        below = core["used"] if heat == HEADROOM else headroom
        second = f"{short_size(below):^{width}}" if both and below is not None and below >= 0 else blank
        written[look] = f"{f'{ink}{number:>2}{sign}':^{width}}", second, name
        return written[look]

    return write


def key_row(heat: str, width: int, signs: Characters) -> list[Row]:
    """The meaning of the background colours, if there is room; in ASCII mode, each cell has a character instead."""
    if signs.ascii or width < 6 * len(HEAT):
        return []
    return [[(f"{text:^6}", name) for text, name in zip(_KEY[heat], HEAT)]]


def legend(data: Cores, heat: str, form: Form) -> str:
    """The meaning of numbers and characters."""
    both = form.cell.height >= _TWO_NUMBERS_SIZE[0] and form.cell.width >= _TWO_NUMBERS_SIZE[1]
    if heat == USED:
        what = "used L1 of each core in percent, with firmware and kernel ring" + (", and headroom" if both else "")
    else:
        what = "headroom in percent of the L1 that programs share" + (", and what is used" if both else "")
    words = [f"{what}; m shows {'headroom' if heat == USED else 'use'}"]
    if any(clashes(core) for core in data["cores"]):
        words.append("! overlap or clash")
    if any(core["unknown"] for core in data["cores"]):
        words.append("? not all is known")
    if data["basis"] != "live":
        words.append("sizes from the table of boards")
    if data["dispatch"]:
        words.append("D reserved for dispatch")
    if data["harvested"]:
        words.append(f"{data['harvested']} cores switched off")
    return "; ".join(words)
