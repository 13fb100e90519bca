# SPDX-License-Identifier: Apache-2.0
"""Live allocations summed by what made them: operation, line of Python, stack, shape, program or kind."""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import TYPE_CHECKING, Final, cast

from ttmem.account.allocations import Allocation, Part
from ttmem.account.call_sites import line_of, operation_of, stack_of
from ttmem.account.entities import Chip
from ttmem.account.live_set import counted_chips
from ttmem.model.kinds import KINDS

if TYPE_CHECKING:
    from ttmem.model import schema

Viewer = Callable[[int | None], bool]  # may the reader see what belongs to this user?
SCHEMA: Final = "ttmem.breakdown/1"
MOST_ROWS = 100_000  # further keys share the row without a key


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
_OPEN = ("kind",)  # nobody's secret


class Breakdown:
    """Takes allocations one by one, so that a server with a million of them can do it in slices."""

    def __init__(self, by: str, may_see: Viewer = lambda user_id: True) -> None:
        self._by = by
        self._key = KEYS[by]
        self._may_see = may_see
        self._rows: dict[str | None, _Row] = {}
        self._seen: dict[int | None, bool] = {}

    def add(self, allocation: Allocation, among: Container[Chip] | None = None) -> None:
        """An allocation, with what it has on each chip on which it counts; only on those ``among`` these, if given."""
        counted = counted_chips(allocation)
        chips = len(counted) if among is None else sum(chip in among for chip in counted)
        if not chips:
            return
        key = self._key(allocation) if self._by in _OPEN or self._visible(allocation) else None
        if key not in self._rows:
            if len(self._rows) >= MOST_ROWS:
                key = None
            self._rows.setdefault(key, _Row())
        self._rows[key].add(allocation, chips)

    def _visible(self, allocation: Allocation) -> bool:
        user_id = allocation.holding.source.process.info.user_id
        known = self._seen.get(user_id)
        if known is None:
            known = self._seen[user_id] = self._may_see(user_id)
        return known

    def document(self, limit: int | None = None) -> schema.Breakdown:
        """The answer of GET /breakdown."""
        return {
            "schema": SCHEMA,
            "by": self._by,
            "rows": self.rows(limit),
            "count": len(self._rows),
            "bytes": sum(row.bytes for row in self._rows.values()),
        }

    def rows(self, limit: int | None = None) -> list[schema.BreakdownRow]:
        """The largest first. A key of None is all that has none, or whose key may not be seen."""
        order = sorted(self._rows.items(), key=lambda item: (-item[1].bytes, item[0] or ""))
        return [row.json(self._by, key) for key, row in order[:limit]]


class _Row:
    __slots__ = ("bytes", "count", "kinds", "largest", "reserved", "unknown")

    def __init__(self) -> None:
        self.count = self.bytes = self.reserved = self.unknown = self.largest = 0
        self.kinds = [0] * len(KINDS)

    def add(self, allocation: Allocation, chips: int) -> None:
        """An allocation on so many chips; it has its size on each of them."""
        size, taken = allocation.counted, allocation.taken
        self.count += chips
        self.bytes += size * chips
        self.kinds[allocation.kind] += size * chips
        if size > self.largest:
            self.largest = size
        if taken is None:
            self.unknown += size * chips
        else:
            self.reserved += taken * chips

    def json(self, by: str, key: str | None) -> schema.BreakdownRow:
        amounts: schema.BreakdownAmounts = {
            "count": self.count,
            "bytes": self.bytes,
            "reserved": self.reserved if not self.unknown else None,
            "largest": self.largest,
            "kinds": {kind.label: size for kind, size in zip(KINDS, self.kinds) if size},
        }
        return cast("schema.BreakdownRow", {by: key, **amounts})
