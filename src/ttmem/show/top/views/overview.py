# SPDX-License-Identifier: Apache-2.0
"""View 1: all chips and their use, the memory of the selected chip by kind, and the processes that hold them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ttmem.documents.common_text import anomaly_line, source_state
from ttmem.show.chip_table import Names, chip_table, too_full
from ttmem.show.kind_table import breakdowns
from ttmem.show.process_table import process_table
from ttmem.show.text import Style, wrap
from ttmem.show.top.dashboard_state import Model
from ttmem.show.top.parts.l1_headroom import NOW, WORDS, WORST, holder_rows, path_of, wall_rows
from ttmem.show.top.parts.listing import no_server
from ttmem.show.top.parts.recent_history import MEMORY, RecentHistory
from ttmem.show.top.parts.rows import Characters, FineBars, Row, Size, fitted, over, spans, text_of, within

if TYPE_CHECKING:
    from ttmem.model.schema import ChipRow, ProcessRow, Snapshot

_TABLE_COLUMNS = 101  # width of the table from which on the selected chip is shown to its right
_DETAILS_COLUMNS = (90, 110)  # width of the selected chip there, at least and at most
_GAP = "   "
_OF_DRAM = {"DRAM buffers": "dram", "traces": "trace"}
_KINDS = {words: kind for kind, words in WORDS.items()} | _OF_DRAM  # a row of the breakdown: its colour
_NAME_COLUMNS = 19  # of the names there


class Overview:
    """Chips, the selected one in detail, processes; rows that do not fit scroll or are counted."""

    name = "Overview"
    keys = (
        ("m", "more chips: without the details of the chosen one, and with them again"),
        ("a", "all processes, or those on the chosen chip"),
        ("page up, down", "ten chips back, ten chips on"),
        ("home, end", "the first chip, the last"),
    )
    kept = ("brief", "everybody")

    def __init__(self) -> None:
        self.brief = self.everybody = False
        self._top = 0  # the first chip that is shown
        self._shown: list[str] = []  # ids of the chips that are shown, from the second row down
        self._width = 0
        self._recent = RecentHistory()

    def wants(self, model: Model) -> list[str]:
        return [] if self.brief else [*path_of(model), *self._recent.wants(model)]

    def rows(self, model: Model, size: Size, signs: Characters) -> list[Row]:
        snapshot = model.snapshot
        if snapshot is None:
            return within([[("Looking at the machine...", "dim")]], size)
        names = Names(model.chips, Style(ascii=signs.ascii), model.numbers)
        note = _note(model, snapshot, names, Style(size.width, False, signs.ascii))
        height = size.height - len(note)
        chip = None if self.brief else model.chip()
        aside = min(size.width - _TABLE_COLUMNS - len(_GAP), _DETAILS_COLUMNS[1])
        beside = chip is not None and aside >= _DETAILS_COLUMNS[0]
        width = size.width - aside - len(_GAP) if beside else size.width
        style = FineBars(width, True, signs.ascii)
        beyond = FineBars(aside if beside else width, True, signs.ascii)
        details = [] if chip is None else _details(model, chip, names, beyond)
        processes = self._processes(model, names, style)
        under = [] if beside else details
        # Each part ends with a blank row.
        room = _shared_out(
            [len(part) + 1 if part else 0 for part in (["", *model.chips], under, processes)], height + 1
        )
        rows = self._chips(model, names, style, room[0] - 1)
        if under:
            rows += [*_fewer(under, room[1] - 1), []]
        rows += _cut(processes, room[2] - 1, "press 4 for all processes")
        if beside:
            rows = _side_by_side(rows, _fewer(details, height), width)
        if chip is not None:
            rows += self._recent.rows(model, MEMORY, Size(size.width, height - len(rows)), signs)
        missing = None if model.chips else no_server(model)
        if missing is not None:
            rows += [[], *([(line, "")] for line in wrap(style.clean(missing), style))]
        rows += [[]] * (height - len(rows))
        return within(rows[:height] + note, size)

    def _chips(self, model: Model, names: Names, style: Style, room: int) -> list[Row]:
        """The table, scrolled so that the selected chip is visible."""
        chips = model.chips
        self._width = style.width
        if not chips:
            self._shown = []
            driver = None if model.snapshot is None else model.snapshot.get("driver")
            why = "the driver shows none" if not driver or driver["loaded"] else "the driver is not loaded"
            words = f"No chip is known: {why}, and no process has reported one."
            if model.playback is not None:
                words = "No chip is known at this moment: no process has reported one yet."
            return [[(words, "warn")]]
        count = max(1, room - 1)
        chosen = next((place for place, chip in enumerate(chips) if chip["chip"] == model.selected), 0)
        self._top = max(0, min(max(self._top, chosen - count + 1), chosen, len(chips) - count))
        shown = chips[self._top : self._top + count]
        self._shown = [chip["chip"] for chip in shown]
        head, *lines = _headed(chip_table(shown, names, style))
        rows = [head]
        for chip_id, row in zip(self._shown, lines):
            rows.append(over(fitted(row, style.width), "select") if chip_id == model.selected else row)
        hidden = len(shown) < len(chips)
        where = f"{self._top + 1}-{self._top + len(shown)} of {len(chips)} chips" if hidden else ""
        return [*rows, [(f"{where:>{style.width}}", "warn")]]  # without a message, a blank row

    def _processes(self, model: Model, names: Names, style: Style) -> list[Row]:
        """The processes on the selected chip, a row for each; or all of them."""
        chip = model.chip()
        if chip is None or self.everybody:
            return _headed(process_table(model.processes, model.chips, names, style))
        shown = _on(chip, model.processes)
        others = len(model.processes) - len(shown)
        rest = f"{others} on other chips; press a for all" if others else ""
        if not shown:
            return [[(f"No process uses chip {names.short(chip['chip'])}. {rest}".rstrip(" "), "dim")]]
        rows = _headed(process_table(shown, [chip], names, style))
        return [*rows, [(f"  and {rest}", "dim")]] if others else rows

    def press(self, key: str, model: Model) -> bool:
        steps = {"pagedown": 10, "pageup": -10, "home": -len(model.chips), "end": len(model.chips)}
        if key in steps:
            model.choose(steps[key])
        elif key == "m":
            self.brief = not self.brief
        elif key == "a":
            self.everybody = not self.everybody
        else:
            return False
        return True

    def click(self, x: int, y: int, model: Model) -> bool:
        if x >= self._width or not 1 <= y <= len(self._shown):
            return False
        model.selected = self._shown[y - 1]
        return True


def _shared_out(wants: list[int], total: int) -> list[int]:
    """The number of rows for each part: as many as it needs, else an equal share of the rest.

    >>> _shared_out([33, 14, 6], 37), _shared_out([5, 9, 3], 37)
    ([17, 14, 6], [5, 9, 3])
    """
    out = [0] * len(wants)
    for place, want in sorted(enumerate(wants), key=lambda item: item[1]):
        left = sum(1 for other, _ in enumerate(wants) if not out[other] and wants[other])
        out[place] = min(want, (total - sum(out)) // max(1, left))
    out[0] += max(0, min(wants[0] - out[0], total - sum(out)))
    return out


def _headed(lines: list[str]) -> list[Row]:
    """A table of the text screens with titles in the style of the dashboard."""
    head, *rest = [spans(line) for line in lines]
    return [[(text, "head" if name == "bold" else name) for text, name in head], *rest]


def _cut(rows: list[Row], room: int, more: str) -> list[Row]:
    if len(rows) <= room:
        return rows
    return [*rows[: room - 1], [(f"  {len(rows) - room + 1} more lines: {more}", "dim")]] if room > 0 else []


def _fewer(rows: list[Row], room: int) -> list[Row]:
    """As many rows of a breakdown as fit: remarks are dropped first, sums and limits last."""
    kept = list(enumerate(rows))
    for number, _ in sorted(kept[1:], key=lambda item: (-_rank(text_of(item[1])), -item[0])):
        if len(kept) <= room:
            break
        kept = [item for item in kept if item[0] != number]
    (_, first), *others = kept
    left_out = len(rows) - len(kept)
    note: Row = [(f"   no room for {left_out} more line{'s' if left_out > 1 else ''}", "dim")] if left_out else []
    return [[*first, *note], *(row for _, row in others)]


def _rank(text: str) -> int:
    name = text[2:_NAME_COLUMNS].rstrip()
    if text.startswith(" " * 6):
        return 4
    if name.endswith("total") or name in (NOW, WORST):
        return 0
    return 2 if name in _OF_DRAM else 1 if name in _KINDS or "holds in L1" in text else 3


def _side_by_side(left: list[Row], right: list[Row], width: int) -> list[Row]:
    rows = []
    for number in range(max(len(left), len(right))):
        first = left[number] if number < len(left) else []
        rows.append([*fitted(first, width), (_GAP, ""), *right[number]] if number < len(right) else first)
    return rows


def _details(model: Model, chip: ChipRow, names: Names, style: Style) -> list[Row]:
    """The memory of a chip by kind, its headroom, and its holders."""
    assert model.snapshot is not None
    lines = breakdowns({**model.snapshot, "chips": [chip]}, names, style, in_full=True)[1:]
    if not lines:
        title = names.title(chip["chip"])
        nothing = "  nobody reports what is allocated on it"
        return [[(title, "bold")], [(nothing, "dim")]]
    first, *rest = [spans(line) for line in lines]
    holders = holder_rows(chip, model.processes, style)
    return [first, *wall_rows(model, style), *holders, *map(_coloured, rest)]


def _coloured(row: Row) -> Row:
    """A row of the breakdown in the colour of its kind; a warning keeps its own colour."""
    (text, name), *rest = row
    kind = _KINDS.get(text[2:_NAME_COLUMNS].rstrip())
    if kind is None:
        total = not name and text[:_NAME_COLUMNS].rstrip().endswith("total")
        return [(text[:_NAME_COLUMNS], "bold"), (text[_NAME_COLUMNS:], ""), *rest] if total else row
    return [
        (text[:_NAME_COLUMNS], kind),
        (text[_NAME_COLUMNS:], name),
        *((t, kind if n == "good" else n) for t, n in rest),
    ]


def _on(chip: ChipRow, processes: list[ProcessRow]) -> list[ProcessRow]:
    """The processes that use a chip, with their shares of that chip only."""
    found: list[ProcessRow] = []
    for process in processes:
        shares = [share for share in process["chips"] if share["chip"] == chip["chip"]]
        holds = [chip_id for chip_id in process["holds"] if chip_id == chip["chip"]]
        if shares or holds:
            found.append({**process, "chips": shares, "holds": holds})
    return found


def _note(model: Model, snapshot: Snapshot, names: Names, style: Style) -> list[Row]:
    """The most important note in one row, and the number of further notes."""
    notes: list[tuple[str, str]] = [(text, "bad") for text in too_full(snapshot["chips"], names)]
    notes += [(note["text"], "warn") for note in snapshot["notes"]]
    if any(snapshot["anomalies"].values()):
        notes.append((anomaly_line(snapshot["anomalies"]), "warn"))
    sources = [source for source in model.sources if source["detail"]]
    notes += [(f"{source_state(source)}: {source['detail']}", "dim") for source in sources]
    if not notes:
        return []
    more = f"  (+{len(notes) - 1} note{'s' if len(notes) > 2 else ''})" if len(notes) > 1 else ""
    text, colour = notes[0]
    return [[(style.cut(text, style.width - len(more)), colour), (more, "dim")]]
