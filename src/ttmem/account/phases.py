# SPDX-License-Identifier: Apache-2.0
"""Phases: what each total of a process was at the begin, at most, and at the end of a stretch the user named.

Nothing is done per event. A total remembers how high it was since a phase of its process last began or ended; at each
such turn that is folded into all phases that are open. Those that ended are summed up by their path, so a loop of a
million tokens is one entry.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from ttmem.account.kinds import KINDS, Pool

if TYPE_CHECKING:
    from collections.abc import Callable

    from ttmem.account.parties import Process, Source
    from ttmem.account.totals import Total

_MAX_PATH = 512


class Corner(NamedTuple):
    """Which total: a pool of the process on a chip, or a kind of its device of that number."""

    chip: str
    device: int | None
    label: str


class Stretch(NamedTuple):
    """What a total did in one run of a phase."""

    begin: int = 0
    peak: int = 0
    end: int = 0

    @property
    def delta(self) -> int:
        return self.end - self.begin


class Phase:
    """One run that has not ended. ``whole`` is false if its begin was not seen."""

    __slots__ = ("began", "begin", "path", "peaks", "whole")

    def __init__(self, path: str, began: float, whole: bool, begin: dict[Total, int]) -> None:
        self.path = path
        self.began = began
        self.whole = whole
        self.begin = begin  # what is not here was 0
        self.peaks: dict[Total, int] = {}

    def reach(self, total: Total, high: int) -> None:
        if high > self.peaks.get(total, 0):
            self.peaks[total] = high

    def stretch(self, total: Total) -> Stretch:
        return Stretch(
            self.begin.get(total, 0), max(self.peaks.get(total, 0), total.crest, total.high), total.used
        )  # fmt: skip


class Row:
    """One total over all runs of a path."""

    __slots__ = ("delta", "last", "peak")

    def __init__(self) -> None:
        self.peak = 0
        self.delta = 0
        self.last = Stretch()

    def add(self, stretch: Stretch) -> None:
        self.peak = max(self.peak, stretch.peak)
        self.delta += stretch.delta
        self.last = stretch


class Path:
    """All runs of one path that ended. ``partial`` are those of which the begin or the end was not seen."""

    __slots__ = ("partial", "rows", "runs", "seconds")

    def __init__(self) -> None:
        self.runs = 0
        self.partial = 0
        self.seconds = 0.0
        self.rows: dict[Corner, Row] = {}


class Phases:
    """The phases of one process: those open, and what is kept of those that ended."""

    __slots__ = ("_process", "_rows", "ended", "open")

    def __init__(self, process: Process) -> None:
        self._process = process
        self._rows = 0  # in all paths
        self.open: dict[tuple[Source, int], Phase] = {}
        self.ended: dict[str, Path] = {}

    def begin(self, source: Source, ident: int, name: str, parent: int, time: float) -> None:
        """A phase begins, as part of its parent if that is open; told again, it is the one that is open."""
        if (source, ident) in self.open:
            return
        self._turn()
        outer = self.open.get((source, parent))
        path = name if outer is None else f"{outer.path}/{name}"
        begin = {total: total.used for _, total in self._totals() if total.used}
        self.open[source, ident] = Phase(path[:_MAX_PATH], time, source.generation is None, begin)

    def end(self, source: Source, ident: int, time: float, paths: int, rows: int, *, seen: bool = True) -> bool:
        """A phase ends, if it is open. False if there are so many paths or rows that something of it is not kept."""
        phase = self.open.get((source, ident))
        if phase is None:
            return True
        self._turn()
        del self.open[source, ident]
        path = self.ended.get(phase.path)
        if path is None:
            if len(self.ended) >= paths:
                return False
            path = self.ended[phase.path] = Path()
        path.runs += 1
        path.partial += not (seen and phase.whole)
        path.seconds += time - phase.began
        stretches = self.stretches(phase)
        for corner, row in path.rows.items():
            row.add(stretches.pop(corner, Stretch()))
        kept = min(len(stretches), rows - self._rows)
        for corner in list(stretches)[:kept]:
            path.rows[corner] = Row()
            path.rows[corner].add(stretches[corner])
        self._rows += kept
        return kept == len(stretches)

    def stretches(self, phase: Phase) -> dict[Corner, Stretch]:
        """What an open phase comes to now, where that is anything."""
        found = ((corner, phase.stretch(total)) for corner, total in self._totals() if corner is not None)
        return {corner: stretch for corner, stretch in found if any(stretch)}

    def _turn(self) -> None:
        """A new stretch begins for every total; how high they were belongs to all that are open."""
        phases = self.open.values()
        for _, total in self._totals():
            crest = total.take_crest()
            if crest:
                for phase in phases:
                    phase.reach(total, crest)

    def _totals(self) -> Iterator[tuple[Corner | None, Total]]:
        """Every total of the process. One that is set aside for a stronger source is shown in no corner."""
        for uid, share in self._process.shares.items():
            for pool in Pool:
                yield Corner(uid, None, pool.label), share.pools[pool]
        for holding in self._process.holdings():
            for kind, leaf in zip(KINDS, holding.leaves):
                if leaf is not None:
                    corner = Corner(holding.chip.uid, holding.number, kind.label) if leaf.counts else None
                    yield corner, leaf


def _place(corner: Corner) -> dict[str, Any]:
    if corner.device is None:
        return {"chip": corner.chip, "pool": corner.label}
    return {"chip": corner.chip, "device": corner.device, "kind": corner.label}


def phases_json(process: Process, may_see: Callable[[int | None], bool] = lambda uid: True) -> dict[str, Any]:
    """A process's phases as data. ``may_see`` says whose words the reader may be shown."""
    phases, visible = process.phases, may_see(process.info.uid)
    return {
        "pid": process.info.pid or None,
        "start": process.info.start,
        "state": "tracked" if process.exited is None else "exited",
        "open": [
            {
                "path": phase.path if visible else None,
                "since": phase.began,
                "whole": phase.whole,
                "rows": [
                    {**_place(corner), **stretch._asdict(), "delta": stretch.delta}
                    for corner, stretch in phases.stretches(phase).items()
                ],
            }
            for phase in phases.open.values()
        ],
        "ended": [
            {
                "path": name if visible else None,
                "runs": path.runs,
                "partial": path.partial,
                "seconds": path.seconds,
                "rows": [
                    {
                        **_place(corner),
                        "peak": row.peak,
                        "delta": row.delta,
                        "last": {**row.last._asdict(), "delta": row.last.delta},
                    }
                    for corner, row in path.rows.items()
                ],
            }
            for name, path in phases.ended.items()
        ],
    }
