# SPDX-License-Identifier: Apache-2.0
"""The table of processes in a snapshot: the chips they hold, and their memory there."""

from __future__ import annotations

from ttmem.model.units import human, lower_limit, peak_text
from ttmem.show.chip_table import Names
from ttmem.show.text import DIM, NONE, YELLOW, Column, Style, cells, table, wrap

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Literal

    from ttmem.model.schema import ChipRow, ChipShare, CountedKind, ProcessRow, Snapshot

    SizeName = Literal["dram", "l1", "peak_dram", "peak_l1"]
    Amount = tuple[int | None, bool, int | None]  # size, whether programs use it in turn, limit of an inexact peak
    Sizes = tuple[Amount, ...]  # in the order of _SIZES
    Row = tuple[ProcessRow, str, list[Amount]]  # process, chips, sizes as above

_EXITED_SHOWN = 5
_WIDE_COLUMNS = 132  # from here on there is room for what the host has to do with it
_CHIPS_SHOWN = 8
_CHIPS_CHARACTERS = 12  # characters of chip names that nearly always fit
_SIZES: tuple[SizeName, ...] = ("dram", "l1", "peak_dram", "peak_l1")
NOBODY = "No process uses a chip, and none has reported anything."
_TITLES = ("DRAM", "L1", "PEAK DRAM", "PEAK L1 BUFFERS")
_COLOURS = {"untracked": YELLOW, "stale": DIM, "exited": DIM}
IN_TURN = "* includes all cached programs, which use L1 in turn: less is in use at any time."
LOWER_LIMIT = "at least: records were lost"
_UNKNOWN = (None, False, None)
MEANINGS = {
    "stale": "stale: in tt-metal's counters, but the process is gone or not visible from here; not counted.",
    "exited": "exited: the memory that the process held when it ended; all of it was freed.",
}


def nobody(snapshot: Snapshot) -> str:
    """The message for an empty list of processes."""
    state = next((source["state"] for source in snapshot["sources"] if source["name"] == "processes"), "ok")
    if state in ("ok", "absent"):
        return NOBODY
    return "No process is known to use a chip, but not all processes could be read; none has reported anything."


def process_table(
    processes: list[ProcessRow], chips: list[ChipRow], names: Names, style: Style, otherwise: str = NOBODY
) -> list[str]:
    """A row for each process and each group of chips with equal amounts."""
    if not processes:
        return wrap(otherwise, style)
    shown, hidden = _chosen(processes, names)
    by_chip = {chip["chip"]: chip for chip in chips}
    rows = [row for process in shown for row in _rows(process, by_chip, names)]
    first = [index == 0 or rows[index - 1][0] is not row[0] for index, row in enumerate(rows)]
    colours = [_COLOURS.get(row[0]["state"], NONE) for row in rows]
    dim = [DIM if colour == DIM else NONE for colour in colours]

    def column(title: str, texts: list[str], rank: int, **keywords: Any) -> Column:
        return Column(title, list(zip(texts, dim)), rank, **keywords)

    def once(texts: list[str]) -> list[str]:
        """A column of the process itself, filled in its first row only."""
        return [text if is_first else "" for text, is_first in zip(texts, first)]

    of = [row[0] for row in rows]
    containers = once([process.get("container") or "" for process in of])
    commands = once([_command(process["command"] or "") for process in of])
    found = [
        column("PID", once([str(process["pid"] or "?") for process in of]), 0, right=True, low=7),
        column("USER", once([user_of(process) for process in of]), 2, low=5),
        column("NAME", once([process["name"] or "-" for process in of]), 0, low=7, high=16),
        Column("STATE", [(text, colour) for text, colour in zip(once([_state(p) for p in of]), colours)], 0),
        column("CHIP", [row[1] for row in rows], -1, low=9),
    ]
    for place, (title, rank) in enumerate(zip(_TITLES, (0, 0, 4, 5))):
        amounts = [row[2][place] for row in rows]
        texts = [_amount(amount, style) for amount in amounts]
        if rank == 0 or any(text != "- " for text in texts):
            limits = [cells(text) for text, amount in zip(texts, amounts) if amount[2] is not None]
            least = max(len(title) + 1, *limits, 0)  # a title is never cut, and neither is a lower limit
            found.append(column(f"{title} ", texts, rank, right=True, low=max(10, least), high=max(11, least)))
    resident = once([human(process["rss"]) for process in of])
    if style.width >= _WIDE_COLUMNS and any(text not in ("", "-") for text in resident):
        found.append(column("HOST RAM", resident, 6, right=True))
    if any(containers):
        found.append(column("CONTAINER", containers, 3, low=12))
    if any(commands):
        found.append(column("COMMAND", commands, 10, low=20))
    lines = table(found, style)
    return lines + [line for sentence in _meanings(shown, hidden, rows, style) for line in wrap(sentence, style, "  ")]


def _amount(amount: Amount, style: Style) -> str:
    size, turns, at_most = amount
    return peak_text(human(size), at_most, ascii=style.ascii) + ("*" if turns else " ")


def _state(process: ProcessRow) -> str:
    return f"{process['state']} !" if process["uncertain"] else str(process["state"])


def _chosen(processes: list[ProcessRow], names: Names) -> tuple[list[ProcessRow], int]:
    """Living processes in the order of their chips, the last few exited ones, and the number of those not shown."""

    def place(process: ProcessRow) -> tuple[int, int]:
        chip_ids = [share["chip"] for share in process["chips"]] + process.get("holds", [])
        held = sum(share["dram"] or 0 for share in process["chips"])
        return min(map(names.order, chip_ids), default=1 << 30), -held

    live = [process for process in processes if process["state"] not in ("exited", "stale")]
    stale = [process for process in processes if process["state"] == "stale"]
    exited = [process for process in processes if process["state"] == "exited"]
    exited.sort(key=lambda process: -(process["exited"] or 0.0))
    shown = [*sorted(live, key=place), *sorted(stale, key=place), *exited[:_EXITED_SHOWN]]
    return shown, max(0, len(exited) - _EXITED_SHOWN)


def _rows(process: ProcessRow, chips: dict[str, ChipRow], names: Names) -> list[Row]:
    """The rows of a process; chips with equal amounts share a row."""
    groups: dict[Sizes, list[str]] = {}
    for share in process["chips"]:
        sizes = [size_of(share, pool, process["state"]) for pool in _SIZES]
        chip, state = chips.get(share["chip"]), process["state"]
        marked = [(size, in_turns(name, size, chip, state), limit_of(share, name)) for name, size in zip(_SIZES, sizes)]
        groups.setdefault(tuple(marked), []).append(share["chip"])
    used = {share["chip"] for share in process["chips"]}
    silent = [chip_id for chip_id in process.get("holds", []) if chip_id not in used]
    if silent or not groups:
        groups.setdefault((_UNKNOWN,) * len(_SIZES), []).extend(silent)
    ordered = sorted(groups.items(), key=lambda group: min(map(names.order, group[1]), default=0))
    if len(ordered) > _CHIPS_SHOWN:
        return _fullest(process, ordered, names)
    return [(process, _chips(chip_ids, names), list(sizes)) for sizes, chip_ids in ordered]


def _chips(chip_ids: list[str], names: Names) -> str:
    """Chips in one cell. In a long text 'each' comes first, so that it is not cut off."""
    found = names.several(chip_ids) if chip_ids else "-"
    if len(chip_ids) < 2:
        return found
    return f"{found} each" if len(found) <= _CHIPS_CHARACTERS else f"each of {found}"


def _fullest(process: ProcessRow, groups: list[tuple[Sizes, list[str]]], names: Names) -> list[Row]:
    """For many chips with different amounts: the fullest, the sum of the others, and those with unknown amounts."""
    known = [group for group in groups if any(amount[0] is not None for amount in group[0])]
    by_size = sorted(known, key=lambda group: -sum(amount[0] or 0 for amount in group[0][:2]))
    most, rest = by_size[: _CHIPS_SHOWN - 1], by_size[_CHIPS_SHOWN - 1 :]
    rows: list[Row] = [
        (process, _chips(chip_ids, names), list(sizes)) for sizes, chip_ids in groups if (sizes, chip_ids) in most
    ]
    if rest:
        count = sum(len(chip_ids) for _, chip_ids in rest)
        sums = [sum((sizes[place][0] or 0) * len(chip_ids) for sizes, chip_ids in rest) for place in range(2)]
        held: list[Amount] = [(size, False, None) for size in sums]
        rows.append((process, f"{count} more, sum", [*held, _UNKNOWN, _UNKNOWN]))
    return rows + [
        (process, _chips(chip_ids, names), list(sizes)) for sizes, chip_ids in groups if (sizes, chip_ids) not in known
    ]


def size_of(share: ChipShare, name: SizeName, state: str) -> int | None:
    """The bytes of a share in a pool; for a stale process, tt-metal's counters."""
    counted = share.get("shm")
    if state == "stale" and counted and not name.startswith("peak"):
        kinds: tuple[CountedKind, ...] = ("dram", "trace") if name == "dram" else ("l1", "l1_small", "cb")
        return sum(int(counted[kind]) for kind in kinds)
    return share[name]


def limit_of(share: ChipShare, name: str) -> int | None:
    """The upper limit of a peak that is not exact; None for all other sizes. Old servers do not report it."""
    if name == "peak_dram":
        return share.get("peak_dram_at_most")
    return share.get("peak_l1_at_most") if name == "peak_l1" else None


def in_turns(name: str, size: int | None, chip: ChipRow | None, state: str) -> bool:
    """Whether this is more L1 than is in use at one time, because cached programs use it in turn."""
    if not name.endswith("l1") or size is None or chip is None:
        return False
    l1 = chip["memory"]["l1"]
    # The current use says nothing about an exited process.
    past = name == "peak_l1" or state in ("stale", "exited")
    limit = l1["capacity"] if past or l1["at_once"] is None else l1["at_once"]
    return limit is not None and size > limit


def _command(text: str) -> str:
    """The command line without the folder of the program, to save room.

    >>> _command("/opt/venv/bin/python model.py"), _command("")
    ('python model.py', '')
    """
    program, space, rest = text.partition(" ")
    return program.rpartition("/")[2] + space + rest


def user_of(process: ProcessRow) -> str:
    return str(process["user"] or (process["user_id"] if process["user_id"] is not None else "-"))


def _meanings(shown: list[ProcessRow], hidden: int, rows: list[Row], style: Style) -> list[str]:
    """Explanations of marks in the rows."""
    out = [f"and {hidden} more that exited"] if hidden else []
    amounts = [amount for _, _, sizes in rows for amount in sizes]
    if any(turns for _, turns, _ in amounts):
        out.append(IN_TURN)
    if any(at_most is not None for _, _, at_most in amounts):
        out.append(f"{lower_limit(LOWER_LIMIT, ascii=style.ascii)}; --json has the upper limit.")
    if any(process["uncertain"] for process in shown):
        out.append("! uncertain numbers: a note below gives the reason.")
    states = {process["state"] for process in shown}
    return out + [text for state, text in MEANINGS.items() if state in states]
