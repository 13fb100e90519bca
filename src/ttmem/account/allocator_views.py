# SPDX-License-Identifier: Apache-2.0
"""What allocators report about themselves (tt-metal's memory views), compared with what is tracked."""

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
    """Bytes that the account and the allocators both know of, and that either does."""

    both: int
    either: int


def keep(holding: Holding, event: Viewed, limit: int) -> None:
    """The newest view of an allocator and kind counts; one of no banks says that there is none any more."""
    key = (event.allocator, event.kind)
    if not event.banks:
        holding.views.pop(key, None)
    elif key in holding.views or len(holding.views) < limit:
        holding.views[key] = event
    # Compared now, not on request: the tracked memory changes later, a view does not.
    _compare(holding, event.kind)


def compare(holding: Holding) -> None:
    """The views came before what they speak of was counted: look again."""
    for kind in {kind for _, kind in holding.views}:
        _compare(holding, kind)


def _compare(holding: Holding, kind: Kind) -> None:
    tracked, reported = _tracked(holding.source.process, holding.chip, kind), _reported(holding, kind)
    holding.agreements.pop(kind, None)
    if tracked is not None and reported is not None:
        holding.agreements[kind] = Agreement(min(tracked, reported), max(tracked, reported))


def _reported(holding: Holding, kind: Kind) -> int | None:
    """Bytes allocated of a kind, over the allocators that were asked."""
    found = [view.allocated * view.banks for view in holding.views.values() if view.kind is kind]
    return sum(found) if found else None


def _tracked(process: Process, chip: Chip, kind: Kind) -> int | None:
    """What the process's believed source says was taken of a kind; None if it does not say of everything."""
    leaves = [holding.leaves[kind] for holding in process.holdings() if chip in holding.chips]
    taken = [leaf.reserved_bytes for leaf in leaves if leaf is not None and chip in leaf.chips]
    return None if None in taken else sum(size for size in taken if size is not None)


def agreements(chip: Chip) -> list[Agreement]:
    """How account and allocators agree on a chip; a process that audits itself knows better than its views."""
    auditors = [holding for holding in chip.holdings if holding.audits]
    found = [Agreement(*audit.agreement) for holding in auditors for audit in holding.audits.values()]
    audited = {holding.source.process for holding in auditors}
    for holding in chip.holdings:
        if holding.agreements and holding.source.process not in audited:
            found += holding.agreements.values()
    return found


def reporter(chip: Chip) -> ReporterRow:
    """L1 by the allocators' own word, what is tracked of it, and the rest, with what that rest means."""
    asked = [holding for holding in chip.holdings if holding.views]
    reported = [(holding, size) for holding in asked if (size := _reported(holding, Kind.L1)) is not None]
    if not reported:
        return {"total": None, "tracked": None, "inferred": None, "basis": _UNAVAILABLE}
    reporting = {holding.source.process for holding, _ in reported}  # nobody spoke for the others
    leaves = [holding.leaves[Kind.L1] for holding in chip.holdings if holding.source.process in reporting]
    counting = [leaf for leaf in leaves if leaf is not None and chip in leaf.chips]
    taken = [leaf.reserved_bytes for leaf in counting]
    tracked = sum(leaf.used if None in taken else leaf.reserved for leaf in counting)
    total = sum(size for _, size in reported)
    return {"total": total, "tracked": tracked, "inferred": max(0, total - tracked), "basis": _BASIS}
