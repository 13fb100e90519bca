# SPDX-License-Identifier: Apache-2.0
"""Builds the report of a recording: the document "ttmem.report/1" and its sections."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from ttmem import __version__
from ttmem.account.ledger import Ledger
from ttmem.analyze.recorded_closings import closing_times
from ttmem.documents.common_text import chip_numbers, short_chip_title
from ttmem.documents.leaks import Request
from ttmem.documents.recorded_leaks import recorded_leaks
from ttmem.documents.snapshot import take_snapshot
from ttmem.ingest.clock import rfc3339
from ttmem.model.kinds import BREAKDOWN_POOLS, KINDS, BreakdownPool
from ttmem.pages import report_series as series
from ttmem.pages.bank_maps import bank_maps
from ttmem.pages.call_windows import window_columns, window_edges
from ttmem.pages.chip_groups import ChipGroup, chip_groups, differences, group_name
from ttmem.pages.chosen_allocations import ENDS, Chosen, allocation_columns, choose
from ttmem.pages.closest_program import closest_program
from ttmem.pages.confidential import Redactor
from ttmem.pages.core_moments import (
    MOST_MOMENTS,
    Wanted,
    closest_moment,
    core_moments,
    failure_moments,
    peak_moments,
    phase_moments,
)
from ttmem.pages.report_facts import facts, losses, sizing
from ttmem.pages.report_failures import explain, failures_of, is_failure
from ttmem.pages.report_marks import (
    close_marks,
    compile_marks,
    failure_marks,
    mark,
    nanoseconds,
    phases,
    user_marks,
)
from ttmem.pages.report_pools import POOL_WORDS, PoolPeak, live_rows, pool_peaks, report_pools
from ttmem.pages.report_sites import Sites, Strings
from ttmem.pages.report_verdict import verdict
from ttmem.pages.residency import Resident, reach_columns, resident, sites_of
from ttmem.pages.sections import Column, Sections
from ttmem.recording.allocation_table import NEVER, AllocationTable
from ttmem.recording.moments import Moment
from ttmem.recording.record_arrays import Array
from ttmem.recording.recording_file import Happened, Recording
from ttmem.recording.timeline import Timeline
from ttmem.statistics.fragmentation_over_time import Evaluated, evaluate
from ttmem.statistics.phase_runs import phase_runs
from ttmem.statistics.stats_document import stats_of, window_of

if TYPE_CHECKING:
    from ttmem.model.page_schema import Report, ReportAllocations, ReportGroup, ReportMark, ReportMoment, ReportPhase

SCHEMA: Final = "ttmem.report/1"
_DETAILED = 4  # chip groups with windows and maps
_LEVELS = 8  # of the timeline of a group
_OPENED_RECORDS = 2_000_000  # that are applied to open moments, about
_BETWEEN_HISTORIES = 400_000  # records, at most
_FEWEST_OPENED = 4
_TOP = 20  # rows of the tops of statistics


class MadeReport(NamedTuple):
    """A report and its sections by name, compressed. ``groups`` and ``lines`` are for further sections on request."""

    document: Report
    sections: dict[str, bytes]
    groups: list[ChipGroup]
    lines: list[list[series.Line]]  # of each group


class _Group(NamedTuple):
    """A chip group, and what its pages are made of."""

    group: ChipGroup
    timelines: dict[BreakdownPool, Timeline]
    peaks: list[PoolPeak]
    detailed: bool


def report_of(recording: Recording, *, made: float, title: str, confidential: bool = False) -> MadeReport:
    """The report of a recording. ``made`` is the present time."""
    return _ReportBuilder(recording, made, title, confidential).build()


class _ReportBuilder:
    def __init__(self, recording: Recording, made: float, title: str, confidential: bool) -> None:
        self._recording, self._made, self._title, self._confidential = recording, made, title, confidential
        self._found = recording.lifetimes()
        self._table: AllocationTable = self._found.allocations
        self._ledger: Ledger = recording.at_end().ledger
        self._until = _length(self._table)
        self._sections = Sections()
        self._lines: list[list[series.Line]] = []
        self._notes: list[str] = []
        self._closest: list[Wanted] = []  # when a program was closest to the L1 buffers of a group
        self._redactor = Redactor(recording, self._table.sites) if confidential else None
        self._snapshot = take_snapshot(self._ledger, time="", host="")
        numbers = chip_numbers(self._snapshot)
        self._numbers = numbers
        chips = sorted(self._ledger.chips, key=lambda chip: (chip not in numbers, numbers.get(chip, 0), chip))
        self._names = {
            chip: short_chip_title(chip, numbers.get(chip), self._ledger.chips[chip].info.board) for chip in chips
        }
        self._groups = self._prepared(chip_groups(self._table, chips))

    def _prepared(self, groups: list[ChipGroup]) -> list[_Group]:
        most = sorted(range(len(groups)), key=lambda place: -len(groups[place].rows))[:_DETAILED]
        found = []
        for place, group in enumerate(groups):
            timelines = {pool: series.pool_timeline(self._table, group, kinds)
                         for pool, kinds in BREAKDOWN_POOLS.items()}  # fmt: skip
            chip = self._ledger.chips.get(group.shown_chip)
            peaks = pool_peaks(self._table, group, chip, timelines, self._until)
            found.append(_Group(group, timelines, peaks, place in most))
        if len(groups) > _DETAILED:
            self._notes.append(
                f"there are {len(groups)} groups of chips; those with most allocations have call sites and maps, the "
                f"other {len(groups) - _DETAILED} only their timeline"
            )
        return found

    # -- the document --------------------------------------------------------------------------------------------

    def build(self) -> MadeReport:
        recording, table, until = self._recording, self._table, self._until
        strings = Strings(self._redactor.text if self._redactor is not None else lambda text: text)
        sites = Sites(table, strings, self._important())
        if sites.left_out:
            self._notes.append(
                f"of {sites.left_out + len(sites.list):,} call sites, those with most memory are listed; the others "
                "are one entry for each kind"
            )
        failures = failures_of(recording)
        explained = explain(recording, failures)
        listed_phases, left_out = phases(recording, self._ledger, [one.group for one in self._groups], until)
        if left_out:
            self._notes.append(f"the {left_out:,} shortest runs of phases are not shown")
        failed = [nanoseconds(recording, one.time, until) for one in failures]
        marks = [
            *failure_marks(recording, failures, list(explained), self._places(), until),
            *self._other_marks(),
        ]
        window = window_of(recording, None, inf, None)
        at_failures = np.array([table.at(one.time) for one in failures], np.int64)
        evaluated = evaluate(window, at_failures, phase_runs(recording, window))
        stats = stats_of(recording, window, self._ledger, top=_TOP, is_failure=is_failure, evaluated=evaluated)
        del window  # it keeps arrays as long as the table
        groups = [
            self._group(place, one, sites, evaluated, self._exact_edges(listed_phases, marks), failed)
            for place, one in enumerate(self._groups)
        ]
        leaks = recorded_leaks(recording, Request(), closing_times(recording)) if len(table) else None
        moments = self._moments(failures)
        code = recording.facts.get("exit_code")
        list_explained = list(explained.values())
        found = verdict(
            groups, list_explained, len(failures), leaks, sites.list, strings.list,
            code if isinstance(code, int) else None, complete=recording.finished and not recording.problems,
        )  # fmt: skip
        boards = [group["name"] for group in groups]
        document: Report = {
            "schema": SCHEMA,
            "ttmem": __version__,
            "made": rfc3339(self._made),
            "title": self._title,
            "confidential": self._confidential,
            "facts": facts(recording, self._ledger, boards, confidential=self._confidential),
            "begin": rfc3339(recording.begin, 6),
            "begin_s": recording.begin,
            "length_ns": until,
            "records": self._found.records,
            "events": self._found.events,
            "launches": self._found.launches,
            "verdict": found,
            "losses": losses(recording, self._ledger),
            "notes": self._notes,
            "kinds": [kind.label for kind in KINDS],
            "pools": {pool.label: [int(kind) for kind in kinds] for pool, kinds in BREAKDOWN_POOLS.items()},
            "strings": strings.list,
            "stacks": sites.stacks.tree,
            "sites": sites.list,
            "groups": groups,
            "phases": listed_phases,
            "marks": sorted(marks, key=lambda one: one["time_ns"]),
            "moments": moments,
            "allocations": self._allocations(sites),
            "explained": list_explained,
            "leaks": leaks,
            "sizing": sizing(recording),
            "stats": stats,
            "sections": self._sections.index,
        }
        if self._redactor is not None:
            document = self._redactor.document(document)
        return MadeReport(document, self._sections.payloads, [one.group for one in self._groups], self._lines)

    def _places(self) -> dict[int, int]:
        """The chip group that each process used, by pid; -1 if there are several."""
        found: dict[int, set[int]] = {}
        for process in (*self._ledger.departed, *self._ledger.processes.values()):
            used = {place for place, one in enumerate(self._groups) if process.shares.keys() & set(one.group.chips)}
            found.setdefault(process.info.pid, set()).update(used)
        return {pid: next(iter(used)) if len(used) == 1 else -1 for pid, used in found.items()}

    def _important(self) -> list[Array]:
        """Allocations whose call sites must be listed: those that are live at a peak or at the end."""
        at_peaks = [peak.rows for one in self._groups for peak in one.peaks]
        return [*at_peaks, np.flatnonzero(self._table.end == NEVER)]

    def _other_marks(self) -> list[ReportMark]:
        groups = [one.group for one in self._groups]
        found = [*user_marks(self._recording, self._until), *close_marks(self._table, groups, self._until)]
        found += compile_marks(self._table, self._found.programs, groups, self._until)
        for place, one in enumerate(self._groups):
            found += [
                mark("peak", peak.time, f"peak of {POOL_WORDS[peak.pool]}", place)
                for peak in one.peaks
                if peak.time is not None and peak.pool is not BreakdownPool.SYSTEM
            ]
        return found

    def _exact_edges(self, listed: Iterable[ReportPhase], marks: Iterable[ReportMark]) -> list[int]:
        """Times at which a window can begin or end exactly. Just before the end of a phase, it is all there."""
        found = [one["time_ns"] for one in marks if one["type"] != "compile"]
        found += [one["time_ns"] - 1 for one in marks if one["type"] == "close"]
        for phase in listed:
            found.append(phase["from_ns"])
            if phase["until_ns"] is not None:
                found.append(max(0, phase["until_ns"] - 1))
        return found

    def _group(
        self, place: int, one: _Group, sites: Sites, evaluated: list[Evaluated], exact: list[int], failed: list[int]
    ) -> ReportGroup:
        table, group, name = self._table, one.group, f"group/{place}"
        chip = self._ledger.chips[group.shown_chip]
        confidence = {source.confidence.label for source in (holding.source for holding in chip.holdings)}
        programs = resident(self._found, chip.id) if one.detailed else None
        closest = None if programs is None else closest_program(table, group, programs, self._until)
        if closest is not None:
            self._closest.append(closest_moment(closest, place, table))
        lines = [
            *series.pool_lines(one.timelines, chip.geometry, "exact" if confidence <= {"exact"} else "reported"),
            *([] if programs is None else series.resident_lines(programs.time, programs.circular, programs.kernels)),
            *series.largest_free_lines(evaluated, chip.id),
            series.rate_line("events", "allocations and frees per second", *series.event_times(table, group.rows)),
            *series.host_lines(self._recording.samples(), table.start),
        ]
        self._lines.append(lines)
        buckets = series.BUCKETS if one.detailed else series.FEWER_BUCKETS
        timeline = self._sections.add_columns(
            f"{name}/timeline", series.columns(lines, series.edges_of(0, self._until, buckets))
        )
        around = [peak.time for peak in one.peaks if peak.is_buffers and peak.time is not None] + failed[::-1]
        levels = series.stretches(around, self._until, _LEVELS if one.detailed else 0)
        windows, maps = None, []
        if one.detailed:
            edges = window_edges(table, group.rows, exact, self._until)
            windows = self._sections.add_columns(
                f"{name}/windows", window_columns(table, group.rows, sites.of_row, edges)
            )
            made = bank_maps(table, group, chip.geometry, sites.of_row, self._until, self._sections, name,
                             self._reach(programs, sites))  # fmt: skip
            maps = made.maps
            self._notes += made.notes
        numbers = [self._numbers[chip] for chip in group.chips if chip in self._numbers]
        boards = {str(self._ledger.chips[chip].info.board or "") for chip in group.chips}
        return {
            "name": group_name(boards - {""}, numbers if len(numbers) == len(group.chips) else [], list(group.chips)),
            "chips": list(group.chips),
            "chip_names": [self._names[chip] for chip in group.chips],
            "shown_chip": group.shown_chip,
            "differences": differences(group, self._ledger, self._names),
            "pools": report_pools(table, one.peaks, one.timelines, chip, sites.of_row, evaluated),
            "series": [line.described for line in lines],
            "timeline": timeline,
            "levels": [
                {
                    "from_ns": level.begin,
                    "until_ns": level.end,
                    "section": self._sections.add_columns(
                        f"{name}/level/{number}",
                        series.columns(lines, series.edges_of(level.begin, level.end, series.LEVEL_BUCKETS)),
                    ),
                }
                for number, level in enumerate(levels)
            ],
            "windows": windows,
            "maps": maps,
        }

    def _reach(self, programs: Resident | None, sites: Sites) -> list[Column] | None:
        if programs is None:
            return None
        columns, count = reach_columns(programs, sites_of(programs, sites.by_key, len(KINDS)), self._until)
        if len(columns[0].values) < count:
            self._notes.append(
                f"of {count:,} changes of what programs reach in L1, the map shows the highest in each part of the time"
            )
        return columns if count else None

    def _allocations(self, sites: Sites) -> ReportAllocations:
        table = self._table
        rows = np.arange(len(table))
        peaks = [live_rows(table, one.group, peak.pool, peak.time) for one in self._groups for peak in one.peaks
                 if peak.time is not None and peak.is_buffers]  # fmt: skip
        chosen: Chosen = choose(table, rows, peaks)
        if len(chosen.rows) < len(rows):
            self._notes.append(
                f"the table of allocations lists {len(chosen.rows):,} of {len(rows):,}: largest, longest-lived, "
                "those never freed or freed late, and those live at a peak"
            )
        bits = np.zeros(len(table), np.uint32)
        for place, one in enumerate(self._groups[:32]):
            bits[one.group.rows] |= np.uint32(1 << place)
        self._sections.add_columns("allocations", allocation_columns(table, chosen, sites.of_row, bits[chosen.rows]))
        return {"section": "allocations", "rows": len(chosen.rows), "total": len(rows), "ends": ENDS}

    # -- moments -------------------------------------------------------------------------------------------------

    def _moments(self, failures: list[Happened]) -> list[ReportMoment]:
        """Maps of the cores at failed allocations, peaks, and the end of the last run of each phase."""
        recording = self._recording
        every = tuple(place for place, one in enumerate(self._groups) if one.detailed)
        chosen = [
            *failure_moments(recording, failures, self._places(), every, self._until),
            *(
                one
                for place in every
                for one in peak_moments(self._ledger, self._groups[place].group, self._groups[place].peaks, place)
            ),
            *self._closest,
            *phase_moments(recording, every, self._until),
        ] or [Wanted(Moment(recording.end, "at the end"), every, self._until - 1)]
        most = min(MOST_MOMENTS // max(1, len(every)), max(_FEWEST_OPENED, _OPENED_RECORDS // self._opened_records()))
        if len(chosen) > most:
            self._notes.append(
                f"maps of the cores are there for {most} of {len(chosen)} failed allocations, peaks and ends of phases"
            )
        groups = [one.group for one in self._groups]
        shown = self._redactor.cores if self._redactor is not None else (lambda cores: cores)
        return core_moments(recording, chosen[:most], groups, self._sections, shown)

    def _opened_records(self) -> int:
        """How many records are applied to open a moment, about."""
        return max(1, min(self._found.records + self._found.events, _BETWEEN_HISTORIES))


def _length(table: AllocationTable) -> int:
    """Nanoseconds from the start of the recording to after its last event."""
    last = table.length
    if len(table):
        ends = table.end[table.end != NEVER]
        last = max(last, int(table.begin.max()), int(ends.max()) if len(ends) else 0)
    return max(0, last) + 1
