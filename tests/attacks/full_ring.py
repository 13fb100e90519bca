# SPDX-License-Identifier: Apache-2.0
"""Sends the ring of a mesh of many chips; on command, it fills the ring at once, and is then killed."""

from __future__ import annotations

import sys

from tests.attacks.client import connect, hold, wait_for_sync
from tests.ring_memory import RingMemory
from ttmem.wire import handshake
from ttmem.wire.agent_ring import NO_SLOT, RECORD, RECORD_SIZE, Record, RingEvent


def main(path: str, chips: int, records: int) -> None:
    memory = RingMemory(slots=records, chips=chips)
    memory.plain(chips=range(chips), chip_ids=1000)
    with connect(path) as sock:
        memory.hand_over(sock)
        sock.sendall(handshake.sync(99))
        wait_for_sync(sock)
        hold()
        _fill(memory, records - 8)  # records that are overwritten are lost
        hold()


def _fill(memory: RingMemory, records: int) -> None:
    """Every fifth record opens the mesh again, which takes time for each chip. A buffer takes no longer on a mesh."""
    plain = Record(0, 10**9, int(RingEvent.OPENED), 0, 0, 0, 1, 0, 64, 64, NO_SLOT, 0, 0, 0, 0, 0)
    events = (*(RingEvent.ALLOCATED, RingEvent.FREED) * 2, RingEvent.OPENED)
    head = memory.get("head")
    for number in range(records):
        head += 1
        event = int(events[number % 5])
        record = plain._replace(sequence=head, event=event, address=(number // 5 % 1000) << 12)
        RECORD.pack_into(memory.map, memory.at["ring_at"] + head % memory.slots * RECORD_SIZE, *record)
    memory.put(head=head)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
