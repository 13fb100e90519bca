# SPDX-License-Identifier: Apache-2.0
"""Global circular buffers that did not fit: their two L1 buffers, and what would make room for both.

tt-metal allocates the data first, which takes its full size on every core, and then a small configuration page.
Both are L1 buffers like any other: only the backtrace of the exception shows what they belong to.
"""

from __future__ import annotations

from typing import NamedTuple

from ttmem.analyze import minimal_frees
from ttmem.analyze.failure_types import OutOfMemory
from ttmem.analyze.minimal_frees import FreedSpace
from ttmem.analyze.process_layout import Bank, Block, round_up


class GlobalCircularBuffer(NamedTuple):
    """The one that was being made. Bytes of one core; ``own`` is its data, if only the configuration did not fit."""

    data: int
    configuration: int
    own: Block | None = None

    @property
    def exact(self) -> bool:
        """False: how large the configuration is depends on the receivers of a sender; this is the most."""
        return self.own is not None


def configuration_bytes(receivers: int) -> int:
    """The size of the configuration page for the sender with the most receivers.

    >>> configuration_bytes(6)
    272
    """
    return round_up((8 + 2 * receivers) * 4, 16) + 32 * receivers


def requested(failure: OutOfMemory, bank: Bank | None, line: str | None) -> GlobalCircularBuffer:
    """What was being made when this request failed.

    If it is no larger than a configuration page, and the newest buffer is on as many cores and from the same line,
    that one is the data.
    """
    most = configuration_bytes(max(1, failure.banks - 1))
    newest = max(bank.blocks, key=lambda block: block.born, default=None) if bank is not None else None
    if newest is not None and failure.per_bank <= most and newest.line == line and newest.tag is None:
        per_core, rest = divmod(newest.size, max(1, failure.banks))
        if not rest and per_core >= failure.per_bank:
            return GlobalCircularBuffer(per_core, failure.per_bank, newest)
    return GlobalCircularBuffer(failure.per_bank, most)


def largest_data(bank: Bank, buffer: GlobalCircularBuffer) -> int:
    """The largest data that would fit together with the configuration, as allocations were before it was made."""
    bank = without_own(bank, buffer)
    sizes = sorted((end - start for start, end in bank.gaps), reverse=True)
    page = bank.takes(buffer.configuration)
    if not sizes:
        return 0
    return sizes[0] if len(sizes) > 1 and sizes[1] >= page else max(0, sizes[0] - page)


def room_for(bank: Bank, buffer: GlobalCircularBuffer) -> FreedSpace | None:
    """The fewest buffers to free, so that both its buffers fit. Its own data is never one of them."""
    bank = without_own(bank, buffer)
    found = minimal_frees.room_for(bank, buffer.data)
    if found is not None and _fits(bank.without(found.blocks), buffer):
        return found
    return minimal_frees.room_for(bank, bank.takes(buffer.data) + bank.takes(buffer.configuration))


def without_own(bank: Bank, buffer: GlobalCircularBuffer) -> Bank:
    """The bank as it was before: an exception frees the data that was made already."""
    return bank if buffer.own is None else bank.without((buffer.own,))


def _fits(bank: Bank, buffer: GlobalCircularBuffer) -> bool:
    after = bank.with_new(buffer.data)
    return after is not None and after.place(buffer.configuration) is not None
