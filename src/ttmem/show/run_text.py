# SPDX-License-Identifier: Apache-2.0
"""The document of a run as text: peak and end of each chip and kind, what made the peak, what was left, warnings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ttmem.documents.common_text import anomaly_line, chip_numbers, chip_title, short_line
from ttmem.documents.pool_amounts import amounts_text, pool_amounts
from ttmem.model.kinds import KIND_BY_LABEL, KINDS, Kind
from ttmem.model.uncertain_reasons import REASONS, counts_text
from ttmem.model.units import complete, human, lower_limit, part_text, peak_text
from ttmem.show.breakdown_table import WORDS, pool_tables
from ttmem.show.chip_table import Names
from ttmem.show.explain_text import block
from ttmem.show.text import BOLD, NONE, RED, YELLOW, Style, cells, wrap

if TYPE_CHECKING:
    from typing import Literal

    from ttmem.model.schema import AllocationRow, KindPeak, LeftRow, MainPool, PeakRow, ReservedPeak, Run, RunChip
    from ttmem.show.text import Cell

    By = Literal["op", "line", "shape", "kind", "program"]

_NEARLY_FULL, _GETTING_FULL = 0.9, 0.75  # shares of the capacity from which a line warns
_LARGEST_SHOWN = 5
_BREAKDOWN_ROWS = 8
_NAME_COLUMNS = 40
_MESHES_SHOWN = 4  # with their sizes
_NAMES = {
    Kind.DRAM: "DRAM buffers",
    Kind.TRACE: "trace buffers",
    Kind.L1: "L1 buffers",
    Kind.L1_SMALL: "L1_SMALL buffers",
    Kind.CB: "circular buffers",
    Kind.DFB: "dataflow buffers",
    Kind.SCRATCHPAD: "scratchpads",
    Kind.KERNEL: "kernels",
    Kind.FABRIC_KERNEL: "fabric kernels",
    Kind.DISPATCH_KERNEL: "dispatch kernels",
}
_NAME_OF = {kind.label: _NAMES.get(kind, kind.label) for kind in KINDS}
_LABELS = [kind.label for kind in KINDS]
_OF_PROGRAMS = {kind.label for kind in (Kind.CB, Kind.DFB, Kind.SCRATCHPAD, Kind.KERNEL)}
# Kinds that the runtime has for itself differ from chip to chip of a mesh: there is a router for each link.
_OF_RUNTIME = {kind.label for kind in (Kind.FABRIC_KERNEL, Kind.DISPATCH_KERNEL)}
_WITHOUT_ADDRESS = {Kind.KERNEL.label, *_OF_RUNTIME}
_POOLS: tuple[tuple[MainPool, str], ...] = (("dram", "DRAM reserved"), ("l1", "L1 reserved by buffers"))
_OVERLAP = (
    "That is more than there is: a mesh and each part of it have an allocator of their own, which gives out the same "
    "addresses. Two buffers in one place overwrite each other."
)


def render(run: Run, style: Style, by: By = "op") -> str:
    """The text of a document with schema "ttmem.run/1"; ``by`` names the breakdown of the peak to show."""
    lines: list[Cell] = [_plain(""), _headline(run)]
    if not run["chips"]:
        lines += [_plain(""), *map(_plain, _nothing(run))]
    for alike, figures in _alike(run, style):
        lines += [_plain(""), *_heading(run, alike, style), *figures]
    if run["chips"]:
        lines += _breakdown(run, by, style)
        lines += _sizing(run, style)
        lines += [_plain(""), *_left(run, style)]
    lines += [_plain(""), *_warnings(run, style)]
    # Painted only here: before that a line is made printable, which removes what sets colours.
    painted = [style.paint(style.clean(text).rstrip(), colour) for text, colour in lines]
    return "\n".join([*painted, *_failed(run, style)])


def _plain(text: str) -> Cell:
    return text, NONE


def _bold(text: str) -> Cell:
    return text, BOLD


def _headline(run: Run) -> Cell:
    lost = f"{run['dropped']:,} lost" if run["dropped"] else "none lost"
    share = "not audited" if run["completeness"] is None else f"{complete(run['completeness'])} complete"
    if run["uncertain"]:
        shown = "" if run["completeness"] is None else f"{share}, "
        share = f"{shown}uncertain: {counts_text(run['uncertain'])}"
    text = (
        f"ttmem run: exit {run['exit_code']} after {run['duration_s']:.1f} s; "
        f"{run['events']:,} records, {lost}; {share}"
    )
    return text, YELLOW if run["dropped"] or run["uncertain"] else BOLD


def _nothing(run: Run) -> list[str]:
    if run["unseen"] or run["trouble"]:
        return ["Nothing was seen of the devices that were used."]
    return ["No process of this command was seen to open a device."]


def _alike(run: Run, style: Style) -> list[tuple[list[RunChip], list[Cell]]]:
    """Chips with the same figures, and these figures: the chips of a mesh are in lock step and shown once."""
    peaks = {(chip, peak["kind"]): peak for peak in run["peaks"] if "kind" in peak for chip in peak["chips"]}
    largest = {chip["chip"]: _at_peaks(run, chip, peaks, style) for chip in run["chips"]}
    own = [label for label in _LABELS if label not in _OF_RUNTIME]
    found: dict[tuple[str | Cell, ...], list[RunChip]] = {}
    for chip in run["chips"]:
        found.setdefault((_board(chip), *_figures([chip], own, style), *largest[chip["chip"]]), []).append(chip)
    return [(alike, [*_figures(alike, _LABELS, style), *largest[alike[0]["chip"]]]) for alike in found.values()]


def _heading(run: Run, chips: Sequence[RunChip], style: Style) -> list[Cell]:
    numbers = chip_numbers(run["final"])
    chip_ids = sorted(
        (chip["chip"] for chip in chips), key=lambda chip_id: (chip_id not in numbers, numbers.get(chip_id, 0))
    )
    names = Names(run["final"]["chips"], style, numbers)
    title = names.group_title(chip_ids) if len(chips) > 1 else _chip_title(run, chip_ids[0])
    lines = [_bold(line) for line in wrap(title, style, "  ", "")]
    if len(chips) > 1:
        lines += [_plain(line) for line in wrap(f"ids {', '.join(chip_ids)}", style, "      ", "  ")]
    return lines


def _chip_title(run: Run, chip_id: str) -> str:
    boards = {chip["chip"]: chip["board"] or chip["arch"] for chip in run["chips"]}
    return chip_title(chip_id, chip_numbers(run["final"]).get(chip_id), boards.get(chip_id))


def _board(chip: RunChip) -> str:
    return chip["board"] or chip["arch"] or ""


def _figures(chips: Sequence[RunChip], kinds: Sequence[str], style: Style) -> list[Cell]:
    """The table of chips that differ in nothing but what the runtime has for itself; of that the highest is shown."""
    lines = [_bold(f"  {'sum of cores or banks':22} {'peak':>11} {'at the end':>11}")]
    none: KindPeak = {"peak": 0, "peak_at_most": None, "end": 0}
    for kind in kinds:
        found = [chip["kinds"].get(kind, none) for chip in chips]
        peaks = [figure["peak"] for figure in found]
        if max(peaks):
            note = "of all cached programs, which use L1 in turn" if kind in _OF_PROGRAMS else ""
            if min(peaks) < max(peaks):
                note = f"on the chip with most, {human(min(peaks))} on the one with least"
            end = human(max(figure["end"] for figure in found))
            exact = all(figure["peak_at_most"] is None for figure in found)
            top = _top(human(max(peaks)), exact, style)
            lines.append(_plain(f"  {_NAME_OF[kind]:22} {top:>11} {end:>11}   {note}"))
    for pool, name in _POOLS:
        lines += _taken(chips[0][pool], name, style)
    return lines


def _taken(figure: ReservedPeak, name: str, style: Style) -> list[Cell]:
    capacity, taken = figure["buffer_capacity"], figure["reserved_peak"]
    if capacity is None:
        return []
    exact = figure["reserved_peak_exact"]
    share = f"{_top(part_text(taken, capacity), exact, style)} of {human(capacity)}"
    top = _top(human(taken), exact, style)
    line = f"  {name:22} {top:>11} {human(figure['reserved_end']):>11}   peak is {share}"
    part = taken / capacity if capacity else 0.0
    colour = RED if part >= _NEARLY_FULL else YELLOW if part >= _GETTING_FULL else NONE
    overlap = wrap(_OVERLAP, style, "    ", "    ") if taken > capacity else []
    return [(line, colour), *((more, RED) for more in overlap)]


def _top(text: str, exact: bool, style: Style) -> str:
    """A peak as text, with a sign if it is only a lower limit."""
    return text if exact else lower_limit(text, ascii=style.ascii)


def _at_peaks(run: Run, chip: RunChip, peaks: dict[tuple[str, str], PeakRow], style: Style) -> list[Cell]:
    """What the peak of each pool's buffers was made of; they rarely come at the same time."""
    lines = []
    for kind in (Kind.DRAM.label, Kind.L1.label):
        peak = peaks.get((chip["chip"], kind))
        if peak is None:
            continue
        size = peak_text(human(peak["per_chip"]), peak["at_most"], ascii=style.ascii)
        if peak["time"] is None:
            lines.append(_bold(f"  the peak of {_NAME_OF[kind]}, {size}, was among records that were lost"))
            continue
        after = _after(run, peak["time"])
        lines.append(_bold(f"  at the peak of {_NAME_OF[kind]}, {size} after {after:.2f} s, the largest were:"))
        shown = peak["largest"][:_LARGEST_SHOWN]
        wide = _columns_of_names(shown)
        lines += [_plain(f"    {_line(allocation, wide)}") for allocation in shown]
    return lines


def _after(run: Run, time: float | None) -> float:
    """Seconds from the start of the run to a moment of it."""
    return max(0.0, time - run["started"]) if time is not None else 0.0


def _breakdown(run: Run, by: By, style: Style) -> list[Cell]:
    """Who made what was live at the peak of all buffers: for each pool, over all chips."""
    found = run["breakdown"][by]
    if all(row[by] is None for pool in found for row in pool["rows"]):
        return []
    inner = Style(style.width - 2, ascii=style.ascii)
    after = _after(run, run["peak_time"])
    lines = [_plain(""), _bold(f"what was live at the peak of the buffers, after {after:.2f} s, by {WORDS[by]}:")]
    return lines + [_plain(f"  {line}") for line in pool_tables(found, by, inner, _BREAKDOWN_ROWS)]


def _sizing(run: Run, style: Style) -> list[Cell]:
    """Which sizes would have been enough, and how close programs came to the L1 buffers."""
    lines: list[Cell] = []
    for advice in run["sizing"][:_MESHES_SHOWN]:
        chips = advice["chips"]
        several = f" and {len(chips) - 1} more" if len(chips) > 1 else ""
        title = _chip_title(run, chips[0])
        lines += [_plain(""), _bold(f"sizes, pid {advice['pid']} on {title}{several}{_doubt(run)}:")]
        for line in advice["lines"]:
            lines += map(_plain, wrap(line["text"], style, "    ", "  "))
    if len(run["sizing"]) > _MESHES_SHOWN:
        lines.append(_plain(f"  and {len(run['sizing']) - _MESHES_SHOWN:,} more in --json"))
    return lines


def _failed(run: Run, style: Style) -> list[str]:
    """The last failure, explained, if the command did not end well; else that there were some."""
    if not run["failures"]:
        return []
    last = run["failures"][-1]
    before = max(0.0, run["ended"] - last["time"])
    if not run["exit_code"]:
        times, which = _times(run["failed"]), "" if run["failed"] == 1 else "The last: "
        headline = last["verdict"]["headline"]
        text = f"An allocation failed {times}, and the command continued; --json explains it. {which}{headline}"
        return ["", *(style.paint(line, YELLOW) for line in wrap(style.clean(text), style))]
    lines = ["", *block(last["verdict"], style, ("when", f"{before:.1f} s before the command ended"))]
    earlier, kept = run["failed"] - 1, len(run["failures"]) - 1
    if earlier:
        which = f"the last {kept}" if earlier > kept else "them"
        lines.append(f"  allocations failed before that: {_times(earlier)}; --json has {which}")
    return lines


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"


def _left(run: Run, style: Style) -> list[Cell]:
    if not run["left_known"]:
        return [("left at the end: not known; devices were closed among the records that were lost", YELLOW)]
    left, lines = run["left"], _left_earlier(run, style)
    lines += map(_bold, wrap(f"left at the end: {_amounts(left)}{_doubt(run)}", style, "    ", ""))
    causes: dict[str, list[LeftRow]] = {}
    for allocation in left:
        causes.setdefault(allocation["cause"], []).append(allocation)
    for cause, allocations in sorted(causes.items(), key=lambda item: item[0] != "tensor"):
        if cause == "tensor":
            text, colour = f"tensors: {_amounts(allocations, 'buffer')}; never freed; largest:", YELLOW
        elif cause == "system":
            text, colour = f"the runtime itself: {_amounts(allocations)}; freed with the device", NONE
        else:
            text, colour = f"{cause}: {_amounts(allocations)}; clear_program_cache() frees them", NONE
        lines += [(line, colour) for line in wrap(text, style, "      ", "  ")]
        if cause == "tensor":
            lines += [(line, YELLOW) for line in _largest(allocations, "  ")]
    return lines


def _doubt(run: Run) -> str:
    """To stand beside a number that the agent's counters make uncertain."""
    return f" (uncertain: {counts_text(run['uncertain'])})" if run["uncertain"] else ""


def _added(allocation: AllocationRow) -> int:
    """The bytes that an allocation adds: none if it lies inside an L1 buffer, which is counted."""
    return 0 if allocation["shared"] else allocation["size"]


def _amounts(allocations: Sequence[AllocationRow], noun: str = "allocation") -> str:
    """What allocations sum up to, pool by pool."""
    rows = (
        (KIND_BY_LABEL[allocation["kind"]], tuple(allocation["chips"]), 1, _added(allocation))
        for allocation in allocations
    )
    return amounts_text(pool_amounts(rows), noun)


def _left_earlier(run: Run, style: Style) -> list[Cell]:
    if not run["left_earlier"]["tensors"]:
        return []
    amounts = amounts_text(run["left_earlier"]["pools"], "tensor")
    each = ", each with its bytes on one chip" if len(run["chips"]) > 1 else ""
    text = f"left when devices were closed before that: {amounts}{each}"
    return [(line, YELLOW) for line in wrap(text, style, "    ", "")]


def _largest(allocations: Sequence[AllocationRow], indent: str = "") -> list[str]:
    """A row for all that differ in nothing but their address: what leaks in a loop, what is on each chip.

    Sizes are those on one chip.
    """
    found: dict[tuple[object, ...], list[AllocationRow]] = {}
    for allocation in sorted(allocations, key=lambda allocation: allocation["since"]):
        source = allocation["pid"], allocation["source"]
        found.setdefault((source, allocation["kind"], _added(allocation), _made(allocation)), []).append(allocation)
    rows = [row for alike in found.values() for row in _same_on_each_chip(alike)]
    order = sorted(rows, key=lambda alike: -sum(_added(one) * len(one["chips"]) for one in alike))
    shown = order[:_LARGEST_SHOWN]
    wide = _columns_of_names([alike[0] for alike in shown])
    lines = [f"{indent}  {_line_of(alike, wide)}" for alike in shown]
    rest = [allocation for alike in order[_LARGEST_SHOWN:] for allocation in alike]
    if rest:
        lines.append(f"{indent}  and {_amounts(rest, 'more buffer')}")
    return lines


def _same_on_each_chip(alike: list[AllocationRow]) -> list[list[AllocationRow]]:
    """All of them if each chip has as many; otherwise those on the same chips together."""
    if len(set(_on_chips(alike).values())) == 1:
        return [alike]
    found: dict[tuple[str, ...], list[AllocationRow]] = {}
    for allocation in alike:
        found.setdefault(tuple(allocation["chips"]), []).append(allocation)
    return list(found.values())


def _on_chips(allocations: Sequence[AllocationRow]) -> Counter[str]:
    """How many of these allocations are on each chip."""
    return Counter(chip for allocation in allocations for chip in allocation["chips"])


def _line_of(alike: Sequence[AllocationRow], wide: int) -> str:
    """Several that are the same, as many on each of their chips."""
    chips, first = _on_chips(alike), alike[0]
    each, count = len(chips), next(iter(chips.values()))
    alone = count == 1 and len({allocation["address"] for allocation in alike}) == 1
    if alone:
        line = _line(first, wide)
    else:
        line = _row(count * first["size"], first["kind"], f"{count:,} x", _made(first, wide))
    return f"{line}  on each of {each} chips" if each > 1 else line


def _line(allocation: AllocationRow, wide: int) -> str:
    address = "" if allocation["kind"] in _WITHOUT_ADDRESS else f"{allocation['address']:#x}"
    return _row(allocation["size"], allocation["kind"], address, _made(allocation, wide))


def _row(size: int, kind: str, which: str, made: str) -> str:
    return f"{human(size):>10}  {_NAME_OF[kind].removesuffix('s'):<16} {which:<10} {made}"


def _made(allocation: AllocationRow, wide: int = 0) -> str:
    """What made an allocation: its name, as wide as others in the list, and its line."""
    name, line = _name(allocation), short_line(allocation["line"])
    return f"{name}{' ' * (wide - cells(name))}  {line}" if line else name


def _name(allocation: AllocationRow) -> str:
    """Its tag and its program."""
    program = f"  program {allocation['program']}" if allocation["program"] else ""
    return f"{allocation['tag'] or ''}{program}"


def _columns_of_names(allocations: Sequence[AllocationRow]) -> int:
    """How wide the names are in front of the lines; longer ones are not aligned."""
    widths = [cells(_name(one)) for one in allocations if one["line"]]
    return max((width for width in widths if width <= _NAME_COLUMNS), default=0)


def _warnings(run: Run, style: Style) -> list[Cell]:
    lines: list[Cell] = [(anomaly_line(run["anomalies"]), YELLOW if any(run["anomalies"].values()) else NONE)]
    texts = []
    if run["dropped"]:
        texts.append(f"{run['dropped']:,} records were overwritten before they could be read: peaks may be too low.")
    counted = [f"{name} {count}" for name, count in run["agent"].items() if count]
    if counted:
        texts.append(f"The agent counted: {', '.join(counted)}")
    for one in run["uncertain"]:
        text = f"uncertain: {counts_text([one])}: {REASONS[one['reason']]}"
        texts += wrap(text, style, "  ", "")
    texts += [f"The agent says: {line}" for trouble in run["trouble"] for line in trouble.splitlines()]
    for process in run["unseen"]:
        texts.append(
            f"pid {process['pid']} ({process['name']}) used a device through tt-metal and the agent saw nothing of it: "
            "its libraries are bound past LD_PRELOAD (RTLD_DEEPBIND, -Bsymbolic, a static build), or the agent does "
            "not know this wheel."
        )
    return [*lines, *((text, YELLOW) for text in texts)]
