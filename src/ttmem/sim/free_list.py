# SPDX-License-Identifier: Apache-2.0
"""One bank of memory as tt-metal's allocator keeps it: a chain of blocks, first fit by address."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from typing import NamedTuple

from ttmem.sim.errors import SimError

CLASS_BASE_BYTES = 1024
_MAX_CLASSES = 18  # the last one is for 128 MiB and more


def round_up(value: int, step: int) -> int:
    """The smallest multiple of the step that is not below the value.

    >>> round_up(33, 32)
    64
    """
    return -(-value // step) * step


class Block(NamedTuple):
    """A used or free block of the bank; its address is relative to the bank's base."""

    ident: int
    address: int
    size: int
    used: bool
    previous: int | None
    following: int | None


class Statistics(NamedTuple):
    """Bytes of one bank."""

    size: int
    allocated: int
    free: int
    largest: int


class _Link:
    """A block while it is part of the chain."""

    __slots__ = ("address", "following", "ident", "previous", "size", "used")

    def __init__(self, ident: int, address: int, size: int) -> None:
        self.ident = ident
        self.address = address
        self.size = size
        self.used = False
        self.previous: _Link | None = None
        self.following: _Link | None = None


class FreeList:
    """The blocks of one bank. They are the same in every bank of its kind (lock step).

    >>> bank = FreeList(base=1024, size=4096, unit=32)
    >>> bank.allocate(100, bottom_up=True), bank.allocate(100, bottom_up=False)
    (1024, 4992)
    >>> bank.statistics()
    Statistics(size=4096, allocated=256, free=3840, largest=3840)
    """

    # No two free blocks are ever adjacent: the free blocks depend on the live blocks, not on the order of the frees.
    # Only the ids depend on the history: the id released last is used first.

    def __init__(self, base: int, size: int, unit: int) -> None:
        self.base = base
        self.unit = unit
        self._size = size
        self.allocated = 0
        self._hidden = 0
        self._next_id = 0
        self._spare: list[int] = []
        self._links: dict[int, _Link] = {}
        # Addresses of the free blocks, sorted, by the power of two of their size. A search examines one class, and the
        # ends of the classes above it.
        self._classes: list[list[int]] = [
            [] for _ in range(min(max((size // CLASS_BASE_BYTES).bit_length(), 2), _MAX_CLASSES))
        ]
        self._head: _Link | None = self._insert_free(0, size, None, None)

    def taken(self, per_bank: int) -> int:
        """The bytes that a request reserves."""
        return round_up(max(per_bank, self.unit), self.unit)

    def allocate(self, per_bank: int, *, bottom_up: bool) -> int | None:
        """The address of a new block, or None if no free one is large enough."""
        need = self.taken(per_bank)
        link = self._first_fit(need, bottom_up)
        if link is None:
            return None
        return self._carve(link, 0 if bottom_up else link.size - need, need)

    def allocate_at(self, address: int, per_bank: int) -> int | None:
        """A block at exactly this address, or None if it is not free."""
        need = self.taken(per_bank)
        start = address - self.base
        below = (self._links[found[at - 1]] for found in self._classes if (at := bisect_right(found, start)))
        link = max(below, key=lambda candidate: candidate.address, default=None)
        if link is None or start + need > link.address + link.size:
            return None
        return self._carve(link, start - link.address, need)

    def free(self, address: int) -> bool:
        """Free a block; an address where no block begins is ignored, as in ttnn."""
        link = self._links.get(address - self.base)
        if link is None or not link.used:
            return False
        link.used = False
        self.allocated -= link.size
        before, after = link.previous, link.following
        if before is not None and not before.used:
            self._forget_free(before)
            self._absorb(before, link)
            link = before
        if after is not None and not after.used:
            self._forget_free(after)
            self._absorb(link, after)
        self._note_free(link)
        return True

    def lowest(self) -> int | None:
        """The lowest used address."""
        link = self._head
        if link is not None and not link.used:
            link = link.following
        return None if link is None else link.address + self.base

    def statistics(self) -> Statistics:
        largest = next((max(self._links[at].size for at in found) for found in reversed(self._classes) if found), 0)
        return Statistics(self._size, self.allocated, self._size - self.allocated, largest)

    def blocks(self) -> list[Block]:
        """All blocks, by id."""
        blocks = [
            Block(
                link.ident,
                link.address,
                link.size,
                link.used,
                link.previous.ident if link.previous is not None else None,
                link.following.ident if link.following is not None else None,
            )
            for link in self._chain()
        ]
        return sorted(blocks)

    def live(self) -> dict[int, int]:
        """Reserved bytes by address, lowest first."""
        return {link.address + self.base: link.size for link in self._chain() if link.used}

    def free_classes(self) -> list[list[int]]:
        """Ids of the free blocks by size class, the first below 2 KiB, each class in the order of addresses."""
        return [[self._links[at].ident for at in found] for found in self._classes]

    def spare_ids(self) -> list[int]:
        """Released ids; the last is the next to be used again."""
        return list(self._spare)

    def shrink(self, n: int) -> None:
        """Hide the n lowest bytes, which must be free."""
        end = self._hidden + n
        if n > self._size:
            raise SimError(f"Shrink size {n} must be smaller than max size {self._size}")
        for block in self.blocks():
            if block.used and block.address < end:
                raise SimError(f"Shrink size {end} cuts into allocated block at address {block.address}")
        if n == 0:
            return
        head = self._head
        assert head is not None
        self._forget_free(head)
        del self._links[head.address]
        if head.size == n:
            self._head = head.following
            if self._head is not None:
                self._head.previous = None
            self._spare.append(head.ident)
        else:
            head.address += n
            head.size -= n
            self._links[head.address] = head
            self._note_free(head)
        self._size -= n
        self._hidden = end

    def reset(self) -> None:
        """Undo ``shrink``."""
        if self._hidden == 0:
            return
        head = self._head
        if head is not None and not head.used:
            self._forget_free(head)
            del self._links[head.address]
            head.size += head.address
            head.address = 0
            self._links[0] = head
            self._note_free(head)
        else:
            self._head = self._insert_free(0, self._hidden, None, head)
        self._size += self._hidden
        self._hidden = 0

    def _chain(self) -> Iterator[_Link]:
        link = self._head
        while link is not None:
            yield link
            link = link.following

    def _first_fit(self, need: int, bottom_up: bool) -> _Link | None:
        best: _Link | None = None
        for found in self._classes[self._class_of(need) :]:
            for address in found if bottom_up else reversed(found):
                if self._links[address].size >= need:
                    if best is None or (address < best.address) == bottom_up:
                        best = self._links[address]
                    break
        return best

    def _carve(self, link: _Link, offset: int, need: int) -> int:
        """Turn a part of a free block into a used block, which keeps the id; the remaining parts get new ids."""
        self._forget_free(link)
        if offset:
            start = link.address
            link.address += offset
            link.size -= offset
            self._links[link.address] = link
            low = self._insert_free(start, offset, link.previous, link)
            if low.previous is None:
                self._head = low
        if link.size > need:
            self._insert_free(link.address + need, link.size - need, link, link.following)
            link.size = need
        link.used = True
        self.allocated += need
        return link.address + self.base

    def _insert_free(self, address: int, size: int, previous: _Link | None, following: _Link | None) -> _Link:
        if self._spare:
            ident = self._spare.pop()
        else:
            ident = self._next_id
            self._next_id += 1
        link = self._links[address] = _Link(ident, address, size)
        link.previous, link.following = previous, following
        if previous is not None:
            previous.following = link
        if following is not None:
            following.previous = link
        self._note_free(link)
        return link

    def _absorb(self, link: _Link, after: _Link) -> None:
        link.size += after.size
        link.following = after.following
        if after.following is not None:
            after.following.previous = link
        del self._links[after.address]
        self._spare.append(after.ident)

    def _class_of(self, size: int) -> int:
        return min(max((size // CLASS_BASE_BYTES).bit_length() - 1, 0), len(self._classes) - 1)

    def _note_free(self, link: _Link) -> None:
        insort(self._classes[self._class_of(link.size)], link.address)

    def _forget_free(self, link: _Link) -> None:
        found = self._classes[self._class_of(link.size)]
        del found[bisect_left(found, link.address)]
