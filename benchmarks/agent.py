# SPDX-License-Identifier: Apache-2.0
"""The cost of the native agent for the workload, and the rate at which its records reach the account."""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import time
from pathlib import Path

from tests.mock.wheel import remove_statistics, wheel

from benchmarks import callgrind
from benchmarks.report import Report, spread
from ttmem.agent import require
from ttmem.run.session import Session

PROGRAMS = Path(__file__).parent / "programs"
NATIVE = Path(__file__).parent.parent / "native" / "src"
EVENTS = 2_000_000
COLD_EVENTS = 2_000
COUNTED_EVENTS = 100_000
RECORDS = 60_000  # less than the ring holds
PAIRS = 800
LOOP_PROCESSES = 9
COUNTED_OPERATIONS = (200, 800)
MOST_INSTRUCTIONS = 560  # of an event: what it took before its cost was reduced
MOST_SHARES = {"instructions": 0.3, "lines of code": 3.0, "lines of data": 1.5}  # percent of a cached operation
UID_SEED = 77


def run(report: Report, folder: Path, rounds: int) -> None:
    program = build(folder)
    _cost(report, program, rounds)
    _instructions(report, program, folder)
    _meters(report, folder)
    _drain(report, program, rounds)
    _loop(report, folder)
    _counted_loop(report, folder)


def build(folder: Path) -> Path:
    flags = ["-std=c++17", "-O2", "-Wall"]
    library, program = folder / "libtt_metal.so", folder / "agent_events"
    shared = ["-fPIC", "-shared", "-Wl,-soname,libtt_metal.so"]
    subprocess.run(["g++", *flags, *shared, "-o", library, PROGRAMS / "tiny_metal.cpp"], check=True)
    linked = [f"-L{folder}", "-ltt_metal", "-lpthread", f"-Wl,-rpath,{folder}"]
    subprocess.run(["g++", *flags, "-o", program, PROGRAMS / "agent_events.cpp", *linked], check=True)
    return program


def _start(program: Path, **more: str) -> subprocess.Popen[str]:
    env = {**os.environ, "LD_PRELOAD": str(require()), "TTMEM_SOCKET": "/nonexistent/ttmem.sock", **more}
    return subprocess.Popen([program], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _ask(process: subprocess.Popen[str], line: str) -> str:
    to, back = process.stdin, process.stdout
    assert to is not None
    assert back is not None
    to.write(line + "\n")
    to.flush()
    return back.readline()


def _cost(report: Report, program: Path, rounds: int) -> None:
    report.title("The agent: nanoseconds per event from hook to ring, median (range)")
    names = ("an empty call", "hooks paused", "hooks on", "one send() of a record")
    figures: dict[str, list[float]] = {name: [] for name in names}
    crowd: list[float] = []
    cold: list[float] = []
    process = _start(program)
    for _ in range(rounds):
        for name, value in zip(names, map(float, _ask(process, f"cost {EVENTS}").split())):
            figures[name].append(value)
        crowd.append(float(_ask(process, f"threads 4 {EVENTS // 8}")))
        paused, on = map(float, _ask(process, f"cold {COLD_EVENTS}").split())
        cold.append(on - paused)
    process.communicate()
    for name, values in figures.items():
        report.figure(name, spread(values, digits=1))
    report.figure("hooks on, 4 threads at once", spread(crowd, digits=1))
    report.figure("added by the agent if the caches are emptied before each event", spread(cold))
    added = statistics.median(figures["hooks on"]) - statistics.median(figures["hooks paused"])
    sent = statistics.median(figures["one send() of a record"])
    report.figure("added by the agent", f"{added:.0f}", f"a send() costs {sent / added:.0f} times as much")
    report.budget("agent: an event", added, 80, "ns")


def _instructions(report: Report, program: Path, folder: Path) -> None:
    """Instructions per event, independent of the load. Two runs of different length, so that the start cancels out."""
    report.title("The agent: instructions per event, counted by callgrind on a library that does nothing")
    if not callgrind.available():
        report.figure("instructions", "-", "valgrind is not installed")
        return
    totals = []
    for events in (COUNTED_EVENTS // 10, COUNTED_EVENTS + COUNTED_EVENTS // 10):
        out = folder / f"callgrind.{events}"
        tool = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", "--trace-children=yes"]
        command = [*tool, "env", f"LD_PRELOAD={require()}", str(program)]
        env = {**os.environ, "TTMEM_SOCKET": "/nonexistent/ttmem.sock"}
        subprocess.run(command, env=env, input=f"fill {events}\n", capture_output=True, text=True, check=True)
        found = re.search(r"^(?:summary|totals): (\d+)", out.read_text(), re.M)
        assert found is not None
        totals.append(int(found[1]))
    instructions = (totals[1] - totals[0]) / COUNTED_EVENTS
    report.figure("instructions", f"{instructions:.0f}")
    report.budget("agent: an event", instructions, MOST_INSTRUCTIONS, "instructions")


def build_meters(folder: Path) -> Path:
    program = folder / "meter_cost"
    sources = [PROGRAMS / "meter_cost.cpp", *(NATIVE / name for name in ("clock.cpp", "metering.cpp", "store.cpp"))]
    flags = ["-std=c++17", "-O2", "-Wall", f"-iquote{NATIVE}", "-lpthread"]
    subprocess.run(["g++", *flags, "-o", program, *sources], check=True)
    return program


def _meters(report: Report, folder: Path) -> None:
    report.title("The agent's meters: nanoseconds for adding and removing a buffer, best of many short runs")
    done = subprocess.run([build_meters(folder)], capture_output=True, text=True, check=True)
    costs = {}
    for line in done.stdout.splitlines():
        chips, plain, with_programs = line.split()
        costs[int(chips), False], costs[int(chips), True] = float(plain), float(with_programs)
        report.figure(f"{chips} chips; with a program of its own on each", f"{plain}; {with_programs}")
    ratio = max(costs.values()) / costs[1, False]
    report.budget("agent: meters, 32 chips with programs by 1 chip", ratio, 1.3, "times")


def _drain(report: Report, program: Path, rounds: int) -> None:
    report.title("From the ring into the account: records per second, median (range)")
    rates: list[float] = []
    with Session(lambda text: print(text)) as collector:
        process = _start(program, TTMEM_RUN_SOCKET=collector.path)
        _ask(process, "fill 1000")
        collector.turn()
        for _ in range(rounds):
            _ask(process, f"fill {RECORDS}")
            before = collector.rings.counts()[0]
            start = time.perf_counter()
            collector.turn()
            spent = time.perf_counter() - start
            read, lost = collector.rings.counts()
            assert (read - before, lost) == (RECORDS, 0)
            rates.append(RECORDS / spent)
        process.communicate()
    report.figure("allocations and frees, one chip", spread(rates))
    report.budget("agent: ring into the account", statistics.median(rates) / 1000, 300, "K records/s", at_least=True)


def _loop(report: Report, folder: Path) -> None:
    report.title("A real ttnn loop of cached operations, alternately with and without hooks in one process")
    bench = wheel("3.12")
    env = {
        **bench.environment("n150", folder, UID_SEED),
        "LD_PRELOAD": str(require()),
        "TTMEM_SOCKET": "/nonexistent/ttmem.sock",
    }
    command = [str(bench.python), str(PROGRAMS / "ttnn_loop.py"), str(PAIRS)]
    pairs: list[tuple[float, ...]] = []
    medians = []  # per process, because its memory layout matters as much as the hooks
    try:
        for _ in range(LOOP_PROCESSES):
            done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
            found = [tuple(map(float, line.split())) for line in done.stdout.splitlines() if line[:1].isdigit()]
            medians.append(statistics.median(on / off for on, off in found))
            pairs += found
    finally:
        remove_statistics("n150", UID_SEED)
    report.figure("microseconds per operation, hooks off", spread([off / 1000 for _, off in pairs], digits=1))
    report.figure("microseconds per operation, hooks on", spread([on / 1000 for on, _ in pairs], digits=1))
    report.figure(f"ratio on/off, median of {PAIRS} pairs, {LOOP_PROCESSES} processes", spread(medians, digits=4))
    report.budget("agent: a cached ttnn operation is slower by", 100 * (statistics.median(medians) - 1), 1.0, "%")


def _counted_loop(report: Report, folder: Path) -> None:
    """The same loop, counted. An operation displaces the agent from the caches, so each cache line costs time."""
    report.title("The same loop, counted by callgrind: what of a cached operation is in the agent's code")
    if not callgrind.available():
        report.figure("instructions", "-", "valgrind is not installed")
        return
    bench, agent = wheel("3.12"), require()
    env = {
        **bench.environment("n150", folder, UID_SEED),
        "LD_PRELOAD": str(agent),
        "TTMEM_SOCKET": "/nonexistent/ttmem.sock",
    }
    program = [str(bench.python), str(PROGRAMS / "ttnn_operations.py")]
    try:
        short, long = (callgrind.count([*program, str(n)], env, folder) for n in COUNTED_OPERATIONS)
    finally:
        remove_statistics("n150", UID_SEED)
    added = {library: counts.minus(short.get(library, callgrind.Counts())) for library, counts in long.items()}
    operations = COUNTED_OPERATIONS[1] - COUNTED_OPERATIONS[0]
    report.figure("lines: those that were not in the first-level cache", "")
    for (name, most), own, whole in zip(MOST_SHARES.items(), added[agent.name], map(sum, zip(*added.values()))):
        share = 100 * own / whole
        report.figure(name, f"{own / operations:,.0f}", f"{share:.2f} % of {whole / operations:,.0f}")
        report.budget(f"agent: {name} of a cached ttnn operation", share, most, "%")
