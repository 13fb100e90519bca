# SPDX-License-Identifier: Apache-2.0
"""The holders of a chip's L1, and the headroom between its programs and the lowest L1 buffer."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from ttmem.model.units import human
from ttmem.show.l1_text import known
from ttmem.show.process_table import in_turns
from ttmem.show.text import Style, cells
from ttmem.show.top.dashboard_state import Model
from ttmem.show.top.parts.event_list import kind_style
from ttmem.show.top.parts.rows import Row, fitted, spans

if TYPE_CHECKING:
    from ttmem.model.schema import ChipHeadroom, ChipRow, ProcessRow, ProgramHeadroom

NOW, WORST = "L1 headroom now", "L1 headroom worst"
WORDS = {
    "l1": "L1 buffers",
    "l1_small": "L1_SMALL",
    "cb": "circular buffers",
    "dfb": "dataflow buffers",
    "scratchpad": "scratchpads",
    "kernel": "kernels",
    "firmware": "firmware",
}
_OF_PROGRAMS = ("cb", "dfb", "scratchpad", "kernel")
_BAR_COLUMNS = 10
_PROCESSES_SHOWN = 4  # processes that are named


def path_of(model: Model) -> list[str]:
    """The path to request for the selected chip."""
    if not model.answering or model.selected is None:
        return []
    return [f"/headroom?chip={quote(model.selected, safe='')}"]


def wall_rows(model: Model, style: Style) -> list[Row]:
    """Rows for the program that ran last, and for the cached program with the least headroom; none if unknown."""
    answers = [model.answers[path] for path in path_of(model) if path in model.answers]
    if not answers or answers[0].data is None:
        return []
    found: list[ChipHeadroom] = [chip for chip in answers[0].data["chips"] if chip["chip"] == model.selected]
    if not found or found[0]["floor"] is None:
        return []
    headroom = found[0]
    launched = min(headroom["launched"], key=lambda program: known(program["headroom"]), default=None)
    holder = headroom["floor_holder"]
    what = f"{holder['tag'] or holder['kind']} of pid {holder['pid'] or '?'}" if holder else "the end of L1"
    rows = [_row(NOW, launched, headroom, (f"below {what}", f"below {what}"), style)] if launched else []
    worst = headroom["worst_cached"]
    if worst and (launched is None or worst["program"] != launched["program"]):
        when = f"program {worst['program']} of pid {worst['pid'] or '?'}"
        rows.append(_row(WORST, worst, headroom, (f"when {when} runs", when), style))
    return rows


def _row(name: str, program: ProgramHeadroom, headroom: ChipHeadroom, rests: tuple[str, str], style: Style) -> Row:
    """Like a row of the breakdown, but for one core: the room of a program below the lowest buffer."""
    floor, left = known(headroom["floor"]), known(program["headroom"])
    part = program["end"] / floor if floor else 1.0
    bar, warning = style.bar(part, _BAR_COLUMNS)
    word = "left" if left >= 0 else "TOO MUCH"
    alarm = "bad" if left <= 0 or part >= 0.9 else "warn" if part >= 0.75 else "good"
    row = spans(f" [{style.paint(bar, warning)}] ")
    row = [(f"  {name:<17}", "bold"), *row, (f"{human(abs(left)):>10} {word}", f"bold {alarm}")]
    room = style.width - sum(cells(text) for text, _ in row)
    # The holder is more important than the room without a program.
    ways = [f"{of} {rest}" for of in (f" of {human(floor):<9}", " ") for rest in map(style.clean, rests)]
    rest = next((text for text in ways if cells(text) <= room), ways[-1])
    return fitted([*row, (style.cut(rest, max(0, room)), "")], style.width)


def holder_rows(chip: ChipRow, processes: list[ProcessRow], style: Style) -> list[Row]:
    """The holders of a chip's L1, largest first, each with its kinds in their colours.

    The sum over all cached programs may exceed the capacity; it has the mark that the table of processes explains.
    """
    found = []
    for process in processes:
        share = next((share for share in process["chips"] if share["chip"] == chip["chip"]), None)
        if share is not None and process["state"] == "tracked":
            kinds = [(kind, size) for kind, size in share["kinds"].items() if size and kind in WORDS]
            if kinds:
                found.append((sum(size for _, size in kinds), process, sorted(kinds, key=lambda one: -one[1])))
    rows: list[Row] = []
    for total, process, kinds in sorted(found, key=lambda one: -one[0])[:_PROCESSES_SHOWN]:
        who = style.cut(style.clean(f"{process['pid'] or '?'} {process['name'] or ''}".rstrip()), 17)
        row: Row = [(f"  {who}{' ' * (17 - cells(who))} ", "bold"), ("holds in L1: ", "dim")]
        for number, (kind, size) in enumerate(kinds):
            mark = "*" if kind in _OF_PROGRAMS and in_turns("l1", total, chip, process["state"]) else ""
            text = f"{', ' if number else ''}{WORDS[kind]} {human(size)}{mark}"
            if sum(cells(one) for one, _ in row) + cells(text) > style.width:
                break
            row.append((text, kind_style(kind)))
        rows.append(row)
    if len(found) > _PROCESSES_SHOWN:
        rows.append([(f"  and {len(found) - _PROCESSES_SHOWN} more hold L1; press 4 for all processes", "dim")])
    return rows
