# SPDX-License-Identifier: Apache-2.0
"""The parts of `ttmem smi`: chips by name, rows of values, what a stream can show, lines that fit."""

from __future__ import annotations

import csv as reader
import io
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests import machines
from tests.unit.test_smi_machines import alone, n300, t3k, tracked
from ttmem.documents import unknown_rows as blank
from ttmem.show import smi_csv as csv
from ttmem.show.chip_selector import UnknownChip, only
from ttmem.show.chip_table import percent
from ttmem.show.smi_screen import render
from ttmem.show.text import Column, Style, fit_line, style_of, table, wrap

Json = Any  # a document made by hand, or a part of one


@pytest.mark.parametrize(
    "name",
    ["2", "kmd:2", "0000:03:00.0", "03:00.0", "880003", "80003", "…0003", "chip 2", "n300 chip 2",
     "n300 chip 2 (id 880003)"],
)  # fmt: skip
def test_a_chip_by_each_of_its_names(name: str, folder: Path) -> None:
    found = only(t3k(folder), [name])
    assert [chip["kmd"] for chip in found["chips"]] == [2]
    assert [(process["pid"], [share["chip"] for share in process["chips"]]) for process in found["processes"]] == [
        (4711, [found["chips"][0]["chip"]])
    ]


def test_several_chips_and_none_but_their_processes(folder: Path) -> None:
    machine = machines.t3k(folder)
    for number in range(3):
        machine.process(100 + number, holds=[number])
    found = only(alone(folder), ["1", "03:00.0", "1"])
    assert [chip["kmd"] for chip in found["chips"]] == [1, 2]
    assert [process["pid"] for process in found["processes"]] == [101, 102]
    assert {note["pid"] for note in found["notes"]} == {101, 102}


def test_a_chip_that_is_not_there(folder: Path) -> None:
    empty: Json = blank.snapshot("", "")
    with pytest.raises(UnknownChip, match=r"no chip '7'; there are n300 chip 0 \(id 0000:01:00.0\), n300 chip 880002$"):
        only(n300(folder), ["7"])
    with pytest.raises(UnknownChip, match="no chip '0'; no chip is known"):
        only(empty, ["0"])


def test_a_name_of_two_chips() -> None:
    snapshot: Json = blank.snapshot("", "")
    snapshot["chips"] = [{**blank.chip("a"), "kmd": 5}, blank.chip("5")]
    with pytest.raises(UnknownChip) as error:
        only(snapshot, ["5"])
    assert str(error.value) == "'5' is ambiguous, 2 chips have this name; use -d a or -d 5"
    assert [chip["chip"] for chip in only(snapshot, ["kmd:5"])["chips"]] == ["a"]


def snapshot_with(devices: dict[int, dict[str, list[int]]]) -> Json:
    """A snapshot without a driver: processes with their device numbers of n150 chips."""
    snapshot: Json = blank.snapshot("", "")
    chip_ids = sorted({chip_id for numbers in devices.values() for chip_id in numbers})
    snapshot["chips"] = [{**blank.chip(chip_id), "board": "n150"} for chip_id in chip_ids]
    for pid, numbers in devices.items():
        shares = [{"chip": chip_id, "metal_ids": metal_ids} for chip_id, metal_ids in numbers.items()]
        snapshot["processes"].append({**blank.process(pid, "tracked"), "chips": shares})
    return snapshot


@pytest.mark.parametrize("name", ["0", "chip 0", "n150 chip 0"])
def test_a_number_of_two_chips(name: str) -> None:
    """Two processes, for example in two containers, use the number 0 for different chips."""
    snapshot = snapshot_with({11: {"880001": [0]}, 12: {"880002": [0]}})
    with pytest.raises(UnknownChip) as error:
        only(snapshot, [name])
    assert str(error.value) == (
        f"{name!r} is ambiguous, 2 chips have this name; "
        "use -d 880001 (n150, device 0 of process 11) or -d 880002 (n150, device 0 of process 12)"
    )
    assert [chip["chip"] for chip in only(snapshot, ["880002"])["chips"]] == ["880002"]
    with pytest.raises(UnknownChip, match=r"there is no chip '1'; there are n150 chip 880001, n150 chip 880002$"):
        only(snapshot, ["1"])


def test_a_number_in_one_process_only() -> None:
    snapshot = snapshot_with({11: {"880001": [0]}, 12: {"880001": [1], "880002": [2]}})
    with pytest.raises(UnknownChip) as error:
        only(snapshot, ["1"])
    assert str(error.value) == (
        "'1' is ambiguous, not all processes use this number; "
        "use -d 880001 (n150, device 0 of process 11, device 1 of process 12)"
    )
    assert [chip["chip"] for chip in only(snapshot, ["2"])["chips"]] == ["880002"]


def test_two_boards_with_one_number_of_the_driver() -> None:
    """Their PCI addresses identify them; ids alone would not, if one is the number of the other."""
    snapshot: Json = blank.snapshot("", "")
    snapshot["chips"] = [{**blank.chip("4"), "pci": "0000:01:00.0"}, {**blank.chip("b"), "kmd": 4}]
    with pytest.raises(UnknownChip, match=r"use -d 0000:01:00.0 or -d b$"):
        only(snapshot, ["4"])


def test_many_candidates_are_not_all_listed() -> None:
    snapshot = snapshot_with({pid: {f"8800{pid}": [0]} for pid in range(10, 30)})
    with pytest.raises(UnknownChip, match=r"20 chips have this name; .* or 12 more, which `ttmem smi` lists$"):
        only(snapshot, ["0"])


def test_an_assumed_chip_does_not_take_the_number_of_a_real_one() -> None:
    snapshot: Json = blank.snapshot("", "")
    snapshot["chips"] = [{**blank.chip("a"), "kmd": 0}, {**blank.chip("assumed:0"), "kmd": 0, "identity": "assumed"}]
    assert [only(snapshot, [name])["chips"][0]["chip"] for name in ("0", "assumed:0", "chip assumed:0")] == [
        *("a", "assumed:0", "assumed:0")
    ]


def rows_of(snapshot: Json) -> list[dict[str, str]]:
    """As any other program reads them."""
    return list(reader.DictReader(io.StringIO(csv.header() + csv.rows(snapshot), newline=""), strict=True))


def test_rows_say_what_the_picture_says(folder: Path) -> None:
    snapshot = t3k(folder)
    rows = rows_of(snapshot)
    assert [int(row["dram_used_bytes"]) for row in rows] == [
        chip["memory"]["dram"]["used"] for chip in snapshot["chips"]
    ]
    assert [float(row["temperature_c"]) for row in rows] == [c["telemetry"]["temperature_c"] for c in snapshot["chips"]]
    assert {(row["kmd"], row["pci"]) for row in rows} == {(str(n), f"0000:0{n + 1}:00.0") for n in range(4)}
    assert {row["telemetry"] for row in rows} == {"ok"}
    assert {row["kernels_bytes"] for row in rows} == {""}, "nobody knows"
    assert {(row["processes"], row["untracked_processes"]) for row in rows} == {("1", "1")}


def test_who_is_on_a_chip_is_empty_where_not_all_could_be_seen(folder: Path) -> None:
    machines.n150(folder)
    snapshot = alone(folder)
    assert [row["processes"] for row in rows_of(snapshot)] == ["0"]
    snapshot["chips"][0]["held"] = None
    assert [(row["processes"], row["untracked_processes"]) for row in rows_of(snapshot)] == [("", "")]


@pytest.mark.parametrize("board", ["a, b", 'a "b"', r"a\nb", "", " a "])
def test_rows_are_as_rfc_4180_has_them(board: str) -> None:
    snapshot = tracked(Path())
    snapshot["chips"][0]["board"] = board
    text = csv.header() + csv.rows(snapshot)
    assert rows_of(snapshot)[0]["board"] == board
    assert text.endswith("\r\n")
    assert all(len(row) == len(csv.COLUMNS) for row in reader.reader(io.StringIO(text, newline="")))
    assert "None" not in text


def test_columns_are_named_once() -> None:
    assert len(set(csv.COLUMNS)) == len(csv.COLUMNS)


class Stream(io.StringIO):
    """A stream to print to."""

    def __init__(self, terminal: bool = True, encoding: str = "utf-8") -> None:
        super().__init__()
        self._terminal, self._encoding = terminal, encoding

    def isatty(self) -> bool:
        return self._terminal

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._encoding


@pytest.mark.parametrize(
    ("stream", "env", "colour", "ascii"),
    [
        (Stream(), {}, True, False),
        (Stream(terminal=False), {}, False, False),
        (Stream(), {"NO_COLOR": "1"}, False, False),
        (Stream(), {"NO_COLOR": ""}, True, False),
        (Stream(), {"TERM": "dumb"}, False, False),
        (Stream(encoding="ascii"), {}, True, True),
        (Stream(encoding="ISO-8859-1"), {}, True, True),
        (Stream(), {"LC_ALL": "C"}, True, True),
        (Stream(), {"LANG": "de_DE.ISO-8859-1"}, True, True),
        (Stream(), {"LANG": "de_DE.UTF-8"}, True, False),
        (Stream(), {"LC_ALL": "C", "LANG": "de_DE.UTF-8"}, True, True),
        (Stream(), {"LC_CTYPE": "C.UTF-8", "LANG": "C"}, True, True),
        (Stream(), {"LC_CTYPE": "C.UTF-8"}, True, False),
    ],
)
def test_what_a_stream_can_show(
    stream: Stream, env: dict[str, str], colour: bool, ascii: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NO_COLOR", "TERM", "LC_ALL", "LC_CTYPE", "LANG", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    style = style_of(stream)
    assert (style.colour, style.ascii, style.width) == (colour, ascii, 100)
    asked = style_of(stream, ascii=True, colour=False)
    assert (asked.colour, asked.ascii) == (False, True)


@pytest.mark.parametrize(("columns", "width"), [("72", 72), ("0", 100), ("wide", 100), ("", 100), ("-5", 100)])
def test_columns_say_how_wide(columns: str, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert style_of(Stream()).width == width


def test_a_terminal_narrower_than_any_screen_gets_cut_lines(folder: Path) -> None:
    lines = render(t3k(folder), Style(25)).splitlines()
    assert max(map(len, lines)) <= 25


def test_a_table_leaves_out_what_matters_least() -> None:
    def titles(width: int) -> list[str]:
        columns = [Column("AAAA", ["a"], 0), Column("BBBB", ["b"], 2), Column("CCCC", ["c"], 1)]
        return table(columns, Style(width))[0].split()

    assert titles(14) == ["AAAA", "BBBB", "CCCC"]
    assert titles(13) == ["AAAA", "CCCC"]
    assert titles(8) == ["AAAA"]


def test_a_cut_line_keeps_its_colours() -> None:
    assert fit_line("ab\x1b[31mcdef\x1b[0mgh", 4) == "ab\x1b[31mcd\x1b[0m"
    assert fit_line("模型\x1b[2m服\x1b[0m", 3) == "模\x1b[2m\x1b[0m"


def test_sentences_break_between_words() -> None:
    assert wrap("one two three", Style(8), "  ", "") == ["one two", "  three"]
    assert wrap("a-word-that-is-too-long b", Style(8)) == ["a-word-…", "b"]
    assert wrap("", Style(8)) == []


@pytest.mark.parametrize(
    ("change", "shown"),
    [
        ({}, ["51°C", "18/160", "W", "1000", "MHz"]),
        ({"power_max_w": None, "aiclk_mhz": None}, ["51°C", "18", "W", "idle"]),
        ({"alive": False}, ["51°C!", "18/160", "W", "1000", "MHz"]),
        ({"state": "hangs", "age_s": 12.4}, ["51°C!", "hangs", "12s", "ago"]),
        ({"state": "off the bus", "age_s": None, "temperature_c": None}, ["!", "off", "the", "bus", "-"]),
        ({"state": "no files", "temperature_c": None}, ["no", "telemetry"]),
    ],
)
def test_how_a_chip_is(change: Json, shown: list[str], folder: Path) -> None:
    machines.n150(folder)
    snapshot = alone(folder)
    snapshot["chips"][0]["telemetry"].update(change)
    row = render(snapshot, Style(100)).splitlines()[4].split()
    assert row[4 : 4 + len(shown)] == shown


@given(st.floats(0, 1))
@example(0.005)
@example(0.995)
@example(1e-12)
def test_what_is_neither_nothing_nor_everything_never_looks_like_it(part: float) -> None:
    assert (percent(part) == "0%") == (part == 0)
    assert (percent(part) == "100%") == (part == 1)
    if percent(part) != "<1%":
        assert abs(int(percent(part).rstrip("%")) - 100 * part) <= 1
