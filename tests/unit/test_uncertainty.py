# SPDX-License-Identifier: Apache-2.0
"""What an agent counted that makes its numbers uncertain: it reaches the account, every screen and every verdict."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest

from tests.scripted_agent import Agent, Reader
from tests.unit.test_leaks import Scene
from tests.unit.test_leaks import buffer as leaked
from tests.unit.test_metrics import page
from tests.unit.test_overview import looked
from tests.unit.test_processes import Screen
from tests.unit.test_result import Story, buffer, story  # noqa: F401
from tests.unit.test_snapshot import Account
from ttmem.account.entities import Source
from ttmem.account.ledger import Ledger
from ttmem.account.uncertainty import added
from ttmem.doctor.snapshot_checks import losses
from ttmem.documents import unknown_rows as blank
from ttmem.documents.dump import DumpBuilder, remaining_text
from ttmem.documents.metal_reports import tracked
from ttmem.documents.snapshot import take_snapshot
from ttmem.model.events import Allocated, Audited, DeviceOpened, Event, Extra, Freed, ProcessExited, Uncertain
from ttmem.model.geometry import BOARDS
from ttmem.model.identity import ChipInfo
from ttmem.model.kinds import Kind
from ttmem.model.uncertain_reasons import REASONS
from ttmem.model.validation import MAX_COUNT
from ttmem.recording.event_recording import EventRecordingWriter
from ttmem.recording.recording_file import Recording
from ttmem.run.budget_verdicts import Limits, judge
from ttmem.server import metrics
from ttmem.show.chip_table import Names
from ttmem.show.leaks_text import render as render_leaks
from ttmem.show.run_text import render as render_run
from ttmem.show.smi_screen import render as render_smi
from ttmem.show.text import Style
from ttmem.show.top.parts.rows import Size
from ttmem.show.top.views.overview import Overview

Json = Any  # a document made by hand, or a part of one
COMPLETE = Audited(0, 1, (4096, 0), (4096, 0), (9, 9), (12, 64))
HALF = COMPLETE._replace(theirs=(8192, 0))
EACH = pytest.mark.parametrize("reason", list(REASONS))


# -- from the agent's memory to the account -------------------------------------------------------------------------


@EACH
def test_what_the_agent_counts_reaches_the_account(agent: Agent, reader: Reader, reason: str) -> None:
    agent.opened()
    agent.put(**{reason: 3})  # before the first read
    process = reader.adopt(agent).process
    reader.follow()
    assert process.uncertain == {reason: 3}
    agent.put(**{reason: 5})  # while nothing else changes
    reader.follow()
    reader.follow()
    assert process.uncertain == reader.ledger.uncertain == {reason: 5}


def test_what_is_counted_last_is_read_when_the_process_is_dead(agent: Agent, reader: Reader) -> None:
    agent.opened()
    process = reader.adopt(agent).process
    reader.follow()
    agent.put(replaced=143)
    reader.rings.finish(1)  # type: ignore[arg-type]
    assert process.uncertain == {"replaced": 143}


def test_another_program_in_the_same_process_counts_on(agents: Callable[[], Agent], reader: Reader) -> None:
    for count in (2, 1):
        one = agents()
        one.opened()
        one.put(failures=count)
        process = reader.adopt(one).process
        reader.follow()
    assert process.uncertain == {"failures": 3}


def test_a_full_table_is_a_loss_as_well(agent: Agent, reader: Reader) -> None:
    agent.put(table_full=7)
    reader.adopt(agent)
    reader.follow()
    assert reader.rings.counts()[1] == reader.anomalies()["dropped"] == 7


def test_other_counters_are_no_reason(agent: Agent, reader: Reader) -> None:
    """Names that were not kept do not change a number."""
    agent.put(blobs_full=7)
    process = reader.adopt(agent).process
    reader.follow()
    assert not process.uncertain
    assert "earlier_frees" not in REASONS, "frees of buffers that are older than the agent"


def test_a_counter_that_goes_back_is_not_believed(agent: Agent, reader: Reader) -> None:
    process = reader.adopt(agent).process
    for count in (9, 0, 9, 2**64 - 1):
        agent.put(replaced=count)
        reader.follow()
    assert process.uncertain == {"replaced": 9 + MAX_COUNT}  # no more than that at a time


# -- the snapshot ---------------------------------------------------------------------------------------------------


def told(*events: Event, audit: Audited = COMPLETE) -> tuple[Account, Source]:
    account = Account()
    source = account.source()
    geometry = BOARDS["n150"]._replace(live=True)
    extra = Extra(12 * 4096, 0, 1)
    account.apply(
        source,
        DeviceOpened(0, ChipInfo("777", board="n150", geometry=geometry)),
        Allocated(0, Kind.DRAM, 0x1000, 4000, 0, 0, extra),
        audit,
        *events,
    )
    return account, source


@EACH
@pytest.mark.parametrize(("audit", "share"), [(COMPLETE, None), (HALF, 0.5)])
def test_the_rows_of_chip_and_process(reason: str, audit: Audited, share: float | None) -> None:
    snapshot = told(Uncertain(reason, 2), Uncertain(reason, 1), audit=audit)[0].snapshot()
    (chip,), (process,), (note,) = snapshot["chips"], snapshot["processes"], snapshot["notes"]
    assert chip["memory"]["completeness"] == share
    assert chip["memory"]["uncertain"] == [{"pid": process["pid"], "reason": reason, "count": 3}]
    assert process["uncertain"] == [{"reason": reason, "count": 3}]
    assert (note["what"], note["pid"]) == ("uncertain", process["pid"])
    assert f"{reason} 3 ({REASONS[reason]})" in note["text"]


def test_without_a_reason_it_is_complete() -> None:
    snapshot = told()[0].snapshot()
    assert snapshot["chips"][0]["memory"]["completeness"] == 1.0
    assert (snapshot["chips"][0]["memory"]["uncertain"], snapshot["processes"][0]["uncertain"]) == ([], [])
    assert snapshot["notes"] == []


def test_a_dead_process_keeps_its_reasons_and_the_chip_does_not() -> None:
    account, source = told(Uncertain("replaced", 3))
    account.apply(source, ProcessExited())
    snapshot = account.snapshot()
    assert snapshot["processes"][0]["uncertain"] == [{"reason": "replaced", "count": 3}]
    assert snapshot["chips"][0]["memory"]["uncertain"] == [], "what is there now is certain: nothing"
    assert "which has exited" in snapshot["notes"][0]["text"]


def test_a_replay_shows_the_same() -> None:
    account, file = Account(), io.BytesIO()
    writer, source = EventRecordingWriter(file), account.source()
    for event in (DeviceOpened(0, ChipInfo("777")), Uncertain("unknown_frees", 2), Uncertain("failures", 1)):
        account.apply(source, event)
        writer.write(1.0, source, event)
    writer.finish()
    ledger = Ledger()
    Recording(file).replay(ledger)
    again = take_snapshot(ledger, time="now", host="replay")["processes"][0]["uncertain"]
    assert again == account.snapshot()["processes"][0]["uncertain"]
    assert again == [{"reason": "unknown_frees", "count": 2}, {"reason": "failures", "count": 1}]


# -- screens --------------------------------------------------------------------------------------------------------


def joined(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("width", [60, 100, 160])
def test_smi(width: int) -> None:
    text = joined(render_smi(told()[0].snapshot(), Style(width)))
    assert "100 % of what the allocators report" in text
    assert "uncertain" not in text
    text = joined(render_smi(told(Uncertain("replaced", 143))[0].snapshot(), Style(width)))
    assert "100 %" not in text
    assert "uncertain: the agent counted replaced 143" in text
    assert "tracked !" in text
    assert "Note: pid 42: its numbers are uncertain; its agent counted replaced 143 (buffers allocated where" in text


def test_smi_beside_an_audit_that_disagrees() -> None:
    text = joined(render_smi(told(Uncertain("failures", 1), audit=HALF)[0].snapshot(), Style(120)))
    assert "50 % of what the allocators report; uncertain: the agent counted failures 1" in text


def test_many_uncertain_processes_take_one_note() -> None:
    account = Account()
    for pid in range(1, 30):
        account.apply(account.source(pid), DeviceOpened(0, ChipInfo("777")), Uncertain("replaced", pid))
    assert "(28 more like this; --json has them)" in joined(render_smi(account.snapshot(), Style(120)))


def test_top() -> None:
    snapshot = told(Uncertain("replaced", 143))[0].snapshot()
    rows = joined(" ".join(Screen(snapshot).rows()))
    assert "tracked !" in rows
    assert "Note: pid 42: its numbers are uncertain; its agent counted replaced 143" in rows
    overview = joined(looked(Overview(), snapshot, Size(120, 60), ascii=False))
    assert "uncertain: the agent counted replaced 143" in overview
    assert "100 %" not in overview


def test_dump() -> None:
    account, source = told(Uncertain("replaced", 143))
    account.apply(source, Freed(0, Kind.DRAM, 0x1000, 0, 0, 1))
    dump = DumpBuilder().result(
        time="now", anomalies=blank.anomalies(), uncertain=added(account.ledger.processes.values())
    )
    assert dump["uncertain"] == [{"reason": "replaced", "count": 143}]
    text = remaining_text(dump)
    assert "everything that is known to have been allocated has been freed" in text
    assert "Total remaining buffers: 0 (uncertain: replaced 143)" in text


def test_doctor() -> None:
    class Asked:
        snapshot = told(Uncertain("replaced", 143))[0].snapshot()

    (said,) = losses(Asked())  # type: ignore[arg-type]
    assert said.level == "warning"
    assert "uncertain: its agent counted replaced 143" in said.found


def test_reports_of_tt_metal_are_not_compared() -> None:
    amounts, why = tracked(told(Uncertain("replaced", 143))[0].snapshot())
    assert (amounts, why) == ({}, "what the server tracks is uncertain, the agent counted replaced 143")


def test_metrics() -> None:
    account, source = told(Uncertain("replaced", 143))
    account.apply(source, ProcessExited())
    found = page(account, metrics.Totals(account.ledger, pids=False), account.snapshot())
    assert found["ttmem_uncertain_total", "replaced"] == 143
    assert found["ttmem_uncertain_total", "failures"] == 0


# -- verdicts -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("grows", [False, True])
def test_leaks(grows: bool) -> None:
    scene = Scene()
    one, other = scene.process(1, source="agent"), scene.process(2, source="agent")
    scene.tell(one, 500, DeviceOpened(0, ChipInfo("777")), leaked(0x1000, 10), Uncertain("unknown_frees", 2))
    scene.tell(other, 500, DeviceOpened(0, ChipInfo("778")), leaked(0x1000, 10))
    if grows:
        scene.leak(other, 10)
    found = scene.find()
    assert found["uncertain"] == [{"reason": "unknown_frees", "count": 2}]
    assert found["doubts"][0].startswith("the agent counted unknown_frees 2 (frees of buffers")
    style = Style(width=200)
    verdict = render_leaks(found, Names([], style, {}), style).splitlines()[-1]
    assert verdict.startswith(f"verdict: uncertain (unknown_frees 2): {'leak: +' if grows else 'no leak'}")
    assert scene.find(pids=frozenset({2}))["uncertain"] == scene.find(chip="778")["uncertain"] == []
    assert scene.find(chip="777")["uncertain"] == found["uncertain"]
    scene.tell(one, 1, ProcessExited())
    assert scene.find()["uncertain"] == [], "nothing of it can leak any more"


@pytest.fixture
def verdict(story: Story) -> Callable[..., tuple[int, str]]:  # noqa: F811
    def judged(code: int = 0, **limits: Any) -> tuple[int, str]:
        story.collector.rings.records = 1
        no_leak: Any = {"verdict": {"leak": False}}
        lines, exit_code = judge(story.report(code), Limits(**limits), no_leak)
        return exit_code, "\n".join(lines)

    return judged


@EACH
@pytest.mark.parametrize("options", [{"no_leaks": True}, {"l1_bytes": 0}, {"dram_bytes": 0}, {"dram_bytes": 1 << 40}])
def test_a_run(story: Story, verdict: Any, reason: str, options: Json) -> None:  # noqa: F811
    """5, regardless of other findings, and also for a process that has exited."""
    source = story.process(1)
    story.tell(source, 1, buffer(Kind.DRAM, 0x1000, 10), buffer(Kind.L1, 0x1000, 10))
    assert verdict(**options)[0] in (0, 3, 4)
    story.tell(source, 2, Uncertain(reason, 1_234))
    story.ends(source)
    code, said = verdict(**options)
    assert code == 5
    assert f"verdict: the result is uncertain: the agent counted {reason} 1,234" in said
    assert verdict(77, **options)[0] == 77, "the command's own failure comes first"
    assert verdict() == (0, ""), "nobody asked"


@pytest.mark.parametrize(("share", "beside"), [(1.0, ""), (0.75, "75 % complete, "), (None, "")])
def test_the_summary_of_a_run(story: Story, share: float | None, beside: str) -> None:  # noqa: F811
    source = story.process(1)
    story.tell(source, 1, buffer(Kind.DRAM, 0x1000, 10), Freed(0, Kind.DRAM, 0x1000, 0, 0, 1))
    story.tell(source, 1, Uncertain("replaced", 143), Uncertain("failures", 1))
    story.collector.rings._completeness = [share] if share is not None else []
    story.ends(source)
    report = story.report()
    lines = render_run(report.document, Style()).splitlines()
    assert lines[1].endswith(f"; {beside}uncertain: replaced 143, failures 1")
    assert "left at the end: nothing (uncertain: replaced 143, failures 1)" in lines
    assert "100 %" not in "\n".join(lines)
    assert f"uncertain: replaced 143: {REASONS['replaced']}" in joined("\n".join(lines))
    data = report.document
    assert data["completeness"] == (None if share == 1.0 else share)
    assert data["uncertain"] == [{"reason": "replaced", "count": 143}, {"reason": "failures", "count": 1}]


def test_the_pictures_of_a_run_have_it_too(story: Story) -> None:  # noqa: F811
    source = story.process(1)
    story.tell(source, 1, buffer(Kind.DRAM, 0x1000, 10), Uncertain("replaced", 143))
    story.ends(source)
    data = story.report().document
    for name in ("peak", "final"):
        assert data[name]["processes"][0]["uncertain"] == [{"reason": "replaced", "count": 143}]
        assert data[name]["chips"][0]["memory"]["uncertain"][0]["count"] == 143


def test_a_file_with_an_unknown_reason_is_refused_with_a_sentence() -> None:
    from ttmem.wire.client_decode import decode
    from ttmem.wire.client_encode import encode
    from ttmem.wire.client_records import NativeError

    assert decode(encode(Uncertain("replaced", 1))) == Uncertain("replaced", 1)
    for event in (Uncertain("mood", 1), Uncertain("replaced", 0), Uncertain("replaced", -1)):
        with pytest.raises(NativeError, match="is no reason with a count"):
            decode(encode(event))
