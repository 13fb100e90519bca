# SPDX-License-Identifier: Apache-2.0
"""Phases: the values of each total of a process at the start, the peak and the end of periods that a workload names.

Phases add no work per event. Each total keeps its maximum since a phase of its process last began. This maximum belongs
to the youngest open phase and, when that phase ends, passes to the next older one. So the start or end of a phase reads
each total once, regardless of how many phases are open. Phases that have ended are summed by their path: a loop over a
million tokens is one entry.

Chips share totals (see `shared_totals`). Each total has one *column*, and all rows with that total use this column.
When chips get their own copy of a total, their rows get a copy of the column: its values so far are also theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple, Union

from ttmem.account.totals import Total
from ttmem.model.kinds import KIND_BY_LABEL, KINDS, KINDS_OF, POOL_GAUGES, POOL_OF, Pool

if TYPE_CHECKING:
    from ttmem.account.entities import Process, Source
    from ttmem.model import schema
    from ttmem.model.events import CaughtUp, OpenPhaseHighs

Viewer = Callable[[Union[int, None]], bool]
Meter = tuple[int, str]  # device number and gauge

_MAX_PATH_CHARACTERS = 512
_MOST_COLUMNS = 20_000
_NOTHING = Total()


class TotalKey(NamedTuple):
    """Identifies a total: a pool of the process on a chip, or a kind on one of its devices."""

    chip: str
    device: int | None
    label: str


class Run(NamedTuple):
    """One run of a phase: three values for each column."""

    begin: list[int]
    peak: list[int]
    end: list[int]

    def at(self, number: int) -> schema.PhaseRun:
        begin, peak, end = (column[number] if number < len(column) else 0 for column in self)
        return {"begin": begin, "peak": peak, "end": end, "delta": end - begin}


class Phase:
    """One run that has not ended."""

    __slots__ = ("began", "begin", "begin_seen", "gap", "path", "peaks")

    def __init__(self, path: str, began: float, begin_seen: bool, begin: list[int], gap: bool = False) -> None:
        self.path = path
        self.began = began
        self.begin_seen = begin_seen
        self.gap = gap  # its process lost records meanwhile, and had no meter for it
        self.begin = begin
        # Column number -> its maximum until the next phase began. Columns that did not exceed ``begin`` are left out.
        self.peaks: dict[int, int] = {}

    @property
    def complete(self) -> bool:
        return self.begin_seen and not self.gap

    def reach(self, peaks: dict[int, int]) -> None:
        mine = self.peaks
        for number, high in peaks.items():
            if high > mine.get(number, 0):
                mine[number] = high

    def begin_anew(self, begin: list[int]) -> None:
        self.begin_seen = False
        self.begin = begin
        self.peaks = {}


def is_called(path: str, name: str) -> bool:
    """Does a user mean a phase by this name, which may leave out the phases around it?

    >>> is_called("step/layer", "layer"), is_called("step/layer", "step/layer"), is_called("step/layer", "step")
    (True, True, False)
    """
    return path == name or path.endswith(f"/{name}")


class PhasePath:
    """All ended runs of one path. ``partial`` is the number of runs whose begin, end or peak was not seen."""

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
        """Add a column that is a copy of column ``old``."""
        self.peak.append(self.peak[old])
        self.delta.append(self.delta[old])
        for column in self.last:
            if old < len(column):
                column += [0] * (len(self.peak) - 1 - len(column))
                column.append(column[old])

    def add(self, run: Run) -> None:
        """Add a run. Columns that this path does not have are left out."""
        self.last = last = Run(*(column[: len(self.peak)] for column in run))
        if last.peak != self.peak:
            self.peak = [old if old > new else new for old, new in zip(self.peak, last.peak)]
        if last.end != last.begin:
            self.delta = [delta + end - begin for delta, begin, end in zip(self.delta, last.begin, last.end)]


class Phases:
    """The phases of one process: the open phases, the youngest last, and a summary of those that ended."""

    __slots__ = ("_afresh", "_behind", "_columns", "_process", "_rows", "_totals", "ended", "left_out", "missed",
                 "most_rows", "open")  # fmt: skip

    def __init__(self, process: Process) -> None:
        self._process = process
        self._columns: dict[TotalKey, int] = {}  # row -> column
        self._totals: list[Total] = []  # column -> total
        self._afresh = False  # whether some rows have other totals than their column
        self._behind = False  # whether some totals have no column yet
        self._rows = 0  # number of rows in all paths
        self.most_rows = 0  # the limit for it, 0 before the first phase ended
        self.open: dict[tuple[Source, int], Phase] = {}
        self.ended: dict[str, PhasePath] = {}
        self.left_out = 0  # times that data of a phase was dropped because of a limit
        self.missed = 0  # phases that began and ended among lost records

    def began(self, name: str) -> float | None:
        """When the last run of a phase began; None if there was none."""
        times = [phase.began for phase in self.open.values() if is_called(phase.path, name)]
        times += [ended.since for path, ended in self.ended.items() if is_called(path, name)]
        return max(times, default=None)

    def begin(self, source: Source, ident: int, name: str, parent: int, time: float, most: int) -> None:
        """Begin a phase, within its parent if that is open. A start of a phase that is already open has no effect."""
        if (source, ident) in self.open:
            return
        if len(self.open) >= most:
            self.left_out += 1
            return
        self.turn()
        outer = self.open.get((source, parent))
        path = name if outer is None else f"{outer.path}/{name}"
        self.open[source, ident] = Phase(path[:_MAX_PATH_CHARACTERS], time, source.generation is None, self._used())

    def resume(self, source: Source, event: CaughtUp, most: int) -> None:
        """Phases are open after records were lost. Their begin and their peak are those that their process measured."""
        self._catch_up()
        columns = list(self._measured_columns(source)) if event.phases else []
        row_of = {(number, high.gauge): row for row, high in enumerate(event.highs) for number in high.numbers}
        rows = [
            (column, found)
            for column, meters, voices in columns
            if voices == {source} and (found := [row_of[meter] for meter in meters if meter in row_of])
        ]
        others = [voices for _, _, voices in columns if voices - {source}]
        for phase in event.phases:
            # What other sources held when it began is not known, nor how high a sum with theirs was.
            began_unseen = (source, phase.ident) not in self.open
            known = self._resume(source, phase, rows, most)
            if known is not None and any(began_unseen or source in voices for voices in others):
                known.gap = True

    def _resume(
        self, source: Source, phase: OpenPhaseHighs, rows: list[tuple[int, list[int]]], most: int
    ) -> Phase | None:
        """``rows`` has, for each column, the rows of the phase of which it is the sum."""
        known = self.open.get((source, phase.ident))
        began_unseen = known is None
        if known is None:
            self.begin(source, phase.ident, phase.name, phase.parent, phase.began, most)
            known = self.open.get((source, phase.ident))
            if known is None:
                return None
        begins, peaks = phase.begins, phase.peaks
        for column, parts in rows:
            begin, peak = begins[parts[0]], peaks[parts[0]]
            if len(parts) > 1:
                begin, peak = sum(begins[part] for part in parts), max(peaks[part] for part in parts)
                if sum(peaks[part] > 0 for part in parts) > 1:  # it is not known when the sum was highest
                    peak, known.gap = max(begin, peak), True
            if began_unseen:
                known.begin[column] = begin
            if peak > known.begin[column]:
                known.peaks[column] = max(peak, known.peaks.get(column, 0))
        return known

    def _measured_columns(self, source: Source) -> Iterator[tuple[int, list[Meter], set[Source]]]:
        """Each column with its meter, or with those of its kinds, and the sources that its total comes from."""
        process = self._process
        first_number: dict[str, int] = {}
        for number, chip in process.numbers.items():
            first_number.setdefault(chip.id, number)
        for key, column in self._columns.items():
            share = process.shares.get(key.chip)
            if share is None:
                continue
            if key.device is not None:
                device, gauges, kinds = key.device, [key.label], [KIND_BY_LABEL[key.label]]
            elif key.chip in first_number:
                pool = Pool[key.label.upper()]
                device, kinds = first_number[key.chip], list(KINDS_OF[pool])
                gauges = [POOL_GAUGES[pool]] if pool in POOL_GAUGES else [kind.label for kind in kinds]
            else:
                continue
            voices = {voice for kind in kinds if (voice := share.voices[kind]) is not None}
            yield column, [(device, gauge) for gauge in gauges], voices

    def end(self, source: Source, ident: int, time: float, paths: int, rows: int, *, seen: bool = True) -> None:
        """End a phase, if it is open. Data beyond the limits on paths and rows is not kept."""
        phase = self.open.get((source, ident))
        if phase is None:
            return
        self.most_rows = rows
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
        """The values of an open phase, if it ended now."""
        self._catch_up()
        peak = [begin if begin > total.high else total.high for begin, total in zip(phase.begin, self._totals)]
        for other in self._since(phase):
            for number, high in other.peaks.items():
                if high > peak[number]:
                    peak[number] = high
        return Run(phase.begin, peak, self._used())

    def turn(self) -> None:
        """Store the maximum of each total in the youngest phase, and start new maxima for the next one."""
        self._catch_up()
        totals = self._totals
        if self.open:
            youngest = next(reversed(self.open.values()))
            highs = zip([total.high for total in totals], youngest.begin)
            youngest.reach({number: high for number, (high, begin) in enumerate(highs) if high > begin})
        for total in totals:
            total.high = total.used

    def begin_anew(self, source: Source) -> None:
        """After a resync of a source: its phases whose begin was not seen begin now."""
        found = [(key, phase) for key, phase in self.open.items() if key[0] is source and not phase.begin_seen]
        if found:
            self.turn()
        for key, phase in found:
            self._close(*key)
            phase.begin_anew(self._used())
            self.open[key] = phase

    @property
    def columns(self) -> dict[TotalKey, int]:
        """The column of each row."""
        return self._columns

    def settle(self) -> None:
        """Give a column to each total that has none yet."""
        self._catch_up()

    def restore(self, columns: dict[TotalKey, int], ended: dict[str, PhasePath], left_out: int, most_rows: int) -> None:
        """Take the columns and the ended phases of another account in which the same is live."""
        found = dict(self._walk())
        self._columns = columns
        self._totals = [_NOTHING] * (max(columns.values(), default=-1) + 1)
        for key, column in columns.items():
            if key in found:
                self._totals[column] = found[key]
        self._behind = bool(found.keys() - columns.keys())
        self.ended = ended
        self._rows = sum(len(path.peak) for path in ended.values())
        self.left_out, self.most_rows = left_out, most_rows

    def more_totals(self) -> None:
        """The process has new totals, some of which may be copies of others."""
        self._behind = True

    def other_totals(self) -> None:
        """Restart open phases: allocations count in other totals now, so old and new values cannot be compared."""
        if not self.open:  # the columns can wait: a process may have thousands of totals, and they may change often
            self._behind = self._afresh = True
            return
        self._catch_up(afresh=True)
        for total in self._totals:
            total.high = total.used
        for phase in self.open.values():
            phase.begin_anew(self._used())

    def rows(self, phase: Phase) -> Iterator[schema.OpenPhaseRow]:
        """The rows of an open phase, as if it ended now. Totals with a peak of 0 are left out."""
        run = self.run(phase)
        columns = list(self._columns.items())
        return ({**_place(corner), **run.at(number)} for corner, number in columns if run.peak[number])

    def rows_of(self, path: PhasePath) -> Iterator[schema.EndedPhaseRow]:
        """The rows of all ended runs of a path. Totals with a peak of 0 are left out."""
        for corner, number in list(self._columns.items()):
            if number < len(path.peak) and path.peak[number]:
                last = path.last.at(number)
                yield {**_place(corner), "peak": path.peak[number], "delta": path.delta[number], "last": last}

    def _used(self) -> list[int]:
        return [total.used for total in self._totals]

    def _since(self, phase: Phase) -> list[Phase]:
        """A phase and the open phases that began after it."""
        phases = list(self.open.values())
        return phases[phases.index(phase) :]

    def _close(self, source: Source, ident: int) -> None:
        """Remove a phase from the open ones. Its maxima pass to the next older phase, which was open then, too."""
        phases = list(self.open.values())
        phase = self.open.pop((source, ident))
        before = phases.index(phase) - 1
        if before >= 0:
            phases[before].reach(phase.peaks)

    def _catch_up(self, *, afresh: bool = False) -> None:
        """Give a column to each total that has none yet. In open phases, its begin value is 0.

        ``afresh``: also update the rows that now have a different total, or none.
        """
        if not (self._behind or afresh):
            return
        afresh = afresh or self._afresh
        self._behind = self._afresh = False
        found = dict(self._walk())
        before, totals = self._columns, self._totals
        if afresh:
            self._totals = totals = [_NOTHING] * len(totals)
        counted = totals.copy()
        new: dict[tuple[int | None, Total], int] = {}  # (old column, total) -> column
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
                    room = min(column - len(path.peak), self.most_rows - self._rows)
                    path.grow(room)
                    self._rows += room
                    if len(path.peak) == column and self._rows < self.most_rows:
                        path.copy_column(old)
                        self._rows += 1
                    else:
                        self.left_out += 1
        return column

    def _walk(self) -> Iterator[tuple[TotalKey, Total]]:
        """All rows with their totals, for everything that a source of the process ever reported."""
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
    """The process, and the number of phases with data that is not kept or not listed."""
    return {
        "pid": process.info.pid or None,
        "start": process.info.start,
        "state": "tracked" if process.exited is None else "exited",
        "left_out": process.phases.left_out + not_listed,
        "missed": process.phases.missed,
    }


def open_phases(
    process: Process, may_see: Viewer = lambda user_id: True
) -> Iterator[tuple[schema.OpenPhaseHead, Iterator[schema.OpenPhaseRow]]]:
    """The open phases of a process one by one, each with its rows. The account may change between two of them.

    ``may_see`` returns whether the reader may see the names of phases of a user.
    """
    phases, visible = process.phases, may_see(process.info.user_id)
    for key, phase in list(phases.open.items()):
        if phases.open.get(key) is phase:
            path = phase.path if visible else None
            yield {"path": path, "since": phase.began, "complete": phase.complete}, phases.rows(phase)


def ended_phases(
    process: Process, may_see: Viewer = lambda user_id: True
) -> Iterator[tuple[schema.EndedPhaseHead, Iterator[schema.EndedPhaseRow]]]:
    """The same for phases that have ended, path by path."""
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
