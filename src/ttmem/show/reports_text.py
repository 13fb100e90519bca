# SPDX-License-Identifier: Apache-2.0
"""tt-metal's memory reports as data, schema "ttmem.reports/1", and as text, beside what a server tracks."""

from __future__ import annotations

from typing import Any

from ttmem.ingest.clock import rfc3339
from ttmem.model.kinds import KINDS, Kind
from ttmem.model.printable import printable, printable_data
from ttmem.model.uncertain_reasons import counts_text
from ttmem.model.units import complete, human
from ttmem.sources import memory_reports
from ttmem.sources.memory_reports import Amounts, Memory, MemoryReport, Reports, State

SCHEMA = "ttmem.reports/1"
_BLOCKS_SHOWN = 5
_PROGRAMS_SHOWN = 20

Json = dict[str, Any]


def document(found: Reports, folder: str, now: float, snapshot: Json | None, why_none: str = "") -> Json:
    """Everything in a folder. ``snapshot`` is a server's snapshot, or None, and ``why_none`` the reason."""
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


def tracked(snapshot: Json) -> tuple[dict[Kind, int | None], str | None]:
    """What a server knows the allocator took, by kind, if a report can only be of that; else why it may not be.

    A report names neither its chip nor its process. With one process a chip, and the same amounts on all chips (as on
    a mesh, in lock step), it does not matter which it is of.
    """
    processes = [process for process in snapshot["processes"] if process["state"] == "tracked"]
    chip_ids = [share["chip"] for process in processes for share in process["chips"]]
    if not chip_ids:
        return {}, "the server tracks no process with a chip now"
    if len(set(chip_ids)) < len(chip_ids):
        return {}, "several processes hold memory of one chip, and a report does not say whose it is"
    uncertain = [one for process in processes for one in process["uncertain"]]
    if uncertain:
        return {}, f"what the server tracks is uncertain, the agent counted {counts_text(uncertain)}"
    found = [_reserved(chip["memory"]) for chip in snapshot["chips"] if chip["chip"] in chip_ids]
    if any(amounts != found[0] for amounts in found):
        return {}, "the server tracks chips with different amounts, and a report does not say which it is of"
    return found[0], None


def _reserved(memory: Json) -> dict[Kind, int | None]:
    """As a report counts: without trace buffers, which are part of DRAM, and with L1_SMALL by itself."""
    dram, l1 = memory["dram"], memory["l1"]
    return {
        Kind.DRAM: _taken(dram["used"], dram["reserved"], dram["trace"]["reserved"]),
        Kind.L1: _taken(l1["buffers"], l1["reserved"], l1["small"]["reserved"]),
        Kind.L1_SMALL: _taken(l1["small"]["used"], l1["small"]["reserved"]),
    }


def _taken(used: int | None, reserved: int | None, other: int | None = None) -> int | None:
    """The reserved bytes without those of the other kind; where nothing is used, nothing is reserved."""
    if reserved is None:
        return None if used else used
    return reserved - (other or 0)


def completeness(ours: int | None, theirs: int | None) -> float | None:
    """What is tracked by what was reported; above 1, more was allocated since. None if there is nothing to compare.

    >>> completeness(96, 128), completeness(0, 0), completeness(1, 0), completeness(None, 128)
    (0.75, 1.0, None, None)
    """
    if ours is None or theirs is None:
        return None
    return ours / theirs if theirs else None if ours else 1.0


def _report(report: MemoryReport, now: float, amounts: dict[Kind, int | None]) -> Json:
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


def _compared(memory: Memory, amounts: dict[Kind, int | None]) -> Json:
    ours = amounts.get(memory.kind)
    theirs = memory.all_banks.allocated if memory.all_banks is not None else None
    return {"tracked": ours, "reported": theirs, "share": completeness(ours, theirs)}


def _state(state: State) -> Json:
    return {
        "program": state.program,
        "memory": {memory.kind.label: _memory(memory) for memory in state.memories},
        "l1_space": None if state.l1_space is None else state.l1_space._asdict(),
    }


def _memory(memory: Memory) -> Json:
    amounts = memory.per_bank or memory.all_banks
    return {
        "banks": memory.banks,
        "per_bank": _amounts(memory.per_bank),
        "all_banks": _amounts(memory.all_banks),
        "fragmentation": amounts.fragmentation if amounts is not None else None,
        "blocks": None if memory.blocks is None else [block._asdict() for block in memory.blocks],
    }


def _amounts(amounts: Amounts | None) -> Json | None:
    return None if amounts is None else amounts._asdict()


def render(data: Json) -> str:
    """The whole text; problems are the caller's to print."""
    data = printable_data(data)
    lines = [f"Memory reports in {data['folder']}"]
    for report in data["reports"]:
        lines += ["", *_render_report(report)]
        if report["completeness"] and data["incomparable"] is None:
            lines.append(_render_completeness(report["completeness"]))
    lines += ["", f"These reports contain buffers only. Not in them: {', '.join(data['missing'])}."]
    if data["incomparable"] is not None:
        lines.append(f"Completeness is not known: {data['incomparable']}.")
    return "\n".join(line.rstrip() for line in lines)


def _render_report(report: Json) -> list[str]:
    lines = [f"{report['prefix'] or '(no prefix)'}  {_written([file['age_s'] for file in report['files']])}"]
    if not report["states"]:
        lines.append("  nothing in it could be read")
    for state in report["states"]:
        if state["program"] is None:
            lines += _render_state(state)
    programs = [state for state in report["states"] if state["program"] is not None]
    return lines + (_render_programs(programs) if programs else [])


def _written(ages: list[float]) -> str:
    if not ages:
        return "no file could be opened"
    youngest, oldest = _age(min(ages)), _age(max(ages))
    span = youngest if youngest == oldest else f"{youngest} to {oldest}"
    return f"{_count(len(ages), 'file')}, written {span} ago"


def _render_state(state: Json) -> list[str]:
    memories, space = state["memory"], state["l1_space"]
    titles = f"{'TOTAL':>12}{'ALLOCATED':>12}{'FREE':>12}{'LARGEST FREE':>14}{'FRAGMENTED':>12}"
    lines = [f"  {'KIND':<9}{'BANKS':<12}{titles}"] if memories else []
    for kind, memory in memories.items():
        lines += _render_memory(kind, memory)
    for kind, memory in memories.items():
        lines += _render_blocks(kind, memory["blocks"])
    if space is not None and Kind.L1.label not in memories:
        sizes = human(space["largest_free"]), human(space["times_banks"])
        lines.append(f"  l1: the largest free block has {sizes[0]} in each bank, {sizes[1]} in all")
    return lines


def _render_memory(kind: str, memory: Json) -> list[str]:
    share = memory["fragmentation"]
    fragmented = "-" if share is None else f"{100 * share:.1f}%"
    banks = memory["banks"]
    lines = []
    for name, amounts in (("each of ", memory["per_bank"]), ("all ", memory["all_banks"])):
        if amounts is not None:
            sizes = [human(amounts[key]) for key in ("total", "allocated", "free", "largest_free")]
            row = f"  {kind:<9}{name + ('?' if banks is None else str(banks)):<12}"
            lines.append(row + f"{sizes[0]:>12}{sizes[1]:>12}{sizes[2]:>12}{sizes[3]:>14}{fragmented:>12}")
            kind = fragmented = ""
    return lines


def _render_blocks(kind: str, blocks: list[Json] | None) -> list[str]:
    if blocks is None:
        return [f"  {kind}: its blocks are not known"]
    used = sorted((block for block in blocks if block["allocated"]), key=lambda block: -block["size"])
    title = f"  {kind}: {_count(len(used), 'used block')}, {len(blocks) - len(used)} free"
    if not used:
        return [title]
    shown = ", ".join(f"{human(block['size'])} at {block['address']:#x}" for block in used[:_BLOCKS_SHOWN])
    return [f"{title}; in each bank, from its allocator's base: {shown}{', ...' if len(used) > _BLOCKS_SHOWN else ''}"]


def _render_programs(states: list[Json]) -> list[str]:
    """One line a program, of the last ones."""
    lines = [f"  {'PROGRAM':<10}{'DRAM ALLOCATED':>16}{'L1 ALLOCATED':>16}{'L1_SMALL':>12}{'L1 LARGEST FREE':>18}"]
    if len(states) > _PROGRAMS_SHOWN:
        lines.append(f"  and {len(states) - _PROGRAMS_SHOWN} before; --json has them all")
    for state in states[-_PROGRAMS_SHOWN:]:
        dram, l1, small = (_allocated(state["memory"].get(kind.label)) for kind in memory_reports.KINDS)
        largest = human(state["l1_space"]["largest_free"] if state["l1_space"] else None)
        lines.append(f"  {state['program']:<10}{dram:>16}{l1:>16}{small:>12}{largest:>18}")
    return [*lines, "  allocated: when the program was compiled, in all banks; largest free: in each bank"]


def _allocated(memory: Json | None) -> str:
    return human(memory["all_banks"]["allocated"] if memory and memory["all_banks"] else None)


def _render_completeness(shares: Json) -> str:
    parts = [f"{kind} {_percent(found['share'])} ({human(found['tracked'])} tracked)" for kind, found in shares.items()]
    return f"  completeness: {', '.join(parts)}; what the server tracks now, by what the report says"


def _percent(share: float | None) -> str:
    return "-" if share is None else complete(share)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _age(seconds: float) -> str:
    for size, unit in ((86400, "days"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
