# SPDX-License-Identifier: Apache-2.0
"""The verdict on a failed allocation: the request, the free memory, the holders, and possible fixes.

Every number is exact or labelled as a bound. Without a layout, only the numbers of the message are used, and the
verdict lists what is not known.
"""

from __future__ import annotations

from ttmem.analyze import minimal_frees as blockers
from ttmem.analyze.failure_types import (
    FIXED,
    FREE_IN_BANK,
    PART_BELOW,
    ArenaFull,
    BelowLimit,
    Clash,
    CutsInto,
    Failure,
    OutOfMemory,
    PastEndOfL1,
    RingFull,
    TooLittleL1,
    TraceFull,
    TraceOverlap,
)
from ttmem.analyze.hold_reasons import Cause
from ttmem.analyze.out_of_memory import verdict_on_request
from ttmem.analyze.process_layout import Bank, Block, ProcessLayout, ProgramBuffer, ProgramLayout, round_up
from ttmem.analyze.verdict_types import (
    AT_LEAST,
    AT_MOST,
    BEYOND,
    CLASH,
    DYNAMIC_TRACE,
    EXACT,
    FREE,
    FREE_LARGEST,
    NO_LAYOUT,
    NOT_KNOWN,
    OVERLAP,
    REMAKE,
    SHRINK,
    SMALL_SIZE,
    TOO_FULL,
    TOO_LARGE,
    TOO_SMALL,
    TRACE_SIZE,
    WORKER_SIZE,
    Advice,
    Verdict,
    held_by,
    of_something_else,
)
from ttmem.model.core_sets import CoreRange, mask_of
from ttmem.model.kinds import Kind

_TRACE_STEP_BYTES = 8192  # tt-metal rounds the trace region of a bank up to this


def verdict_on(
    failure: Failure, layout: ProcessLayout | None = None, tag: str | None = None, line: str | None = None
) -> Verdict:
    """The verdict on a failed allocation.

    ``layout`` is what was live at that moment, ``tag`` the operation and ``line`` the line of Python, if known.
    """
    if isinstance(failure, OutOfMemory):
        verdict = verdict_on_request(failure, layout, tag, line)
    elif isinstance(failure, Clash):
        verdict = _clash(failure, layout)
    elif isinstance(failure, PastEndOfL1):
        verdict = _beyond(failure, layout)
    elif isinstance(failure, TooLittleL1):
        verdict = _no_room(failure, layout)
    elif isinstance(failure, RingFull):
        verdict = _ring(failure, layout)
    elif isinstance(failure, TraceFull):
        verdict = _trace(failure, layout)
    else:
        verdict = _other(failure, layout)
    return verdict._replace(tag=tag, line=line)


# -- circular and dataflow buffers -----------------------------------------------------------------------------------


def _clash(failure: Clash, layout: ProcessLayout | None) -> Verdict:
    over = failure.end - failure.floor
    verdict = Verdict(failure, CLASH, failure.end, failure.floor)
    shrink = Advice(SHRINK, over)
    if failure.service:
        return verdict._replace(advice=(shrink,), unknown=("what the runtime keeps on its service cores",))
    if layout is None:
        return verdict._replace(advice=(shrink,), unknown=(NO_LAYOUT,))
    program = layout.program(failure.program)
    verdict = verdict._replace(program=program, pieces=_pieces(program, failure.cores))
    bank = layout.bank(Kind.L1)
    wall = next((block for block in bank.blocks if block.address == failure.floor), None) if bank else None
    if bank is None or wall is None:
        return verdict._replace(
            advice=(shrink,), unknown=(f"which buffer is at {failure.floor:#x}: ttmem has recorded none there",)
        )
    gone = blockers.below(bank, failure.end)
    advice = _making_way(bank, gone, failure.end)
    small = layout.bank(Kind.L1_SMALL)
    if small is not None and small.size:
        # L1 buffers keep their distance from the L1_SMALL region, so they move up when it becomes smaller.
        less = round_up(over, layout.unit)
        spare = small.gaps[0][1] - small.base if small.gaps and small.gaps[0][0] == small.base else 0
        if less <= spare:
            advice.append(
                Advice(SMALL_SIZE, small.size - less, less, AT_MOST, note="if L1_SMALL never needs more than now")
            )
    return held_by(gone, verdict._replace(wall=wall, advice=(*advice, shrink)))


def _making_way(bank: Bank, gone: tuple[Block, ...], end: int, basis: str = EXACT) -> list[Advice]:
    """Ways to let a program reach ``end``: free or move the blocks ``gone``, which begin below it."""
    after = blockers.floor_without(bank, gone)
    advice = [Advice(FREE, sum(block.per_bank for block in gone), after - end, basis, blocks=gone)]
    moved = blockers.made_anew(bank, gone)
    if moved is not None and all(address >= end for _, address in moved):
        blocks, addresses = zip(*moved)
        gives = min(min(addresses), after) - end
        advice.append(Advice(REMAKE, None, gives, basis, blocks=blocks, addresses=addresses))
        return advice
    # The blocks may fit where a larger buffer was.
    others = [block for block in bank.blocks if block not in gone and block.cause is Cause.HELD]
    largest = max(others, key=lambda block: block.per_bank, default=None)
    if largest is None or any(block.per_bank >= largest.per_bank for block in gone):
        return advice
    left = bank.without((largest,))
    moved = blockers.made_anew(left, gone)
    if moved is not None and all(address >= end for _, address in moved):
        blocks, addresses = zip(*moved)
        gives = min(min(addresses), blockers.floor_without(left, gone)) - end
        advice.append(Advice(FREE_LARGEST, largest.per_bank, gives, basis, (largest, *blocks), addresses))
    return advice


def _pieces(program: ProgramLayout | None, cores: CoreRange) -> tuple[ProgramBuffer, ...]:
    mask = mask_of([cores])
    return () if program is None else tuple(piece for piece in program.pieces if piece.cores & mask)


def _beyond(failure: PastEndOfL1, layout: ProcessLayout | None) -> Verdict:
    over = failure.end - failure.l1_size
    # The message does not name the program: it is the newest one that ends at this address.
    found = None
    if layout is not None:
        found = next(
            (one for one in reversed(layout.programs)
             if any(piece.end == failure.end for piece in _pieces(one, failure.cores))), None,
        )  # fmt: skip
    return Verdict(
        failure, BEYOND, failure.end, failure.l1_size, size=failure.l1_size, program=found,
        pieces=_pieces(found, failure.cores), advice=(Advice(SHRINK, over, basis=AT_LEAST),),
        unknown=(NO_LAYOUT,) if layout is None else (),
    )  # fmt: skip


# -- operations that check L1 before they allocate --------------------------------------------------------------------


def _no_room(failure: TooLittleL1, layout: ProcessLayout | None) -> Verdict:
    over = None if failure.need is None else failure.need - failure.have
    shrink = () if over is None else (Advice(SHRINK, over, basis=AT_LEAST),)
    why = TOO_LARGE if failure.counts == FIXED else TOO_FULL if failure.counts is not None else NOT_KNOWN
    verdict = Verdict(failure, why, failure.need, failure.have, advice=shrink)
    if failure.counts == FIXED:
        return verdict._replace(size=failure.have)
    if failure.counts is None:
        return verdict._replace(unknown=("what the operation counts as available, so whether freeing L1 would help",))
    if layout is None:
        return verdict._replace(unknown=(NO_LAYOUT,))
    if failure.counts == FREE_IN_BANK:
        return _no_slice(failure, layout, verdict)
    return _no_height(failure, layout, verdict)


def _no_slice(failure: TooLittleL1, layout: ProcessLayout, verdict: Verdict) -> Verdict:
    """The operation compared its need with all free bytes of a bank, contiguous or not."""
    empty = layout.bank(Kind.L1, allocated=0)
    assert empty is not None  # the base and size of L1 are always known
    bank = layout.bank(Kind.L1, allocated=empty.size - failure.have)
    assert bank is not None
    if bank.free != failure.have:
        return verdict._replace(unknown=(of_something_else("free in a bank", bank.free, failure.have),))
    verdict = held_by(bank.blocks, verdict._replace(free=failure.have, size=bank.size))
    if not bank.blocks:
        return verdict._replace(why=TOO_LARGE)
    held = sum(block.per_bank for block in bank.blocks)
    note = "whether this is enough is not known: the message does not contain how much is needed"
    return verdict._replace(advice=(Advice(FREE, held, bank.size, AT_MOST, bank.blocks, note=note),))


def _no_height(failure: TooLittleL1, layout: ProcessLayout, verdict: Verdict) -> Verdict:
    """The circular or dataflow buffers, from the base of L1, would not end below the lowest L1 buffer."""
    bank = layout.bank(Kind.L1)
    assert bank is not None
    assert failure.need is not None
    if not bank.blocks:
        return verdict._replace(why=TOO_LARGE)
    room = bank.blocks[0].address - bank.base
    if failure.have != room and not (failure.counts == PART_BELOW and failure.have < room):
        return verdict._replace(unknown=(of_something_else("below the lowest L1 buffer", room, failure.have),))
    verdict = verdict._replace(wall=bank.blocks[0], free=room)
    end = bank.base + failure.need
    if end > bank.end:
        return verdict._replace(why=TOO_LARGE, size=bank.size)
    # The operation's estimate is not exact, and one that counts only a part needs more than it reports.
    gone = blockers.below(bank, max(end, bank.blocks[0].address + 1))
    return held_by(gone, verdict._replace(advice=(*_making_way(bank, gone, end, AT_LEAST), *verdict.advice)))


# -- regions that are sized when the device is opened -----------------------------------------------------------------


def _ring(failure: RingFull, layout: ProcessLayout | None) -> Verdict:
    advice = []
    if failure.core_type == "TENSIX":
        geometry = layout.geometry if layout is not None else None
        value = None if geometry is None else geometry.l1_size - geometry.map_end - failure.size
        advice.append(Advice(WORKER_SIZE, value, failure.size - failure.ring))
    return Verdict(
        failure, TOO_SMALL, failure.size, failure.ring, size=failure.ring, advice=tuple(advice),
        unknown=() if failure.parts else ("the parts of the program: messages of this release do not list them",),
    )  # fmt: skip


def _trace(failure: TraceFull, layout: ProcessLayout | None) -> Verdict:
    per_bank = None
    if layout is not None:
        per_bank = round_up(-(-failure.size // layout.geometry.dram_banks), _TRACE_STEP_BYTES)
    note = "each trace is rounded up to whole pages in every bank, so several traces may need slightly more"
    advice = Advice(TRACE_SIZE, failure.size, per_bank, AT_LEAST, note=note), Advice(DYNAMIC_TRACE)
    verdict = Verdict(failure, TOO_SMALL, failure.size, failure.region, size=failure.region, advice=advice)
    bank = layout.bank(Kind.TRACE) if layout is not None else None
    return verdict._replace(unknown=(NO_LAYOUT,)) if bank is None else held_by(bank.blocks, verdict)


def _other(failure: TraceOverlap | BelowLimit | ArenaFull | CutsInto, layout: ProcessLayout | None) -> Verdict:
    if isinstance(failure, TraceOverlap):
        mark = max(m for m in (failure.allocated, failure.freed, failure.other, 0) if m is not None)
        advice = Advice(TRACE_SIZE, note="large enough for all traces: they then have a region of their own")
        return Verdict(failure, OVERLAP, mark, failure.address, advice=(advice,), unknown=("how large the trace is",))
    if isinstance(failure, ArenaFull):
        room = failure.end - failure.start
        why = TOO_LARGE if failure.size > room else NOT_KNOWN
        return Verdict(failure, why, failure.size, size=room, unknown=("what else is in the arena",))
    if isinstance(failure, BelowLimit):
        return Verdict(failure, TOO_FULL, failure.limit, failure.address, unknown=("how large the buffer is",))
    bank = layout.bank(Kind.L1) if layout is not None else None
    # The address is relative to the base of the bank, as in all block tables.
    gone = () if bank is None else blockers.below(bank, bank.base + failure.size)
    advice_ = (Advice(FREE, sum(b.per_bank for b in gone), failure.size, blocks=gone),) if gone else ()
    unknown = (NO_LAYOUT,) if layout is None else ()
    return held_by(gone, Verdict(failure, OVERLAP, failure.size, failure.address, advice=advice_, unknown=unknown))
