# SPDX-License-Identifier: Apache-2.0
"""An agent's memory written by a test: a sealed memfd with the layout of native/src/layout.h, any size and values."""

from __future__ import annotations

import fcntl
import mmap
import os
import socket
from collections.abc import Sequence
from struct import pack_into, unpack_from

from ttmem.model.kinds import Confidence
from ttmem.wire import handshake
from ttmem.wire.agent_ring import (
    BANK_COUNT,
    BANK_FIELDS,
    BANK_SIZE,
    BANKS_AT,
    CHIP_FIELDS,
    CHIP_SIZE,
    FIGURES_SIZE,
    GAUGES,
    GROUP_FIELDS,
    GROUP_SIZE,
    HEADER_FIELDS,
    HEADER_SIZE,
    MAGIC,
    MESH_FIELDS,
    MESH_SIZE,
    METER_FIELDS,
    METER_SIZE,
    NO_SLOT,
    PHASE_FIELDS,
    PHASE_HEAD,
    PHASE_SIZE,
    RECORD,
    RECORD_SIZE,
    VERSION,
    WINDOW_FIELDS,
    WINDOW_HEAD,
    WINDOW_SIZE,
    Record,
    Ring,
    RingEvent,
)

_HEADER = {name: (offset, "<" + code) for name, offset, code in HEADER_FIELDS}
_MESH = {name: (offset, "<" + code) for name, offset, code in MESH_FIELDS}
_BANK = {name: (offset, "<" + code) for name, offset, code in BANK_FIELDS}
_CHIP = {name: (offset, "<" + code) for name, offset, code in CHIP_FIELDS}
_METER = {name: (offset, "<" + code) for name, offset, code in METER_FIELDS}
_GROUP = {name: (offset, "<" + code) for name, offset, code in GROUP_FIELDS}
_WINDOW = {name: (offset, "<" + code) for name, offset, code in WINDOW_FIELDS}
_PHASE = {name: (offset, "<" + code) for name, offset, code in PHASE_FIELDS}
_UINT64 = (1 << 64) - 1
_DESCRIPTION_SIZE = BANKS_AT + BANK_COUNT * BANK_SIZE
SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW


class RingMemory:
    """The writer's side. Numbers are written as given; the layout itself is right unless ``put`` changes it."""

    def __init__(
        self,
        *,
        slots: int = 64,
        table: int = 64,
        meshes: int = 4,
        chips: int = 4,
        meters: int = len(GAUGES),
        windows: int = 1,
        phases: int = 1,
        blobs: int = 1 << 16,
        size: int | None = None,
        seals: int = SEALS,
        flags: int = 0,
    ) -> None:
        """``size`` is the size of the file, by default as the layout needs; at least a header."""
        self.slots, self.table_slots, self.meshes, self.chips, self.blobs = slots, table, meshes, chips, blobs
        self.at = {"meshes_at": HEADER_SIZE}
        self.at["chips_at"] = self.at["meshes_at"] + meshes * MESH_SIZE
        self.at["meters_at"] = self.at["chips_at"] + chips * CHIP_SIZE
        self.at["groups_at"] = self.at["meters_at"] + meters * METER_SIZE
        self.at["windows_at"] = self.at["groups_at"] + meters * GROUP_SIZE
        self.at["phases_at"] = self.at["windows_at"] + windows * WINDOW_SIZE
        self.at["ring_at"] = self.at["phases_at"] + phases * PHASE_SIZE
        self.at["table_at"] = self.at["ring_at"] + slots * RECORD_SIZE
        self.at["blobs_at"] = self.at["table_at"] + table * RECORD_SIZE
        self.size = self.at["blobs_at"] + blobs if size is None else size
        if flags & os.MFD_HUGETLB:
            self.size = -(-self.size // (2 << 20)) * (2 << 20)
        self.fd = os.memfd_create("ring", os.MFD_ALLOW_SEALING | flags)
        os.ftruncate(self.fd, self.size)
        self.map = mmap.mmap(self.fd, self.size)
        self.put(
            magic=MAGIC, version=VERSION, pid=os.getpid(), total=self.size, meshes=meshes, chips=chips,
            meters=meters, windows=windows, phases=phases, ring_slots=slots, table_slots=table, blobs_size=blobs,
            blobs_used=8, coverage=(1 << 12) - 1, **self.at,
        )  # fmt: skip
        fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, seals)
        self._blob_end = 8
        if self.size > self.at["windows_at"]:
            for gauge in range(min(meters, len(GAUGES))):
                self.put_meter(gauge, gauge=gauge)

    def put(self, **fields: int | bytes) -> None:
        for name, value in fields.items():
            offset, code = _HEADER[name]
            pack_into(code, self.map, offset, value)

    def get(self, name: str) -> int:
        offset, code = _HEADER[name]
        return int(unpack_from(code, self.map, offset)[0])

    def put_mesh(self, index: int, /, banks: Sequence[dict[str, int]] = (), **fields: int) -> None:
        at = self.at["meshes_at"] + index * MESH_SIZE
        for name, value in fields.items():
            offset, code = _MESH[name]
            pack_into(code, self.map, at + offset, value)
        for which, bank in enumerate(banks[:BANK_COUNT]):
            for name, value in bank.items():
                offset, code = _BANK[name]
                pack_into(code, self.map, at + BANKS_AT + which * BANK_SIZE + offset, value)
        self.put(meshes_used=max(self.get("meshes_used"), index + 1))

    def get_mesh(self, index: int, name: str) -> int:
        offset, code = _MESH[name]
        return int(unpack_from(code, self.map, self.at["meshes_at"] + index * MESH_SIZE + offset)[0])

    def description(self, index: int) -> bytes:
        """The row of a mesh as the record of its opening has it: without what differs each time."""
        at = self.at["meshes_at"] + index * MESH_SIZE
        row = bytearray(self.map[at : at + _DESCRIPTION_SIZE])
        for name in ("turn", "mesh_id", "buffers_ours", "buffers_theirs", "audits", "mismatches", "audited", "opened"):
            offset, code = _MESH[name]
            pack_into(code, row, offset, 0)
        for bank in range(BANK_COUNT):
            for name in ("ours", "theirs", "largest_free"):
                offset, code = _BANK[name]
                pack_into(code, row, BANKS_AT + bank * BANK_SIZE + offset, 0)
        return bytes(row)

    def put_chip(self, index: int, /, **fields: int) -> None:
        at = self.at["chips_at"] + index * CHIP_SIZE
        for name, value in fields.items():
            offset, code = _CHIP[name]
            pack_into(code, self.map, at + offset, value)
        self.put(chips_used=max(self.get("chips_used"), index + 1))

    def put_meter(self, number: int, /, chips: int = 0, **fields: int) -> None:
        """A meter with its group; ``chips`` is a bit for each."""
        parts = (
            (_METER, self.at["meters_at"] + number * METER_SIZE),
            (_GROUP, self.at["groups_at"] + number * GROUP_SIZE),
        )
        pack_into("<32s", self.map, parts[1][1], chips.to_bytes(32, "little"))
        for name, value in fields.items():
            form, at = parts[0] if name in _METER else parts[1]
            offset, code = form[name]
            pack_into(code, self.map, at + offset, value)
        self.put(meters_used=max(self.get("meters_used"), number + 1))

    def put_window(self, row: int, /, highs: dict[int, tuple[int, int]], **fields: int) -> None:
        at = self.at["windows_at"] + row * WINDOW_SIZE
        self._put_row(at, _WINDOW, fields)
        self._put_pairs(at + WINDOW_HEAD, highs)

    def put_phase(self, row: int, /, figures: dict[int, tuple[int, int]], **fields: int) -> None:
        at = self.at["phases_at"] + row * PHASE_SIZE
        self._put_row(at, _PHASE, fields)
        self._put_pairs(at + PHASE_HEAD, figures)

    def _put_row(self, at: int, form: dict[str, tuple[int, str]], fields: dict[str, int]) -> None:
        for name, value in fields.items():
            offset, code = form[name]
            pack_into(code, self.map, at + offset, value)

    def _put_pairs(self, at: int, pairs: dict[int, tuple[int, int]]) -> None:
        """Two figures for each meter."""
        for number, pair in pairs.items():
            pack_into("<QQ", self.map, at + number * FIGURES_SIZE, *pair)

    def blob(self, data: bytes) -> int:
        """Add a blob; returns its number, or 0 if there is no room for it."""
        start = self._blob_end
        if start + 4 + len(data) > self.blobs:
            return 0
        pack_into("<I", self.map, self.at["blobs_at"] + start, len(data))
        self.map[self.at["blobs_at"] + start + 4 : self.at["blobs_at"] + start + 4 + len(data)] = data
        self._blob_end = (start + 4 + len(data) + 7) & ~7
        self.put(blobs_used=self._blob_end)
        return start

    def chip_list(self, numbers: Sequence[int]) -> int:
        return self.blob(b"".join(number.to_bytes(2, "little") for number in numbers))

    def write(self, event: int = RingEvent.ALLOCATED, slot: int = NO_SLOT, **fields: int) -> Record:
        """Append a record to the ring; the table stays as it is."""
        following = (self.get("head") + 1) & _UINT64
        plain = dict.fromkeys(Record._fields, 0) | {"sequence": following, "event": int(event), "slot": slot}
        record = Record(**(plain | fields))
        RECORD.pack_into(self.map, self.at["ring_at"] + following % self.slots * RECORD_SIZE, *record)
        self.put(head=following)
        return record

    def put_live(self, slot: int, record: Record) -> None:
        """Write a record into the table."""
        RECORD.pack_into(self.map, self.at["table_at"] + slot * RECORD_SIZE, *record)
        self.put(table_high=max(self.get("table_high"), slot + 1))

    def clear_live(self, slot: int) -> None:
        pack_into("<Q", self.map, self.at["table_at"] + slot * RECORD_SIZE, 0)

    def append(self, event: int = RingEvent.ALLOCATED, slot: int = NO_SLOT, **fields: int) -> Record:
        """Append a record as the agent does, and update the table if the record has a slot in it."""
        record = self.write(event, slot, **fields)
        if slot < self.table_slots:
            if event in (RingEvent.ALLOCATED, RingEvent.PROGRAM):
                self.put_live(slot, record)
            elif event in (RingEvent.FREED, RingEvent.DESTROYED):
                self.clear_live(slot)
        return record

    def plain(self, *, chips: Sequence[int] = (0,), grid: tuple[int, int] = (8, 8), chip_ids: int = 0) -> None:
        """One open mesh of chips with these numbers, as an agent on an n150 would describe it."""
        mask = sum(1 << 64 * y + x for y in range(grid[1]) for x in range(grid[0]))
        cores = self.blob(mask.to_bytes(64 * 8, "little"))
        for index, number in enumerate(chips):
            self.put_chip(index, unique_id=chip_ids + index if chip_ids else 0, number=number, arch=2, board=3)
        banks = [
            {"size": 1 << 30, "banks": 12, "unit": 32},
            {"size": 1360544, "banks": 64, "unit": 32},
            {"banks": 1},
            {"size": 32768, "banks": 64, "unit": 32},
            {"size": 1 << 20, "banks": 12, "unit": 32},
        ]
        self.put_mesh(
            0, banks, turn=2, state=1, mesh_id=0, parent=0, chips=self.chip_list(range(len(chips))),
            chip_count=len(chips), arch=2, cores=cores, l1_size=1499136, l1_base=104928, dram_base=64, map_end=35168,
        )  # fmt: skip
        self.put_mesh(0, opened=self.get("head") + 1)
        self.append(RingEvent.OPENED, mesh=0, name=self.blob(self.description(0)))

    def hand_over(self, sock: socket.socket, *, fd: int | None = None) -> None:
        """Say hello as an agent does, with the descriptor."""
        socket.send_fds(sock, [handshake.hello("agent", Confidence.EXACT)], [self.fd if fd is None else fd])

    def open(self) -> Ring:
        return Ring(os.dup(self.fd))

    def close(self) -> None:
        self.map.close()
        os.close(self.fd)
