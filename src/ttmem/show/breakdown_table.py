# SPDX-License-Identifier: Apache-2.0
"""A breakdown as text: allocations summed by operation, line, stack, shape, kind or program."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Literal, cast

from ttmem.documents.common_text import short_line
from ttmem.model.printable import printable, printable_data
from ttmem.model.units import human

if TYPE_CHECKING:
    from ttmem.model.schema import Breakdown, BreakdownRow

By = Literal["op", "line", "stack", "shape", "kind", "program"]  # what allocations are summed by
WORDS = {
    "op": "operation",
    "line": "line",
    "stack": "stack",
    "shape": "shape",
    "kind": "kind",
    "program": "program",
}
NONE = {
    "op": "no ttnn operation",
    "line": "no line is known",
    "stack": "no stack is known",
    "shape": "no shape is known",
    "program": "no program",
    "kind": "",
}


def rows(breakdown: Iterable[BreakdownRow], by: By) -> Iterator[str]:
    """A line for each row, and for stacks one for each further frame."""
    for row in breakdown:
        key = row[by] and str(row[by])
        frames = key.split("\n") if by == "stack" and key else [short_line(key) if by == "line" else key]
        first, *rest = (frame and printable(frame) for frame in frames)
        sizes = printable_data(row["kinds"]).items()
        kinds = ", ".join(f"{kind} {human(size)}" for kind, size in sizes if by != "kind")
        line = f"{human(row['bytes']):>10} {row['count']:>7,} x  {first or NONE[by]}"
        yield f"{line}   {kinds}" if kinds else line
        yield from (f"{'':22}{frame}" for frame in rest)


def render(found: Breakdown) -> str:
    """An answer of GET /breakdown."""
    by = cast("By", found["by"])
    if not found["rows"]:
        return "Nothing is allocated."
    lines = [f"{human(found['bytes'])} by {WORDS[by]}:", *rows(found["rows"], by)]
    left = found["count"] - len(found["rows"])
    if left:
        lines.append(f"and {left:,} more")
    return "\n".join(lines)
