# SPDX-License-Identifier: Apache-2.0
"""Growing and held allocations by cause: the search in a ledger with an injected clock, and the text."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Any

import pytest

from tests.schema_conformance import problems
from tests.support import StoppedClock, api_over
from ttmem.account.entities import Source
from ttmem.account.ledger import Ledger
from ttmem.account.state import Limits
from ttmem.documents import leaks
from ttmem.documents.leak_baseline import Baseline, baseline_of, compared
from ttmem.documents.leaks import LISTED, ByAge, LeakFinder
from ttmem.documents.leaks import Request as LeakRequest
from ttmem.model import schema
from ttmem.model.events import (
    Allocated,
    DeviceOpened,
    Event,
    Extra,
    Freed,
    Lost,
    PhaseBegan,
    PhaseEnded,
    ProcessExited,
    Sees,
)
from ttmem.model.identity import ChipInfo, ProcessInfo
from ttmem.model.kinds import Confidence, Kind
from ttmem.server.http_server import HttpError, Request
from ttmem.show.chip_table import Names
from ttmem.show.leaks_text import render
from ttmem.show.text import Style

KIB, MIB = 1 << 10, 1 << 20
NOW = 1000.0


def leaks_text(found: Any, width: int = 140, **options: bool) -> str:
    """The text, without a snapshot that has names for the chips."""
    style = Style(width=width)
    return render(found, Names([], style, {}), style, **options)


class Scene:
    """A ledger with events that happened a given number of seconds ago."""

    def __init__(self, limits: Limits = Limits()) -> None:
        self.ledger = Ledger(limits)

    def process(self, pid: int = 42, *, ago: float = NOW, user_id: int = 1000, source: str = "client") -> Source:
        confidence = Confidence.EXACT if source == "agent" else Confidence.REPORTED
        return self.ledger.source(NOW - ago, ProcessInfo(pid, 7, user_id, "python"), source, confidence)

    def tell(self, source: Source, ago: float, *events: Event) -> None:
        for event in events:
            self.ledger.apply(NOW - ago, source, event)

    def find(self, tracked: float = NOW, may_see: Any = lambda user_id: True, **request: Any) -> Any:
        wanted = LeakRequest(**request)
        finder = LeakFinder(NOW, ByAge(NOW, wanted.since), wanted, may_see=may_see)
        for item in self.ledger.allocations():
            finder.add(item)
        for process in reversed(self.ledger.departed):
            finder.add_dead(process)
        found = finder.result(self.ledger.processes.values(), time="now", since="then", tracked=tracked)
        assert json.loads(json.dumps(found)) == found
        assert problems(found, schema.Leaks) == []
        return found

    def leak(self, source: Source, size: int = 4096, *, kind: Kind = Kind.DRAM, count: int = 10, **extra: Any) -> None:
        """Something that grows by one in 100 s."""
        for number in range(count):
            ago = NOW - (number + 0.5) * NOW / count
            self.tell(source, ago, buffer((0x1000 + number) * size, size, kind, **extra))


@pytest.fixture
def scene() -> Scene:
    return Scene()


def buffer(address: int, size: int, kind: Kind = Kind.DRAM, device: int = 0, **extra: Any) -> Allocated:
    return Allocated(device, kind, address, size, 0, 0, Extra(**extra) if extra else None)


def totals(found: Any) -> tuple[int, int]:
    return found["count"], found["bytes"]


def pools(**amounts: tuple[int, int]) -> Any:
    """The part of a document about allocations: their number, and number and bytes for each pool."""
    return {
        "count": sum(count for count, _ in amounts.values()),
        "pools": {
            pool: {"count": count, "bytes": size, "per_chip": size, "chips": 1}
            for pool, (count, size) in amounts.items()
        },
    }


def in_pools(found: Any) -> Any:
    """The same part of a row with more keys."""
    return {key: found[key] for key in ("count", "pools")}


def test_nothing(scene: Scene) -> None:
    found = scene.find()
    nothing = {**pools(), "oldest_s": None, "youngest_s": None}
    assert found == {
        "schema": "ttmem.leaks/1",
        "time": "now",
        "since": "then",
        "tracked_s": 1000.0,
        "judged": [],
        "verdict": {"leak": False, "groups": 0, **pools()},
        "losses": {"dropped": 0, "unknown_free": 0},
        "uncertain": [],
        "doubts": ["no process has reported anything yet"],
        "growing": [],
        "held": [],
        "left_out": {"groups": 0, **pools()},
        "ignored": 0,
        "program_cache": {**nothing, "likely": nothing},
        "trace": nothing,
        "system": nothing,
        "dead_process": [],
    }
    assert leaks_text(found).splitlines() == [
        "Tracked since then, for 16 min.",
        "",
        "GROWING: nothing",
        "",
        "HELD: nothing else",
        "",
        "Program cache: nothing",
        "Traces: nothing",
        "Runtime: nothing",
        "",
        "Doubt: no process has reported anything yet",
        "verdict: no leak",
    ]


def test_what_grows_is_a_leak_and_what_was_made_once_is_held(scene: Scene) -> None:
    source = scene.process()
    for number in range(12):
        scene.tell(source, 950, buffer(0x1000 * (number + 1), MIB, tag="weights"))
    scene.leak(source, tag="ttnn.add", shape="[32, 32]", stack="/a/b/model.py:42 forward")
    found = scene.find()
    assert found["verdict"] == {"leak": True, "groups": 1, **pools(dram=(10, 40960))}
    (row,) = found["growing"]
    assert (row["line"], row["op"], row["shape"], row["size"]) == (
        "/a/b/model.py:42 forward", "ttnn.add", "[32, 32]", None,
    )  # fmt: skip
    assert (row["oldest_s"], row["youngest_s"], row["above_baseline"]) == (950.0, 50.0, None)
    assert row["growth"] == {
        "since": 0.0, "count": 10, "per_step": None, "per_minute": pytest.approx(0.6),
        "bytes_per_minute": pytest.approx(0.6 * 4096), "history": None,
    }  # fmt: skip
    assert [(row["op"], row["count"], row["growth"]) for row in found["held"]] == [("weights", 12, None)]
    assert found["judged"] == [{"pid": 42, "by": "time", "name": None, "steps": 64, "from": 0.0, "until": NOW}]
    assert found["doubts"] == []


def test_what_is_made_while_the_answer_is_gathered_has_no_age(scene: Scene) -> None:
    scene.tell(scene.process(), -5, buffer(0x3000, 1))
    (row,) = scene.find()["held"]
    assert (row["oldest_s"], row["youngest_s"]) == (0.0, 0.0)


def test_since_leaves_out_what_was_made_before(scene: Scene) -> None:
    source = scene.process()
    scene.leak(source)
    scene.tell(source, 100, buffer(0x2000, 10))
    scene.tell(source, 99, buffer(0x3000, 20))
    found = scene.find(since=NOW - 99)
    assert [(row["size"], row["count"]) for row in found["held"]] == [(4096, 1), (20, 1)]
    assert (found["judged"][0]["from"], found["judged"][0]["until"]) == (NOW - 99, NOW)
    assert scene.find(since=NOW)["doubts"] == [], "nothing is judged"
    scene.tell(source, 0, buffer(0x4000, 20))
    assert scene.find(since=NOW)["doubts"] == ["nothing was repeated often enough to judge growth (pid 42)"]


def test_ignored_allocations_are_counted(scene: Scene) -> None:
    source = scene.process()
    scene.leak(source, stack="/a/kv_cache.py:3 append", tag="ttnn.concat")
    scene.tell(source, 100, buffer(0x2000, 10, tag="ttnn.add"))
    for pattern in ("kv_cache", "*kv_cache.py:*", "ttnn.concat", "ttnn.c*"):
        found = scene.find(ignore=("nothing like it", pattern))
        assert (found["verdict"]["leak"], found["ignored"], len(found["held"])) == (False, 10, 1)
        assert "Ignored: 10 allocations" in leaks_text(found)


def test_growth_of_a_process_that_was_seen_for_a_short_time_is_doubtful(scene: Scene) -> None:
    source = scene.process(ago=20)
    for number in range(40):
        scene.tell(source, 20 - number / 2, buffer(0x1000 * (number + 1), 4096))
    found = scene.find()
    assert found["verdict"]["leak"] is True
    assert found["doubts"] == ["growth was judged over 20.0 s only, in which a model that is being loaded grows too"]


def test_what_the_cache_a_trace_or_the_runtime_holds_is_no_leak(scene: Scene) -> None:
    source = scene.process()
    scene.tell(source, 500, buffer(0x1000, 5, system=True), Allocated(0, Kind.DISPATCH_KERNEL, 1, 6))
    scene.tell(source, 400, Allocated(0, Kind.CB, 0x100, 10, 3), Allocated(0, Kind.KERNEL, 0x9, 20, 3))
    scene.tell(source, 300, buffer(0x2000, 40, binary=True), buffer(0x3000, 80, Kind.L1_SMALL))
    scene.tell(source, 200, buffer(0x4000, 1000, Kind.TRACE))
    found = scene.find()
    assert found["verdict"]["leak"] is False
    assert found["system"] == {**pools(dram=(1, 5), system=(1, 6)), "oldest_s": 500.0, "youngest_s": 500.0}
    assert in_pools(found["program_cache"]) == pools(dram=(1, 40), l1_buffers=(1, 80), programs=(2, 30))
    assert (found["program_cache"]["oldest_s"], found["program_cache"]["youngest_s"]) == (400.0, 300.0)
    assert in_pools(found["program_cache"]["likely"]) == pools(l1_buffers=(1, 80))
    assert in_pools(found["trace"]) == pools(dram=(1, 1000))
    assert leaks_text(found).splitlines()[1:] == [
        "",
        "GROWING: nothing",
        "",
        "HELD: nothing else",
        "",
        "Program cache: 40 B of DRAM in 1 allocation, 80 B of L1 (sum over all cores) in 1 allocation, 30 B of "
        "programs that use L1 in turn (sum over",
        "  all cores) in 2 allocations, oldest 6 min; freed by device.clear_program_cache()",
        "  of these, likely in the cache: 80 B of L1 (sum over all cores) in 1 allocation",
        "Traces: 1000 B of DRAM in 1 allocation, oldest 3 min; allocated at capture, freed by ttnn.release_trace()",
        "Runtime: 5 B of DRAM in 1 allocation, 6 B of the runtime's own L1 (sum over all cores) in 1 allocation, "
        "oldest 8 min; held while a device is",
        "  open",
        "",
        "verdict: no leak",
    ]


def test_what_is_freed_or_set_aside_does_not_count_and_what_is_shared_adds_nothing(scene: Scene) -> None:
    source = scene.process()
    scene.tell(source, 500, buffer(0x1000, 100), buffer(0x2000, 200), buffer(0x3000, 400, Kind.L1))
    scene.tell(source, 500, Allocated(0, Kind.CB, 0x3000, 400, 3, 0, Extra(shared=True)))
    scene.tell(scene.process(source="agent"), 450, buffer(0x1000, 128))  # counts for DRAM from now on
    found = scene.find()
    assert [(group["kind"], *totals(group)) for group in found["held"]] == [("l1", 1, 400), ("dram", 1, 128)]
    assert in_pools(found["program_cache"]) == pools(programs=(1, 0))
    finder, (*_, allocation) = LeakFinder(NOW, ByAge(NOW, 0.0)), scene.ledger.allocations()
    scene.tell(scene.process(source="agent"), 0, Freed(0, Kind.DRAM, 0x1000))
    finder.add(allocation)
    assert finder.result([], time="", since="", tracked=NOW)["held"] == []


def test_groups_have_a_process_chips_a_kind_and_an_origin(scene: Scene) -> None:
    """A shape or, if that is not known, a size is a part of the origin."""
    one, other = scene.process(1), scene.process(2)
    scene.tell(one, 900, DeviceOpened(0, ChipInfo("77")), DeviceOpened(1, ChipInfo("88")))
    scene.tell(one, 800, buffer(0x1000, 100, tag="add", shape="[2]"), buffer(0x2000, 300, tag="add", shape="[2]"))
    scene.tell(one, 700, buffer(0x3000, 100, device=1, tag="add"), buffer(0x1000, 30, Kind.L1, tag="add"))
    scene.tell(one, 600, buffer(0x4000, 20), buffer(0x5000, 20), buffer(0x6000, 21))
    scene.tell(one, 600, buffer(0x7000, 22, stack="a.py:1 f\nb.py:2 g"), buffer(0x8000, 22, stack="a.py:1 f\nb.py:3 g"))
    scene.tell(other, 500, buffer(0x1000, 20))
    rows = [
        (g["pid"], *g["chips"], g["kind"], g["op"], g["line"], g["shape"], g["size"], *totals(g), g["oldest_s"])
        for g in scene.find()["held"]
    ]
    assert rows == [
        (1, "77", "dram", "add", None, "[2]", None, 2, 400, 800.0),
        (1, "88", "dram", "add", None, None, 100, 1, 100, 700.0),
        (1, "77", "dram", None, None, None, 20, 2, 40, 600.0),
        (1, "77", "l1", "add", None, None, 30, 1, 30, 700.0),
        (1, "77", "dram", None, "a.py:1 f", None, 22, 1, 22, 600.0),
        (1, "77", "dram", None, "a.py:1 f", None, 22, 1, 22, 600.0),
        (1, "77", "dram", None, None, None, 21, 1, 21, 600.0),
        (2, "assumed:0", "dram", None, None, None, 20, 1, 20, 500.0),
    ]
    scene.tell(other, 650, buffer(0x2000, 21))
    assert [group["pid"] for group in scene.find()["held"] if group["bytes"] == 21] == [2, 1]  # the older first
    assert {group["pid"] for group in scene.find(pids=frozenset({2, 3}))["held"]} == {2}
    assert {tuple(group["chips"]) for group in scene.find(chip="88")["held"]} == {("88",)}


def test_texts_of_others_are_not_shown_and_group_nothing(scene: Scene) -> None:
    mine, others = scene.process(1, user_id=1000), scene.process(2, user_id=2000)
    for source in (mine, others):
        scene.tell(source, 500, buffer(0x1000, 100, tag="secret a", stack="secret.py:1 f"))
        scene.tell(source, 500, buffer(0x2000, 100, tag="secret b", shape="[secret]"))
        scene.tell(source, 500, buffer(0x3000, 1, Kind.TRACE, tag="secret c"))
    dying = scene.process(3, user_id=2000)
    scene.tell(dying, 400, buffer(0x1000, 10, tag="secret d"), ProcessExited())
    mine_only: Any = {"may_see": lambda user_id: user_id == 1000}
    found = scene.find(**mine_only)
    assert sorted((g["pid"], g["op"] or "", g["count"]) for g in found["held"]) == [
        (1, "secret a", 1),
        (1, "secret b", 1),
        (2, "", 2),
    ]
    assert json.dumps(found).count("secret") == 5  # a line is also in its stack
    assert "secret d" in json.dumps(scene.find())
    assert scene.find(**mine_only, ignore=("secret",))["ignored"] == 2, "a pattern does not find hidden texts"


@pytest.mark.parametrize(
    ("births", "grows"),
    [
        ([50 + 100 * number for number in range(10)], True),
        ([900] * 40 + [240, 180, 120, 60, 1], True),  # a batch of the same size, then a leak
        ([900] * 40, False),  # a batch
        ([900] * 39 + [100], False),  # a batch and a straggler
        ([900, 700, 500, 300], False),  # long ago, and then no more
        ([2000, 1700, 1400, 1100], False),  # an agent reports times before the process was seen
        ([120, 90, 60, 30, 10], False),  # only lately
    ],
)
def test_growth_needs_births_until_now(scene: Scene, births: list[float], grows: bool) -> None:
    source = scene.process(ago=1000)
    for number, ago in enumerate(births):
        scene.tell(source, ago, buffer(0x1000 * (number + 1), 4096))
    assert scene.find()["verdict"]["leak"] is grows


def test_the_dead_are_told_of_and_not_blamed(scene: Scene) -> None:
    killed, clean = scene.process(7), scene.process(8)
    scene.tell(killed, 900, buffer(0x1000, 4096, tag="weights"), buffer(0x2000, 10, Kind.L1, device=1))
    scene.tell(scene.process(7, source="agent"), 800, buffer(0x1000, 5000))
    scene.tell(clean, 900, buffer(0x1000, 4096), Freed(0, Kind.DRAM, 0x1000))
    scene.tell(clean, 200, ProcessExited())
    scene.tell(killed, 150, ProcessExited())
    found = scene.find()
    assert found["verdict"]["leak"] is False
    (dead,) = found["dead_process"]
    assert (dead["pid"], dead["name"], dead["exited"], dead["ago_s"]) == (7, "python", NOW - 150, 150.0)
    assert in_pools(dead) == pools(dram=(1, 5000), l1_buffers=(1, 10))
    assert [(item["size"], item["not_counted"]) for item in dead["largest"]] == [(5000, []), (10, [])]
    line = (
        "Dead process: pid 7 python died 2 min ago, holding 4.9 KiB of DRAM in 1 allocation, 10 B of L1 (sum over all "
        "cores) in 1 allocation; freed at its exit"
    )
    assert line in leaks_text(found, 200).splitlines()
    assert [in_pools(one) for one in scene.find(chip="assumed:1")["dead_process"]] == [pools(l1_buffers=(1, 10))]
    assert scene.find(pids=frozenset({8}))["dead_process"] == []


def test_many_dead_are_cut_short_and_the_last_comes_first(scene: Scene) -> None:
    for pid in range(1, 9):
        source = scene.process(pid)
        scene.tell(source, 500, buffer(0x1000, 10))
        scene.tell(source, 100 - pid, ProcessExited())
    found = scene.find()
    assert [one["pid"] for one in found["dead_process"]] == [8, 7, 6, 5, 4, 3, 2, 1]
    lines = [line for line in leaks_text(found).splitlines() if line.startswith("Dead process")]
    assert (len(lines), lines[-1]) == (6, "Dead processes: 3 more")


def test_a_process_that_dies_while_allocations_are_gathered_leaks_nothing(scene: Scene) -> None:
    source = scene.process()
    scene.tell(source, 500, buffer(0x1000, 10))
    finder, allocations = LeakFinder(NOW, ByAge(NOW, 0.0)), list(scene.ledger.allocations())
    scene.tell(source, 0, ProcessExited())
    for allocation in allocations:
        finder.add(allocation)
    assert finder.result([], time="", since="", tracked=NOW)["held"] == []


def test_the_text_of_leaks(scene: Scene) -> None:
    source = scene.process()
    stack = "/venv/site-packages/ttnn/x.py:1 call\n/src/llama/model.py:12 zeros\n/src/llama/model.py:42 forward"
    scene.leak(source, 4 * MIB, tag="ttnn.add", stack=stack, shape="[32, 32] bfloat16")
    scene.leak(source, KIB, kind=Kind.L1)
    scene.tell(source, 300, buffer(0x9000, 512 * KIB, Kind.L1))
    for number in (1, 2):
        scene.tell(source, 990, buffer(0x9000 * number, number * MIB, stack=stack, shape=f"[{number}]"))
    assert leaks_text(scene.find(), 100).splitlines() == [
        "Tracked since then, for 16 min.",
        "Growth is judged over 16 min.",
        "All of it: pid 42 python, chip assumed:0.",
        "",
        "GROWING",
        "  RATE                   SIZE   COUNT  KIND",
        "  +0.6 per minute    40.0 MiB      10  dram",
        "      llama/model.py:12 zeros, called at :42 forward, ttnn.add, [32, 32] bfloat16",
        "  +0.6 per minute    10.0 KiB      10  l1",
        "      1.0 KiB each",
        "",
        "HELD: made and kept, but not growing",
        "        SIZE   COUNT  OLDEST  KIND   WHAT",
        "     3.0 MiB       2  16 min  dram   llama/model.py:12 zeros, called at :42 forward, 2 shapes",
        "   512.0 KiB       1   5 min  l1     512.0 KiB each",
        "",
        "Program cache: nothing",
        "Traces: nothing",
        "Runtime: nothing",
        "",
        "verdict: leak: +0.6 per minute at llama/model.py:12 zeros, called at :42 forward, ttnn.add, [32, 32]",
        "  bfloat16; 40.0 MiB of DRAM in 10 buffers so far; and 1 more group",
    ]
    only = leaks_text(scene.find(), 100, only_growing=True, recorded=True).splitlines()
    assert only[0] == "Growth is judged over 16 min."
    assert [line for line in only if line.startswith(("GROWING", "HELD", "Traces", "verdict"))] == [
        "GROWING",
        "verdict: leak: +0.6 per minute at llama/model.py:12 zeros, called at :42 forward, ttnn.add, [32, 32]",
    ]


def test_rows_of_several_processes_and_chips_name_them(scene: Scene) -> None:
    for pid in (1, 2):
        scene.leak(scene.process(pid), pid * KIB, device=pid)
    lines = leaks_text(scene.find()).splitlines()
    assert not any(line.startswith("All of it") for line in lines)
    assert "      2.0 KiB each; pid 2 python, chip assumed:2" in lines
    assert "      1.0 KiB each; pid 1 python, chip assumed:1" in lines
    assert any(line.startswith("  Lines are known if the program is started by `ttmem run --stacks`") for line in lines)


def test_a_tag_cannot_write_a_verdict(scene: Scene) -> None:
    scene.leak(scene.process(), KIB, tag="a\nverdict: no leak\x1b[2J", stack="x.py:1 f\x1b[2J\nverdict: no leak")
    lines = leaks_text(scene.find(), 300).splitlines()
    assert [line[:13] for line in lines if line.startswith("verdict")] == ["verdict: leak"]
    assert "\x1b" not in "".join(lines)


def test_the_largest_groups_are_listed_and_the_rest_is_counted(scene: Scene) -> None:
    count = LISTED + 7
    source = scene.process()
    scene.tell(source, 100, *(buffer(0x1000 * size, size) for size in range(1, count + 1)))
    found = scene.find()
    assert found["verdict"]["leak"] is False
    assert [group["size"] for group in found["held"]] == list(range(count, 7, -1))
    assert found["left_out"] == {"groups": 7, **pools(dram=(7, sum(range(1, 8))))}
    lines = leaks_text(found).splitlines()
    assert f"  and {count - 10:,} more groups" in lines
    assert len([line for line in lines if line.endswith(" each")]) == 10
    for size in range(1, 23):
        scene.leak(source, 100_000 + size)
    assert "  and 2 more" in leaks_text(scene.find()).splitlines()


def test_groups_beyond_the_cap_are_one(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leaks, "_MAX_GROUPS", 3)
    scene.tell(scene.process(), 100, *(buffer(0x1000 + n, size) for n, size in enumerate((1, 2, 3, 4, 5, 3))))
    found = scene.find()
    assert [(group["size"], *totals(group)) for group in found["held"]] == [
        (None, 2, 9), (3, 2, 6), (2, 1, 2), (1, 1, 1),
    ]  # fmt: skip
    assert "of other sizes" in leaks_text(found)
    assert scene.find(ignore=("x",))["ignored"] == 0


def test_groups_are_judged_in_slices(scene: Scene) -> None:
    """The server judges them one by one; the result is the same."""
    scene.leak(scene.process())
    scene.tell(scene.process(), 100, *(buffer(0x1000 * size, size) for size in range(1, 9)))
    finder = LeakFinder(NOW, ByAge(NOW, 0.0))
    for item in scene.ledger.allocations():
        finder.add(item)
    judging = finder.judge()
    assert sum(1 for _ in zip(range(4), judging)) == 4
    found = finder.result(scene.ledger.processes.values(), time="now", since="then", tracked=NOW)
    assert found == scene.find()


def test_doubts(scene: Scene) -> None:
    lossy, other, dead = scene.process(1), scene.process(2), scene.process(3)
    scene.tell(lossy, 500, Lost(1234), Freed(0, Kind.DRAM, 0x1000), buffer(0x2000, 10))
    scene.tell(other, 500, buffer(0x2000, 10), Sees(1, "no kernels:\nthis wheel hides them"))
    scene.tell(dead, 500, Lost(9), ProcessExited())
    found = scene.find()
    assert found["losses"] == {"dropped": 1234, "unknown_free": 1}
    assert found["doubts"] == [
        "1,234 events were lost: a free or an allocation may have been missed",
        "1 frees were of unreported allocations: reports, and other frees with them, may have been missed",
        "no kernels: this wheel hides them",
    ]
    lines = leaks_text(found).splitlines()
    assert lines[-4:] == [*(f"Doubt: {doubt}" for doubt in found["doubts"]), "verdict: no leak"]
    assert scene.find(pids=frozenset({2}))["losses"] == {"dropped": 0, "unknown_free": 0}
    assert scene.find(pids=frozenset({2}))["doubts"] == ["no kernels: this wheel hides them"]


def test_a_process_nobody_can_see_has_no_pid(scene: Scene) -> None:
    source = scene.ledger.source(0.0, ProcessInfo(0, None, connection=3), "legacy", Confidence.REPORTED)
    scene.tell(source, 100, buffer(0x1000, 10))
    found = scene.find()
    assert found["held"][0]["pid"] is None
    assert "pid unknown" in leaks_text(found)


def ask(scene: Scene, user_id: int | None, **query: str) -> Any:
    """What the server answers."""
    api = api_over(scene.ledger, {"since": 400.0}, clock=StoppedClock(NOW))
    answer = asyncio.run(api.handle(Request("GET", "/leaks", query, user_id)))
    assert isinstance(answer.body, bytes)
    return json.loads(answer.body)


def test_the_route_shows_readers_the_texts_that_they_may_see(scene: Scene) -> None:
    """Only their own, or all for root."""
    scene.leak(scene.process(user_id=1000), tag="secret")
    for user_id, op in ((1000, "secret"), (0, "secret"), (2000, None), (None, None)):
        found = ask(scene, user_id)
        assert [group["op"] for group in found["growing"]] == [op]
        assert (found["verdict"]["count"], found["tracked_s"]) == (10, 600.0)
        assert (found["time"], found["since"]) == ("1970-01-01T00:16:40.000Z", "1970-01-01T00:06:40.000Z")
        assert (ask(scene, user_id, ignore="x\n\nsecr*")["verdict"]["leak"]) is (op is None)
    assert ask(scene, 0, pid="42", chip="assumed:0", ignore="x\n\ny")["verdict"]["count"] == 10


def test_the_route_takes_a_time_or_a_phase(scene: Scene) -> None:
    source, other = scene.process(), scene.process(43, user_id=2000)
    scene.leak(source)
    for ident, ago in ((1, 310.0), (2, 210.0)):
        scene.tell(source, ago, PhaseBegan(ident, "step"), PhaseBegan(ident + 10, "layer", ident))
        scene.tell(source, ago - 1, PhaseEnded(ident + 10), PhaseEnded(ident))
    scene.tell(source, 110, PhaseBegan(3, "request"))
    scene.tell(other, 10, PhaseBegan(1, "step"), buffer(0x5000, 10))
    for since, count in (
        ("690", 3),
        ("phase:step", 2),
        ("phase:step/layer", 2),
        ("phase:layer", 2),
        ("phase:request", 1),
        ("1e6", 0),
    ):
        found = ask(scene, 1000, since=since, pid="42")
        assert sum(row["count"] for row in (*found["growing"], *found["held"])) == count, since
    assert ask(scene, 1000, since="phase:step")["held"][0]["count"] == 2, "phases of others are hidden"
    for since in ("phase:nothing", "phase:", "soon", "nan", "-1", "1e400"):
        with pytest.raises(HttpError, match=r"there is no phase|since is seconds since 1970"):
            ask(scene, 1000, since=since)
    with pytest.raises(HttpError, match="there is no phase"):
        ask(scene, 3000, since="phase:step")


def test_a_leak_is_what_there_is_more_of_than_in_a_baseline(scene: Scene) -> None:
    source = scene.process(1)
    scene.leak(source, tag="grows")
    scene.tell(source, 900, buffer(1, 100, tag="weights"), buffer(2, 100, tag="weights"))
    before = baseline_of(scene.find())
    same = compared(scene.find(), before)
    assert same["verdict"] == {"leak": False, "groups": 0, **pools()}
    assert "ABOVE THE BASELINE: nothing" in leaks_text(same)
    scene.tell(source, 0, ProcessExited())
    again = scene.process(2)
    scene.leak(again, tag="grows")
    scene.tell(again, 900, *(buffer(n, 100, tag="weights") for n in (1, 2, 3)), buffer(4, 1, tag="new"))
    found = compared(scene.find(), before)
    assert [(row["op"], row["count"], row["above_baseline"]) for row in found["growing"]] == [
        ("weights", 3, 1), ("new", 1, 1),
    ]  # fmt: skip
    assert [(row["op"], row["above_baseline"]) for row in found["held"]] == [("grows", 0)]
    assert found["verdict"] == {"leak": True, "groups": 2, **pools(dram=(4, 301))}
    assert problems(found, schema.Leaks) == []
    text = leaks_text(found)
    assert "ABOVE THE BASELINE\n" in text
    assert (
        "verdict: leak: +1 above the baseline at weights, 100 B each; 300 B of DRAM in 3 buffers so far; and 1" in text
    )


def test_a_baseline_counts_over_all_processes(scene: Scene) -> None:
    scene.tell(scene.process(1), 900, buffer(1, 100, tag="weights"))
    before = baseline_of(scene.find())
    scene.tell(scene.process(2), 900, buffer(1, 100, tag="weights"))
    assert [row["above_baseline"] for row in compared(scene.find(), before)["growing"]] == [1]


def test_a_baseline_that_is_not_complete_is_a_doubt(scene: Scene) -> None:
    scene.tell(scene.process(), 100, *(buffer(0x1000 * size, size) for size in range(1, LISTED + 3)))
    found = scene.find()
    assert compared(found, baseline_of(found))["doubts"] == [
        "the baseline does not list 2 small groups: they are new here"
    ]


def test_phases_that_are_not_kept_are_no_doubt_about_frees() -> None:
    scene = Scene(Limits(phase_paths=1))
    source = scene.process()
    for ident in (1, 2, 3):
        scene.tell(source, 500, PhaseBegan(ident, f"token {ident}"))
        scene.tell(source, 500, PhaseEnded(ident))
    assert source.process.phases.left_out == 2
    assert scene.find()["doubts"] == []


def test_a_leak_on_a_mesh_is_one_row_with_its_chips(scene: Scene) -> None:
    source = scene.process()
    on_mesh = [buffer(0x1000 * n, 512, tag="ttnn.add")._replace(device=(0, 1, 2)) for n in (1, 2)]
    scene.tell(source, 200, *on_mesh, buffer(0x9000, 64, tag="ttnn.add")._replace(device=1))
    found = scene.find()
    mesh, alone = found["held"]
    assert (mesh["chips"], mesh["other_chips"]) == (["assumed:0", "assumed:1", "assumed:2"], [])
    assert (mesh["count"], mesh["bytes"], mesh["per_chip"]) == (2, 3 * 1024, 1024)
    assert (alone["chips"], alone["count"], alone["bytes"], alone["per_chip"]) == (["assumed:1"], 1, 64, 64)
    amounts = {"count": 3, "bytes": 3 * 1024 + 64, "per_chip": 1024 + 64, "chips": 3}
    assert compared(found, Baseline(Counter(), 0))["verdict"] == {
        "leak": True, "groups": 2, "count": 3, "pools": {"dram": amounts},
    }  # fmt: skip
    lines = leaks_text(found).splitlines()
    assert "    PER CHIP   COUNT  OLDEST  KIND   WHAT" in lines
    assert [line for line in lines if "ttnn.add" in line] == [
        "     1.0 KiB       2   3 min  dram   ttnn.add, 512 B each; pid 42 python, "
        "chips assumed:0, assumed:1, assumed:2",
        "        64 B       1   3 min  dram   ttnn.add, 64 B each; pid 42 python, chip assumed:1",
    ]


def test_leaks_of_one_chip_of_a_mesh(scene: Scene) -> None:
    """With the bytes of that chip, and the other chips of the same allocations."""
    source = scene.process()
    scene.tell(source, 200, buffer(0x1000, 512, tag="ttnn.add")._replace(device=(0, 1, 2)))
    found = scene.find(chip="assumed:1")
    (row,) = found["held"]
    assert (row["chips"], row["other_chips"], row["bytes"]) == (["assumed:1"], ["assumed:0", "assumed:2"], 512)
    assert "All of it: pid 42 python, chip assumed:1 (also on chips assumed:0, assumed:2)." in leaks_text(found)
    scene.tell(source, 100, ProcessExited())
    (dead,) = scene.find()["dead_process"]
    assert in_pools(dead) == {"count": 1, "pools": {"dram": {"count": 1, "bytes": 1536, "per_chip": 512, "chips": 3}}}
    assert [item["chips"] for item in dead["largest"]] == [["assumed:0", "assumed:1", "assumed:2"]]
    (dead,) = scene.find(chip="assumed:2")["dead_process"]
    assert [item["chips"] for item in dead["largest"]] == [["assumed:2"]]
