# SPDX-License-Identifier: Apache-2.0
"""Recordings of short stories: two chips, two phases, peaks at different times, a failed allocation."""

from __future__ import annotations

from pathlib import Path

from ttmem.account.ledger import Ledger
from ttmem.model.events import Allocated, DeviceOpened, Event, Extra, Failed, Freed, PhaseBegan, PhaseEnded
from ttmem.model.geometry import BOARDS
from ttmem.model.identity import ChipInfo, ProcessInfo
from ttmem.model.kinds import Confidence, Kind
from ttmem.recording.event_recording import EventRecordingWriter

START = 1_794_000_000.0
MIB = 1 << 20
REFUSED = (
    "TT_FATAL: Out of Memory: Not enough space to allocate 4194304 B L1 buffer across 64 banks, where each bank needs "
    "to store 65536 B, but bank size is 1395424 B"
)
STORY: list[tuple[float, Event]] = [
    (0.0, DeviceOpened(0, ChipInfo("770", board="n150", geometry=BOARDS["n150"]))),
    (0.5, DeviceOpened(1, ChipInfo("771", board="n150", geometry=BOARDS["n150"]))),
    (1.0, Allocated(0, Kind.DRAM, 0x1000, 100 * MIB, 0, 0, Extra(tag="weights"))),
    (2.0, PhaseBegan(1, "prefill")),
    (2.5, Allocated(0, Kind.L1, 0x2000, 3 * MIB, 0, 0, Extra(tag="ttnn.add"))),
    (3.0, Allocated(0, Kind.DRAM, 0x3000, 200 * MIB, 0, 0, Extra(tag="ttnn.matmul"))),
    (3.5, PhaseBegan(2, "attention", 1)),
    (3.6, PhaseEnded(2)),
    (4.0, Freed(0, Kind.DRAM, 0x3000, 200 * MIB)),
    (4.0, PhaseEnded(1)),
    (5.0, Allocated(1, Kind.L1, 0x2000, 9 * MIB, 0, 0, Extra(tag="ttnn.softmax"))),
    (6.0, Failed(0, REFUSED)),
    (6.0, Allocated(1, Kind.DRAM, 0x4000, MIB)),
    (7.0, Failed(0, REFUSED + " again")),
    (7.5, Freed(1, Kind.L1, 0x2000, 9 * MIB)),
    (10.0, Freed(0, Kind.DRAM, 0x1000, 100 * MIB)),
]


def story_file(folder: Path, story: list[tuple[float, Event]] = STORY) -> str:
    """A file with the recording of a story."""
    path = folder / "story.ttmem"
    with open(path, "wb") as file:
        writer = EventRecordingWriter(file, {"start": START, "host": "box"})
        source = Ledger().source(START, ProcessInfo(4711, 1), "client", Confidence.REPORTED)
        for time, event in story:
            writer.write(START + time, source, event)
        writer.finish()
    return str(path)
