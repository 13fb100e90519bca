# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: F811
"""The recorder: rings and other sources in one file, read to the end when a process dies, and limited in size."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.recordings import history, state
from tests.scripted_agent import Agent, Reader, agents, reader  # noqa: F401 - fixtures
from ttmem.account.entities import Source
from ttmem.model.events import Allocated, Freed, ProcessExited
from ttmem.model.identity import ProcessInfo
from ttmem.model.kinds import Confidence, Kind
from ttmem.recording import recorder as recorder_module
from ttmem.recording import ring_copier, segment_folder
from ttmem.recording.recorder import Recorder
from ttmem.recording.recording_file import Recording

Agents = Callable[[], Agent]


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "run.ttmem")


@pytest.fixture
def recorder(reader: Reader, path: str) -> Iterator[Recorder]:
    made = Recorder(path, reader.sink, reader.warnings.append, {"command": ["true"]})
    reader.rings._record = made.follow
    yield made
    made.close()


def client(reader: Reader, pid: int = 99) -> Source:
    return reader.ledger.source(reader.sink.now(), ProcessInfo(pid, 1), "client", Confidence.REPORTED)


def test_rings_do_not_leave_the_fast_path(reader: Reader, recorder: Recorder, agents: Agents) -> None:
    reader.adopt(agents())
    assert not reader.sink.observed(ring=True)
    assert reader.sink.observed(), "events of clients must be recorded"


def test_rings_and_clients_together(reader: Reader, recorder: Recorder, agents: Agents, path: str) -> None:
    first, second = agents(), agents()
    sources = [reader.adopt(first, 1), reader.adopt(second, 2)]
    other = client(reader)
    for number in range(8):
        for agent in (first, second):
            if not number:
                agent.opened()
            agent.allocate(number, 100 + number)
            if number % 3 == 2:
                agent.free(number - 1)
        reader.sink.apply(reader.sink.now(), other, Allocated(0, Kind.DRAM, 64 * (number + 1), 64))
        reader.follow()
        recorder.flush()
    reader.sink.apply(reader.sink.now(), other, Freed(0, None, 64))
    reader.follow()
    live = state(reader.ledger)
    recorder.flush()
    with Recording(path) as recording:
        assert not recording.finished
        assert recording.facts["command"] == ["true"]
        found = recording.at()
        assert state(found.ledger)["totals"] == live["totals"]
        assert [row[:6] for row in state(found.ledger)["live"]] == [row[:6] for row in live["live"]]
    for source in sources:
        reader.rings.finish(source.process.info.pid)  # type: ignore[arg-type]
        reader.sink.apply(reader.sink.now(), source, ProcessExited())
    recorder.close()
    with Recording(path) as recording:
        assert recording.finished
        assert {process.info.pid for process in recording.at().ledger.departed} == {1, 2}
        assert recording.at(recording.begin - 1).ledger.live_count() == 0
    assert reader.warnings == []


def test_a_ring_is_read_to_its_end_after_its_process_died(
    reader: Reader,
    recorder: Recorder,
    agents: Agents,
    path: str,
) -> None:
    agent = agents()
    source = reader.adopt(agent)
    agent.opened()
    agent.allocate(1, 111)
    reader.rings.finish(1)  # type: ignore[arg-type]
    reader.sink.apply(reader.sink.now(), source, ProcessExited())
    recorder.close()
    with Recording(path) as recording:
        assert recording.processes[1].end == agent.head
        assert recording.at().all_chips.peak.value == 111


def test_a_ring_that_fills_fast_is_polled_more_often(
    reader: Reader, recorder: Recorder, agents: Agents, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Recorder, "_start", lambda self: None)  # polled by `flush` only
    agent = agents()
    reader.adopt(agent)
    agent.opened()
    recorder.flush()
    assert recorder._pause == recorder_module._POLL_SECONDS
    for number in range(agent.get("ring_slots") // 4):
        agent.allocate(number, 64)
    recorder.flush()
    assert recorder._pause == recorder_module._FAST_POLL_SECONDS
    recorder.flush()
    assert recorder._pause == recorder_module._POLL_SECONDS, "it wrote nothing since"


@pytest.fixture
def folder(reader: Reader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Recorder, str]]:
    monkeypatch.setattr(segment_folder, "LEAST_BYTES", 1)
    monkeypatch.setattr(recorder_module, "_RECORDS_BETWEEN_HISTORIES", 8)
    path = str(tmp_path / "folder")
    made = Recorder(path, reader.sink, reader.warnings.append, limit=24_000)
    reader.rings._record = made.follow
    yield made, path
    made.close()


def test_old_segments_are_deleted_and_the_rest_is_whole(
    reader: Reader,
    agents: Agents,
    folder: tuple[Recorder, str],
) -> None:
    recorder, path = folder
    agent = agents()
    reader.adopt(agent)
    other = client(reader)
    agent.opened()
    for number in range(400):
        slot = number % 7
        if slot in agent.live:
            agent.free(slot)
        else:
            agent.allocate(slot, 100 + number, name=agent.blob(f"op {number % 5}".encode()))
        reader.sink.apply(reader.sink.now(), other, Allocated(0, Kind.DRAM, 64 * (number % 50 + 1), 64))
        reader.follow()
        recorder.remember(reader.rings.positions(), reader.rings.counts()[0])
        recorder.flush()
    names = sorted(os.listdir(path))
    assert int(names[0].split(".")[0]) > 1, "the first segments are gone"
    assert sum(os.path.getsize(os.path.join(path, name)) for name in names) < 40_000
    recorder.close()
    with Recording(path) as recording:
        assert not recording.problems
        found = recording.at().ledger
        mine, theirs = state(found), state(reader.ledger)
        assert mine["totals"] == theirs["totals"]
        assert [row[:6] for row in mine["live"]] == [row[:6] for row in theirs["live"]]
        peaks = {chip: [peak[0] for peak in rows] for chip, rows in history(found)["peaks"].items()}
        assert peaks == {
            chip.id: [total.peak.value for total in chip.totals()] for chip in reader.ledger.chips.values()
        }
        assert found.live_count() == reader.ledger.live_count()
    assert reader.warnings == []


def test_a_full_disk_ends_the_recording_and_nothing_else(
    reader: Reader,
    recorder: Recorder,
    agents: Agents,
    path: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    agent = agents()
    source = reader.adopt(agent)
    agent.opened()
    agent.allocate(1, 111)
    reader.follow()
    recorder.flush()
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, recorder._file.fileno())
    os.close(full)
    agent.allocate(2, 222)
    reader.follow()
    recorder.flush()
    recorder.flush()
    assert reader.warnings == ["recording stopped: No space left on device; the file can be read up to here"]
    assert reader.sizes(source) == [111, 222]
    with Recording(path) as recording:
        assert recording.at().all_chips.peak.value == 111
        assert not recording.problems


def test_samples_of_host_memory_and_telemetry(reader: Reader, recorder: Recorder, agents: Agents, path: str) -> None:
    """This process stands for the workload: what the system says of it now is what was recorded, roughly."""
    agent = agents()
    reader.adopt(agent, os.getpid())
    agent.opened()
    reader.follow()
    recorder.keep_telemetry({"0000:01:00.0": {"temperature_c": 51.5, "power_w": None}})
    recorder.flush()
    recorder.flush()
    with Recording(path) as recording:
        first, second = recording.samples()
    assert first.telemetry == {"0000:01:00.0": {"temperature_c": 51.5, "power_w": None}}
    assert second.telemetry == {}, "telemetry that was not read again is not known"
    resident = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    assert abs(first.host[os.getpid()]["resident"] - resident) < resident / 4
    assert first.host[os.getpid()]["huge_pages"] == 0
    assert recording.begin <= first.time <= second.time


def test_a_process_that_writes_too_much_gets_a_gap(
    reader: Reader, agents: Agents, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its ring is not read until it may write again; the other process is not affected, and what is live is exact."""
    monkeypatch.setattr(ring_copier, "_BURST_BYTES", 3000)
    monkeypatch.setattr(ring_copier, "_BYTES_PER_SECOND", 1)
    recorder = Recorder(path, reader.sink, reader.warnings.append)
    reader.rings._record = recorder.follow
    greedy, modest = agents(), agents()
    reader.adopt(greedy, 1)
    reader.adopt(modest, 2)
    greedy.opened()
    modest.opened()
    chance = random.Random(1)
    for number in range(200):
        greedy.allocate(0, 100 + chance.randrange(1 << 30), name=greedy.blob(chance.randbytes(40).hex().encode()))
        greedy.free(0)
        if not number % 20:
            modest.allocate(number // 20, 7)
        reader.follow()
        recorder.flush()
    greedy.allocate(1, 4711)
    reader.follow()
    recorder.close()
    with Recording(path) as recording:
        ((source, first, last),) = recording.gaps
        assert source.info.pid == 1
        assert last - first > 100
        found = [(one.holding.source.process.info.pid, one.size) for one in recording.at().ledger.allocations()]
        assert sorted(found) == [(1, 4711), *[(2, 7)] * 10]
        written = sum(block.stored for block in recording.blocks() if block.process == 1)
        assert written < 3000 + 16_000, "the reserve, and the end: a table, and the names"
