# SPDX-License-Identifier: Apache-2.0
"""Fills a ring of a mesh of many chips and hands it over to a server that does not listen yet; then it is killed."""

from __future__ import annotations

import sys
from struct import pack_into

from tests.attacks.client import connect, hold
from tests.ring_memory import RingMemory
from ttmem.wire.ring import NO_SLOT, RECORD, RECORD_SIZE, Record, RingEvent


def main(path: str, chips: int, records: int) -> None:
    memory = RingMemory(slots=records + 8, chips=chips)
    memory.plain(chips=range(chips), uids=1000)
    plain = Record(0, 10**9, int(RingEvent.ALLOCATED), 0, 0, 0, 1, 0, 64, 64, NO_SLOT, 0, 0, 0, 0, 0)
    head = memory.get("head")
    for number in range(records - 1):
        head += 1
        event = RingEvent.FREED if number % 2 else RingEvent.ALLOCATED
        record = plain._replace(sequence=head, event=int(event), address=(number // 2 % 1000) << 12)
        RECORD.pack_into(memory.map, memory.at["ring_at"] + head % memory.slots * RECORD_SIZE, *record)
    pack_into("<Q", memory.map, 128, head)
    with connect(path) as sock:
        memory.hand_over(sock)
        hold()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
