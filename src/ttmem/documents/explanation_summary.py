# SPDX-License-Identifier: Apache-2.0
"""The first two lines of an explanation: what was requested, and what holds the rest."""

from __future__ import annotations

from ttmem.analyze import verdict_types as v
from ttmem.analyze.failure_types import (
    ArenaFull,
    Clash,
    CutsInto,
    OutOfMemory,
    PastEndOfL1,
    RingFull,
    TooLittleL1,
    TraceFull,
    TraceOverlap,
)
from ttmem.analyze.verdict_types import Verdict
from ttmem.documents.block_text import PARTS, bank_word, brief_group, brief_parts, place_of
from ttmem.model.core_sets import CoreRange
from ttmem.model.kinds import Kind
from ttmem.model.units import exact, short

_GROUPS_SHOWN = 3
_RING_PARTS = ("runtime args", "semaphores", "circular buffers", "dataflow buffers", "kernel text")
_ROUNDING = 1.01  # a request over all banks may be this much larger than the tensor


def headline(verdict: Verdict) -> str:
    """What was requested, where, and what was available.

    >>> from ttmem.analyze.verdicts import verdict_on
    >>> headline(verdict_on(TraceFull(8192, 1, 4096), None, "ttnn.add", "model.py:5 main"))
    'trace region too small: 8 KiB of traces over all banks at model.py:5 (ttnn.add); the region has 4 KiB'
    """
    found, at = verdict.failure, _at(verdict)
    if isinstance(found, OutOfMemory):
        return f"out of memory: {_request(verdict, found)}"
    if isinstance(found, Clash):
        over = exact(found.end - found.floor)
        wall = "an L1 buffer" if not found.service else "L1 of the runtime"
        return (
            f"clash: {PARTS[found.kind]}s{_of_program(verdict)} reach {over} per core into {wall}, {_on(found.cores)}"
        )
    if isinstance(found, PastEndOfL1):
        over = exact(found.end - found.l1_size)
        what = f"{PARTS[found.kind]}s{_of_program(verdict)}"
        return f"too much for L1: {what} end {over} above the end of L1, {_on(found.cores)}"
    if isinstance(found, TooLittleL1):
        needs = "more than is free" if found.need is None else f"{exact(found.need)} per core"
        place = place_of(verdict.line)
        where = f" at {place}" if place else ""
        return f"too little L1: {found.operation}{where} needs {needs}; {exact(found.have)} per core available"
    if isinstance(found, RingFull):
        what = f"a program{_of_program(verdict)} needs {exact(found.size)} per {found.core_type} core"
        return f"kernel ring too small: {what}; the ring has {exact(found.ring)}"
    if isinstance(found, TraceFull):
        return (
            f"trace region too small: {exact(found.size)} of traces over all banks{at}; "
            f"the region has {exact(found.region)}"
        )
    if isinstance(found, TraceOverlap):
        return f"trace overlap: a trace buffer at {found.address:#x}{at} would overlap DRAM that the traced work uses"
    if isinstance(found, ArenaFull):
        room = exact(found.end - found.start)
        return f"persistent L1 arena full: {exact(found.size)} per core{at}; the arena has {room} per core"
    if isinstance(found, CutsInto):
        return f"no room for a sub-device manager: {exact(found.size)} per core of L1{at}, where a buffer is"
    return f"out of memory: a buffer{at} would begin below {found.limit:#x}"


def held_by(verdict: Verdict) -> str:
    """What holds the memory that was needed, identical buffers together; or that it is not known."""
    found = verdict.failure
    if isinstance(found, RingFull):
        parts = [(size, name) for name, size in found.parts if size and name in _RING_PARTS]
        listed = ", ".join(f"{short(size)} {name}" for size, name in sorted(parts, reverse=True))
        return f"held by the program itself: {listed}" if listed else "held by the program itself"
    if isinstance(found, PastEndOfL1):
        parts_ = brief_parts(verdict.pieces)
        return f"held by the program itself: {parts_}" if parts_ else "held by the program itself"
    if isinstance(found, TooLittleL1) and verdict.why == v.TOO_LARGE:
        return "held by no buffer: it does not fit without other buffers either"
    banks = _banks_in_sum(found) if isinstance(found, OutOfMemory) else None
    own = verdict.global_buffer.own if verdict.global_buffer is not None else None
    texts = [
        brief_group(group, banks) + (", its own data" if own is not None and own in group.blocks else "")
        for group in verdict.holders[:_GROUPS_SHOWN]
    ]
    if texts:
        shown = sum(group.buffers for group in verdict.holders[:_GROUPS_SHOWN])
        rest = f"; {verdict.held - shown:,} more" if verdict.held > shown else ""
        return f"held by {'; '.join(texts)}{rest}"
    if verdict.unknown:
        return "held by: not known" + (" from a log; `ttmem run` lists it" if verdict.unknown[0] == v.NO_LAYOUT else "")
    return "held by no buffer"


def _request(verdict: Verdict, found: OutOfMemory) -> str:
    """Sizes over all banks if the request is spread over them evenly, else of one bank."""
    word, name = bank_word(found.kind), found.kind.name
    banks = _banks_in_sum(found)
    size = _Sizes(found.size if banks else found.per_bank, verdict.free, verdict.there, banks or 1)
    unit = f"over {found.banks} {word}s" if banks else f"on each of {found.banks} {word}s"
    what = f"{size.asked} of {name} {unit}{_for(verdict)}{_at(verdict)}"
    if verdict.free is None:
        return f"{what}; free memory not known"
    each = "" if banks else f" per {word}"
    if verdict.why == v.TOO_LARGE and verdict.size is not None:
        return f"{what}; the empty memory has {short(verdict.size * (banks or 1))}{each}"
    if verdict.why == v.FRAGMENTED:
        return f"{what}; {size.free} free{each}, but the largest free block has {size.largest}"
    return f"{what}; {size.free} free{each}"


class _Sizes:
    """Sizes that are compared: exact, if they would look alike otherwise."""

    def __init__(self, asked: int, free: int | None, largest: int | None, banks: int) -> None:
        sizes = [size for size in (asked, (free or 0) * banks, (largest or 0) * banks) if size]
        form = short if len({short(size) for size in sizes}) == len(set(sizes)) else exact
        self.asked = form(asked)
        self.free = form((free or 0) * banks)
        self.largest = form((largest or 0) * banks)


def _banks_in_sum(found: OutOfMemory) -> int | None:
    """The number of banks, if sizes are to be shown over all of them; None if they are shown for one."""
    spread = found.size <= found.per_bank * found.banks <= found.size * _ROUNDING
    interleaved = found.kind is Kind.DRAM or (found.kind is Kind.L1 and found.banks >= 56)
    return found.banks if spread and interleaved and found.banks else None


def _for(verdict: Verdict) -> str:
    """The tensor or the global circular buffer that needs the memory."""
    buffer = verdict.global_buffer
    if buffer is not None:
        if buffer.own is None:
            return " for a global circular buffer"
        return f" for the configuration of a global circular buffer of {exact(buffer.data)} per core"
    return f" for a tensor (likely {verdict.shape})" if verdict.shape else ""


def _at(verdict: Verdict) -> str:
    place = place_of(verdict.line)
    if place is None:
        return f" in {verdict.tag}" if verdict.tag else ""
    return f" at {place}" + (f" ({verdict.tag})" if verdict.tag else "")


def _of_program(verdict: Verdict) -> str:
    tag = (verdict.program.tag if verdict.program is not None else None) or verdict.tag
    place = place_of(verdict.line)
    return (f" of {tag}" if tag else "") + (f" at {place}" if place else "")


def _on(cores: CoreRange) -> str:
    return f"on cores {cores.x0},{cores.y0} to {cores.x1},{cores.y1}"
