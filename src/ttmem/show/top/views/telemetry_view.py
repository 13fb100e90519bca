# SPDX-License-Identifier: Apache-2.0
"""View 3: every reading of every chip with its limit and age, and rejected readings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from ttmem.show.chip_table import Names
from ttmem.show.text import BOLD, DIM, NONE, RED, YELLOW, Column, Style, cells, table, wrap
from ttmem.show.top.dashboard_state import Model
from ttmem.show.top.parts.recent_history import SENSORS, RecentHistory
from ttmem.show.top.parts.rows import Characters, Row, Size, fitted, over, spans, within

if TYPE_CHECKING:
    from ttmem.model.schema import ChipRow

Cell = tuple[str, str]

_NAME_COLUMNS = 20  # for the name of a reading
_LEAST_CHIP_COLUMNS = 12
_OLD_SECONDS = 5.0
_STATES = {
    "ok": "it answers",
    "in reset": "in reset: no readings until the reset is finished",
    "off the bus": "off the bus: reads return only ones; it needs a reset or a power cycle",
    "gone": "gone: the driver no longer lists it",
    "hangs": "hangs: a read of it does not return",
    "no files": "no files: this driver is too old to show telemetry",
}


class Reading(NamedTuple):
    """A value of a chip, and its limit; ``rank`` as for the column of a table."""

    name: str
    title: str
    key: str
    rank: int
    unit: str = ""
    most: str | None = None
    digits: int = 0
    warns: bool = False  # coloured near the limit


READINGS = (
    Reading("temperature", "TEMP", "temperature_c", 1, "C", "temperature_max_c", warns=True),
    Reading("power", "POWER", "power_w", 2, "W", "power_max_w", warns=True),
    Reading("current", "CURRENT", "current_a", 5, "A", "current_max_a", warns=True),
    Reading("voltage", "VOLTAGE", "voltage_mv", 6, "mV", "voltage_max_mv"),
    Reading("AI clock", "CLOCK", "aiclk_mhz", 3, "MHz", "aiclk_max_mhz"),
    Reading("AXI clock", "AXICLK", "axiclk_mhz", 8, "MHz"),
    Reading("ARC clock", "ARCCLK", "arcclk_mhz", 9, "MHz"),
    Reading("fan", "FAN", "fan_rpm", 7, "rpm"),
    Reading("fan level", "FAN%", "fan_percent", 13, "%"),
    Reading("heartbeat", "BEAT", "heartbeat", 11),
    Reading("firmware running", "RUNNING", "alive", 4),
    Reading("thermal trips", "TRIPS", "therm_trips", 10),
    Reading("shutdown limit", "OFF AT", "temperature_shutdown_c", 14, "C"),
    Reading("board temperature", "BOARD", "board_temperature_c", 15, "C"),
    Reading("DRAM temperature", "DRAM", "dram_temperature_c", 16, "C"),
    Reading("board power", "BRD PWR", "board_power_w", 17, "W", "board_power_max_w", warns=True),
    Reading("DRAM speed", "DRAM MT/s", "dram_speed", 18, "MT/s"),
    Reading("DRAM training", "TRAINING", "dram_status", 19),
)


class Telemetry:
    """A column for each chip if all fit, else a row for each chip and all readings of the selected one."""

    name = "Telemetry"
    keys = (
        ("left, right", "choose a chip"),
        ("page up, down", "ten chips back, ten chips on; where chips are columns, more of their readings"),
    )

    def __init__(self) -> None:
        self._top = 0  # the first chip that is shown, or the first reading
        self._rows_of: list[str] = []  # chip ids by row, from the second one on
        self._columns_of: list[tuple[int, str]] = []  # where the column of a chip ends
        self._recent = RecentHistory()

    def wants(self, model: Model) -> list[str]:
        return self._recent.wants(model)

    def rows(self, model: Model, size: Size, signs: Characters) -> list[Row]:
        self._rows_of, self._columns_of = [], []
        if model.snapshot is None:
            return within([[("Looking at the machine...", "dim")]], size)
        if not model.chips:
            return within([[("No chip is known, so there is nothing to read.", "warn")]], size)
        style = Style(size.width, True, signs.ascii)
        names = Names(model.chips, style, model.numbers)
        columns = self._as_columns(model, names, style)
        if columns is None:
            rows = self._as_rows(model, names, style, size.height)
            rows += self._recent.rows(model, SENSORS, Size(size.width, size.height - len(rows)), signs)
            return within(rows, size)
        columns += self._recent.rows(model, SENSORS, Size(size.width, size.height - len(columns)), signs)
        head, *rest = columns
        self._top = max(0, min(self._top, len(rest) - size.height + 1))
        return within([head, *rest[self._top :]], size)

    def press(self, key: str, model: Model) -> bool:
        steps = {"pagedown": 10, "pageup": -10, "left": -1, "right": 1}
        if key not in steps:
            return False
        if self._columns_of and key.startswith("page"):
            self._top = max(0, self._top + steps[key])
        else:
            model.choose(steps[key])
        return True

    def click(self, x: int, y: int, model: Model) -> bool:
        found = [chip_id for end, chip_id in self._columns_of if x < end and x >= _NAME_COLUMNS]
        if self._rows_of and 1 <= y <= len(self._rows_of):
            found = [self._rows_of[y - 1]]
        if not found:
            return False
        model.selected = found[0]
        return True

    def _as_columns(self, model: Model, names: Names, style: Style) -> list[Row] | None:
        """A column for each chip; None if they do not fit."""
        chips = model.chips
        if _NAME_COLUMNS + _LEAST_CHIP_COLUMNS * len(chips) > style.width:
            return None
        parts = [_all_of(chip, style) for chip in chips]
        heads = [names.full(chip["chip"]).strip() for chip in chips]
        width = max(cells(text) for text in (*heads, *(cell[0] for part in parts for cell in part.values()))) + 2
        if _NAME_COLUMNS + width * len(chips) > style.width:
            return None
        self._columns_of = [(_NAME_COLUMNS + width * (place + 1), chip["chip"]) for place, chip in enumerate(chips)]
        chosen = ["select" if chip["chip"] == model.selected else "" for chip in chips]
        row: Row = [(" " * _NAME_COLUMNS, "")]
        for head, mark in zip(heads, chosen):
            row.append((f"{head:>{width - 1}} ", f"bold {mark}".rstrip()))
        rows, unknown = [row, *_doubts(chips, names, style)], []
        for name in dict.fromkeys(name for part in parts for name in part):
            found = [part.get(name, ("-", "")) for part in parts]
            if all(text == "-" for text, _ in found):
                unknown.append(name)
                continue
            row = [(f"  {name:<{_NAME_COLUMNS - 2}}", "dim")]
            for (text, style_name), mark in zip(found, chosen):
                pad = " " * (width - 1 - cells(text))
                row.append((f"{pad}{text} ", f"{style_name} {mark}".strip()))
            rows.append(row)
        return [*rows, [], *_unknown(unknown, style)]

    def _as_rows(self, model: Model, names: Names, style: Style, height: int) -> list[Row]:
        chips = model.chips
        below = _one(model.chip() or chips[0], names, style)
        count = max(4, min(len(chips), height - 2 - len(below)))
        chosen = next((place for place, chip in enumerate(chips) if chip["chip"] == model.selected), 0)
        self._top = max(0, min(max(self._top, chosen - count + 1), chosen, len(chips) - count))
        shown = chips[self._top : self._top + count]
        self._rows_of = [chip["chip"] for chip in shown]
        parts = [_readings(chip, style) for chip in shown]
        columns: list[Column] = [Column("CHIP", [(names.full(chip_id), BOLD) for chip_id in self._rows_of], 0, gap=2)]
        columns.append(Column("STATE", [_painted(_state(chip)) for chip in shown], 0))
        for reading in READINGS:
            found = [part[reading.name] for part in parts]
            if any(text != "-" for text, _ in found):
                columns.append(Column(reading.title, [_painted(cell) for cell in found], reading.rank, right=True))
        columns.append(Column("AGE", [_painted(_age(chip)) for chip in shown], 0, right=True))
        head, *lines = [spans(line) for line in table(columns, style)]
        rows: list[Row] = [[(text, "head") for text, _ in head]]
        for chip_id, row in zip(self._rows_of, lines):
            rows.append(over(fitted(row, style.width), "select") if chip_id == model.selected else row)
        hidden = len(chips) - len(shown)
        where = f"{self._top + 1}-{self._top + len(shown)} of {len(chips)} chips" if hidden else ""
        return [*rows, [(f"{where:>{style.width}}", "warn")] if hidden else [], *below]


def _painted(cell: Cell) -> Any:
    colours = {"warn": YELLOW, "bad": RED, "dim": DIM}
    return cell[0], colours.get(cell[1], NONE)


def _readings(chip: ChipRow, style: Style) -> dict[str, Cell]:
    """The current readings of a chip, by the names of READINGS."""
    now = chip["telemetry"]
    return {one.name: ("-", "") if now is None else _reading(one, now, style) for one in READINGS}


def _reading(one: Reading, now: Mapping[str, Any], style: Style) -> Cell:
    value, most = now.get(one.key), None if one.most is None else now.get(one.most)
    if one.key in (now.get("implausible") or {}):
        return "implausible", "warn"
    if value is None:
        return "-", ""
    if isinstance(value, bool):
        return ("yes", "") if value else ("NO", "bad")
    if isinstance(value, str):
        return value, "" if value == "trained" else "warn"
    unit = f" {style.degree if one.unit == 'C' else one.unit}".rstrip()
    text = f"{value:.{one.digits}f}" + ("" if most is None else f"/{most:.{one.digits}f}") + unit
    if now["state"] != "ok":
        return text, "dim"  # the last known value
    near = one.warns and most is not None and value >= 0.9 * most
    return text, "" if not near else "bad" if one.key == "temperature_c" and value >= most else "warn"


def _state(chip: ChipRow) -> Cell:
    now = chip["telemetry"]
    if now is None:
        return "remote" if chip["remote"] else "-", "dim"
    return now["state"], "" if now["state"] == "ok" else "dim" if now["state"] == "no files" else "bad"


def _age(chip: ChipRow) -> Cell:
    age = None if chip["telemetry"] is None else chip["telemetry"].get("age_s")
    return (
        ("-", "")
        if age is None
        else (f"{age:.1f} s" if age < 100 else f"{age:.0f} s", "warn" if age >= _OLD_SECONDS else "")
    )


def _all_of(chip: ChipRow, style: Style) -> dict[str, Cell]:
    """Readings and fixed properties, by name."""
    pcie: Mapping[str, Any] = chip["pcie"] or {}
    link = "-"
    if pcie.get("speed_gts") is not None:
        link = f"{_of(pcie['speed_gts'], pcie.get('max_speed_gts'))} GT/s"
    lanes = "-" if pcie.get("width") is None else f"x{_of(pcie['width'], pcie.get('max_width'))}"
    slow = pcie.get("max_speed_gts") is not None and (pcie.get("speed_gts") or 0) < pcie["max_speed_gts"]
    narrow = pcie.get("max_width") is not None and (pcie.get("width") or 0) < pcie["max_width"]
    rest: dict[str, Cell] = {
        "PCIe link": (link, "warn" if slow else ""),
        "PCIe lanes": (lanes, "warn" if narrow else ""),
        "NUMA node": ("-" if pcie.get("numa") is None else str(pcie["numa"]), ""),
        "board": (chip["board"] or "-", ""),
        "architecture": (chip["arch"] or "-", ""),
        "serial number": (chip["serial"] or "-", ""),
        **{f"firmware {name}": (str(version or "-"), "") for name, version in (chip["firmware"] or {}).items()},
    }
    return {"state": _state(chip), "age": _age(chip), **_readings(chip, style), **rest}


def _of(value: float, most: float | None) -> str:
    return f"{value:g}" + ("" if most is None else f"/{most:g}")


def _doubts(chips: list[ChipRow], names: Names, style: Style) -> list[Row]:
    """Sentences on chips that do not answer, and raw rejected readings; equal ones are listed once."""
    sentences: dict[Cell, list[str]] = {}
    for chip in chips:
        now, chip_id = chip["telemetry"], chip["chip"]
        if now is None:
            why = "behind another chip" if chip["remote"] else "not listed by the driver"
            sentences.setdefault((f"no telemetry: {why}", "dim"), []).append(chip_id)
            continue
        if now["state"] != "ok":
            sentences.setdefault((_STATES.get(now["state"], now["state"]), "bad"), []).append(chip_id)
        if raw := now.get("implausible"):
            text = ", ".join(f"{key} {value}" for key, value in raw.items())
            sentences.setdefault((f"read, but implausible: {text}", "warn"), []).append(chip_id)
    rows: list[Row] = []
    for (text, colour), chip_ids in sentences.items():
        who = f"Chip{'s' if len(chip_ids) > 1 else ''} {names.several(chip_ids)}"
        rows += [[(line, colour)] for line in wrap(f"{who}: {text}", style, "  ", "")]
    return rows


def _unknown(names: list[str], style: Style) -> list[Row]:
    return [[(line, "dim")] for line in wrap(f"Not known: {', '.join(names)}", style, "  ", "")] if names else []


def _one(chip: ChipRow, names: Names, style: Style) -> list[Row]:
    """All readings of the selected chip, in as many columns as fit."""
    everything = _all_of(chip, style)
    known = [(name, cell) for name, cell in everything.items() if cell[0] != "-"]
    wide = max([cells(cell[0]) for _, cell in known], default=1)
    each = _NAME_COLUMNS + wide + 2
    across = max(1, style.width // each)
    down = -(-len(known) // across)
    rows: list[Row] = [[(names.title(chip["chip"]), "bold")]]
    for line in range(down):
        row: Row = []
        for name, (text, colour) in known[line::down]:
            row += fitted([(f"  {name:<{_NAME_COLUMNS - 2}}", "dim"), (text, colour)], each)
        rows.append(row)
    return [
        *rows,
        *_doubts([chip], names, style),
        *_unknown([name for name in everything if name not in dict(known)], style),
    ]
