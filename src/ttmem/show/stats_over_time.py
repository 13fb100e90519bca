# SPDX-License-Identifier: Apache-2.0
"""Statistics over the time of a recording as text: lifetimes, fragmentation, programs, host memory."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil
from typing import TYPE_CHECKING

from ttmem.documents.breakdown_words import POOLS
from ttmem.documents.common_text import short_line
from ttmem.model.units import human
from ttmem.show.chip_table import Names
from ttmem.show.kind_table import KIND_WORDS
from ttmem.show.text import BOLD, DIM, Column, Style, cells, table, wrap

if TYPE_CHECKING:
    from ttmem.model.schema import Stats, StatsFragmentation, StatsFreeBlock, StatsHostSample

_ENDS = {
    "freed": "FREED",
    "program_destroyed": "PROGRAM DESTROYED",
    "device_closed": "DEVICE CLOSED",
    "process_exited": "PROCESS EXITED",
    "unknown": "END NOT KNOWN",
    "live": "STILL LIVE",
}
_PLOT_COLUMNS = 60
_IN_ONE_PIECE = 0.99  # a largest free block of at least this part of what is free is no fragmentation
_LEVELS, _ASCII_LEVELS = "▁▂▃▄▅▆▇█", "_.-=+*#@"
_UNITS = (("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9))


def over_time(found: Stats, names: Names, style: Style) -> list[Iterator[str]]:
    return [
        _lives(found, style),
        _late(found, style),
        *(_fragmentation(one, found, names, style) for one in found["fragmentation"]),
        _no_fragmentation(found, style),
        _phases(found, style),
        _programs(found, names, style),
        _host(found, style),
    ]


def after(seconds: float) -> str:
    """A time of a recording as --at takes it: rounded up, so that what happened then is included.

    >>> after(2.3456781), after(0.0)
    ('+2.345679s', '+0s')
    """
    return f"+{ceil(round(seconds * 1e9) / 1000) / 1e6:.6f}".rstrip("0").rstrip(".") + "s"


def duration(seconds: float) -> str:
    """A time span with three digits.

    >>> duration(0.000123456), duration(75.2), duration(7300)
    ('123 us', '75.2 s', '2.03 h')
    """
    if seconds >= 120:
        return f"{seconds / 3600:.3g} h" if seconds >= 7200 else f"{seconds / 60:.3g} min"
    for unit, scale in _UNITS:
        if seconds >= scale * 0.9995:
            return f"{min(seconds / scale, 999.4):.3g} {unit}"
    return "0 s" if not seconds else "1 ns"


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def heading(text: str, style: Style) -> Iterator[str]:
    return (style.paint(line, BOLD) for line in wrap(text, style, "  ", ""))


def said(text: str, style: Style, colour: str = DIM) -> Iterator[str]:
    """A remark below a heading or a table."""
    return (style.paint(line, colour) for line in wrap(text, style, "  "))


def _lives(found: Stats, style: Style) -> Iterator[str]:
    rows = found["lives"]
    if not rows:
        return
    yield from heading("Lifetimes of what was freed, and how allocations ended", style)
    ages = [row["seconds"] for row in rows]
    columns = [
        Column("KIND", [KIND_WORDS.get(row["kind"], row["kind"]) for row in rows], 0, gap=2),
        Column("MEDIAN", [duration(age["median"]) if age else "-" for age in ages], 0, right=True, gap=2),
        Column("90 %", [duration(age["p90"]) if age else "-" for age in ages], 3, right=True, gap=2),
        Column("99 %", [duration(age["p99"]) if age else "-" for age in ages], 2, right=True, gap=2),
        Column("LONGEST", [duration(age["longest"]) if age else "-" for age in ages], 0, right=True, gap=2),
    ]
    for key, title in _ENDS.items():
        counts: list[int] = [row[key] for row in rows]  # type: ignore[literal-required]
        if any(counts):
            columns.append(Column(title, [f"{count:,}" for count in counts], 1, right=True, gap=2))
    yield from table(columns, style)


def _late(found: Stats, style: Style) -> Iterator[str]:
    late = found["freed_late"]
    rows = late["rows"]
    if not rows:
        return
    number = _counted(late["count"], "allocation")
    yield from heading(f"Never freed by the program: {number} ended with their device or process", style)
    several = len({row["pool"] for row in rows}) > 1
    columns = [
        Column("BYTES", [human(row["bytes"]) for row in rows], 0, right=True, gap=2),
        Column("COUNT", [f"{row['count']:,}" for row in rows], 0, right=True, gap=2),
        Column("LONGEST", [duration(row["longest_s"]) for row in rows], 1, right=True, gap=2),
    ]
    if several:
        columns.append(Column("POOL", [POOLS[row["pool"]] for row in rows], 0, gap=2))
    lines = [short_line(row["line"]) or "no line is known" for row in rows]
    if any(row["line"] for row in rows):
        columns.append(Column("LINE", lines, 0, low=min(30, style.width // 3), gap=2))
    columns.append(Column("OPERATION", [row["op"] or "no ttnn operation" for row in rows], 1, low=12))
    yield from table(columns, style)
    if late["groups"] > len(rows):
        yield from said(f"and {late['groups'] - len(rows):,} more", style)
    note = "Without what the runtime, cached programs and traces hold. When a buffer was last used is not known."
    yield from said(note, style)


def _fragmentation(one: StatsFragmentation, found: Stats, names: Names, style: Style) -> Iterator[str]:
    kind, worst, smallest = one["kind"].upper(), one["worst"], one["smallest"]
    number = _counted(one["moments"], "moment")
    if one["allocators"] > 1:
        which = f"{one['examined']:,} of " if one["examined"] < one["allocators"] else ""
        number += f" of {which}{one['allocators']:,} allocators"
    banks = f"{one['banks']} banks of {human(one['bank_size'])}"
    if worst is None or smallest is None:
        return
    if not worst["free"] or worst["largest"] >= _IN_ONE_PIECE * worst["free"]:
        yield from heading(f"Fragmentation of {kind}: none at {number}; {banks}", style)
        text = f"The largest free block of a bank was always at least {_share(worst)} of what was free"
        at = f", at least {human(smallest['largest'])} (at {after(smallest['after_s'])})."
        yield from wrap(f"{text}{at}", style, "  ")
        return
    yield from heading(
        f"Fragmentation of {kind}: largest free block of what is free in a bank, at {number}; {banks}", style
    )
    plot = _plot(one["series"], found["from_s"], found["until_s"], style)
    if plot:
        yield f"  {plot}  lowest {_share(worst)}"
    for title, point in (("most fragmented", worst), ("smallest block", smallest)):
        if title == "most fragmented" or point != worst:
            several = f", {names.short_set_title(point['chips'])}" if len(found["chips"]) > 1 else ""
            yield from wrap(
                f"{title} at {after(point['after_s'])}: {human(point['largest'])} of {human(point['free'])} free "
                f"({_share(point)}){several}",
                style, "    ", "  ",
            )  # fmt: skip


def _no_fragmentation(found: Stats, style: Style) -> Iterator[str]:
    if found["kinds"] and not found["fragmentation"]:
        yield from wrap("Fragmentation is known only of processes that ran with the agent (`ttmem run`).", style)


def _share(point: StatsFreeBlock | None) -> str:
    if point is None:
        return "-"
    if not point["free"]:
        return "full"
    share = 100 * point["largest"] / point["free"]
    return f"{share if share == 100 else min(share, 99.9):.1f} %"


def _plot(series: list[StatsFreeBlock], first: float, last: float, style: Style) -> str:
    """The lowest ratio in each part of the window; a part without a moment continues the one before."""
    width = min(_PLOT_COLUMNS, style.width - 22)
    if len(series) < 2 or last <= first or width < 10:
        return ""
    levels = _ASCII_LEVELS if style.ascii else _LEVELS
    lowest: list[float | None] = [None] * width
    for point in series:
        place = min(width - 1, max(0, int((point["after_s"] - first) / (last - first) * width)))
        ratio = point["largest"] / point["free"] if point["free"] else 1.0
        known = lowest[place]
        lowest[place] = ratio if known is None else min(known, ratio)
    text, before = "", " "
    for value in lowest:
        before = before if value is None else levels[min(len(levels) - 1, int(value * len(levels)))]
        text += before
    return text


def _phases(found: Stats, style: Style) -> Iterator[str]:
    rows = [row for row in found["phases"] if row["dram"] or row["l1"]]
    if not rows:
        return
    yield from heading("Worst fragmentation of each phase: largest block of what is free in a bank", style)
    points = [(row["dram"], row["l1"]) for row in rows]
    columns = [
        Column("PHASE", [row["phase"] or "(no name)" for row in rows], 0, low=16, gap=2),
        Column("RUNS", [f"{row['runs']:,}" for row in rows], 0, right=True, gap=2),
        Column("DRAM", [_share(dram) for dram, _ in points], 0, right=True, gap=2),
        Column("LARGEST", [human(dram["largest"]) if dram else "-" for dram, _ in points], 1, right=True, gap=2),
        Column("AT", [after(dram["after_s"]) if dram else "" for dram, _ in points], 3, right=True, gap=2),
        Column("L1", [_share(l1) for _, l1 in points], 0, right=True, gap=2),
        Column("LARGEST", [human(l1["largest"]) if l1 else "-" for _, l1 in points], 1, right=True, gap=2),
        Column("AT", [after(l1["after_s"]) if l1 else "" for _, l1 in points], 3, right=True),
    ]
    if len({row["pid"] for row in rows}) > 1:
        columns.insert(1, Column("PID", [str(row["pid"] or "?") for row in rows], 2, right=True, gap=2))
    yield from table(columns, style)


def _programs(found: Stats, names: Names, style: Style) -> Iterator[str]:
    programs, ring = found["programs"], found["kernel_ring"]
    if not (programs["start"] or programs["compiled"]):
        return
    before = f"{programs['start']:,} before, " if programs["start"] else ""
    yield from heading(
        f"Program cache: {before}{programs['compiled']:,} compiled, {programs['destroyed']:,} destroyed, "
        f"{programs['live']:,} at the end",
        style,
    )
    rows = programs["tenths"]
    titles = ["until", *(after(round(row["until_s"], 3)) for row in rows)]
    lines = [titles]
    for word in ("compiled", "destroyed", "live"):
        values: list[int] = [row[word] for row in rows]
        if any(values):
            lines.append([word, *(f"{value:,}" for value in values)])
    widths = [max(cells(line[place]) for line in lines) for place in range(len(titles))]
    if sum(widths) + 2 * len(widths) > style.width:  # every second one
        keep = [0, *range(2, len(titles), 2)]
        lines = [[line[place] for place in keep] for line in lines if line[0] not in ("compiled", "destroyed")]
        widths = [widths[place] for place in keep]
    for line in lines:
        first, *rest = (f"{text:>{width}}" for text, width in zip(line, widths))
        yield f"  {first.strip():<{widths[0]}}  {'  '.join(rest)}"
    if ring is not None:
        of = f" of {human(ring['size'])}" if ring["size"] else ""
        made = ", ".join(filter(None, (ring["op"], short_line(ring["line"])))) or "an unnamed program"
        yield from wrap(f"kernel ring of a core: at most {human(ring['used_max'])}{of}, by {made}", style, "    ", "  ")


def _distinct(rows: list[tuple[str, StatsHostSample]]) -> list[tuple[str, StatsHostSample]]:
    """Samples that are the same are one row with both names."""
    found: list[tuple[str, StatsHostSample]] = []
    for name, point in rows:
        if found and found[-1][1] == point:
            found[-1] = f"{found[-1][0]}, {name}", point
        else:
            found.append((name, point))
    return found


def _host(found: Stats, style: Style) -> Iterator[str]:
    host = found["host"]
    if host is None:
        return
    yield from heading(f"Host memory of the processes beside the device, {_counted(host['samples'], 'sample')}", style)
    rows = _distinct([("first", host["first"]), ("peak", host["peak"]), ("last", host["last"])])
    points = [point for _, point in rows]
    yield from table(
        [
            Column("SAMPLE", [name for name, _ in rows], 0, gap=2),
            Column("AT", [after(round(point["after_s"], 3)) for point in points], 1, right=True, gap=2),
            Column("RESIDENT", [human(point["resident"]) for point in points], 0, right=True, gap=2),
            Column("HUGE PAGES", [human(point["huge_pages"]) for point in points], 0, right=True, gap=2),
            Column("DEVICE DRAM", [human(point["dram"]) for point in points], 0, right=True, gap=2),
            Column("DEVICE L1", [human(point["l1_buffers"]) for point in points], 0, right=True, gap=2),
        ],
        style,
    )
