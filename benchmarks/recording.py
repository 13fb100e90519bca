# SPDX-License-Identifier: Apache-2.0
"""What a recording costs: CPU and bytes of a record, and the time to open it and to reach any moment of it.

The ring is written by this program: a loop of cached operations (allocation, launch, free) beside 1,000 live buffers.
"""

from __future__ import annotations

import json
import math
import os
import random
import resource
import statistics
import time
import zlib
from pathlib import Path
from struct import Struct

from tests.ring_memory import RingMemory

from benchmarks import memray_pages
from benchmarks.report import Report, spread
from ttmem.account.ledger import Ledger
from ttmem.account.saved_history import saved
from ttmem.account.totals import TotalWithContents
from ttmem.ingest.ring_fold import RingFold
from ttmem.ingest.sink import Sink
from ttmem.model.identity import ProcessInfo
from ttmem.model.kinds import Confidence
from ttmem.recording.blocks import BlockType, BlockWriter
from ttmem.recording.recording_file import Recording
from ttmem.recording.ring_copier import RingCopier
from ttmem.server.recorded_history import HistoryReader
from ttmem.wire.agent_ring import PROGRAM_FRAME, RAN, RECORD, RECORD_SIZE, Record, RingEvent

SLOTS = 1 << 16
PART = SLOTS // 2  # records between two polls
LIVE = 1000
SHAPES = 40
STEP_NS = 900  # between two records
_SEQUENCES = Struct(f"<{PART}Q")
MOMENTS = 20


class OpLoop:
    """An agent's memory, in which a loop of operations writes half a ring at a time."""

    def __init__(self) -> None:
        self.memory = RingMemory(slots=SLOTS, table=4096, blobs=1 << 20)
        self.memory.plain()
        self.names = [
            self.memory.blob(f"ttnn.op_{n}\n[1, 1, {32 * n}, 64] bfloat16 tile\n".encode()) for n in range(SHAPES)
        ]
        self.cores = self.memory.blob((0xFF).to_bytes(8, "little"))
        self.random = random.Random(1)
        self.last = 0
        for slot in range(LIVE):
            self.memory.append(
                RingEvent.ALLOCATED, slot, time=self._time(), size=4096 * (slot + 1), address=0x1000 * (slot + 1),
                per_bank=512, layout=0, name=self.names[slot % SHAPES], kind=slot % 2,
            )  # fmt: skip
        for number in range(8):
            self.memory.append(
                RingEvent.PROGRAM, LIVE + number, time=self._time(), kind=PROGRAM_FRAME, program=number + 1,
                per_bank=number + 1, size=512, cores=self.cores, flags=RAN, name=self.names[number],
            )  # fmt: skip
        self.pattern = self._pattern()

    @property
    def head(self) -> int:
        return self.memory.get("head")

    def write(self) -> None:
        """Half a ring of records."""
        first = self.head + 1
        raw = bytearray(self.pattern)
        start = max(self.last, time.clock_gettime_ns(time.CLOCK_MONOTONIC) - PART * STEP_NS)
        self.last = start + PART * STEP_NS  # the times of an agent never decrease
        noise = self.random.randbytes(PART)
        times = _SEQUENCES.pack(*(start + n * STEP_NS + noise[n] for n in range(PART)))
        sequences = _SEQUENCES.pack(*range(first, first + PART))
        for byte in range(8):
            raw[byte::RECORD_SIZE] = sequences[byte::8]
            raw[8 + byte :: RECORD_SIZE] = times[byte::8]
        at = self.memory.at["ring_at"]
        for number in range(2):  # it may wrap
            piece = slice(number * PART * RECORD_SIZE // 2, (number + 1) * PART * RECORD_SIZE // 2)
            for offset in range(piece.start, piece.stop, RECORD_SIZE * 4096):
                part = raw[offset : min(offset + RECORD_SIZE * 4096, piece.stop)]
                self._put(at, first + offset // RECORD_SIZE, part)
        self.memory.put(head=first + PART - 1)

    def _put(self, at: int, sequence: int, part: bytearray) -> None:
        slot = sequence % SLOTS
        room = (SLOTS - slot) * RECORD_SIZE
        self.memory.map[at + slot * RECORD_SIZE : at + slot * RECORD_SIZE + min(room, len(part))] = bytes(part[:room])
        if len(part) > room:
            self.memory.map[at : at + len(part) - room] = bytes(part[room:])

    def _time(self) -> int:
        return time.clock_gettime_ns(time.CLOCK_MONOTONIC)

    def _pattern(self) -> bytes:
        """Records that leave everything as it was: an allocation, a launch, a free, and so on."""
        records: list[bytes] = []
        while len(records) + 3 <= PART:
            turn = len(records) // 3
            shape = self.random.randrange(SHAPES)
            slot = LIVE + 8 + turn % 4
            fields = {"size": 2048 * (shape + 1), "address": 0x100000 + 2048 * shape, "per_bank": 32 * (shape + 1),
                      "name": self.names[shape], "kind": 1, "layout": 0, "thread": 7, "slot": slot}  # fmt: skip
            program = turn % 8
            records += [
                _record(RingEvent.ALLOCATED, **fields),
                _record(RingEvent.RUN, slot=LIVE + program, program=program + 1, per_bank=program + 1, thread=7),
                _record(RingEvent.FREED, **fields),
            ]
        while len(records) < PART:
            records.append(_record(RingEvent.RUN, slot=LIVE, program=1, per_bank=1, thread=7))
        return b"".join(records)


def _record(event: RingEvent, **fields: int) -> bytes:
    return RECORD.pack(*Record(**{**dict.fromkeys(Record._fields, 0), "event": int(event), **fields}))


def recorded(loop: OpLoop, path: Path, count: int) -> tuple[float, int]:
    """Write a recording of so many records; returns the seconds of CPU that it took, and its bytes."""
    ledger = Ledger(all_chips=TotalWithContents())
    info = ProcessInfo(1, 1)
    source = ledger.source(0.0, info, "agent", Confidence.EXACT)
    fold = RingFold(loop.memory.open(), 0.0, Sink(ledger, now=time.monotonic), source)
    about = {"process": list(info), "name": "agent", "confidence": int(Confidence.EXACT)}
    copier = RingCopier(1, loop.memory.open(), about, 0.0, 0.0)
    spent, account = 0.0, ""
    with open(path, "wb", buffering=0) as file:
        blocks = BlockWriter(file)
        for number in range(max(2, count // PART)):
            if number:
                loop.write()
            began = time.process_time()
            copier.poll(blocks, number)
            spent += time.process_time() - began
            if number == 1:
                fold.load(1 << 20)
                fold.fold(1 << 64, math.inf)
                account = json.dumps(saved(ledger))
            if number and number % 2 == 0:  # as the recorder does; the same is live, and the peaks are the same
                copier.flush(blocks)
                copier.write_table(blocks)
                now = time.clock_gettime(time.CLOCK_MONOTONIC)
                rings = {"1": loop.head}
                past = {"time": now, "rings": rings, "known": 1, "events": 0, "account": json.loads(account)}
                blocks.write(BlockType.HISTORY, json.dumps(past).encode(), time=now)
        began = time.process_time()
        copier.flush(blocks)
        spent += time.process_time() - began
        blocks.finish()
    copier.close()
    fold.ring.close()
    assert not copier.lost
    return spent, os.path.getsize(path)


def _memray(folder: Path) -> str:
    """The file of memray for as many events of host memory, and what they cost: another tool's answer, in words."""
    python, path, events = memray_pages.memray_python(), folder / "memray.bin", 1_000_000
    if python is None:
        return memray_pages.NOT_INSTALLED
    plain, traced = memray_pages.plain_run(python, events), memray_pages.traced_run(python, events, path)
    cost = (traced - plain) / events * 1e9
    return f"memray: {os.path.getsize(path) / events:.2f} B an event, {cost:.0f} ns of CPU in the workload; no times"


def _history(recording: Recording) -> float:
    """Seconds of CPU to read the history of all chips."""
    began = time.process_time()
    reader = HistoryReader(recording)
    while not reader.done:
        reader.read_on(1.0)
    return time.process_time() - began


def run(report: Report, folder: Path, rounds: int) -> None:
    report.title("Recording: CPU and bytes of a record, and the time to any moment")
    loop = OpLoop()
    loop.write()
    began = time.process_time()
    for _ in range(10):
        zlib.compress(loop.pattern, 1)
    yardstick = (time.process_time() - began) / 10 / PART
    costs, path = [], folder / "loop.ttmem"
    sizes = 0.0
    for _ in range(rounds):
        spent, size = recorded(OpLoop(), path, 1_000_000)
        costs.append(spent / 1_000_000)
        sizes = size / 1_000_000
    report.figure("CPU of a record, in ns", spread(costs, 1e9), f"zlib-1 of raw records alone {yardstick * 1e9:.0f}")
    report.figure("bytes of a record", f"{sizes:.2f}", _memray(folder))
    report.budget("recording: CPU of a record", statistics.median(costs) * 1e9, 300, "ns")
    report.budget("recording: bytes of a record", sizes, 4, "B")
    for count in (1_000_000, 10_000_000):
        if count > 1_000_000:
            recorded(OpLoop(), path, count)
        began = time.process_time()  # other programs may use the machine meanwhile
        recording = Recording(str(path))
        opened = time.process_time() - began
        moments = []
        for _ in range(MOMENTS):
            when = random.uniform(recording.begin, recording.end)
            began = time.process_time()
            found = recording.at(when)
            moments.append(time.process_time() - began)
            assert found.ledger.live_count() >= 0
        history = _history(recording)
        recording.close()
        report.figure(f"{count:,} records: history of `ttmem top`, in s of CPU", f"{history:.2f}")
        report.figure(f"{count:,} records: to open, in ms of CPU", f"{opened * 1e3:.1f}")
        report.figure(f"{count:,} records: to any moment, in ms of CPU", spread(moments, 1e3))
        if count > 1_000_000:
            report.budget("recording: any moment of 10 M records", max(moments), 1, "s")
            report.budget("recording: history of 10 M records", history, 10, "s")
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    report.figure("memory of this program, in MiB", f"{memory}")
