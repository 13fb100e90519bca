# SPDX-License-Identifier: Apache-2.0
"""Notes: what a screen says below its tables about chips and processes in trouble."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from tests.screens import lines, model_of
from tests.snapshots import Account, driver_chip, machine
from ttmem.documents import unknown_rows as blank
from ttmem.documents.merge import merge
from ttmem.model import schema
from ttmem.show.smi_screen import render
from ttmem.show.text import Style
from ttmem.show.top.parts.rows import Characters, Size, View
from ttmem.show.top.views.overview import Overview
from ttmem.show.top.views.processes import Processes

MIB = 1 << 20


@pytest.mark.parametrize(
    ("telemetry", "what"),
    [
        ({"state": "in reset"}, "chip-state"),
        ({"state": "off the bus"}, "chip-state"),
        ({"state": "gone"}, "chip-state"),
        ({"state": "hangs"}, "chip-state"),
        ({"alive": False}, "heartbeat"),
        ({"implausible": {"power_w": "65535"}}, "implausible"),
        ({"temperature_c": 80.0}, "hot"),
    ],
)
def test_a_chip_in_trouble_is_named(telemetry: dict[str, Any], what: str) -> None:
    chip = driver_chip(0)
    chip["telemetry"].update(telemetry)
    merged = merge(blank.snapshot("now", "box"), machine(chip, driver_chip(1)))
    assert [(note["what"], note["chip"]) for note in merged["notes"]] == [(what, "0000:01:00.0")]


@pytest.mark.parametrize(("heat", "said"), [(74.9, []), (75.0, ["hot"])])
def test_a_chip_is_hot_from_its_limit_on(heat: float, said: list[str]) -> None:
    chip = driver_chip(0)
    chip["telemetry"]["temperature_c"] = heat
    merged = merge(blank.snapshot("now", "box"), machine(chip))
    assert [note["what"] for note in merged["notes"]] == said


def test_a_narrow_link() -> None:
    chip = driver_chip(0)
    chip["pcie"]["width"] = 8
    (note,) = merge(blank.snapshot("now", "box"), machine(chip))["notes"]
    assert note["text"] == "chip 0: PCIe runs with 8 of 16 lanes"


def behind(unread: int, shed: bool) -> schema.Snapshot:
    """A process whose ring is not read to its end."""
    account = Account()
    account.tracked(7, "77", dram=MIB)
    (process,) = account.ledger.processes.values()
    for source in process.sources.values():
        source.unread, source.shed = unread, shed
    return cast("schema.Snapshot", account.snapshot())


def test_a_process_that_writes_too_fast() -> None:
    merged = merge(behind(12345, True), machine())
    ((source,),) = (process["sources"] for process in merged["processes"])
    assert (source["unread"], source["shed"]) == (12345, True)
    (note,) = merged["notes"]
    assert (note["what"], note["chip"], note["pid"]) == ("shed", None, 7)
    assert note["text"] == (
        "pid 7 writes records faster than they can be read: its totals and peaks are exact about once a second, in "
        "between they are old; 12,345 records are not read yet"
    )
    assert note["text"] in " ".join(render(merged, Style(100)).split())


@pytest.mark.parametrize("make", [Overview, Processes])
def test_the_dashboard_shows_a_process_that_writes_too_fast(make: Callable[[], View]) -> None:
    """The overview shows the most important note, the view of processes the notes of the chosen process."""
    merged = merge(behind(12345, True), machine())
    text = " ".join(" ".join(lines(make().rows(model_of(merged), Size(200, 40), Characters()))).split())
    assert merged["notes"][0]["text"] in text


def test_a_burst_that_is_still_read_needs_no_note() -> None:
    """It is over within a moment; the number of unread records is in the document."""
    merged = merge(behind(12345, False), machine())
    ((source,),) = (process["sources"] for process in merged["processes"])
    assert (source["unread"], source["shed"]) == (12345, False)
    assert merged["notes"] == []
