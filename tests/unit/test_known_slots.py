# SPDX-License-Identifier: Apache-2.0
"""Which slots of a table changed, compared with a comparison of whole tables."""

from __future__ import annotations

import random

import pytest

from ttmem.ingest import known_slots
from ttmem.ingest.known_slots import KnownSlots
from ttmem.wire.agent_ring import BINARY, KEPT, RAN, RECORD_SIZE, Record, RingEvent
from ttmem.wire.table_copy import TableCopy

MOST = 300


Row = tuple[int, int, int]  # sequence, name, flags


def record(slot: int, row: Row) -> Record:
    plain = dict.fromkeys(Record._fields, 0) | {"event": int(RingEvent.ALLOCATED), "slot": slot}
    return Record(**(plain | dict(zip(("sequence", "name", "flags"), row))))


def table_of(rows: dict[int, Row]) -> TableCopy:
    table = TableCopy(bytes(RECORD_SIZE), 0, MOST)
    for slot, row in rows.items():
        table.apply(record(slot, row))
    return table


@pytest.mark.parametrize("seed", range(20))
def test_the_changed_slots_are_found(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_slots, "CHUNK_SLOTS", 16)
    dice = random.Random(seed)
    known = KnownSlots(MOST)
    before: dict[int, Row] = {}
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
                now[slot] = now[slot][0], dice.randrange(1, 9), dice.choice((0, KEPT, BINARY))
            else:
                now[slot] = sequence, dice.randrange(1, 9), 0
        found = [one for chunk in known.changed(table_of(now)) for one in chunk]
        expected = [
            (slot, now.get(slot, (0, 0, 0))[0], slot in now and slot in before and now[slot][0] == before[slot][0])
            for slot in range(MOST)
            if now.get(slot) != before.get(slot)
        ]
        assert found == expected
        before = now


def test_records_that_were_read_are_known() -> None:
    known = KnownSlots(MOST)
    known.put(5, 77, 3, KEPT)
    known.put(MOST, 78, 3, 0)  # the table has no such slot
    known.describe(MOST, 4, 0)
    assert len(known.sequences) <= MOST

    def changed(rows: dict[int, Row]) -> list[tuple[int, int, bool]]:
        return [one for chunk in known.changed(table_of(rows)) for one in chunk]

    assert changed({5: (77, 3, KEPT | RAN)}) == [], "a launch changes nothing of an allocation"
    assert changed({5: (77, 4, KEPT)}) == [(5, 77, True)]
    assert changed({5: (77, 4, BINARY)}) == [(5, 77, True)]
    known.describe(5, 9, KEPT)
    assert changed({5: (77, 9, KEPT)}) == []
    assert changed({}) == [(5, 0, False)]
