# SPDX-License-Identifier: Apache-2.0
"""docs/json.md names every key of a snapshot, and no other."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests import machines
from tests.snapshots import Account, counters, driver_chip, holder, machine, slot, unreadable
from ttmem.documents import notes
from ttmem.documents import unknown_rows as blank
from ttmem.documents.merge import merge
from ttmem.model.events import Allocated, Failed, ProcessExited, Uncertain
from ttmem.model.kinds import KINDS, Kind
from ttmem.sources import umd
from ttmem.sources.machine import Machine

PAGE = Path(__file__).parents[2] / "docs" / "json.md"
MIB = 1 << 20


def documented() -> set[str]:
    """The first column of every table."""
    rows = re.findall(r"^\| (`.*?`) \|", PAGE.read_text(), re.MULTILINE)
    return {key for row in rows for key in re.findall(r"`([^`]+)`", row)}


def paths(value: Any, where: str = "") -> Iterator[str]:
    """Every key, dotted; a list is [], and of keys that are kinds of memory only <kind>."""
    if isinstance(value, list):
        yield f"{where}[]"
        for inner in value:
            yield from paths(inner, f"{where}[]")
    elif isinstance(value, dict):
        if where:
            yield where
        for key, inner in value.items():
            if where.endswith(".kinds"):
                assert key in blank.KINDS
                key = "<kind>"
            if where.endswith(".implausible"):
                continue
            yield from paths(inner, f"{where}.{key}" if where else key)
    else:
        yield where


def everything(folder: Path) -> Iterator[dict[str, Any]]:
    """Snapshots that have between them every key there is."""
    account = Account()
    account.tracked(7, "77", dram=MIB, l1=MIB)
    account.apply(account.source(7), Uncertain("replaced", 3))
    source = account.source(6)
    account.apply(source, Allocated(0, Kind.DRAM, 1, 5), Failed(0, "info:\nOut of Memory"), ProcessExited())
    chip = driver_chip(0)
    chip["telemetry"].update(implausible={"power_w": "65535"})
    files = [counters(77, slot(7, 5), slot(8, 6), slot(9, 7, state="dead")), unreadable(78)]
    yield merge(account.snapshot(), machine(chip, processes=[holder(7, 0), holder(8, 0)], shm=files))
    yield merge(blank.snapshot("now", "box"), machine(chip, foreign={0: 1}))
    seen = Machine(str(machines.n150(folder).root))
    look = seen.look()
    seen.close()
    yield merge(blank.snapshot("now", "box"), look)
    more = {
        "kmd": 0,
        "pci": look["chips"][0]["pci"],
        "unique_id": "77",
        "remote": False,
        "telemetry": umd.telemetry({}),
    }
    yield merge(blank.snapshot("now", "box"), umd.enrich(look, {"state": "ok", "why": None, "chips": [more]}))


def groups(keys: set[str]) -> set[str]:
    """Without those that only hold others: the page may leave them out."""
    return {key for key in keys if not any(other.startswith((f"{key}.", f"{key}[]")) for other in keys)}


def test_every_key_is_on_the_page_and_every_key_of_the_page_exists(folder: Path) -> None:
    real = {path for snapshot in everything(folder) for path in paths(snapshot)}
    named = documented()
    assert not groups(real) - named, "not on the page"
    assert not named - real, "on the page, but nowhere else"


def test_every_kind_of_note_is_on_the_page() -> None:
    source = Path(notes.__file__).read_text()
    made = set(re.findall(r'(?:yield|_note\(|yield \(\n\s+)\s*"([a-z-]+)"', source))
    made |= {"uncertain"}  # of documents/snapshot.py
    made |= {f"shm-{state}" for state in ("unreadable", "unready", "unsupported", "garbage")}
    row = next(line for line in PAGE.read_text().splitlines() if line.startswith("| `notes[].what`"))
    assert set(re.findall(r"`([a-z-]+)`", row)) == made


def test_every_kind_of_memory_is_on_the_page() -> None:
    page = PAGE.read_text()
    assert all(f"`{kind.label}`" in page for kind in KINDS)
