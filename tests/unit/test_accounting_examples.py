# SPDX-License-Identifier: Apache-2.0
"""The examples of docs/accounting.md: the events of each row are applied, and the account has the stated totals.

Events and totals are read from the tables. A row in another notation is listed in `NOT_RUN`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from typing import Any, NamedTuple

import pytest

from tests.metered_agent import MeteredAgent
from tests.scripted_agent import SLOTS
from tests.support import ROOT
from tests.unit.test_shed_rings import Ticking
from ttmem.account.entities import Source
from ttmem.account.ledger import Ledger
from ttmem.account.live_set import counted_chips
from ttmem.documents.peaks import peaks
from ttmem.model import events as ev
from ttmem.model.identity import ChipInfo, ProcessInfo
from ttmem.model.kinds import KIND_BY_LABEL, Confidence, Kind

PAGE = ROOT / "docs/accounting.md"
_CHIP = 555  # of the examples about lost records

# How the rows begin whose events or totals are in words of their own.
NOT_RUN = {
    "2: a record of pid 1 claims to be from pid 555",
    "2: stamp 0 on connections 3 and 4: `alloc dram 0x1000 7` and `alloc dram 0x1000 9`",
    "3: the snapshot's row of A",
    "8: dram 1000, trace 500, l1 40, l1_small 8, cb 20, kernel 10, fabric 900, dispatch 90, host 7",
    "9, held: both compiled",
    "9, held: program 1 runs on 8x8",
    "9, held: program 2 runs on the upper 8x4",
    "9, held: program 2 gets a shared CB of 999",
    "9, held: program 2 is destroyed",
    "11, L1 capacity: the machine has a p150a",
    "11, L1 capacity: a process opens it and reports a grid of 10x10",
    "11, chips in a snapshot: `A: alloc dram 0x1000 100`",
    "11, chips in a snapshot: `A: free dram 0x1000`",
    "11, chips in a snapshot: `A exits`",
    "11, chips in a snapshot: `B: alloc dram 0x1000 40`",
}


class NotCovered(Exception):
    """The text is in no notation that is known here."""


class Row(NamedTuple):
    """A row of a table of examples. ``story`` also has the events of the rows that it continues."""

    section: str
    heading: str  # of the column of totals
    events: str
    totals: str
    story: str

    @property
    def name(self) -> str:
        about = "" if self.heading == "totals" else f", {self.heading}"
        return f"{self.section}{about}: {self.events}"


def rows() -> Iterator[Row]:
    """The rows of all tables with events."""
    section, heading, story = "", "", ""
    for line in PAGE.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []
        if line.startswith("## "):
            section = line[3:].partition(".")[0].partition(",")[0]
        elif not cells:
            heading = ""
        elif not heading:
            heading, story = (cells[1] if cells[0] == "events" else "of something else"), ""
        elif cells[0].strip("-") and heading != "of something else":
            events = cells[0].removeprefix("then ")
            story = f"{story}, {events}" if events != cells[0] else events
            yield Row(section, heading, events, ", ".join(cells[1:]), story)


ROWS = list(rows())


# -- events ----------------------------------------------------------------------------------------------------------


class Step(NamedTuple):
    """One event of an example."""

    time: float
    process: str
    source: str  # "" if it is not stated
    event: ev.Event
    part: str = ""  # or "lost", or "meanwhile"
    native: bool = False  # the legacy protocol has no such event


_KINDS = "|".join(KIND_BY_LABEL)
_TOKENS = re.compile(
    r"(?:t=(?P<time>\d+) )?"
    r"(?:(?P<owner>pid \d+ started at tick \d+|a native client): )?"
    r"(?:`(?:(?P<who>[A-Z])(?: (?P<source>legacy|agent))?: )?(?:"
    rf"(?P<what>alloc|free)(?: (?P<kind>{_KINDS}))? (?P<address>\w+)(?: (?P<size>\d+))?"
    r"|(?P<load>load|unload)(?P<fabric> fabric)? kernel (?P<kernel>\d+)(?:, (?P<bytes>\d+))?"
    r"|device (?P<opened>\d+) is chip (?P<chip>\w+))`"
    r"|(?P<reset>reset)|`?(?P<gone>[A-Z]) (?:dies|exits)`?|(?P<resync>BEGIN|END) (?P<generation>\d+))"
)
_DETAIL = re.compile(
    r"(?:, no type| (?:on mesh \((?P<mesh>[\d, ]+)\)|on (?P<it>it)\b|(?P<more>and )?on (?:device )?(?P<device>\d+)"
    r"|(?P<again>again)"
    r"|(?:with )?size (?P<size>\d+)|number (?P<ident>\d+)|allocator (?P<allocator>\d+)(?: \(a submesh\))?"
    r"|program (?P<program>\d+)|code (?P<code>\d+) \(\w+\)|stamped \d+|(?P<times>twice|three times)))"
)
_BETWEEN = re.compile(r"[,;] (?:then )?(?:(?P<part>lost|meanwhile): )?")
_TIMES = {None: 1, "twice": 2, "three times": 3}


def steps_of(row: Row) -> list[Step]:
    """The events of a row, and of those that it continues."""
    return list(_steps(row.story, of_dram=row.heading.startswith("peak") or row.section == "Resync"))


def _steps(text: str, *, of_dram: bool) -> Iterator[Step]:
    process, part, at, time = "A", "", 0, 0.0
    device: Any = 0
    while at < len(text):
        found = _TOKENS.match(text, at)
        if found is None:
            raise NotCovered(text[at:])
        at, token = found.end(), found.groupdict()
        details: dict[str, str] = {}
        devices: list[Any] = [0]
        while (detail := _DETAIL.match(text, at)) is not None:
            at = detail.end()
            said = {name: value for name, value in detail.groupdict().items() if value is not None}
            details |= said
            if "mesh" in said:
                devices = [tuple(int(number) for number in said["mesh"].split(", "))]
            elif "device" in said:
                devices = [*(devices if "more" in said else []), int(said["device"])]
            elif "it" in said:
                devices = [device]
        device = devices[-1]
        process = token["who"] or token["owner"] or process
        native = of_dram or (token["what"] == "free" and token["kind"] is not None)
        native = native or not {"ident", "allocator"}.isdisjoint(details)
        time = float(token["time"] or time + 1)
        for event in _events(token, details, devices, of_dram=of_dram):
            for _ in range(_TIMES[details.get("times")]):
                yield Step(time, token["gone"] or process, token["source"] or "", event, part, native)
        between = _BETWEEN.match(text, at)
        if between is None and at < len(text):
            raise NotCovered(text[at:])
        if between is not None:
            at, part = between.end(), between["part"] or part


def _events(token: dict[str, Any], details: dict[str, str], devices: list[Any], *, of_dram: bool) -> list[ev.Event]:
    if token["reset"]:
        return [ev.PeaksReset()]
    if token["gone"]:
        return [ev.ProcessExited()]
    if token["resync"]:
        kind_of_event = ev.ResyncBegin if token["resync"] == "BEGIN" else ev.ResyncEnd
        return [kind_of_event(int(token["generation"]))]
    if token["chip"]:
        return [ev.DeviceOpened(int(token["opened"]), ChipInfo(token["chip"]))]
    if token["load"]:
        ident, size = int(token["kernel"]), int(token["bytes"] or 0)
        kind = Kind.FABRIC_KERNEL if token["fabric"] else Kind.KERNEL
        return [ev.Allocated(0, kind, ident, size) if size else ev.Freed(0, kind, ident)]
    label, address = token["kind"] or ("dram" if of_dram else None), int(token["address"], 0)
    numbers = {name: int(details[name]) for name in ("program", "ident") if name in details}
    if token["what"] == "alloc":
        if label is None or not token["size"]:
            raise NotCovered("an allocation without kind or size")
        extra = ev.Extra(allocator=int(details["allocator"])) if "allocator" in details else None
        size, refs = int(token["size"]), int("again" in details)
        return [
            ev.Allocated(one, KIND_BY_LABEL[label], address, size, refs=refs, extra=extra, **numbers) for one in devices
        ]
    hint = KIND_BY_LABEL[label] if label else Kind(int(details["code"])) if "code" in details else None
    return [ev.Freed(one, hint, address, int(details.get("size", 0)), **numbers) for one in devices]


def apply(steps: list[Step]) -> Ledger:
    """Each process is a legacy client if all of its events are in the legacy protocol."""
    native = {step.process for step in steps if step.native}
    ledger = Ledger()
    for step in steps:
        name = step.source or ("client" if step.process in native else "legacy")
        pid, start = map(int, re.findall(r"\d+", step.process) or (ord(step.process[0]), 7))
        confidence = Confidence.EXACT if name == "agent" else Confidence.REPORTED
        source = ledger.source(0.0, ProcessInfo(pid, start), name, confidence)
        ledger.apply(step.time, None if isinstance(step.event, ev.PeaksReset) else source, step.event)
    return ledger


# -- totals ----------------------------------------------------------------------------------------------------------

_AMOUNT = rf"(?:(?P<kind>{_KINDS}) )?(?P<bytes>\d+)(?: \([^)]*\))?"
_WORDS = {"one": 1, "two": 2, "three": 3}
_TOTALS = re.compile(
    rf"(?:(?:chip|device) `?(?P<chip>[\w:]+)`?: (?:chip )?)?{_AMOUNT}$"
    r"|both (?P<both>\d+)$|(?P<allocations>one|two|three) allocations?$|(?P<references>\d+) references?$"
    r"|(?:no )?`(?P<anomaly>[a-z_]+)`(?: (?P<count>\d+))?$|`(?P<absent>[\w:]+)` is gone$|peak (?P<peak>\d+)$"
    r"|(?P<processes>two) processes$|(?P<confidence>exact|reported) (?P<sum>\d+)(?: bytes)?$"
)
_COMMENT = re.compile(rf": (?!(?:chip: )?(?:(?:{_KINDS}) )?\d+(?:[,;]|$)).*")


def check_totals(ledger: Ledger, text: str) -> None:
    """What the text does not mention is 0. A comment may follow a colon."""
    used = {
        (chip_id.removeprefix("assumed:"), kind): chip.kinds[kind].used
        for chip_id, chip in ledger.chips.items() for kind in Kind if chip.kinds[kind].used
    }  # fmt: skip
    wanted: dict[tuple[str, Kind], int] = {}
    everywhere: dict[Kind, int] = {}
    anomalies = {}
    for clause in re.split(r"[,;] ", _COMMENT.sub("", text)):
        found = _TOTALS.match(clause)
        if found is None:
            raise NotCovered(clause)
        said = found.groupdict()
        if said["bytes"]:
            kind = KIND_BY_LABEL[said["kind"] or "dram"]
            if said["chip"]:
                wanted[said["chip"].removeprefix("assumed:"), kind] = int(said["bytes"])
                assert not ledger.chips.keys().isdisjoint({said["chip"], f"assumed:{said['chip']}"})
            else:
                everywhere[kind] = int(said["bytes"])
        elif said["both"]:
            wanted.update({(chip, Kind.DRAM): int(said["both"]) for chip, _ in used})
            assert len(wanted) == 2
        elif said["allocations"]:
            assert ledger.live_count() == _WORDS[said["allocations"]]
        elif said["references"]:
            assert [allocation.refs for allocation in ledger.allocations()] == [int(said["references"])]
        elif said["anomaly"]:
            anomalies[said["anomaly"]] = int(said["count"] or 0)
        elif said["absent"]:
            assert said["absent"] not in ledger.chips
        elif said["peak"]:
            assert [row["per_chip"] for row in peaks(ledger) if row.get("kind") == "dram"] == [int(said["peak"])]
        elif said["confidence"]:
            counted = [one for one in ledger.allocations() if counted_chips(one)]
            confident = [one.size for one in counted if one.holding.source.confidence.label == said["confidence"]]
            assert sum(confident) == int(said["sum"])
        else:
            assert len(ledger.processes) == _WORDS[said["processes"]]
    if wanted:
        assert used == {key: size for key, size in wanted.items() if size}
    if everywhere:
        sums = Counter[Kind]()
        for (_, kind), size in used.items():
            sums[kind] += size
        assert sums == {kind: size for kind, size in everywhere.items() if size}
    assert {name: count for name, count in ledger.anomalies.items() if count} == {
        name: count for name, count in anomalies.items() if count
    }


_PEAK = re.compile(
    r"(?:(?P<chips>chips? \d+(?: and \d+)*): |(?P<since>since the (?:reset|start)) )?"
    r"(?:at least )?(?P<least>\d+)(?:, at most (?P<most>\d+))?(?: at t=(?P<time>\d+)|, `time` (?P<unknown>null))?"
    r"(?:: (?P<largest>0x[^;]*)|: [^;]*)?(?:; |$)"
)


def check_peaks(ledger: Ledger, text: str) -> None:
    at = 0
    while at < len(text):
        found = _PEAK.match(text, at)
        if found is None:
            raise NotCovered(text[at:])
        at, said = found.end(), found.groupdict()
        chips = {f"assumed:{number}" for number in re.findall(r"\d+", said["chips"] or "")}
        found_rows = [
            row for row in peaks(ledger, recent=said["since"] == "since the reset")
            if row.get("kind") == "dram" and (not chips or chips.intersection(row["chips"]))
        ]  # fmt: skip
        (row,) = found_rows
        assert chips in (set(), set(row["chips"]))
        assert (row["per_chip"], row["at_most"]) == (int(said["least"]), said["most"] and int(said["most"]))
        if said["time"]:
            assert row["time"] == float(said["time"])
        if said["unknown"]:
            assert (row["time"], row["largest"]) == (None, [])
        if said["largest"]:
            listed = re.findall(r"(0x\w+)(?: \((\d+)\))?", said["largest"])
            assert {hex(one["address"]) for one in row["largest"]} == {address for address, _ in listed}
            sizes = [(hex(one["address"]), str(one["size"])) for one in row["largest"]]
            assert [one for one in listed if one[1]] in ([], sizes), "the largest one first"


# -- lost records ----------------------------------------------------------------------------------------------------


class Loss:
    """A has a ring, and others are read at once. What is lost is written while the ring is not read."""

    def __init__(self, agent: MeteredAgent, reader: Ticking) -> None:
        self._agent = agent
        self._reader = reader
        self._ring = reader.adopt(agent)
        self._slots: dict[int, int] = {}  # of A's buffers, by address
        self._others: dict[str, Source] = {}
        reader.tick()

    def play(self, steps: list[Step]) -> Ledger:
        lost = [step for step in steps if step.part]
        for step in [step for step in steps if not step.part]:
            self._do(step)
            self._reader.tick()
        while not self._ring.in_gap:
            self._churn()
            self._reader.tick()
        for step in lost:
            assert self._ring.in_gap
            self._do(step)
        self._churn()
        self._reader.tick(40)
        assert sum(self._reader.sizes(self._ring)) == sum(record.size for record in self._agent.live.values())
        return self._reader.ledger

    def _churn(self) -> None:
        """Write more than the ring holds, without a change of DRAM."""
        for _ in range(3 * SLOTS):
            self._agent.take(0, 1, Kind.L1, 0)
            self._agent.give_back(0)

    def _do(self, step: Step) -> None:
        event = step.event
        if isinstance(event, ev.PeaksReset):
            self._apply(None, event)
        elif step.process != "A":
            self._apply(self._other(step.process), event)
        elif isinstance(event, ev.Allocated):
            slot = self._slots[event.address] = len(self._slots) + 1
            self._agent.take(slot, event.size, event.kind, 0)
        else:
            assert isinstance(event, ev.Freed)
            self._agent.give_back(self._slots[event.address])

    def _other(self, name: str) -> Source:
        if name not in self._others:
            source = self._others[name] = self._reader.ledger.source(0.0, ProcessInfo(2, 7), "agent", Confidence.EXACT)
            self._apply(source, ev.DeviceOpened(0, ChipInfo(str(_CHIP))))
        return self._others[name]

    def _apply(self, source: Source | None, event: ev.Event) -> None:
        self._reader.sink.apply(self._reader.sink.now(), source, event)


def after_loss(steps: list[Step]) -> Ledger:
    with closing(MeteredAgent((_CHIP,))) as agent, closing(Ticking()) as reader:
        return Loss(agent, reader).play(steps)


# -- tests -----------------------------------------------------------------------------------------------------------


def check(row: Row) -> None:
    steps = steps_of(row)
    ledger = after_loss(steps) if any(step.part for step in steps) else apply(steps)
    if row.heading.startswith("peak"):
        check_peaks(ledger, row.totals)
    else:
        check_totals(ledger, row.totals)


def is_covered(row: Row) -> bool:
    try:
        check(row)
    except NotCovered:
        return False
    except AssertionError:
        return True
    return True


@pytest.mark.parametrize("row", [row for row in ROWS if row.name not in NOT_RUN], ids=lambda row: row.name)
def test_an_example(row: Row) -> None:
    check(row)


def test_rows_that_are_not_run_are_listed() -> None:
    assert {row.name for row in ROWS if not is_covered(row)} == NOT_RUN


@pytest.mark.parametrize("section", ["16", "17"])
def test_all_examples_of_meshes_and_lost_records_are_run(section: str) -> None:
    found = [row for row in ROWS if row.section == section]
    assert len(found) >= 5
    assert NOT_RUN.isdisjoint(row.name for row in found)
