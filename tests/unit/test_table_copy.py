# SPDX-License-Identifier: Apache-2.0
"""A copy of a live table that is corrected with records: compared with a simple model, and what it costs."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from tests.ring_memory import RingMemory
from ttmem.model.kinds import Kind
from ttmem.wire import table_copy
from ttmem.wire.agent_ring import KEPT, PROGRAM_FRAME, RAN, RECORD, RECORD_SIZE, Record, RingError, RingEvent
from ttmem.wire.table_copy import TableCopy, copy_table

MOST = 48
SLOTS, PROGRAMS, WORKLOADS = range(MOST + 4), range(1, 7), range(1, 4)  # some slots are outside the table
Table = dict[int, Record]


def record(event: int, sequence: int, slot: int = 0, **fields: int) -> Record:
    plain = dict.fromkeys(Record._fields, 0) | {"event": int(event), "sequence": sequence, "slot": slot, "time": 1}
    return Record(**(plain | fields))


def frame(sequence: int, slot: int, program: int, workload: int = 0, **fields: int) -> Record:
    fields = {"kind": PROGRAM_FRAME, "program": program, "per_bank": workload, **fields}
    return record(RingEvent.PROGRAM, sequence, slot, **fields)


def apply(table: Table, change: Record) -> None:
    """What the agent changes with a record. Only live rows are in the table."""
    event, slot = change.event, change.slot
    old = table.get(slot)
    if event == RingEvent.DESTROYED:
        gone = [table.pop(at) for at in sorted(table) if table[at].program == change.program]
        for frame in gone:
            if frame.kind != PROGRAM_FRAME or not frame.flags & RAN or not frame.per_bank:
                continue
            heirs = [at for at in sorted(table) if table[at].kind == PROGRAM_FRAME]
            heirs = [at for at in heirs if table[at].per_bank == frame.per_bank]
            if heirs:
                heir = table[heirs[0]]
                time = max(heir.time, frame.time) if heir.flags & RAN else frame.time
                table[heirs[0]] = heir._replace(flags=heir.flags | RAN, time=time)
    elif slot >= MOST:
        pass
    elif event == RingEvent.ALLOCATED:
        table[slot] = change
    elif event == RingEvent.PROGRAM:
        again = old is not None and old.program == change.program and change.flags & RAN
        table[slot] = change._replace(time=old.time) if old is not None and again else change
    elif old is None:
        pass
    elif event == RingEvent.NAMED:
        table[slot] = old._replace(name=change.name, flags=change.flags | old.flags & RAN)
    elif event == RingEvent.FREED:
        del table[slot]
    elif event == RingEvent.RUN:
        table[slot] = old._replace(time=change.time, flags=old.flags | RAN)


def rows_of(table: Table) -> bytes:
    rows = bytearray((max(table, default=-1) + 1) * RECORD_SIZE)
    for slot, row in table.items():
        RECORD.pack_into(rows, slot * RECORD_SIZE, *row)
    return bytes(rows)


def any_record(dice: random.Random, sequence: int) -> Record:
    slot, time, flags = dice.choice(SLOTS), dice.randrange(1, 100), dice.choice((0, 0, KEPT))
    program, workload = dice.choice(PROGRAMS), dice.choice(WORKLOADS)
    events = (
        *(RingEvent.ALLOCATED,) * 4, *(RingEvent.PROGRAM,) * 5, *(RingEvent.RUN,) * 5, *(RingEvent.FREED,) * 3,
        *(RingEvent.NAMED,) * 2, *(RingEvent.DESTROYED,) * 2,
    )  # fmt: skip
    event = dice.choice(events)
    if event == RingEvent.PROGRAM:
        return frame(sequence, slot, program, workload, time=time, flags=flags | dice.choice((0, 0, RAN)))
    if event == RingEvent.ALLOCATED:
        part = {"kind": Kind.CB, "program": program} if dice.random() < 0.7 else {"kind": Kind.DRAM}
        return record(event, sequence, slot, time=time, flags=flags, per_bank=workload, **part)
    return record(event, sequence, slot, time=time, flags=flags, program=program, name=dice.randrange(9))


@pytest.mark.parametrize("seed", range(60))
def test_records_change_a_copy_as_they_changed_the_table(seed: int) -> None:
    dice = random.Random(seed)
    before, table = dice.choice((0, 40)), Table()
    for sequence in range(1, before + 1):
        apply(table, any_record(dice, sequence))
    copy = TableCopy(rows_of(table), before, MOST)
    for sequence in range(before + 1, before + 300):
        change = any_record(dice, sequence)
        apply(table, change)
        copy.apply(change)
        live = {slot: copy.record(slot) for slot in range(len(copy)) if copy.sequences(slot, slot + 1)[0]}
        assert live == table
    assert copy.records() == sorted(table.values())
    frames = [slot for slot in sorted(table) if table[slot].kind == PROGRAM_FRAME]
    assert list(copy.frames()) == [(slot, table[slot]) for slot in frames]
    assert [slot for slot in range(len(copy) + 2) if copy.has_frame(slot)] == frames


# -- what it costs


class Reading:
    """Counts the rows that are read of copies."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.rows = 0
        self._patch = patch
        for name in ("sequences", "programs", "names", "flags"):
            self._count(name, lambda copy, first, last: int(last - first))
        self._count("record", lambda copy, slot: 1)
        self._count("records", lambda copy: len(copy))
        self._count("frames", lambda copy: len(copy))

    def _count(self, name: str, rows: Callable[..., int]) -> None:
        real = getattr(TableCopy, name)

        def read(copy: TableCopy, *arguments: int) -> Any:
            self.rows += rows(copy, *arguments)
            return real(copy, *arguments)

        self._patch.setattr(TableCopy, name, read)


@pytest.fixture
def reading(monkeypatch: pytest.MonkeyPatch) -> Reading:
    return Reading(monkeypatch)


TABLE, RECORDS = 4096, 500
MOST_ROWS = 10 * (TABLE + RECORDS)  # of TABLE * RECORDS if each record had a pass over the table


def full(*frames: Record) -> TableCopy:
    table = {slot: record(RingEvent.ALLOCATED, slot + 1, slot, kind=Kind.DRAM) for slot in range(TABLE)}
    table.update({frame.slot: frame for frame in frames})
    return TableCopy(rows_of(table), TABLE, TABLE)


def test_programs_that_the_table_does_not_have(reading: Reading) -> None:
    copy = full()
    for number in range(RECORDS):
        copy.apply(record(RingEvent.DESTROYED, TABLE + 1 + number, program=number + 1))
    assert reading.rows <= MOST_ROWS


def test_programs_that_come_and_go(reading: Reading) -> None:
    copy = full()
    for number in range(0, RECORDS, 4):
        copy.apply(frame(TABLE + number + 1, 7, number + 1, number + 1, flags=RAN))
        copy.apply(record(RingEvent.ALLOCATED, TABLE + number + 2, 9, kind=Kind.CB, program=number + 1))
        copy.apply(record(RingEvent.FREED, TABLE + number + 3, 9, kind=Kind.CB, program=number + 1))
        copy.apply(record(RingEvent.DESTROYED, TABLE + number + 4, 7, program=number + 1))
    assert reading.rows <= MOST_ROWS
    assert copy.sequences(7, 8) == copy.sequences(9, 10) == [0]


def test_programs_of_one_workload(reading: Reading) -> None:
    """Each passes its launch on to another one."""
    frames = [frame(slot + 1, slot, slot + 1, 5, flags=RAN, time=TABLE - slot) for slot in range(RECORDS + 1)]
    copy = full(*frames)
    for number in range(RECORDS):
        copy.apply(record(RingEvent.DESTROYED, TABLE + 1 + number, number, program=number + 1))
    assert reading.rows <= MOST_ROWS
    ((slot, last),) = copy.frames()
    assert (slot, last.flags & RAN, last.time) == (RECORDS, RAN, TABLE)


def test_records_that_are_written_while_the_table_is_copied(reading: Reading, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = RingMemory(slots=2 * RECORDS, table=TABLE)
    for slot in range(TABLE):
        memory.append(RingEvent.ALLOCATED, slot, kind=Kind.DRAM)
    with closing(memory), closing(memory.open()) as ring:
        real = ring.table_rows

        def rows() -> bytearray:
            found = real()
            for number in range(RECORDS):
                memory.write(RingEvent.DESTROYED, 0, program=number + 1)
            return found

        monkeypatch.setattr(ring, "table_rows", rows)
        copy = copy_table(ring)
    assert copy.sequence == TABLE + RECORDS
    assert reading.rows <= MOST_ROWS
    assert len(copy.records()) == TABLE


def test_the_larger_a_table_or_a_ring_the_fewer_times_they_are_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its owner may write so fast, or say so, that each copy is too old. Others wait meanwhile."""
    monkeypatch.setattr(table_copy, "_MOST_COPIED_BYTES", 128 * RECORD_SIZE)
    copies = []
    for slots, records in ((8, 8), (57, 8), (8, 57)):
        with closing(RingMemory(table=slots, slots=records)) as memory, closing(memory.open()) as ring:
            memory.put(table_high=slots)
            rows, count = ring.table_rows, 0

            def overwritten() -> bytearray:
                nonlocal count
                count += 1
                for _ in range(2 * memory.slots):
                    memory.write()
                return rows()  # noqa: B023 - called at once

            monkeypatch.setattr(ring, "table_rows", overwritten)
            with pytest.raises(RingError):
                copy_table(ring)
            copies.append(count)
    assert copies == [9, 2, 2], "a ring of 8 records has 7 that can be read"
