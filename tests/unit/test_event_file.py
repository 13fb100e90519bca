# SPDX-License-Identifier: Apache-2.0
"""The event file: what was written is read again, and damage costs only what comes after it."""

from __future__ import annotations

import io
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.test_client_records import EVENT, EVENTS
from ttmem.account.entities import Source
from ttmem.account.ledger import Ledger
from ttmem.documents.peaks import peaks
from ttmem.documents.snapshot import take_snapshot
from ttmem.model import events as ev
from ttmem.model.identity import ChipInfo, ProcessInfo
from ttmem.model.kinds import Confidence, Kind
from ttmem.recording import event_file as journal
from ttmem.recording.event_file import MAGIC, VERSION, EventFileError, EventFileReader, EventFileWriter
from ttmem.wire import client_records as native
from ttmem.wire.client_decode import decode
from ttmem.wire.client_encode import encode

SOURCE, STACK = 0xB0, 0xB1
HEADER = 16
ENVELOPE = 8
FIRST = ProcessInfo(10, 1, 1000, "first", "first --flag")
SECOND = ProcessInfo(11, 2)

# Who says what; None is the machine itself.
STORY: list[tuple[ProcessInfo | None, str, ev.Event]] = [
    (None, "", ev.ChipFound(ChipInfo("A", kmd=0, board="n150"))),
    (FIRST, "agent", ev.DeviceOpened(0, ChipInfo("A"))),
    (FIRST, "agent", ev.Allocated(0, Kind.DRAM, 0x1000, 4096, extra=ev.Extra(reserved=8192, cores=3, tag="weights"))),
    (SECOND, "legacy", ev.Allocated(1, Kind.L1, 0x2000, 2048)),
    (FIRST, "agent", ev.Allocated(0, Kind.L1, 0x4000, 64, extra=ev.Extra(stack="model.py:7 forward\nmain.py:3 main"))),
    (
        FIRST,
        "agent",
        ev.Described(0, Kind.L1, 0x4000, ev.Extra(shape="[1]", stack="model.py:7 forward\nmain.py:3 main")),
    ),
    (FIRST, "agent", ev.Allocated(0, Kind.CB, 0x3000, 1024, 7)),
    (SECOND, "legacy", ev.Freed(1, None, 0x2000)),
    (SECOND, "legacy", ev.Freed(1, None, 0x2000)),
    (None, "", ev.PeaksReset()),
    (FIRST, "agent", ev.ProcessExited()),
]


class Recording:
    """A ledger and the file of what it was told, with the length of the file after each event."""

    def __init__(self) -> None:
        self.file = io.BytesIO()
        self.ledger = Ledger()
        self.writer = EventFileWriter(self.file)
        self.lengths = [self.file.tell()]
        self.snapshots = [self.snapshot(self.ledger)]
        self.time = 0.0

    def source(self, info: ProcessInfo, name: str) -> Source:
        confidence = Confidence.EXACT if name == "agent" else Confidence.REPORTED
        return self.ledger.source(self.time, info, name, confidence)

    def tell(self, source: Source | None, event: ev.Event) -> None:
        self.time += 1.0
        self.writer.write(self.time, source, event)
        self.ledger.apply(self.time, source, event)
        self.lengths.append(self.file.tell())
        self.snapshots.append(self.snapshot(self.ledger))

    def tell_all(self) -> Recording:
        for info, name, event in STORY:
            self.tell(None if info is None else self.source(info, name), event)
        return self

    @staticmethod
    def snapshot(ledger: Ledger) -> Any:
        """All that the account says, without the processes that have not said anything."""
        shown = take_snapshot(ledger, time="", host="")
        shown["processes"] = [p for p in shown["processes"] if p["allocations"] or any(p["anomalies"].values())]
        return shown, peaks(ledger), peaks(ledger, recent=True)


def replayed(data: bytes) -> tuple[Any, bool]:
    ledger = Ledger()
    reader = EventFileReader(io.BytesIO(data))
    reader.replay(ledger)
    return Recording.snapshot(ledger), reader.cut


def entry_ends(data: bytes) -> list[int]:
    """Where each entry ends, by the lengths the file itself gives."""
    at, out = HEADER, [HEADER]
    while at < len(data):
        at += ENVELOPE + int.from_bytes(data[at : at + 4], "little")
        out.append(at)
    return out


@settings(max_examples=200)
@given(st.lists(st.tuples(st.integers(0, 2), EVENT), max_size=12))
def test_what_was_written_is_read(told: list[tuple[int, ev.Event]]) -> None:
    """Any event, for the machine or for one of two sources; nothing is applied, only written."""
    file = io.BytesIO()
    writer = EventFileWriter(file)
    ledger = Ledger()
    sources = [None, *(ledger.source(0.0, info, "agent", Confidence.EXACT) for info in (FIRST, SECOND))]
    for i, (who, event) in enumerate(told):
        writer.write(float(i), sources[who], event)
    file.seek(0)
    reader = EventFileReader(file)
    stacks: dict[int, str] = {}
    entries = []
    for time, number, record in reader.entries():
        if record[0] == STACK:
            stacks[number] = record[1:].decode()
        elif record[0] != SOURCE:
            entries.append((time, number, decode(record, stacks)))
    assert [(time, event) for time, _, event in entries] == [(float(i), event) for i, (_, event) in enumerate(told)]
    numbers = {(who, number) for (who, _), (_, number, _) in zip(told, entries)}
    assert len(numbers) == len({who for who, _ in told})  # one number for each source, and no other
    assert all((who == 0) == (number == 0) for who, number in numbers)
    assert not reader.cut


def test_replay() -> None:
    recording = Recording().tell_all()
    snapshot, cut = replayed(recording.file.getvalue())
    assert snapshot == recording.snapshots[-1]
    assert not cut


def test_replay_up_to_a_time() -> None:
    recording = Recording().tell_all()
    for i in range(len(STORY) + 1):
        ledger = Ledger()
        reader = EventFileReader(io.BytesIO(recording.file.getvalue()))
        assert reader.replay(ledger, until=i + 0.5) == (float(i) if i else None)
        assert Recording.snapshot(ledger) == recording.snapshots[i]


def test_a_silent_process_does_not_turn_back_the_time() -> None:
    """It was seen long before it first spoke; the last event applied is what the caller wants to know."""
    recording = Recording()
    silent = recording.source(SECOND, "legacy")
    talker = recording.source(FIRST, "agent")
    for i in range(5):
        recording.tell(talker, ev.Allocated(0, Kind.DRAM, 0x1000 + i, 64))
    recording.tell(silent, ev.Allocated(0, Kind.DRAM, 0x1000, 64))
    reader = EventFileReader(io.BytesIO(recording.file.getvalue()))
    assert reader.replay(Ledger(), until=5.5) == 5.0


def test_a_source_that_first_speaks_after_the_exit() -> None:
    """Two connections of one process; the second one's bytes are read after the death was seen."""
    recording = Recording()
    agent, legacy = recording.source(FIRST, "agent"), recording.source(FIRST, "legacy")
    recording.tell(agent, ev.Allocated(0, Kind.DRAM, 0x1000, 64))
    recording.tell(agent, ev.ProcessExited())
    recording.tell(legacy, ev.Allocated(0, Kind.DRAM, 0x1000, 64))
    again = Ledger()
    EventFileReader(io.BytesIO(recording.file.getvalue())).replay(again)
    assert again.live_count() == recording.ledger.live_count() == 0
    assert again.anomalies == recording.ledger.anomalies == {"posthumous": 1}


def test_cut_at_every_byte() -> None:
    recording = Recording().tell_all()
    data = recording.file.getvalue()
    ends = entry_ends(data)
    assert ends[-1] == len(data)
    assert len(ends) - 1 == len(STORY) + 3  # each source is introduced once, and so is the stack
    for length in range(len(data)):
        if length < HEADER:
            with pytest.raises(EventFileError):
                EventFileReader(io.BytesIO(data[:length]))
            continue
        reader = EventFileReader(io.BytesIO(data[:length]))
        assert len(list(reader.entries())) == sum(end <= length for end in ends) - 1
        assert reader.cut == (length not in ends)
        snapshot, _ = replayed(data[:length])
        applied = max(i for i, end in enumerate(recording.lengths) if end <= length)
        assert snapshot == recording.snapshots[applied]


@pytest.mark.parametrize("flip", [0x01, 0x80, 0xFF])
def test_a_flipped_byte_stops_at_the_damaged_entry(flip: int) -> None:
    recording = Recording().tell_all()
    data = recording.file.getvalue()
    ends = entry_ends(data)
    whole = list(EventFileReader(io.BytesIO(data)).entries())
    for at in range(HEADER, len(data)):
        damaged = bytearray(data)
        damaged[at] ^= flip
        reader = EventFileReader(io.BytesIO(damaged))
        assert list(reader.entries()) == whole[: sum(end <= at for end in ends) - 1]
        assert reader.cut


@pytest.mark.parametrize(
    "tail", [b"\0" * 8, b"\0" * 4096, b"\xff" * 8, b"\xff" * 40], ids=["8 zeros", "zeros", "8", "40"]
)
def test_a_tail_that_was_never_written(tail: bytes) -> None:
    """After a power loss a file may end in blocks of zeros."""
    recording = Recording().tell_all()
    snapshot, cut = replayed(recording.file.getvalue() + tail)
    assert snapshot == recording.snapshots[-1]
    assert cut


@pytest.mark.parametrize(
    "data", [b"", b"TTMEM", b"\x7fELF" + bytes(100), b"{}" * 50], ids=["empty", "short", "elf", "json"]
)
def test_another_file(data: bytes) -> None:
    with pytest.raises(EventFileError, match=r"not a ttmem event file.*ttmem serve --record"):
        EventFileReader(io.BytesIO(data))


def test_a_file_from_the_future() -> None:
    data = MAGIC + (VERSION + 1).to_bytes(4, "little") + bytes(4)
    with pytest.raises(EventFileError, match=f"version {VERSION + 1}.*reads versions 1 to {VERSION}"):
        EventFileReader(io.BytesIO(data))


def test_an_entry_that_is_whole_but_means_nothing() -> None:
    """Written by a newer ttmem, perhaps: a sentence, not a traceback."""
    recording = Recording()
    recording.writer._entry(1.0, 0, b"\xc0" + bytes(15))
    with pytest.raises(EventFileError, match="0xc0"):
        replayed(recording.file.getvalue())


# -- stacks -------------------------------------------------------------------------------------------------------


def made(address: int, stack: str) -> ev.Allocated:
    return ev.Allocated(0, Kind.DRAM, address, 64, extra=ev.Extra(stack=stack))


def stacks_of(data: bytes) -> dict[int, str | None]:
    """What a replay has for each buffer."""
    ledger = Ledger()
    EventFileReader(io.BytesIO(data)).replay(ledger)
    return {
        allocation.address: allocation.extra.stack
        for allocation in ledger.allocations()
        if allocation.extra is not None
    }


def test_a_stack_is_written_once() -> None:
    recording = Recording()
    source = recording.source(FIRST, "agent")
    stack = "model.py:41 forward\n" * 100
    events: list[ev.Event] = [
        made(1, stack),
        ev.Described(0, Kind.DRAM, 1, ev.Extra(shape="[32, 32]", stack=stack)),
        ev.ProgramCompiled(0, 1, 0, 0, "ttnn.add", stack),
        ev.Failed(0, "it threw", "ttnn.add", stack),
    ]
    for event in events:
        recording.tell(source, event)
    data = recording.file.getvalue()
    assert data.count(stack.encode()) == 1
    assert stacks_of(data) == {1: stack}
    assert replayed(data)[0] == recording.snapshots[-1]


def test_every_event_that_can_have_a_stack_is_numbered() -> None:
    """A new one that is not would be in the file over and over."""
    able = {kind for kind in EVENTS if {"extra", "stack"} & set(kind._fields)}  # type: ignore[attr-defined]
    assert able == {ev.Allocated, ev.Described, ev.ProgramCompiled, ev.Failed}


def test_more_stacks_than_have_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest gives its number away, and whoever comes back is written again."""
    monkeypatch.setattr(journal, "_STACKS_KEPT", 3)
    recording = Recording()
    source = recording.source(FIRST, "agent")
    chance = random.Random(3)
    told = {address: f"model.py:{chance.randrange(7)} forward" for address in range(1, 200)}
    for address, stack in told.items():
        recording.tell(source, made(address, stack))
    data = recording.file.getvalue()
    assert stacks_of(data) == told
    assert len(recording.writer._stacks) == 3
    assert {number for _, number, record in EventFileReader(io.BytesIO(data)).entries() if record[0] == STACK} == {
        0,
        1,
        2,
    }


def test_a_file_that_lacks_its_beginning_misnames_nothing() -> None:
    """Somebody cut it: what a number means is not guessed."""
    recording = Recording()
    source = recording.source(FIRST, "agent")
    for address in range(1, 4):
        recording.tell(source, made(address, "model.py:1 forward"))
    data = recording.file.getvalue()
    ends = entry_ends(data)
    kinds = [record[0] for _, _, record in EventFileReader(io.BytesIO(data)).entries()]
    at = kinds.index(STACK)
    with pytest.raises(EventFileError, match="stack 0 is not defined"):
        replayed(data[: ends[at]] + data[ends[at + 1] :])


def test_a_long_stack_is_cut_where_it_was_before() -> None:
    recording = Recording()
    stack = "\u00e9" * native.MAX_LINES_BYTES
    recording.tell(recording.source(FIRST, "agent"), made(1, stack))
    assert stacks_of(recording.file.getvalue()) == {1: stack[: native.MAX_LINES_BYTES // 2]}


def test_a_file_of_the_first_version() -> None:
    """It had the stack in every record."""
    recording = Recording()
    source = recording.source(FIRST, "agent")
    recording.writer._introduce(source)
    for time, event in enumerate([made(1, "a.py:1 f"), made(2, "a.py:1 f"), made(3, "b.py:2 g")]):
        recording.writer._entry(float(time), 1, encode(event))
    data = MAGIC + (1).to_bytes(4, "little") + recording.file.getvalue()[12:]
    assert stacks_of(data) == {1: "a.py:1 f", 2: "a.py:1 f", 3: "b.py:2 g"}
