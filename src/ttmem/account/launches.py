# SPDX-License-Identifier: Apache-2.0
"""Which program ran last on which core (rule 9).

An event only stores the launch, once for all its chips, in the order of launches. The resident programs of a chip are
computed on request, and before the launches of a program are dropped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ttmem.account.allocations import Holding, Program

if TYPE_CHECKING:
    from ttmem.account.entities import Chip, Source

_MOST_STALE = 64  # destroyed programs of a source whose launches are kept, beside half as many as there are others


class Launch(NamedTuple):
    """Programs that were launched together, each on its own cores."""

    seq: int
    runs: tuple[tuple[Program, int], ...]


def note(source: Source, program: Program, cores: int, seq: int) -> None:
    """A program was launched on these cores; whatever was resident there no longer is."""
    launches = source.launches
    before = launches.get(program)
    if before is not None:
        if before.runs[0][1] != cores:
            fold_all(source)  # it is also where it ran before, unless others ran there since
        launches.pop(program, None)
    launches[program] = Launch(seq, ((program, cores),))
    holding = program.holding
    if not holding.launched:
        holding.launched = True
        for chip in holding.chips:
            chip.launched = True


def note_workload(source: Source, ident: int, runs: tuple[tuple[Program, int], ...], seq: int) -> None:
    """The programs of a workload were launched together."""
    launches = source.launches
    before = launches.get(ident)
    if before is not None:
        if before.runs is not runs:
            fold_all(source)
            before = None
        launches.pop(ident, None)
    launches[ident] = Launch(seq, runs)
    if before is None:
        for program, _ in runs:
            if not program.holding.launched:
                program.holding.launched = True
                for chip in program.holding.chips:
                    chip.launched = True


def forget(program: Program) -> None:
    """A program was destroyed: what it was resident on is free, and does not fall back to those that ran before."""
    program.destroyed = True
    source = program.holding.source
    if not source.launches:
        return
    source.stale_launches += 1
    if source.stale_launches > _MOST_STALE + len(source.launches) // 2:
        fold_all(source)


def fold_all(source: Source) -> None:
    """Bring all chips of a source up to date; then its launches need not be kept any more."""
    for chip in {chip: None for holding in source.holdings.values() for chip in holding.chips}:
        resident(chip)
    source.launches.clear()
    source.stale_launches = 0


def resident(chip: Chip) -> list[tuple[Program, int]]:
    """The programs that ran last, each with the cores on which nothing ran after it; the latest launch last."""
    new: list[tuple[int, Program, int]] = []
    latest = chip.folded
    for source in {holding.source: None for holding in chip.holdings}:
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


def _fold(chip: Chip, new: list[tuple[int, Program, int]]) -> None:
    """Later launches first: what they cover is not earlier programs' any more.

    Two sources of one process see the same launches: they do not push each other's programs out.
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
    """Take a holding's programs off the cores of all its chips."""
    source = holding.source
    if source.launches:
        fold_all(source)
    for chip in holding.chips:
        if chip.resident or chip.launched:
            chip.resident = [one for one in resident(chip) if one[0].holding is not holding]


def move(holding: Holding, old: Chip, new: Chip, seq: int) -> None:
    """One chip of a holding turns out to be another one, and its programs are resident there."""
    fold_all(holding.source)
    programs = [one for one in resident(old) if one[0].holding is holding]
    old.resident = [one for one in old.resident if one[0].holding is not holding]
    resident(new)
    if programs:
        new.launched = True
        _fold(new, [(seq, program, cores) for program, cores in programs])
    holding.launched = False
