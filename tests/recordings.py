# SPDX-License-Identifier: Apache-2.0
"""Recordings in memory, written from rings that a test writes, and the parts of accounts that must be equal."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from math import ceil, floor, nextafter
from typing import Any

from tests.ring_memory import RingMemory
from ttmem.account.entities import Process
from ttmem.account.ledger import Ledger
from ttmem.account.phases import phases_json
from ttmem.account.saved_history import saved
from ttmem.documents.snapshot import take_snapshot
from ttmem.model.events import Allocated, DeviceOpened
from ttmem.model.identity import ChipInfo, ProcessInfo
from ttmem.model.kinds import Confidence, Kind
from ttmem.recording.blocks import BlockType, BlockWriter
from ttmem.recording.event_recording import EventRecordingWriter
from ttmem.recording.playhead import Playhead
from ttmem.recording.recording_file import Recording
from ttmem.recording.ring_copier import RingCopier
from ttmem.recording.timeline import timeline
from ttmem.server.history import sampled


class RingRecording:
    """The recording of some scripted agents. A test decides when it looks at them."""

    def __init__(self, *agents: RingMemory) -> None:
        self.file = io.BytesIO()
        self.blocks = BlockWriter(self.file)
        self.copiers = [
            RingCopier(
                number, agent.open(),
                {"process": list(ProcessInfo(number, 1)), "name": "agent", "confidence": int(Confidence.EXACT)},
                0.0, 0.0,
            )
            for number, agent in enumerate(agents, 1)
        ]  # fmt: skip

    def poll(self, *, flush: bool = False) -> None:
        for copier in self.copiers:
            copier.poll(self.blocks, 1e9)
            if flush:
                copier.flush(self.blocks)

    def table(self) -> None:
        for copier in self.copiers:
            copier.flush(self.blocks)
            assert copier.write_table(self.blocks)

    def history(self, time: float, ledger: Ledger, positions: list[int], events: int = 0) -> None:
        """What `Recorder.remember` writes."""
        rings = {str(number): last for number, last in enumerate(positions, 1)}
        past = {"time": time, "rings": rings, "known": len(rings), "events": events, "account": saved(ledger)}
        self.blocks.write(BlockType.HISTORY, json.dumps(past).encode(), time=time)

    def recording(self) -> Recording:
        self.poll(flush=True)
        return Recording(io.BytesIO(self.file.getvalue()))


def state(ledger: Ledger) -> dict[str, Any]:
    """Everything about the present that a later look at a recording must show again: no peaks, no counts of events."""
    return {
        "live": sorted(
            (
                process.info.pid, source.name, str(holding.device), allocation.kind, allocation.address,
                allocation.size, allocation.program, allocation.time, str(allocation.extra),
            )
            for process in ledger.processes.values()
            for source in process.sources.values()
            for holding in source.holdings.values()
            for allocation in holding.allocations()
        ),
        "totals": {
            chip.id: [(total.used, total.reserved, total.count) for total in chip.totals()]
            for chip in ledger.chips.values()
        },
        "resident": {
            chip.id: [(program.ident, cores) for program, cores in chip.resident_programs()]
            for chip in ledger.chips.values()
        },
    }  # fmt: skip


def _phases(process: Process) -> Any:
    """The phases of a process; the order of their rows has no meaning."""
    found = phases_json(process)
    for phase in (*found["open"], *found["ended"]):
        phase["rows"].sort(key=str)  # type: ignore[attr-defined]
    return found


def history(ledger: Ledger) -> dict[str, Any]:
    """What an account knows of the past: peaks with their times, phases, and counts."""
    return {
        "peaks": {
            chip.id: [(total.peak.value, total.peak.time, total.reserved_peak) for total in chip.totals()]
            for chip in ledger.chips.values()
        },
        "phases": [_phases(process) for process in ledger.processes.values()],
        "anomalies": {name: count for name, count in ledger.anomalies.items() if count},
        "uncertain": dict(ledger.uncertain),
        "snapshot": take_snapshot(ledger, time="", host=""),
    }


def live_in_table(recording: Recording, time: float) -> list[tuple[object, ...]]:
    """What the table of all allocations says was live at a time."""
    table = recording.lifetimes().allocations
    live = table.where(table.live_at(table.at(time)))
    return sorted(
        (
            table.sources[live.source[row]].info.pid, table.sources[live.source[row]].name,
            tuple(sorted(table.chip_sets[live.chips[row]])), int(live.kind[row]), int(live.address[row]),
            int(live.size[row]), int(live.counted[row]), int(live.reserved[row]), int(live.program[row]),
        )
        for row in range(len(live))
    )  # fmt: skip


def live_in_account(ledger: Ledger) -> list[tuple[object, ...]]:
    """The same of an account."""
    return sorted(
        (
            holding.source.process.info.pid, holding.source.name, tuple(sorted(chip.id for chip in holding.chips)),
            int(one.kind), one.address, one.size, one.counted, -1 if one.taken is None else one.taken, one.program,
        )
        for holding in ledger.holdings()
        for one in holding.allocations()
    )  # fmt: skip


def peaks_agree(recording: Recording, ledger: Ledger) -> None:
    """The peak of each kind on each chip, and its time, are the same in the table and in an account of everything."""
    table = recording.lifetimes().allocations
    for chip in table.all_chips:
        for kind in Kind:
            value, when = timeline(table, table.on_chip(chip) & table.of_kinds(kind), table.counted).peak
            peak = ledger.chips[chip].kinds[kind].peak
            assert value == peak.value, (chip, kind)
            assert not value or abs(when * 1e-9 + table.start - (peak.time or 0.0)) < 1e-6, (chip, kind)


def _samples(recording: Recording, head: Playhead, step: float) -> Iterator[dict[tuple[str, str], tuple[float, float]]]:
    known: set[tuple[str, str]] = set()
    for number in range(floor(recording.begin / step), ceil(recording.end / step) + 1):
        head.advance(nextafter((number + 1) * step, 0.0))
        values, _ = sampled(head.ledger, known)
        known |= values.keys()
        yield values


def samples_agree(recording: Recording, step: float) -> float:
    """An account that is moved on in steps has the samples of all records.

    Returns the part of the events that was applied to it.
    """
    thinned, whole = recording.stepper(step), recording.playhead()
    for found, expected in zip(_samples(recording, thinned, step), _samples(recording, whole, step)):
        assert found == expected
        mine, theirs = state(thinned.ledger), state(whole.ledger)
        assert (mine["totals"], mine["resident"]) == (theirs["totals"], theirs["resident"])
        assert [row[:7] for row in mine["live"]] == [row[:7] for row in theirs["live"]]
    return thinned.ledger.seq / whole.ledger.seq


def two_sources() -> Recording:
    """A process with two sources that report the same buffer of DRAM; only the weaker one reports L1."""
    file = io.BytesIO()
    writer = EventRecordingWriter(file, {"start": 100.0})
    ledger, info = Ledger(), ProcessInfo(1, 1)
    weak = ledger.source(100.0, info, "client", Confidence.REPORTED)
    strong = ledger.source(100.0, info, "instrument", Confidence.EXACT)
    for source in (weak, strong):
        writer.write(101.0, source, DeviceOpened(0, ChipInfo("77")))
    writer.write(102.0, strong, Allocated(0, Kind.DRAM, 0x1000, 1000))
    writer.write(103.0, weak, Allocated(0, Kind.DRAM, 0x1000, 1000))
    writer.write(104.0, weak, Allocated(0, Kind.L1, 0x2000, 64))
    writer.finish()
    return Recording(file)
