# SPDX-License-Identifier: Apache-2.0
"""Screens of the dashboard as tests compare them: whole ones of whole machines, views alone, and their files.

    screens = whole("Cores", 4, "ascii")  # rows by size
    beside("cores-4-ascii", {size: plain(rows) for size, rows in screens.items()})

`make screens` regenerates the files in tests/data/top; then read the diff.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rich.color import Color
from rich.style import Style as Look

from tests.unit.test_smi_properties import width_of
from tests.worlds import BOOTED, NOW, TIME, World
from ttmem.documents import unknown_rows as blank
from ttmem.show.text import Style
from ttmem.show.top.dashboard import Dashboard
from ttmem.show.top.dashboard_state import Answer, Model
from ttmem.show.top.parts.rows import STYLES, Characters, Row, Size, View, text_of
from ttmem.show.top.settings import Settings
from ttmem.show.top.views.allocation_view import Allocations
from ttmem.show.top.views.charts import Charts
from ttmem.show.top.views.core_view import Cores
from ttmem.show.top.views.overview import Overview
from ttmem.show.top.views.processes import Processes
from ttmem.show.top.views.telemetry_view import Telemetry

Json = Any
FILES = Path(__file__).resolve().parent / "data" / "top"
RENEW = os.environ.get("TTMEM_RENEW_SCREENS") == "1"
SIZES = {"80x24": Size(80, 24), "120x40": Size(120, 40), "200x60": Size(200, 60)}
INNER = {name: Size(size.width, size.height - 2) for name, size in SIZES.items()}  # without the lines around a view
VIEWS = ("Overview", "Charts", "Telemetry", "Processes", "Cores", "Allocations", "Breakdown", "Events")
KEYS = {"Breakdown": "g", "Events": "e"}  # keys that lead there from allocations: the three are one view
QUIET = {"track", "free"}  # styles of empty parts, which need no contrast


@functools.cache
def world(chips: int) -> World:
    return World(chips)


@functools.cache
def told(chips: int, path: str, ascii: bool) -> Any:
    """The data for the dashboard; the empty path is the snapshot."""
    place = world(chips)
    return Style(ascii=ascii).clean(place.get(path) if path else place.snapshot)


@functools.cache
def whole(view: str, chips: int, charts: str) -> Mapping[str, list[Row]]:
    """The screens of a view in all sizes, after all its requests are answered."""
    ascii = charts == "ascii"
    snapshot, out = told(chips, "", ascii), {}
    for name, size in SIZES.items():
        model = Model()
        views: list[View] = [
            Overview(),
            Charts(),
            Telemetry(),
            Processes(root="/nowhere", booted=BOOTED),
            Cores(),
            Allocations(),
        ]
        dashboard = Dashboard(model, views, Settings("/nowhere/top.json"), Characters(charts))
        dashboard.current = min(VIEWS.index(view), len(views) - 1)
        model.take(snapshot, NOW - 2, -2.0)
        for key in KEYS.get(view, ""):
            assert dashboard.view.press(key, model)
        answered: set[str] = set()
        while True:
            dashboard.rows(size, -2.0)  # data that is not drawn is not requested
            new = [path for path in dashboard.wants() if path not in answered]
            if not new or not chips:  # without chips there is no server
                break
            answered.update(new)
            model.answers.update({path: Answer(told(chips, path, ascii), None, -2.0) for path in new})
        model.take(snapshot, NOW, 0.0)
        out[name] = dashboard.rows(size, 0.0)
    return out


# -- a view alone ------------------------------------------------------------------------------------------------


def picture_of(*chip_ids: str, pids: tuple[int, ...] = ()) -> Json:
    """A snapshot of chips and processes with unknown values."""
    made = blank.snapshot(TIME, "box")
    made["chips"] = [blank.chip(chip_id) for chip_id in chip_ids]
    made["processes"] = [blank.process(pid, "tracked") for pid in pids]
    return made


def many(count: int) -> Json:
    made = picture_of(*(f"chip-{number}" for number in range(count)))
    for number, chip in enumerate(made["chips"]):
        chip["kmd"] = number
    return made


def model_of(snapshot: Json, ascii: bool = False) -> Model:
    model = Model()
    model.take(Style(ascii=ascii).clean(snapshot), 0.0, 0.0)
    return model


def phases(*paths: str | None, since: float, chip: str = "880001") -> Json:
    """An answer of /phases with these open phases."""
    rows = [{"chip": chip, "pool": "dram"}]
    found = [{"path": path, "since": since, "complete": True, "rows": rows} for path in paths]
    return {"processes": [{"pid": 7, "start": 1, "state": "tracked", "left_out": 0, "open": found, "ended": []}]}


def checked(rows: list[Row], size: Size, ascii: bool) -> list[str]:
    """Check what holds for every view and snapshot; returns the rows as text."""
    texts = [text_of(row) for row in rows]
    assert len(rows) <= size.height
    assert all(width_of(text) <= size.width for text in texts), texts
    assert all(text.isprintable() for text in texts), texts
    assert all(text.isascii() for text in texts) or not ascii, texts
    assert {part for row in rows for _, name in row for part in name.split()} <= set(STYLES)
    return texts


def lines(rows: list[Row]) -> list[str]:
    """The rows as text, without trailing spaces."""
    return [text_of(row).rstrip() for row in rows]


# -- files -------------------------------------------------------------------------------------------------------


def plain(rows: list[Row]) -> str:
    return "".join(f"{line}\n" for line in lines(rows))


def styled(rows: list[Row]) -> str:
    """The rows as text, with styled spans in brackets."""
    marked = ("".join(f"<{name}>{text}</>" if name else text for text, name in row) for row in rows)
    return "".join(f"{line.rstrip()}\n" for line in marked)


def forms(draw: Callable[[Size, Characters], list[Row]]) -> dict[str, str]:
    """A view alone in all sizes, and one of them as ASCII."""
    out = {name: plain(draw(size, Characters())) for name, size in INNER.items()}
    return {**out, "120x40 ascii": plain(draw(INNER["120x40"], Characters("ascii")))}


def beside(name: str, parts: Mapping[str, str]) -> None:
    """Compare parts with a file that contains them one after the other."""
    text = "".join(f"==== {part}\n{found}" for part, found in parts.items())
    file = FILES / f"{name}.txt"
    if RENEW:
        FILES.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8"), f"{file.name} differs; see the top of tests/screens.py"


def files_of(view: str) -> set[str]:
    """The names of the files that a view's own test compares with."""
    return {file.stem for file in FILES.glob(f"{view}-*") if not file.stem.split("-")[1].isdecimal()}


# -- colours -----------------------------------------------------------------------------------------------------


def contrast(look: Look) -> float:
    """The contrast ratio as defined by WCAG 2."""
    assert look.color is not None
    assert look.bgcolor is not None
    light, dark = sorted((_luminance(look.color), _luminance(look.bgcolor)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour: Color) -> float:
    triplet = colour.triplet
    assert triplet is not None
    parts = [value / 255 for value in triplet]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
