# SPDX-License-Identifier: Apache-2.0
"""The chips that an allocation of a mesh counts on, and sums over chips, each at the cost of one chip."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from ttmem.account.allocations import Allocation, Holding
from ttmem.account.entities import Chip
from ttmem.account.totals import NOT_YET, Total

if TYPE_CHECKING:
    from ttmem.model.schema import CountOverChips, SumOverChips

C = TypeVar("C", bound=Hashable)


class ChipSums(Generic[C]):
    """Allocations and their bytes, added once for all chips that they are on.

    >>> sums = ChipSums[int]()
    >>> sums.add((0, 1, 2, 3), 100)
    >>> sums.add((0,), 5)
    >>> sums.counted()
    {'count': 2, 'bytes': 405, 'per_chip': 105, 'chips': 4}
    """

    __slots__ = ("_sizes", "count")

    def __init__(self) -> None:
        self.count = 0
        self._sizes: dict[tuple[C, ...], int] = {}  # few: there is one entry for each mesh

    def add(self, chips: tuple[C, ...], size: int, count: int = 1) -> None:
        """Add allocations that have together ``size`` bytes on each of these chips."""
        self.count += count
        self._sizes[chips] = self._sizes.get(chips, 0) + size

    def merge(self, other: ChipSums[C]) -> None:
        self.count += other.count
        for chips, size in other._sizes.items():
            self._sizes[chips] = self._sizes.get(chips, 0) + size

    @property
    def bytes(self) -> int:
        """Bytes on all chips together."""
        return sum(len(chips) * size for chips, size in self._sizes.items())

    def by_chip(self) -> dict[C, int]:
        found: dict[C, int] = {}
        for chips, size in self._sizes.items():
            for chip in chips:
                found[chip] = found.get(chip, 0) + size
        return found

    def sums(self) -> SumOverChips:
        """Bytes on all chips, on the chip that has most of them, and the number of chips."""
        if len(self._sizes) == 1:  # of nearly every row
            ((chips, size),) = self._sizes.items()
            return {"bytes": len(chips) * size, "per_chip": size, "chips": len(chips)}
        found = self.by_chip()
        return {"bytes": sum(found.values()), "per_chip": max(found.values(), default=0), "chips": len(found)}

    def counted(self) -> CountOverChips:
        return {"count": self.count, **self.sums()}


class Selected(NamedTuple):
    """Of the chips in whose totals an allocation is: those that were requested, and the others."""

    chips: tuple[Chip, ...]
    others: tuple[Chip, ...] = ()


_NOWHERE = Selected(())


def _all_chips(holding: Holding) -> tuple[Chip, ...]:
    return holding.chips


class CountedChips:
    """Finds the chips on which allocations count, once for each kind of a holding.

    An allocation counts on no chip while its source is in a resync; otherwise on all chips of its device or mesh,
    except where a stronger source reports the same (rule 12).
    """

    def __init__(self, wanted: Callable[[Holding], tuple[Chip, ...]] = _all_chips) -> None:
        """``wanted`` returns the requested chips of a holding, in the order of its mesh."""
        self._wanted = wanted
        self._known: dict[Total, tuple[frozenset[Chip], Selected]] = {}

    def of(self, item: Allocation) -> Selected:
        leaf = item.holding.leaves[item.kind]
        return _NOWHERE if leaf is None or item.born == NOT_YET else self.of_leaf(item.holding, leaf)

    def of_leaf(self, holding: Holding, leaf: Total) -> Selected:
        """The same for all allocations of one kind in a holding."""
        known = self._known.get(leaf)
        if known is None or known[0] is not leaf.chips:  # the chips may change between two slices of a request
            known = self._known[leaf] = leaf.chips, select(holding.chips, leaf.chips, self._wanted(holding))
        return known[1]


def select(chips: tuple[Chip, ...], counted: frozenset[Chip], wanted: tuple[Chip, ...]) -> Selected:
    """Of the chips of a holding, those on which a kind counts, in the order of the mesh."""
    here = chips if len(counted) == len(chips) else tuple(c for c in chips if c in counted)
    if wanted is chips:
        return Selected(here)
    return Selected(tuple(c for c in here if c in wanted), tuple(c for c in here if c not in wanted))
