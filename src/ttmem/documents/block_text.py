# SPDX-License-Identifier: Apache-2.0
"""Buffers in words: where they are, how large, and the operation and line that made them."""

from __future__ import annotations

from collections.abc import Sequence

from ttmem.analyze.hold_reasons import Cause
from ttmem.analyze.process_layout import Block, ProgramBuffer
from ttmem.analyze.verdict_types import HeldGroup, groups_of
from ttmem.documents.common_text import short_line
from ttmem.model.kinds import Kind
from ttmem.model.units import exact, short

_ADDRESSES_SHOWN = 4
_GROUPS_LISTED = 4
PARTS = {Kind.CB: "circular buffer", Kind.DFB: "dataflow buffer", Kind.SCRATCHPAD: "scratchpad"}
_CAUSES = {
    Cause.PROGRAM_CACHE: "program cache",
    Cause.LIKELY_PROGRAM_CACHE: "likely of a program",
    Cause.TRACE: "a trace",
    Cause.SYSTEM: "of the runtime",
}


def bank_word(kind: Kind) -> str:
    """What a bank of this kind is called: each core has one bank of L1.

    >>> bank_word(Kind.L1), bank_word(Kind.DRAM)
    ('core', 'bank')
    """
    return "core" if kind in (Kind.L1, Kind.L1_SMALL) else "bank"


def place_of(line: str | None) -> str | None:
    """File and number of a line, without folders and function.

    >>> place_of("src/my models/llama.py:42 forward")
    'llama.py:42'
    """
    if line is None:
        return None
    file, colon, rest = line.rpartition("/")[2].rpartition(":")
    return f"{file}{colon}{rest.partition(' ')[0]}"


def origin(block: Block) -> str:
    """The operation and the line that made a buffer; if neither is known, why it is held."""
    known = [text for text in (block.tag, short_line(block.line)) if text]
    cause = _CAUSES.get(block.cause)
    if cause is not None:
        known.append(cause)
    return ", ".join(known) or "operation and line not known"


def brief_group(group: HeldGroup, banks: int | None) -> str:
    """Identical buffers in a few words; sizes are over all banks if their number is given, else of one."""
    block = group.blocks[0]
    times = f"{group.buffers:,} x " if group.buffers > 1 else ""
    size = short(block.per_bank * (banks or 1)) + ("" if banks else f" per {bank_word(block.kind)}")
    place = place_of(block.line)
    where = f" from {place}" + (f" ({block.tag})" if block.tag else "") if place else ""
    if not place:
        where = f" from {block.tag}" if block.tag else f" ({_CAUSES.get(block.cause, 'operation and line not known')})"
    return f"{times}{size}{where}"


def group_text(group: HeldGroup) -> str:
    """Identical buffers: where they are, their size, and what made them."""
    block = group.blocks[0]
    shape = f", {block.shape}" if block.shape else ""
    what = f"{exact(block.per_bank)} per {bank_word(block.kind)}, {block.kind.name} buffer"
    if group.buffers == 1:
        return f"{block.address:#x} to {block.end:#x}: {what}{shape}, {origin(block)}"
    return f"{group.buffers:,} x {what}{shape}, {origin(block)}; at {_addresses(group)}"


def _addresses(group: HeldGroup) -> str:
    shown = ", ".join(f"{block.address:#x}" for block in group.blocks[:_ADDRESSES_SHOWN])
    rest = group.buffers - _ADDRESSES_SHOWN
    return f"{shown} and {rest:,} more" if rest > 0 else shown


def listed(blocks: Sequence[Block]) -> str:
    """Buffers to free: each address with the operation and the line that made it."""
    groups = sorted(groups_of(blocks), key=lambda group: group.blocks[0].address)
    texts = [f"{_addresses(group)} ({_each(group)}{origin(group.blocks[0])})" for group in groups[:_GROUPS_LISTED]]
    rest = len(blocks) - sum(group.buffers for group in groups[:_GROUPS_LISTED])
    more = f" and {rest:,} more" if rest else ""
    count = "the buffer" if len(blocks) == 1 else f"the {len(blocks):,} buffers"
    return f"{count} at {', '.join(texts)}{more}"


def _each(group: HeldGroup) -> str:
    return "each " if group.buffers > 1 else ""


def parts_text(pieces: Sequence[ProgramBuffer]) -> list[str]:
    """The circular and dataflow buffers of a program, those of one size together."""
    found: dict[tuple[Kind, int], list[ProgramBuffer]] = {}
    for piece in pieces:
        found.setdefault((piece.kind, piece.end - piece.start), []).append(piece)
    lines = []
    for (kind, size), alike in found.items():
        name, first = PARTS[kind], alike[0]
        what = f"{exact(size)} per core, {name} of the program"
        if len(alike) == 1:
            lines.append(f"{first.start:#x} to {first.end:#x}: {what}")
        else:
            shown = ", ".join(f"{piece.start:#x}" for piece in alike[:_ADDRESSES_SHOWN])
            rest = len(alike) - _ADDRESSES_SHOWN
            lines.append(f"{len(alike):,} x {what}; at {shown}" + (f" and {rest:,} more" if rest > 0 else ""))
    return lines


def brief_parts(pieces: Sequence[ProgramBuffer]) -> str:
    """The same in a few words."""
    found: dict[tuple[Kind, int], int] = {}
    for piece in pieces:
        found[piece.kind, piece.end - piece.start] = found.get((piece.kind, piece.end - piece.start), 0) + 1
    ordered = sorted(found.items(), key=lambda item: -item[0][1] * item[1])
    texts = [
        f"{f'{count:,} x ' if count > 1 else ''}{short(size)} per core ({PARTS[kind]})"
        for (kind, size), count in ordered[:3]
    ]
    return "; ".join(texts) + (f"; {len(ordered) - 3} more sizes" if len(ordered) > 3 else "")
