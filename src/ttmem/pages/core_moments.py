# SPDX-License-Identifier: Apache-2.0
"""The L1 of every core at a few moments of a recording: peaks, failed allocations, ends of phases."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from math import ulp
from typing import TYPE_CHECKING, NamedTuple

from ttmem.account.ledger import Ledger
from ttmem.documents.cores import all_cores
from ttmem.model.kinds import BreakdownPool, Pool
from ttmem.model.units import human
from ttmem.pages.chip_groups import ChipGroup
from ttmem.pages.closest_program import Closest
from ttmem.pages.report_marks import nanoseconds
from ttmem.pages.report_pools import POOL_WORDS, PoolPeak
from ttmem.pages.sections import Sections
from ttmem.recording.allocation_table import AllocationTable
from ttmem.recording.landmarks import phase_runs
from ttmem.recording.moments import Moment, at_failure, just_before, open_moment, peak_moment
from ttmem.recording.recording_file import Happened, Recording

if TYPE_CHECKING:
    from ttmem.model.page_schema import CoresAlike, CoresAtMoment, ReportMoment
    from ttmem.recording.playhead import Playhead

MOST_MOMENTS = 32
_FAILURES = 4
MOST_LIVE = 200_000  # allocations at a moment: with more, a map takes seconds


class Wanted(NamedTuple):
    """A moment, the chip groups whose cores are shown, and its time in the report."""

    moment: Moment
    groups: tuple[int, ...]
    time_ns: int


# The pools at whose peaks the cores are shown. That of programs differs from the account's by the firmware, which is
# always there.
_POOLS = {
    BreakdownPool.L1_BUFFERS: Pool.L1,
    BreakdownPool.PROGRAMS: Pool.PROGRAM,
}


def failure_moments(
    recording: Recording, failures: list[Happened], places: Mapping[int, int], every: tuple[int, ...], until: int
) -> Iterator[Wanted]:
    """The last failed allocations, each with the group that its process used. ``places`` has groups by pid."""
    last = failures[-_FAILURES:]
    for number, one in enumerate(last, len(failures) - len(last) + 1):
        place = -1 if one.source is None else places.get(one.source.info.pid, -1)
        which = "the failed allocation" if len(failures) == 1 else f"failed allocation {number} of {len(failures)}"
        moment = Moment(one.time, f"at {which}", at_failure(one, last))
        yield Wanted(moment, (place,) if place in every else every, nanoseconds(recording, one.time, until))


def peak_moments(ledger: Ledger, group: ChipGroup, peaks: Iterable[PoolPeak], place: int) -> Iterator[Wanted]:
    """The peaks of a group, each with this group alone."""
    for peak in peaks:
        pool = _POOLS.get(peak.pool)
        if pool is not None and peak.time is not None:
            found = ledger.chips[group.shown_chip].pools[pool].peak
            if found.time is not None:
                moment = peak_moment(pool.label, group.shown_chip, found.value, found.time)
                words = f"at the peak of {POOL_WORDS[peak.pool]}"
                yield Wanted(moment._replace(words=words), (place,), peak.time)


def closest_moment(closest: Closest, place: int, table: AllocationTable) -> Wanted:
    """When a program was closest to the L1 buffers. A wall time is less precise, so it is taken slightly later."""
    time = table.start + closest.time * 1e-9
    gap = human(closest.gap) if closest.gap >= 0 else f"{human(-closest.gap)} too far"
    words = f"when a program was closest to the L1 buffers, by {gap} per core"
    return Wanted(Moment(time + ulp(time), words), (place,), closest.time)


def phase_moments(recording: Recording, every: tuple[int, ...], until: int) -> list[Wanted]:
    """The end of the last run of each phase; the last ones first."""
    ends = {run.path: run.until for run in phase_runs(recording) if run.until is not None}
    return [
        Wanted(
            Moment(just_before(end), f"at the end of phase {path}"),
            every,
            max(0, nanoseconds(recording, end, until) - 1),
        )
        for path, end in reversed(ends.items())
    ]


def core_moments(
    recording: Recording,
    wanted: Iterable[Wanted],
    groups: list[ChipGroup],
    sections: Sections,
    shown: Callable[[CoresAtMoment], CoresAtMoment],
) -> list[ReportMoment]:
    """Opens each moment. ``shown`` gives what the page may contain."""
    found: list[ReportMoment] = []
    head: Playhead | None = None
    for number, one in enumerate(sorted(wanted, key=lambda one: one.moment.time)):
        if one.moment.reached is not None:  # between two events: one cannot move on from there
            ledger = open_moment(recording, one.moment).ledger
        else:
            head = recording.moved(head, one.moment.time)
            ledger = head.ledger
        for place in one.groups:
            cores = cores_at(ledger, groups[place].shown_chip)
            if cores is not None:
                section = sections.add_json(f"cores/{number}/{place}", shown(cores))
                found.append({"time_ns": one.time_ns, "words": one.moment.words, "group": place, "cores": section})
    return sorted(found, key=lambda one: (one["time_ns"], one["group"]))


def cores_at(ledger: Ledger, chip_id: str) -> CoresAtMoment | None:
    """The cores of a chip in an account; None if no process used it, or its geometry is not known."""
    chip = ledger.chips.get(chip_id)
    if chip is None or chip.geometry is None or not chip.covered or ledger.live_count() > MOST_LIVE:
        return None
    document, details = all_cores(chip, chip.geometry)
    alike: list[CoresAlike] = [
        {"at": [[core.x, core.y] for core in cores], "detail": dict(detail)} for cores, detail in details
    ]
    return {"cores": dict(document), "details": alike}
