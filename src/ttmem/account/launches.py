# SPDX-License-Identifier: Apache-2.0
"""Tracks which program ran last on each core (rule 9).

An event only stores the launch, once for all its chips, in the order of launches. The resident programs of a chip are
computed on request, and before the launches of a program are dropped. Launches of which nothing is resident any more
are dropped first, once for all chips: a loop over a thousand programs leaves only a few.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from typing import TYPE_CHECKING

from ttmem.account.allocations import Holding, Program

if TYPE_CHECKING:
    from ttmem.account.entities import Chip, Source

_RESIDENT = attrgetter("resident")
_MOST_STALE = 64  # destroyed programs whose launches may be kept, plus half the number of launches


class Launch:
    """Programs that were launched together, each on its own cores."""

    __slots__ = ("runs", "seq")

    def __init__(self, runs: tuple[tuple[Program, int], ...]) -> None:
        self.runs = runs
        self.seq = 0  # of the last time that they were launched


def note(source: Source, key: Program | int, runs: tuple[tuple[Program, int], ...], seq: int) -> None:
    """Programs were launched together. They replace the programs that were resident on their cores.

    ``key`` is the program, or the source's number of the workload.
    """
    launches = source.launches
    launch = launches.get(key)
    if launch is not None and (launch.runs is runs or launch.runs == runs):
        del launches[key]  # so that it becomes the last
    else:
        if launch is not None:
            fold_all(source)  # its programs stay resident on their former cores, unless others ran there since
        launch = Launch(runs)
        for program, _ in runs:
            _mark(program.holding)
    launch.seq = seq
    launches[key] = launch


def _mark(holding: Holding) -> None:
    if not holding.launched:
        holding.launched = True
        for chip in holding.chips:
            chip.launched = True


def forget(program: Program) -> None:
    """A program was destroyed. Its cores have no resident program now; the programs that ran before do not return."""
    program.destroyed = True
    source = program.holding.source
    if not source.launches:
        return
    source.stale_launches += 1
    if source.stale_launches > _MOST_STALE + len(source.launches) // 2:
        fold_all(source)


def fold_all(source: Source) -> None:
    """Update the resident programs on all chips of a source, and drop its launches, which are no longer needed."""
    for chip in _chips(source):
        resident(chip)
    source.launches.clear()
    source.stale_launches = 0


def resident(chip: Chip) -> list[tuple[Program, int]]:
    """The programs that ran last, each with the cores on which nothing ran after it. The latest launch is last."""
    new: list[tuple[int, Program, int]] = []
    latest = chip.folded
    for source in {holding.source: None for holding in chip.holdings}:
        _prune(source)
        for launch in reversed(source.launches.values()):
            if launch.seq <= chip.folded:
                break
            latest = max(latest, launch.seq)
            new += [(launch.seq, program, cores) for program, cores in launch.runs if chip in program.holding.chips]
    chip.folded = latest
    if new:
        new.sort(key=lambda entry: entry[0])
        _fold(chip, new)
    if any(program.destroyed for program, _ in chip.resident):
        chip.resident = [one for one in chip.resident if not one[0].destroyed]
    return chip.resident


def _prune(source: Source) -> None:
    """Drop the launches whose cores are covered by later ones, on each mesh."""
    last = next(reversed(source.launches.values()), None)
    if last is None or last.seq == source.pruned:
        return
    source.pruned = last.seq
    covered: dict[Holding, int] = {}
    gone = []
    for key, launch in reversed(source.launches.items()):
        resident = False
        for program, cores in launch.runs:
            later = covered.get(program.holding, 0)
            if cores & ~later:
                covered[program.holding] = later | cores
                resident = True
        if not resident:
            gone.append(key)
    for key in gone:
        del source.launches[key]


def _fold(chip: Chip, new: list[tuple[int, Program, int]]) -> None:
    """Go through the launches from the latest to the earliest; a program keeps the cores that no later one covers.

    Two sources of one process report the same launches. Therefore a launch of one does not remove programs of the
    other.
    """
    covered: dict[Source, int] = {}
    found: dict[Program, int] = {}
    before = [(program, mask) for program, mask in chip.resident]
    for program, mask in [*((program, cores) for _, program, cores in reversed(new)), *reversed(before)]:
        here = program.holding.source
        left = mask & ~covered.get(here, 0)
        for source, cores in covered.items():
            if source is not here and source.process is not here.process:
                left &= ~cores
        if left:
            found[program] = found.get(program, 0) | left
        covered[here] = covered.get(here, 0) | mask
    chip.resident = [(program, mask) for program, mask in reversed(found.items())]


def leave(holding: Holding) -> None:
    """Remove the programs of a holding from the cores of all its chips."""
    source = holding.source
    if source.launches:
        fold_all(source)
    for chip in holding.chips:
        if chip.resident:
            chip.resident = [one for one in chip.resident if one[0].holding is not holding]


def leave_all(source: Source) -> None:
    """Remove all programs of a source from the cores."""
    if source.launches:
        fold_all(source)
    for chip in filter(_RESIDENT, _chips(source)):
        chip.resident = [one for one in chip.resident if one[0].holding.source is not source]


def _chips(source: Source) -> Iterable[Chip]:
    """All chips of its process: a source may have thousands of meshes on the same chips."""
    return dict.fromkeys(source.process.numbers.values())


def move(leaving: list[Holding], entering: list[Holding], old: Chip, new: Chip, seq: int) -> None:
    """A device turned out to be a different chip: move resident programs there, before the holdings have that chip.

    ``leaving`` will have no other device on the old chip, ``entering`` have none on the new one yet.
    """
    resident(old)  # first: their process has ``new`` already
    for source in dict.fromkeys(holding.source for holding in (*leaving, *entering)):
        fold_all(source)
    left, entered = set(leaving), set(entering)
    programs = [(seq, program, cores) for program, cores in old.resident if program.holding in entered]
    old.resident = [one for one in old.resident if one[0].holding not in left]
    resident(new)
    if programs:
        new.launched = True
        _fold(new, programs)
    for holding in entering:
        holding.launched = False
