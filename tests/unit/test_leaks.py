# SPDX-License-Identifier: Apache-2.0
"""Held allocations by cause: the search in a ledger with an injected clock, and the text."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.schema_conformance import problems
from tests.support import StoppedClock, api_over
from ttmem.account.entities import Source
from ttmem.account.ledger import Ledger
from ttmem.account.state import Limits
from ttmem.documents import leaks
from ttmem.documents.leaks import LISTED, LeakFinder
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
from ttmem.model.units import human
from ttmem.server.http_server import Request
from ttmem.show.chip_table import Names
from ttmem.show.leaks_text import render
from ttmem.show.text import Style

KIB, MIB = 1 << 10, 1 << 20
NOW = 1000.0


def leaks_text(found: Any) -> str:
    """The text, without a snapshot that has names for the chips."""
    return render(found, Names([], Style(), {}))


class Scene:
    """A ledger, told what happened how many seconds ago."""

    def __init__(self, limits: Limits = Limits()) -> None:
        self.ledger = Ledger(limits)

    def process(self, pid: int = 42, *, ago: float = NOW, user_id: int = 1000, source: str = "client") -> Source:
        confidence = Confidence.EXACT if source == "agent" else Confidence.REPORTED
        return self.ledger.source(NOW - ago, ProcessInfo(pid, 7, user_id, "python"), source, confidence)

    def tell(self, source: Source, ago: float, *events: Event) -> None:
        for event in events:
            self.ledger.apply(NOW - ago, source, event)

    def find(self, older: float = 60, tracked: float = NOW, **keywords: Any) -> Any:
        finder = LeakFinder(NOW, older, **keywords)
        for item in self.ledger.allocations():
            finder.add(item)
        for process in reversed(self.ledger.departed):
            finder.add_dead(process)
        found = finder.result(self.ledger, time="now", since="then", tracked=tracked)
        assert json.loads(json.dumps(found)) == found
        return found


@pytest.fixture
def scene() -> Scene:
    return Scene()


def buffer(address: int, size: int, kind: Kind = Kind.DRAM, device: int = 0, **extra: Any) -> Allocated:
    return Allocated(device, kind, address, size, 0, 0, Extra(**extra) if extra else None)


def totals(found: Any) -> tuple[int, int]:
    return found["count"], found["bytes"]


def pools(**amounts: tuple[int, int]) -> Any:
    """What a document has on allocations: their number, and number and bytes for each pool."""
    return {
        "count": sum(count for count, _ in amounts.values()),
        "pools": {pool: {"count": count, "bytes": size} for pool, (count, size) in amounts.items()},
    }


def in_pools(found: Any) -> Any:
    """The same part of a row that has more."""
    return {key: found[key] for key in ("count", "pools")}


def test_nothing(scene: Scene) -> None:
    found = scene.find()
    nothing = {**pools(), "oldest_s": None, "youngest_s": None}
    assert found == {
        "schema": "ttmem.leaks/1",
        "time": "now",
        "since": "then",
        "tracked_s": 1000.0,
        "older_s": 60,
        "verdict": {"leak": False, "groups": 0, **pools()},
        "losses": {"dropped": 0, "unknown_free": 0},
        "uncertain": [],
        "doubts": ["no process has reported anything yet"],
        "leaks": [],
        "left_out": {"groups": 0, **pools()},
        "young": nothing,
        "program_cache": {**nothing, "likely": nothing},
        "trace": nothing,
        "system": nothing,
        "dead_process": [],
    }
    assert leaks_text(found).splitlines() == [
        "tracking since then, for 16 min",
        "",
        "leak: nothing",
        "young, held for less than 60 s: nothing",
        "program cache: nothing",
        "trace: nothing",
        "system: nothing",
        "dead processes: none held anything when it exited",
        "",
        "doubt: no process has reported anything yet",
        "verdict: no leak",
    ]


def test_age_decides_between_leak_and_young(scene: Scene) -> None:
    source = scene.process()
    scene.tell(source, 60, buffer(0x1000, 100))
    scene.tell(source, 59.5, buffer(0x2000, 10))
    scene.tell(source, -5, buffer(0x3000, 1))  # allocated while the answer was gathered
    found = scene.find()
    assert found["verdict"] == {"leak": True, "groups": 1, **pools(dram=(1, 100))}
    assert (found["leaks"][0]["oldest_s"], found["leaks"][0]["youngest_s"]) == (60.0, 60.0)
    assert found["young"] == {**pools(dram=(2, 11)), "oldest_s": 59.5, "youngest_s": 0.0}
    assert scene.find(older=61)["verdict"]["leak"] is False
    assert in_pools(scene.find(older=0)["verdict"]) == pools(dram=(3, 111))


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
    assert problems(found, schema.Leaks) == []
    assert leaks_text(found).splitlines()[2:] == [
        "leak: nothing",
        "young, held for less than 60 s: nothing",
        "program cache: 40 B of DRAM in 1 allocation, 80 B of L1 (sum over all cores) in 1 allocation, "
        "30 B of programs that take turns in L1 (sum over all cores) in 2 allocations, oldest 6 min; "
        "device.clear_program_cache() frees it, device.disable_and_clear_program_cache() permanently",
        "  of these, likely held by the cache: 80 B of L1 (sum over all cores) in 1 allocation",
        "trace: 1000 B of DRAM in 1 allocation, oldest 3 min; allocated at capture, not at replay; "
        "ttnn.release_trace() frees it",
        "system: 5 B of DRAM in 1 allocation, 6 B of the runtime's own L1 (sum over all cores) in 1 allocation, "
        "oldest 8 min; the runtime's own while a device is open",
        "dead processes: none held anything when it exited",
        "",
        "verdict: no leak",
    ]


def test_what_is_freed_or_set_aside_does_not_count_and_what_is_shared_adds_nothing(scene: Scene) -> None:
    source = scene.process()
    scene.tell(source, 500, buffer(0x1000, 100), buffer(0x2000, 200), buffer(0x3000, 400, Kind.L1))
    scene.tell(source, 500, Allocated(0, Kind.CB, 0x3000, 400, 3, 0, Extra(shared=True)))
    scene.tell(scene.process(source="agent"), 450, buffer(0x1000, 128))  # believed about DRAM from now on
    found = scene.find()
    assert [(group["kind"], *totals(group)) for group in found["leaks"]] == [("l1", 1, 400), ("dram", 1, 128)]
    assert in_pools(found["program_cache"]) == pools(programs=(1, 0))
    finder, (*_, allocation) = LeakFinder(NOW), scene.ledger.allocations()
    scene.tell(scene.process(source="agent"), 0, Freed(0, Kind.DRAM, 0x1000))
    finder.add(allocation)
    assert in_pools(finder.result(scene.ledger, time="", since="", tracked=NOW)["verdict"]) == pools()


def test_leaks_are_grouped_by_process_chip_kind_and_tag_or_size(scene: Scene) -> None:
    one, other = scene.process(1), scene.process(2)
    scene.tell(one, 900, DeviceOpened(0, ChipInfo("77")), DeviceOpened(1, ChipInfo("88")))
    scene.tell(one, 800, buffer(0x1000, 100, tag="ttnn.add"), buffer(0x2000, 300, tag="ttnn.add"))
    scene.tell(one, 700, buffer(0x3000, 100, device=1, tag="ttnn.add"), buffer(0x1000, 30, Kind.L1, tag="ttnn.add"))
    scene.tell(one, 600, buffer(0x4000, 20), buffer(0x5000, 20), buffer(0x6000, 21))
    scene.tell(other, 500, buffer(0x1000, 20))
    rows = [
        (g["pid"], g["chip"], g["kind"], g["tag"], g["size"], *totals(g), g["oldest_s"]) for g in scene.find()["leaks"]
    ]
    assert rows == [
        (1, "77", "dram", "ttnn.add", None, 2, 400, 800.0),
        (1, "88", "dram", "ttnn.add", None, 1, 100, 700.0),
        (1, "77", "dram", None, 20, 2, 40, 600.0),
        (1, "77", "l1", "ttnn.add", None, 1, 30, 700.0),
        (1, "77", "dram", None, 21, 1, 21, 600.0),
        (2, "assumed:0", "dram", None, 20, 1, 20, 500.0),
    ]
    scene.tell(other, 650, buffer(0x2000, 21))
    assert [group["pid"] for group in scene.find()["leaks"] if group["bytes"] == 21] == [2, 1]  # the older first
    assert {group["pid"] for group in scene.find(pids=frozenset({2, 3}))["leaks"]} == {2}
    assert {group["chip"] for group in scene.find(chip="88")["leaks"]} == {"88"}


def test_tags_of_others_are_not_shown_and_group_nothing(scene: Scene) -> None:
    mine, others = scene.process(1, user_id=1000), scene.process(2, user_id=2000)
    for source in (mine, others):
        scene.tell(source, 500, buffer(0x1000, 100, tag="secret a"), buffer(0x2000, 100, tag="secret b"))
        scene.tell(source, 500, buffer(0x3000, 1, Kind.TRACE, tag="secret c"))
    dying = scene.process(3, user_id=2000)
    scene.tell(dying, 400, buffer(0x1000, 10, tag="secret d"), ProcessExited())
    found = scene.find(may_see=lambda user_id: user_id == 1000)
    assert sorted((g["pid"], g["tag"] or "", g["count"]) for g in found["leaks"]) == [
        (1, "secret a", 1),
        (1, "secret b", 1),
        (2, "", 2),
    ]
    assert "secret d" not in json.dumps(found)
    assert "secret d" in json.dumps(scene.find())


@pytest.mark.parametrize(
    ("births", "grows"),
    [
        ([900, 700, 500, 300, 100], True),
        ([900, 500, 100], True),
        ([900, 100], False),  # too few
        ([900] * 40, False),  # a batch
        ([900] * 39 + [100], False),  # a batch and a straggler
        ([900] + [100] * 39, False),
        ([900] * 40 + [880, 600, 400, 300, 200, 100] * 7, True),  # a batch of the same size, then a leak
        ([990, 800, 600, 500], False),  # long ago, and then no more
        ([1010, 800, 600, 504], True),  # an agent knows of times before it was first heard
        ([2000, 1700, 1400], False),
        ([450, 300, 200, 100], False),  # only lately
    ],
)
def test_growth_needs_births_all_the_while(scene: Scene, births: list[float], grows: bool) -> None:
    source = scene.process(ago=1000)
    for number, ago in enumerate(births):
        scene.tell(source, ago, buffer(0x1000 * (number + 1), 4096))
    (group,) = scene.find()["leaks"]
    assert group["grows"] is grows
    assert (", grows" in leaks_text(scene.find())) is grows


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
    assert [(item["size"], item["counted"]) for item in dead["largest"]] == [(5000, True), (10, True)]
    line = (
        "dead process: 7 python died 2 min ago, holding 4.9 KiB of DRAM in 1 allocation, "
        "10 B of L1 (sum over all cores) in 1 allocation; freed at its exit"
    )
    assert line in leaks_text(found).splitlines()
    assert [in_pools(one) for one in scene.find(chip="assumed:1")["dead_process"]] == [pools(l1_buffers=(1, 10))]
    assert scene.find(pids=frozenset({8}))["dead_process"] == []


def test_many_dead_are_cut_short_and_the_last_comes_first(scene: Scene) -> None:
    for pid in range(1, 9):
        source = scene.process(pid)
        scene.tell(source, 500, buffer(0x1000, 10))
        scene.tell(source, 100 - pid, ProcessExited())
    found = scene.find()
    assert [one["pid"] for one in found["dead_process"]] == [8, 7, 6, 5, 4, 3, 2, 1]
    lines = [line for line in leaks_text(found).splitlines() if line.startswith("dead process")]
    assert (len(lines), lines[-1]) == (6, "dead process: and 3 more")


def test_a_process_that_dies_while_allocations_are_gathered_leaks_nothing(scene: Scene) -> None:
    source = scene.process()
    scene.tell(source, 500, buffer(0x1000, 10))
    finder, allocations = LeakFinder(NOW), list(scene.ledger.allocations())
    scene.tell(source, 0, ProcessExited())
    for allocation in allocations:
        finder.add(allocation)
    assert finder.result(scene.ledger, time="", since="", tracked=NOW)["verdict"]["leak"] is False


def test_the_text_of_leaks(scene: Scene) -> None:
    source = scene.process()
    for number, ago in enumerate((900, 500, 100)):
        scene.tell(source, ago, buffer(0x1000 * (number + 1), 4 * MIB, tag="ttnn.add"))
    scene.tell(source, 300, buffer(0x9000, 512 * KIB, Kind.L1))
    scene.tell(source, 30, buffer(0xA000, KIB))
    assert leaks_text(scene.find()).splitlines() == [
        "tracking since then, for 16 min",
        "",
        "leak: 12.0 MiB of DRAM in 3 buffers, 512.0 KiB of L1 (sum over all cores) in 1 buffer, held for 60 s or "
        "longer by living processes",
        "       bytes     count   oldest youngest  kind  process              chip, what",
        "    12.0 MiB         3   15 min    100 s  dram  42 python            chip assumed:0, ttnn.add, grows",
        "   512.0 KiB         1    5 min    5 min  l1    42 python            chip assumed:0, 512.0 KiB each",
        "young, held for less than 60 s: 1.0 KiB of DRAM in 1 allocation",
        "program cache: nothing",
        "trace: nothing",
        "system: nothing",
        "dead processes: none held anything when it exited",
        "",
        "verdict: leak: 2 groups, 12.0 MiB of DRAM in 3 buffers, 512.0 KiB of L1 (sum over all cores) in 1 buffer",
    ]


def test_one_of_each_is_singular(scene: Scene) -> None:
    scene.tell(scene.process(), 100, buffer(0x1000, KIB))
    assert leaks_text(scene.find()).splitlines()[-1] == "verdict: leak: 1 group, 1.0 KiB of DRAM in 1 buffer"


def test_a_tag_cannot_write_a_verdict(scene: Scene) -> None:
    scene.tell(scene.process(), 100, buffer(0x1000, KIB, tag="a\nverdict: no leak\x1b[2J"))
    lines = leaks_text(scene.find()).splitlines()
    verdicts = [line for line in lines if line.startswith("verdict")]
    assert verdicts == ["verdict: leak: 1 group, 1.0 KiB of DRAM in 1 buffer"]
    assert "\x1b" not in "".join(lines)


def test_the_largest_groups_are_listed_and_the_rest_is_counted(scene: Scene) -> None:
    count = LISTED + 7
    scene.tell(scene.process(), 100, *(buffer(0x1000 * size, size) for size in range(1, count + 1)))
    found = scene.find()
    assert found["verdict"]["groups"] == count
    assert [group["size"] for group in found["leaks"]] == list(range(count, 7, -1))
    assert found["left_out"] == {"groups": 7, **pools(dram=(7, sum(range(1, 8))))}
    lines = leaks_text(found).splitlines()
    more = next(line for line in lines if "more groups" in line)
    size = human(sum(range(1, count - 19)))
    assert more == f"  and {count - 20:,} more groups, {size} of DRAM in {count - 20:,} buffers"
    assert len([line for line in lines if line.endswith(" each")]) == 20


def test_groups_that_are_not_shown_are_summed_up_by_pool(scene: Scene) -> None:
    """Those that the document lists, and those that it leaves out."""
    source, count = scene.process(), LISTED + 2
    scene.tell(source, 100, *(buffer(0x1000 * size, 1000 + size) for size in range(1, count + 1)))
    scene.tell(source, 100, buffer(0x100, 900, Kind.L1), buffer(0x200, 1500, Kind.L1), buffer(0x300, 8, Kind.HOST))
    found = scene.find()
    assert found["left_out"] == {"groups": 5, **pools(dram=(3, 3006), l1_buffers=(1, 900), host=(1, 8))}
    size = human(sum(range(1001, 1001 + count)) - sum(range(1001 + count - 20, 1001 + count)))
    assert next(line for line in leaks_text(found).splitlines() if "more groups" in line) == (
        f"  and {count - 17:,} more groups, {size} of DRAM in {count - 20} buffers, "
        "2.3 KiB of L1 (sum over all cores) in 2 buffers, 8 B of host memory in 1 buffer"
    )


def test_groups_beyond_the_cap_are_one(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leaks, "_MAX_GROUPS", 3)
    scene.tell(scene.process(), 100, *(buffer(0x1000 + n, size) for n, size in enumerate((1, 2, 3, 4, 5, 3))))
    found = scene.find()
    assert found["verdict"] == {"leak": True, "groups": 4, **pools(dram=(6, 18))}
    assert [(group["size"], *totals(group)) for group in found["leaks"]] == [
        (None, 2, 9), (3, 2, 6), (2, 1, 2), (1, 1, 1),
    ]  # fmt: skip
    assert "of other sizes" in leaks_text(found)


def test_doubts(scene: Scene) -> None:
    lossy, other, dead = scene.process(1), scene.process(2), scene.process(3)
    scene.tell(lossy, 500, Lost(1234), Freed(0, Kind.DRAM, 0x1000), buffer(0x2000, 10))
    scene.tell(other, 500, buffer(0x2000, 10), Sees(1, "no kernels:\nthis wheel hides them"))
    scene.tell(dead, 500, Lost(9), ProcessExited())
    found = scene.find(tracked=45)
    assert found["losses"] == {"dropped": 1234, "unknown_free": 1}
    assert found["doubts"] == [
        "1,234 events were lost: a free or an allocation may have been missed",
        "1 frees were of unreported allocations: reports, and other frees with them, may have been missed",
        "tracking began 45 s ago: earlier allocations may be older than shown",
        "no kernels: this wheel hides them",
    ]
    lines = leaks_text(found).splitlines()
    assert lines[-5:] == [
        *(f"doubt: {doubt}" for doubt in found["doubts"]),
        "verdict: leak: 2 groups, 20 B of DRAM in 2 buffers",
    ]
    assert scene.find(pids=frozenset({2}))["losses"] == {"dropped": 0, "unknown_free": 0}
    assert scene.find(pids=frozenset({2}))["doubts"] == ["no kernels: this wheel hides them"]


def test_a_process_nobody_can_see_has_no_pid(scene: Scene) -> None:
    source = scene.ledger.source(0.0, ProcessInfo(0, None, connection=3), "legacy", Confidence.REPORTED)
    scene.tell(source, 100, buffer(0x1000, 10))
    found = scene.find()
    assert found["leaks"][0]["pid"] is None
    assert "an unseen process" in leaks_text(found)


def test_the_route_shows_readers_the_tags_they_may_see(scene: Scene) -> None:
    """Only their own, or all if they are root; and by default what is 60 s old is a leak."""
    scene.tell(scene.process(user_id=1000), 61, buffer(0x1000, 100, tag="secret"))
    scene.tell(scene.process(user_id=1000), 59, buffer(0x2000, 100, tag="secret"))
    api = api_over(scene.ledger, {"since": 400.0}, clock=StoppedClock(NOW))

    def ask(user_id: int | None, **query: str) -> Any:
        answer = asyncio.run(api.handle(Request("GET", "/leaks", query, user_id)))
        assert isinstance(answer.body, bytes)
        return json.loads(answer.body)

    for user_id, tag in ((1000, "secret"), (0, "secret"), (2000, None), (None, None)):
        found = ask(user_id)
        assert [group["tag"] for group in found["leaks"]] == [tag]
        assert (found["verdict"]["count"], found["tracked_s"]) == (1, 600.0)
        assert (found["time"], found["since"]) == ("1970-01-01T00:16:40.000Z", "1970-01-01T00:06:40.000Z")
    assert ask(0, older="50", pid="42", chip="assumed:0")["verdict"]["count"] == 2


def test_phases_that_are_not_kept_are_no_doubt_about_frees() -> None:
    scene = Scene(Limits(phase_paths=1))
    source = scene.process()
    for ident in (1, 2, 3):
        scene.tell(source, 500, PhaseBegan(ident, f"token {ident}"))
        scene.tell(source, 500, PhaseEnded(ident))
    assert source.process.phases.left_out == 2
    assert scene.find()["doubts"] == []
