# SPDX-License-Identifier: Apache-2.0
"""Recordings in a notebook: a short summary of a recording, and its report inside the notebook.

The summary needs no script, so it is also shown in a notebook that is not trusted, and it stays small. The report is
the page of `ttmem report` in a frame of its own.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from html import escape
from time import time
from typing import TYPE_CHECKING, NamedTuple

from ttmem.model.kinds import BREAKDOWN_POOLS, BreakdownPool
from ttmem.model.printable import printable
from ttmem.model.units import human, part_text, peak_text
from ttmem.recording.blocks import RecordingError
from ttmem.recording.recording_file import Recording

if TYPE_CHECKING:
    from ttmem.account.entities import Chip
    from ttmem.pages.chip_groups import ChipGroup
    from ttmem.recording.allocation_table import AllocationTable
    from ttmem.recording.timeline import Timeline

_SHOWN_GROUPS = 4
_BUCKETS = 300
_WIDE, _HIGH = 600, 44  # of a chart, in its own units
_WORDS = {
    BreakdownPool.DRAM: ("DRAM", "#4f86d9"),
    BreakdownPool.L1_BUFFERS: ("L1 buffers", "#4f9e62"),
    BreakdownPool.PROGRAMS: ("cached programs, which take turns in L1", "#d98f4a"),
}
_FRAME_HEIGHT = 900


class ReportPage:
    """The report of a recording. A notebook shows it; `save` writes it to a file."""

    def __init__(self, html: str) -> None:
        self.html = html

    def save(self, path: str | os.PathLike[str]) -> None:
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.html)

    def _repr_html_(self) -> str:
        # The frame has no origin: the page cannot reach the notebook, whatever names the recording has.
        return (
            f'<iframe title="report of ttmem" sandbox="allow-scripts" srcdoc="{escape(self.html)}" '
            f'style="width:100%;height:{_FRAME_HEIGHT}px;border:1px solid #8885;border-radius:6px"></iframe>'
        )


class LoadedRecording(Recording):
    """A recording that a notebook shows as a summary: facts, peaks against capacities, and use over time."""

    def report(self, *, title: str | None = None, confidential: bool = False) -> ReportPage:
        """The page of `ttmem report`. Of a long recording it has a few MB, which the notebook then contains."""
        from ttmem.pages.html_page import load_bundle, page
        from ttmem.pages.report_document import report_of

        bundle = load_bundle()
        title = title or ("recording" if confidential else os.path.basename(os.path.normpath(self.path)))
        made = report_of(self, made=time(), title=title, confidential=confidential)
        return ReportPage("".join(page(title, {"page": "report", "report": made.document}, made.sections, bundle)))

    def _repr_html_(self) -> str:
        return "".join(_summary(self))


def load(path: str | os.PathLike[str]) -> LoadedRecording:
    """Open a recording of `ttmem run --record`, `ttmem serve --record` or `ttmem import`."""
    return LoadedRecording(os.fspath(path))


class _Use(NamedTuple):
    pool: BreakdownPool
    line: Timeline
    peak: int
    at_most: int | None
    peak_time: int | None
    capacity: int | None


def _summary(recording: Recording) -> Iterator[str]:
    yield f"<div><b>{_text(os.path.basename(os.path.normpath(recording.path)))}</b>"
    command = recording.facts.get("command")
    if isinstance(command, list):
        yield f" <code>{_text(' '.join(map(str, command)))}</code>"
    try:
        yield from _groups(recording)
    except RecordingError as error:
        yield f"<p>{_text(str(error))}</p>"
    failures = len(recording.failures())
    notes = [
        *([f"failed allocations and other errors: {failures:,}"] if failures else []),
        *([] if recording.finished else ["the recording was not closed; it is shown up to its last block"]),
        *recording.problems,
    ]
    yield "".join(f"<p>{_text(note)}</p>" for note in notes)
    yield "<p><small><code>.report()</code> shows the report; <code>.report().save(FILE)</code> writes it.</small>"
    yield "</p></div>"


def _groups(recording: Recording) -> Iterator[str]:
    """The chips that hold the same buffers, once, as in a report."""
    from ttmem.documents.common_text import chip_numbers
    from ttmem.documents.snapshot import take_snapshot
    from ttmem.pages.chip_groups import chip_groups, group_name

    table, ledger = recording.lifetimes().allocations, recording.at().ledger
    known = chip_numbers(take_snapshot(ledger, time="", host=""))
    groups = chip_groups(table, sorted(ledger.chips, key=lambda chip: (chip not in known, known.get(chip, 0), chip)))
    if not groups and recording.finished:
        yield "<p>No chip was used in this recording.</p>"
    for group in groups[:_SHOWN_GROUPS]:
        boards = {str(ledger.chips[chip].info.board or "") for chip in group.chips} - {""}
        numbers = [known[chip] for chip in group.chips if chip in known]
        name = group_name(boards, numbers if len(numbers) == len(group.chips) else [], list(group.chips))
        chips = f", {len(group.chips)} chips with the same buffers" if len(group.chips) > 1 else ""
        yield f"<p><b>{_text(name)}</b>{chips}, bytes per chip</p><table><thead><tr>"
        yield "".join(f"<th>{title}</th>" for title in ("pool", "peak", "capacity", "use", "at the end", "over time"))
        yield "</tr></thead><tbody>"
        for use in _uses(table, group, ledger.chips.get(group.shown_chip)):
            yield _row(use, max(1, table.length))
        yield "</tbody></table>"
    if len(groups) > _SHOWN_GROUPS:
        yield f"<p>and {len(groups) - _SHOWN_GROUPS:,} more groups of chips</p>"


def _uses(table: AllocationTable, group: ChipGroup, chip: Chip | None) -> Iterator[_Use]:
    from ttmem.pages.report_pools import pool_peaks
    from ttmem.pages.report_series import l1_capacity, pool_timeline

    geometry = chip.geometry if chip is not None else None
    capacities = {
        BreakdownPool.DRAM: geometry.dram_capacity if geometry is not None else None,
        BreakdownPool.L1_BUFFERS: l1_capacity(geometry),
    }
    lines = {pool: pool_timeline(table, group, kinds) for pool, kinds in BREAKDOWN_POOLS.items() if pool in _WORDS}
    for peak in pool_peaks(table, group, chip, lines, max(1, table.length)):
        yield _Use(peak.pool, lines[peak.pool], peak.value, peak.at_most, peak.time, capacities.get(peak.pool))


def _row(use: _Use, length: int) -> str:
    words, colour = _WORDS[use.pool]
    share = peak_text(part_text(use.peak, use.capacity), use.at_most) if use.capacity else "-"
    when = "" if use.peak_time is None else f"<br><small>at {use.peak_time / 1e9:.3f} s</small>"
    end = int(use.line.value[-1]) if len(use.line.value) else 0
    peak = peak_text(human(use.peak), use.at_most)
    cells = [words, peak + when, "-" if use.capacity is None else human(use.capacity), share, human(end)]
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}<td>{_chart(use, length, colour)}</td></tr>"


def _chart(use: _Use, length: int, colour: str) -> str:
    """The highest values over time as a picture, from 0 to the capacity if the peak is near it."""
    import numpy as np

    _, high, _ = use.line.buckets(np.linspace(0, length, _BUCKETS + 1))
    top = max(use.capacity, use.peak) if use.capacity and use.peak > use.capacity / 2 else use.peak
    step = _WIDE / _BUCKETS
    places = [f"{i * step:g},{_HIGH * (1 - value / max(1, top)):.1f}" for i, value in enumerate(high.tolist())]
    points = " ".join(f"{one} {(i + 1) * step:g},{one.rpartition(',')[2]}" for i, one in enumerate(places))
    return (
        f'<svg viewBox="0 0 {_WIDE} {_HIGH}" width="{_WIDE // 2}" height="{_HIGH // 2}" preserveAspectRatio="none" '
        f'role="img"><polygon points="0,{_HIGH} {points} {_WIDE},{_HIGH}" fill="{colour}" fill-opacity="0.35" '
        f'stroke="{colour}" vector-effect="non-scaling-stroke"/></svg>'
    )


def _text(text: str) -> str:
    return escape(printable(text))
