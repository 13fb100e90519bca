# SPDX-License-Identifier: Apache-2.0
"""How long an answer blocks the server's event loop. All other clients and reports wait for that time.

A real server with a large account gets requests over its socket. The result is the longest callback of each request
in CPU time, so that other load does not count, as the median of several rounds.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from tests.snapshots import counters, driver_chip, holder, machine, slot

from benchmarks.loop_watch import LoopWatch
from benchmarks.report import Report, spread
from ttmem.account.entities import Source
from ttmem.account.ledger import Ledger
from ttmem.model.events import Allocated, DeviceOpened, Extra, ProgramCompiled, ProgramRun, WorkloadRun
from ttmem.model.geometry import BOARDS
from ttmem.model.identity import ChipInfo, ProcessInfo
from ttmem.model.kinds import Confidence, Kind
from ttmem.server.daemon import Options, Server
from ttmem.wire.api_client import get
from ttmem.wire.endpoint import api_path

_BUDGET_MS = 20.0
_MILLION = 1_000_000
_ROUNDS = 3  # maximum, because CPU time varies little
_SOME_CORES = (1 << 8) - 1
_CHIP = "?chip=77000"
_OF_ALLOCATIONS = (
    "/allocations?limit=90",
    "/allocations?limit=90&sort=newest&text=kv",
    f"/headroom{_CHIP}",
    f"/cores{_CHIP}&core=0,0",
)
_OF_ALL = ("/snapshot", "/processes", "/peaks", "/leaks", "/metrics", "/dump")


def _source(ledger: Ledger, pid: int, chips: Iterable[int] = (0,)) -> Source:
    source = ledger.source(0.0, ProcessInfo(pid, 1, 0, "python"), "agent", Confidence.EXACT)
    board = BOARDS["n150"]
    for number in chips:
        info = ChipInfo(str(77000 + number), None, None, board.arch, None, False, board._replace(live=True))
        ledger.apply(0.0, source, DeviceOpened(number, info))
    return source


def _spread_out(server: Server) -> None:
    """A million allocations of eight processes on 32 chips."""
    _allocations(server.ledger, [_source(server.ledger, 100 + number, range(32)) for number in range(8)], 32)


def _on_one_chip(server: Server) -> None:
    """A million allocations of one process on one chip."""
    _allocations(server.ledger, [_source(server.ledger, 100)], 1)


def _allocations(ledger: Ledger, sources: list[Source], chips: int) -> None:
    """As many adjacent allocations in L1 as fit, the others in DRAM."""
    for number in range(_MILLION):
        place = number // chips
        kind = Kind.L1 if 0x20000 + place * 32 < 0x160000 else Kind.DRAM
        extra = Extra(64 * 32, tag="kv cache")
        ledger.allocated(
            0.0, sources[number % len(sources)], number % chips, kind, 0x20000 + place * 32, 1024, extra=extra
        )


def _overlapping(server: Server) -> None:
    """A hundred thousand L1 buffers of one chip that all overlap."""
    source = _source(server.ledger, 100)
    for number in range(100_000):
        extra = Extra(64 * 1024 * 1024)
        server.ledger.allocated(0.0, source, 0, Kind.L1, 0x20000 + number * 8, 1024, extra=extra)


def _programs(server: Server) -> None:
    """A hundred thousand programs of ten parts each on one chip."""
    _cached(server.ledger, 100_000, 10)


def _large_program(server: Server) -> None:
    """One program of twenty thousand parts, the last that ran."""
    _cached(server.ledger, 1, 20_000)


def _cached(ledger: Ledger, programs: int, parts: int) -> None:
    source = _source(ledger, 100)
    for program in range(1, programs + 1):
        ledger.apply(0.0, source, ProgramCompiled(0, program, 4096, program))
        for part in range(parts):
            kind = Kind.CB if part % 2 else Kind.KERNEL
            event = Allocated(0, kind, 0x20000 + part * 64, 512, program, extra=Extra(cores=_SOME_CORES))
            ledger.apply(0.0, source, event)
    ledger.apply(0.0, source, ProgramRun(0, programs, _SOME_CORES))


def _workloads(server: Server) -> None:
    """A thousand workloads on 32 chips, each with a program for each chip."""
    source = _source(server.ledger, 100, range(32))
    for workload in range(1000):
        for chip in range(32):
            program = 1 + 32 * workload + chip
            event = Allocated(chip, Kind.CB, 0x20000, 512, program, extra=Extra(cores=_SOME_CORES))
            server.ledger.apply(0.0, source, event)
    _launch_all(server)


def _launch_all(server: Server) -> None:
    """Launch all these workloads."""
    (process,) = server.ledger.processes.values()
    (source,) = process.sources.values()
    for workload in range(1000):
        runs = tuple(ProgramRun(chip, 1 + 32 * workload + chip, _SOME_CORES) for chip in range(32))
        server.ledger.apply(0.0, source, WorkloadRun(workload, runs))


def _crowd(server: Server) -> None:
    """Two hundred processes on ten of 32 chips each, and 64 slots in tt-metal's counters of each chip."""
    for pid in range(100, 300):
        chips = [(pid + step * 3) % 32 for step in range(10)]
        source = _source(server.ledger, pid, chips)
        for number in chips:
            for kind in (Kind.DRAM, Kind.L1):
                server.ledger.allocated(0.0, source, number, kind, 0x20000 + pid * 64, 64)
    seen = [driver_chip(number, asic_id=f"{77000 + number:X}") for number in range(32)]
    slots = [slot(pid, 64, 64, start=1) for pid in range(100, 164)]
    files = [counters(77000 + number, *slots, metal_id=number) for number in range(32)]
    look = machine(*seen, processes=[holder(pid, *range(32), start=1) for pid in range(100, 300)], shm=files)
    # Set directly instead of creating the files of so many processes, which would not change the result.
    server.current._machine = True
    server.current.store(look)
    server.current._time += 3600


def _hour(server: Server) -> None:
    """Twelve kinds on 32 chips, with a full history."""
    series = [(str(77000 + number), kind.label) for number in range(32) for kind in Kind]
    for tier in (server.history.fine, server.history.coarse):
        now = server.clock.now()
        for step in range(tier.length):
            used = 1 << 30 | step * 4096
            tier.put(now - step * tier.step, dict.fromkeys(series, (used, used)))


class _Case(NamedTuple):
    fill: Callable[[Server], None]
    paths: tuple[str, ...]
    before_each: Callable[[Server], None] = lambda server: None  # so that an answer is not prepared by the one before


_CASES = {
    "spread": _Case(_spread_out, (*_OF_ALLOCATIONS, "/allocations?limit=10000", *_OF_ALL)),
    "one-chip": _Case(_on_one_chip, (*_OF_ALLOCATIONS, "/snapshot")),
    "overlapping": _Case(_overlapping, (*_OF_ALLOCATIONS, "/snapshot")),
    "programs": _Case(_programs, (*_OF_ALLOCATIONS, *_OF_ALL)),
    "large-program": _Case(_large_program, (f"/cores{_CHIP}&core=0,0", "/snapshot")),
    "workloads": _Case(_workloads, ("/snapshot", f"/cores{_CHIP}"), _launch_all),
    "crowd": _Case(_crowd, ("/snapshot", "/processes", "/metrics")),
    "hour": _Case(_hour, ("/history", "/history?step=10", f"/history{_CHIP}")),
}


def run(report: Report, folder: Path, rounds: int) -> None:
    report.title("Blocking of the server's event loop, ms: longest per answer, median (range)")
    for case, (fill, _, _) in _CASES.items():
        command = [
            sys.executable,
            "-m",
            "benchmarks.holds",
            case,
            str(folder / f"{case}.sock"),
            str(min(rounds, _ROUNDS)),
        ]
        answer = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        found: dict[str, dict[str, list[float]]] = json.loads(answer.stdout)
        report.figure(str(fill.__doc__).rstrip("."), "")
        worst, where = 0.0, ""
        for path, one in found.items():
            took = sorted(one["took"])[len(one["took"]) // 2]
            report.figure(f"  {path}", "", f"{spread(one['holds'], 1e3, 1)}, answered after {took * 1e3:,.0f} ms")
            median = sorted(one["holds"])[len(one["holds"]) // 2] * 1e3
            worst, where = max((worst, where), (median, path))
        report.budget(f"longest hold, {case}: {where}", worst, _BUDGET_MS, "ms")


async def _measure(case: str, path: str, rounds: int) -> dict[str, Any]:
    server = Server(Options(path, legacy_path=None, quiet=True, machine=None))
    fill, paths, before_each = _CASES[case]
    ready = asyncio.Event()
    serving = asyncio.create_task(server.run(ready.set))
    await ready.wait()
    fill(server)
    out: dict[str, Any] = {each: {"holds": [], "took": []} for each in paths}
    for _ in range(rounds):
        for each in paths:
            before_each(server)
            with LoopWatch() as watch:
                began = time.monotonic()
                await asyncio.to_thread(get, each, socket_path=api_path(path), timeout=120)
                out[each]["took"].append(time.monotonic() - began)
            out[each]["holds"].append(watch.longest)
            server.cores._made.clear()  # the next request must not use cached results
            server.cores._numbers.clear()
            server.cores._next = 0.0
            await asyncio.sleep(0.1)
    server.stop()
    await serving
    return out


if __name__ == "__main__":
    json.dump(asyncio.run(_measure(sys.argv[1], sys.argv[2], int(sys.argv[3]))), sys.stdout)
