# SPDX-License-Identifier: Apache-2.0
"""The verdict on a failed allocation: what was requested, what was free, who holds the memory, what would help.

Every number is exact, or a bound that is called one. Without a layout only the message's own numbers are used, and the
verdict says what is not known.
"""

from __future__ import annotations

from typing import NamedTuple

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
from ttmem.analyze.process_layout import Bank, Block, ProcessLayout, ProgramBuffer, ProgramLayout, round_up
from ttmem.model.core_sets import CoreRange, mask_of
from ttmem.model.geometry import BOARDS
from ttmem.model.kinds import Kind

_HOLDERS_SHOWN = 5
_MOST_CORES = max(board.cores for board in BOARDS.values())  # of a chip that nobody told of
_TRACE_STEP_BYTES = 8192  # to which tt-metal rounds the trace region of a bank

# Why it failed, in one word.
TOO_LARGE = "too large"  # for an empty bank
TOO_FULL = "too full"  # less is free than was asked for
FRAGMENTED = "fragmented"  # enough is free, but not in one piece
TOO_SMALL = "region too small"  # of a size that was chosen when the device was opened
CLASH = "clash"
BEYOND = "beyond L1"
OVERLAP = "overlap"
NOT_KNOWN = "not known"

# What could be done.
FREE = "free"
REMAKE = "make anew"
SMALLER = "smaller"
MORE_CORES = "more cores"
USE_DRAM = "use DRAM"
SHRINK = "shrink program"
SMALL_SIZE = "l1_small_size"
TRACE_SIZE = "trace_region_size"
WORKER_SIZE = "worker_l1_size"

# How sure a number is.
EXACT = "exact"
AT_LEAST = "at least"
AT_MOST = "at most"

NO_LAYOUT = "who holds the memory: a message does not tell; under `ttmem run` the account does"
UNHEARD = "who holds the memory: a message does not tell, nor does `ttmem run`, as an operation refused by itself"


class Advice(NamedTuple):
    """Something that would help. What ``value`` and ``gives`` count depends on ``what``; see docs/explain.md."""

    what: str
    value: int | None = None
    gives: int | None = None
    basis: str = EXACT
    blocks: tuple[Block, ...] = ()
    addresses: tuple[int, ...] = ()  # where those would go
    note: str | None = None


class Verdict(NamedTuple):
    """Bytes are those of one bank or core, but for trace regions, which are counted over all banks."""

    failure: Failure
    why: str
    asked: int | None = None
    there: int | None = None  # the most that could have been had
    free: int | None = None
    size: int | None = None  # of the bank, region or ring
    holders: tuple[Block, ...] = ()  # the largest
    held: int = 0  # how many there are
    wall: Block | None = None  # the L1 buffer that was run into
    program: ProgramLayout | None = None
    pieces: tuple[ProgramBuffer, ...] = ()  # of that program on those cores
    advice: tuple[Advice, ...] = ()
    unknown: tuple[str, ...] = ()
    tag: str | None = None  # the operation that was refused
    line: str | None = None  # of the workload's source

    @property
    def missing(self) -> int | None:
        """By how many bytes it failed."""
        return None if self.asked is None or self.there is None else self.asked - self.there


def verdict_on(failure: Failure, layout: ProcessLayout | None = None) -> Verdict:
    """The verdict on a refusal; ``layout`` is what was live at that moment, if that is known."""
    if isinstance(failure, OutOfMemory):
        return _out_of_memory(failure, layout)
    if isinstance(failure, Clash):
        return _clash(failure, layout)
    if isinstance(failure, PastEndOfL1):
        return _beyond(failure, layout)
    if isinstance(failure, TooLittleL1):
        return _no_room(failure, layout)
    if isinstance(failure, RingFull):
        return _ring(failure, layout)
    if isinstance(failure, TraceFull):
        return _trace(failure, layout)
    return _other(failure, layout)


# -- out of memory ---------------------------------------------------------------------------------------------------


def _out_of_memory(failure: OutOfMemory, layout: ProcessLayout | None) -> Verdict:
    bank, unknown = _bank_of(failure, layout)
    size = failure.bank_size if failure.bank_size is not None else bank.size if bank else None
    free = failure.free if failure.free is not None else bank.free if bank else None
    largest = failure.largest_window if failure.largest_window is not None else failure.largest
    if largest is None and bank is not None:
        largest = bank.largest
    # A request is rounded up to the step of the bank, which free blocks are multiples of.
    asked = bank.takes(failure.per_bank) if bank else failure.per_bank
    verdict = Verdict(failure, _why(asked, size, free, largest), asked, largest, free, size)
    if bank is not None:
        verdict = _held(bank.blocks, verdict)
    advice = []
    if failure.kind is Kind.L1_SMALL:
        advice.append(_small_size(failure, size, bank))
        if verdict.held:
            unknown.append(
                "what clear_program_cache() would give back: whether a buffer is of a cached program or of the one "
                "that is being made cannot be seen"
            )
    else:
        if bank is not None and not failure.dependent:
            advice += _freeing(bank, failure)
        advice += _fitting(failure, largest, layout)
    if failure.dependent:
        unknown.append("which buffers of other allocators (sub-devices, single cores) are in the way")
    return verdict._replace(advice=tuple(advice), unknown=tuple(unknown))


def _bank_of(failure: OutOfMemory, layout: ProcessLayout | None) -> tuple[Bank | None, list[str]]:
    """The bank that was full, if the account's agrees with the message; else why it is of no use."""
    if layout is None:
        return None, [NO_LAYOUT]
    bank = layout.bank(failure.kind, failure.bank_size, failure.allocated)
    if bank is None:
        return None, ["where the banks begin: the message of this release does not tell their size"]
    compared = (
        ("size", bank.size, failure.bank_size),
        ("allocated", bank.allocated, failure.allocated),
        ("largest gap", bank.largest, failure.largest),
    )
    for what, known, reported in compared:
        if reported is not None and reported != known:
            return None, [_of_something_else(f"{what} of a bank", known, reported)]
    return bank, []


def _of_something_else(what: str, known: int, reported: int) -> str:
    doubt = f"{what}: {known} B by the account, {reported} B by the message"
    return f"who holds the memory: the account is of something else ({doubt})"


def _why(asked: int, size: int | None, free: int | None, largest: int | None) -> str:
    if size is not None and asked > size:
        return TOO_LARGE
    if free is None or largest is None:
        return NOT_KNOWN
    return TOO_FULL if asked > free else FRAGMENTED if asked > largest else NOT_KNOWN


def _freeing(bank: Bank, failure: OutOfMemory) -> list[Advice]:
    room = blockers.room_for(bank, failure.per_bank)
    if room is None:
        return []
    advice = [Advice(FREE, sum(block.per_bank for block in room.blocks), room.gap, blocks=room.blocks)]
    # Enough is free, so it may be that the same buffers in another order leave a gap that is large enough.
    moved = blockers.made_anew(_after(bank, room.blocks, failure.per_bank), room.blocks)
    if moved is not None:
        blocks, addresses = zip(*moved)
        advice.append(Advice(REMAKE, gives=room.gap, blocks=blocks, addresses=addresses))
    return advice


def _after(bank: Bank, gone: tuple[Block, ...], per_bank: int) -> Bank:
    """The bank when those are gone and the buffer that found no room has its place."""
    left = bank.without(gone)
    address = left.place(per_bank)
    assert address is not None  # they were chosen for that
    new = Block(bank.kind, address, 0, bank.takes(per_bank))
    return left._replace(blocks=tuple(sorted((*left.blocks, new), key=lambda block: block.address)))


def _fitting(failure: OutOfMemory, largest: int | None, layout: ProcessLayout | None) -> list[Advice]:
    """What would have fitted as allocations were."""
    if largest is None:
        return []
    advice = []
    if largest > 0:
        advice.append(Advice(SMALLER, largest, largest * failure.banks))
    cores = layout.geometry.cores if layout is not None else None
    if failure.kind is Kind.L1 and largest > 0 and is_sharded(failure, cores) is not False:
        enough = -(-failure.size // largest)
        if failure.banks < enough <= (cores or _MOST_CORES):
            advice.append(Advice(MORE_CORES, enough, -(-failure.size // enough), AT_LEAST))
    if failure.kind is Kind.L1 and layout is not None:
        # Where DRAM begins only its own messages tell: above its lowest buffer it surely goes on to the top.
        top = layout.geometry.dram_bank_size - layout.geometry.trace_size
        lowest = min((block.address for block in layout.blocks if block.kind is Kind.DRAM), default=None)
        bank = None if lowest is None else layout.bank(Kind.DRAM, top - lowest)
        need = -(-failure.size // layout.geometry.dram_banks)
        if bank is not None and bank.largest >= need:
            advice.append(Advice(USE_DRAM, need, bank.largest, AT_LEAST))
    return advice


def is_sharded(failure: OutOfMemory, cores: int | None) -> bool | None:
    """Whether the buffer was sharded; None if its numbers do not tell."""
    if failure.size != failure.per_bank * failure.banks:
        return False
    return True if cores is not None and failure.kind is Kind.L1 and failure.banks < cores else None


def _small_size(failure: OutOfMemory, size: int | None, bank: Bank | None) -> Advice:
    """The l1_small_size with which this request would have been met.

    A larger region begins lower and all before this request lies as far from its top as it did: only the gap at its
    bottom grows.
    """
    note = "what is allocated later comes on top"
    if bank is not None or failure.allocated == 0:
        lowest = bank.gaps[0] if bank is not None and bank.gaps else None
        if bank is None:
            bottom = size or 0
        else:
            bottom = lowest[1] - lowest[0] if lowest is not None and lowest[0] == bank.base else 0
        unit = bank.unit if bank is not None else 64
        need = round_up(max(failure.per_bank, unit), unit)
        total = (size or 0) - bottom + need
        return Advice(SMALL_SIZE, total, total - (size or 0), EXACT if bank is not None else AT_MOST, note=note)
    need = round_up(failure.per_bank, 64)
    known = None if size is None else size + need
    return Advice(SMALL_SIZE, known, need, AT_MOST, note=note)


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
            advice=(shrink,), unknown=(f"whose the L1 buffer at {failure.floor} is: the account has none there",)
        )
    gone = blockers.below(bank, failure.end)
    advice = _making_way(bank, gone, failure.end)
    small = layout.bank(Kind.L1_SMALL)
    if small is not None and small.size:
        # Every L1 buffer lies as far below the region of L1_SMALL as it did: they all rise with its start.
        less = round_up(over, layout.unit)
        spare = small.gaps[0][1] - small.base if small.gaps and small.gaps[0][0] == small.base else 0
        if less <= spare:
            advice.append(
                Advice(SMALL_SIZE, small.size - less, less, AT_MOST, note="if L1_SMALL never needs more than now")
            )
    return _held(gone, verdict._replace(wall=wall, advice=(*advice, shrink)))


def _making_way(bank: Bank, gone: tuple[Block, ...], end: int, basis: str = EXACT) -> list[Advice]:
    """What would let a program reach an address: that these, which begin below it, go."""
    after = blockers.floor_without(bank, gone)
    advice = [Advice(FREE, sum(block.per_bank for block in gone), after - end, basis, blocks=gone)]
    moved = blockers.made_anew(bank, gone)
    if moved is not None and all(address >= end for _, address in moved):
        blocks, addresses = zip(*moved)
        gives = min(min(addresses), after) - end
        advice.append(Advice(REMAKE, None, gives, basis, blocks=blocks, addresses=addresses))
    return advice


def _held(blocks: tuple[Block, ...], verdict: Verdict) -> Verdict:
    holders = sorted(blocks, key=lambda block: (-block.per_bank, block.address))
    return verdict._replace(holders=tuple(holders[:_HOLDERS_SHOWN]), held=len(blocks))


def _pieces(program: ProgramLayout | None, cores: CoreRange) -> tuple[ProgramBuffer, ...]:
    mask = mask_of([cores])
    return () if program is None else tuple(piece for piece in program.pieces if piece.cores & mask)


def _beyond(failure: PastEndOfL1, layout: ProcessLayout | None) -> Verdict:
    over = failure.end - failure.l1_size
    # The message does not name the program; the one that was laid out last and reaches there is it.
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


# -- operations that reckon by themselves -----------------------------------------------------------------------------


def _no_room(failure: TooLittleL1, layout: ProcessLayout | None) -> Verdict:
    over = None if failure.need is None else failure.need - failure.have
    shrink = () if over is None else (Advice(SHRINK, over, basis=AT_LEAST),)
    why = TOO_LARGE if failure.counts == FIXED else TOO_FULL if failure.counts is not None else NOT_KNOWN
    verdict = Verdict(failure, why, failure.need, failure.have, advice=shrink)
    if failure.counts == FIXED:
        return verdict._replace(size=failure.have)
    if failure.counts is None:
        return verdict._replace(unknown=("what it counts as being there, and so whether freeing L1 would help",))
    if layout is None:
        return verdict._replace(unknown=(UNHEARD,))
    if failure.counts == FREE_IN_BANK:
        return _no_slice(failure, layout, verdict)
    return _no_height(failure, layout, verdict)


def _no_slice(failure: TooLittleL1, layout: ProcessLayout, verdict: Verdict) -> Verdict:
    """It did not fit into all that is free, be it in one piece or not."""
    empty = layout.bank(Kind.L1, allocated=0)
    assert empty is not None  # of L1 all is known
    bank = layout.bank(Kind.L1, allocated=empty.size - failure.have)
    assert bank is not None
    if bank.free != failure.have:
        return verdict._replace(unknown=(_of_something_else("free in a bank", bank.free, failure.have),))
    verdict = _held(bank.blocks, verdict._replace(free=failure.have, size=bank.size))
    if not bank.blocks:
        return verdict._replace(why=TOO_LARGE)
    held = sum(block.per_bank for block in bank.blocks)
    note = "whether that is enough cannot be told: what it needs it does not say"
    return verdict._replace(advice=(Advice(FREE, held, bank.size, AT_MOST, bank.blocks, note=note),))


def _no_height(failure: TooLittleL1, layout: ProcessLayout, verdict: Verdict) -> Verdict:
    """Its circular or dataflow buffers, from the base of L1 on, would not end below the lowest L1 buffer."""
    bank = layout.bank(Kind.L1)
    assert bank is not None
    assert failure.need is not None
    if not bank.blocks:
        return verdict._replace(why=TOO_LARGE)
    room = bank.blocks[0].address - bank.base
    if failure.have != room and not (failure.counts == PART_BELOW and failure.have < room):
        return verdict._replace(unknown=(_of_something_else("below the lowest L1 buffer", room, failure.have),))
    verdict = verdict._replace(wall=bank.blocks[0], free=room)
    end = bank.base + failure.need
    if end > bank.end:
        return verdict._replace(why=TOO_LARGE, size=bank.size)
    # What it reckons with is not to the byte what it takes then, and one that counts a part needs more than it says.
    gone = blockers.below(bank, max(end, bank.blocks[0].address + 1))
    return _held(gone, verdict._replace(advice=(*_making_way(bank, gone, end, AT_LEAST), *verdict.advice)))


# -- regions that are sized when the device is opened -----------------------------------------------------------------


def _ring(failure: RingFull, layout: ProcessLayout | None) -> Verdict:
    advice = []
    if failure.core_type == "TENSIX":
        geometry = layout.geometry if layout is not None else None
        value = None if geometry is None else geometry.l1_size - geometry.map_end - failure.size
        advice.append(Advice(WORKER_SIZE, value, failure.size - failure.ring))
    return Verdict(
        failure, TOO_SMALL, failure.size, failure.ring, size=failure.ring, advice=tuple(advice),
        unknown=() if failure.parts else ("what the program is made of: the message of this release does not tell",),
    )  # fmt: skip


def _trace(failure: TraceFull, layout: ProcessLayout | None) -> Verdict:
    per_bank = None
    if layout is not None:
        per_bank = round_up(-(-failure.size // layout.geometry.dram_banks), _TRACE_STEP_BYTES)
    note = "each trace is rounded up to whole pages in every bank, so several may need a little more"
    advice = Advice(TRACE_SIZE, failure.size, per_bank, AT_LEAST, note=note)
    return Verdict(failure, TOO_SMALL, failure.size, failure.region, size=failure.region, advice=(advice,))


def _other(failure: TraceOverlap | BelowLimit | ArenaFull | CutsInto, layout: ProcessLayout | None) -> Verdict:
    if isinstance(failure, TraceOverlap):
        mark = max(m for m in (failure.allocated, failure.freed, failure.other, 0) if m is not None)
        advice = Advice(TRACE_SIZE, note="any that holds the traces: they then have a region of their own")
        return Verdict(failure, OVERLAP, mark, failure.address, advice=(advice,), unknown=("how large the trace is",))
    if isinstance(failure, ArenaFull):
        room = failure.end - failure.start
        why = TOO_LARGE if failure.size > room else NOT_KNOWN
        return Verdict(failure, why, failure.size, size=room, unknown=("what else is in the arena",))
    if isinstance(failure, BelowLimit):
        return Verdict(failure, TOO_FULL, failure.limit, failure.address, unknown=("how large the buffer is",))
    bank = layout.bank(Kind.L1) if layout is not None else None
    # The address counts from the base of the bank, as in all block tables.
    gone = () if bank is None else blockers.below(bank, bank.base + failure.size)
    advice_ = (Advice(FREE, sum(b.per_bank for b in gone), failure.size, blocks=gone),) if gone else ()
    unknown = (NO_LAYOUT,) if layout is None else ()
    return Verdict(failure, OVERLAP, failure.size, failure.address, held=len(gone), advice=advice_, unknown=unknown)
