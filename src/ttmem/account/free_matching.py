# SPDX-License-Identifier: Apache-2.0
"""Finds the live buffer that a free belongs to. Legacy frees have no kind, and some name the wrong device."""

from __future__ import annotations

from ttmem.account.allocations import Holding
from ttmem.model.events import Extra
from ttmem.model.kinds import SPACE_OF, Kind

_MOST_SEARCHED = 64  # devices, more than any machine has
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
        place = 0 if source.kindless else buffer_key(kind or Kind.DRAM, 0, allocator)
        key = holding.unplaced.youngest(place, size)
        if key is not None:
            return (holding, key), None
    if holding.just_freed(address):
        return None, "double_free"
    # One known client allocates on several devices and frees everything on device 0.
    may_be = source.kindless and not holding.device and not source.frees_elsewhere
    if may_be and len(source.holdings) <= _MOST_SEARCHED and sum(any(h.leaves) for h in source.holdings.values()) > 1:
        others = [other for other in source.holdings.values() if other.device]
        places = (address << 2, address << 2 | 1, address << 2 | 2)
        elsewhere = [(other, key) for other in others for key in places if key in other.buffers]
        if len(elsewhere) == 1:
            return elsewhere[0], "misrouted"
    return None, "unknown_free"


def place_of(holding: Holding, kind: Kind, extra: Extra | None) -> int:
    """Where a free looks for a buffer without an address: one of a legacy source says nothing of its kind."""
    return 0 if holding.source.kindless else buffer_key(kind, 0, 0 if extra is None else extra.allocator)
