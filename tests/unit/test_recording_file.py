# SPDX-License-Identifier: Apache-2.0
"""Recordings: any moment from the nearest history is the moment from the start; damage costs what it hits."""

from __future__ import annotations

import io
import random
from math import inf, nextafter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.agents import fold_into, read_in_order
from tests.recordings import RingRecording, history, live_in_account, live_in_table, peaks_agree, state
from tests.scripted_agent import SLOTS, Agent
from ttmem.account.ledger import Ledger
from ttmem.account.totals import TotalWithContents
from ttmem.model.kinds import Kind
from ttmem.recording.blocks import FILE_HEADER, HEADER_SIZE, BlockType, RecordingError
from ttmem.recording.recording_file import Recording
from ttmem.wire.agent_ring import RingEvent

# Of the first or second process: an action, the slot of the table, and the mesh.
SCRIPT = st.lists(st.tuples(st.booleans(), st.integers(0, 9), st.integers(0, 11), st.integers(0, 2)), max_size=60)


class TwoProcesses:
    """Two agents on the same four chips, the account of them, and their recording."""

    def __init__(self) -> None:
        self.agents = [Agent(), Agent()]
        for agent in self.agents:
            for chip in range(4):
                agent.chip(chip, 555 + chip, chip)
            agent.mesh(0, [0, 1, 2, 3])
            agent.mesh(1, [0, 1], parent=0)
            agent.mesh(2, [2, 3], parent=0)
            for mesh in range(3):
                agent.opened(mesh)
        self.recorded = RingRecording(*self.agents)
        self.ledger = Ledger(all_chips=TotalWithContents())
        self.folds = [fold_into(self.ledger, agent.open(), number) for number, agent in enumerate(self.agents, 1)]

    def act(self, second: bool, action: int, slot: int, mesh: int) -> None:
        agent = self.agents[second]
        agent.clock = max(one.clock for one in self.agents) + 1000  # a time of its own for each record
        if action == 9:
            number = agent.get("phases_began")
            if number % 2:
                agent.record(RingEvent.PHASE_ENDED, address=number)
            else:
                agent.record(RingEvent.PHASE_BEGAN, address=number + 1, name=agent.blob(f"phase {slot}".encode()))
            agent.put(phases_began=number + 1)
        elif slot < 8:
            if slot in agent.live:
                agent.free(slot)
            else:
                agent.allocate(slot, 100 * (action + 1), kind=(Kind.DRAM, Kind.L1)[action % 2], mesh=mesh)
        elif second:
            return  # two processes do not run programs on one chip
        elif slot in agent.live and action % 2:
            agent.run(slot, mesh=agent.live[slot].mesh)
        elif slot in agent.live:
            agent.destroyed(slot, slot + 100, mesh=agent.live[slot].mesh)
        else:
            agent.program(slot, slot + 100, ran=action % 2 == 0, mesh=mesh)

    def act_at_random(self, chance: random.Random, steps: int) -> None:
        """Many steps, of which some are looked at, and some tables and histories are recorded."""
        self.look()
        for number in range(steps):
            self.act(chance.random() < 0.5, chance.randrange(10), chance.randrange(12), chance.randrange(3))
            if number % 4 == 3:
                self.look()
                self.recorded.poll(flush=chance.random() < 0.5)
                if chance.random() < 0.2:
                    self.recorded.table()
                if chance.random() < 0.2:
                    self.remember()

    def look(self) -> None:
        """Apply what is new, both rings in order of time."""
        read_in_order(self.folds)

    def remember(self) -> None:
        now = max(agent.clock for agent in self.agents) * 1e-9
        self.recorded.history(now, self.ledger, [fold.ring.cursor for fold in self.folds])

    def close(self) -> None:
        for fold in self.folds:
            fold.ring.close()
        for agent in self.agents:
            agent.close()


@settings(max_examples=40)
@given(st.data())
def test_any_moment_of_two_processes_on_a_mesh(data: st.DataObject) -> None:
    both = TwoProcesses()
    try:
        both.look()
        for number, step in enumerate(data.draw(SCRIPT)):
            both.act(*step)
            if number % 4 == 3:
                both.look()
                both.recorded.poll(flush=data.draw(st.booleans()))
                if data.draw(st.booleans()):
                    both.recorded.table()
                if data.draw(st.booleans()):
                    both.remember()
        both.look()
        recording = both.recorded.recording()
        end = recording.at(from_start=True).ledger
        assert state(end) == state(both.ledger)
        assert history(end) == history(both.ledger)
        times = [
            time
            for process in recording.processes.values()
            for number in range(1, process.end + 1)
            if (time := process.time_of(number)) is not None
        ]
        for time in {*data.draw(st.lists(st.sampled_from(times), max_size=6)), inf}:
            moment, whole = recording.at(time), recording.at(time, from_start=True)
            assert state(moment.ledger) == state(whole.ledger)
            assert history(moment.ledger) == history(whole.ledger)
            assert moment.all_chips.peak.value == whole.all_chips.peak.value
            assert live_in_table(recording, time) == live_in_account(whole.ledger)
            assert moment.all_chips.peak.time == whole.all_chips.peak.time
        assert not recording.problems
    finally:
        both.close()


@pytest.mark.parametrize("seed", range(6))
def test_any_moment_of_a_long_script(seed: int) -> None:
    chance, both = random.Random(seed), TwoProcesses()
    both.act_at_random(chance, 240)
    recording = both.recorded.recording()
    histories = [block.time for block in recording.blocks() if block.type == BlockType.HISTORY]
    assert len(histories) > 4
    for time in [*histories, *(chance.uniform(recording.begin, recording.end) for _ in range(12)), inf]:
        moment, whole = recording.at(time).ledger, recording.at(time, from_start=True).ledger
        assert state(moment) == state(whole)
        assert history(moment) == history(whole)
        assert live_in_table(recording, time) == live_in_account(whole)
    peaks_agree(recording, recording.at(from_start=True).ledger)
    assert not recording.problems
    both.close()


def test_a_program_runs_again_after_another_one_was_destroyed() -> None:
    """The table has no launch of the destroyed one, but the first was not resident any more."""
    both = TwoProcesses()
    first = both.agents[0]
    first.program(8, 108, ran=True)
    first.program(9, 109, ran=True)
    first.destroyed(9, 109)
    both.look()
    both.recorded.poll(flush=True)
    both.recorded.table()
    both.remember()
    before = recording_of(both).at().ledger
    first.run(8)
    recording = recording_of(both)
    after, whole = recording.at().ledger, recording.at(from_start=True).ledger
    assert [state(ledger)["resident"]["555"] for ledger in (before, after, whole)] == [[], [(108, 3)], [(108, 3)]]
    both.close()


def recording_of(both: TwoProcesses) -> Recording:
    return both.recorded.recording()


@pytest.fixture(scope="module")
def whole() -> bytes:
    """A recording with a block of each type that rings have."""
    both = TwoProcesses()
    for number in range(40):
        both.act(number % 3 == 0, number % 10, number % 12, number % 3)
        if number % 5 == 4:
            both.look()
            both.recorded.poll(flush=True)
            if number % 10 == 9:
                both.recorded.table()
                both.remember()
    both.agents[0].churn(4 * SLOTS)
    both.recorded.poll(flush=True)
    both.recorded.blocks.finish()
    both.close()
    return both.recorded.file.getvalue()


def test_the_recording_has_all_types(whole: bytes) -> None:
    from ttmem.recording.blocks import SegmentReader

    found = {block.type for block in SegmentReader(io.BytesIO(whole)).blocks}
    assert found == set(BlockType) - {BlockType.FACTS, BlockType.EVENTS, BlockType.SAMPLES, BlockType.INDEX}


def test_cut_at_every_byte_of_the_structure(whole: bytes) -> None:
    """What was written before the cut is read, and the cut is reported unless it is between two blocks.

    That is: at every byte of the file header and of each block's header, and at every fifth byte of payloads.
    """
    blocks = Recording(io.BytesIO(whole)).blocks()
    ends = {block.at + block.stored for block in blocks} | {FILE_HEADER.size}
    headers = {place for block in blocks for place in range(block.at - HEADER_SIZE, block.at + 2)}
    readable = 0
    for length in sorted({*ends, *headers, *range(FILE_HEADER.size), *range(0, max(ends), 5)}):
        try:
            recording = Recording(io.BytesIO(whole[:length]))
        except RecordingError:
            assert length < FILE_HEADER.size
            continue
        assert not recording.finished
        assert bool(recording.problems) == (length not in ends)
        if length % 100 == 0:
            recording.at()
            readable += 1
    assert readable > 50


def test_damage_at_every_byte(whole: bytes) -> None:
    """A changed byte costs at most its block: the rest is shown, and a sentence says that something is damaged."""
    blocks = Recording(io.BytesIO(whole)).blocks()
    last = max(block.at + block.stored for block in blocks)
    firsts = {block.type: block for block in reversed(blocks)}
    places = {place for block in firsts.values() for place in range(block.at - HEADER_SIZE, block.at + 4)}
    places |= {place for block in blocks for place in (block.at - HEADER_SIZE, block.at + block.stored - 1)}
    for number, place in enumerate(sorted(places)):
        damaged = bytearray(whole)
        damaged[place] ^= 0x55
        recording = Recording(io.BytesIO(damaged if number % 2 else damaged[:last]))  # with the index, and without
        recording.at(from_start=number % 10 == 0)
        if not number % 2:
            assert recording.problems or all(block.at != place + 1 for block in blocks)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "not a ttmem recording"),
        (b"TTMEMEVT" + bytes(100), "not a ttmem recording"),
        (b"TTMEMREC\2\0\0\0\0\0\0\0", "recording of version 2; this ttmem reads version 1"),
    ],
)
def test_something_else(data: bytes, words: str) -> None:
    with pytest.raises(RecordingError, match=words):
        Recording(io.BytesIO(data))


def test_a_moment_between_two_records(whole: bytes) -> None:
    recording = Recording(io.BytesIO(whole))
    process = recording.processes[2]
    time = process.time_of(5)
    assert time is not None
    before = sum(process.count for process in recording.at(nextafter(time, -inf)).ledger.processes.values())
    after = sum(process.count for process in recording.at(time).ledger.processes.values())
    assert (before, after) == (0, 1) or after - before in (-1, 0, 1)
