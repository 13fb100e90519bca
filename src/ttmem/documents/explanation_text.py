# SPDX-License-Identifier: Apache-2.0
"""A verdict in sentences, for every screen that shows one. Addresses are hexadecimal; sizes state what they are of."""

from __future__ import annotations

from ttmem.analyze import verdict_types as v
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
from ttmem.analyze.verdict_types import Advice, Verdict
from ttmem.documents.block_text import PARTS, bank_word, group_text, listed, parts_text
from ttmem.documents.common_text import short_line
from ttmem.model.core_sets import CoreRange
from ttmem.model.kinds import Kind
from ttmem.model.units import exact

_LISTED = 4
_DYNAMIC_TRACE_SINCE = "0.78"  # releases from here on place traces in DRAM if there is no region


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
        return [_why_no_room(verdict, bank_word(found.kind)), *_why_shape(verdict)]
    if isinstance(found, Clash):
        return [
            f"the {PARTS[found.kind]}s end at {found.end:#x}, the lowest L1 buffer begins at {found.floor:#x} "
            "(an L1 buffer has the same address on all cores)"
        ]
    if isinstance(found, PastEndOfL1):
        return [
            f"the {PARTS[found.kind]}s end at {found.end:#x}, L1 ends at {found.l1_size:#x}; "
            "this does not depend on other buffers"
        ]
    if isinstance(found, TooLittleL1):
        return [_why_refused(verdict, found)]
    if isinstance(found, RingFull):
        made_of = ", ".join(f"{name} {exact(size)}" for name, size in found.parts if size)
        return [f"{exact(found.size - found.ring)} per core too much" + (f"; its parts: {made_of}" if made_of else "")]
    if isinstance(found, TraceFull):
        over = exact(found.size - found.region)
        return [f"all live traces and the new one, rounded to pages, are {over} over all banks larger than the region"]
    if isinstance(found, TraceOverlap):
        return [
            "without a trace region, traces are placed in DRAM above everything that the traced work uses, here up to "
            f"{verdict.asked or 0:#x}"
        ]
    if isinstance(found, ArenaFull):
        return [f"the arena is on cores {found.cores}, from {found.start:#x} to {found.end:#x}"]
    if isinstance(found, CutsInto):
        return [f"a buffer begins {found.address:#x} above the base of the bank"]
    assert isinstance(found, BelowLimit)
    return [f"it would begin at {found.address:#x}"] if found.address is not None else []


def _why_no_room(verdict: Verdict, word: str) -> str:
    asked = f"{exact(verdict.asked or 0)} per {word} is needed in one piece"
    free = exact(verdict.free or 0) + ("" if verdict.size is None else f" of {exact(verdict.size)}")
    if verdict.why == v.TOO_LARGE:
        return f"{asked}; an empty {word} has {exact(verdict.size or 0)}"
    if verdict.why == v.TOO_FULL:
        pieces = "" if verdict.there == verdict.free else f", in pieces of at most {exact(verdict.there or 0)}"
        return f"{asked}; {free} per {word} is free{pieces}"
    if verdict.why == v.FRAGMENTED:
        return f"{asked}; {free} per {word} is free, but the largest piece has {exact(verdict.there or 0)}: fragmented"
    return f"{asked}; the message does not contain how much is free"


def _why_shape(verdict: Verdict) -> list[str]:
    """Where the shape in the first line comes from: ttnn's message does not contain it."""
    if verdict.shape is None:
        return []
    return ["the likely shape is that of the other buffers of this size, operation and line"]


def _why_refused(verdict: Verdict, found: TooLittleL1) -> str:
    if found.counts == FREE_IN_BANK:
        return f"in the smallest slices, it needs more than the {exact(found.have)} per core that is free in L1"
    needs = f"by its own calculation it needs {exact(found.need or 0)} per core"
    if found.counts == FIXED:
        return f"{needs} and never takes more than {exact(found.have)}; this does not depend on other buffers"
    if found.counts is None:
        return f"{needs}, and {exact(found.have)} is available to it"
    if verdict.why == v.TOO_LARGE and verdict.wall is None:
        return f"{needs}, and L1 without any buffer has {exact(found.have)}"
    top = "the lowest L1 buffer" + ("" if verdict.wall is not None else " (or to the top, if there is none)")
    part = "" if verdict.free in (None, found.have) else f" of the {exact(verdict.free)}"
    more = f"; without any L1 buffer it is {exact(verdict.size)}" if verdict.size is not None else ""
    return f"{needs}; available to it: {exact(found.have)}{part} from the base of L1 to {top}{more}"


def _who(verdict: Verdict) -> list[str]:
    own = verdict.global_buffer.own if verdict.global_buffer is not None else None
    lines = [
        group_text(group)
        + (" (data of this global circular buffer)" if own is not None and own in group.blocks else "")
        for group in verdict.holders
    ]
    shown = sum(group.buffers for group in verdict.holders)
    if verdict.held > shown:
        lines.append(f"and {verdict.held - shown:,} more buffers")
    return lines + parts_text(verdict.pieces)


def _cores(cores: CoreRange) -> str:
    return f"{cores.x0},{cores.y0} to {cores.x1},{cores.y1}"


def advice_text(advice: Advice, verdict: Verdict) -> str:
    """Something that would help, with its numbers."""
    text = _ADVICE[advice.what](advice, verdict)
    return f"{text} ({advice.note})" if advice.note else text


def _free(advice: Advice, verdict: Verdict) -> str:
    cached = all(block.cause is Cause.PROGRAM_CACHE for block in advice.blocks)
    how = "clear_program_cache() frees" if cached else "free"
    word = bank_word(advice.blocks[0].kind)
    freed = f"{exact(advice.value or 0)} per {word}"
    gives = exact(advice.gives or 0)
    if isinstance(verdict.failure, Clash):
        return f"{how} {listed(advice.blocks)}, {freed}: {gives} is then free above the end of the program"
    if isinstance(verdict.failure, TooLittleL1):
        least = "at least " if advice.basis == v.AT_LEAST else ""
        then = (
            f"{gives} is then free" if verdict.asked is None else f"{gives} more than it calculated is then available"
        )
        return f"{how} {least}{listed(advice.blocks)}, {freed}: {then}"
    return f"{how} {listed(advice.blocks)}, {freed}: this leaves one gap of {gives} per {word}"


def _free_largest(advice: Advice, verdict: Verdict) -> str:
    word = bank_word(advice.blocks[0].kind)
    if advice.addresses:
        largest, others = advice.blocks[:1], advice.blocks[1:]
        return (
            f"or free the largest buffer: {listed(largest)}, {exact(advice.value or 0)} per {word}; also free "
            f"{listed(others)} and allocate {_again(advice.addresses)}"
        )
    which = "the largest buffer" if len(advice.blocks) == 1 else "the largest buffer and its neighbours"
    return (
        f"or free {which}: {listed(advice.blocks)}, {exact(advice.value or 0)} per {word}: this leaves one gap of "
        f"{exact(advice.gives or 0)} per {word}"
    )


def _remake(advice: Advice, verdict: Verdict) -> str:
    again = _again(advice.addresses)
    if isinstance(verdict.failure, OutOfMemory):
        return f"or free {listed(advice.blocks)}, make this request, and then allocate {again}"
    return f"or free {listed(advice.blocks)} and allocate {again}"


def _again(addresses: tuple[int, ...]) -> str:
    places = ", ".join(f"{address:#x}" for address in addresses[:_LISTED])
    places += " ..." if len(addresses) > _LISTED else ""
    return f"{'them again, the largest first: they go' if len(addresses) > 1 else 'it again: it goes'} to {places}"


def _smaller(advice: Advice, verdict: Verdict) -> str:
    found = verdict.failure
    assert isinstance(found, OutOfMemory)
    if verdict.global_buffer is not None:
        sure = ", possibly slightly more" if advice.basis == v.AT_LEAST else ""
        return (
            f"make the global circular buffer smaller: size={advice.value} fits now{sure} (a global circular buffer "
            "takes its full size on every core, so more cores do not help)"
        )
    word = bank_word(found.kind)
    most, pages = ("at most", "rounded down to") if advice.basis == v.AT_MOST else ("up to", "in")
    return (
        f"request less: {most} {exact(advice.value or 0)} per {word} fits now, {exact(advice.gives or 0)} over "
        f"{found.banks} {word}s, {pages} whole pages"
    )


def _more_cores(advice: Advice, verdict: Verdict) -> str:
    return f"if it is sharded: use {advice.value} cores or more, with at most {exact(verdict.there or 0)} per core"


def _use_dram(advice: Advice, verdict: Verdict) -> str:
    need = f"{exact(advice.value or 0)} per bank, plus rounding to whole pages"
    return f"put it into DRAM: it needs {need}, and {exact(advice.gives or 0)} per bank is free in one piece"


def _shrink(advice: Advice, verdict: Verdict) -> str:
    if isinstance(verdict.failure, TooLittleL1):
        return f"make it need {exact(advice.value or 0)} less per core, with smaller shapes, rows or chunks"
    kind = verdict.failure.kind if isinstance(verdict.failure, (Clash, PastEndOfL1)) else Kind.CB
    least = "at least " if advice.basis == v.AT_LEAST else ""
    return f"make the {PARTS[kind]}s {least}{exact(advice.value or 0)} smaller on each of these cores"


def _small_size(advice: Advice, verdict: Verdict) -> str:
    gives = exact(advice.gives or 0)
    if advice.value is None:
        return f"open the device with an l1_small_size that is {gives} larger"
    if isinstance(verdict.failure, (Clash, TooLittleL1)):
        return (
            f"open the device with l1_small_size={advice.value}: all L1 buffers are then {gives} higher on every core"
        )
    sure = {v.EXACT: "exactly enough for this request", v.AT_MOST: "certainly enough for this request"}[advice.basis]
    return f"open the device with l1_small_size={advice.value}, {gives} more per core: {sure}"


def _trace_size(advice: Advice, verdict: Verdict) -> str:
    if advice.value is None:
        return "open the device with a trace_region_size"
    banks = f", which takes {exact(advice.gives)} per bank" if advice.gives is not None else ""
    return f"open the device with trace_region_size={advice.value} or more{banks}"


def _dynamic_trace(advice: Advice, verdict: Verdict) -> str:
    return (
        f"or, with ttnn {_DYNAMIC_TRACE_SINCE} or newer, open the device with trace_region_size=0 (the default): each "
        "trace is then placed in DRAM when it is captured, above all DRAM that the traced work uses"
    )


def _worker_size(advice: Advice, verdict: Verdict) -> str:
    assert isinstance(verdict.failure, RingFull)
    most = f"get_max_worker_l1_unreserved_size() - {verdict.failure.size}"
    value = most if advice.value is None else f"{advice.value} ({most})"
    less = exact(advice.gives or 0)
    return f"open the device with worker_l1_size={value}: L1 for buffers is then {less} smaller on each core"


_ADVICE = {
    v.FREE: _free,
    v.FREE_LARGEST: _free_largest,
    v.REMAKE: _remake,
    v.SMALLER: _smaller,
    v.MORE_CORES: _more_cores,
    v.USE_DRAM: _use_dram,
    v.SHRINK: _shrink,
    v.SMALL_SIZE: _small_size,
    v.TRACE_SIZE: _trace_size,
    v.DYNAMIC_TRACE: _dynamic_trace,
    v.WORKER_SIZE: _worker_size,
}
