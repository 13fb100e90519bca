# SPDX-License-Identifier: Apache-2.0
"""`ttmem import` and the native agent give the same account of one process of the real ttnn."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.agents import watched
from tests.mock.wheel import ROOT
from tests.support import not_none
from ttmem.account.allocations import Allocation
from ttmem.account.entities import Process, Source
from ttmem.account.ledger import Ledger
from ttmem.analyze.failure_context import verdict_at
from ttmem.analyze.failure_types import Clash, TooLittleL1
from ttmem.analyze.verdict_types import AT_MOST, EXACT, SMALLER, Verdict
from ttmem.model.events import Allocated, Event, Failed
from ttmem.model.kinds import KINDS, Kind
from ttmem.recording.recording_file import Recording

FORMS = {"capture.json": "graph capture", "report.json": "graph report", "db": "report database, schema 3.5"}
Import = Callable[..., "Imported"]
Buffers = Counter[tuple[int, Kind, int, int]]  # chip, kind, address, size
Layouts = Counter[tuple[int, frozenset[Any]]]  # chip, and for each program: address, size, cores, shared


class Imported:
    """The output of the command, and the account of the file that it wrote."""

    def __init__(self, said: dict[str, Any], out: Path) -> None:
        self.said = said
        self.verdicts: list[Verdict] = []
        self.ledger = Ledger(failure_observer=self._failing)
        with Recording(str(out)) as recording:
            recording.replay(self.ledger)
            assert not recording.problems
        (process,) = self.ledger.processes.values()
        (self.source,) = process.sources.values()

    def _failing(self, time: float, process: Process, event: Failed) -> None:
        verdict = verdict_at(event, process)
        assert verdict is not None
        self.verdicts.append(verdict)


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
        (number, allocation.kind, allocation.address, allocation.size)
        for holding in source.holdings.values()
        for number in holding.numbers
        for allocation in holding.buffers.values()
    )


def reserved(source: Source) -> dict[tuple[int, Kind], int | None]:
    """Bytes reserved by the allocator for each kind on each chip, from an account; a kind that is missing has none."""
    found: dict[tuple[int, Kind], int | None] = {}
    for number in {number for holding in source.holdings.values() for number in holding.numbers}:
        for kind in (Kind.DRAM, Kind.L1, Kind.L1_SMALL, Kind.TRACE):
            total = source.totals.get((number, kind))
            found[number, kind] = 0 if total is None or not total.count else total.reserved_bytes
    return found


def circular_buffers(source: Source) -> Layouts:
    """What each program has on each chip, regardless of its number."""
    found = Layouts()
    for holding in source.holdings.values():
        for program in holding.programs.values():
            parts = Counter[Any]()
            for allocation in program.parts.values():
                assert allocation.extra is not None
                if allocation.kind is Kind.CB:
                    parts[allocation.address, allocation.size, allocation.extra.cores, allocation.extra.shared] += (
                        allocation.refs
                    )
            if parts:
                for number in holding.numbers:
                    found[number, frozenset(parts.items())] += 1
    return found


def peaks(ledger: Ledger) -> dict[tuple[str, Kind], int]:
    return {(chip.id, kind): chip.kinds[kind].peak.value for chip in ledger.chips.values() for kind in KINDS[:6]}


def by_ttnn(account: dict[str, Any]) -> dict[tuple[int, Kind], int]:
    """The same as ``reserved``, from ttnn's memory view."""
    return {
        (chip, Kind[name]): view["allocated_per_bank"] * view["banks"]
        for chip in account["chips"]
        for name, view in account["views"].items()
    }


class Recorded(NamedTuple):
    """A workload under the agent, at the end of its capture."""

    accounts: dict[str, dict[str, Any]]  # by ttnn
    agent: Source
    ledger: Ledger  # of the agent
    into: Path
    chip_ids: set[str]
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
        return Recorded(accounts, source, collector.ledger, into, set(map(str, program.chip_ids.values())), times)


@pytest.mark.parametrize("board", ["n150", "p150", "n300", "t3k"])
def test_all_that_ttnn_can_record_is_what_the_agent_saw(board: str, folder: Path, load: Import) -> None:
    accounts, agent, ledger, into, named, (before, after) = record(board, folder, "--detailed")
    captured = accounts["captured"]
    for name in ("report.json", "db"):
        imported = load(into / name)
        said, source = imported.said, imported.source
        assert said["form"].startswith(FORMS[name])
        assert {chip["chip"] for chip in said["chips"]} == named
        assert {chip["geometry"] for chip in said["chips"]} == {"live"}
        assert (said["confidence"], said["completeness"], said["unsized"], said["anomalies"]) == (
            "reported",
            None,
            0,
            {},
        )
        peak_times = [kind["peak_after_s"] for chip in said["chips"] for kind in chip["kinds"].values()]
        assert before <= said["began"] <= said["began"] + max(peak_times) <= after
        # Buffers: addresses from ttnn's list, bytes from its memory view; both and the sizes from the agent.
        places = Counter((chip, Kind(kind), at) for chip in captured["chips"] for kind, at in captured["buffers"])
        assert Counter((chip, kind, at) for chip, kind, at, _ in buffers(source)) == places
        assert reserved(source) == by_ttnn(captured)
        mine, true = buffers(source), buffers(agent)
        # Documented: for an earlier buffer that was not used, the list has only its reserved bytes.
        untouched = {(chip, kind, at) for chip, kind, at, size in mine if (chip, kind, at, size) not in true}
        assert {kind for _, kind, _ in untouched} <= {Kind.L1, Kind.DRAM}
        assert len({at for _, _, at in untouched}) == 1
        assert circular_buffers(source) == circular_buffers(agent)
        check_peaks(imported, ledger, untouched)


def check_peaks(imported: Imported, true: Ledger, untouched: set[tuple[int, Kind, int]]) -> None:
    """Equal, except for the bytes that the banks reserve beyond the request for a buffer of unknown size."""
    spare = {}
    for chip in imported.ledger.chips.values():
        for holding in chip.holdings:
            for allocation in holding.buffers.values():
                if (holding.device, allocation.kind, allocation.address) in untouched:
                    (asked,) = (
                        other.size
                        for other_chip in true.chips.values()
                        if other_chip.id == chip.id
                        for other_holding in other_chip.holdings
                        for other in other_holding.buffers.values()
                        if (other.kind, other.address) == (allocation.kind, allocation.address)
                    )
                    spare[chip.id, allocation.kind] = allocation.size - asked
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
        assert "earlier buffers that no operation used" in imported.said["lacks"]
        (chip,) = imported.ledger.chips.values()
        found = {key: value + (size if key[1] is kind else 0) for key, value in peaks(imported.ledger).items()}
        assert list(found.values()) == list(peaks(ledger).values())
    (chip,) = load(into / "capture.json").said["chips"]
    assert (chip["chip"], chip["geometry"]) == ("assumed:0", None)
    assert chip["kinds"]["l1"]["reserved"] is None


def test_a_capture_without_execution(folder: Path, load: Import) -> None:
    """Virtual data: buffers have no address, and each program is alone; the sizes are the real ones."""
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
    for allocation in parts_ever(folder / "report.recorded.out"):
        found.add((allocation.kind, allocation.address, allocation.size, allocation.extra.cores))
    assert found == expected


def parts_ever(path: Path) -> list[Any]:
    """Every part of a program that was ever allocated."""
    found = []

    class Seen(Ledger):
        def apply(self, time: float, source: Source | None, event: Event) -> Allocation | None:
            if isinstance(event, Allocated) and event.kind >= Kind.CB:
                found.append(event)
            return super().apply(time, source, event)

    with Recording(str(path)) as recording:
        recording.replay(Seen())
    return found


def test_from_the_file_to_the_screens(folder: Path) -> None:
    """The steps of a user: import a folder, replay it, show its peaks and the L1 of a core."""
    accounts, _, _, into, *_ = record("n150", folder, "--detailed")
    done = ttmem("import", str(into / "db"), folder=folder)
    assert done.returncode == 0, done.stderr
    assert "db.ttmem: " in done.stdout
    assert "ttmem replay --peaks db.ttmem" in done.stdout
    assert os.stat(folder / "db.ttmem").st_mode & 0o777 == 0o600
    snapshot = json.loads(ttmem("replay", "db.ttmem", "--json", "--at", "end", folder=folder).stdout)
    memory = snapshot["chips"][0]["memory"]
    assert memory["completeness"] is None
    assert memory["l1"]["reserved"] == sum(
        view["allocated_per_bank"] * view["banks"]
        for name, view in accounts["captured"]["views"].items()
        if name in ("L1", "L1_SMALL")
    )
    assert {"dfb", "kernel"} <= set(memory["missing"])
    assert "dataflow buffers and scratchpads" in snapshot["processes"][0]["sources"][0]["trouble"]
    shown = ttmem("replay", "db.ttmem", "--peaks", folder=folder)
    assert "before the capture" in shown.stdout
    made = "ttnn.matmul, [1, 1, 256, 256] bfloat16 tile, programs/ttnn_import.py:"
    assert made in " ".join(shown.stdout.split())
    cores = json.loads(
        ttmem("l1", "--file", "db.ttmem", "--core", "0,0", "--json", "--at", "end", folder=folder).stdout
    )
    lying = {segment["start"] for segment in cores["core"]["segments"] if segment["kind"] in ("l1", "l1_small")}
    assert lying == {at for kind, at in accounts["captured"]["buffers"] if kind in (1, 3)}
    began = ttmem("l1", "--file", "db.ttmem", "--at", "1", folder=folder)
    assert began.returncode == 1
    assert "1 is outside the recording, which is " in began.stderr
    assert "--at needs --file" in ttmem("l1", "--at", "1", folder=folder).stderr
    assert "No such file" in ttmem("l1", "--file", "nothing", folder=folder).stderr
    nowhere = ttmem("l1", "--file", "db.ttmem", "--core", "40,0", "--at", "end", folder=folder)
    assert (nowhere.returncode, "there is no core 40,0" in nowhere.stderr) == (1, True)


# A workload that fails in six ways while ttnn records it, and goes on each time.
FAILING = """
import sys, types
from pathlib import Path
sys.path.insert(0, PROGRAMS)
import ttnn
from ttnn_bench import Reporter, close_board, open_board, parser

DRAM, L1 = ttnn.DRAM_MEMORY_CONFIG, ttnn.L1_MEMORY_CONFIG
options = parser(None)
options.add_argument("--into", type=Path)
options = options.parse_args()
sys.modules.setdefault("torch", types.SimpleNamespace(Tensor=type("Tensor", (), {})))
report = Reporter(options.report_fd, options.ack_fd)
device = open_board(options)

def new(height, width, memory=L1):
    return ttnn.empty(
        [1, 1, height, width], dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device, memory_config=memory
    )

def refused(work):
    try:
        work()
    except RuntimeError:
        return
    raise SystemExit("it was not refused")

def grow():
    while True:
        kept.append(ttnn.add(kept[-1], before, memory_config=L1))

def fill(memory, height, width):
    while True:
        kept.append(new(height, width, memory))

before = new(1024, 2048)
ttnn.graph.enable_detailed_buffer_tracing()
ttnn.graph.enable_python_stack_traces()
ttnn.graph.begin_graph_capture(ttnn.graph.RunMode.NORMAL)
kept = [ttnn.relu(before, memory_config=L1)]
refused(grow)
kept[::2] = [None] * len(kept[::2])
refused(lambda: new(4096, 4096))
small = new(256, 128, DRAM)
rows = ttnn.empty(
    [1, 1, 4, 100_001], dtype=ttnn.bfloat16, layout=ttnn.ROW_MAJOR_LAYOUT, device=device, memory_config=DRAM
)
while free := ttnn.get_memory_view(device, ttnn.BufferType.L1).largest_contiguous_bytes_free_per_bank // 2048:
    kept.append(new(32, 32 * free * ttnn.get_memory_view(device, ttnn.BufferType.L1).num_banks))
refused(lambda: ttnn.add(small, small, memory_config=DRAM))
refused(lambda: ttnn.relu(small, memory_config=DRAM))
refused(lambda: ttnn.slice(rows, [0, 0, 0, 1], [1, 1, 4, 100_001]))
refused(lambda: fill(DRAM, 32768, 32768))
kept.clear()
after = ttnn.neg(before, memory_config=DRAM)
options.into.mkdir()
ttnn.graph.end_graph_capture_to_file(str(options.into / "report.json"))
ttnn.graph.import_report(str(options.into / "report.json"), str(options.into / "db"))
report(what="captured")
del before, small, rows, after
close_board(options, device)
"""
WHYS = ["too full", "fragmented", "clash", "clash", "too full", "too full"]


TILE = 2048  # bytes, of bfloat16


def of_dataflow(verdict: Verdict) -> bool:
    return isinstance(verdict.failure, Clash) and verdict.failure.kind is Kind.DFB


def essence(verdict: Verdict) -> Any:
    """What two accounts of one moment must have in common.

    ttnn records lines and shapes; the agent does so only on request. So the agent's groups of identical buffers are
    larger, and its advice is not rounded to the pages of a shape (see `bases_of_smaller`).
    """
    advice = [
        (a.what, *((a.value and a.value // TILE,) if a.what == SMALLER else (a.value, a.basis)), a.addresses,
         *(b.address for b in a.blocks))
        for a in verdict.advice
    ]  # fmt: skip
    held = sum(one.buffers * one.per_bank for one in verdict.holders)
    return (
        verdict[:6], verdict.held, held, verdict.wall and verdict.wall[:4],
        [piece[:4] for piece in verdict.pieces], advice, verdict.unknown,
    )  # fmt: skip


def bases_of_smaller(verdicts: Iterable[Verdict | None]) -> list[str]:
    """The confidence of each piece of advice to allocate less; exact only if the pages of a shape are known."""
    return [a.basis for verdict in verdicts if verdict is not None for a in verdict.advice if a.what == SMALLER]


@pytest.mark.parametrize("board", ["n150", "n300", "p150"])
def test_failures_are_explained_as_the_agent_would(board: str, folder: Path, load: Import) -> None:
    """Each with the account at its time: from the agent that tracked it, and from ttnn's own record."""
    path = folder / "failing.py"
    path.write_text(FAILING.replace("PROGRAMS", repr(str(ROOT / "tests" / "programs"))))
    into = folder / "recorded"
    seen: list[Verdict | None] = []
    options = "--into", str(into), "--trace-region-size", "1048576"

    def look(time: float, process: Process, event: Failed) -> None:
        seen.append(verdict_at(event, process))

    name = str(path.with_suffix(""))
    with watched("3.12", name, board, folder, *options, failure_observer=look) as (collector, program):
        assert [told["what"] for told in program.records()] == ["captured"]
        collector.drain()
    true = [essence(verdict) for verdict in seen if verdict is not None and not of_dataflow(verdict)]
    assert len(true) == 5
    assert bases_of_smaller(seen) == [AT_MOST] * 3
    for name in ("report.json", "db"):
        imported = load(into / name)
        assert (imported.said["failures"], imported.said["anomalies"]) == (6, {})
        assert [verdict.why for verdict in imported.verdicts] == WHYS
        assert [essence(verdict) for verdict in imported.verdicts if not of_dataflow(verdict)] == true
        assert bases_of_smaller(imported.verdicts) == [EXACT, AT_MOST, EXACT], "one buffer is recorded without a shape"
        dataflow = imported.verdicts[3]  # its own parts are unknown, but the buffer in the way is known
        assert of_dataflow(dataflow)
        assert dataflow.wall is not None
        assert (dataflow.wall[:4], dataflow.wall.tag) == (not_none(imported.verdicts[2].wall)[:4], "ttnn.empty")
        assert [verdict.tag for verdict in imported.verdicts] == [
            "ttnn.add", "ttnn.empty", "ttnn.add", "ttnn.relu", "ttnn.slice", "ttnn.empty",
        ]  # fmt: skip
        lines = [verdict.line.rpartition(" ")[2] for verdict in imported.verdicts if verdict.line]
        assert lines == ["grow", "new", "<lambda>", "<lambda>", "<lambda>", "new"]
        own = imported.verdicts[4]  # requests that an operation itself refuses, with the account of that moment
        assert isinstance(own.failure, TooLittleL1)
        assert (own.failure.operation, own.unknown) == ("ttnn.slice", ())
        assert own.wall == imported.verdicts[2].wall
        # The program that clashed left nothing; that of the first addition is cached.
        assert sum(circular_buffers(imported.source).values()) == len(imported.ledger.chips)
    out = folder / "report.recorded.out"
    shown = ttmem("explain", str(out), folder=folder)
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.startswith("out of memory: ")
    assert "report.json" in shown.stdout
    assert "ttmem explain: 6 failures, 5 not shown (--all shows them); out of memory: " in shown.stdout


@pytest.mark.parametrize("by", ["op", "line", "shape", "kind", "program", "stack"])
def test_what_is_live_put_together(by: str, folder: Path) -> None:
    """For each breakdown, the bytes by pool are those of the snapshot, and the keys are those of the real report."""
    data = Path(__file__).parent.parent / "data" / "imports" / "n300_report.json"
    assert ttmem("import", str(data), "-o", "out.ttmem", folder=folder).returncode == 0
    snapshot = json.loads(ttmem("replay", "out.ttmem", "--json", "--at", "end", folder=folder).stdout)
    memories = [chip["memory"] for chip in snapshot["chips"]]
    used = {
        "dram": sum(memory["dram"]["used"] for memory in memories),
        "l1_buffers": sum(memory["l1"]["buffers"] for memory in memories),
        "programs": sum(memory["l1"]["cb"]["held"] for memory in memories),
    }
    found = json.loads(ttmem("replay", "out.ttmem", "--by", by, "--json", "--at", "end", folder=folder).stdout)
    assert found["by"] == by
    assert {pool["pool"]: pool["bytes"] for pool in found["pools"]} == used
    assert {pool["pool"]: sum(row["bytes"] for row in pool["rows"]) for pool in found["pools"]} == used
    keys = {row[by] for pool in found["pools"] for row in pool["rows"]}
    add = "/project/ttnn_import.py:41 workload"
    expected = {
        "op": "ttnn.add", "line": add, "shape": "[1, 1, 256, 256] bfloat16 tile", "kind": "cb",
        "program": "pid ? program 1 ttnn.add",
        "stack": f"{add}\n/project/ttnn_import.py:83 main\n/project/ttnn_import.py:97 <module>",
    }  # fmt: skip
    assert expected[by] in keys
    shown = ttmem("replay", "out.ttmem", "--by", by, "--at", "end", folder=folder)
    assert shown.returncode == 0, shown.stderr
    if by == "stack":
        first = next(line for line in shown.stdout.splitlines() if line.endswith(add))
        assert f"\n{'':{first.index(add)}}/project/ttnn_import.py:83 main\n" in shown.stdout
    nothing = ttmem("replay", "out.ttmem", "--by", by, "--at", "1", folder=folder)
    assert (nothing.returncode, "1 is outside the recording" in nothing.stderr) == (1, True)
    assert ttmem("replay", "out.ttmem", "--by", by, "--peaks", folder=folder).returncode == 2


@pytest.mark.parametrize(
    ("content", "options", "code", "words"),
    [
        ("[{", [], 1, "file: the file is cut off: it ends inside a value, at character 2"),
        ("[]", [], 1, "file: nothing in it touches a device; a capture sees only the thread that began it"),
        (None, [], 1, "file: No such file or directory"),
        (
            "[]",
            ["-o", "file"],
            1,
            "cannot write file: ttmem did not write it: it begins with '[]' and is not a recording",
        ),
        ("[]", ["--board", "x9"], 2, "there is no 'x9'; choose from"),
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
    failed = ttmem("import", str(data), "-o", "nowhere/out.ttmem", folder=folder)
    assert (failed.returncode, failed.stderr) == (
        1, "ttmem import: cannot write nowhere/out.ttmem: No such file or directory\n"
    )  # fmt: skip
    piped = subprocess.run(
        f"cat {data} | {sys.executable} -m ttmem import /dev/stdin -o out.ttmem",
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
    assert not list(folder.glob("*.ttmem"))
