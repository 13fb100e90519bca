# SPDX-License-Identifier: Apache-2.0
"""Finds the live buffer that a free belongs to; legacy frees lack the kind, and some name the wrong device."""

from __future__ import annotations

from ttmem.account.allocations import Allocation, Holding
from ttmem.model.kinds import SPACE_OF, Kind

NUMBERED = 3  # in the place of an address space: what follows is no address, but a number that the source gave


def buffer_key(kind: Kind, address: int, allocator: int, ident: int = 0) -> int:
    """What tells a buffer from others, as one integer: a tuple would cost 60 bytes more for each live allocation."""
    return ident << 2 | NUMBERED if ident else (allocator << 66) | (address << 2) | SPACE_OF[kind]


def match(holding: Holding, hint: Kind | None, address: int, size: int) -> tuple[int, bool]:
    """The key that a free without a kind means, and whether that is certain (rule 5)."""
    base = address << 2
    buffers = holding.buffers
    found = [key for key in (base, base | 1, base | 2) if key in buffers]
    if len(found) < 2:
        return (found[0] if found else base), True
    if hint:
        hinted = [key for key in found if buffers[key].kind == hint]
        if len(hinted) == 1:
            return hinted[0], True
    if size:
        sized = [key for key in found if buffers[key].size == size]
        if len(sized) == 1:
            return sized[0], True
    latest = max(buffers[key].born for key in found)
    found = [key for key in found if buffers[key].born == latest]
    # What moved to another chip together was born anew together: then the order of the table tells.
    return (found[0] if len(found) == 1 else [key for key in buffers if key in found][-1]), False


def find_elsewhere(
    holding: Holding, kind: Kind | None, address: int, size: int, allocator: int, ident: int
) -> tuple[tuple[Holding, int] | None, str | None]:
    """For a free of nothing at that address: where the allocation is after all, and what was odd about it (rule 5)."""
    source = holding.source
    if not address and not ident:
        key = _pick_unplaced(holding, kind, size, allocator)
        if key is not None:
            return (holding, key), None
    if holding.just_freed(address):
        return None, "double_free"
    # One known client allocates on several devices and frees everything on device 0.
    others = [other for other in source.holdings.values() if other.device]
    spread = sum(any(h.leaves) for h in source.holdings.values()) > 1
    if source.kindless and not holding.device and spread and not source.frees_elsewhere:
        places = (address << 2, address << 2 | 1, address << 2 | 2)
        elsewhere = [(other, key) for other in others for key in places if key in other.buffers]
        if len(elsewhere) == 1:
            return elsewhere[0], "misrouted"
    return None, "unknown_free"


def _pick_unplaced(holding: Holding, kind: Kind | None, size: int, allocator: int) -> int | None:
    """Which of the allocations without an address goes: the youngest of that size, else the youngest."""
    found, buffers = holding.unplaced, holding.buffers
    if not holding.source.kindless:
        place = buffer_key(kind or Kind.DRAM, 0, allocator)
        found = [key for key in found if _place_of(buffers[key]) == place]
    sized = [key for key in found if buffers[key].size == size]
    candidates = sized or found
    return candidates[-1] if candidates else None


def _place_of(allocation: Allocation) -> int:
    return buffer_key(allocation.kind, 0, allocation.extra.allocator if allocation.extra is not None else 0)
