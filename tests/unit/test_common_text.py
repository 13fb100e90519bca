# SPDX-License-Identifier: Apache-2.0
"""Text forms that more than one screen uses."""

from __future__ import annotations

import time
from datetime import datetime, timezone
from typing import Any

import pytest

from ttmem.documents import unknown_rows as blank
from ttmem.documents.common_text import chip_numbers, local_time, short_line
from ttmem.ingest.clock import rfc3339


@pytest.mark.parametrize(
    ("line", "written"),
    [
        ("/home/me/models/llama/model.py:42 forward", "llama/model.py:42 forward"),
        ("model.py:42 forward", "model.py:42 forward"),
        ("/model.py:42 forward", "/model.py:42 forward"),
        ("<string>:1 <module>", "<string>:1 <module>"),
        ("/home/me/my models/two words.py:42 forward", "my models/two words.py:42 forward"),
        ("/a b/c d/model.py:42 forward", "c d/model.py:42 forward"),
        ("/home/me/a.py:3 b:4 c.py:5 f", "me/a.py:3 b:4 c.py:5 f"),
        ("/home/me/model.py:42 odd/name", "me/model.py:42 odd/name"),
        ("?:3 f", "?:3 f"),
        ("no frame at all", "no frame at all"),
        (None, None),
    ],
)
def test_screens_have_the_end_of_the_path(line: str | None, written: str | None) -> None:
    assert short_line(line) == written


@pytest.mark.parametrize("zone_name", ["UTC", "Europe/Berlin", "America/St_Johns", "Asia/Kathmandu"])
def test_times_are_local_and_name_their_zone(zone_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", zone_name)
    time.tzset()
    try:
        for seconds in (0.0, 951782399.999999, 1709208000.25, 1790000000.5, 4102444800.0):
            moment = datetime.fromtimestamp(seconds, timezone.utc).astimezone()
            shown = moment.isoformat(" ", "milliseconds")
            expected = shown.removesuffix("+00:00") + " UTC" if shown.endswith("+00:00") else shown
            assert local_time(seconds, 3) == local_time(rfc3339(seconds, 6), 3) == expected
    finally:
        monkeypatch.undo()
        time.tzset()


def test_what_is_no_time_stamp_is_shown_as_it_is() -> None:
    assert [local_time(text) for text in ("then", "", "2026-01-02")] == ["then", "", "2026-01-02"]


def snapshot_of(chips: dict[str, int | None], devices: dict[int, dict[str, list[int]]], driver: Any = None) -> Any:
    """Chips with the driver's numbers, and processes with their device numbers."""
    found: Any = blank.snapshot("", "")
    found["chips"] = [{**blank.chip(chip_id), "kmd": number} for chip_id, number in chips.items()]
    for pid, numbers in devices.items():
        shares = [{"chip": chip_id, "metal_ids": metal_ids} for chip_id, metal_ids in numbers.items()]
        found["processes"].append({**blank.process(pid, "tracked"), "chips": shares})
    return {**found, "driver": driver}


@pytest.mark.parametrize(
    ("chips", "devices", "driver", "numbers"),
    [
        ({"a": 4, "b": 5}, {1: {"a": [0], "b": [1]}}, None, {"a": 4, "b": 5}),
        ({"a": 4, "b": 4, "c": 5}, {}, None, {"c": 5}),
        ({"a": None, "b": None}, {1: {"a": [1], "b": [0]}}, None, {"a": 1, "b": 0}),
        ({"a": None, "b": None}, {1: {"a": [1], "b": [0]}}, {"loaded": False}, {"a": 1, "b": 0}),
        ({"a": None, "b": None}, {1: {"a": [1], "b": [0]}}, {"loaded": True}, {}),
        ({"a": None, "b": None}, {1: {"a": [0]}, 2: {"b": [0]}}, None, {}),
        ({"a": None, "b": None}, {1: {"a": [0]}, 2: {"a": [1], "b": [2]}}, None, {"b": 2}),
        ({"a": None}, {1: {"a": [0]}, 2: {"a": [0]}}, None, {"a": 0}),
        ({"a": 4, "b": None}, {1: {"b": [1]}}, None, {"a": 4}),
    ],
)
def test_the_numbers_of_chips(chips: Any, devices: Any, driver: Any, numbers: dict[str, int]) -> None:
    assert chip_numbers(snapshot_of(chips, devices, driver)) == numbers
