# SPDX-License-Identifier: Apache-2.0
"""The marks on the time line of a report: phases, failed allocations, compiled programs, peaks, closed devices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

from ttmem.account.ledger import Ledger
from ttmem.analyze.failure_messages import parse
from ttmem.analyze.verdicts import verdict_on
from ttmem.documents.explanation_summary import headline
from ttmem.model.events import Failed, Mark
from ttmem.model.kinds import Kind
from ttmem.model.stack_frames import line_of
from ttmem.pages.chip_groups import ChipGroup
from ttmem.recording.allocation_table import AllocationTable, End, ProgramTable
from ttmem.recording.landmarks import phase_runs
from ttmem.recording.recording_file import Happened, Recording

if TYPE_CHECKING:
    from ttmem.model.page_schema import ReportMark, ReportPhase

MOST_PHASES = 2000
_MOST_COMPILES = 400  # marks of one group; several close together are one
_MOST_FAILURES = 200
_MOST_MARKS = 1000
_MOST_CLOSINGS = 100
_MOST_CHARACTERS = 300
MarkType = Literal["failure", "compile", "mark", "peak", "close"]


def phases(recording: Recording, ledger: Ledger, groups: list[ChipGroup], until: int) -> tuple[list[ReportPhase], int]:
    """The runs of phases in the order of their begins, and how many were left out: the shortest."""
    runs = phase_runs(recording)
    chips: dict[int, set[str]] = {}
    for process in (*ledger.departed, *ledger.processes.values()):
        chips.setdefault(process.info.pid, set()).update(process.shares)
    longest = sorted(runs, key=lambda run: run.since - (recording.end if run.until is None else run.until))
    kept = set(longest[:MOST_PHASES])
    found: list[ReportPhase] = [
        {
            "name": run.path.rsplit("/", 1)[-1],
            "pid": run.pid or None,
            "depth": run.path.count("/"),
            "from_ns": nanoseconds(recording, run.since, until),
            "until_ns": None if run.until is None else nanoseconds(recording, run.until, until),
            "groups": [place for place, group in enumerate(groups) if chips.get(run.pid, set()) & set(group.chips)],
        }
        for run in runs
        if run in kept
    ]
    return found, len(runs) - len(found)


def nanoseconds(recording: Recording, time: float, until: int) -> int:
    """A wall time after the start, within the recording."""
    return min(max(0, recording.lifetimes().allocations.at(time)), until - 1)


def mark(
    kind: MarkType, time: int, text: str, group: int = -1, explained: int | None = None, count: int = 1
) -> ReportMark:
    return {"type": kind, "time_ns": time, "text": text, "group": group, "explained": explained, "count": count}


def failure_marks(
    recording: Recording,
    failures: list[Happened],
    explained: Sequence[Happened],
    places: Mapping[int, int],
    until: int,
) -> list[ReportMark]:
    """The failed allocations; of very many, the last, and those that are explained. ``places`` has groups by pid."""
    numbers = {one: place for place, one in enumerate(explained)}
    shown = [one for place, one in enumerate(failures) if one in numbers or place >= len(failures) - _MOST_FAILURES]
    return [
        mark(
            "failure",
            nanoseconds(recording, one.time, until),
            _headline(one),
            -1 if one.source is None else places.get(one.source.info.pid, -1),
            numbers.get(one),
        )
        for one in shown
    ]


def _headline(one: Happened) -> str:
    """The first line of the explanation, without what the account knows."""
    assert isinstance(one.event, Failed)
    failure = parse(one.event.text)
    if failure is None:
        return one.event.text.strip().split("\n", 1)[0][:_MOST_CHARACTERS]
    return headline(verdict_on(failure, None, one.event.tag, line_of(one.event.stack)))


def user_marks(recording: Recording, until: int) -> list[ReportMark]:
    return [
        mark("mark", nanoseconds(recording, one.time, until), one.event.text)
        for one in recording.marks()[:_MOST_MARKS]
        if isinstance(one.event, Mark)
    ]


def compile_marks(
    table: AllocationTable, programs: ProgramTable, groups: Iterable[ChipGroup], until: int
) -> list[ReportMark]:
    """Compiled programs. Those in the same small part of the time are one mark."""
    found = []
    for place, group in enumerate(groups):
        here = [group.shown_chip in chips for chips in table.chip_sets]
        inside = np.array([*here, False])[programs.chips]  # -1: the chips are not known
        times, sites = np.clip(programs.begin[inside], 0, until - 1), programs.site[inside]
        parts = times * _MOST_COMPILES // until if until < 1 << 53 else times // max(1, until // _MOST_COMPILES)
        for part in np.unique(parts).tolist():
            mine = np.flatnonzero(parts == part)
            names = list(dict.fromkeys(table.sites[site].op or "a program" for site in sites[mine].tolist()))
            what = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
            found.append(mark("compile", int(times[mine].min()), f"compiled {what}", place, None, len(mine)))
    return found


def close_marks(table: AllocationTable, groups: Iterable[ChipGroup], until: int) -> list[ReportMark]:
    """Closings of devices that freed buffers. Each free has a time of its own; those close together are one closing."""
    found = []
    for place, group in enumerate(groups):
        rows = group.rows[(table.ended_by[group.rows] == End.DEVICE_CLOSED) & (table.kind[group.rows] < Kind.CB)]
        times = np.sort(table.end[rows])
        starts = np.flatnonzero(np.diff(times, prepend=-until) > until // _MOST_CLOSINGS)
        for first, last in zip(starts.tolist(), [*starts[1:].tolist(), len(times)]):
            count = last - first
            text = f"device closed; {count:,} buffer{'s' * (count > 1)} had not been freed"
            found.append(mark("close", int(times[first]), text, place))
    return found
