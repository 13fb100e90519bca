# SPDX-License-Identifier: Apache-2.0
"""Peaks in a recording that lost records: compared with what really was held, record by record."""

from __future__ import annotations

import io
import random
import zlib
from contextlib import ExitStack, closing

import pytest

from tests.metered_agent import MeteredAgent
from tests.random_workloads import LAYOUTS, PAIR, Layout, Truth, Workload, compare
from tests.recordings import RingRecording
from tests.scripted_agent import SLOTS
from ttmem.account.ledger import Ledger
from ttmem.documents.peaks import peaks
from ttmem.model.events import MAX_SIZE, PeaksReset
from ttmem.model.kinds import Kind, Pool
from ttmem.recording.blocks import HEADER_SIZE, BlockType
from ttmem.recording.event_entries import EventEncoder
from ttmem.recording.moments import find_moment
from ttmem.recording.recording_file import Recording


class Play:
    """Some workloads, their recording, and the truth about them."""

    def __init__(self, seed: int, layout: Layout, processes: int) -> None:
        self.dice = random.Random(seed)
        self.truth = Truth()
        self.workloads = [Workload(pid, layout, self.truth, self.dice) for pid in range(1, processes + 1)]
        self.recorded = RingRecording(*(one.agent for one in self.workloads))
        self._events = EventEncoder()

    @property
    def clock(self) -> int:
        return max(one.agent.clock for one in self.workloads)

    def act(self, count: int) -> None:
        for _ in range(count):
            workload = self.dice.choice(self.workloads)
            workload.agent.clock = self.clock
            workload.act()

    def poll(self) -> None:
        self.recorded.poll(flush=self.dice.random() < 0.5)

    def reset(self) -> None:
        """Between two records."""
        for one in self.workloads:
            one.agent.clock = self.clock + 1
        number = self._events.events + 1
        self._events.add(self.clock * 1e-9, None, PeaksReset())
        entries, flags = self._events.take()
        self.recorded.blocks.write(
            BlockType.EVENTS, entries, number=number, last=number, time=self.clock * 1e-9, flags=flags
        )
        self.truth.reset()
        for one in self.workloads:
            one.agent.clock = self.clock + 1

    def remember(self, ledger: Ledger) -> None:
        """What the account of now knows, and a table, from which moments after it are opened."""
        self.recorded.table()
        self.recorded.history(
            self.clock * 1e-9, ledger, [one.agent.head for one in self.workloads], self._events.events
        )

    def compare(self, recording: Recording, *, from_start: bool) -> Ledger:
        ledger = recording.at(from_start=from_start).ledger
        sources = {process.info.pid: process.sources["agent"] for process in ledger.processes.values()}
        compare(ledger, sources, self.truth, len(self.workloads) > 1)
        assert recording.problems == []
        return ledger

    def end(self) -> None:
        for copier in self.recorded.copiers:
            copier.close()
        for one in self.workloads:
            one.agent.close()


@LAYOUTS
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize("resets", [False, True])
def test_peaks_are_true_whatever_was_lost(seed: int, processes: int, layout: Layout, resets: bool) -> None:
    """From the start, and from an account that was saved after records had been lost."""
    play = Play(seed, layout, processes)
    gaps = 0
    with ExitStack() as stack:
        stack.callback(play.end)
        for _ in range(12):
            for _ in range(play.dice.randrange(1, 4)):
                play.act(play.dice.choice((3, SLOTS - 4, SLOTS + 4, 3 * SLOTS)))
                if resets and play.dice.random() < 0.4:
                    play.reset()
                    play.act(play.dice.choice((0, 5, 2 * SLOTS)))
                play.poll()
            recording = play.recorded.recording()
            gaps = len(recording.gaps)
            play.compare(recording, from_start=False)
            ledger = play.compare(recording, from_start=True)
            if play.dice.random() < 0.3:
                play.remember(ledger)
    assert gaps > 5


def metered() -> tuple[MeteredAgent, RingRecording]:
    agent = MeteredAgent(*PAIR)
    return agent, RingRecording(agent)


def lose_a_peak(agent: MeteredAgent, recorded: RingRecording) -> None:
    """1000 bytes are seen, 5000 are not, 30 are live in the end."""
    agent.take(0, 1000, Kind.L1, 0)
    agent.give_back(0)
    recorded.poll(flush=True)
    agent.take(0, 5000, Kind.L1, 0)
    agent.give_back(0)
    agent.churn(3 * SLOTS)
    agent.take(1, 30, Kind.L1, 0)


def test_a_mesh_that_is_replaced_while_a_gap_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the records after the table, some are of a mesh of which nothing is known any more: the gap becomes longer."""
    agent, recorded = metered()
    agent.open_mesh(3, [0])
    recorded.poll(flush=True)
    (copier,) = recorded.copiers
    copied, copies = copier._ring.table, 0

    def table() -> tuple[int, bytearray, int]:
        nonlocal copies
        copies += 1
        found = copied()
        if copies == 1:
            agent.close_mesh(3)
            for members, size in (([0], 100), ([1], 60)):
                agent.open_mesh(3, members)
                agent.take(3, size, Kind.DRAM, 3)
                if members == [0]:
                    agent.close_mesh(3)
        return found

    monkeypatch.setattr(copier._ring, "table", table)
    with closing(agent):
        agent.churn(3 * SLOTS)
        ledger = recorded.recording().at().ledger
    assert copies == 2
    dram = {chip.id: (chip.kinds[Kind.DRAM].used, chip.kinds[Kind.DRAM].peak.value) for chip in ledger.chips.values()}
    assert dram == {"555": (0, 100), "777": (60, 60)}


def test_a_peak_among_lost_records() -> None:
    agent, recorded = metered()
    with closing(agent):
        lose_a_peak(agent, recorded)
        recording = recorded.recording()
        moment = find_moment(recording, "peak:l1")
        peak = recording.at(moment.time, moment.reached).ledger.chips["555"].pools[Pool.L1].peak
        assert (peak.value, peak.at_most, peak.time) == (5000, 5000, None)
        assert moment.words == "after the lost records with the peak of l1 on chip 555"
        before = find_moment(recording, "peak")
        assert before.words == "at the peak of all buffers"
        assert recording.at(before.time, before.reached).ledger.chips["555"].kinds[Kind.L1].used == 1000


def test_limits_since_a_reset_are_those_of_windows() -> None:
    """The lost records begin long after the highest value, so that windows without it are all there."""
    play = Play(0, PAIR, 1)
    (agent,) = (one.agent for one in play.workloads)
    with ExitStack() as stack:
        stack.callback(play.end)
        agent.take(0, 5000, Kind.L1, 0)
        agent.give_back(0)
        for _ in range(4):
            agent.churn(SLOTS // 2)
            play.recorded.poll()
        play.reset()
        agent.churn(SLOTS // 2)
        agent.take(0, 700, Kind.L1, 0)
        agent.give_back(0)
        agent.churn(SLOTS)
        total = play.recorded.recording().at().ledger.chips["555"].kinds[Kind.L1]
        assert (total.recent.at_most, total.peak.value) == (700, 5000)


@pytest.mark.parametrize("damage", ["changed", "too short", "another table"])
def test_without_meters_a_peak_is_a_lower_limit(damage: str) -> None:
    agent, recorded = metered()
    with closing(agent):
        lose_a_peak(agent, recorded)
        found = recorded.recording()
        (block,) = (one for one in found.blocks() if one.type == BlockType.METERS)
        raw = bytearray(recorded.file.getvalue())
        if damage == "changed":
            raw[block.at + 5] ^= 1
        else:
            payload = b"1" if damage == "too short" else raw[block.at : block.at + block.stored]
            following = block._replace(
                last=block.last + (damage == "another table"), stored=len(payload), raw=len(payload),
                codec=0 if damage == "too short" else block.codec, checksum=zlib.crc32(payload),
            )  # fmt: skip
            raw[block.at - HEADER_SIZE : block.at + block.stored] = following.header() + payload
        recording = Recording(io.BytesIO(raw))
        ledger = recording.at().ledger
        total = ledger.chips["555"].kinds[Kind.L1]
        assert (total.used, total.peak.value, total.peak.at_most) == (30, 1000, MAX_SIZE)
        assert [chip for chip in ledger.chips.values() if chip.kinds[Kind.DRAM].peak.limit is None] == []
        assert {row["time"] for row in peaks(ledger) if not row["per_chip"]} == {None}
        assert bool(recording.problems) == (damage != "another table")


def test_phases_that_began_and_ended_among_lost_records() -> None:
    agent, recorded = metered()
    with closing(agent):
        agent.begin_phase(1, "seen")
        recorded.poll(flush=True)
        agent.begin_phase(2, "missed")
        agent.end_phase(2)
        agent.take(0, 700, Kind.L1, 0)
        agent.give_back(0)
        agent.churn(3 * SLOTS)
        agent.begin_phase(3, "open")
        (process,) = recorded.recording().at().ledger.processes.values()
        phases = process.phases
        assert phases.missed == 1
        assert [(phase.path, phase.begin_seen) for phase in phases.open.values()] == [("seen", True), ("open", True)]
        (seen, _) = phases.open.values()
        assert {row["peak"] for row in phases.rows(seen) if row["chip"] == "555" and row.get("kind") == "l1"} == {700}


def test_earlier_segments_were_deleted() -> None:
    """The meters have the peaks of these."""
    agent, recorded = metered()
    with closing(agent):
        agent.begin_phase(1, "seen")
        agent.take(0, 5000, Kind.L1, 0)
        agent.give_back(0)
        agent.end_phase(1)
        recorded.poll(flush=True)
        later = RingRecording()
        later.copiers = recorded.copiers
        for copier in later.copiers:
            copier.begin_segment()
        agent.take(1, 30, Kind.L1, 0)
        recording = later.recording()
        assert not recording.gaps
        ledger = recording.at().ledger
        total = ledger.chips["555"].kinds[Kind.L1]
        assert (total.used, total.peak.value, total.peak.at_most) == (30, 5000, 5000)
        (process,) = ledger.processes.values()
        assert process.phases.missed == 0
