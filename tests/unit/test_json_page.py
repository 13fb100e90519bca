# SPDX-License-Identifier: Apache-2.0
"""docs/json.md and docs/api.md list exactly the keys of model/schema.py."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints, is_typeddict

import pytest

from tests import machines
from tests.schema_conformance import paths, problems
from tests.snapshots import Account, counters, driver_chip, holder, machine, slot, unreadable
from ttmem.documents import notes
from ttmem.documents import unknown_rows as blank
from ttmem.documents.merge import merge
from ttmem.model import schema
from ttmem.model.events import Allocated, Failed, ProcessExited, Uncertain
from ttmem.model.kinds import KINDS, Kind
from ttmem.sources import umd
from ttmem.sources.machine import Machine

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "json.md"
MIB = 1 << 20

# Headings of docs/json.md whose tables together list the snapshot.
SNAPSHOT = ("The snapshot", "A chip", "Telemetry", "tt-metal's counters", "Memory of a chip", "A process", "Sums")
# Rows that occur in several documents, and have a table of their own or are listed in that of one document.
SHARED = frozenset(
    {
        schema.AllocationRow,
        schema.Anomalies,
        schema.BlockRow,
        schema.BreakdownPoolRow,
        schema.BreakdownRow,
        schema.CallTreeNode,
        schema.CoreRow,
        schema.OwnerRow,
        schema.PeakRow,
        schema.ProcessRow,
        schema.Snapshot,
        schema.VerdictRow,
    }
)
# Page and heading -> the type whose keys are listed there, and the shared rows that are listed with it.
TABLES: dict[tuple[str, str], tuple[Any, set[Any]]] = {
    ("json.md", "A run"): (schema.Run, set()),
    ("json.md", "An explanation"): (schema.Explanation, set()),
    ("json.md", "A verdict"): (schema.VerdictRow, set()),
    ("json.md", "A block"): (schema.BlockRow, set()),
    ("json.md", "A fit"): (schema.Fit, set()),
    ("json.md", "What if"): (schema.WhatIf, set()),
    ("json.md", "Doctor"): (schema.Doctor, set()),
    ("json.md", "A wheel"): (schema.Wheel, set()),
    ("json.md", "An import"): (schema.Import, set()),
    ("json.md", "Memory reports"): (schema.MemoryReports, set()),
    ("json.md", "Statistics"): (schema.Stats, set()),
    ("json.md", "A comparison"): (schema.Diff, set()),
    ("json.md", "A call tree"): (schema.CallTree, set()),
    ("json.md", "A caller"): (schema.CallTreeNode, set()),
    ("api.md", "Answer of /health"): (schema.Health, set()),
    ("api.md", "Answer of /processes"): (schema.Processes, set()),
    ("api.md", "Answer of /allocations"): (schema.Allocations, set()),
    ("api.md", "Answer of /breakdown"): (schema.Breakdown, {schema.BreakdownPoolRow, schema.BreakdownRow}),
    ("api.md", "Answer of /peaks"): (schema.Peaks, {schema.PeakRow}),
    ("api.md", "Answer of /peaks/reset"): (schema.PeaksReset, set()),
    ("api.md", "Answer of /phases"): (schema.Phases, set()),
    ("api.md", "Answer of /headroom"): (schema.Headroom, set()),
    ("api.md", "Answer of /cores"): (schema.Cores, set()),
    ("api.md", "Answer of /history"): (schema.History, set()),
    ("api.md", "Answer of /dump"): (schema.Dump, set()),
    ("api.md", "Answer of /leaks"): (schema.Leaks, set()),
    ("api.md", "An allocation"): (schema.AllocationRow, set()),
    ("api.md", "An owner"): (schema.OwnerRow, set()),
    ("api.md", "A core"): (schema.CoreRow, set()),
}


def sections(page: str) -> dict[str, str]:
    """The text below each heading of a page."""
    parts = re.split(r"^#+ (.+)$", (DOCS / page).read_text(), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2]))


def keys_in(text: str) -> set[str]:
    """The first column of the tables whose first column is called "key"."""
    tables = re.findall(r"^\| key \|.*\n\|---.*\n((?:\|.*\n?)+)", text, re.MULTILINE)
    rows = re.findall(r"^\| (`.*?`) \|", "\n".join(tables), re.MULTILINE)
    return {key for row in rows for key in re.findall(r"`([^`]+)`", row)}


def real_paths(value: Any, where: str = "") -> Iterator[str]:
    """Every key of a document, dotted in the same way as `paths` does for its type."""
    if isinstance(value, list):
        yield f"{where}[]"
        for inner in value:
            yield from real_paths(inner, f"{where}[]")
    elif isinstance(value, dict) and not where.endswith(".implausible"):
        for key, inner in value.items():
            name = "<kind>" if where.endswith(".kinds") else key
            yield from real_paths(inner, f"{where}.{name}" if where else name)
    yield where


def everything(folder: Path) -> Iterator[schema.Snapshot]:
    """Snapshots that together contain every key."""
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
    more: Any = {
        "kmd": 0,
        "pci": look["chips"][0]["pci"],
        "unique_id": "77",
        "remote": False,
        "telemetry": umd.telemetry({}),
    }
    yield merge(
        blank.snapshot("now", "box"), umd.enrich(look, {"state": "ok", "why": None, "warning": "", "chips": [more]})
    )


def leaves(keys: set[str]) -> set[str]:
    """Without keys that only contain other keys: a page may leave them out."""
    return {key for key in keys if not any(other.startswith((f"{key}.", f"{key}[]")) for other in keys)}


def test_the_snapshots_keys_are_on_the_page() -> None:
    found = sections("json.md")
    named, wanted = keys_in("".join(found[heading] for heading in SNAPSHOT)), set(paths(schema.Snapshot))
    assert not leaves(wanted) - named, "not on the page"
    assert not named - wanted, "on the page, but not in the schema"


@pytest.mark.parametrize(("page", "heading"), TABLES)
def test_the_keys_of_every_other_document_are_on_a_page(page: str, heading: str) -> None:
    wanted, own = TABLES[page, heading]
    named, real = keys_in(sections(page)[heading]), set(paths(wanted, SHARED - own))
    assert not leaves(real) - named, "not on the page"
    assert not named - real, "on the page, but not in the schema"


def test_no_document_and_no_table_is_left_out() -> None:
    documents = {
        one
        for one in vars(schema).values()
        if is_typeddict(one) and get_origin(get_type_hints(one).get("schema")) is Literal
    } - {schema.HistoryHead, schema.ImportSummary}
    assert documents == {schema.Snapshot, *(wanted for wanted, _ in TABLES.values())} & documents
    for page in ("json.md", "api.md"):
        listed = {heading for heading, text in sections(page).items() if keys_in(text)}
        assert listed == {heading for name, heading in TABLES if name == page} | set(
            SNAPSHOT if page == "json.md" else ()
        )


def test_every_document_is_in_the_list_of_schemas() -> None:
    names = {
        name for wanted, _ in TABLES.values() for name in get_args(get_type_hints(wanted).get("schema")) if name
    } | set(get_args(get_type_hints(schema.Snapshot)["schema"]))
    rows = re.findall(r"^\| (`ttmem\..*?`) \|", sections("json.md")["JSON documents"], re.MULTILINE)
    assert {name for row in rows for name in re.findall(r"`(ttmem\.[a-z_]+/\d)`", row)} == names


def test_real_snapshots_have_every_key_of_the_schema(folder: Path) -> None:
    found = list(everything(folder))
    for snapshot in found:
        assert problems(snapshot, schema.Snapshot) == []
    assert not leaves(set(paths(schema.Snapshot))) - {path for one in found for path in real_paths(one)}


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
