# SPDX-License-Identifier: Apache-2.0
"""Which slots of a table changed, compared with a comparison of whole tables."""

from __future__ import annotations

import random

import pytest

from ttmem.ingest import known_slots
from ttmem.ingest.known_slots import KnownSlots
from ttmem.wire.agent_ring import RECORD_SIZE, Record, RingEvent
from ttmem.wire.table_copy import TableCopy

MOST = 300


def record(slot: int, sequence: int, name: int) -> Record:
    plain = dict.fromkeys(Record._fields, 0)
    return Record(**(plain | {"sequence": sequence, "slot": slot, "name": name, "event": int(RingEvent.ALLOCATED)}))


def table_of(rows: dict[int, tuple[int, int]]) -> TableCopy:
    table = TableCopy(bytes(RECORD_SIZE), 0, MOST)
    for slot, (sequence, name) in rows.items():
        table.apply(record(slot, sequence, name))
    return table


@pytest.mark.parametrize("seed", range(20))
def test_the_changed_slots_are_found(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_slots, "_CHUNK_SLOTS", 16)
    dice = random.Random(seed)
    known = KnownSlots(MOST)
    before: dict[int, tuple[int, int]] = {}
    sequence = 0
    for _ in range(10):
        now = dict(before)
        for _ in range(dice.choice((0, 1, 5, 60))):
            slot = dice.randrange(MOST)
            sequence += 1
            choice = dice.random()
            if choice < 0.3:
                now.pop(slot, None)
            elif choice < 0.5 and slot in now:
                now[slot] = now[slot][0], dice.randrange(1, 9)
            else:
                now[slot] = sequence, dice.randrange(1, 9)
        found = [one for chunk in known.changed(table_of(now)) for one in chunk]
        expected = [
            (slot, now.get(slot, (0, 0))[0], slot in now and slot in before and now[slot][0] == before[slot][0])
            for slot in range(MOST)
            if now.get(slot) != before.get(slot)
        ]
        assert found == expected
        before = now


def test_records_that_were_read_are_known() -> None:
    known = KnownSlots(MOST)
    known.put(5, 77, 3)
    known.put(MOST, 78, 3)  # the table has no such slot
    assert len(known.sequences) <= MOST
    assert [one for chunk in known.changed(table_of({5: (77, 3)})) for one in chunk] == []
    assert [one for chunk in known.changed(table_of({5: (77, 4)})) for one in chunk] == [(5, 77, True)]
    assert [one for chunk in known.changed(table_of({})) for one in chunk] == [(5, 0, False)]
