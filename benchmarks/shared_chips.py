# SPDX-License-Identifier: Apache-2.0
"""Rings whose processes share a chip, beside as many with chips of their own: CPU of the server for a record.

The peak of a chip depends on the order of the records of all its processes, so their rings are read together, in the
order of time. The writers (programs/ring_load.cpp) write few records at a time, so these alternate between the rings.
"""

from __future__ import annotations

import statistics
import time
from pathlib import Path
from typing import Any, NamedTuple

from tests.ring_writers import RingWriter, Written, build, ring_writers
from tests.support import Server, not_none, wait_until

from benchmarks.report import Report, spread
from benchmarks.server_loops import cpu_seconds

_COUNTS = (2, 8)
_RATE = 40_000  # records per second of all rings that write
_BURST_US = 1000  # 20 records of each of 2 rings, 5 of each of 8
_SECONDS = 4.0
_SHARED_CHIP_ID, _OWN_CHIP_ID = 77000, 78000
_POOLS = ("dram", "l1")
_BUDGET_RATIO = 2.0


class _Phase(NamedTuple):
    seconds: float  # CPU of a record
    written: list[Written]
    snapshot: dict[str, Any]


def run(report: Report, folder: Path, rounds: int) -> None:
    report.title(f"Rings that share a chip: CPU of the server for a record, {_RATE:,} records/s in all")
    program = build(folder)
    for count in _COUNTS:
        own = folder / f"shared-chips-{count}"
        own.mkdir()
        server = Server(own, "--quiet")
        chips = [*[_SHARED_CHIP_ID] * count, *range(_OWN_CHIP_ID, _OWN_CHIP_ID + count)]
        try:
            with ring_writers(program, server, chips, _BURST_US) as writers:
                _measure(report, server, writers[:count], writers[count:], rounds)
        finally:
            server.stop()


def _measure(report: Report, server: Server, sharing: list[RingWriter], alone: list[RingWriter], rounds: int) -> None:
    found: dict[str, list[_Phase]] = {"sharing a chip": [], "on chips of their own": []}
    for _ in range(rounds):
        for phases, writers in zip(found.values(), (sharing, alone), strict=True):
            phases.append(_phase(server, writers))
    shared, own = found.values()
    for name, phases in found.items():
        report.figure(f"{len(sharing)} rings {name}, us", spread([one.seconds for one in phases], 1e6, 2))
    ratio = statistics.median(one.seconds / its.seconds for one, its in zip(shared, own, strict=True))
    report.figure("  sharing a chip, over chips of their own", f"{ratio:.2f}")
    name = f"{len(sharing)} rings that share a chip"
    report.budget(f"{name}: CPU of a record, by that on chips of their own", ratio, _BUDGET_RATIO, "times")
    rows = [
        (not_none(writer.row(phases[-1].snapshot)), written)
        for phases, writers in ((shared, sharing), (own, alone))
        for writer, written in zip(writers, phases[-1].written, strict=True)
    ]
    wrong = sum(not (written.has_bytes_of(row) and written.has_peaks_of(row)) for row, written in rows)
    report.budget(f"{name}: processes with wrong bytes or peaks", wrong, 0, "processes")
    report.budget(f"{name}: records dropped", sum(row["anomalies"]["dropped"] for row, _ in rows), 0, "records")
    report.budget(f"{name}: peaks outside their limits", _outside(shared[-1]), 0, "peaks")


def _phase(server: Server, writers: list[RingWriter]) -> _Phase:
    """The given writers write for some seconds, and all that they wrote is read."""
    _settled(server, writers)
    first, cpu = _set_rates(writers, _RATE // len(writers)), cpu_seconds(server.process.pid)
    time.sleep(_SECONDS)
    written = _set_rates(writers, 0)
    snapshot = _settled(server, writers)
    cpu = cpu_seconds(server.process.pid) - cpu
    records = sum(now.records - then.records for now, then in zip(written, first, strict=True))
    return _Phase(cpu / records, written, snapshot)


def _set_rates(writers: list[RingWriter], rate: int) -> list[Written]:
    for writer in writers:
        writer.say(rate)
    return [writer.answer() for writer in writers]


def _settled(server: Server, writers: list[RingWriter]) -> dict[str, Any]:
    """The snapshot when all rings are read."""

    def read() -> dict[str, Any] | None:
        snapshot = server.snapshot()
        return snapshot if all(writer.is_read(snapshot) for writer in writers) else None

    snapshot: dict[str, Any] = wait_until(read, "the end of all rings")
    return snapshot


def _outside(phase: _Phase) -> int:
    """Peaks of the shared chip that are below the highest of one process, or above the sum of those of all."""
    (memory,) = [chip["memory"] for chip in phase.snapshot["chips"] if chip["chip"] == str(_SHARED_CHIP_ID)]
    outside = 0
    for pool in _POOLS:
        highs = [getattr(written, f"peak_{pool}") for written in phase.written]
        peak, at_most = memory[pool]["peak"], memory[pool]["peak_at_most"]
        outside += not max(highs) <= peak <= (peak if at_most is None else at_most) <= sum(highs)
    return outside
