# SPDX-License-Identifier: Apache-2.0
"""Which program ran last on each core, compared with a model that has an entry for each core of each chip."""

from __future__ import annotations

import random

import pytest

from ttmem.account.entities import Chip, Source
from ttmem.account.ledger import Ledger
from ttmem.model.events import (
    Allocated,
    ChipFound,
    Device,
    DeviceClosed,
    DeviceOpened,
    Event,
    Extra,
    ProcessExited,
    ProgramDestroyed,
    ProgramRun,
    ResyncBegin,
    ResyncEnd,
    WorkloadRun,
    device_numbers,
)
from ttmem.model.identity import ChipInfo, ProcessInfo
from ttmem.model.kinds import Confidence, Kind

CHIPS = 6  # those of the devices in the beginning, and others
NUMBERS = range(4)
CORES = 8
DEVICES: tuple[Device, ...] = (0, 1, 2, 3, (0, 1), (2, 3), (0, 1, 2, 3))
MASKS = (0xFF, 0xFF, 0x0F, 0xF0, 0x3C, 0x01)
Where = tuple[int, Device, int]  # process, mesh and number of a program


class Both:
    """An account, and the program on each core."""

    def __init__(self, seed: int, *, processes: int) -> None:
        self.dice = random.Random(seed)
        self.ledger = Ledger()
        self.sources: dict[int, Source] = {}
        self.chips: dict[tuple[int, int], int] = {}  # (process, device number) -> chip
        self.cores: dict[tuple[int, int], Where] = {}  # (chip, core) -> the program that ran last
        self.masks: dict[Where, int] = {}
        self.workloads: dict[tuple[int, int], tuple[ProgramRun, ...]] = {}
        self.launches = 0
        self.moved = 0
        for chip in range(CHIPS):
            self.ledger.apply(0.0, None, ChipFound(ChipInfo(str(chip))))
        for pid in range(1, processes + 1):
            self.start(pid)

    def start(self, pid: int) -> None:
        self.sources[pid] = self.ledger.source(0.0, ProcessInfo(pid, pid), "agent", Confidence.EXACT)
        for number in NUMBERS:
            self.apply(pid, DeviceOpened(number, ChipInfo(str(number))))
            self.chips[pid, number] = number
        for device in DEVICES:  # two devices of one chip cannot become a mesh, but those of a mesh may move to one chip
            self.apply(pid, Allocated(device, Kind.DRAM, 4096, 64))

    def apply(self, pid: int, event: Event) -> None:
        self.ledger.apply(float(self.ledger.seq), self.sources[pid], event)

    def step(self) -> None:
        dice = self.dice
        pid, device, number = where = dice.choice(list(self.sources)), dice.choice(DEVICES), dice.randrange(6)
        chosen = dice.random()
        if where not in self.masks:
            self.masks[where] = dice.choice(MASKS)
            parts = Extra(cores=self.masks[where])
            self.apply(pid, Allocated(device, Kind.CB, 4096, 64, number, extra=parts))
        elif chosen < 0.6:
            self.apply(pid, ProgramRun(device, number, self.masks[where]))
            self._ran(where)
        elif chosen < 0.85:
            self._workload(pid, dice.randrange(3))
        elif chosen < 0.9:
            self._move(pid, dice.choice(NUMBERS), dice.randrange(CHIPS))
        elif chosen < 0.95:
            self.apply(pid, ProgramDestroyed(device, number))
            self._gone([where])
        elif chosen < 0.97:
            self.apply(pid, DeviceClosed(device))
            self._gone([one for one in self.masks if one[:2] == (pid, device)])
        elif chosen < 0.985:
            self.apply(pid, ResyncBegin(2))  # nothing is reported again
            self.apply(pid, ResyncEnd(2))
            self._gone([one for one in self.masks if one[0] == pid])
        else:
            self.apply(pid, ProcessExited())
            self._gone([one for one in self.masks if one[0] == pid])
            del self.sources[pid]
            self.start(pid + 10)

    def _workload(self, pid: int, ident: int) -> None:
        """Several programs that are launched together. Its number may have been that of another workload before."""
        known = self.workloads.get((pid, ident))
        if known is None or self.dice.random() < 0.2:
            programs = [one for one in self.masks if one[0] == pid]
            chosen = self.dice.sample(programs, min(len(programs), 3))
            known = tuple(ProgramRun(device, number, self.masks[pid, device, number]) for _, device, number in chosen)
            self.workloads[pid, ident] = known
        self.apply(pid, WorkloadRun(ident, known))
        for run in known:
            self._ran((pid, run.device, run.program))

    def _ran(self, where: Where) -> None:
        self.launches += 1
        for chip in self._chips_of(where):
            for core in range(CORES):
                if self.masks[where] >> core & 1:
                    self.cores[chip, core] = where

    def _chips_of(self, where: Where) -> set[int]:
        return {self.chips[where[0], number] for number in device_numbers(where[1])}

    def _move(self, pid: int, number: int, chip: int) -> None:
        """A device turns out to be another chip. What is resident there under another number stays as it is."""
        mine = {place: where for place, where in self.cores.items() if where[0] == pid}
        before = {where: self._chips_of(where) for where in mine.values()}
        self.apply(pid, DeviceOpened(number, ChipInfo(str(chip))))
        old, self.chips[pid, number] = self.chips[pid, number], chip
        for (on, core), where in mine.items():
            if on == old and old not in self._chips_of(where):
                del self.cores[on, core]
            if on == old and chip in self._chips_of(where) - before[where]:
                self.cores[chip, core] = where
                self.moved += 1

    def _gone(self, programs: list[Where]) -> None:
        for where in programs:
            del self.masks[where]
        self.cores = {place: where for place, where in self.cores.items() if where not in programs}
        self.workloads = {
            key: runs
            for key, runs in self.workloads.items()
            if not any((key[0], run.device, run.program) in programs for run in runs)
        }

    def compare(self, chip_id: int) -> int:
        """What the account has on the cores of a chip. Returns on how many of them something is resident."""
        found: dict[int, Where] = {}
        chip: Chip = self.ledger.chips[str(chip_id)]
        for program, cores in chip.resident_programs():
            for core in range(CORES):
                if cores >> core & 1:
                    assert core not in found, "a core has two programs"
                    found[core] = program.holding.source.process.info.pid, program.holding.device, program.ident
        assert found == {core: where for (chip, core), where in self.cores.items() if chip == chip_id}
        assert chip.launched or not found
        return len(found)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("processes", [1, 2])
def test_the_program_that_ran_last_on_each_core(seed: int, processes: int) -> None:
    both = Both(seed, processes=processes)
    resident = 0
    for _ in range(600):
        both.step()
        for chip in range(CHIPS):
            if both.dice.random() < 0.1:
                resident += both.compare(chip)
    for chip in range(CHIPS):
        both.compare(chip)
    assert both.launches > 200
    assert both.moved > 5
    assert resident > 200


def test_launches_that_do_not_matter_any_more_are_dropped() -> None:
    """A model that runs a thousand programs one after the other would otherwise cost that much for every chip."""
    both = Both(0, processes=1)
    mesh = tuple(NUMBERS)
    for number in range(1000):
        both.apply(1, Allocated(mesh, Kind.CB, 4096, 64, number, extra=Extra(cores=MASKS[number % len(MASKS)])))
        both.apply(1, ProgramRun(mesh, number, MASKS[number % len(MASKS)]))
    (source,) = both.sources.values()
    assert len(source.launches) == 1000
    programs = both.ledger.chips["0"].resident_programs()
    assert len(source.launches) == len(programs) < len(MASKS)
    assert [program.ident for program, _ in programs] == sorted(program.ident for program, _ in programs)
