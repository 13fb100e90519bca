# SPDX-License-Identifier: Apache-2.0
"""A run's report as text: peak and end per chip and kind, what made the peak, what was left, what was odd."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence

from ttmem.account.allocations import Allocation
from ttmem.account.call_sites import line_of, short, stack_of
from ttmem.account.entities import Chip
from ttmem.documents.common_text import anomaly_line
from ttmem.documents.explanation_text import headline
from ttmem.documents.snapshot import anomalies
from ttmem.model.kinds import KINDS, POOL_OF, Kind, Pool
from ttmem.model.printable import printable
from ttmem.model.uncertain_reasons import REASONS, counts_text
from ttmem.model.units import complete, human
from ttmem.run.result import RunResult, cause_of
from ttmem.show.breakdown_table import WORDS, rows
from ttmem.show.chip_table import percent
from ttmem.show.explain_text import block
from ttmem.show.text import cells, style_of, wrap

_SHOWN = 5
_MOST_ROWS = 8
_UNDER_NAME = " " * 24  # of a row
_SIZED = 4  # meshes whose sizes are spoken of
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
# What the runtime has on each chip for itself differs from chip to chip: a router for each link.
_OWN = tuple(kind for kind in KINDS if kind not in (Kind.FABRIC_KERNEL, Kind.DISPATCH_KERNEL))
_OVERLAP = (
    "That is more than there is: a mesh and each part of it have an allocator of their own, which gives out the same "
    "addresses. Two buffers in one place overwrite each other."
)
_OF_PROGRAMS = (Kind.CB, Kind.DFB, Kind.SCRATCHPAD, Kind.KERNEL)


def render(report: RunResult, by: str = "op") -> str:
    """The whole summary; ``by`` is what allocations at the peak are put together by."""
    lines = ["", _headline(report)]
    chips = [chip for chip in report.ledger.chips.values() if any(total.peak.value for total in chip.kinds)]
    if not chips:
        lines += ["", *_nothing(report)]
    for alike, figures in _alike(report, chips):
        lines += ["", *_heading(alike), *figures]
    if chips:
        lines += _breakdown(report, by)
        lines += _sizing(report)
        lines += ["", *_left(report)]
    lines += ["", *_odd(report)]
    lines = [*map(printable, lines), *_failed(report)]  # what explains a failure has colours, and is printable already
    return "\n".join(line.rstrip() for line in lines)


def _headline(report: RunResult) -> str:
    lost = f"{report.dropped:,} lost" if report.dropped else "none lost"
    share = "not audited" if report.completeness is None else f"{complete(report.completeness)} complete"
    if report.uncertain:
        shown = "" if report.completeness is None else f"{share}, "
        share = f"{shown}uncertain: {counts_text(report.uncertain)}"
    return (
        f"ttmem run: exit {report.ended.exit_code} after {report.ended.duration:.1f} s; "
        f"{report.events:,} records, {lost}; {share}"
    )


def _nothing(report: RunResult) -> list[str]:
    if report.ended.unseen or report.troubles:
        return ["Nothing was seen of the devices that were used."]
    return ["No process of this command was seen to open a device."]


def _alike(report: RunResult, chips: Sequence[Chip]) -> list[tuple[list[Chip], list[str]]]:
    """The figures of each chip; those of a mesh are in lock step, and what is the same is told once."""
    found: dict[tuple[str, ...], list[Chip]] = {}
    for chip in chips:
        found.setdefault((_board(chip), *_chip(report, [chip], _OWN), *_peak(report, chip)), []).append(chip)
    return [(alike, [*_chip(report, alike, KINDS), *_peak(report, alike[0])]) for alike in found.values()]


def _heading(chips: Sequence[Chip]) -> list[str]:
    if len(chips) == 1:
        return [f"chip {chips[0].id}  {_board(chips[0])}"]
    chip_ids = ", ".join(chip.id for chip in chips)
    return wrap(f"{len(chips)} chips  {_board(chips[0])}, the same on each: {chip_ids}", style_of(sys.stderr), "  ", "")


def _board(chip: Chip) -> str:
    return chip.info.board or (chip.geometry.arch.label if chip.geometry else "")


def _chip(report: RunResult, chips: Sequence[Chip], kinds: Sequence[Kind]) -> list[str]:
    """Chips that had the same of every kind but of the runtime's own; of that those count that had most."""
    lines = [f"  {'':22} {'peak':>11} {'at the end':>11}"]
    ends = [[0] * len(KINDS) for _ in chips]
    places = {id(chip): number for number, chip in enumerate(chips)}
    for allocation in report.left:
        if id(allocation.holding.chip) in places:
            ends[places[id(allocation.holding.chip)]][allocation.kind] += allocation.counted
    for kind in kinds:
        peaks = [chip.kinds[kind].peak.value for chip in chips]
        if max(peaks):
            note = "of all cached programs, which take turns" if kind in _OF_PROGRAMS else ""
            if min(peaks) < max(peaks):
                note = f"on the chip with most, {human(min(peaks))} on the one with least"
            name = _NAMES.get(kind, kind.label)
            lines.append(f"  {name:22} {human(max(peaks)):>11} {human(max(end[kind] for end in ends)):>11}   {note}")
    chip = chips[0]
    if chip.geometry is not None:
        for pool, name, capacity in (
            (Pool.DRAM, "DRAM taken", chip.geometry.dram_capacity),
            (Pool.L1, "L1 taken by buffers", chip.geometry.cores * (chip.geometry.l1_size - chip.geometry.l1_base)),
        ):
            taken = chip.pools[pool].reserved_peak
            end = sum(t.taken or 0 for t in report.left if t.holding.chip is chip and POOL_OF[t.kind] is pool)
            share = f"{_part(taken, capacity)} of {human(capacity)}"
            lines.append(f"  {name:22} {human(taken):>11} {human(end):>11}   peak is {share}")
            if taken > capacity:
                lines += wrap(_OVERLAP, style_of(sys.stderr), "    ", "    ")
    return lines


def _part(size: int, capacity: int) -> str:
    part = size / capacity if capacity else 0.0
    if 0 < part < 1e-6:
        return "under 0.0001 %"
    return f"{100 * part:.2g} %" if part < 0.0995 else f"{percent(part)[:-1]} %"


def _peak(report: RunResult, chip: Chip) -> list[str]:
    """What the peak of each pool's buffers was made of; they rarely come at the same time."""
    lines = []
    for kind in (Kind.DRAM, Kind.L1):
        peak = chip.kinds[kind].peak
        if peak.value:
            live = [t for t in report.ledger.allocations() if t.kind is kind and t.holding.chip is chip]
            after = max(0.0, peak.time - report.started_at)
            lines.append(f"  at the peak of {_NAMES[kind]}, {human(peak.value)} after {after:.2f} s, the largest were:")
            lines += [f"    {_line(allocation)}" for allocation in peak.largest(live, _SHOWN)]
    return lines


def _breakdown(report: RunResult, by: str) -> list[str]:
    """Who made what was live at the peak of all buffers, over all chips."""
    found = report.breakdown(by)
    if not found or all(row[by] is None for row in found):
        return []
    total = sum(row["bytes"] for row in found)
    after = max(0.0, report.peak_time - report.started_at) if report.peak_time else 0.0
    style = style_of(sys.stderr)
    chips = len({id(allocation.holding.chip) for allocation in report.at_peak})
    where = f" on {chips} chips" if chips > 1 else ""
    lines = [
        "",
        f"all that was live{where} at the peak of the buffers, {human(total)} after {after:.2f} s, by {WORDS[by]}:",
    ]
    for line in rows(found[:_MOST_ROWS], by):
        name, _, kinds = line.rpartition("   ")
        if cells(line) + 2 <= style.width or not name.strip():
            lines.append(f"  {line}")
        else:
            lines += [f"  {name}", *wrap(kinds, style, _UNDER_NAME)]
    rest = found[_MOST_ROWS:]
    if rest:
        lines.append(f"  {human(sum(row['bytes'] for row in rest)):>10}  in {len(rest):,} more")
    return lines


def _sizing(report: RunResult) -> list[str]:
    """Which sizes would have done, and what came closest to the wall."""
    lines: list[str] = []
    for pid, chips, advice in report.sizing[:_SIZED]:
        several = f" and {len(chips) - 1} more" if len(chips) > 1 else ""
        lines += ["", f"sizes, pid {pid} on chip {chips[0].id}{several}{_doubt(report)}:"]
        for line in advice:
            lines += wrap(line.text, style_of(sys.stderr), "    ", "  ")
    if len(report.sizing) > _SIZED:
        lines.append(f"  and {len(report.sizing) - _SIZED:,} more in --json")
    return lines


def _failed(report: RunResult) -> list[str]:
    """The last failure, explained, if the command did not end well; else that there were some."""
    if not report.failures:
        return []
    last = report.failures[-1]
    before = max(0.0, report.ended_at - last.time)
    if not report.ended.exit_code:
        times, which = _times(report.failed), "" if report.failed == 1 else "The last: "
        text = f"Memory was refused {times}, and the command went on; --json has why. {which}{headline(last.verdict)}"
        return ["", *wrap(printable(text), style_of(sys.stderr))]
    place = f"Memory was refused, {before:.1f} s before the end"
    lines = ["", *block(place, last.verdict, style_of(sys.stderr))]
    earlier, kept = report.failed - 1, len(report.failures) - 1
    if earlier:
        which = f"the last {kept}" if earlier > kept else "them"
        lines.append(f"  refused before that: {_times(earlier)}; --json has {which}")
    return lines


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"


def _left(report: RunResult) -> list[str]:
    if not report.left_known:
        return ["left at the end: not known; devices were closed among the records that were lost"]
    lines = _left_earlier(report)
    if not report.left:
        return [*lines, f"left at the end: nothing{_doubt(report)}"]
    size = human(sum(t.counted for t in report.left))
    lines.append(f"left at the end: {size} in {_count(report.left)}{_doubt(report)}")
    causes: dict[str, list[Allocation]] = {}
    for allocation in report.left:
        causes.setdefault(cause_of(allocation), []).append(allocation)
    for cause, allocations in sorted(causes.items(), key=lambda item: item[0] != "tensor"):
        size = human(sum(t.counted for t in allocations))
        if cause == "tensor":
            count = f"{len(allocations):,} {'buffer' if len(allocations) == 1 else 'buffers'}"
            lines.append(f"  tensors: {size} in {count} that nobody freed, largest:")
            lines += _largest(allocations, "  ")
        elif cause == "system":
            lines.append(f"  the runtime itself: {size} in {_count(allocations)}, which go with the device")
        else:
            lines.append(f"  {cause}: {size} in {_count(allocations)}; clear_program_cache() gives them back")
    return lines


def _doubt(report: RunResult) -> str:
    """To stand beside a number that the agent's counters make uncertain."""
    return f" (uncertain: {counts_text(report.uncertain)})" if report.uncertain else ""


def _count(allocations: Sequence[Allocation]) -> str:
    return f"{len(allocations):,} allocation{'' if len(allocations) == 1 else 's'}"


def _left_earlier(report: RunResult) -> list[str]:
    count, size = report.earlier
    return [f"left when devices were closed before that: {count:,} tensors, {human(size)}"] if count else []


def _largest(allocations: Sequence[Allocation], indent: str = "") -> list[str]:
    """Those that are the same but for their address are told once: what leaks in a loop, what is on each chip."""
    found: dict[tuple[object, ...], list[Allocation]] = {}
    for allocation in sorted(allocations, key=lambda allocation: allocation.born):
        found.setdefault(
            (allocation.holding.source, allocation.kind, allocation.counted, _made(allocation)), []
        ).append(allocation)
    order = sorted(found.values(), key=lambda alike: -sum(allocation.counted for allocation in alike))
    lines = [f"{indent}  {_line_of(alike)}" for alike in order[:_SHOWN]]
    rest = [allocation for alike in order[_SHOWN:] for allocation in alike]
    if rest:
        lines.append(f"{indent}  and {len(rest):,} more, {human(sum(t.counted for t in rest))}")
    return lines


def _line_of(alike: Sequence[Allocation]) -> str:
    """Several that are the same; on each chip of a mesh, if there are as many on each."""
    chips = Counter(id(allocation.holding.chip) for allocation in alike)
    each = len(chips) if len(set(chips.values())) == 1 else 1
    count, first = len(alike) // each, alike[0]
    alone = count == 1 and len({allocation.address for allocation in alike}) == 1
    line = _line(first) if alone else _row(count * first.size, first.kind, f"{count:,} x", _made(first))
    return f"{line}  on each of {each} chips" if each > 1 else line


def _line(allocation: Allocation) -> str:
    place = (
        "" if allocation.kind in (Kind.KERNEL, Kind.FABRIC_KERNEL, Kind.DISPATCH_KERNEL) else f"{allocation.address:#x}"
    )
    return _row(allocation.size, allocation.kind, place, _made(allocation))


def _row(size: int, kind: Kind, place: str, made: str) -> str:
    return f"{human(size):>10}  {_NAMES.get(kind, kind.label).removesuffix('s'):<16} {place:<10} {made}"


def _made(allocation: Allocation) -> str:
    tag = (allocation.extra.tag if allocation.extra is not None else None) or ""
    program = f"  program {allocation.program}" if allocation.program else ""
    made = short(line_of(stack_of(allocation)))
    return f"{tag}{program}" + (f"  {made}" if made else "")


def _odd(report: RunResult) -> list[str]:
    lines = [anomaly_line(anomalies(report.ledger.anomalies))]
    if report.dropped:
        lines.append(f"{report.dropped:,} records were overwritten before they could be read: peaks may be too low.")
    odd = [f"{name} {count}" for name, count in report.counters.items() if count]
    if odd:
        lines.append(f"The agent counted: {', '.join(odd)}")
    for one in report.uncertain:
        text = f"uncertain: {counts_text([one])}: {REASONS[one['reason']]}"
        lines += wrap(text, style_of(sys.stderr), "  ", "")
    lines += [f"The agent says: {line}" for trouble in report.troubles for line in trouble.splitlines()]
    for pid, name in sorted(report.ended.unseen.items()):
        lines.append(
            f"pid {pid} ({name}) used a device through tt-metal and the agent saw nothing of it: its libraries are "
            "bound past LD_PRELOAD (RTLD_DEEPBIND, -Bsymbolic, a static build), or the agent does not know this wheel."
        )
    return lines
