# SPDX-License-Identifier: Apache-2.0
"""Live allocations of each pool, grouped by operation, line of Python, stack, tensor shape, program or kind."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, cast

from ttmem.account.allocations import Allocation, Part
from ttmem.account.call_sites import operation_of, stack_of
from ttmem.account.entities import Chip
from ttmem.analyze.chip_sums import ChipSums, CountedChips
from ttmem.model.kinds import BREAKDOWN_POOL_OF, KINDS, BreakdownPool
from ttmem.model.stack_frames import line_of

if TYPE_CHECKING:
    from ttmem.model import schema

Viewer = Callable[[int | None], bool]  # whether the reader may see the data of this user
SCHEMA: Final = "ttmem.breakdown/1"
MOST_ROWS = 100_000  # per pool; further keys share the row without a key


def _program(allocation: Allocation) -> str | None:
    if not isinstance(allocation, Part):
        return None
    named = f" {allocation.origin.tag}" if allocation.origin.tag else ""
    return f"pid {allocation.holding.source.process.info.pid or '?'} program {allocation.program}{named}"


KEYS: dict[str, Callable[[Allocation], str | None]] = {
    "op": operation_of,
    "line": lambda allocation: line_of(stack_of(allocation)),
    "stack": stack_of,
    "shape": lambda allocation: allocation.extra.shape if allocation.extra is not None else None,
    "program": _program,
    "kind": lambda allocation: allocation.kind.label,
}
_OPEN = ("kind",)  # visible to all users


def has_key(by: str, value: str, may_see: Viewer) -> Callable[[Allocation], bool]:
    """A predicate for the allocations of one row of a breakdown; an empty value selects the row without a key."""
    key_of, wanted = KEYS[by], value or None

    def matches(allocation: Allocation) -> bool:
        visible = by in _OPEN or may_see(allocation.holding.source.process.info.user_id)
        return (key_of(allocation) if visible else None) == wanted

    return matches


def contains(text: str, may_see: Viewer) -> Callable[[Allocation], bool]:
    """A predicate for allocations whose tag, operation, line or shape contains a text; case is ignored."""
    wanted = text.lower()

    def matches(allocation: Allocation) -> bool:
        extra = allocation.extra
        tag, shape = (extra.tag, extra.shape) if extra is not None else (None, None)
        words = (tag, shape, operation_of(allocation), line_of(stack_of(allocation)))
        found = any(word is not None and wanted in word.lower() for word in words)
        return found and may_see(allocation.holding.source.process.info.user_id)

    return matches


class Breakdown:
    """Collects allocations one by one, so that a server with a million of them can work in slices.

    An allocation of a mesh is counted once, with its bytes on all chips. Sizes of different pools are never added up.
    """

    def __init__(self, by: str, may_see: Viewer = lambda user_id: True, counted: CountedChips | None = None) -> None:
        """``counted`` selects chips; without it, all chips count."""
        self._by = by
        self._counted = counted or CountedChips()
        self._key = KEYS[by]
        self._may_see = may_see
        self._pools: list[dict[str | None, _Row]] = [{} for _ in BreakdownPool]
        self._seen: dict[int | None, bool] = {}

    def add(self, allocation: Allocation) -> None:
        """Add an allocation, if it counts on one of the selected chips."""
        chips, others = self._counted.of(allocation)
        if not chips:
            return
        key = self._key(allocation) if self._by in _OPEN or self._visible(allocation) else None
        rows = self._pools[BREAKDOWN_POOL_OF[allocation.kind]]
        if key not in rows:
            if len(rows) >= MOST_ROWS:
                key = None
            rows.setdefault(key, _Row())
        rows[key].add(allocation, chips, others)

    def _visible(self, allocation: Allocation) -> bool:
        user_id = allocation.holding.source.process.info.user_id
        known = self._seen.get(user_id)
        if known is None:
            known = self._seen[user_id] = self._may_see(user_id)
        return known

    def document(self, limit: int | None = None) -> schema.Breakdown:
        """The answer of GET /breakdown."""
        return {"schema": SCHEMA, "by": self._by, "pools": self.pools(limit)}

    def pools(self, limit: int | None = None) -> list[schema.BreakdownPoolRow]:
        """Each pool that has allocations, with its largest rows first and at most ``limit`` of them.

        The key None groups allocations without a key, or whose key the reader may not see.
        """
        found: list[schema.BreakdownPoolRow] = []
        for pool, rows in zip(BreakdownPool, self._pools):
            if rows:
                order = sorted(rows.items(), key=lambda item: (-item[1].sums.bytes, item[0] or ""))
                listed = [row.json(self._by, key) for key, row in order[:limit]]
                total = _total(rows.values())
                found.append({"pool": pool.label, **total.json_sums(), "groups": len(rows), "rows": listed})
        return found


class _Row:
    __slots__ = ("kinds", "largest", "others", "reserved", "sums", "unknown")

    def __init__(self) -> None:
        self.sums: ChipSums[Chip] = ChipSums()
        self.reserved = self.unknown = 0
        self.largest = 0  # on one chip
        self.kinds = [0] * len(KINDS)
        self.others: set[tuple[Chip, ...]] = set()  # chips of these allocations that are not selected

    def add(self, allocation: Allocation, chips: tuple[Chip, ...], others: tuple[Chip, ...]) -> None:
        """Add an allocation, with its size on each of these chips."""
        size, taken = allocation.counted, allocation.taken
        self.sums.add(chips, size)
        self.kinds[allocation.kind] += size * len(chips)
        if others:
            self.others.add(others)
        if size > self.largest:
            self.largest = size
        if taken is None:
            self.unknown += size
        else:
            self.reserved += taken * len(chips)

    def json_sums(self) -> schema.BreakdownSum:
        others = {chip for chips in self.others for chip in chips}
        return {
            **self.sums.counted(),
            "reserved": self.reserved if not self.unknown else None,
            "other_chips": len(others.difference(self.sums.by_chip())) if others else 0,
        }

    def json(self, by: str, key: str | None) -> schema.BreakdownRow:
        amounts: schema.BreakdownAmounts = {
            **self.json_sums(),
            "largest": self.largest,
            "kinds": {kind.label: size for kind, size in zip(KINDS, self.kinds) if size},
        }
        return cast("schema.BreakdownRow", {by: key, **amounts})


def _total(rows: Iterable[_Row]) -> _Row:
    """The sum of all rows of a pool."""
    total = _Row()
    for row in rows:
        total.sums.merge(row.sums)
        total.reserved += row.reserved
        total.unknown += row.unknown
        total.others |= row.others
    return total
