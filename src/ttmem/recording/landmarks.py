# SPDX-License-Identifier: Apache-2.0
"""The moments of a recording that are worth a look: peaks, starts and ends of phases, failed allocations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from ttmem.account.ledger import Ledger
from ttmem.account.totals import Peak
from ttmem.model.events import Failed, PhaseBegan, PhaseEnded
from ttmem.model.kinds import Pool
from ttmem.recording.moments import (
    Moment,
    MomentError,
    at_failure,
    find_moment,
    just_before,
    peak_moment,
)
from ttmem.recording.recording_file import Happened, Recording

_ALIKE = 100  # failed allocations before and after one that may have happened at the same time


class PhaseRun(NamedTuple):
    """One run of a phase. ``until`` is None if it did not end."""

    pid: int
    path: str  # the names of the phases around it and its own, with slashes
    since: float
    until: float | None


class Landmarks(NamedTuple):
    """Moments, each list in the order of time."""

    peaks: list[Moment]
    phases: list[Moment]
    failures: list[Moment]


def landmarks(
    recording: Recording,
    account: Ledger,
    *,
    is_failure: Callable[[str], bool] = lambda message: True,
    chip_name: Callable[[str], str] = lambda chip_id: f"chip {chip_id}",
) -> Landmarks:
    """All of them. ``account`` is that of the end; ``chip_name`` gives the words for a chip."""
    happened = [one for one in recording.failures() if isinstance(one.event, Failed) and is_failure(one.event.text)]
    return Landmarks(
        sorted(_peaks(recording, account, chip_name), key=lambda one: one.time),
        sorted(_phases(recording), key=lambda one: one.time),
        [_failure(one, place, happened) for place, one in enumerate(happened, 1)],
    )


def phase_runs(recording: Recording) -> list[PhaseRun]:
    """Every run of every phase, in the order of their starts."""
    found: dict[int, PhaseRun] = {}
    began: dict[tuple[object, int], int] = {}  # source, number of an open phase: its place
    for one in recording.phases():
        if isinstance(one.event, PhaseBegan):
            parent = began.get((one.source, one.event.parent))
            path = one.event.name if parent is None else f"{found[parent].path}/{one.event.name}"
            began[one.source, one.event.ident] = len(found)
            found[len(found)] = PhaseRun(0 if one.source is None else one.source.info.pid, path, one.time, None)
        elif isinstance(one.event, PhaseEnded):
            place = began.pop((one.source, one.event.ident), None)
            if place is not None:
                found[place] = found[place]._replace(until=one.time)
    return [*found.values()]


def _phases(recording: Recording) -> Iterator[Moment]:
    for run in phase_runs(recording):
        yield Moment(run.since, f"at the start of phase {run.path}")
        if run.until is not None:
            yield Moment(just_before(run.until), f"at the end of phase {run.path}")


def _failure(happened: Happened, place: int, failures: list[Happened]) -> Moment:
    which = "the failed allocation" if len(failures) == 1 else f"failed allocation {place} of {len(failures)}"
    around = failures[max(0, place - _ALIKE) : place + _ALIKE]
    return Moment(happened.time, f"at {which}", at_failure(happened, around))


def _peaks(recording: Recording, account: Ledger, chip_name: Callable[[str], str]) -> Iterator[Moment]:
    """The peak of all buffers, and that of each pool of each chip. Chips with the same peak have one moment."""
    try:
        yield find_moment(recording, "peak")
    except MomentError:
        return
    found: dict[tuple[Pool, int, float], list[str]] = {}
    for chip in account.chips.values():
        for pool in Pool:
            peak: Peak = chip.pools[pool].peak
            if peak.value and peak.time is not None:
                found.setdefault((pool, peak.value, peak.time), []).append(chip.id)
    for (pool, value, time), chips in found.items():
        where = chip_name(chips[0]) if len(chips) == 1 else f"{len(chips)} chips"
        yield peak_moment(pool.label, chips[0], value, time)._replace(words=f"at the peak of {pool.label} on {where}")
