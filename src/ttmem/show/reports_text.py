# SPDX-License-Identifier: Apache-2.0
"""tt-metal's memory reports as text: a table for each report, compared with what a server tracks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ttmem.model.kinds import Kind
from ttmem.model.printable import printable_data
from ttmem.model.units import complete, human

if TYPE_CHECKING:
    from ttmem.model.schema import MemoryReports, ReportBlock, ReportMemory, ReportRow, ReportShare, ReportState

_BLOCKS_SHOWN = 5
_PROGRAMS_SHOWN = 20
_PROGRAM_COLUMNS = (Kind.DRAM.label, Kind.L1.label, Kind.L1_SMALL.label)


def render(data: MemoryReports) -> str:
    """The text of a document with schema "ttmem.reports/1"; the caller prints its problems."""
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


def _render_report(report: ReportRow) -> list[str]:
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


def _render_state(state: ReportState) -> list[str]:
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


def _render_memory(kind: str, memory: ReportMemory) -> list[str]:
    share = memory["fragmentation"]
    fragmented = "-" if share is None else f"{100 * share:.1f}%"
    banks = memory["banks"]
    lines = []
    for name, amounts in (("each of ", memory["per_bank"]), ("all ", memory["all_banks"])):
        if amounts is not None:
            sizes = [human(amounts["total"]), human(amounts["allocated"]), human(amounts["free"])]
            largest = human(amounts["largest_free"])
            row = f"  {kind:<9}{name + ('?' if banks is None else str(banks)):<12}"
            lines.append(row + f"{sizes[0]:>12}{sizes[1]:>12}{sizes[2]:>12}{largest:>14}{fragmented:>12}")
            kind = fragmented = ""
    return lines


def _render_blocks(kind: str, blocks: list[ReportBlock] | None) -> list[str]:
    if blocks is None:
        return [f"  {kind}: its blocks are not known"]
    used = sorted((block for block in blocks if block["allocated"]), key=lambda block: -block["size"])
    title = f"  {kind}: {_count(len(used), 'used block')}, {len(blocks) - len(used)} free"
    if not used:
        return [title]
    shown = ", ".join(f"{human(block['size'])} at {block['address']:#x}" for block in used[:_BLOCKS_SHOWN])
    return [f"{title}; in each bank, from its allocator's base: {shown}{', ...' if len(used) > _BLOCKS_SHOWN else ''}"]


def _render_programs(states: list[ReportState]) -> list[str]:
    """One line for each of the last programs."""
    lines = [f"  {'PROGRAM':<10}{'DRAM ALLOCATED':>16}{'L1 ALLOCATED':>16}{'L1_SMALL':>12}{'L1 LARGEST FREE':>18}"]
    if len(states) > _PROGRAMS_SHOWN:
        lines.append(f"  and {len(states) - _PROGRAMS_SHOWN} before; --json has them all")
    for state in states[-_PROGRAMS_SHOWN:]:
        dram, l1, small = (_allocated(state["memory"].get(kind)) for kind in _PROGRAM_COLUMNS)
        largest = human(state["l1_space"]["largest_free"] if state["l1_space"] else None)
        lines.append(f"  {state['program']:<10}{dram:>16}{l1:>16}{small:>12}{largest:>18}")
    return [*lines, "  allocated: when the program was compiled, in all banks; largest free: in each bank"]


def _allocated(memory: ReportMemory | None) -> str:
    return human(memory["all_banks"]["allocated"] if memory and memory["all_banks"] else None)


def _render_completeness(shares: dict[str, ReportShare]) -> str:
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
