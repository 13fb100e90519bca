# SPDX-License-Identifier: Apache-2.0
"""tt-metal's memory reports as a document, schema "ttmem.reports/1", compared with what a server tracks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ttmem.ingest.clock import rfc3339
from ttmem.model.kinds import KINDS, Kind
from ttmem.model.printable import printable
from ttmem.model.uncertain_reasons import counts_text
from ttmem.sources import memory_reports
from ttmem.sources.memory_reports import Amounts, Block, L1Space, Memory, MemoryReport, Reports, State

if TYPE_CHECKING:
    from ttmem.model import schema

SCHEMA: Final = "ttmem.reports/1"


def document(
    found: Reports, folder: str, now: float, snapshot: schema.Snapshot | None, why_none: str = ""
) -> schema.MemoryReports:
    """The document of a folder. ``snapshot`` is a server's snapshot; if it is None, ``why_none`` is the reason."""
    amounts, doubt = tracked(snapshot) if snapshot is not None else ({}, why_none)
    return {
        "schema": SCHEMA,
        "time": rfc3339(now),
        "folder": printable(folder),
        "reports": [_report(report, now, amounts) for report in found.reports],
        "missing": [kind.label for kind in KINDS if kind not in memory_reports.KINDS],
        "incomparable": doubt,
        "problems": list(found.problems),
    }


def tracked(snapshot: schema.Snapshot) -> tuple[dict[Kind, int | None], str | None]:
    """Reserved bytes by kind according to a server, if the report must be about these; else why it may not be.

    A report names neither its chip nor its process. With one process per chip, and the same amounts on all chips (as on
    a mesh, in lock step), it does not matter which chip it is about.
    """
    processes = [process for process in snapshot["processes"] if process["state"] == "tracked"]
    chip_ids = [share["chip"] for process in processes for share in process["chips"]]
    if not chip_ids:
        return {}, "the server tracks no process with a chip now"
    if len(set(chip_ids)) < len(chip_ids):
        return {}, "several processes hold memory of one chip, and a report does not name its process"
    uncertain = [one for process in processes for one in process["uncertain"]]
    if uncertain:
        return {}, f"what the server tracks is uncertain, the agent counted {counts_text(uncertain)}"
    found = [_reserved(chip["memory"]) for chip in snapshot["chips"] if chip["chip"] in chip_ids]
    if any(amounts != found[0] for amounts in found):
        return {}, "the server tracks chips with different amounts, and a report does not name its chip"
    return found[0], None


def _reserved(memory: schema.MemoryRow) -> dict[Kind, int | None]:
    """Reserved bytes as in a report: without trace buffers, which are part of DRAM, and with L1_SMALL separately."""
    dram, l1 = memory["dram"], memory["l1"]
    return {
        Kind.DRAM: _taken(dram["used"], dram["reserved"], dram["trace"]["reserved"]),
        Kind.L1: _taken(l1["buffers"], l1["reserved"], l1["small"]["reserved"]),
        Kind.L1_SMALL: _taken(l1["small"]["used"], l1["small"]["reserved"]),
    }


def _taken(used: int | None, reserved: int | None, other: int | None = None) -> int | None:
    """The reserved bytes without those of the other kind; 0 if nothing is used."""
    if reserved is None:
        return None if used else used
    return reserved - (other or 0)


def completeness(ours: int | None, theirs: int | None) -> float | None:
    """Tracked bytes divided by reported bytes; above 1, more was allocated since. None if not comparable.

    >>> completeness(96, 128), completeness(0, 0), completeness(1, 0), completeness(None, 128)
    (0.75, 1.0, None, None)
    """
    if ours is None or theirs is None:
        return None
    return ours / theirs if theirs else None if ours else 1.0


def _report(report: MemoryReport, now: float, amounts: dict[Kind, int | None]) -> schema.ReportRow:
    dump = next((state for state in report.states if state.program is None), None)
    return {
        "prefix": report.prefix,
        "files": [
            {"name": file.name, "modified": rfc3339(file.modified), "age_s": round(max(0.0, now - file.modified), 3)}
            for file in report.files
        ],
        "states": [_state(state) for state in report.states],
        "completeness": {memory.kind.label: _compared(memory, amounts) for memory in dump.memories} if dump else None,
    }


def _compared(memory: Memory, amounts: dict[Kind, int | None]) -> schema.ReportShare:
    ours = amounts.get(memory.kind)
    theirs = memory.all_banks.allocated if memory.all_banks is not None else None
    return {"tracked": ours, "reported": theirs, "share": completeness(ours, theirs)}


def _state(state: State) -> schema.ReportState:
    return {
        "program": state.program,
        "memory": {memory.kind.label: _memory(memory) for memory in state.memories},
        "l1_space": _l1_space(state.l1_space),
    }


def _memory(memory: Memory) -> schema.ReportMemory:
    amounts = memory.per_bank or memory.all_banks
    return {
        "banks": memory.banks,
        "per_bank": _amounts(memory.per_bank),
        "all_banks": _amounts(memory.all_banks),
        "fragmentation": amounts.fragmentation if amounts is not None else None,
        "blocks": None if memory.blocks is None else [_block(block) for block in memory.blocks],
    }


def _amounts(amounts: Amounts | None) -> schema.ReportAmounts | None:
    if amounts is None:
        return None
    return {
        "total": amounts.total,
        "allocated": amounts.allocated,
        "free": amounts.free,
        "largest_free": amounts.largest_free,
    }


def _block(block: Block) -> schema.ReportBlock:
    return {
        "ident": block.ident,
        "address": block.address,
        "size": block.size,
        "previous": block.previous,
        "next": block.next,
        "allocated": block.allocated,
    }


def _l1_space(space: L1Space | None) -> schema.ReportL1Space | None:
    return None if space is None else {"largest_free": space.largest_free, "times_banks": space.times_banks}
