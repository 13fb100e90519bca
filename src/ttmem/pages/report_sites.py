# SPDX-License-Identifier: Apache-2.0
"""The call sites that a page lists, with their strings and the tree of their stacks; the rest is one entry per kind."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import numpy as np

from ttmem.analyze.call_tree import path_of
from ttmem.model.kinds import KINDS
from ttmem.model.stack_frames import line_of
from ttmem.recording.allocation_table import AllocationTable
from ttmem.recording.record_arrays import Array
from ttmem.statistics.exact_sums import sums_by

if TYPE_CHECKING:
    from ttmem.model.page_schema import ReportSite, ReportStacks

MOST_SITES = 2000
_NONE = -1


class Strings:
    """Each string once; its number is its place."""

    def __init__(self, shown: Callable[[str], str] = lambda text: text) -> None:
        """``shown`` gives the text that the page may contain."""
        self._places: dict[str, int] = {}
        self._shown = shown

    def place(self, text: str | None) -> int:
        return _NONE if text is None else self._places.setdefault(self._shown(text), len(self._places))

    @property
    def list(self) -> list[str]:
        return list(self._places)


class Stacks:
    """A tree of frames, outermost first."""

    def __init__(self, strings: Strings) -> None:
        self._strings = strings
        self._children: dict[tuple[int, str], int] = {}
        self._known: dict[tuple[str | None, bool], int] = {}
        self.tree: ReportStacks = {"parent": [], "name": [], "type": []}

    def node(self, stack: str | None, op: str | None) -> int:
        """The node of a stack's innermost frame; -1 without a stack. ttnn's frames before an operation are left out."""
        key = stack, op is None
        if key not in self._known:
            self._known[key] = self.add((name, kind) for name, kind in path_of(stack, op) if kind in ("frame", "ttnn"))
        return self._known[key]

    def add(self, frames: Iterable[tuple[str, str]]) -> int:
        """The node of the last of these frames, each with its type."""
        node = _NONE
        for name, kind in frames:
            node = self._child(node, name, kind == "ttnn")
        return node

    def _child(self, parent: int, name: str, of_ttnn: bool) -> int:
        key = parent, name
        if key not in self._children:
            self._children[key] = len(self.tree["parent"])
            self.tree["parent"].append(parent)
            self.tree["name"].append(self._strings.place(name))
            self.tree["type"].append("ttnn" if of_ttnn else "frame")
        return self._children[key]


class Sites:
    """The sites of a page, and for each allocation which one it has."""

    def __init__(self, table: AllocationTable, strings: Strings, important: list[Array]) -> None:
        """``important`` are rows whose call sites come first, such as what is live at a peak."""
        self.strings, self.stacks = strings, Stacks(strings)
        kinds = len(KINDS)
        keys = table.site.astype(np.int64) * kinds + table.kind
        count = len(table.sites) * kinds
        used = np.bincount(keys, minlength=count)
        distinct = np.flatnonzero(used)
        chosen = self._chosen(table, keys, used, distinct, important)
        self.list: list[ReportSite] = [self._site(table, key // kinds, key % kinds) for key in chosen.tolist()]
        self.left_out = len(distinct) - len(chosen)
        self.by_key = by_key = np.full(count, -1, np.int64)  # by site of the table and kind
        by_key[chosen] = np.arange(len(chosen))
        rest = distinct[by_key[distinct] < 0]
        for kind in np.unique(rest % kinds).tolist():
            of_kind = rest[rest % kinds == kind]
            by_key[of_kind] = len(self.list)
            self.list.append({"kind": kind, "op": _NONE, "shape": _NONE, "line": _NONE, "stack": _NONE, "part": _NONE,
                              "other": len(of_kind)})  # fmt: skip
        self.of_row = by_key[keys].astype(np.int32) if len(keys) else np.zeros(0, np.int32)

    def _chosen(
        self, table: AllocationTable, keys: Array, used: Array, distinct: Array, important: list[Array]
    ) -> Array:
        """The most important ones first: live at a peak, then most bytes in total, then most allocations."""
        if len(distinct) <= MOST_SITES:
            total = sums_by(keys, table.counted, len(used))[distinct]
            return np.asarray(distinct[np.argsort(-total, kind="stable")])
        found: dict[int, None] = {}
        for rows in important:
            live = sums_by(keys[rows], table.counted[rows], len(used))
            found |= dict.fromkeys(_largest(live, MOST_SITES // 4))
        found |= dict.fromkeys(_largest(sums_by(keys, table.counted, len(used)), MOST_SITES // 2))
        found |= dict.fromkeys(_largest(used, MOST_SITES))
        return np.array(list(found)[:MOST_SITES], np.int64)

    def _site(self, table: AllocationTable, number: int, kind: int) -> ReportSite:
        site, place = table.sites[number], self.strings.place
        return {
            "kind": kind,
            "op": place(site.op),
            "shape": place(site.shape),
            "line": place(line_of(site.stack)),
            "stack": self.stacks.node(site.stack, site.op),
            "part": place(site.part),
            "other": 0,
        }


def _largest(values: Array, count: int) -> list[int]:
    """The places of the largest values above 0, largest first."""
    order = np.argsort(-values, kind="stable")[:count]
    found: list[int] = order[values[order] > 0].tolist()
    return found
