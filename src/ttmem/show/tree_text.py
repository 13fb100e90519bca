# SPDX-License-Identifier: Apache-2.0
"""A call tree of live allocations as text: bytes, share and count of each caller, indented below its own caller."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ttmem.documents.breakdown_words import POOLS
from ttmem.documents.common_text import short_line
from ttmem.documents.pool_amounts import over_chips
from ttmem.model.units import human, short
from ttmem.show.breakdown_table import allocations
from ttmem.show.text import BOLD, DIM, Style, wrap

if TYPE_CHECKING:
    from ttmem.model.schema import CallTree, CallTreeNode, CallTreePool

_PER_CORE_POOLS = ("l1_buffers", "programs", "system")


def render(found: CallTree, style: Style, *, depth: int | None = None, smallest: int = 0) -> str:
    """The text of a document with schema "ttmem.tree/1".

    ``depth`` limits the levels, ``smallest`` is the least bytes of a line.
    """
    found = style.clean(found)
    lines: list[str] = []
    for pool in found["pools"]:
        lines += ["", *_pool(pool, style, depth, smallest)] if lines else _pool(pool, style, depth, smallest)
    if not lines:
        return f"Nothing with {found['search']!r} was live." if found["search"] else "Nothing was live."
    return "\n".join(line.rstrip() for line in lines)


def _pool(pool: CallTreePool, style: Style, depth: int | None, smallest: int) -> Iterator[str]:
    cores = ", sum over all cores" if pool["pool"] in _PER_CORE_POOLS else ""
    title = f"{POOLS[pool['pool']]}: {human(pool['bytes'])}{over_chips(pool)} in {allocations(pool['count'])}{cores}"
    yield from (style.paint(line, BOLD) for line in wrap(title, style, "  ", ""))
    yield style.paint(f"{'BYTES':>10}  {'SHARE':>7}  {'COUNT':>7}  CALLER", BOLD)
    yield from _nodes(pool["children"], pool["bytes"], "", style, depth, smallest)


def _nodes(
    nodes: list[CallTreeNode], total: int, before: str, style: Style, depth: int | None, smallest: int
) -> Iterator[str]:
    """``before`` is what stands before these callers: the lines of the tree from further up."""
    shown = [node for node in nodes if node["bytes"] >= smallest]
    left = nodes[len(shown) :]
    corner, branch, along = ("`-", "|-", "| ") if style.ascii else ("└─", "├─", "│ ")
    for number, node in enumerate(shown):
        last = number == len(shown) - 1 and not left
        mark, below = ("", " ") if before == "" else (f"{corner if last else branch} ", "   " if last else f"{along} ")
        name, colour = _name(node), DIM if node["type"] in ("ttnn", "unknown") else ""
        inner = node["children"]
        if len(inner) == 1 and inner[0]["type"] == "op" and not inner[0]["children"]:
            name, inner = f"{name}  {inner[0]['name']}", []
        yield _line(_columns(node["bytes"], total, node["count"]), before + mark, name, colour, style)
        if inner and (depth is None or depth > 1):
            yield from _nodes(inner, total, before + below, style, None if depth is None else depth - 1, smallest)
    if left:
        size, count = sum(node["bytes"] for node in left), sum(node["count"] for node in left)
        text = f"{len(left):,} smaller than {short(smallest)}"
        mark = f"{corner} " if before else ""
        yield _line(_columns(size, total, count), before + mark, text, DIM, style)


def _columns(size: int, total: int, count: int) -> str:
    share = f"{100 * size / total:.1f} %" if total else ""
    return f"{human(size):>10}  {share:>7}  {count:>7,}  "


def _name(node: CallTreeNode) -> str:
    return short_line(node["name"]) or node["name"] if node["type"] == "frame" else node["name"]


def _line(columns: str, lines: str, name: str, colour: str, style: Style) -> str:
    """A deep stack leaves at least half of the width to the name."""
    room = max(20, (style.width - len(columns)) // 2)
    if len(lines) > style.width - len(columns) - room:
        lines = style.cut(lines, max(1, style.width - len(columns) - room))
    return columns + style.paint(lines, DIM) + style.paint(style.cut(name, style.width - len(columns + lines)), colour)
