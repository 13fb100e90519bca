# SPDX-License-Identifier: Apache-2.0
"""The memory of a chip by kind, as text; chips with the same figures are shown once."""

from __future__ import annotations

from ttmem.model.uncertain_reasons import counts_text
from ttmem.model.units import complete, human, peak_text
from ttmem.show.chip_table import Names, l1_buffers, level, percent, share
from ttmem.show.text import BOLD, DIM, NONE, Style, cells, wrap

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    from ttmem.model.schema import ChipRow, DramRow, L1Row, MemoryRow, ReporterRow, Snapshot
    from ttmem.show.chip_table import UsedAndReserved

    ProgramKind = Literal["cb", "dfb", "scratchpad", "kernel"]

_BAR_COLUMNS = 10
_UNSEEN_SHOWN = 3  # processes to name of which something is not known
_BREAKDOWNS_SHOWN = 4  # breakdowns that differ; of more than that the fullest are shown
KIND_WORDS = {
    "dram": "DRAM buffers",
    "l1": "L1 buffers",
    "host": "host memory",
    "l1_small": "L1_SMALL",
    "trace": "traces",
    "cb": "circular buffers",
    "dfb": "dataflow buffers",
    "scratchpad": "scratchpads",
    "kernel": "kernels",
    "fabric_kernel": "fabric kernels",
    "dispatch_kernel": "dispatch kernels",
    "firmware": "firmware",
}


def breakdowns(snapshot: Snapshot, names: Names, style: Style, in_full: bool) -> list[str]:
    """All breakdowns; chips with the same figures, such as replicas of a model, share one."""
    counted: dict[str, int] = {}  # by chip, the bytes that are only in tt-metal's own counters
    for process in snapshot["processes"]:
        for found in process["chips"] if process["state"] == "untracked" else ():
            if found.get("source") == "shm":
                counted[found["chip"]] = counted.get(found["chip"], 0) + sum(found["kinds"].values())
    groups: dict[tuple[str, ...], list[ChipRow]] = {}
    for chip in snapshot["chips"]:
        groups.setdefault(tuple(_breakdown(chip, counted.get(chip["chip"]), style)), []).append(chip)
    shown = [(text, chips) for text, chips in groups.items() if text]
    left_out = 0
    if len(shown) > _BREAKDOWNS_SHOWN and not in_full:
        shown.sort(key=lambda group: -max(_fullness(chip) for chip in group[1]))
        left_out = sum(len(chips) for _, chips in shown[_BREAKDOWNS_SHOWN:])
        shown = sorted(shown[:_BREAKDOWNS_SHOWN], key=lambda group: names.order(group[1][0]["chip"]))
    lines: list[str] = []
    for text, chips in shown:
        lines += ["", *_title(chips, names, style), *text]
    if left_out:
        lines += ["", *wrap(f"{_less_full(left_out)} not shown here; `-d CHIP` shows one.", style)]
    return lines


def _less_full(count: int) -> str:
    return "1 chip with less in use is" if count == 1 else f"{count} chips with less in use are"


def _fullness(chip: ChipRow) -> float:
    dram, l1 = chip["memory"]["dram"], chip["memory"]["l1"]
    return max(share(level(dram), dram["capacity"]) or 0.0, share(l1["at_once"], l1["capacity"]) or 0.0)


def _title(chips: list[ChipRow], names: Names, style: Style) -> list[str]:
    text = names.group_title([chip["chip"] for chip in chips])
    if len(chips) == 1 and chips[0]["identity"] != "known":
        text += ", a device number of a process that did not report its chip"
    return [style.paint(line, BOLD) for line in wrap(text, style)]


class _Rows:
    """The lines of one breakdown: name, bar, amount and notes."""

    def __init__(self, style: Style) -> None:
        self._style = style
        self.lines: list[str] = []

    def part(self, name: str, size: int | None, capacity: int | None, note: str = "", colour: str = DIM) -> None:
        """Add a line, unless the amount is unknown or 0."""
        if size:
            self.add(name, size, capacity, note, colour)

    def add(self, name: str, size: int | None, capacity: int | None, note: str = "", colour: str = NONE) -> None:
        style = self._style
        over = size is not None and capacity is not None and size > capacity
        part = None if over else share(size, capacity)
        bar, warning = style.bar(part, _BAR_COLUMNS)
        bar = f"[{style.paint(bar, warning)}]" if bar else " " * (_BAR_COLUMNS + 2)
        of_size = f" / {human(capacity):<9}" if style.width >= 80 and part is not None else " " * 12
        of_size = of_size if style.width >= 80 else ""
        amount = f"{human(size):>10}{of_size} {percent(part) if part is not None else '':>4}"
        line = f"  {name:<17} {bar} {amount}"
        width = 2 + 17 + 1 + _BAR_COLUMNS + 2 + 1 + cells(amount)
        if not note:
            self.lines.append(line)
        elif width + 2 + cells(note) <= style.width:
            self.lines.append(f"{line}  {style.paint(note, DIM)}")
        else:
            self.lines.append(line)
            self.say(note, "      ")

    def say(self, text: str, indent: str = "  ") -> None:
        self.lines += [self._style.paint(line, DIM) for line in wrap(text, self._style, indent)]


def _breakdown(chip: ChipRow, counted: int | None, style: Style) -> list[str]:
    """The breakdown of a chip; empty if nothing is known."""
    memory = chip["memory"]
    dram, l1, system = memory["dram"], memory["l1"], memory["system"]
    if dram["used"] is None and l1["used"] is None and memory["host"]["used"] is None:
        return []
    rows = _Rows(style)
    size, core = dram["capacity"], l1["capacity"]
    if dram["trace"]["used"]:
        _traces(rows, dram, size)
    rows.add("DRAM total", level(dram), size, _of_dram(dram, style))
    parts, region, buffers = l1["at_once_parts"], l1["small"]["region"], l1_buffers(l1)
    rows.part("L1 buffers", level(buffers), core, ", ".join([*_asked(buffers, l1), *_of_buffers(l1)]))
    small: UsedAndReserved = {"used": l1["small"]["used"], "reserved": parts["l1_small"]}
    aside = [f"in a region of {human(region)}"] if region else []
    rows.part("L1_SMALL", level(small), core, ", ".join([*aside, *_asked(small, l1["small"])]))
    for kind, (held, resident) in _programs(l1).items():
        _shared(rows, KIND_WORDS[kind], held, resident, parts[kind], core)
    rows.part("firmware", l1["firmware"], core)
    rows.add("L1 total", l1["at_once"], core, _of_l1(l1, style))
    _reporter(rows, memory["reporter"], core)
    rows.part("fabric kernels", system["fabric_kernels"], None, "on ethernet cores, outside the grid")
    rows.part("dispatch kernels", system["dispatch_kernels"], None, "on dispatch cores, outside the grid")
    rows.part("host memory", memory["host"]["used"], None)
    rows.say(_known(memory, counted))
    return rows.lines


def _traces(rows: _Rows, dram: DramRow, size: int | None) -> None:
    """The parts of the total, reserved or requested like the total itself."""
    trace = dram["trace"]
    measure: Literal["used", "reserved"] = "used" if dram["reserved"] is None else "reserved"
    rows.part("DRAM buffers", max(0, (dram[measure] or 0) - (trace[measure] or 0)), size)
    rows.part("traces", trace[measure], size, f"in a region of {human(trace['region'])}" if trace["region"] else "")


def _programs(l1: L1Row) -> dict[ProgramKind, tuple[int | None, int | None]]:
    """By kind, the bytes of all cached programs, and the resident part."""
    return {
        "cb": (l1["cb"]["held"], l1["cb"]["resident"]),
        "dfb": (l1["dfb"]["held"], l1["dfb"]["resident"]),
        "scratchpad": (l1["scratchpad"], l1["scratchpad_resident"]),
        "kernel": (l1["kernels"], l1["kernels_resident"]),
    }


def _shared(
    rows: _Rows, name: str, held: int | None, resident: int | None, at_once: int | None, capacity: int | None
) -> None:
    """A kind of cached programs: the bar shows the resident part, if known.

    The rest belongs to programs that are only cached.
    """
    if not held:
        return
    size = held if at_once is None else at_once
    if resident is None and size == held:
        note = _cached(held, capacity) or "of all cached programs; the part in L1 now is not known"
    elif size == held:
        note = "in L1 now"
    else:
        known = "in L1 now" if resident is not None else "in L1 now, as far as known"
        note = f"{known}, {human(held)} in all cached programs"
    rows.add(name, size, capacity, note)


def _cached(size: int | None, capacity: int | None) -> str:
    over = size is not None and capacity is not None and size > capacity
    return "of all cached programs, which use L1 in turn" if over else ""


def _asked(buffers: UsedAndReserved, pool: UsedAndReserved) -> list[str]:
    """The requested bytes, if they differ: a tile in one bank takes the same space in all banks.

    Reserved bytes may be known for only some processes.
    """
    if human(buffers["reserved"]) in (human(None), human(buffers["used"])):
        return []
    known = "" if pool["reserved"] is not None else "as far as that is known "
    return [f"{known}for {human(buffers['used'])} requested"]


def _peak(peak: int, at_most: int | None, now: int | None, style: Style) -> str:
    """The peak; a peak of requested bytes may be less than what is reserved now."""
    less = now is not None and peak < now and human(peak) != human(now)
    return f"peak {peak_text(human(peak), at_most, ascii=style.ascii)}{' requested' if less else ''}"


def _of_dram(dram: DramRow, style: Style) -> str:
    # With nothing allocated, what is reserved is not known, but its peak may be.
    taken = dram["reserved_peak"] if dram["reserved"] is not None or not dram["used"] else None
    peak, at_most = (dram["peak"], dram["peak_at_most"]) if taken is None else (taken, None)
    parts = [] if peak is None else [_peak(peak, at_most, level(dram), style)]
    return ", ".join([*_asked(dram, dram), *parts, *_sizes(dram)])


def _of_l1(l1: L1Row, style: Style) -> str:
    """The notes of L1; cached programs use L1 in turn, so their sum may exceed the capacity.

    Only buffers have a peak: which programs were resident together in the past is not part of a snapshot.
    """
    parts, taken = l1["at_once_parts"], l1["reserved_peak"]
    peak, at_most = (l1["peak"], l1["peak_at_most"]) if taken is None else (taken, None)
    held = [(size, parts[kind]) for kind, (size, _) in _programs(l1).items()]
    absent = sum(size - now for size, now in held if size is not None and now is not None)
    notes = []
    if absent > 0 and l1["at_once"] is not None:
        notes.append(f"{human(l1['at_once'] + absent)} with all cached programs")
    if peak and (taken is None or not parts["l1"]):  # else the line of buffers has the peak
        buffers = (parts["l1"] or 0) + (parts["l1_small"] or 0)
        notes.append(f"L1 buffer {_peak(peak, at_most, buffers, style)}")
    return ", ".join([*notes, *_sizes(l1)])


def _of_buffers(l1: L1Row) -> list[str]:
    also = " with L1_SMALL" if l1["small"]["peak"] else ""
    notes = [] if l1["reserved_peak"] is None else [f"peak {human(l1['reserved_peak'])}{also}"]
    if l1["largest_free"] is None and l1["bank_free"] is not None:
        notes.append(f"{human(l1['bank_free'])} free in each bank")
    return notes


def _sizes(pool: DramRow | L1Row) -> list[str]:
    notes = []
    if pool["largest_free"] is not None:
        notes.append(f"allocator's largest free block {human(pool['largest_free'])} in a bank")
    if pool["capacity"] is None:
        notes.append("chip size not known")
    elif pool["capacity_basis"] == "table":
        notes.append("size from the table of boards")
    return notes


def _reporter(rows: _Rows, reported: ReporterRow, capacity: int | None) -> None:
    """L1 as reported by the allocators, if a process publishes it, and what the difference means."""
    if reported["total"] is None or not reported["inferred"]:
        return  # everything is tracked; the line on completeness states it
    rows.add("L1 tracked", reported["tracked"], capacity, "allocator-tracked")
    rows.add("L1 reported", reported["total"], capacity, "total from MemoryReporter")
    rows.add("L1 inferred", reported["inferred"], capacity, "CB + kernels (inferred): what is not tracked")


def _known(memory: MemoryRow, counted: int | None) -> str:
    """The confidence of the numbers, and what is missing; ``counted`` bytes come only from tt-metal's counters."""
    known = memory["confidence"]
    by = {
        "exact": known["exact"],
        "reported": max(0, known["reported"] - (counted or 0)),
        "estimated": known["estimated"],
        "reported by tt-metal's own counters": counted,
    }
    # Shares, not sums: the bytes are of pools that do not add up.
    found = {name: size for name, size in by.items() if size}
    total = sum(found.values())
    sizes = [f"{percent(size / total) if len(found) > 1 else 'all'} {name}" for name, size in found.items()]
    # Who allocates in another thread than the one that opened the device counts for nothing there.
    nothing = "nothing allocated" if counted is None else "nothing by tt-metal's own counters, which miss other threads"
    out = [", ".join(sizes) or nothing]
    if memory["completeness"] is not None:
        whose = "the allocators of tracked processes report" if counted is not None else "the allocators report"
        out.append(f"{complete(memory['completeness'])} of what {whose}")
    if memory["uncertain"]:
        out.append(f"uncertain: the agent counted {counts_text(memory['uncertain'])}")
    if memory["missing"]:
        out.append(f"not known: {_kinds(memory['missing'])}")
    unseen = [one for one in memory.get("unseen", []) if set(one["missing"]) - set(memory["missing"])]
    for one in unseen[:_UNSEEN_SHOWN]:
        everything = len(one["missing"]) == len(KIND_WORDS)
        out.append(f"of pid {one['pid'] or '?'} not known: {'anything' if everything else _kinds(one['missing'])}")
    if len(unseen) > _UNSEEN_SHOWN:
        out.append(f"nor all of {len(unseen) - _UNSEEN_SHOWN} more")
    return "; ".join(out)


def _kinds(labels: list[str]) -> str:
    return ", ".join(KIND_WORDS.get(label, label) for label in labels)
