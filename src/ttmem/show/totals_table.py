# SPDX-License-Identifier: Apache-2.0
"""The table of sums in a snapshot: a row for the host, each board of several chips, each job of several processes."""

from __future__ import annotations

from ttmem.documents.host_totals import is_known
from ttmem.model.units import human
from ttmem.show.process_table import IN_TURN
from ttmem.show.text import Column, table, wrap

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    from ttmem.model.schema import ChipRow, HostSum, JobSum, Snapshot
    from ttmem.show.chip_table import Names
    from ttmem.show.text import Style

    Row = tuple[str, HostSum | JobSum, int | None, str, str]  # what is summed, the sum, size of DRAM, DRAM, L1

_SHOWN = 8
_IN_PART = "?"
_IN_TURNS = "*"
_MEANINGS = {
    _IN_PART: "? without unknown amounts: a process uses one of the chips, and does not report how much.",
    _IN_TURNS: IN_TURN,
}


def sums_table(snapshot: Snapshot, names: Names, style: Style) -> list[str]:
    """The table; sums that would only repeat the row of one chip or process are left out."""
    found = snapshot["sums"]
    if found is None:
        return []
    chips = {chip["chip"]: chip for chip in snapshot["chips"]}
    boards = [board for board in found["boards"] if board["serial"] is not None and len(board["chips"]) > 1]
    jobs = [job for job in found["jobs"] if job["id"] is not None and job["processes"] > 1]
    jobs.sort(key=lambda job: -(job["dram"]["used"] or 0))
    rows = [_of_chips(f"host {snapshot['host']}", found["host"], chips)]
    rows += (_of_chips(f"board {board['board'] or '-'} {board['serial']}", board, chips) for board in boards[:_SHOWN])
    rows += (_of_job(job, chips) for job in jobs[:_SHOWN])
    columns = [
        Column("SUM OF", [title for title, *_ in rows], 0, low=16, high=48),
        Column("CHIPS", [names.several(row["chips"]) for _, row, *_ in rows], 2, low=5, high=24),
        Column("PROCESSES", [str(row["processes"]) for _, row, *_ in rows], 1, right=True),
        Column("DRAM ", [dram for *_, dram, _ in rows], 0, right=True),
        Column("SIZE", [human(size, "") for _, _, size, _, _ in rows], 3, right=True),
        Column("L1 ", [l1 for *_, l1 in rows], 0, right=True),
    ]
    lines = table(columns, style)
    more = [f"{len(some) - _SHOWN} more {what}" for some, what in ((boards, "boards"), (jobs, "jobs")) if some[_SHOWN:]]
    sentences = [f"and {' and '.join(more)}; --json has them all"] if more else []
    marks = {text[-1] for *_, dram, l1 in rows for text in (dram, l1)}
    sentences += (meaning for mark, meaning in _MEANINGS.items() if mark in marks)
    return lines + [line for sentence in sentences for line in wrap(sentence, style, "  ")]


def _of_chips(title: str, row: HostSum, chips: dict[str, ChipRow]) -> Row:
    """A sum over chips; nothing is missing for a chip that no process holds."""
    held = [chips[chip_id] for chip_id in row["chips"] if chips[chip_id]["held"] is not False]
    taken = row["dram"]["used"] is not None and row["dram"]["reserved_on"] == row["dram"]["used_on"]
    name: Literal["reserved", "used"] = "reserved" if taken else "used"
    dram = _marked(row["dram"][name], not all(is_known(chip, "dram", name) for chip in held))
    l1 = _marked(row["l1"]["at_once"], not all(is_known(chip, "l1", "at_once") for chip in held))
    return title, row, row["dram"]["capacity"], dram, l1


def _of_job(row: JobSum, chips: dict[str, ChipRow]) -> Row:
    dram, l1 = (_marked(pool["used"], pool["used_on"] < len(row["chips"])) for pool in (row["dram"], row["l1"]))
    at_once = [chips[chip_id]["memory"]["l1"]["at_once"] for chip_id in row["chips"] if chip_id in chips]
    known = [size for size in at_once if size is not None]
    if len(known) == len(at_once) and (row["l1"]["used"] or 0) > sum(known):
        l1 = l1[:-1] + _IN_TURNS
    return f"{row['id']} {row['name'] or ''}".rstrip(), row, None, dram, l1


def _marked(size: int | None, in_part: bool) -> str:
    return human(size) + (_IN_PART if in_part and size is not None else " ")
