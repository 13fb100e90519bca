# SPDX-License-Identifier: Apache-2.0
"""Live allocations of each pool as a tree of callers: outermost frame first, then the operation.

Allocations without a stack are below their operation alone.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final, Literal

from ttmem.account.allocations import Allocation
from ttmem.account.call_sites import operation_of, stack_of
from ttmem.account.entities import Chip
from ttmem.analyze.chip_sums import ChipSums, CountedChips
from ttmem.model.kinds import BREAKDOWN_POOL_OF, BreakdownPool
from ttmem.model.stack_frames import folded

if TYPE_CHECKING:
    from ttmem.model import schema

SCHEMA: Final = "ttmem.tree/1"
_KEPT_STACKS = 65_536
Step = tuple[str, Literal["frame", "ttnn", "op", "unknown"]]


class CallTree:
    """Collects allocations one by one. An allocation of a mesh counts once, with its bytes on all selected chips."""

    def __init__(
        self, counted: CountedChips | None = None, *, search: str | None = None, pool: BreakdownPool | None = None
    ) -> None:
        """``search`` keeps allocations with this text in a frame, the operation or the shape; case is ignored."""
        self._counted = counted or CountedChips()
        self._search = search
        self._wanted = None if search is None else search.lower()
        self._pool = pool
        self._roots = [_Node("", "unknown") for _ in BreakdownPool]

    def add(self, allocation: Allocation) -> None:
        pool = BREAKDOWN_POOL_OF[allocation.kind]
        chips = self._counted.of(allocation).chips
        if not chips or (self._pool is not None and pool is not self._pool):
            return
        path = path_of(stack_of(allocation), operation_of(allocation))
        if self._wanted is not None and not self._matches(path, allocation, self._wanted):
            return
        node, size = self._roots[pool], allocation.counted
        node.sums.add(chips, size)
        for name, kind in path:
            node = node.child(name, kind)
            node.sums.add(chips, size)

    def _matches(self, path: tuple[Step, ...], allocation: Allocation, wanted: str) -> bool:
        if any(wanted in name.lower() for name, _ in path):
            return True
        extra = allocation.extra
        return extra is not None and extra.shape is not None and wanted in extra.shape.lower()

    def document(self, time: str) -> schema.CallTree:
        pools: list[schema.CallTreePool] = [
            {"pool": pool.label, **root.sums.counted(), "children": root.rows()}
            for pool, root in zip(BreakdownPool, self._roots)
            if root.sums.count
        ]
        return {"schema": SCHEMA, "time": time, "search": self._search, "pools": pools}


@lru_cache(maxsize=_KEPT_STACKS)  # few stacks, many allocations
def path_of(stack: str | None, op: str | None) -> tuple[Step, ...]:
    """The callers, outermost first, and the operation. ttnn's own frames are one step, and none before an operation.

    >>> path_of("site-packages/ttnn/decorators.py:7 call\\nmodel.py:42 forward\\nmain.py:3 main", "ttnn.add")
    (('main.py:3 main', 'frame'), ('model.py:42 forward', 'frame'), ('ttnn.add', 'op'))
    >>> path_of(None, None)
    (('no stack and no operation is known', 'unknown'),)
    """
    frames = reversed(folded(stack.split("\n")) if stack else [])
    steps: list[Step] = [(frame, "ttnn" if frame.startswith("... ") else "frame") for frame in frames]
    if op is not None:
        while steps and steps[-1][1] == "ttnn":
            steps.pop()
        steps.append((op, "op"))
    return tuple(steps) or (("no stack and no operation is known", "unknown"),)


class _Node:
    __slots__ = ("children", "kind", "name", "sums")

    def __init__(self, name: str, kind: Literal["frame", "ttnn", "op", "unknown"]) -> None:
        self.name, self.kind = name, kind
        self.sums: ChipSums[Chip] = ChipSums()
        self.children: dict[Step, _Node] = {}

    def child(self, name: str, kind: Literal["frame", "ttnn", "op", "unknown"]) -> _Node:
        found = self.children.get((name, kind))
        if found is None:
            found = self.children[name, kind] = _Node(name, kind)
        return found

    def rows(self) -> list[schema.CallTreeNode]:
        """The children, those with most bytes first."""
        order = sorted(self.children.values(), key=lambda one: (-one.sums.bytes, -one.sums.count, one.name))
        return [{"name": one.name, "type": one.kind, **one.sums.counted(), "children": one.rows()} for one in order]
