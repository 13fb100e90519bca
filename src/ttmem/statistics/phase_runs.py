# SPDX-License-Identifier: Apache-2.0
"""The runs of phases in a recording: whose, which, from when to when."""

from __future__ import annotations

from typing import NamedTuple

from ttmem.model.events import PhaseBegan, PhaseEnded
from ttmem.recording.recording_file import Recording
from ttmem.statistics.window import Window


class PhaseRun(NamedTuple):
    process: object  # as the table describes it
    pid: int | None
    name: str
    begin: int  # nanoseconds
    end: int  # just before its end event; the end of the recording if there is none


def phase_runs(recording: Recording, window: Window) -> list[PhaseRun]:
    """The runs that overlap the window."""
    table = window.table
    opened: dict[tuple[object, int], tuple[str, float]] = {}
    found: list[PhaseRun] = []

    def add(process: object, pid: int | None, name: str, began: float, end: int) -> None:
        begin = table.at(began)
        if end > window.after and begin <= window.until:
            found.append(PhaseRun(process, pid, name, max(begin, window.after), min(end, window.until)))

    for one in recording.phases():
        info = one.source.info if one.source is not None else None
        if isinstance(one.event, PhaseBegan):
            opened[info, one.event.ident] = one.event.name, one.time
        elif isinstance(one.event, PhaseEnded) and (begun := opened.pop((info, one.event.ident), None)) is not None:
            add(info, info.pid if info else None, *begun, table.at(one.time) - 1)
    for (process, _), begun in opened.items():
        add(process, getattr(process, "pid", None), *begun, window.until)
    return sorted(found, key=lambda run: (run.begin, run.end))
