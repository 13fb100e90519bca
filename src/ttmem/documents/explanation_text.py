# SPDX-License-Identifier: Apache-2.0
"""A verdict in sentences, for every screen that shows one; sizes are bytes, as in tt-metal's own messages."""

from __future__ import annotations

from ttmem.analyze import verdicts as v
from ttmem.analyze.failure_types import (
    FIXED,
    FREE_IN_BANK,
    ArenaFull,
    BelowLimit,
    Clash,
    CutsInto,
    OutOfMemory,
    PastEndOfL1,
    RingFull,
    TooLittleL1,
    TraceFull,
    TraceOverlap,
)
from ttmem.analyze.hold_reasons import Cause
from ttmem.analyze.process_layout import Block, ProgramBuffer
from ttmem.analyze.verdicts import Advice, Verdict
from ttmem.documents.common_text import short_line
from ttmem.model.core_sets import CoreRange
from ttmem.model.kinds import Kind
from ttmem.model.units import human

_LISTED = 4
_PARTS = {Kind.CB: "circular buffers", Kind.DFB: "dataflow buffers"}
_CAUSES = {
    Cause.PROGRAM_CACHE: "program cache",
    Cause.LIKELY_PROGRAM_CACHE: "of a program",
    Cause.TRACE: "a trace",
    Cause.SYSTEM: "the runtime's own",
}


def headline(verdict: Verdict) -> str:
    """What happened, in a few words.

    >>> headline(v.verdict_on(TraceFull(8192, 1, 4096)))
    'trace region too small: 8192 B of traces, 4096 B of room'
    """
    found = verdict.failure
    if isinstance(found, OutOfMemory):
        return f"out of memory: {found.per_bank} B of {found.kind.name} in each of {found.banks} banks, {verdict.why}"
    if isinstance(found, Clash):
        return f"clash: {_PARTS[found.kind]} reach {found.end - found.floor} B into an L1 buffer"
    if isinstance(found, PastEndOfL1):
        return f"too much for L1: {_PARTS[found.kind]} end {found.end - found.l1_size} B above it"
    if isinstance(found, TooLittleL1):
        needs = "its smallest slice" if found.need is None else f"{found.need} B on a core"
        return f"too little L1 for {found.operation}: {needs}, {found.have} B of room"
    if isinstance(found, RingFull):
        return f"kernel ring too small: a program of {found.size} B, {found.ring} B of room on {found.core_type} cores"
    if isinstance(found, TraceFull):
        return f"trace region too small: {found.size} B of traces, {found.region} B of room"
    if isinstance(found, TraceOverlap):
        return f"a trace at {found.address} would overlap buffers that its work uses"
    if isinstance(found, ArenaFull):
        return f"persistent L1 arena full: {found.size} B, {found.end - found.start} B of room"
    if isinstance(found, CutsInto):
        return f"a sub-device manager wants {found.size} B of L1 where a buffer is"
    return f"out of memory: a buffer would begin below {found.limit}"


def sentences(verdict: Verdict) -> list[tuple[str, list[str]]]:
    """Under each heading what there is to say; headings with nothing are left out."""
    parts = [
        ("where", _where(verdict)),
        ("why", _why(verdict)),
        ("held by", _who(verdict)),
        ("possible fixes", [advice_text(advice, verdict) for advice in verdict.advice]),
        ("not known", list(verdict.unknown)),
    ]
    return [(heading, lines) for heading, lines in parts if lines]


def _where(verdict: Verdict) -> list[str]:
    found = verdict.failure
    lines = [", ".join(filter(None, (verdict.tag, short_line(verdict.line))))] if verdict.tag or verdict.line else []
    if isinstance(found, (Clash, PastEndOfL1)):
        operation = f" {verdict.program.tag}" if verdict.program is not None and verdict.program.tag else ""
        program = f"program {found.program}{operation}" if isinstance(found, Clash) else operation.strip()
        lines.append(", ".join(filter(None, (program, f"cores {_cores(found.cores)}"))))
    if isinstance(found, RingFull) and found.kernels:
        lines.append(f"kernels {found.kernels}")
    return lines


def _why(verdict: Verdict) -> list[str]:
    found = verdict.failure
    if isinstance(found, OutOfMemory):
        return [_why_no_room(verdict)]
    if isinstance(found, Clash):
        return [
            f"the {_PARTS[found.kind]} end at {found.end}, the lowest L1 buffer begins at {found.floor} (on all cores: "
            "L1 buffers are in lock step)"
        ]
    if isinstance(found, PastEndOfL1):
        return [f"the {_PARTS[found.kind]} end at {found.end}, L1 at {found.l1_size}: no other buffer matters"]
    if isinstance(found, TooLittleL1):
        return [_why_refused(verdict, found)]
    if isinstance(found, RingFull):
        made_of = ", ".join(f"{name} {size}" for name, size in found.parts if size)
        return [f"{found.size - found.ring} B too many" + (f"; it is made of {made_of}" if made_of else "")]
    if isinstance(found, TraceFull):
        return [f"all live traces and the new one, rounded to pages, are {verdict.missing} B larger than the region"]
    if isinstance(found, TraceOverlap):
        return [f"without a trace region traces lie in DRAM; the work that is traced uses it up to {verdict.asked}"]
    if isinstance(found, ArenaFull):
        return [f"it is on cores {found.cores}, from {found.start} to {found.end}"]
    if isinstance(found, CutsInto):
        return [f"a block begins at {found.address} from the base of the bank"]
    assert isinstance(found, BelowLimit)
    return [f"it would have begun at {found.address}"] if found.address is not None else []


def _why_no_room(verdict: Verdict) -> str:
    asked = f"{verdict.asked} B in one piece are needed in every bank"
    free = f"{verdict.free} B" + ("" if verdict.size is None else f" of {verdict.size} B")
    if verdict.why == v.TOO_LARGE:
        return f"{asked}, and a bank has {verdict.size} B when it is empty"
    if verdict.why == v.TOO_FULL:
        pieces = "" if verdict.there == verdict.free else f", in pieces of {verdict.there} B and less"
        return f"{asked}, and {free} are free{pieces}"
    if verdict.why == v.FRAGMENTED:
        return f"{asked}; {free} are free, but the largest piece has {verdict.there} B: fragmented"
    return f"{asked}; how much is free the message does not tell"


def _why_refused(verdict: Verdict, found: TooLittleL1) -> str:
    if found.counts == FREE_IN_BANK:
        return f"however it is sliced it needs more than the {found.have} B that are free in a bank of L1"
    needs = f"it reckons with {found.need} B on each core"
    if found.counts == FIXED:
        return f"{needs} and never takes more than {found.have} B: no other buffer matters"
    if found.counts is None:
        return f"{needs}, and with {found.have} B that it may take"
    if verdict.why == v.TOO_LARGE and verdict.wall is None:
        return f"{needs}, and with {found.have} B that are there without any L1 buffer"
    top = "the lowest L1 buffer" + ("" if verdict.wall is not None else ", or to the top if there is none")
    part = "" if verdict.free in (None, found.have) else f" of the {verdict.free} B"
    more = f"; without any L1 buffer there are {verdict.size} B" if verdict.size is not None else ""
    return f"{needs}, and with {found.have} B{part} from the base of L1 to {top}{more}"


def _who(verdict: Verdict) -> list[str]:
    lines = [f"{block_text(block)}" for block in verdict.holders]
    if verdict.held > len(verdict.holders):
        lines.append(f"and {verdict.held - len(verdict.holders)} more")
    return lines + [piece_text(piece) for piece in verdict.pieces]


def block_text(block: Block) -> str:
    """A buffer, where it lies, and whose it is."""
    whose = ", ".join(filter(None, (block.tag, block.shape, short_line(block.line), _CAUSES.get(block.cause))))
    size = f"{block.per_bank} B" + (f" ({human(block.per_bank)})" if block.per_bank >= 1024 else "")
    return f"{block.address} to {block.end}: {size} {block.kind.name} {whose}".rstrip()


def piece_text(piece: ProgramBuffer) -> str:
    """A circular or dataflow buffer of the program that was refused."""
    name = "scratchpad" if piece.kind is Kind.SCRATCHPAD else _PARTS[piece.kind].removesuffix("s")
    return f"{piece.start} to {piece.end}: {piece.end - piece.start} B {name} of the program"


def _cores(cores: CoreRange) -> str:
    return f"{cores.x0},{cores.y0} to {cores.x1},{cores.y1}"


def _list(blocks: tuple[Block, ...]) -> str:
    shown = ", ".join(str(block.address) for block in blocks[:_LISTED])
    more = f" and {len(blocks) - _LISTED} more" if len(blocks) > _LISTED else ""
    return f"the {'buffer' if len(blocks) == 1 else f'{len(blocks)} buffers'} at {shown}{more}"


def advice_text(advice: Advice, verdict: Verdict) -> str:
    """Something that would help, with its numbers."""
    text = _ADVICE[advice.what](advice, verdict)
    return f"{text} ({advice.note})" if advice.note else text


def _free(advice: Advice, verdict: Verdict) -> str:
    cached = all(block.cause is Cause.PROGRAM_CACHE for block in advice.blocks)
    how = "clear_program_cache() frees" if cached else "free"
    if isinstance(verdict.failure, Clash):
        return (
            f"{how} {_list(advice.blocks)}, {advice.value} B in every bank: then {advice.gives} B are free above the "
            "end of the program"
        )
    if isinstance(verdict.failure, TooLittleL1):
        least = "at least " if advice.basis == v.AT_LEAST else ""
        then = (
            f"{advice.gives} B are free"
            if verdict.asked is None
            else f"there are {advice.gives} B more than it reckons with"
        )
        return f"{how} {least}{_list(advice.blocks)}, {advice.value} B in every bank: then {then}"
    return f"{how} {_list(advice.blocks)}, {advice.value} B in every bank: that makes one gap of {advice.gives} B"


def _remake(advice: Advice, verdict: Verdict) -> str:
    places = ", ".join(map(str, advice.addresses[:_LISTED])) + (" ..." if len(advice.addresses) > _LISTED else "")
    many = len(advice.blocks) > 1
    if isinstance(verdict.failure, OutOfMemory):
        again = "those again, the largest first: they" if many else "that one again: it"
        return f"or free {_list(advice.blocks)}, make this one, and then {again} would go to {places}"
    again = "them again, the largest first: they" if many else "it again: it"
    return f"or free {_list(advice.blocks)} and make {again} would go to {places}"


def _smaller(advice: Advice, verdict: Verdict) -> str:
    assert isinstance(verdict.failure, OutOfMemory)
    banks = verdict.failure.banks
    return (
        f"smaller: up to {advice.value} B in a bank fit as it is, {advice.gives} B over {banks} banks, in whole pages"
    )


def _more_cores(advice: Advice, verdict: Verdict) -> str:
    return f"if it is sharded: over {advice.value} cores or more, with at most {verdict.there} B on each"


def _use_dram(advice: Advice, verdict: Verdict) -> str:
    need = f"{advice.value} B in a bank and what whole pages add"
    return f"in DRAM: it takes {need}, and {advice.gives} B in one piece are free"


def _shrink(advice: Advice, verdict: Verdict) -> str:
    if isinstance(verdict.failure, TooLittleL1):
        return f"an operation that needs {advice.value} B less on each core: smaller shapes, rows or chunks"
    kind = verdict.failure.kind if isinstance(verdict.failure, (Clash, PastEndOfL1)) else Kind.CB
    least = "at least " if advice.basis == v.AT_LEAST else ""
    return f"{_PARTS[kind]} that are {least}{advice.value} B smaller on each of these cores"


def _small_size(advice: Advice, verdict: Verdict) -> str:
    if advice.value is None:
        return f"open the device with an l1_small_size that is {advice.gives} B larger"
    if isinstance(verdict.failure, (Clash, TooLittleL1)):
        return f"open the device with l1_small_size={advice.value}: all L1 buffers then lie {advice.gives} B higher"
    sure = {v.EXACT: "no less will do", v.AT_MOST: "less may do"}[advice.basis]
    return f"open the device with l1_small_size={advice.value}, {advice.gives} B more on each core: {sure}"


def _trace_size(advice: Advice, verdict: Verdict) -> str:
    if advice.value is None:
        return "open the device with a trace_region_size"
    banks = f", which takes {advice.gives} B of every bank" if advice.gives is not None else ""
    return f"open the device with trace_region_size={advice.value} or more{banks}"


def _worker_size(advice: Advice, verdict: Verdict) -> str:
    assert isinstance(verdict.failure, RingFull)
    most = f"get_max_worker_l1_unreserved_size() - {verdict.failure.size}"
    value = most if advice.value is None else f"{advice.value} ({most})"
    return f"open the device with worker_l1_size={value}: L1 for buffers is then {advice.gives} B smaller on each core"


_ADVICE = {
    v.FREE: _free,
    v.REMAKE: _remake,
    v.SMALLER: _smaller,
    v.MORE_CORES: _more_cores,
    v.USE_DRAM: _use_dram,
    v.SHRINK: _shrink,
    v.SMALL_SIZE: _small_size,
    v.TRACE_SIZE: _trace_size,
    v.WORKER_SIZE: _worker_size,
}
