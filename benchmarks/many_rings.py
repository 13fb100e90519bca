# SPDX-License-Identifier: Apache-2.0
"""More records than a server can follow: 32 rings at 30,000 records per second each, and one that writes fewer.

Each ring belongs to a process of its own that runs the agent's code (programs/ring_load.cpp). During the load the API
is asked twice a second, first without and then with a reader of the stream of events. Afterwards the bytes and peaks
of every process are compared with the figures of its writer: lost records must not make them wrong. At the end all
rings are full, and all processes are killed at the same time.
"""

from __future__ import annotations

import socket
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

from tests import ring_writers
from tests.ring_writers import RingWriter, Written
from tests.support import Server

from benchmarks.report import Report, spread
from benchmarks.server_loops import cpu_seconds, losses

build = ring_writers.build
_RINGS = 32
_CHIP_ID = 77000
_CALM_RATE = 1_000  # records per second of one ring
_FULL_RATE = 30_000
_SMALL_RATE = 2_000  # of the 33rd ring; in one phase it writes more than its ring holds, so it can lose records
_CALM_SECONDS = 5.0
_FULL_SECONDS = 35.0
_LAG_SECONDS = 1.0  # after which the records of the 33rd ring must be in the account, while the others still write
_REQUEST_SECONDS = 0.5
_PATHS = ("/snapshot", "/allocations?limit=90", "/processes", "/metrics")
_SETTLE_SECONDS = 120.0  # at most, for the rest of the rings
_ANSWER_BUDGET_MS = 1000.0
_FILL_RATE, _FILL_SECONDS = 100_000, 0.55  # nearly a ring
_DEATH_BUDGET_SECONDS = 3.0


class _Stream:
    """A reader of the stream of events that reads as fast as it can."""

    def __init__(self, server: Server) -> None:
        self.events = self.lost = 0
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(server.api)
        self._socket.sendall(b"GET /events HTTP/1.1\r\nHost: ttmem\r\n\r\n")
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        with self._socket.makefile("rb") as lines:
            lost = False
            for line in lines:
                if line.startswith(b"event: lost"):
                    lost = True
                elif line.startswith(b"data: "):
                    if lost:
                        self.lost += int(line.rpartition(b":")[2].strip(b"}\r\n "))
                    else:
                        self.events += 1
                    lost = False

    def end(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._socket.close()


class _Load(NamedTuple):
    """One phase of the benchmark."""

    rate: float  # records per second of all rings
    read: float  # the same of those that reached the account
    cpu: float  # percent of a core
    answers: dict[str, list[float]]
    events: int | None  # that the reader of the stream got
    lost_events: int | None
    dropped: int  # records of all rings
    small_dropped: int  # of these, of the ring that writes fewer
    small_exact: bool  # its bytes, before the end of the load
    shed: str  # `unread` and `shed` at the end of the load
    after: dict[str, Any]  # the snapshot after the last record
    settled: float  # seconds until the server had read the rest of the rings
    written: list[Written]


def run(report: Report, folder: Path, rounds: int) -> None:
    report.title(f"{_RINGS} rings at {_FULL_RATE:,} records/s each, one at {_SMALL_RATE:,}, and requests at 2 Hz")
    program = build(folder)
    own = folder / "many-rings"
    own.mkdir()
    server = Server(own, "--quiet")
    try:
        with ring_writers.ring_writers(program, server, range(_CHIP_ID, _CHIP_ID + _RINGS + 1)) as writers:
            calm = _load(server, writers, _CALM_RATE, _CALM_SECONDS, stream=True)
            _print(report, f"calm, {_CALM_RATE:,} records/s each, a stream", calm)
            report.budget("many rings, calm: records dropped", calm.dropped, 0, "records")
            for name, stream in (("full", False), ("full, a stream", True)):
                full = _load(server, writers, _FULL_RATE, _FULL_SECONDS, stream=stream)
                _print(report, name, full)
                _judge(report, f"many rings, {name}", full, writers)
            _die_at_once(report, server, writers)
    finally:
        server.stop()


def _die_at_once(report: Report, server: Server, writers: list[RingWriter]) -> None:
    """Kill all writers while nothing of their rings is read, and wait until none of them is listed as tracked."""
    before = _settle(server, writers)
    with server.stopped():
        _set_rates(writers, _FILL_RATE)
        time.sleep(_FILL_SECONDS)
        written = _set_rates(writers, 0)
        for writer in writers:
            writer.process.kill()
            writer.process.wait()
    began, slowest = time.monotonic(), 0.0
    while True:
        asked = time.monotonic()
        after = server.snapshot()
        slowest = max(slowest, time.monotonic() - asked)
        rows = _rows(after, writers)
        if all(row["state"] == "exited" for row in rows) or asked > began + _SETTLE_SECONDS:
            break
        time.sleep(_REQUEST_SECONDS / 10)
    seconds = time.monotonic() - began
    wrong = sum(not one.has_peaks_of(row) for row, one in zip(rows, written, strict=True))
    dropped = sum(_dropped(after, writers)) - sum(_dropped(before, writers))
    report.figure(
        "full rings of dead processes: seconds until all have exited",
        f"{seconds:.1f}",
        f"{dropped:,} records dropped, {wrong} processes with wrong peaks, slowest snapshot {1e3 * slowest:.0f} ms",
    )
    report.budget("many rings, all die: until all have exited", seconds, _DEATH_BUDGET_SECONDS, "s")
    report.budget("many rings, all die: slowest answer", 1e3 * slowest, _ANSWER_BUDGET_MS, "ms")
    report.budget("many rings, all die: processes with wrong peaks", wrong, 0, "processes")


def _judge(report: Report, name: str, load: _Load, writers: list[RingWriter]) -> None:
    report.budget(f"{name}: CPU of the server", load.cpu, 100, "% of a core")
    report.budget(f"{name}: slowest answer", 1e3 * _slowest(load), _ANSWER_BUDGET_MS, "ms")
    if load.read / len(writers) > _SMALL_RATE:
        report.budget(f"{name}: dropped by the ring within its share", load.small_dropped, 0, "records")
        report.budget(f"{name}: the ring within its share is late", not load.small_exact, 0, "processes")
    wrong = _wrong(load, writers, peaks=False), _wrong(load, writers, peaks=True)
    report.figure("  processes with wrong bytes; with wrong peaks", f"{wrong[0]}; {wrong[1]}")
    report.budget(f"{name}: processes with wrong bytes or peaks", max(wrong), 0, "processes")


def _load(server: Server, writers: list[RingWriter], rate: int, seconds: float, *, stream: bool) -> _Load:
    before = _settle(server, writers)
    reader = _Stream(server) if stream else None
    first = _set_rates(writers, rate)
    began, cpu = time.monotonic(), cpu_seconds(server.process.pid)
    answers: dict[str, list[float]] = {path: [] for path in _PATHS}
    asked = 0
    while time.monotonic() < began + seconds:
        time.sleep(max(0.0, began + asked * _REQUEST_SECONDS - time.monotonic()))
        path = _PATHS[asked % len(_PATHS)]
        sent = time.monotonic()
        server.text(path)
        answers[path].append(time.monotonic() - sent)
        asked += 1
    spent, cpu = time.monotonic() - began, cpu_seconds(server.process.pid) - cpu
    writers[-1].say(0)
    small = writers[-1].answer()
    time.sleep(_LAG_SECONDS)
    end = server.snapshot()
    written = _set_rates(writers, 0)
    if reader is not None:
        reader.end()
    stopped = time.monotonic()
    after = _settle(server, writers)
    dropped = [now - then for now, then in zip(_dropped(after, writers), _dropped(before, writers), strict=True)]
    return _Load(
        rate=sum(now.records - then.records for now, then in zip(written, first, strict=True)) / (spent + _LAG_SECONDS),
        read=(end["server"]["events"] - before["server"]["events"]) / (spent + _LAG_SECONDS),
        cpu=100 * cpu / spent,
        answers=answers,
        events=reader.events if reader is not None else None,
        lost_events=reader.lost if reader is not None else None,
        dropped=sum(dropped),
        small_dropped=dropped[-1],
        small_exact=small.has_bytes_of(_rows(end, writers)[-1]),
        shed=losses(end),
        after=after,
        settled=time.monotonic() - stopped,
        written=written,
    )


def _set_rates(writers: list[RingWriter], rate: int) -> list[Written]:
    """The last ring writes at its own rate whenever the others write."""
    for writer in writers:
        writer.say(_SMALL_RATE if rate and writer is writers[-1] else rate)
    return [writer.answer() for writer in writers]


def _settle(server: Server, writers: list[RingWriter]) -> dict[str, Any]:
    """Wait until every ring is known and has been read, and the account does not change any more."""
    end = time.monotonic() + _SETTLE_SECONDS
    events = -1
    while True:
        time.sleep(_REQUEST_SECONDS)
        states = {part["name"]: part["state"] for part in server.get("/health")["parts"]}
        snapshot = server.snapshot()
        known = len(_rows(snapshot, writers)) == len(writers) and states["agents"] == "ok"
        if (known and snapshot["server"]["events"] == events) or time.monotonic() > end:
            return snapshot
        events = snapshot["server"]["events"]


def _rows(snapshot: dict[str, Any], writers: list[RingWriter]) -> list[dict[str, Any]]:
    rows = {row["pid"]: row for row in snapshot["processes"]}
    return [rows[writer.process.pid] for writer in writers if writer.process.pid in rows]


def _dropped(snapshot: dict[str, Any], writers: list[RingWriter]) -> list[int]:
    return [row["anomalies"]["dropped"] for row in _rows(snapshot, writers)]


def _wrong(load: _Load, writers: list[RingWriter], *, peaks: bool) -> int:
    """Processes whose bytes or peaks are not those of their writer."""
    pairs = zip(_rows(load.after, writers), load.written, strict=True)
    return sum(not (written.has_peaks_of(row) if peaks else written.has_bytes_of(row)) for row, written in pairs)


def _slowest(load: _Load) -> float:
    return max(max(times) for times in load.answers.values() if times)


def _print(report: Report, name: str, load: _Load) -> None:
    share = f"{load.read / (_RINGS + 1):,.0f} of each ring"
    report.figure(f"{name}: CPU of the server", f"{load.cpu:.0f} %")
    report.figure("  records/s written", f"{load.rate:,.0f}")
    report.figure("  records/s read", f"{load.read:,.0f}", share)
    report.figure("  records dropped, all rings", f"{load.dropped:,}", f"at the end of the load: {load.shed}")
    late = "its bytes are exact" if load.small_exact else "its bytes are not yet those that it wrote"
    note = f"{late} {_LAG_SECONDS:g} s after its last record"
    report.figure(f"  of these, of the ring with {_SMALL_RATE:,} records/s", f"{load.small_dropped:,}", note)
    report.figure("  seconds until the rest of the rings was read", f"{load.settled:.0f}")
    if load.events is not None:
        report.figure(
            "  events to the reader of the stream", f"{load.events:,}", f"{load.lost_events:,} left out for it"
        )
    for path, times in load.answers.items():
        report.figure(f"  {path}, ms", spread(times, 1e3))
