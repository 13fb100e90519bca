# SPDX-License-Identifier: Apache-2.0
"""The reader of the agent's memory: with memory files that no agent would write, and during writes."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from struct import pack_into

import pytest
from native.tests.build import build

from tests.ring_memory import SEALS, RingMemory
from ttmem.model.validation import InvalidValue
from ttmem.wire.agent_ring import (
    BANKS_AT,
    CHIP_SIZE,
    HEADER_SIZE,
    KEPT,
    MAX_BLOB,
    MESH_SIZE,
    NO_CAUSE,
    NO_SLOT,
    PROGRAM_FRAME,
    RAN,
    RECORD_SIZE,
    VERSION,
    Record,
    Ring,
    RingError,
    RingEvent,
)
from ttmem.wire.table_copy import TableCopy, copy_table

SLOTS, TABLE, MESHES, CHIPS, BLOBS = 16, 32, 4, 4, 4096


class Memory(RingMemory):
    """A memory so small that everything in it overflows."""

    def __init__(self, size: int | None = None, seals: int = SEALS) -> None:
        super().__init__(slots=SLOTS, table=TABLE, meshes=MESHES, chips=CHIPS, blobs=BLOBS, size=size, seals=seals)

    def allocate(self, slot: int, **fields: int) -> Record:
        return self.append(RingEvent.ALLOCATED, slot, **fields)


@pytest.fixture
def memory() -> Iterator[Memory]:
    made = Memory()
    yield made
    made.close()


@pytest.fixture
def ring(memory: Memory) -> Iterator[Ring]:
    opened = memory.open()
    yield opened
    opened.close()


# -- refused memory -------------------------------------------------------------------------------------------------


def refused(fd: int) -> str:
    """The reason. The descriptor is closed as well."""
    with pytest.raises(RingError) as error:
        Ring(fd)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)
    return str(error.value)


def sealed(size: int) -> int:
    """A memory file of zeros."""
    fd = os.memfd_create("test", os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, size)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
    return fd


@pytest.mark.parametrize("seals", [0, fcntl.F_SEAL_GROW, fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL])
def test_unsealed(seals: int) -> None:
    memory = Memory(seals=seals)
    assert refused(os.dup(memory.fd)) == "it is not sealed against shrinking"
    memory.close()


def test_sealed_against_writing_is_refused_or_read() -> None:
    """Older kernels do not map such a file; newer ones do."""
    memory = Memory(seals=fcntl.F_SEAL_SHRINK)
    memory.map.close()
    fcntl.fcntl(memory.fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE)
    with contextlib.suppress(RingError):
        Ring(os.dup(memory.fd)).close()
    os.close(memory.fd)


def test_no_memory_file(tmp_path: object) -> None:
    assert refused(os.open("/dev/zero", os.O_RDONLY)) == "it is not a memory file"
    assert refused(os.open(__file__, os.O_RDONLY)) == "it is not a memory file"
    read_end, write_end = os.pipe()
    assert refused(read_end) == "it is not a memory file"
    assert refused(write_end) == "it is not a memory file"


@pytest.mark.parametrize("size", [0, 1, HEADER_SIZE - 1])
def test_too_short_for_a_header(size: int) -> None:
    assert refused(sealed(size)) == f"it has {size} bytes"


def test_nothing_but_a_header() -> None:
    memory = Memory(HEADER_SIZE)
    assert "do not fit 4096 bytes" in refused(os.dup(memory.fd))
    memory.close()


def test_far_too_large() -> None:
    assert refused(sealed(1 << 40)) == f"it has {1 << 40} bytes"


def test_another_mark_or_version(memory: Memory) -> None:
    memory.put(version=VERSION + 1)
    assert refused(os.dup(memory.fd)) == f"it is version {VERSION + 1}, this reader knows version {VERSION}"
    memory.put(magic=0)
    assert refused(os.dup(memory.fd)) == "it does not begin with the agent's mark"


@pytest.mark.parametrize(
    "at",
    ["meshes_at", "chips_at", "meters_at", "groups_at", "windows_at", "phases_at", "ring_at", "table_at", "blobs_at"],
)
def test_parts_beyond_the_end(memory: Memory, at: str) -> None:
    for offset in (0, HEADER_SIZE - 1, memory.size, memory.size - 1, memory.size + 1, 0xFFFFFFFF):
        memory.put(**{at: offset})
        assert "do not fit" in refused(os.dup(memory.fd))


@pytest.mark.parametrize(
    "count", ["meshes", "chips", "meters", "windows", "phases", "ring_slots", "table_slots", "blobs_size"]
)
def test_parts_that_are_too_many_or_none(memory: Memory, count: str) -> None:
    for number in (0, 1 << 20, 0xFFFFFFFF):
        memory.put(**{count: number})
        assert "do not fit" in refused(os.dup(memory.fd))


def test_a_ring_of_one_slot_is_refused_or_moves_on(memory: Memory) -> None:
    """With one slot, every record is about to be overwritten: a reader must not wait forever for one."""
    memory.put(ring_slots=1, head=7)
    try:
        ring = memory.open()
    except RingError:
        return
    lost, records = ring.read(100)
    assert (lost, records, ring.cursor) == (7, [], 7)
    ring.close()


# -- reading --------------------------------------------------------------------------------------------------------


def test_records_come_once_and_in_order(memory: Memory, ring: Ring) -> None:
    assert ring.read(10) == (0, [])
    wrote = [memory.write(address=i) for i in range(5)]
    assert ring.read(3) == (0, [tuple(r) for r in wrote[:3]])
    assert ring.cursor == 3
    assert ring.read(10) == (0, [tuple(r) for r in wrote[3:]])
    assert ring.read(10) == (0, [])


def test_the_ring_goes_round(memory: Memory, ring: Ring) -> None:
    expected = 0
    for burst in (1, 7, 15, 3, 15, 15, 2, 14, 15, 15):
        wrote = [memory.write(address=i) for i in range(burst)]
        assert ring.read(SLOTS) == (0, [tuple(r) for r in wrote])
        expected += burst
    assert ring.cursor == expected == ring.head


@pytest.mark.parametrize("limit", [1, 5, SLOTS, 1000])
def test_what_was_overwritten_is_counted(memory: Memory, ring: Ring, limit: int) -> None:
    wrote = [memory.write(address=i) for i in range(100)]
    lost, got = 0, []
    while True:
        missed, records = ring.read(limit)
        lost += missed
        got += records
        if not records:
            break
    # One less than the number of slots: an incomplete record may be overwriting the oldest one.
    assert got == [tuple(r) for r in wrote[-(SLOTS - 1) :]]
    assert lost == 100 - (SLOTS - 1)


def test_what_is_overwritten_while_it_is_copied_is_thrown_away(memory: Memory, ring: Ring) -> None:
    wrote = [memory.write(address=i) for i in range(10)]
    copy = ring._copy

    def slow_copy(first: int, last: int) -> bytes:
        wrote.extend(memory.write(address=100 + i) for i in range(9))  # 4 of the 10 are overwritten, 1 more will be
        ring._copy = copy  # type: ignore[method-assign]
        return copy(first, last)

    ring._copy = slow_copy  # type: ignore[method-assign]
    lost, records = ring.read(100)
    assert lost == 4
    assert records == [tuple(r) for r in wrote[4:10]]
    assert ring.read(100) == (0, [tuple(r) for r in wrote[10:]])


def test_everything_overwritten_while_it_is_copied(memory: Memory, ring: Ring) -> None:
    wrote = [memory.write(address=i) for i in range(10)]
    copy = ring._copy

    def slow_copy(first: int, last: int) -> bytes:
        wrote.extend(memory.write(address=100 + i) for i in range(100))
        ring._copy = copy  # type: ignore[method-assign]
        return copy(first, last)

    ring._copy = slow_copy  # type: ignore[method-assign]
    assert ring.read(100) == (10, [])
    lost, records = ring.read(100)
    assert lost + len(records) == 100
    assert records == [tuple(r) for r in wrote[-(SLOTS - 1) :]]


def test_a_head_without_its_record(memory: Memory, ring: Ring) -> None:
    memory.put(head=5)
    with pytest.raises(RingError, match="record 0 stands where 1 should"):
        ring.read(100)


def test_a_head_that_goes_back_or_jumps(memory: Memory, ring: Ring) -> None:
    for i in range(5):
        memory.write(address=i)
    ring.read(100)
    memory.put(head=2)
    assert ring.read(100) == (0, [])
    memory.put(head=(1 << 64) - 1)
    with pytest.raises(RingError, match="should"):
        ring.read(100)


# -- the live table -------------------------------------------------------------------------------------------------


def test_live_is_the_table(memory: Memory, ring: Ring) -> None:
    allocations = [memory.allocate(slot, address=slot) for slot in range(5)]
    memory.append(RingEvent.FREED, 2)
    del allocations[2]
    assert copy_table(ring).records() == [tuple(allocation) for allocation in allocations]
    assert ring.cursor == 6


def test_what_changes_while_the_table_is_copied_is_put_right(memory: Memory, ring: Ring) -> None:
    for slot in range(3):
        memory.allocate(slot, address=slot)
    field = ring.field

    def slow_field(name: str) -> int:
        answer = field(name)
        if name == "table_high":
            ring.field = field  # type: ignore[method-assign]
            memory.append(RingEvent.FREED, 0)
            memory.allocate(3, address=77)  # in a slot above those that are copied
            memory.allocate(0, address=88)
        return answer

    ring.field = slow_field  # type: ignore[method-assign]
    assert [record[7] for record in copy_table(ring).records()] == [1, 2, 77, 88]
    assert ring.cursor == 6


def test_programs_run_and_go(memory: Memory, ring: Ring) -> None:
    copied = ring.field("table_high")
    assert copied == 0
    field = ring.field

    def meanwhile(name: str) -> int:
        answer = field(name)
        if name == "table_high":
            ring.field = field  # type: ignore[method-assign]
            for program in (1, 2):
                memory.write(RingEvent.PROGRAM, 10 * program, program=program)
                memory.write(RingEvent.ALLOCATED, 10 * program + 1, program=program)
            memory.write(RingEvent.RUN, 20, program=2, time=55)
            memory.write(RingEvent.DESTROYED, 10, program=1)
            memory.write(RingEvent.CACHE_CLEARED)
        return answer

    ring.field = meanwhile  # type: ignore[method-assign]
    frame, part = copy_table(ring).records()
    assert (frame.slot, frame.time, frame.flags) == (20, 55, RAN)
    assert part.slot == 21


def test_launches_are_marked_on_a_program_that_is_still_there(memory: Memory, ring: Ring) -> None:
    """One frame of a workload is marked. When its program is destroyed, another one is marked."""
    for slot, (program, workload) in enumerate(((1, 5), (2, 5), (3, 6))):
        memory.append(RingEvent.PROGRAM, slot, program=program, per_bank=workload, kind=PROGRAM_FRAME, time=10 + slot)
    field = ring.field

    def meanwhile(name: str) -> int:
        answer = field(name)
        if name == "table_high":
            ring.field = field  # type: ignore[method-assign]
            memory.write(RingEvent.RUN, 0, program=1, per_bank=5, time=55)
            memory.write(RingEvent.PROGRAM, 0, program=1, per_bank=5, kind=PROGRAM_FRAME, flags=RAN, time=66)
            memory.write(RingEvent.DESTROYED, 0, program=1)
        return answer

    ring.field = meanwhile  # type: ignore[method-assign]
    frames = copy_table(ring).records()
    assert [(frame.program, frame.time, frame.flags) for frame in frames] == [(2, 55, RAN), (3, 12, 0)]


@pytest.mark.parametrize("event", ["allocated", "freed", "program", "run", "destroyed"])
def test_a_record_whose_change_of_the_table_is_not_made_yet_counts(memory: Memory, ring: Ring, event: str) -> None:
    """The agent writes the record first, then the table. It may be preempted or killed between the two."""
    frame = memory.append(RingEvent.PROGRAM, 0, program=7)
    part = memory.allocate(1, program=7, address=1)
    buffer = memory.allocate(2, address=2)
    expected = [frame, part, buffer]
    if event == "allocated":
        expected.append(memory.write(RingEvent.ALLOCATED, 3, address=3))
    elif event == "freed":
        memory.write(RingEvent.FREED, 2, address=2)
        expected = [frame, part]
    elif event == "program":
        expected.append(memory.write(RingEvent.PROGRAM, 3, program=8))
    elif event == "run":
        run = memory.write(RingEvent.RUN, 0, program=7, time=99)
        expected[0] = frame._replace(time=run.time, flags=RAN)
    else:
        memory.write(RingEvent.DESTROYED, 0, program=7)
        expected = [buffer]
    assert copy_table(ring).records() == [tuple(allocation) for allocation in expected]
    assert ring.cursor == ring.head


def test_a_mark_is_part_of_the_copy(memory: Memory) -> None:
    """The agent marks a live buffer that a cached program keeps, or changes its name, while the table is copied."""
    rows = memory.allocate(0, name=3), memory.allocate(1, kind=PROGRAM_FRAME, flags=RAN)
    copy = TableCopy(bytes(2 * RECORD_SIZE), 0, TABLE)
    for slot, row in enumerate(rows):
        copy.apply(row)
        copy.apply(row._replace(event=int(RingEvent.NAMED), slot=slot, name=9, flags=KEPT))
    assert [(row.name, row.flags) for row in copy.records()] == [(9, KEPT), (9, KEPT | RAN)]


def test_a_allocation_there_was_no_room_for_is_in_no_slot(memory: Memory, ring: Ring) -> None:
    """The table was full: the record has a flag for this, and neither table nor account contains the allocation."""
    memory.allocate(0, address=1)
    field = ring.field

    def meanwhile(name: str) -> int:
        answer = field(name)
        if name == "table_high":
            ring.field = field  # type: ignore[method-assign]
            memory.write(RingEvent.ALLOCATED, NO_SLOT, address=2)
            memory.write(RingEvent.PROGRAM, NO_SLOT, program=3)
        return answer

    ring.field = meanwhile  # type: ignore[method-assign]
    assert [record[7] for record in copy_table(ring).records()] == [1]


def test_a_table_higher_than_it_is(memory: Memory, ring: Ring) -> None:
    memory.allocate(TABLE - 1, address=5)
    memory.put(table_high=0xFFFFFFFF)
    memory.map[memory.at["blobs_at"] :] = b"\xff" * BLOBS  # the bytes after the table are not part of it
    assert [record[7] for record in copy_table(ring).records()] == [5]


def test_a_table_that_never_holds_still(memory: Memory, ring: Ring) -> None:
    field = ring.field

    def rushing(name: str) -> int:
        for _ in range(SLOTS):
            memory.write()
        return field(name)

    ring.field = rushing  # type: ignore[method-assign]
    with pytest.raises(RingError, match="faster than it can be copied"):
        copy_table(ring).records()


# -- blobs, meshes, chips -------------------------------------------------------------------------------------------


def test_blobs(memory: Memory, ring: Ring) -> None:
    at = memory.at["blobs_at"]
    pack_into("<I4s", memory.map, at + 8, 4, b"name")
    assert ring.blob(8) == b"name"
    assert ring.blob(0) == b""


def test_blobs_that_cannot_be(memory: Memory, ring: Ring) -> None:
    at = memory.at["blobs_at"]
    for offset, length in ((8, MAX_BLOB + 1), (16, 0xFFFFFFFF), (BLOBS - 8, 5), (BLOBS - 4, 1), (24, BLOBS - 27)):
        pack_into("<I", memory.map, at + offset, length)
        assert ring.blob(offset) == b""
    pack_into("<I", memory.map, at + 24, BLOBS - 28)
    assert len(ring.blob(24)) == BLOBS - 28  # to the last byte
    for number in (BLOBS, BLOBS - 3, BLOBS + 1000, 0xFFFFFFFF):
        assert ring.blob(number) == b""


def test_blobs_do_not_fill_the_readers_memory(memory: Memory, ring: Ring) -> None:
    """Overlapping blobs could use each byte in 4 KiB of text: the reader's cache stays about as large as the blobs."""
    for offset in range(8, BLOBS - 4, 4):
        pack_into("<I", memory.map, memory.at["blobs_at"] + offset, (BLOBS - offset - 4) // 2)
    for number in range(BLOBS):
        ring.blob(number)
    assert sum(len(blob) for blob in ring._blobs.values()) <= 4 * BLOBS


def test_numbers_that_are_no_blobs_do_not_fill_the_readers_memory(memory: Memory, ring: Ring) -> None:
    for number in range(BLOBS, 3 * BLOBS):
        assert ring.name(number) is None
        assert ring.cause(number) == NO_CAUSE
        assert ring.mask(number) == 0
    assert all(len(kept) <= 1 for kept in (ring._blobs, ring._names, ring._causes, ring._masks))
    for number in range(1, BLOBS):  # nothing is written there: blobs without a byte
        assert ring.name(number) is None
    assert len(ring._blobs) < BLOBS // 8


def test_meshes_and_chips_out_of_range(memory: Memory, ring: Ring) -> None:
    for number in (MESHES, -1, 65535):
        with pytest.raises(RingError, match="there is no mesh"):
            ring.mesh(number)
    for number in (CHIPS, -1, 65535):
        with pytest.raises(RingError, match="there is no chip"):
            ring.chip(number)
    memory.put(meshes_used=1000)
    assert len(ring.meshes()) == MESHES


def test_a_mesh_and_its_chips(memory: Memory, ring: Ring) -> None:
    at = memory.at["meshes_at"] + MESH_SIZE
    pack_into("<IIII", memory.map, at, 2, 1, 9, 1)
    pack_into("<II", memory.map, at + 16, 8, 2)
    pack_into("<QQQQII", memory.map, at + BANKS_AT + 40, 1360544, 1, 2, 3, 64, 32)
    pack_into("<IHH", memory.map, memory.at["blobs_at"] + 8, 4, 3, 1)
    pack_into("<QI", memory.map, memory.at["chips_at"] + 3 * CHIP_SIZE, 0xABC, 5)
    mesh = ring.mesh(1)
    assert (mesh.state, mesh.mesh_id, mesh.parent, mesh.banks[1].size, mesh.banks[1].unit) == (1, 9, 1, 1360544, 32)
    assert [(chip.unique_id, chip.number) for chip in ring.chips_of(mesh)] == [(0xABC, 5), (0, 0)]


def test_a_mesh_whose_writer_died_half_way(memory: Memory, ring: Ring) -> None:
    pack_into("<II", memory.map, memory.at["meshes_at"], 3, 1)
    assert ring.mesh(0).turn == 3


def test_a_mesh_that_is_never_finished_does_not_hold_the_reader(memory: Memory, ring: Ring) -> None:
    """A writer that changes the sequence number forever must not block a server."""
    turn_at = memory.at["meshes_at"]
    pack_into("<I", memory.map, turn_at, 1)
    read, reads = ring.copy, 0

    def counted(at: int, length: int) -> bytes:
        nonlocal reads
        reads += 1
        if reads > 10_000:
            raise TimeoutError("the reader still waits")
        pack_into("<I", memory.map, turn_at, 2 * reads + 1)
        return read(at, length)

    ring.copy = counted  # type: ignore[method-assign]
    assert ring.mesh(0).turn & 1


# -- memory damaged by its owner -------------------------------------------------------------------------------------

_PUNCH_HOLE = 3  # FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE


def punch_hole(fd: int, at: int, length: int) -> None:
    """Return pages of a memory file to the kernel. Only F_SEAL_WRITE would forbid this."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.fallocate(fd, _PUNCH_HOLE, ctypes.c_long(at), ctypes.c_long(length)):
        raise OSError(ctypes.get_errno(), "fallocate")


def blocks(fd: int) -> int:
    return os.fstat(fd).st_blocks


def test_a_hole_reads_as_nothing_and_is_not_filled_by_reading(memory: Memory, ring: Ring) -> None:
    memory.allocate(0)
    memory.map.close()
    punch_hole(memory.fd, 0, memory.size)
    assert (ring.head, ring.read(10), copy_table(ring).records()) == (0, (0, []), [])
    assert ring.mesh(0).state == 0
    assert blocks(memory.fd) == 0


def test_the_reader_does_not_map_what_it_reads(memory: Memory) -> None:
    """Only a mapping can cause SIGBUS: huge pages that were returned may not be available again."""
    inode = f" {os.fstat(memory.fd).st_ino} "
    memory.map.close()
    with contextlib.closing(memory.open()) as ring:
        copy_table(ring).records()
        with open("/proc/self/maps") as maps:
            assert not [line for line in maps if inode in line]


def test_memory_that_may_not_be_read() -> None:
    memory = Memory()
    path = f"/proc/self/fd/{memory.fd}"
    assert refused(os.open(path, os.O_WRONLY)) == "it cannot be read: Bad file descriptor"
    memory.close()


@pytest.mark.parametrize("what", ["pipe", "directory", "socket", "path"])
def test_what_is_no_memory_file_is_never_read(what: str, tmp_path: Path) -> None:
    if what == "pipe":
        fd, other = os.pipe()
        os.close(other)
    elif what == "directory":
        fd = os.open(tmp_path, os.O_RDONLY)
    elif what == "path":
        fd = os.open(tmp_path, os.O_PATH)
    else:
        fd = socket.socket(socket.AF_UNIX).detach()
    assert refused(fd) == "it is not a memory file"


def test_a_head_that_is_half_old_and_half_new_is_read_again(memory: Memory, ring: Ring) -> None:
    memory.put(head=0x1_0000_0001)
    read, torn = ring.copy, [0x1_FFFF_FFFF, 0x0_0000_0001]

    def tearing(at: int, length: int) -> bytes:
        return torn.pop().to_bytes(8, "little") if torn and length == 8 else read(at, length)

    ring.copy = tearing  # type: ignore[method-assign]
    assert ring.head == 0x1_0000_0001
    assert not torn


def test_a_head_that_jumps_for_ever_is_given_up(memory: Memory, ring: Ring) -> None:
    numbers = random.Random(3)
    ring.copy = lambda at, length: numbers.randbytes(length)  # type: ignore[method-assign]
    with pytest.raises(RingError, match="its head is never the same twice"):
        _ = ring.head


def test_a_layout_that_changes_after_it_was_checked(memory: Memory, ring: Ring) -> None:
    memory.allocate(0)
    memory.put(ring_slots=0, table_slots=1 << 31, ring_at=0xFFFFFFFF, meshes=1 << 31)
    assert len(copy_table(ring).records()) == 1
    with pytest.raises(RingError, match="there is no mesh"):
        ring.mesh(MESHES)


@pytest.mark.parametrize(
    "field", ["meshes", "chips", "meters", "windows", "phases", "ring_slots", "table_slots", "blobs_size"]
)
def test_more_of_something_than_an_agent_has(field: str) -> None:
    """Each table is read in one turn of the reader, so each has its own limit."""
    memory = Memory(size=1 << 27)
    most = {
        "meshes": 256, "chips": 256, "meters": 4096, "windows": 64, "phases": 64, "ring_slots": 1 << 16,
        "table_slots": 1 << 18,
    }.get(field, 32 << 20)  # fmt: skip
    at = field.removesuffix("_slots").removesuffix("_size") + "_at"
    memory.put(**{at: HEADER_SIZE, "groups_at": HEADER_SIZE, field: most})
    Ring(os.dup(memory.fd)).close()
    memory.put(**{field: most + 1})
    assert refused(os.dup(memory.fd)) == f"it has {most + 1} {field}; an agent has at most {most}"
    memory.close()


def test_a_core_outside_every_grid(memory: Memory, ring: Ring) -> None:
    mask = 1 << 4095 | 1
    for number, bits in ((8, mask), (800, mask | 1 << 4096)):
        pack_into("<I", memory.map, memory.at["blobs_at"] + number, 513)
        at = memory.at["blobs_at"] + number + 4
        memory.map[at : at + 513] = bits.to_bytes(513, "little")
    assert ring.mask(8) == mask
    with pytest.raises(InvalidValue, match="a core outside the 64 x 64 there can be"):
        ring.mask(800)


@pytest.mark.parametrize(
    ("chips", "numbers", "message"),
    [
        (bytes(514), {}, "a mesh of 257 chips; there can be 256"),
        (b"\0\0\1\0", {0: 7, 1: 7}, "a mesh has one chip twice"),
        (b"\0\0", {0: 1 << 31}, "device number: 2147483648 is not between"),
    ],
)
def test_meshes_that_cannot_be(memory: Memory, ring: Ring, chips: bytes, numbers: dict[int, int], message: str) -> None:
    at = memory.at["meshes_at"]
    pack_into("<II", memory.map, at, 2, 1)
    pack_into("<I", memory.map, at + 16, 8)
    pack_into("<I", memory.map, memory.at["blobs_at"] + 8, len(chips))
    start = memory.at["blobs_at"] + 12
    memory.map[start : start + len(chips)] = chips
    for chip, number in numbers.items():
        pack_into("<I", memory.map, memory.at["chips_at"] + chip * CHIP_SIZE + 8, number)
    with pytest.raises((RingError, InvalidValue), match=message):
        ring.chips_of(ring.mesh(0))


@pytest.mark.parametrize("seed", range(30))
def test_random_bytes_are_read_or_refused(seed: int) -> None:
    """For any content: a value or a RingError, within the limits."""
    numbers = random.Random(seed)
    memory = Memory()
    memory.map[HEADER_SIZE:] = numbers.randbytes(memory.size - HEADER_SIZE)
    dynamic = ("head", "table_high", "blobs_used", "meshes_used", "chips_used")
    memory.put(**{name: numbers.choice([0, 5, 40, numbers.getrandbits(32)]) for name in dynamic})
    for _ in range(numbers.randrange(3)):
        name = numbers.choice(["ring_slots", "table_slots", "ring_at", "table_at", "blobs_at", "meshes", "chips_at"])
        memory.put(**{name: numbers.choice([1, 2, 3, HEADER_SIZE, numbers.randrange(memory.size)])})
    for mesh in range(MESHES):  # an even turn: complete; the reader would wait for others
        pack_into("<I", memory.map, memory.at["meshes_at"] + mesh * MESH_SIZE, 2)
    try:
        ring = memory.open()
    except RingError:
        memory.close()
        return
    for ask in (
        lambda: ring.read(100),
        lambda: copy_table(ring).records(),
        ring.meshes,
        lambda: [ring.chips_of(p) for p in ring.meshes()],
    ):
        with contextlib.suppress(RingError):
            ask()
    for _ in range(100):
        assert len(ring.blob(numbers.getrandbits(numbers.randrange(1, 33)))) <= MAX_BLOB
    ring.close()
    memory.close()


# -- during writes --------------------------------------------------------------------------------------------------


class Writer:
    """native/tests/ring_writer.cpp: threads that write with the agent's own code until they are stopped."""

    def __init__(self, threads: int) -> None:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            self.process = subprocess.Popen(
                [build().program("ring_writer"), "threads", str(theirs.fileno()), str(threads)],
                pass_fds=[theirs.fileno()], stdin=subprocess.PIPE,
            )  # fmt: skip
            _, fds, _, _ = socket.recv_fds(ours, 1, 1)
        self.fd = fds[0]

    def open(self) -> Ring:
        return Ring(os.dup(self.fd))

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(30)
        os.close(self.fd)


@pytest.fixture
def writer() -> Iterator[Writer]:
    made = Writer(4)
    yield made
    made.close()


class Follower:
    """The fold of every record, from the first one: the allocations that must be live at each moment."""

    def __init__(self, ring: Ring) -> None:
        self.ring = ring
        self.table: dict[int, Record] = {}

    def follow(self, until: int) -> list[tuple[int, ...]]:
        while self.ring.cursor < until:
            lost, records = self.ring.read(until - self.ring.cursor)
            assert lost == 0, "the test's own reader was too slow"
            for record in map(Record._make, records):
                if record.event in (RingEvent.ALLOCATED, RingEvent.PROGRAM):
                    self.table[record.slot] = record
                elif record.event == RingEvent.FREED:
                    del self.table[record.slot]
                elif record.event == RingEvent.RUN:
                    frame = self.table[record.slot]
                    self.table[record.slot] = frame._replace(time=record.time, flags=frame.flags | RAN)
                elif record.event == RingEvent.DESTROYED:
                    gone = [slot for slot, allocation in self.table.items() if allocation.program == record.program]
                    for slot in gone:
                        del self.table[slot]
        return sorted(self.table.values())


def test_live_is_the_fold_at_every_moment(writer: Writer) -> None:
    reader, follower = writer.open(), Follower(writer.open())
    looked = most = 0
    while looked < 1000 or most < 100 or reader.head < 10000:
        live = copy_table(reader).records()
        assert live == follower.follow(reader.cursor)
        looked += bool(live)
        most = max(most, len(live))
    reader.close()
    follower.ring.close()


def test_live_then_read_goes_on_without_a_gap(writer: Writer) -> None:
    """The same way as the server: the table once, then every record after it."""
    reader = writer.open()
    table = {record[10]: record for record in copy_table(reader).records()}
    follower = Follower(reader)
    follower.table = table
    looked = 0
    while looked < 50:  # a writer that is not scheduled may have nothing live for a while
        time.sleep(0.005)
        follower.follow(reader.head)
        fresh = writer.open()
        live = copy_table(fresh).records()
        assert follower.follow(fresh.cursor) == live
        looked += bool(live)
        fresh.close()
    reader.close()


def test_a_writer_killed_anywhere_leaves_a_whole_account() -> None:
    for _ in range(10):
        writer = Writer(4)
        follower = Follower(writer.open())
        deadline = time.monotonic() + 10
        while follower.ring.head < 3000 and time.monotonic() < deadline:
            follower.follow(follower.ring.head)
        writer.process.send_signal(signal.SIGKILL)
        writer.process.wait(30)
        reader = writer.open()
        assert copy_table(reader).records() == follower.follow(reader.head)
        assert reader.cursor == reader.head
        reader.close()
        follower.ring.close()
        writer.close()
