# SPDX-License-Identifier: Apache-2.0
"""The verdict on an out-of-memory message: the holders of the bank, what to free, and what would have fitted."""

from __future__ import annotations

from ttmem.analyze import global_buffers
from ttmem.analyze import minimal_frees as blockers
from ttmem.analyze.failure_types import OutOfMemory
from ttmem.analyze.global_buffers import GlobalCircularBuffer
from ttmem.analyze.minimal_frees import FreedSpace
from ttmem.analyze.page_sizes import page_of, smallest_page
from ttmem.analyze.process_layout import Bank, ProcessLayout, round_up
from ttmem.analyze.verdict_types import (
    AT_LEAST,
    AT_MOST,
    EXACT,
    FRAGMENTED,
    FREE,
    FREE_LARGEST,
    MORE_CORES,
    NO_LAYOUT,
    NOT_KNOWN,
    REMAKE,
    SMALL_SIZE,
    SMALLER,
    TOO_FULL,
    TOO_LARGE,
    USE_DRAM,
    Advice,
    Verdict,
    held_by,
    of_something_else,
)
from ttmem.model.geometry import BOARDS
from ttmem.model.kinds import Kind

_MOST_CORES = max(board.cores for board in BOARDS.values())  # used if the chip is not known
_NOT_FOR_GLOBAL = "not for a global circular buffer, which takes its full size on every core"


def verdict_on_request(
    failure: OutOfMemory, layout: ProcessLayout | None, tag: str | None, line: str | None
) -> Verdict:
    bank, unknown = _bank_of(failure, layout)
    size = failure.bank_size if failure.bank_size is not None else bank.size if bank else None
    free = failure.free if failure.free is not None else bank.free if bank else None
    largest = failure.largest_window if failure.largest_window is not None else failure.largest
    if largest is None and bank is not None:
        largest = bank.largest
    # A request is rounded up to the unit of the bank; free blocks are multiples of it.
    asked = bank.takes(failure.per_bank) if bank else failure.per_bank
    verdict = Verdict(failure, _why(asked, size, free, largest), asked, largest, free, size)
    if failure.global_circular and failure.kind is Kind.L1:
        verdict = verdict._replace(global_buffer=global_buffers.requested(failure, bank, line))
    elif layout is not None:
        verdict = verdict._replace(shape=_shape_of(failure, layout, tag, line))
    if bank is not None:
        verdict = held_by(bank.blocks, verdict)
    advice = []
    if failure.kind is Kind.L1_SMALL:
        advice.append(_small_size(failure, size, bank))
        if verdict.held:
            unknown.append(
                "what clear_program_cache() would free: whether a buffer belongs to a cached program or to the one "
                "that is being made is not recorded"
            )
    elif verdict.global_buffer is not None:
        advice += _global_buffer(verdict.global_buffer, bank if not failure.dependent else None, largest)
    else:
        if bank is not None and not failure.dependent:
            advice += _freeing(bank, failure)
        advice += _fitting(failure, largest, layout, verdict.shape)
    if failure.dependent:
        unknown.append("which buffers of other allocators (sub-devices, single cores) are in the way")
    return verdict._replace(advice=tuple(advice), unknown=tuple(unknown))


def _shape_of(failure: OutOfMemory, layout: ProcessLayout, tag: str | None, line: str | None) -> str | None:
    """The shape of live buffers of the same operation, line and size, if all have the same."""
    if line is None:
        return None
    wanted = failure.kind, failure.size, tag, line
    shapes = {one.shape for one in layout.blocks if (one.kind, one.size, one.tag, one.line) == wanted}
    return shapes.pop() if len(shapes) == 1 else None


def _global_buffer(buffer: GlobalCircularBuffer, bank: Bank | None, largest: int | None) -> list[Advice]:
    """Advice for a global circular buffer. More cores or DRAM do not help: it takes its full size on each core."""
    basis = EXACT if buffer.exact else AT_MOST
    advice = []
    if bank is not None:
        room = global_buffers.room_for(bank, buffer)
        if room is not None:
            advice.append(Advice(FREE, sum(block.per_bank for block in room.blocks), room.gap, basis, room.blocks))
        before = global_buffers.without_own(bank, buffer)
        needed = before.takes(buffer.data) + before.takes(buffer.configuration)
        advice += _freeing_largest(before, needed, room)
        fits = global_buffers.largest_data(bank, buffer)
    else:
        # Without an account, it is not known whether the data is already allocated.
        fits = (largest or 0) - round_up(buffer.configuration, 64)
        if buffer.data <= buffer.configuration:
            return advice
    if fits > 0:
        advice.append(Advice(SMALLER, fits, fits, basis=EXACT if buffer.exact else AT_LEAST))
    return advice


def _largest_of(room: FreedSpace) -> int:
    return max(block.per_bank for block in room.blocks)


def _freeing_largest(bank: Bank, per_bank: int, other: FreedSpace | None) -> list[Advice]:
    room = blockers.room_with_largest(bank, per_bank)
    if room is None or (other is not None and _largest_of(room) <= _largest_of(other)):
        return []
    return [Advice(FREE_LARGEST, sum(block.per_bank for block in room.blocks), room.gap, blocks=room.blocks)]


def _bank_of(failure: OutOfMemory, layout: ProcessLayout | None) -> tuple[Bank | None, list[str]]:
    """The full bank, if the account agrees with the message; else the reason why it cannot be used."""
    if layout is None:
        return None, [NO_LAYOUT]
    bank = layout.bank(failure.kind, failure.bank_size, failure.allocated)
    if bank is None:
        return None, ["where the banks begin: the message of this release does not contain their size"]
    compared = (
        ("size", bank.size, failure.bank_size),
        ("allocated", bank.allocated, failure.allocated),
        ("largest gap", bank.largest, failure.largest),
    )
    for what, known, reported in compared:
        if reported is not None and reported != known:
            return None, [of_something_else(f"{what} of a bank", known, reported)]
    return bank, []


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
    # If enough is free, allocating the same buffers in another order may leave a large enough gap.
    after = bank.without(room.blocks).with_new(failure.per_bank)
    assert after is not None  # the blocks were chosen so that it fits
    moved = blockers.made_anew(after, room.blocks)
    if moved is not None:
        blocks, addresses = zip(*moved)
        advice.append(Advice(REMAKE, gives=room.gap, blocks=blocks, addresses=addresses))
    return advice + _freeing_largest(bank, failure.per_bank, room)


def _fitting(
    failure: OutOfMemory, largest: int | None, layout: ProcessLayout | None, shape: str | None
) -> list[Advice]:
    """Requests that would have fitted without freeing anything."""
    if largest is None:
        return []
    advice = []
    cores = layout.geometry.cores if layout is not None else None
    interleaved = failure.kind is not Kind.L1 or is_sharded(failure, cores) is False
    if largest >= smallest_page(shape, interleaved, failure.per_bank) and largest > 0:
        page = page_of(shape, interleaved)
        fits = largest if page is None else largest // page * page
        advice.append(Advice(SMALLER, fits, fits * failure.banks, EXACT if page is not None else AT_MOST))
    if failure.kind is Kind.L1 and largest > 0 and is_sharded(failure, cores) is not False:
        enough = -(-failure.size // largest)
        if failure.banks < enough <= (cores or _MOST_CORES):
            # A log without a backtrace does not show what the buffer was.
            note = None if layout is not None else _NOT_FOR_GLOBAL
            advice.append(Advice(MORE_CORES, enough, -(-failure.size // enough), AT_LEAST, note=note))
    if failure.kind is Kind.L1 and layout is not None:
        # Only messages about DRAM contain its base. The part from its lowest buffer to the top is certain.
        top = layout.geometry.dram_bank_size - layout.geometry.trace_size
        lowest = min((block.address for block in layout.blocks if block.kind is Kind.DRAM), default=None)
        bank = None if lowest is None else layout.bank(Kind.DRAM, top - lowest)
        need = -(-failure.size // layout.geometry.dram_banks)
        if bank is not None and bank.largest >= need:
            advice.append(Advice(USE_DRAM, need, bank.largest, AT_LEAST))
    return advice


def is_sharded(failure: OutOfMemory, cores: int | None) -> bool | None:
    """Whether the buffer was sharded; None if that does not follow from its numbers."""
    if failure.size != failure.per_bank * failure.banks:
        return False
    return True if cores is not None and failure.kind is Kind.L1 and failure.banks < cores else None


def _small_size(failure: OutOfMemory, size: int | None, bank: Bank | None) -> Advice:
    """The l1_small_size with which this request would have succeeded.

    A larger region begins lower. Earlier buffers keep their distance from its top, so only the gap at its bottom grows.
    """
    note = "later allocations may need more"
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
