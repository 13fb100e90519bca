# SPDX-License-Identifier: Apache-2.0
"""The L1 of a chip as text: a heat map of its cores, and the map of one core, from the document of `/cores`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from ttmem.model.units import human
from ttmem.show.chip_table import percent, share
from ttmem.show.text import BOLD, DIM, GREEN, NONE, RED, YELLOW, Column, Style, table, wrap

if TYPE_CHECKING:
    from ttmem.model.schema import CoreProgram, CoreRow, Cores, OwnerRow, SegmentRow, WorstProgram

T = TypeVar("T")

WORDS = {
    "firmware": "firmware",
    "ring": "kernel ring",
    "cb": "circular buffer",
    "dfb": "dataflow buffer",
    "scratchpad": "scratchpad",
    "l1": "L1 buffer",
    "l1_small": "L1_SMALL",
    "free": "free",
    "small_free": "free, L1_SMALL only",
    "unknown": "not known",
}
_SHADES = ("░▒▓█", ".:+#")
_STEPS = (0.25, 0.5, 0.75)
MOST_CORES = 1 << 14  # limit for a screen; no chip has nearly as many


def shade(part: float, ascii: bool) -> str:
    """One character for how full something is.

    >>> [shade(part, True) for part in (0.1, 0.3, 0.6, 1.0)]
    ['.', ':', '+', '#']
    """
    return _SHADES[ascii][sum(part >= step for step in _STEPS)]


def legend(ascii: bool) -> str:
    """The legend of the map."""
    low, below_half, above_half, full = tuple(_SHADES[ascii])
    return f"{low} below 25%, {below_half} below 50%, {above_half} below 75%, {full} 75% used and more"


def known(value: T | None) -> T:
    """A value that is null only for an unknown chip. Any other answer with null is malformed."""
    if value is None:
        raise ValueError("a value is null although the chip is known")
    return value


def owner_text(owner: OwnerRow) -> str:
    """The owner of an allocation: its name, program and process.

    >>> owner = {"tag": None, "operation": "ttnn::add", "program": 7, "pid": 42, "name": "python", "kind": "cb"}
    >>> owner_text(owner)
    'program 7 ttnn::add, pid 42 python'
    """
    program = () if owner["program"] is None else (_program(owner["program"], owner["operation"]),)
    return ", ".join(filter(None, (owner["tag"], *program, _process(owner["pid"], owner["name"]))))


def program_text(program: CoreProgram | None) -> str:
    """
    >>> program_text({"operation": "ttnn::add", "program": 7, "pid": 42, "name": None})
    'program 7 ttnn::add, pid 42'
    """
    if program is None:
        return "-"
    return f"{_program(program['program'], program['operation'])}, {_process(program['pid'], program['name'])}"


def _program(number: int, operation: str | None) -> str:
    return " ".join(filter(None, (f"program {number}", operation)))


def _process(pid: int | None, name: str | None) -> str:
    return f"pid {pid if pid is not None else '-'} {name or ''}".strip()


def size_text(size: int | None) -> str:
    """A size in a sentence, where a dash would not be understood."""
    return "not known" if size is None else human(size)


def segment_text(segment: SegmentRow) -> str:
    """The contents of a segment: its owners, and the circular buffers inside them."""
    words = []
    for owner in segment["owners"]:
        text = owner_text(owner)
        if owner["data"] is False:
            text += " (kept free of others in lock step, no data here)"
        words.append(text)
    words += [f"in it {owner_text(owner)}" for owner in segment["inside"]]
    overlap = "OVERLAP: " if len(segment["owners"]) > 1 and segment["kind"] != "unknown" else ""
    return overlap + "; ".join(words)


def last_program(found: Cores, core: CoreRow) -> str:
    """The program that ran last on a core."""
    program = program_of(found, core["program"])
    return program_text(program) if program else "none" if core["headroom"] is not None else "not known"


def program_of(found: Cores, number: int | None) -> CoreProgram | None:
    return None if number is None else found["programs"][number]


def worst_core(found: Cores) -> CoreRow | None:
    """The core with the least headroom, the fullest of several; None if no headroom is known."""
    cores = [core for core in found["cores"] if core["headroom"] is not None]
    return min(cores, key=lambda core: (known(core["headroom"]), -known(core["used"])), default=None)


def floor_text(found: Cores) -> str:
    """The limit of programs: the lowest L1 buffer, or the end of L1."""
    owner = found["floor"]["owner"]
    return "the end of L1" if owner is None else f"L1 buffer of {human(owner['size'])}, {owner_text(owner)}"


def at_least(found: Cores) -> str:
    """The prefix of the used bytes if there may be more."""
    return "at least " if any(core["unknown"] for core in found["cores"]) else ""


def clashes(core: CoreRow) -> bool:
    """Whether allocations overlap there."""
    return bool(core["overlap"]) or (core["headroom"] is not None and core["headroom"] < 0)


def render(found: Cores, name: str, style: Style) -> str:
    """The screen for one chip."""
    found = style.clean(found)
    lines = [*_head(found, style.clean(name), style)]
    if found["grid"] is not None and found["why"] is None:
        lines += ["", *_grid(found, style), "", *_wall(found, style)]
        if found["core"] is not None:
            lines += ["", *core_lines(found, style)]
        lines += _doubts(found, style)
    return "\n".join(lines)


def _head(found: Cores, name: str, style: Style) -> list[str]:
    grid = found["grid"]
    if grid is None:
        return wrap(f"{name}: the size of its L1 is not known, {found['why']}.", style)
    size = known(found["l1"])["size"]
    capacity = grid["x"] * grid["y"] * size
    basis = "" if found["basis"] == "live" else ", size from the table of boards"
    title = f"{name}: L1 of {grid['x']} x {grid['y']} cores, {human(size)} each{basis}"
    lines = [style.paint(line, BOLD) for line in wrap(title, style)]
    if found["why"] is not None:
        return [*lines, *wrap(f"Nothing is known about it: {found['why']}.", style)]
    used, fullest = found["used"], found["max_core"]
    seconds = known(found["age_s"])
    age = f", {seconds:.1f} s ago" if seconds >= 0.1 else ""
    return [
        *lines,
        *wrap(
            f"used {at_least(found)}{human(used)} of {human(capacity)} ({percent(share(used, capacity))}) with "
            f"firmware and kernel ring, fullest core {human(fullest)} ({percent(share(fullest, size))}), "
            f"least headroom {size_text(found['headroom_min'])}{age}",
            style,
        ),
    ]


def _grid(found: Cores, style: Style) -> list[str]:
    """A row for each row of cores: a shade and the percentage of the core that is used."""
    size, grid = known(found["l1"])["size"], known(found["grid"])
    cores = {(core["x"], core["y"]): core for core in found["cores"]}
    dispatch = {(core["x"], core["y"]) for core in found["dispatch"]}
    columns = max([grid["x"], *(x + 1 for x, _ in dispatch)])
    rows = max([grid["y"], *(y + 1 for _, y in dispatch)])
    if columns * rows > MOST_CORES:
        raise ValueError(f"a grid of {columns} x {rows} cores")
    detail = found["core"]
    chosen = None if detail is None else (detail["x"], detail["y"])
    lines = [style.paint("    " + "".join(f"{x:^4}" for x in range(columns)).rstrip(), DIM)]
    for y in range(rows):
        cells = []
        for x in range(columns):
            core = cores.get((x, y))
            cells.append(_cell(core, (x, y) in dispatch, size, (x, y) == chosen, style))
        lines.append(style.paint(f"{y:>3} ", DIM) + "".join(cells).rstrip())
    signs = [legend(style.ascii)]
    if any(clashes(core) for core in found["cores"]):
        signs.append("! allocations overlap or clash")
    if any(core["unknown"] for core in found["cores"]):
        signs.append("? not all of it is known")
    if dispatch:
        signs.append("D reserved for dispatch")
    if found["harvested"]:
        signs.append(f"{found['harvested']} cores are switched off")
    return [*lines, *(style.paint(line, DIM) for line in wrap("; ".join(signs), style, "    "))]


def _cell(core: CoreRow | None, dispatch: bool, size: int, chosen: bool, style: Style) -> str:
    if core is None:
        return style.paint(" D  " if dispatch else "    ", DIM)
    part = known(core["used"]) / size
    clash = clashes(core)
    sign = "!" if clash else "?" if core["unknown"] else " "
    text = f"{shade(part, style.ascii)}{min(99, round(100 * part)):>2}{sign}"
    colour = RED if clash or part >= 0.9 else YELLOW if part >= 0.75 else GREEN
    return style.paint(text, f"7;{colour}" if chosen else colour)


def _wall(found: Cores, style: Style) -> list[str]:
    """The core with the least headroom, and the owners on both sides."""
    worst = worst_core(found)
    reaches = [core["worst"] for core in found["cores"] if core["worst"] is not None]
    highest = max(reaches, key=lambda reach: reach["end"], default=None)  # perhaps on other cores
    if worst is None:
        lines = wrap("How close circular buffers are to L1 buffers is not known.", style)
        return lines if highest is None else [*lines, *_highest(found, highest, style)]
    headroom = known(worst["headroom"])
    distance = f"{human(headroom)} ({headroom:,} B)" if headroom >= 0 else f"a clash by {human(-headroom)}"
    same = sum(core["headroom"] == headroom for core in found["cores"])
    others = f" and {same - 1} others" if same > 1 else ""
    title = f"Least headroom: core {worst['x']},{worst['y']}{others}: {distance}"
    lines = [style.paint(line, RED if headroom < 0 else BOLD) for line in wrap(title, style)]
    program = program_of(found, worst["program"])
    bottom = known(found["l1"])["base"] if worst["end"] is None else worst["end"]
    floor = known(found["floor"]["address"])
    buffer = f"lowest L1 buffer at {floor:#x}: {floor_text(found)}"
    above = f"no L1 buffer; L1 ends at {floor:#x}" if found["floor"]["owner"] is None else buffer
    below = f"circular buffers end at {bottom:#x}: {program_text(program)}"
    lines += wrap(above, style, "    ", "  ")
    lines += wrap(
        f"no circular buffer; they begin at {bottom:#x}" if worst["end"] is None else below, style, "    ", "  "
    )
    return lines if highest is None or highest["end"] <= bottom else [*lines, *_highest(found, highest, style)]


def _highest(found: Cores, cached: WorstProgram, style: Style) -> list[str]:
    """The cached program that ends highest."""
    program = program_text(program_of(found, cached["program"]))
    text = f"highest end of all cached programs at {cached['end']:#x}: {program}"
    return wrap(f"{text}, headroom {size_text(cached['headroom'])}", style, "    ", "  ")


def core_lines(found: Cores, style: Style) -> list[str]:
    """The map of one core, high addresses first."""
    detail = known(found["core"])
    core = next(core for core in found["cores"] if (core["x"], core["y"]) == (detail["x"], detail["y"]))
    free = f"free {human(core['free'])}, largest free block {human(core['largest_free'])}"
    unknown = f", not known {human(core['unknown'])}" if core["unknown"] else ""
    overlap = f", overlap {human(core['overlap'])}" if core["overlap"] else ""
    title = (
        f"Core {core['x']},{core['y']}: used {human(core['used'])}, {free}{unknown}{overlap}, "
        f"headroom {size_text(core['headroom'])}"
    )
    lines = [style.paint(line, BOLD) for line in wrap(title, style)]
    lines += wrap(f"last run: {last_program(found, core)}", style, "    ", "  ")
    shown = [*reversed(detail["segments"])]
    if detail["listed_to"] is not None:
        lines += wrap(f"above {detail['listed_to']:#x} there is more, which is not listed", style, "    ", "  ")
    size = known(found["l1"])["size"]
    bars: list[Any] = [_bar((segment["end"] - segment["start"]) / size, segment["kind"], style) for segment in shown]
    colours = [DIM if segment["kind"] in ("free", "small_free", "firmware", "ring") else NONE for segment in shown]
    lines += table(
        [
            Column("FROM", [f"{segment['start']:#x}" for segment in shown], 0, right=True),
            Column("TO", [f"{segment['end']:#x}" for segment in shown], 3, right=True, gap=2),
            Column("SIZE", [human(s["end"] - s["start"]) for s in shown], 0, right=True, gap=2),
            Column("", bars, 4, low=4, high=12, gap=2),
            Column("WHAT", [(WORDS[s["kind"]], colour) for s, colour in zip(shown, colours)], 0, gap=2),
            Column("HELD BY", [segment_text(segment) for segment in shown], 1, low=12),
        ],
        style,
    )
    if detail["kernels"]:
        kernels = ", ".join(f"{kernel['tag'] or 'a kernel'} {human(kernel['size'])}" for kernel in detail["kernels"])
        lines += wrap(f"in the kernel ring: {kernels}", style, "    ", "  ")
    return lines


def _bar(part: float, kind: str, style: Style) -> Any:
    colour = DIM if kind in ("free", "small_free", "unknown") else NONE

    def draw(width: int) -> tuple[str, str]:
        return style.bar(max(part, 1 / width), width)[0], colour

    return draw


def _doubts(found: Cores, style: Style) -> list[str]:
    """Notes on allocations without a place in the map, and on overlaps."""
    lines: list[str] = []
    for one in found["unplaced"]:
        allocations = f"{one['allocations']} allocation{'s' if one['allocations'] != 1 else ''}"
        text = f"Not in the map: {allocations}, {human(one['bytes'])}: {one['why']}."
        lines += [style.paint(line, YELLOW) for line in wrap(text, style)]
    for warning in found["warnings"]:
        lines += [style.paint(line, RED) for line in wrap(f"! {warning[0].upper()}{warning[1:]}.", style)]
    for first, second in found["overlaps"]:
        text = (
            f"{WORDS[first['kind']]} at {first['address']:#x} ({owner_text(first)}) and {WORDS[second['kind']]} at "
            f"{second['address']:#x} ({owner_text(second)}) overlap"
        )
        lines += wrap(text, style, "    ", "  ")
    return ["", *lines] if lines else []
