# SPDX-License-Identifier: Apache-2.0
"""A breakdown as text: for each pool a table of allocations, by operation, line, stack, shape, kind or program."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import zip_longest
from typing import TYPE_CHECKING, Literal, cast

from ttmem.documents.breakdown_words import NO_KEY, POOLS
from ttmem.documents.common_text import short_line
from ttmem.documents.pool_amounts import over_chips
from ttmem.model.stack_frames import folded, line_of
from ttmem.model.units import human
from ttmem.show.text import BOLD, DIM, NONE, Column, Style, table, wrap

if TYPE_CHECKING:
    from ttmem.model.schema import Breakdown, BreakdownPoolRow, BreakdownRow, SumOverChips
    from ttmem.show.text import Cell

By = Literal["op", "line", "stack", "shape", "kind", "program"]  # what allocations are summed by
WORDS = {
    "op": "operation",
    "line": "line",
    "stack": "stack",
    "shape": "shape",
    "kind": "kind",
    "program": "program",
}
_PER_CORE_POOLS = ("l1_buffers", "programs", "system")  # their memory is on cores


def title(pool: BreakdownPoolRow) -> str:
    """What a pool sums up to, and over what, where it could be taken for the size of one chip or one core."""
    name = f"{POOLS[pool['pool']]}, which use L1 in turn" if pool["pool"] == "programs" else POOLS[pool["pool"]]
    cores = ", sum over all cores" if pool["pool"] in _PER_CORE_POOLS else ""
    also = f", also on {pool['other_chips']} other chip{'s' * (pool['other_chips'] > 1)}" if pool["other_chips"] else ""
    return f"{name}: {human(pool['bytes'])}{over_chips(pool)} in {allocations(pool['count'])}{cores}{also}"


def allocations(count: int) -> str:
    return f"{count:,} allocation{'' if count == 1 else 's'}"


def per_chip(sums: SumOverChips, text: Callable[[int], str], ascii: bool = False) -> str:
    """The bytes on each chip; if they differ, those on the chip with most, with a mark.

    >>> per_chip({"bytes": 2048, "per_chip": 1024, "chips": 2}, human)
    '1.0 KiB'
    >>> per_chip({"bytes": 2048, "per_chip": 1536, "chips": 2}, human)
    '≤ 1.5 KiB'
    """
    even = sums["per_chip"] * sums["chips"] == sums["bytes"]
    return f"{'' if even else '<= ' if ascii else '≤ '}{text(sums['per_chip'])}"


def pool_tables(pools: Iterable[BreakdownPoolRow], by: By, style: Style, most: int | None = None) -> Iterator[str]:
    """The lines of all pools; ``most`` is how many rows of a pool are shown."""
    for number, pool in enumerate(pools):
        stacks = [row["stack"] for row in pool["rows"][:most]] if by == "stack" else []
        pool = style.clean({**pool, "rows": pool["rows"][:most]})
        if number:
            yield ""
        yield from (style.paint(line, BOLD) for line in wrap(title(pool), style, "  ", ""))
        yield from _table(pool["rows"], by, stacks, style)
        left = pool["groups"] - len(pool["rows"])
        if left:
            size = pool["bytes"] - sum(row["bytes"] for row in pool["rows"])
            over = " on all chips" if pool["chips"] > 1 else ""
            yield f"{human(size):>10}{over}  in {left:,} more"


def _table(rows: list[BreakdownRow], by: By, stacks: list[str | None], style: Style) -> Iterator[str]:
    """``stacks`` are those of the rows, whose newlines are meant."""
    made_by = stacks if by == "stack" else [row[by] for row in rows]
    keys: list[Cell] = [_key(style.clean(line_of(key)) if by == "stack" else key, by) for key in made_by]
    several = by != "kind" and len({kind for row in rows for kind in row["kinds"]}) > 1
    several_chips = any(row["chips"] > 1 for row in rows)
    size = "ALL CHIPS" if several_chips else "SIZE"
    columns = [Column(size, [f"{human(row['bytes']):>10}" for row in rows], 0, right=True, gap=2)]
    if several_chips:
        columns.append(Column("PER CHIP", [per_chip(row, human, style.ascii) for row in rows], 1, right=True, gap=2))
    columns.append(Column("COUNT", [f"{row['count']:>5,}" for row in rows], 0, right=True, gap=2))
    if several_chips:
        columns.append(Column("CHIPS", [f"{row['chips']:,}" for row in rows], 2, right=True, gap=2))
    indent = " " * (sum(column.high + column.gap for column in columns) + 2)  # of frames, below the key
    columns.append(Column(WORDS[by].upper(), keys, 0, low=min(40, style.width // 2), gap=2))
    if several:
        kinds = "KINDS, ALL CHIPS" if several_chips else "KINDS"
        columns.append(Column(kinds, [(_kinds(row), DIM) for row in rows], 1, low=20))
    head, *lines = table(columns, style)
    yield head
    for line, stack in zip_longest(lines, stacks):
        yield line
        yield from (f"{indent}{style.clean(frame)}" for frame in folded(stack.split("\n") if stack else ()))


def _key(key: str | None, by: By) -> Cell:
    if not key:
        return NO_KEY[by], DIM
    return (short_line(key) or key) if by in ("line", "stack") else key, NONE


def _kinds(row: BreakdownRow) -> str:
    return ", ".join(f"{kind} {human(size)}" for kind, size in row["kinds"].items())


def render(found: Breakdown, style: Style) -> str:
    """An answer of GET /breakdown."""
    if not found["pools"]:
        return "Nothing is allocated."
    return "\n".join(line.rstrip() for line in pool_tables(found["pools"], cast("By", found["by"]), style))
