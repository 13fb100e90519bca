# SPDX-License-Identifier: Apache-2.0
"""Compares the memory views that tt-metal's allocators report with the tracked allocations."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ttmem.account.allocations import Holding
from ttmem.account.entities import Chip, Process
from ttmem.model.events import Viewed
from ttmem.model.kinds import Kind

if TYPE_CHECKING:
    from ttmem.model.schema import ReporterRow

_UNAVAILABLE = "MemoryReporter unavailable"
_BASIS = (
    "reporter total minus tracked buffers; on stock ttnn this is what was not tracked, "
    "not circular buffers or kernels"
)  # fmt: skip


class Agreement(NamedTuple):
    """Tracked bytes compared with reported bytes: those on which both agree, and the larger of the two."""

    both: int
    either: int


def keep(holding: Holding, event: Viewed, limit: int) -> None:
    """Keep the latest view of an allocator and kind. A view without banks means that the allocator no longer exists."""
    key = (event.allocator, event.kind)
    if not event.banks:
        holding.views.pop(key, None)
    elif key in holding.views or len(holding.views) < limit:
        holding.views[key] = event
    # Compared now, not on request: tracked memory will change, but a view describes this moment.
    _compare(holding, event.kind)


def compare(holding: Holding) -> None:
    """Compare all views again. Used after a resync, when views arrived before the allocations were counted."""
    for kind in {kind for _, kind in holding.views}:
        _compare(holding, kind)


def _compare(holding: Holding, kind: Kind) -> None:
    tracked, reported = _tracked(holding.source.process, holding.chip, kind), _reported(holding, kind)
    holding.agreements.pop(kind, None)
    if tracked is not None and reported is not None:
        holding.agreements[kind] = Agreement(min(tracked, reported), max(tracked, reported))


def _reported(holding: Holding, kind: Kind) -> int | None:
    """Bytes of a kind in all views of a holding; None if there is no view of that kind."""
    found = [view.allocated * view.banks for view in holding.views.values() if view.kind is kind]
    return sum(found) if found else None


def _tracked(process: Process, chip: Chip, kind: Kind) -> int | None:
    """Reserved bytes of a kind from the source that counts; None if the reserved size of any allocation is unknown."""
    leaves = [holding.leaves[kind] for holding in process.holdings() if chip in holding.chips]
    taken = [leaf.reserved_bytes for leaf in leaves if leaf is not None and chip in leaf.chips]
    return None if None in taken else sum(size for size in taken if size is not None)


def agreements(chip: Chip) -> list[Agreement]:
    """The agreements of all processes on a chip. The audits of a process take precedence over its views."""
    auditors = [holding for holding in chip.holdings if holding.audits]
    found = [Agreement(*audit.agreement) for holding in auditors for audit in holding.audits.values()]
    audited = {holding.source.process for holding in auditors}
    for holding in chip.holdings:
        if holding.agreements and holding.source.process not in audited:
            found += holding.agreements.values()
    return found


def reporter(chip: Chip) -> ReporterRow:
    """L1 as reported by the allocators, the tracked part of it, the rest, and what that rest means."""
    asked = [holding for holding in chip.holdings if holding.views]
    reported = [(holding, size) for holding in asked if (size := _reported(holding, Kind.L1)) is not None]
    if not reported:
        return {"total": None, "tracked": None, "inferred": None, "basis": _UNAVAILABLE}
    reporting = {holding.source.process for holding, _ in reported}  # the other processes sent no view
    leaves = [holding.leaves[Kind.L1] for holding in chip.holdings if holding.source.process in reporting]
    counting = [leaf for leaf in leaves if leaf is not None and chip in leaf.chips]
    taken = [leaf.reserved_bytes for leaf in counting]
    tracked = sum(leaf.used if None in taken else leaf.reserved for leaf in counting)
    total = sum(size for _, size in reported)
    return {"total": total, "tracked": tracked, "inferred": max(0, total - tracked), "basis": _BASIS}
