# SPDX-License-Identifier: Apache-2.0
"""What an event on a mesh costs the account, by the number of its chips, and the memory of a live allocation there."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import mesh_rings
from benchmarks.report import Report

Times = list[tuple[int, str, list[float]]]  # chips, what is special, seconds of CPU of a record in each block
_OWN_PROGRAMS, _PAST = "programs of each chip", "which processes used one by one before"
_CHIPS = (1, 2, 8, 32)
_MOST_RATIO = 1.3
_LOOKS = (4, 50)  # in which a reader of a ring reads a block of records
_MEASURE = """
import json, sys, time
from ttmem.model.events import Allocated, DeviceOpened, Extra, ProcessExited, ProgramRun, WorkloadRun
from ttmem.model.identity import ChipInfo, ProcessInfo
from ttmem.model.kinds import Confidence, Kind
from ttmem.account.ledger import Ledger

chips, rounds = [int(text) for text in sys.argv[1].split(",")], int(sys.argv[2])
CORES = (1 << 64) - 1

class Loop:
    '''A cached operation on a mesh, over and over: allocate its output, run its programs, free it.'''

    def __init__(self, count, per_chip, past):
        self.ledger = ledger = Ledger()
        for number in range(count if past else 0):  # processes that used one chip each, so their peaks differ
            other = ledger.source(0.0, ProcessInfo(2 + number, 1), "agent", Confidence.EXACT)
            ledger.apply(0.0, other, DeviceOpened(0, ChipInfo(f"chip{number}")))
            for kind in (Kind.DRAM, Kind.L1):
                ledger.apply(0.0, other, Allocated(0, kind, 4096, 4096 * (1 + number), 0, 0, Extra(8192), 1))
            ledger.apply(0.0, other, ProcessExited())
        self.source = source = ledger.source(0.0, ProcessInfo(1, 1), "agent", Confidence.EXACT)
        self.device = tuple(range(count)) if count > 1 else 0
        for number in range(count):
            ledger.apply(0.0, source, DeviceOpened(number, ChipInfo(f"chip{number}")))
        # With fabric and collective operations each chip has programs of its own; otherwise there is one for all.
        parts = range(count) if per_chip else [self.device]
        for program, device in enumerate(parts, 1):
            for address, kind in enumerate((Kind.CB, Kind.KERNEL, Kind.FABRIC_KERNEL), 1):
                ledger.apply(0.0, source, Allocated(device, kind, address, 4096, program, 0, Extra(None, CORES)))
        runs = tuple(ProgramRun(device, program, CORES) for program, device in enumerate(parts, 1))
        self.launches = [WorkloadRun(7, runs), WorkloadRun(8, runs)] if len(runs) > 1 else [*runs, *runs]
        self.extra = Extra(8192)
        for number in range(1000):
            self.take(number)

    def take(self, number):
        kind = Kind.L1 if number % 2 else Kind.DRAM
        address, ident = 4096 * number + 64, number + 1
        self.ledger.allocated(1.0, self.source, self.device, kind, address, 4096, 0, 0, self.extra, ident)

    def operations(self, count):
        ledger, source, device = self.ledger, self.source, self.device
        began = time.process_time()
        for number in range(count):
            kind = Kind.L1 if number % 2 else Kind.DRAM
            address, ident = 4096 * number + (1 << 30), number + 100_000
            ledger.allocated(2.0, source, device, kind, address, 4096, 0, 0, self.extra, ident)
            ledger.apply(2.0, source, self.launches[number & 1])
            ledger.freed(2.0, source, device, kind, address, 4096, 0, 0, 0, ident)
        return (time.process_time() - began) / (3 * count)

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096

if rounds:
    own, past = sys.argv[3:]
    loops = {(count, what): Loop(count, what == own, what == past) for count in chips for what in ("", own, past)}
    for loop in loops.values():
        loop.operations(2000)
    found = [[count, what, []] for count, what in loops]
    for _ in range(rounds * 4):
        for entry, loop in zip(found, loops.values()):
            entry[2].append(loop.operations(2000))
else:
    loop, live = Loop(chips[0], False, False), 200_000
    before = resident()
    for number in range(1000, 1000 + live):
        loop.take(number)
    found = (resident() - before) / live
json.dump(found, sys.stdout)
"""


def _measure(chips: Sequence[int], rounds: int) -> Any:
    command = [sys.executable, "-c", _MEASURE, ",".join(map(str, chips)), str(rounds), _OWN_PROGRAMS, _PAST]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def run(report: Report, folder: Path, rounds: int) -> None:
    report.title("The account of a mesh: a cached operation, CPU of a record")
    _ratios(report, "account: ", _measure(_CHIPS, rounds))
    sizes = [_measure([count], 0) for count in (_CHIPS[0], _CHIPS[-1])]
    for count, size in zip((_CHIPS[0], _CHIPS[-1]), sizes):
        report.figure(f"bytes a live allocation, {count} chip{'s' * (count > 1)}", f"{size:.0f}")
    report.budget(
        f"account: memory of a live allocation, {_CHIPS[-1]} chips over one", sizes[1] / sizes[0], _MOST_RATIO, "x"
    )
    for looks in _LOOKS:
        records = f"{mesh_rings.RECORDS // looks:,} records in a look"
        report.title(f"The same from an agent's ring into the account, as a server reads it, {records}")
        times = [
            (count, _OWN_PROGRAMS if per_chip else "", values)
            for count, per_chip, values in mesh_rings.measure(_CHIPS, rounds, looks)
        ]
        _ratios(report, f"ring into the account, {records}: ", times)


def _ratios(report: Report, what: str, times: Times) -> None:
    one = {special: values for count, special, values in times if count == 1}
    for special, its_one in one.items():
        for count, its_special, values in times:
            if its_special != special:
                continue
            ratio = statistics.median(mine / its for mine, its in zip(values, its_one))
            name = f"{count} chip{'s' * (count > 1)}" + (f", {special}" if special else "")
            report.figure(
                f"{name}, us", f"{statistics.median(values) * 1e6:.2f}", f"{ratio:.2f} times that of one chip"
            )
            if count == _CHIPS[-1]:
                report.budget(f"{what}a record of {name}, over one chip", ratio, _MOST_RATIO, "x")
