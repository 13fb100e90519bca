# SPDX-License-Identifier: Apache-2.0
"""Leaks of a recording, as a document with schema "ttmem.leaks/1"."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ttmem.analyze.growth import Past, Steps
from ttmem.analyze.recorded_growth import GroupKey, ProcessKey, RecordedPast
from ttmem.documents.leaks import Group, LeakFinder, Request
from ttmem.ingest.clock import rfc3339

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ttmem.account.entities import Process
    from ttmem.model import schema
    from ttmem.recording.recording_file import Recording


class ByRecording:
    """Judges by everything that was recorded up to a moment, which may be an earlier one for some processes."""

    def __init__(self, past: RecordedPast, since: float, end: float, closings: Mapping[ProcessKey, float]) -> None:
        self._past, self._since, self._end, self._closings = past, since, end, closings

    def moment(self, process: Process) -> float:
        return self._closings.get(process.info.key, self._end)

    def steps(self, process: Process) -> Steps:
        return self._past.steps(process.info.key, self._since, self.moment(process))

    def past(self, group: Group) -> Past | None:
        key = _key(group)
        return (lambda time: self._past.most(key, time)) if self._past.knows(key) else None

    def history(self, group: Group, times: list[float]) -> list[int] | None:
        key = _key(group)
        return self._past.history(key, times) if self._past.knows(key) else None


def _key(group: Group) -> GroupKey:
    chips = frozenset(chip.id for chip in (*group.where.chips, *group.where.others))
    return GroupKey(group.process.info.key, chips, group.kind, *group.origin)


def recorded_leaks(
    recording: Recording, request: Request, closings: Mapping[ProcessKey, float], time: float | None = None
) -> schema.Leaks:
    """The leaks at a time, by default at the end; of the processes in ``closings`` at these earlier moments."""
    end = recording.end if time is None else min(time, recording.end)
    past = RecordedPast(recording, end)
    judge = ByRecording(past, request.since, end, closings)
    finder = LeakFinder(end, judge, request)
    ledger = (recording.at_end() if time is None else recording.at(end)).ledger
    for moment in sorted({end, *closings.values()}):
        account = ledger if moment == end else recording.at(moment).ledger
        for allocation in account.allocations():
            if judge.moment(allocation.holding.source.process) == moment:
                finder.add(allocation, moment)
    for process in reversed(ledger.departed):
        finder.add_dead(process)
    return finder.result(
        [*ledger.processes.values(), *ledger.departed],
        time=rfc3339(end),
        since=rfc3339(recording.begin),
        tracked=end - recording.begin,
    )
