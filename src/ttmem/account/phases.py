# SPDX-License-Identifier: Apache-2.0
"""Phases: begin, peak and end of each total of a process, over periods that the workload names.

Nothing is done per event. A total remembers how high it was since a phase of its process last began; that belongs to
the youngest phase that is open, and goes to the next older one when it ends. So a phase costs one look at each total,
however many others are open. Those that ended are summed up by their path: a loop of a million tokens is one entry.

Chips share totals (see `shared_totals`), so a total is one *column*, which stands for all rows that have that total.
When chips get a copy of a total, their rows get a copy of the column: all that was so far was theirs, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple, Union

from ttmem.account.totals import Total
from ttmem.model.kinds import KINDS, POOL_OF

if TYPE_CHECKING:
    from ttmem.account.entities import Process, Source
    from ttmem.model import schema

Viewer = Callable[[Union[int, None]], bool]

_MAX_PATH_CHARACTERS = 512
_MOST_COLUMNS = 20_000
_NOTHING = Total()


class TotalKey(NamedTuple):
    """Which total: a pool of the process on a chip, or a kind of its device of that number."""

    chip: str
    device: int | None
    label: str


class Run(NamedTuple):
    """What one run of a phase did: a value for each column."""

    begin: list[int]
    peak: list[int]
    end: list[int]

    def at(self, number: int) -> schema.PhaseRun:
        begin, peak, end = (column[number] if number < len(column) else 0 for column in self)
        return {"begin": begin, "peak": peak, "end": end, "delta": end - begin}


class Phase:
    """One run that has not ended. ``complete`` is false if its begin was not seen."""

    __slots__ = ("began", "begin", "complete", "path", "peaks")

    def __init__(self, path: str, began: float, complete: bool, begin: list[int]) -> None:
        self.path = path
        self.began = began
        self.complete = complete
        self.begin = begin
        # By number of the column, how high it was until the next phase began; what is not here was at begin's height.
        self.peaks: dict[int, int] = {}

    def reach(self, peaks: dict[int, int]) -> None:
        mine = self.peaks
        for number, high in peaks.items():
            if high > mine.get(number, 0):
                mine[number] = high

    def begin_anew(self, begin: list[int]) -> None:
        self.complete = False
        self.begin = begin
        self.peaks = {}


class PhasePath:
    """All runs of one path that ended. ``partial`` are those of which the begin or the end was not seen."""

    __slots__ = ("delta", "last", "partial", "peak", "runs", "seconds", "since", "until")

    def __init__(self) -> None:
        self.runs = 0
        self.partial = 0
        self.seconds = 0.0
        self.since = self.until = 0.0  # of the last run
        self.peak: list[int] = []
        self.delta: list[int] = []
        self.last = Run([], [], [])

    def grow(self, rows: int) -> None:
        self.peak += [0] * rows
        self.delta += [0] * rows

    def copy_column(self, old: int) -> None:
        """One more column, which was so far what another one was."""
        self.peak.append(self.peak[old])
        self.delta.append(self.delta[old])
        for column in self.last:
            if old < len(column):
                column += [0] * (len(self.peak) - 1 - len(column))
                column.append(column[old])

    def add(self, run: Run) -> None:
        """Sum up one more run, of as many columns as there are here."""
        self.last = last = Run(*(column[: len(self.peak)] for column in run))
        if last.peak != self.peak:
            self.peak = [old if old > new else new for old, new in zip(self.peak, last.peak)]
        if last.end != last.begin:
            self.delta = [delta + end - begin for delta, begin, end in zip(self.delta, last.begin, last.end)]


class Phases:
    """The phases of one process: those open, the youngest last, and what is kept of those that ended."""

    __slots__ = ("_behind", "_columns", "_most_rows", "_process", "_rows", "_totals", "ended", "left_out", "open")

    def __init__(self, process: Process) -> None:
        self._process = process
        self._columns: dict[TotalKey, int] = {}  # of each row
        self._totals: list[Total] = []  # of each column
        self._behind = False  # are there totals that have no column yet
        self._rows = 0  # in all paths
        self._most_rows = 0  # that may be
        self.open: dict[tuple[Source, int], Phase] = {}
        self.ended: dict[str, PhasePath] = {}
        self.left_out = 0  # phases of which something is not kept, because there is too much

    def begin(self, source: Source, ident: int, name: str, parent: int, time: float, most: int) -> None:
        """A phase begins, as part of its parent if that is open; told again, it is the one that is open."""
        if (source, ident) in self.open:
            return
        if len(self.open) >= most:
            self.left_out += 1
            return
        self.turn()
        outer = self.open.get((source, parent))
        path = name if outer is None else f"{outer.path}/{name}"
        self.open[source, ident] = Phase(path[:_MAX_PATH_CHARACTERS], time, source.generation is None, self._used())

    def end(self, source: Source, ident: int, time: float, paths: int, rows: int, *, seen: bool = True) -> None:
        """A phase ends, if it is open. Of what goes beyond so many paths and rows nothing is kept."""
        phase = self.open.get((source, ident))
        if phase is None:
            return
        self._most_rows = rows
        run = self.run(phase)
        self._close(source, ident)
        path = self.ended.get(phase.path)
        if path is None:
            if len(self.ended) >= paths:
                self.left_out += 1
                return
            path = self.ended[phase.path] = PhasePath()
        path.runs += 1
        path.partial += not (seen and phase.complete)
        path.seconds += time - phase.began
        path.since, path.until = phase.began, time
        missing = len(run.end) - len(path.peak)
        if missing:
            room = min(missing, rows - self._rows)
            path.grow(room)
            self._rows += room
            self.left_out += room < missing
        path.add(run)

    def run(self, phase: Phase) -> Run:
        """What an open phase comes to now."""
        self._catch_up()
        peak = [begin if begin > total.high else total.high for begin, total in zip(phase.begin, self._totals)]
        for other in self._since(phase):
            for number, high in other.peaks.items():
                if high > peak[number]:
                    peak[number] = high
        return Run(phase.begin, peak, self._used())

    def turn(self) -> None:
        """How high each total was belongs to the youngest phase; from here on it is remembered for the next."""
        self._catch_up()
        totals = self._totals
        if self.open:
            youngest = next(reversed(self.open.values()))
            highs = zip([total.high for total in totals], youngest.begin)
            youngest.reach({number: high for number, (high, begin) in enumerate(highs) if high > begin})
        for total in totals:
            total.high = total.used

    def begin_anew(self, source: Source) -> None:
        """What a source holds is known again: the phases of which it did not see the begin begin now."""
        found = [(key, phase) for key, phase in self.open.items() if key[0] is source and not phase.complete]
        if found:
            self.turn()
        for key, phase in found:
            self._close(*key)
            phase.begin_anew(self._used())
            self.open[key] = phase

    def more_totals(self) -> None:
        """There are totals that were not there before, or that are copies of others."""
        self._behind = True

    def other_totals(self) -> None:
        """Allocations count elsewhere than before: open phases begin anew, since before and after do not compare."""
        self._catch_up(afresh=True)
        for total in self._totals:
            total.high = total.used
        for phase in self.open.values():
            phase.begin_anew(self._used())

    def rows(self, phase: Phase) -> Iterator[schema.OpenPhaseRow]:
        """What an open phase comes to now, where that is anything."""
        run = self.run(phase)
        columns = list(self._columns.items())
        return ({**_place(corner), **run.at(number)} for corner, number in columns if run.peak[number])

    def rows_of(self, path: PhasePath) -> Iterator[schema.EndedPhaseRow]:
        """What the runs of a path came to, where that was anything."""
        for corner, number in list(self._columns.items()):
            if number < len(path.peak) and path.peak[number]:
                last = path.last.at(number)
                yield {**_place(corner), "peak": path.peak[number], "delta": path.delta[number], "last": last}

    def _used(self) -> list[int]:
        return [total.used for total in self._totals]

    def _since(self, phase: Phase) -> list[Phase]:
        """A phase and those that began after it, which are still open."""
        phases = list(self.open.values())
        return phases[phases.index(phase) :]

    def _close(self, source: Source, ident: int) -> None:
        """A phase is open no longer; how high allocations were in it, they were in the one before it, too."""
        phases = list(self.open.values())
        phase = self.open.pop((source, ident))
        before = phases.index(phase) - 1
        if before >= 0:
            phases[before].reach(phase.peaks)

    def _catch_up(self, *, afresh: bool = False) -> None:
        """Give a column to each total that has none yet; in the phases that are open it began with nothing.

        ``afresh``: what has another total than before, or none any more, has that from now on.
        """
        if not (self._behind or afresh):
            return
        self._behind = False
        found = dict(self._walk())
        before, totals = self._columns, self._totals
        if afresh:
            self._totals = totals = [_NOTHING] * len(totals)
        counted = totals.copy()
        new: dict[tuple[int | None, Total], int] = {}  # columns by what they were and what they count
        kept: set[int] = set()
        for corner in [*before, *(corner for corner in found if corner not in before)]:
            old = before.get(corner)
            total = found.get(corner)
            if total is None:
                total = _NOTHING if old is None else counted[old]
            column = new.get((old, total))
            if column is None:
                if old is not None and old not in kept:
                    column = old
                    kept.add(old)
                    totals[old] = total
                elif len(totals) < _MOST_COLUMNS:
                    column = self._add_column(total, old)
                else:
                    self.left_out += 1
                    break
                new[old, total] = column
            before[corner] = column

    def _add_column(self, total: Total, old: int | None) -> int:
        column = len(self._totals)
        self._totals.append(total)
        for phase in self.open.values():
            phase.begin += [0] * (column - len(phase.begin))
            phase.begin.append(0 if old is None else phase.begin[old])
            if old is not None and old in phase.peaks:
                phase.peaks[column] = phase.peaks[old]
        if old is not None:
            for path in self.ended.values():
                if old < len(path.peak):
                    room = min(column - len(path.peak), self._most_rows - self._rows)
                    path.grow(room)
                    self._rows += room
                    if len(path.peak) == column and self._rows < self._most_rows:
                        path.copy_column(old)
                        self._rows += 1
                    else:
                        self.left_out += 1
        return column

    def _walk(self) -> Iterator[tuple[TotalKey, Total]]:
        """Every total of the process in which something counts or did, for each row that has it."""
        process = self._process
        for chip_id, share in process.shares.items():
            for pool in sorted({POOL_OF[kind] for kind, voice in zip(KINDS, share.voices) if voice is not None}):
                yield TotalKey(chip_id, None, pool.label), share.pools[pool]
        for source in process.sources.values():
            for (number, kind), total in source.totals.items():
                chip_id = process.numbers[number].id
                if process.shares[chip_id].voices[kind] is source:
                    yield TotalKey(chip_id, number, kind.label), total


def _place(corner: TotalKey) -> schema.TotalName:
    if corner.device is None:
        return {"chip": corner.chip, "pool": corner.label}
    return {"chip": corner.chip, "device": corner.device, "kind": corner.label}


def phases_head(process: Process, not_listed: int = 0) -> schema.PhasesHead:
    """Whose phases they are, and of how many something is not kept or not listed."""
    return {
        "pid": process.info.pid or None,
        "start": process.info.start,
        "state": "tracked" if process.exited is None else "exited",
        "left_out": process.phases.left_out + not_listed,
    }


def open_phases(
    process: Process, may_see: Viewer = lambda user_id: True
) -> Iterator[tuple[schema.OpenPhaseHead, Iterator[schema.OpenPhaseRow]]]:
    """A process's open phases one by one, each with its rows. Others may work in between.

    ``may_see`` says whose words the reader may be shown.
    """
    phases, visible = process.phases, may_see(process.info.user_id)
    for key, phase in list(phases.open.items()):
        if phases.open.get(key) is phase:
            path = phase.path if visible else None
            yield {"path": path, "since": phase.began, "complete": phase.complete}, phases.rows(phase)


def ended_phases(
    process: Process, may_see: Viewer = lambda user_id: True
) -> Iterator[tuple[schema.EndedPhaseHead, Iterator[schema.EndedPhaseRow]]]:
    """The same of the phases that ended, path by path."""
    phases, visible = process.phases, may_see(process.info.user_id)
    for name, done in list(phases.ended.items()):
        yield (
            {
                "path": name if visible else None,
                "runs": done.runs,
                "partial": done.partial,
                "seconds": done.seconds,
                "since": done.since,
                "until": done.until,
            },
            phases.rows_of(done),
        )


def phases_json(process: Process, may_see: Viewer = lambda user_id: True) -> schema.ProcessPhases:
    """All phases of a process at once."""
    return {
        **phases_head(process),
        "open": [{**entry, "rows": list(rows)} for entry, rows in open_phases(process, may_see)],
        "ended": [{**entry, "rows": list(rows)} for entry, rows in ended_phases(process, may_see)],
    }
