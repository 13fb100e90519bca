# SPDX-License-Identifier: Apache-2.0
"""`ttmem import` beside the native agent: one process of the real ttnn, recorded by both, must give one account."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.agents import watched
from ttmem.account.kinds import KINDS, Kind
from ttmem.account.ledger import Ledger
from ttmem.account.parties import Source
from ttmem.wire.journal import JournalReader

FORMS = {"capture.json": "graph capture", "report.json": "graph report", "db": "report database, schema 3.5"}
Import = Callable[..., "Imported"]
Buffers = Counter[tuple[int, Kind, int, int]]  # chip, kind, address, size
Layouts = Counter[tuple[int, frozenset[Any]]]  # chip, and of each program: address, size, cores, shared


class Imported:
    """What the command said, and the account of the file it wrote."""

    def __init__(self, said: dict[str, Any], out: Path) -> None:
        self.said = said
        self.ledger = Ledger()
        with open(out, "rb") as file:
            reader = JournalReader(file)
            reader.replay(self.ledger)
            assert not reader.cut
        (process,) = self.ledger.processes.values()
        (self.source,) = process.sources.values()


def ttmem(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ttmem", *arguments], cwd=folder, capture_output=True, text=True, timeout=60
    )


@pytest.fixture
def load(folder: Path) -> Import:
    def run(path: Path, *options: str) -> Imported:
        out = folder / f"{path.stem}.{path.parent.name}.out"
        done = ttmem("import", str(path), "-o", str(out), "--json", *options, folder=folder)
        assert done.returncode == 0, done.stderr
        return Imported(json.loads(done.stdout), out)

    return run


def buffers(source: Source) -> Buffers:
    return Buffers(
        (holding.number, thing.kind, thing.address, thing.size)
        for holding in source.holdings.values()
        for thing in holding.buffers.values()
    )


def reserved(source: Source) -> dict[tuple[int, Kind], int | None]:
    """What an account says the allocator took of each kind on each chip; a kind that is not there takes nothing."""
    found: dict[tuple[int, Kind], int | None] = {}
    for number, holding in source.holdings.items():
        for kind in (Kind.DRAM, Kind.L1, Kind.L1_SMALL, Kind.TRACE):
            leaf = holding.leaves[kind]
            found[number, kind] = 0 if leaf is None or not leaf.count else leaf.reserved_bytes
    return found


def circular_buffers(source: Source) -> Layouts:
    """What each program has on each chip, whatever its number."""
    found = Layouts()
    for holding in source.holdings.values():
        for program in holding.programs.values():
            parts = Counter[Any]()
            for thing in program.parts.values():
                assert thing.extra is not None
                if thing.kind is Kind.CB:
                    parts[thing.address, thing.size, thing.extra.cores, thing.extra.shared] += thing.refs
            if parts:
                found[holding.number, frozenset(parts.items())] += 1
    return found


def peaks(ledger: Ledger) -> dict[tuple[str, Kind], int]:
    return {(chip.uid, kind): chip.kinds[kind].peak.value for chip in ledger.chips.values() for kind in KINDS[:6]}


def by_ttnn(account: dict[str, Any]) -> dict[tuple[int, Kind], int]:
    """The same as ``reserved``, by ttnn's memory view."""
    return {
        (chip, Kind[name]): view["allocated_per_bank"] * view["banks"]
        for chip in account["chips"]
        for name, view in account["views"].items()
    }


class Recorded(NamedTuple):
    """A workload under the agent when its capture has ended."""

    accounts: dict[str, dict[str, Any]]  # by ttnn
    agent: Source
    ledger: Ledger  # of the agent
    into: Path
    uids: set[str]
    times: list[float]  # before and after the capture


def record(board: str, folder: Path, *options: str) -> Recorded:
    folder.mkdir(exist_ok=True)
    into = folder / "recorded"
    accounts, times = {}, []
    with watched("3.12", "ttnn_import", board, folder, "--into", str(into), *options) as (collector, program):
        for told in program.records():
            accounts[told["what"]] = told["account"]
            times.append(told["time"])
            if told["what"] == "captured":
                break
        collector.drain()
        source = collector.agents[program.pid].source
        return Recorded(accounts, source, collector.ledger, into, set(map(str, program.uids.values())), times)


@pytest.mark.parametrize("board", ["n150", "p150", "n300", "t3k"])
def test_all_that_ttnn_can_record_is_what_the_agent_saw(board: str, folder: Path, load: Import) -> None:
    accounts, agent, ledger, into, named, (before, after) = record(board, folder, "--detailed")
    captured = accounts["captured"]
    for name in ("report.json", "db"):
        imported = load(into / name)
        said, source = imported.said, imported.source
        assert said["form"].startswith(FORMS[name])
        assert {chip["uid"] for chip in said["chips"]} == named
        assert {chip["geometry"] for chip in said["chips"]} == {"live"}
        assert (said["confidence"], said["completeness"], said["unsized"], said["anomalies"]) == (
            "reported",
            None,
            0,
            {},
        )
        peak_times = [kind["peak_after_s"] for chip in said["chips"] for kind in chip["kinds"].values()]
        assert before <= said["began"] <= said["began"] + max(peak_times) <= after
        # Buffers: places by ttnn's list, bytes by its memory view; both and the sizes by the agent.
        places = Counter((chip, Kind(kind), at) for chip in captured["chips"] for kind, at in captured["buffers"])
        assert Counter((chip, kind, at) for chip, kind, at, _ in buffers(source)) == places
        assert reserved(source) == by_ttnn(captured)
        mine, true = buffers(source), buffers(agent)
        # Documented: of what was there before and nothing touched, the list tells only what it takes of the banks.
        untouched = {(chip, kind, at) for chip, kind, at, size in mine if (chip, kind, at, size) not in true}
        assert {kind for _, kind, _ in untouched} <= {Kind.L1, Kind.DRAM}
        assert len({at for _, _, at in untouched}) == 1
        assert circular_buffers(source) == circular_buffers(agent)
        check_peaks(imported, ledger, untouched)


def check_peaks(imported: Imported, true: Ledger, untouched: set[tuple[int, Kind, int]]) -> None:
    """Equal but for what the buffer of unknown size takes of its banks beyond what was asked for."""
    spare = {}
    for chip in imported.ledger.chips.values():
        for holding in chip.holdings:
            for thing in holding.buffers.values():
                if (holding.number, thing.kind, thing.address) in untouched:
                    (asked,) = (
                        other.size
                        for other_chip in true.chips.values()
                        if other_chip.uid == chip.uid
                        for other_holding in other_chip.holdings
                        for other in other_holding.buffers.values()
                        if (other.kind, other.address) == (thing.kind, thing.address)
                    )
                    spare[chip.uid, thing.kind] = thing.size - asked
    mine = {key: value - spare.get(key, 0) for key, value in peaks(imported.ledger).items()}
    assert mine == peaks(true)
    assert min(mine[chip, kind] for chip, kind in mine if kind in (Kind.DRAM, Kind.L1, Kind.L1_SMALL, Kind.CB)) > 0


def test_a_bare_capture_lacks_what_the_page_says(folder: Path, load: Import) -> None:
    accounts, agent, ledger, into, *_ = record("n150", folder)
    missing = buffers(agent) - buffers(load(into / "capture.json").source)
    assert len(missing) == 1  # nothing touched it
    ((_, kind, at, size),) = missing
    assert [1, at] in accounts["before"]["buffers"]
    for name, form in FORMS.items():
        imported = load(into / name, "--board", "n150")
        assert imported.said["form"] == form
        assert buffers(imported.source) + missing == buffers(agent)
        assert circular_buffers(imported.source) == circular_buffers(agent)
        assert "buffers from before that nothing touched" in imported.said["lacks"]
        (chip,) = imported.ledger.chips.values()
        found = {key: value + (size if key[1] is kind else 0) for key, value in peaks(imported.ledger).items()}
        assert list(found.values()) == list(peaks(ledger).values())
    (chip,) = load(into / "capture.json").said["chips"]
    assert (chip["uid"], chip["geometry"]) == ("assumed:0", None)
    assert chip["kinds"]["l1"]["reserved"] is None


def test_a_capture_without_execution(folder: Path, load: Import) -> None:
    """What would be: no address of a buffer is known, and each program is alone; the sizes are the real ones."""
    (real,) = record("n150", folder, "--short").agent.holdings.values()
    programs = [p for p in real.programs.values() if any(t.kind in (Kind.CB, Kind.DFB) for t in p.parts.values())]
    expected = {
        (t.kind, t.address, t.size, t.extra.cores)
        for p in programs
        for t in p.parts.values()
        if t.kind in (Kind.CB, Kind.DFB) and t.extra is not None
    }
    assert {kind for kind, *_ in expected} == {Kind.CB, Kind.DFB}
    record("n150", folder / "virtual", "--short", "--virtual")
    imported = load(folder / "virtual" / "recorded" / "report.json")
    assert (imported.said["virtual"], imported.said["confidence"]) == (True, "estimated")
    found = set()
    for thing in parts_ever(folder / "report.recorded.out"):
        found.add((thing.kind, thing.address, thing.size, thing.extra.cores))
    assert found == expected


def parts_ever(path: Path) -> list[Any]:
    """Every part of a program that was ever allocated."""
    from ttmem.account.events import Allocated
    from ttmem.wire import native

    with open(path, "rb") as file:
        records = [record for _, number, record in JournalReader(file).entries() if number and record[0] != 0xB0]
    return [e for e in map(native.decode, records) if isinstance(e, Allocated) and e.kind >= Kind.CB]


def test_from_the_file_to_the_screens(folder: Path) -> None:
    """As a user goes: import a folder, replay it, look at its peaks and at the L1 of a core."""
    accounts, _, _, into, *_ = record("n150", folder, "--detailed")
    done = ttmem("import", str(into / "db"), folder=folder)
    assert done.returncode == 0, done.stderr
    assert "db.events: " in done.stdout
    assert "ttmem replay --peaks db.events" in done.stdout
    assert os.stat(folder / "db.events").st_mode & 0o777 == 0o600
    picture = json.loads(ttmem("replay", "db.events", "--json", folder=folder).stdout)
    memory = picture["chips"][0]["memory"]
    assert memory["completeness"] is None
    assert memory["l1"]["reserved"] == sum(
        view["allocated_per_bank"] * view["banks"]
        for name, view in accounts["captured"]["views"].items()
        if name in ("L1", "L1_SMALL")
    )
    assert {"dfb", "kernel"} <= set(memory["missing"])
    assert "dataflow buffers and scratchpads" in picture["processes"][0]["sources"][0]["trouble"]
    shown = ttmem("replay", "db.events", "--peaks", folder=folder)
    assert "before the capture" in shown.stdout
    assert "ttnn.matmul at ttnn_import.py:" in shown.stdout
    cores = json.loads(ttmem("l1", "--file", "db.events", "--core", "0,0", "--json", folder=folder).stdout)
    lying = {segment["start"] for segment in cores["core"]["segments"] if segment["kind"] in ("l1", "l1_small")}
    assert lying == {at for kind, at in accounts["captured"]["buffers"] if kind in (1, 3)}
    began = ttmem("l1", "--file", "db.events", "--at", "1", folder=folder)
    assert began.returncode == 1
    assert "there is no chip" in began.stderr
    assert "--at is for --file" in ttmem("l1", "--at", "1", folder=folder).stderr
    assert "No such file" in ttmem("l1", "--file", "nothing", folder=folder).stderr
    nowhere = ttmem("l1", "--file", "db.events", "--core", "40,0", folder=folder)
    assert (nowhere.returncode, "there is no core 40,0" in nowhere.stderr) == (1, True)


@pytest.mark.parametrize(
    ("content", "options", "code", "words"),
    [
        ("[{", [], 1, "file: the file ends inside a value, after 2 characters: it is cut off"),
        ("[]", [], 1, "file: nothing in it touches a device; a capture sees only the thread that began it"),
        (None, [], 1, "file: No such file or directory"),
        ("[]", ["-o", "file"], 1, "file is there already and no event file; name another with -o"),
        ("[]", ["--board", "x9"], 2, "invalid choice: 'x9'"),
    ],
)
def test_errors_are_one_line_and_leave_nothing(
    content: str | None, options: list[str], code: int, words: str, folder: Path
) -> None:
    path = folder / "file"
    if content is not None:
        path.write_text(content)
    failed = ttmem("import", "file", *options, folder=folder)
    assert failed.returncode == code, failed.stderr
    assert words in failed.stderr
    assert "Traceback" not in failed.stderr
    assert {one.name for one in folder.iterdir()} <= {"file"}


def test_an_output_that_cannot_be_written(folder: Path) -> None:
    data = Path(__file__).parent.parent / "data" / "imports" / "n300_report.json"
    failed = ttmem("import", str(data), "-o", "nowhere/out.events", folder=folder)
    assert (failed.returncode, failed.stderr) == (
        1, "ttmem import: cannot write nowhere/out.events: No such file or directory\n"
    )  # fmt: skip
    piped = subprocess.run(
        f"cat {data} | {sys.executable} -m ttmem import /dev/stdin -o out.events",
        shell=True, cwd=folder, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert piped.returncode == 0, piped.stderr
    assert "2 chips" in piped.stdout


def test_a_database_that_is_being_written(folder: Path) -> None:
    path = folder / "db.sqlite"
    writer = sqlite3.connect(path, isolation_level=None)
    try:
        writer.execute("CREATE TABLE buffers (operation_id int)")
        writer.execute("BEGIN EXCLUSIVE")
        locked = ttmem("import", str(path), folder=folder)
    finally:
        writer.close()
    assert locked.returncode == 1
    assert "database is locked; is ttnn still writing it?" in locked.stderr
    assert not list(folder.glob("*.events"))
