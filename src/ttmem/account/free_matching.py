# SPDX-License-Identifier: Apache-2.0
"""Finds the live buffer that a free belongs to. Legacy frees have no kind, and some name the wrong device."""

from __future__ import annotations

from ttmem.account.allocations import Allocation, Holding
from ttmem.model.kinds import SPACE_OF, Kind

NUMBERED = 3  # replaces the address space in a key: the rest of the key is the number from the source


def buffer_key(kind: Kind, address: int, allocator: int, ident: int = 0) -> int:
    """Identifies a buffer, as one integer. A tuple would need 60 bytes more for each live allocation."""
    return ident << 2 | NUMBERED if ident else (allocator << 66) | (address << 2) | SPACE_OF[kind]


def match(holding: Holding, hint: Kind | None, address: int, size: int) -> tuple[int, bool]:
    """The key of the buffer that a free without a kind refers to, and whether that is certain (rule 5)."""
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
    # Buffers that moved to another chip together have the same birth. Then the order of the table decides.
    return (found[0] if len(found) == 1 else [key for key in buffers if key in found][-1]), False


def find_elsewhere(
    holding: Holding, kind: Kind | None, address: int, size: int, allocator: int, ident: int
) -> tuple[tuple[Holding, int] | None, str | None]:
    """Used if there is no buffer at the address: where the buffer is, if found, and the anomaly to count (rule 5)."""
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
    """The allocation without an address that a free refers to: the youngest of this size, else the youngest."""
    found, buffers = list(holding.unplaced), holding.buffers
    if not holding.source.kindless:
        place = buffer_key(kind or Kind.DRAM, 0, allocator)
        found = [key for key in found if _place_of(buffers[key]) == place]
    sized = [key for key in found if buffers[key].size == size]
    candidates = sized or found
    return candidates[-1] if candidates else None


def _place_of(allocation: Allocation) -> int:
    return buffer_key(allocation.kind, 0, allocation.extra.allocator if allocation.extra is not None else 0)
