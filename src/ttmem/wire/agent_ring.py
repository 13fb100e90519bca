# SPDX-License-Identifier: Apache-2.0
"""The agent's shared memory, read from outside: ring, live table, meshes, chips, meters, windows, phases, blobs.

The layout is that of native/src/layout.h, written down once there and once here; a test compares the two field by
field. The file belongs to another process: every number is copied before it is looked at, and nothing read here
is trusted to lie where it should. It is read with pread and never mapped: a mapping of memory whose owner punches a
hole into it, or whose huge pages run out, ends the reader with SIGBUS.
"""

from __future__ import annotations

import fcntl
import os
from enum import IntEnum
from struct import Struct
from typing import NamedTuple

from ttmem.model.core_sets import MAX_Y, ROW
from ttmem.model.geometry import Arch, Geometry
from ttmem.model.identity import ChipInfo, assumed_chip_id
from ttmem.model.validation import MAX_MESH_CHIPS, check_cores, check_device, check_geometry

MAGIC = int.from_bytes(b"ttmemrng", "little")
VERSION = 5
NO_SLOT = NO_MESH_ID = NO_BOARD = 0xFFFFFFFF
MESH_OPEN = 1  # a mesh's state
SHARED, WHOLESALE, BINARY, RAN, KEPT, PER_CORE = 1, 2, 4, 8, 16, 32
PROGRAM_FRAME = 255

HEADER_SIZE, MESH_SIZE, CHIP_SIZE, METER_SIZE, GROUP_SIZE, RECORD_SIZE = 4096, 512, 64, 32, 128, 64
METERS = 4096  # as many as there can be: rows of windows and phases have room for so many
WINDOW_HEAD = PHASE_HEAD = 64  # bytes before the figures of the first meter
FIGURES_SIZE = 16  # of one meter in such a row
WINDOW_SIZE = PHASE_SIZE = 64 + FIGURES_SIZE * METERS
# name, offset, struct code
HEADER_FIELDS = (
    ("magic", 0, "Q"), ("version", 8, "I"), ("pid", 12, "I"), ("total", 16, "Q"),
    ("meshes_at", 24, "I"), ("meshes", 28, "I"), ("chips_at", 32, "I"), ("chips", 36, "I"),
    ("ring_at", 40, "I"), ("ring_slots", 44, "I"), ("table_at", 48, "I"), ("table_slots", 52, "I"),
    ("blobs_at", 56, "I"), ("blobs_size", 60, "I"), ("started", 64, "Q"), ("coverage", 72, "Q"),
    ("meters_at", 80, "I"), ("meters", 84, "I"), ("groups_at", 88, "I"), ("windows_at", 92, "I"),
    ("windows", 96, "I"), ("phases_at", 100, "I"), ("phases", 104, "I"),
    ("head", 128, "Q"), ("table_high", 136, "I"), ("blobs_used", 140, "I"), ("meshes_used", 144, "I"),
    ("chips_used", 148, "I"), ("table_full", 152, "Q"), ("blobs_full", 160, "Q"), ("unknown_frees", 168, "Q"),
    ("replaced", 176, "Q"), ("names", 184, "Q"), ("failures", 192, "Q"), ("meshes_full", 200, "Q"),
    ("meters_used", 208, "Q"), ("earlier_frees", 216, "Q"), ("meters_turn", 224, "Q"), ("window", 232, "Q"),
    ("phases_began", 240, "Q"), ("phases_full", 248, "Q"), ("wheel", 256, "256s"), ("trouble", 512, "512s"),
)  # fmt: skip
RECORD_FIELDS = (
    ("sequence", 0, "Q"), ("time", 8, "Q"), ("event", 16, "B"), ("kind", 17, "B"), ("layout", 18, "B"),
    ("flags", 19, "B"), ("thread", 20, "I"), ("address", 24, "Q"), ("size", 32, "Q"), ("per_bank", 40, "I"),
    ("slot", 44, "I"), ("mesh", 48, "H"), ("core_count", 50, "H"), ("cores", 52, "I"), ("program", 56, "I"),
    ("name", 60, "I"),
)  # fmt: skip
MESH_FIELDS = (
    ("turn", 0, "I"), ("state", 4, "I"), ("mesh_id", 8, "I"), ("parent", 12, "I"), ("chips", 16, "I"),
    ("chip_count", 20, "I"), ("arch", 24, "I"), ("cores", 28, "I"), ("l1_size", 32, "Q"), ("l1_base", 40, "Q"),
    ("dram_base", 48, "Q"), ("buffers_ours", 56, "Q"), ("buffers_theirs", 64, "Q"), ("audits", 72, "Q"),
    ("mismatches", 80, "Q"), ("audited", 88, "Q"), ("map_end", 96, "Q"), ("opened", 104, "Q"),
)  # fmt: skip
BANKS_AT, BANK_SIZE, BANK_COUNT = 112, 40, 5
BANK_FIELDS = (
    ("size", 0, "Q"), ("ours", 8, "Q"), ("theirs", 16, "Q"), ("largest_free", 24, "Q"), ("banks", 32, "I"),
    ("unit", 36, "I"),
)  # fmt: skip
CHIP_FIELDS = (
    ("unique_id", 0, "Q"), ("number", 8, "I"), ("arch", 12, "I"), ("board", 16, "I"), ("remote", 20, "I"),
)  # fmt: skip
_CHIP_MASK = 32
METER_FIELDS = (("used", 0, "Q"), ("reserved", 8, "Q"), ("high", 16, "Q"), ("reserved_high", 24, "Q"))
GROUP_FIELDS = (
    ("chips", 0, f"{_CHIP_MASK}s"), ("peak", 32, "Q"), ("reserved_peak", 40, "Q"), ("ever", 48, "Q"),
    ("reserved_ever", 56, "Q"), ("gauge", 64, "I"),
)  # fmt: skip
WINDOW_FIELDS = (("number", 0, "Q"), ("first", 8, "Q"), ("last", 16, "Q"))
PHASE_FIELDS = (("began", 0, "Q"), ("ident", 8, "Q"), ("parent", 16, "Q"), ("time", 24, "Q"), ("name", 32, "I"))
# What there is a meter for, in order: pools and kinds. A kind has its label. `l1_buffer_pool` is what allocators give
# out of L1, `program_pool` the parts of programs, which use it in turn.
GAUGES = ("dram_pool", "dram", "l1_buffer_pool", "l1", "program_pool", "cb", "host", "l1_small", "trace", "dfb",
          "scratchpad", "kernel", "fabric_kernel", "dispatch_kernel", "firmware")  # fmt: skip

RECORD = Struct("<" + "".join(code for _, _, code in RECORD_FIELDS))
_MESH = Struct("<" + "".join(code for _, _, code in MESH_FIELDS))
_BANK = Struct("<" + "".join(code for _, _, code in BANK_FIELDS))
_CHIP = Struct("<" + "".join(code for _, _, code in CHIP_FIELDS))
_HEADER = {name: (Struct("<" + code), offset) for name, offset, code in HEADER_FIELDS}
_BLOB_LENGTH = Struct("<I")
MAX_BLOB = 4096
_LEAST_BLOB_CHARGE = 64  # bytes; what a reader keeps of a blob is never less
_MAX_FILE_BYTES = 1 << 28
_MAX_RING_SLOTS, _MAX_TABLE_SLOTS, _MAX_BLOB_BYTES = 1 << 16, 1 << 18, 32 << 20  # as the agent makes them
_MAX_MESHES, _MAX_CHIPS, _MAX_WINDOWS, _MAX_PHASES = 256, 256, 64, 64
READ_ATTEMPTS = 100  # of something that its owner may be changing

# UMD's BoardType codes, named as sysfs names them.
BOARDS = {3: "n150", 4: "n300", 5: "p100", 6: "p150", 7: "p300", 8: "galaxy-wormhole", 9: "galaxy-wormhole",
          10: "galaxy-blackhole"}  # fmt: skip


class RingEvent(IntEnum):
    """What a record says happened."""

    OPENED = 1
    CLOSING = 2
    CLOSED = 3
    ALLOCATED = 4
    FREED = 5
    PROGRAM = 6
    RUN = 7
    DESTROYED = 8
    CACHE_CLEARED = 9
    PHASE_BEGAN = 10
    PHASE_ENDED = 11
    FAILED = 12
    NAMED = 13


class Record(NamedTuple):
    """One record, as it stands in ring and table.

    In a frame and in a record of a launch, ``per_bank`` is the number of the workload. In the record of an opening,
    ``name`` is the description of the mesh.
    """

    sequence: int
    time: int
    event: int
    kind: int
    layout: int
    flags: int
    thread: int
    address: int
    size: int
    per_bank: int
    slot: int
    mesh: int  # index of the mesh
    core_count: int
    cores: int
    program: int
    name: int


class Cause(NamedTuple):
    """Why an allocation is there, as far as the agent could see."""

    tag: str | None  # the ttnn operation
    shape: str | None
    stack: str | None


NO_CAUSE = Cause(None, None, None)


class Bank(NamedTuple):
    """One class of memory of a mesh: its banks, and what table and allocator said at the last audit."""

    size: int
    ours: int
    theirs: int
    largest_free: int
    banks: int
    unit: int


class Mesh(NamedTuple):
    """A mesh or submesh, with its geometry and its last audit. A chip that was opened by itself is a 1x1 mesh."""

    turn: int
    state: int
    mesh_id: int  # of the MeshDevice; NO_MESH_ID for a chip that was opened by itself
    parent: int  # index of the mesh whose allocator it uses: its own unless it is a submesh
    chips: int
    chip_count: int
    arch: int
    cores: int
    l1_size: int
    l1_base: int
    dram_base: int
    buffers_ours: int
    buffers_theirs: int
    audits: int
    mismatches: int
    audited: int
    map_end: int
    opened: int  # sequence of the record that opened it; earlier records with this index mean another mesh
    banks: tuple[Bank, ...]


class RingChip(NamedTuple):
    """A chip as the process knows it."""

    unique_id: int
    number: int
    arch: int
    board: int
    remote: int


class RingError(ValueError):
    """The memory handed over is not what an agent hands over; the text says what is wrong."""


class Ring:
    """A reader's view of one agent's memory. The reader keeps its own position in the ring; the agent knows of none."""

    def __init__(self, fd: int) -> None:
        """Takes the descriptor over, also if it is refused."""
        self._fd = fd
        try:
            self._size = _checked_size(fd)
            layout = self._checked_layout()
        except RingError:
            os.close(fd)
            raise
        self.cursor = 0
        self._blobs: dict[int, bytes] = {}
        self._blob_bytes = 0
        self._masks: dict[int, int] = {0: 0}
        self._names: dict[int, str] = {}
        self._causes: dict[int, Cause] = {0: NO_CAUSE}
        self._ring_at, self.slots = layout["ring_at"], layout["ring_slots"]
        self._table_at, self.table_slots = layout["table_at"], layout["table_slots"]
        self.blobs_at, self.blobs_size = layout["blobs_at"], layout["blobs_size"]
        self.meshes_at, self.mesh_count = layout["meshes_at"], layout["meshes"]
        self.chips_at, self.chip_count = layout["chips_at"], layout["chips"]
        self.meters_at, self.groups_at, self.meter_count = layout["meters_at"], layout["groups_at"], layout["meters"]
        self.windows_at, self.window_count = layout["windows_at"], layout["windows"]
        self.phases_at, self.phase_count = layout["phases_at"], layout["phases"]
        self._head, self._head_at = _HEADER["head"]

    def again(self) -> Ring:
        """Another reader of the same memory, with a position of its own."""
        return Ring(os.dup(self._fd))

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def copy(self, at: int, length: int) -> bytes:
        """A copy of that part of the memory, however its owner treats it."""
        try:
            raw = os.pread(self._fd, length, at)
            while 0 < len(raw) < length:  # one call reads at most 2 GiB, and less if a signal comes
                more = os.pread(self._fd, length - len(raw), at + len(raw))
                if not more:
                    break
                raw += more
        except OSError as error:
            raise RingError(f"it cannot be read: {error.strerror}") from None
        if len(raw) != length:
            raise RingError(f"it ends after {at + len(raw)} bytes")
        return raw

    def field(self, name: str) -> int:
        code, offset = _HEADER[name]
        return int(code.unpack(self.copy(offset, code.size))[0])

    def fields(self, *names: str) -> dict[str, int]:
        """Several fields, of one moment."""
        header = self.copy(0, HEADER_SIZE)
        return {name: int(_HEADER[name][0].unpack_from(header, _HEADER[name][1])[0]) for name in names}

    def text(self, name: str) -> str:
        code, offset = _HEADER[name]
        return bytes(code.unpack(self.copy(offset, code.size))[0]).split(b"\0", 1)[0].decode("utf-8", "replace")

    @property
    def head(self) -> int:
        """The sequence of the newest record.

        A copy of eight bytes may be half old and half new. So two copies are taken until the second is as high as the
        first, or higher by what can be written in between; the first is then a number the writer has reached. It is
        never below what was read, whatever the writer does.
        """
        for _ in range(READ_ATTEMPTS):
            first, second = (self._head.unpack(self.copy(self._head_at, 8))[0] for _ in range(2))
            if 0 <= second - first < self.slots:
                return max(int(first), self.cursor)
        raise RingError("its head is never the same twice")

    def read(self, limit: int) -> tuple[int, list[tuple[int, ...]]]:
        """At most ``limit`` records after the cursor, oldest first, and how many before them were overwritten."""
        lost, raw = self.read_raw(limit)
        return lost, list(RECORD.iter_unpack(raw))

    def read_raw(self, limit: int) -> tuple[int, bytes]:
        """The same, with the records as they stand in the ring.

        A record may be overwritten while it is copied. The writer is at most one ahead of ``head``, so whatever is
        a whole ring behind that after the copy is thrown away.
        """
        head = self.head
        first = max(self.cursor + 1, head - self.slots + 2)
        last = min(head, first + limit - 1)
        if last < first:
            return max(0, first - self.cursor - 1), b""
        raw = self._copy(first, last)
        safe = self.head - self.slots + 2
        if safe > first:
            raw = raw[(safe - first) * RECORD_SIZE :]
            first = min(safe, last + 1)
        if raw and (sequence := int.from_bytes(raw[:8], "little")) != first:
            raise RingError(f"record {sequence} stands where {first} should")
        lost = first - self.cursor - 1
        self.cursor = last
        return lost, raw

    def _copy(self, first: int, last: int) -> bytes:
        at, end = first % self.slots, last % self.slots + 1
        start = self._ring_at
        if at < end:
            return self.copy(start + at * RECORD_SIZE, (end - at) * RECORD_SIZE)
        return self.copy(start + at * RECORD_SIZE, (self.slots - at) * RECORD_SIZE) + self.copy(
            start, end * RECORD_SIZE
        )

    def table_rows(self) -> bytearray:
        """The rows of the live table up to the highest slot that was ever used, while the agent may change them.

        There may be 16 MiB of them, so they are copied only once.
        """
        rows = bytearray(min(self.field("table_high"), self.table_slots) * RECORD_SIZE)
        try:
            count = os.preadv(self._fd, [rows], self._table_at)
        except OSError as error:
            raise RingError(f"it cannot be read: {error.strerror}") from None
        if count != len(rows):
            raise RingError(f"it ends after {self._table_at + count} bytes")
        return rows

    def table(self) -> tuple[int, bytearray, int]:
        """The live table as it stands, with the sequences before and after the copy.

        It has the changes of all records up to the first of them, of none after the second, and of some in between.
        """
        before = max(0, self.head - 1)  # the newest record comes before its change of the table
        return before, self.table_rows(), self.head

    def blob(self, number: int) -> bytes:
        """A name, core set, chip list or description of a mesh by its number; empty for none."""
        known = self._blobs.get(number)
        if known is not None:
            return known
        if not 0 < number <= self.blobs_size - _BLOB_LENGTH.size:
            return b""
        at = self.blobs_at + number
        (length,) = _BLOB_LENGTH.unpack(self.copy(at, _BLOB_LENGTH.size))
        if length > MAX_BLOB or number + 4 + length > self.blobs_size:
            return b""
        found = self.copy(at + 4, length)
        self._blob_bytes += max(length, _LEAST_BLOB_CHARGE)
        if self._blob_bytes > self.blobs_size:  # blobs that overlap, or many that are short
            self._blob_bytes = length
            self._blobs.clear()
            self._masks = {0: 0}
            self._names.clear()
            self._causes = {0: NO_CAUSE}
        self._blobs[number] = found
        return found

    def mask(self, number: int) -> int:
        """A core set as the account keeps it: bit ``y * 64 + x``, which is how the agent writes it."""
        known = self._masks.get(number)
        if known is None:
            known = int.from_bytes(self.blob(number), "little")
            check_cores(known)
            if known:
                self._masks[number] = known
        return known

    def name(self, number: int) -> str | None:
        known = self._names.get(number)
        if known is None and number:
            known = self.blob(number).decode("utf-8", "replace") or None
            if known is not None:
                self._names[number] = known
        return known

    def cause(self, number: int) -> Cause:
        """A name in its parts: the operation, the shape of the tensor, the Python stack, each if it is known."""
        known = self._causes.get(number)
        if known is None:
            name = self.name(number)
            if name is None:
                return NO_CAUSE
            tag, _, rest = name.partition("\n")
            shape, _, stack = rest.partition("\n")
            known = self._causes[number] = Cause(tag or None, shape or None, stack or None)
        return known

    def mesh(self, number: int) -> Mesh:
        """A mesh as it is now. Its ``turn`` is odd if its writer is amid a change, or was killed amid one."""
        self._check_mesh(number)
        at = self.meshes_at + number * MESH_SIZE
        for _ in range(READ_ATTEMPTS):
            raw = self.copy(at, MESH_SIZE)
            if raw[:4] == self.copy(at, 4) and not raw[0] & 1:
                break
        return _mesh_of(raw)

    def opened_mesh(self, number: int, description: int, sequence: int) -> Mesh:
        """The mesh that the record ``sequence`` opened. By now its row may be that of a later mesh.

        ``description`` is the name in that record: the row without audits, with 0 or NO_MESH_ID as the mesh's id. If
        there was no room for one, this is the row of now, so the chips may be those of a later mesh.
        """
        raw = self.blob(description)
        if not raw:
            return self.mesh(number)
        self._check_mesh(number)
        return _mesh_of(raw.ljust(MESH_SIZE, b"\0"))._replace(state=MESH_OPEN, opened=sequence)

    def _check_mesh(self, number: int) -> None:
        if not 0 <= number < self.mesh_count:
            raise RingError(f"there is no mesh {number}")

    def mesh_rows(self, count: int) -> bytes:
        """The rows of the first meshes, while the agent may change them: enough to see that nothing changed."""
        return self.copy(self.meshes_at, min(count, self.mesh_count) * MESH_SIZE)

    def meshes(self) -> list[Mesh]:
        return [self.mesh(number) for number in range(min(self.field("meshes_used"), self.mesh_count))]

    def chips_of(self, mesh: Mesh) -> list[RingChip]:
        raw = self.blob(mesh.chips)
        if len(raw) > 2 * MAX_MESH_CHIPS:
            raise RingError(f"a mesh of {len(raw) // 2} chips; there can be {MAX_MESH_CHIPS}")
        chips = [self.chip(int.from_bytes(raw[i : i + 2], "little")) for i in range(0, len(raw) - 1, 2)]
        for chip in chips:
            check_device(chip.number)
        if len({chip.number for chip in chips}) != len(chips):
            raise RingError("a mesh has one chip twice")
        return chips

    def chip(self, number: int) -> RingChip:
        if not 0 <= number < self.chip_count:
            raise RingError(f"there is no chip {number}")
        return RingChip._make(_CHIP.unpack_from(self.copy(self.chips_at + number * CHIP_SIZE, CHIP_SIZE)))

    def _checked_layout(self) -> dict[str, int]:
        """Where everything lies. It is read once: the owner may change it after it was checked."""
        header = self.copy(0, HEADER_SIZE)
        read = {name: code.unpack_from(header, offset)[0] for name, (code, offset) in _HEADER.items()}
        if read["magic"] != MAGIC:
            raise RingError("it does not begin with the agent's mark")
        if read["version"] != VERSION:
            raise RingError(f"it is version {read['version']}, this reader knows version {VERSION}")
        for name, count, each, most in (
            ("meshes_at", "meshes", MESH_SIZE, _MAX_MESHES), ("chips_at", "chips", CHIP_SIZE, _MAX_CHIPS),
            ("meters_at", "meters", METER_SIZE, METERS), ("groups_at", "meters", GROUP_SIZE, METERS),
            ("windows_at", "windows", WINDOW_SIZE, _MAX_WINDOWS), ("phases_at", "phases", PHASE_SIZE, _MAX_PHASES),
            ("ring_at", "ring_slots", RECORD_SIZE, _MAX_RING_SLOTS),
            ("table_at", "table_slots", RECORD_SIZE, _MAX_TABLE_SLOTS), ("blobs_at", "blobs_size", 1, _MAX_BLOB_BYTES),
        ):  # fmt: skip
            at, items = read[name], read[count]
            if not HEADER_SIZE <= at <= self._size or not 0 < items * each <= self._size - at:
                raise RingError(f"its {count} at {at} do not fit {self._size} bytes")
            if items > most:
                raise RingError(f"it has {items} {count}; an agent has at most {most}")
        if read["ring_slots"] < 2:
            raise RingError("its ring has one slot, which is always about to be overwritten")
        return read


def _checked_size(fd: int) -> int:
    """The size of a memory file that no longer shrinks; nothing else is read from: a pipe would block."""
    try:
        seals = fcntl.fcntl(fd, fcntl.F_GET_SEALS)
    except OSError:
        raise RingError("it is not a memory file") from None
    if not seals & fcntl.F_SEAL_SHRINK:
        raise RingError("it is not sealed against shrinking")
    size = os.fstat(fd).st_size
    if not HEADER_SIZE <= size <= _MAX_FILE_BYTES:
        raise RingError(f"it has {size} bytes")
    return size


def _mesh_of(raw: bytes) -> Mesh:
    banks = tuple(Bank._make(_BANK.unpack_from(raw, BANKS_AT + i * BANK_SIZE)) for i in range(BANK_COUNT))
    return Mesh._make((*_MESH.unpack_from(raw), banks))


def geometry_of(mesh: Mesh, grid: int) -> Geometry | None:
    """The live geometry of a mesh's chips; ``grid`` is its compute grid as a core mask. None if that is not known."""
    if not grid:
        return None
    arch = Arch(mesh.arch) if mesh.arch in Arch._value2member_map_ else Arch.UNKNOWN
    rows = [(grid >> ROW * y) & (1 << ROW) - 1 for y in range(MAX_Y)]
    width = max(row.bit_length() for row in rows)
    height = max(y + 1 for y, row in enumerate(rows) if row)
    dram, small, trace = mesh.banks[0], mesh.banks[3], mesh.banks[4]
    geometry = Geometry(
        arch, width, height, mesh.l1_size, mesh.l1_base, mesh.map_end or mesh.l1_base, dram.banks,
        mesh.dram_base + dram.size + trace.size, small.size, trace.size, True,
    )  # fmt: skip
    check_geometry(geometry)
    return geometry


def chip_id(chip: RingChip) -> str:
    return str(chip.unique_id) if chip.unique_id else assumed_chip_id(chip.number)


def chip_info(chip: RingChip, geometry: Geometry | None, arch: Arch = Arch.UNKNOWN) -> ChipInfo:
    board = BOARDS.get(chip.board)
    remote = {0: False, 1: True}.get(chip.remote)
    return ChipInfo(chip_id(chip), None, None, arch if geometry is None else geometry.arch, board, remote, geometry)
