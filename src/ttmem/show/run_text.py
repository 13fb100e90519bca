# SPDX-License-Identifier: Apache-2.0
"""The document of a run as text: peak and end of each chip and kind, what made the peak, what was left, warnings."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ttmem.documents.common_text import anomaly_line, chip_numbers, chip_title, short_line
from ttmem.model.kinds import KINDS, Kind
from ttmem.model.printable import printable
from ttmem.model.uncertain_reasons import REASONS, counts_text
from ttmem.model.units import complete, human
from ttmem.show.breakdown_table import WORDS, rows
from ttmem.show.chip_table import percent
from ttmem.show.explain_text import block
from ttmem.show.text import cells, style_of, wrap

if TYPE_CHECKING:
    from typing import Literal

    from ttmem.model.schema import AllocationRow, KindPeak, LeftRow, MainPool, PeakRow, ReservedPeak, Run, RunChip

    By = Literal["op", "line", "shape", "kind", "program"]

_LARGEST_SHOWN = 5
_BREAKDOWN_ROWS = 8
_MESHES_SHOWN = 4  # with their sizes
_UNDER_NAME = " " * 24  # of a row
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
_POOLS: tuple[tuple[MainPool, str], ...] = (("dram", "DRAM taken"), ("l1", "L1 taken by buffers"))
_OVERLAP = (
    "That is more than there is: a mesh and each part of it have an allocator of their own, which gives out the same "
    "addresses. Two buffers in one place overwrite each other."
)


def render(run: Run, by: By = "op") -> str:
    """The text of a document with schema "ttmem.run/1"; ``by`` names the breakdown of the peak to show."""
    lines = ["", _headline(run)]
    if not run["chips"]:
        lines += ["", *_nothing(run)]
    for alike, figures in _alike(run):
        lines += ["", *_heading(run, alike), *figures]
    if run["chips"]:
        lines += _breakdown(run, by)
        lines += _sizing(run)
        lines += ["", *_left(run)]
    lines += ["", *_warnings(run)]
    lines = [*map(printable, lines), *_failed(run)]  # what explains a failure has colours, and is printable already
    return "\n".join(line.rstrip() for line in lines)


def _headline(run: Run) -> str:
    lost = f"{run['dropped']:,} lost" if run["dropped"] else "none lost"
    share = "not audited" if run["completeness"] is None else f"{complete(run['completeness'])} complete"
    if run["uncertain"]:
        shown = "" if run["completeness"] is None else f"{share}, "
        share = f"{shown}uncertain: {counts_text(run['uncertain'])}"
    return (
        f"ttmem run: exit {run['exit_code']} after {run['duration_s']:.1f} s; "
        f"{run['events']:,} records, {lost}; {share}"
    )


def _nothing(run: Run) -> list[str]:
    if run["unseen"] or run["trouble"]:
        return ["Nothing was seen of the devices that were used."]
    return ["No process of this command was seen to open a device."]


def _alike(run: Run) -> list[tuple[list[RunChip], list[str]]]:
    """Chips with the same figures, and these figures: the chips of a mesh are in lock step and shown once."""
    peaks = {(peak["chip"], peak["kind"]): peak for peak in run["peaks"] if "kind" in peak}
    largest = {chip["chip"]: _at_peaks(run, chip, peaks) for chip in run["chips"]}
    own = [label for label in _LABELS if label not in _OF_RUNTIME]
    found: dict[tuple[str, ...], list[RunChip]] = {}
    for chip in run["chips"]:
        found.setdefault((_board(chip), *_figures([chip], own), *largest[chip["chip"]]), []).append(chip)
    return [(alike, [*_figures(alike, _LABELS), *largest[alike[0]["chip"]]]) for alike in found.values()]


def _heading(run: Run, chips: Sequence[RunChip]) -> list[str]:
    titles = [_chip_title(run, chip["chip"]) for chip in chips]
    text = titles[0] if len(chips) == 1 else f"{len(chips)} chips, the same on each: {', '.join(titles)}"
    return wrap(text, style_of(sys.stderr), "  ", "")


def _chip_title(run: Run, chip_id: str) -> str:
    boards = {chip["chip"]: chip["board"] or chip["arch"] for chip in run["chips"]}
    return chip_title(chip_id, chip_numbers(run["final"]).get(chip_id), boards.get(chip_id))


def _board(chip: RunChip) -> str:
    return chip["board"] or chip["arch"] or ""


def _figures(chips: Sequence[RunChip], kinds: Sequence[str]) -> list[str]:
    """The table of chips that differ in nothing but what the runtime has for itself; of that the highest is shown."""
    lines = [f"  {'':22} {'peak':>11} {'at the end':>11}"]
    none: KindPeak = {"peak": 0, "end": 0}
    for kind in kinds:
        found = [chip["kinds"].get(kind, none) for chip in chips]
        peaks = [figure["peak"] for figure in found]
        if max(peaks):
            note = "of all cached programs, which take turns" if kind in _OF_PROGRAMS else ""
            if min(peaks) < max(peaks):
                note = f"on the chip with most, {human(min(peaks))} on the one with least"
            end = human(max(figure["end"] for figure in found))
            lines.append(f"  {_NAME_OF[kind]:22} {human(max(peaks)):>11} {end:>11}   {note}")
    for pool, name in _POOLS:
        lines += _taken(chips[0][pool], name)
    return lines


def _taken(figure: ReservedPeak, name: str) -> list[str]:
    capacity, taken = figure["buffer_capacity"], figure["reserved_peak"]
    if capacity is None:
        return []
    share = f"{_part(taken, capacity)} of {human(capacity)}"
    line = f"  {name:22} {human(taken):>11} {human(figure['reserved_end']):>11}   peak is {share}"
    return [line, *(wrap(_OVERLAP, style_of(sys.stderr), "    ", "    ") if taken > capacity else [])]


def _part(size: int, capacity: int) -> str:
    part = size / capacity if capacity else 0.0
    if 0 < part < 1e-6:
        return "under 0.0001 %"
    return f"{100 * part:.2g} %" if part < 0.0995 else f"{percent(part)[:-1]} %"


def _at_peaks(run: Run, chip: RunChip, peaks: dict[tuple[str, str], PeakRow]) -> list[str]:
    """What the peak of each pool's buffers was made of; they rarely come at the same time."""
    lines = []
    for kind in (Kind.DRAM.label, Kind.L1.label):
        peak = peaks.get((chip["chip"], kind))
        if peak is not None:
            after, size = _after(run, peak["time"]), human(peak["bytes"])
            lines.append(f"  at the peak of {_NAME_OF[kind]}, {size} after {after:.2f} s, the largest were:")
            lines += [f"    {_line(allocation)}" for allocation in peak["largest"][:_LARGEST_SHOWN]]
    return lines


def _after(run: Run, time: float | None) -> float:
    """Seconds from the start of the run to a moment of it."""
    return max(0.0, time - run["started"]) if time is not None else 0.0


def _breakdown(run: Run, by: By) -> list[str]:
    """Who made what was live at the peak of all buffers, over all chips."""
    found = run["breakdown"][by]
    if not found or all(row[by] is None for row in found):
        return []
    total = human(sum(row["bytes"] for row in found))
    style = style_of(sys.stderr)
    chips = len(run["peak"]["chips"])
    where = f" on {chips} chips" if chips > 1 else ""
    after = _after(run, run["peak_time"])
    lines = ["", f"all that was live{where} at the peak of the buffers, {total} after {after:.2f} s, by {WORDS[by]}:"]
    for line in rows(found[:_BREAKDOWN_ROWS], by):
        name, _, kinds = line.rpartition("   ")
        if cells(line) + 2 <= style.width or not name.strip():
            lines.append(f"  {line}")
        else:
            lines += [f"  {name}", *wrap(kinds, style, _UNDER_NAME)]
    rest = found[_BREAKDOWN_ROWS:]
    if rest:
        lines.append(f"  {human(sum(row['bytes'] for row in rest)):>10}  in {len(rest):,} more")
    return lines


def _sizing(run: Run) -> list[str]:
    """Which sizes would have been enough, and how close programs came to the L1 buffers."""
    lines: list[str] = []
    for advice in run["sizing"][:_MESHES_SHOWN]:
        chips = advice["chips"]
        several = f" and {len(chips) - 1} more" if len(chips) > 1 else ""
        lines += ["", f"sizes, pid {advice['pid']} on {_chip_title(run, chips[0])}{several}{_doubt(run)}:"]
        for line in advice["lines"]:
            lines += wrap(line["text"], style_of(sys.stderr), "    ", "  ")
    if len(run["sizing"]) > _MESHES_SHOWN:
        lines.append(f"  and {len(run['sizing']) - _MESHES_SHOWN:,} more in --json")
    return lines


def _failed(run: Run) -> list[str]:
    """The last failure, explained, if the command did not end well; else that there were some."""
    if not run["failures"]:
        return []
    last = run["failures"][-1]
    before = max(0.0, run["ended"] - last["time"])
    if not run["exit_code"]:
        times, which = _times(run["failed"]), "" if run["failed"] == 1 else "The last: "
        headline = last["verdict"]["headline"]
        text = f"An allocation failed {times}, and the command went on; --json has why. {which}{headline}"
        return ["", *wrap(printable(text), style_of(sys.stderr))]
    lines = ["", *block(f"An allocation failed, {before:.1f} s before the end", last["verdict"], style_of(sys.stderr))]
    earlier, kept = run["failed"] - 1, len(run["failures"]) - 1
    if earlier:
        which = f"the last {kept}" if earlier > kept else "them"
        lines.append(f"  refused before that: {_times(earlier)}; --json has {which}")
    return lines


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"


def _left(run: Run) -> list[str]:
    if not run["left_known"]:
        return ["left at the end: not known; devices were closed among the records that were lost"]
    left, lines = run["left"], _left_earlier(run)
    if not left:
        return [*lines, f"left at the end: nothing{_doubt(run)}"]
    lines.append(f"left at the end: {_size(left)} in {_count(left)}{_doubt(run)}")
    causes: dict[str, list[LeftRow]] = {}
    for allocation in left:
        causes.setdefault(allocation["cause"], []).append(allocation)
    for cause, allocations in sorted(causes.items(), key=lambda item: item[0] != "tensor"):
        size = _size(allocations)
        if cause == "tensor":
            count = f"{len(allocations):,} {'buffer' if len(allocations) == 1 else 'buffers'}"
            lines.append(f"  tensors: {size} in {count} that nobody freed, largest:")
            lines += _largest(allocations, "  ")
        elif cause == "system":
            lines.append(f"  the runtime itself: {size} in {_count(allocations)}, which go with the device")
        else:
            lines.append(f"  {cause}: {size} in {_count(allocations)}; clear_program_cache() gives them back")
    return lines


def _doubt(run: Run) -> str:
    """To stand beside a number that the agent's counters make uncertain."""
    return f" (uncertain: {counts_text(run['uncertain'])})" if run["uncertain"] else ""


def _added(allocation: AllocationRow) -> int:
    """The bytes that an allocation adds: none if it lies inside an L1 buffer, which is counted."""
    return 0 if allocation["shared"] else allocation["size"]


def _size(allocations: Sequence[AllocationRow]) -> str:
    return human(sum(map(_added, allocations)))


def _count(allocations: Sequence[AllocationRow]) -> str:
    return f"{len(allocations):,} allocation{'' if len(allocations) == 1 else 's'}"


def _left_earlier(run: Run) -> list[str]:
    count, size = run["left_earlier"]["tensors"], run["left_earlier"]["bytes"]
    return [f"left when devices were closed before that: {count:,} tensors, {human(size)}"] if count else []


def _largest(allocations: Sequence[AllocationRow], indent: str = "") -> list[str]:
    """A row for all that differ in nothing but their address: what leaks in a loop, what is on each chip."""
    found: dict[tuple[object, ...], list[AllocationRow]] = {}
    for allocation in sorted(allocations, key=lambda allocation: allocation["since"]):
        source = allocation["pid"], allocation["source"]
        found.setdefault((source, allocation["kind"], _added(allocation), _made(allocation)), []).append(allocation)
    order = sorted(found.values(), key=lambda alike: -sum(map(_added, alike)))
    lines = [f"{indent}  {_line_of(alike)}" for alike in order[:_LARGEST_SHOWN]]
    rest = [allocation for alike in order[_LARGEST_SHOWN:] for allocation in alike]
    if rest:
        lines.append(f"{indent}  and {len(rest):,} more, {_size(rest)}")
    return lines


def _line_of(alike: Sequence[AllocationRow]) -> str:
    """Several that are the same; on each chip of a mesh, if there are as many on each."""
    chips = Counter(allocation["chip"] for allocation in alike)
    each = len(chips) if len(set(chips.values())) == 1 else 1
    count, first = len(alike) // each, alike[0]
    alone = count == 1 and len({allocation["address"] for allocation in alike}) == 1
    line = _line(first) if alone else _row(count * first["size"], first["kind"], f"{count:,} x", _made(first))
    return f"{line}  on each of {each} chips" if each > 1 else line


def _line(allocation: AllocationRow) -> str:
    address = "" if allocation["kind"] in _WITHOUT_ADDRESS else f"{allocation['address']:#x}"
    return _row(allocation["size"], allocation["kind"], address, _made(allocation))


def _row(size: int, kind: str, which: str, made: str) -> str:
    return f"{human(size):>10}  {_NAME_OF[kind].removesuffix('s'):<16} {which:<10} {made}"


def _made(allocation: AllocationRow) -> str:
    """What made an allocation: its tag, its program, its line."""
    program = f"  program {allocation['program']}" if allocation["program"] else ""
    line = short_line(allocation["line"])
    return f"{allocation['tag'] or ''}{program}" + (f"  {line}" if line else "")


def _warnings(run: Run) -> list[str]:
    lines = [anomaly_line(run["anomalies"])]
    if run["dropped"]:
        lines.append(f"{run['dropped']:,} records were overwritten before they could be read: peaks may be too low.")
    counted = [f"{name} {count}" for name, count in run["agent"].items() if count]
    if counted:
        lines.append(f"The agent counted: {', '.join(counted)}")
    for one in run["uncertain"]:
        text = f"uncertain: {counts_text([one])}: {REASONS[one['reason']]}"
        lines += wrap(text, style_of(sys.stderr), "  ", "")
    lines += [f"The agent says: {line}" for trouble in run["trouble"] for line in trouble.splitlines()]
    for process in run["unseen"]:
        lines.append(
            f"pid {process['pid']} ({process['name']}) used a device through tt-metal and the agent saw nothing of it: "
            "its libraries are bound past LD_PRELOAD (RTLD_DEEPBIND, -Bsymbolic, a static build), or the agent does "
            "not know this wheel."
        )
    return lines
