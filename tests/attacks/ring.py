# SPDX-License-Identifier: Apache-2.0
"""Sends memory with invalid values, or memory that changes in ways no agent would change it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from tests.attacks.client import connect, hold, wait_for_sync
from tests.fuzz_known import RINGS
from tests.ring_memory import RingMemory
from ttmem.wire import handshake
from ttmem.wire.agent_ring import NO_SLOT, RingEvent

_FAR = 1 << 63
_UINT64 = (1 << 64) - 1


def head_jumps(memory: RingMemory) -> None:
    """The head moves forwards and backwards by half of its range, repeatedly."""
    for jump in range(400):
        memory.put(head=(memory.get("head") + (_FAR if jump % 2 else _UINT64)) & _UINT64)
        time.sleep(0.005)


def head_goes_back(memory: RingMemory) -> None:
    for _ in range(400):
        memory.put(head=max(1, memory.get("head") - 1))
        memory.append(kind=0, address=64, size=64)
        memory.put(head=1)
        time.sleep(0.005)


def turn_is_odd(memory: RingMemory) -> None:
    """A mesh whose entry always looks half written."""
    for turn in range(1, 2000, 2):
        memory.put_mesh(0, turn=turn)
        memory.append(kind=0, address=turn << 12, size=64)
        time.sleep(0.001)


def meshes_name_each_other(memory: RingMemory) -> None:
    """Each mesh claims to be a part of the other."""
    for mesh, other in ((0, 1), (1, 2), (2, 0), (3, 0xFFFE)):
        memory.put_mesh(mesh, state=1, turn=2, parent=other, chips=memory.chip_list([0]), chip_count=1)
        memory.append(RingEvent.OPENED, mesh=mesh)
        memory.append(kind=0, mesh=mesh, address=64, size=64)
    for mesh in (0, 1, 2, 3):
        memory.append(RingEvent.CLOSED, mesh=mesh)


def mesh_of_65535_chips(memory: RingMemory) -> None:
    """As many chips as a list can hold, and a larger count; all are the same chip."""
    memory.put_mesh(0, chips=memory.chip_list([0, 1, 2, 3] * 512), chip_count=65535)
    memory.append(RingEvent.OPENED, mesh=0)
    for slot in range(1000):
        memory.append(kind=0, slot=slot % 64, address=slot << 12, size=64)


def sequence_is_wrong(memory: RingMemory) -> None:
    for number in range(50):
        memory.append(kind=0, address=number << 12, size=64, sequence=number * 7 + 3)
        time.sleep(0.005)


def table_is_wrong(memory: RingMemory) -> None:
    """A live table that is full of allocations of meshes that do not exist."""
    for slot in range(64):
        memory.append(kind=0, slot=slot, address=slot << 12, size=64, mesh=65535, program=0)
    memory.put(head=1 << 40, table_high=0xFFFFFFFF)


def writes_for_ever(memory: RingMemory) -> None:
    """Write faster than any reader can read, until killed or for a limited time."""
    print("ready", flush=True)
    deadline = time.monotonic() + 120
    address = 0
    while time.monotonic() < deadline:
        for _ in range(1000):
            address = (address + 1) & 0xFFFF
            memory.append(RingEvent.ALLOCATED, NO_SLOT, kind=0, address=address << 12, size=64, per_bank=64)
            memory.append(RingEvent.FREED, NO_SLOT, kind=0, address=address << 12, size=64)


MOTIONS: dict[str, Callable[[RingMemory], None]] = {
    one.__name__: one
    for one in (
        head_jumps,
        head_goes_back,
        turn_is_odd,
        meshes_name_each_other,
        mesh_of_65535_chips,
        sequence_is_wrong,
        table_is_wrong,
        writes_for_ever,
    )
}


def main(path: str, name: str) -> None:
    memory = RingMemory(slots=1024)
    if name in RINGS:
        RINGS[name](memory)
    else:
        memory.plain(chips=(0, 1, 2, 3))
    with connect(path) as sock:
        memory.hand_over(sock)
        sock.sendall(handshake.sync(99))
        wait_for_sync(sock)
        if name in MOTIONS:
            MOTIONS[name](memory)
        hold()


if __name__ == "__main__":
    main(*sys.argv[1:])
