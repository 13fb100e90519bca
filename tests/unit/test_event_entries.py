# SPDX-License-Identifier: Apache-2.0
"""Events in recordings: what was written is read again, and what is invalid is reported."""

from __future__ import annotations

import io
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.test_client_records import EVENT, EVENTS
from ttmem.account.ledger import Ledger
from ttmem.documents.peaks import peaks
from ttmem.documents.snapshot import take_snapshot
from ttmem.model import events as ev
from ttmem.model.identity import ChipInfo, ProcessInfo
from ttmem.model.kinds import Confidence, Kind
from ttmem.recording import event_entries
from ttmem.recording.blocks import RecordingError
from ttmem.recording.event_entries import EventDecoder, EventEncoder
from ttmem.recording.event_recording import EventRecordingWriter
from ttmem.recording.recording_file import Recording
from ttmem.wire import client_records as native

FIRST = ProcessInfo(10, 1, 1000, "first", "first --flag")
SECOND = ProcessInfo(11, 2)
STORY: list[tuple[ProcessInfo | None, str, ev.Event]] = [
    (None, "", ev.ChipFound(ChipInfo("A", kmd=0, board="n150"))),
    (FIRST, "agent", ev.DeviceOpened(0, ChipInfo("A"))),
    (FIRST, "agent", ev.Allocated(0, Kind.DRAM, 0x1000, 4096, extra=ev.Extra(reserved=8192, cores=3, tag="weights"))),
    (SECOND, "legacy", ev.Allocated(1, Kind.L1, 0x2000, 2048)),
    (FIRST, "agent", ev.Allocated(0, Kind.L1, 0x4000, 64, extra=ev.Extra(stack="model.py:7 forward\nmain.py:3 main"))),
    (FIRST, "agent", ev.Allocated(0, Kind.CB, 0x3000, 1024, 7)),
    (SECOND, "legacy", ev.Freed(1, None, 0x2000)),
    (SECOND, "legacy", ev.Freed(1, None, 0x2000)),
    (None, "", ev.PeaksReset()),
    (FIRST, "agent", ev.ProcessExited()),
]


MACHINE = (ev.ChipFound, ev.Mark, ev.PeaksReset)  # events without a source


def made(address: int, stack: str) -> ev.Allocated:
    return ev.Allocated(0, Kind.DRAM, address, 64, extra=ev.Extra(stack=stack))


@settings(max_examples=200)
@given(st.lists(st.tuples(st.integers(0, 2), EVENT), max_size=12), st.integers(1, 4))
def test_what_was_written_is_read(told: list[tuple[int, ev.Event]], in_block: int) -> None:
    """Any event, for the machine or for one of two sources, in blocks of some events."""
    encoder, decoder, ledger = EventEncoder(), EventDecoder(), Ledger()
    told = [(who if isinstance(event, MACHINE) else who or 1, event) for who, event in told]
    sources = [None, *(ledger.source(0.0, info, "agent", Confidence.EXACT) for info in (FIRST, SECOND))]
    found = []
    for number, (who, event) in enumerate(told, 1):
        encoder.add(float(number), sources[who], event)
        if number % in_block == 0 or number == len(told):
            found += list(decoder.events(encoder.take()[0]))
    assert [(time, event) for time, _, event in found] == [(float(n), event) for n, (_, event) in enumerate(told, 1)]
    infos = [None, FIRST, SECOND]
    assert [None if source is None else source.info for _, source, _ in found] == [infos[who] for who, _ in told]
    assert encoder.events == len(told)


def test_every_moment_of_a_story() -> None:
    file, ledger = io.BytesIO(), Ledger()
    writer = EventRecordingWriter(file, {"start": 0.5})
    snapshots = [take_snapshot(ledger, time="", host="")]
    for number, (info, name, event) in enumerate(STORY, 1):
        source = None if info is None else ledger.source(float(number), info, name, Confidence.EXACT)
        writer.write(float(number), source, event)
        ledger.apply(float(number), source, event)
        snapshots.append(take_snapshot(ledger, time="", host=""))
    writer.finish()
    recording = Recording(file)
    for number, snapshot in enumerate(snapshots):
        assert take_snapshot(recording.at(number + 0.25).ledger, time="", host="") == snapshot
    assert peaks(recording.at().ledger) == peaks(ledger)
    assert not recording.problems


def test_a_source_that_first_speaks_after_the_exit() -> None:
    file, ledger = io.BytesIO(), Ledger()
    writer = EventRecordingWriter(file)
    agent, legacy = (ledger.source(0.0, FIRST, name, Confidence.EXACT) for name in ("agent", "legacy"))
    writer.write(1.0, agent, ev.Allocated(0, Kind.DRAM, 0x1000, 64))
    writer.write(2.0, agent, ev.ProcessExited())
    writer.write(3.0, legacy, ev.Allocated(0, Kind.DRAM, 0x1000, 64))
    writer.finish()
    again = Recording(file).at().ledger
    assert again.live_count() == 0
    assert again.anomalies == {"after_exit": 1}


def test_a_stack_is_written_once() -> None:
    encoder = EventEncoder()
    source = Ledger().source(0.0, FIRST, "agent", Confidence.EXACT)
    stack = "model.py:41 forward\n" * 100
    told: list[ev.Event] = [
        made(1, stack),
        ev.Described(0, Kind.DRAM, 1, ev.Extra(shape="[32, 32]", stack=stack)),
        ev.ProgramCompiled(0, 1, 0, 0, "ttnn.add", stack),
        ev.Failed(0, "it threw", "ttnn.add", stack),
    ]
    for event in told:
        encoder.add(1.0, source, event)
    entries = encoder.take()[0]
    assert entries.count(stack.encode()) == 1
    assert [event for _, _, event in EventDecoder().events(entries)] == told


def test_every_event_that_can_have_a_stack_is_numbered() -> None:
    able = {kind for kind in EVENTS if {"extra", "stack"} & set(kind._fields)}  # type: ignore[attr-defined]
    assert able == {ev.Allocated, ev.Described, ev.ProgramCompiled, ev.Failed}


def test_more_stacks_than_have_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest gives its number away; a stack that comes back is written again."""
    monkeypatch.setattr(event_entries, "_STACKS_KEPT", 3)
    encoder, chance = EventEncoder(), random.Random(3)
    source = Ledger().source(0.0, FIRST, "agent", Confidence.EXACT)
    told = [made(address, f"model.py:{chance.randrange(7)} forward") for address in range(1, 200)]
    for event in told:
        encoder.add(1.0, source, event)
    assert [event for _, _, event in EventDecoder().events(encoder.take()[0])] == told
    assert len(encoder._stacks) == 3


def test_a_reader_can_begin_where_everything_is_defined_again() -> None:
    encoder = EventEncoder()
    source = Ledger().source(0.0, FIRST, "agent", Confidence.EXACT)
    event = made(1, "model.py:1 forward")._replace(device=(0, 1))
    encoder.add(1.0, source, event)
    encoder.take()
    encoder.add(2.0, source, event)
    with pytest.raises(RecordingError, match="KeyError"):
        list(EventDecoder().events(encoder.take()[0]))
    encoder.begin_anew()
    encoder.add(3.0, source, event)
    ((_, found, again),) = EventDecoder().events(encoder.take()[0])
    assert (found and found.info, again) == (FIRST, event)


def test_a_long_stack_is_cut() -> None:
    encoder = EventEncoder()
    stack = "\u00e9" * native.MAX_LINES_BYTES
    encoder.add(1.0, Ledger().source(0.0, FIRST, "agent", Confidence.EXACT), made(1, stack))
    ((_, _, event),) = EventDecoder().events(encoder.take()[0])
    assert event == made(1, stack[: native.MAX_LINES_BYTES // 2])


@pytest.mark.parametrize(
    "block",
    [b"\1", b"\xff\xff\xff\x7f" + bytes(20), b"\x0c\0\0\0" + bytes(12), b"\x0d\0\0\0" + bytes(12) + b"\xc0"],
    ids=["short", "long", "no record", "unknown record"],
)
def test_an_invalid_block_is_reported(block: bytes) -> None:
    with pytest.raises(RecordingError, match="an event of it is invalid"):
        list(EventDecoder().events(block))
