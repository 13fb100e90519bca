# SPDX-License-Identifier: Apache-2.0
"""Allocations put together by what made them, as text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ttmem.account.call_sites import short
from ttmem.model.printable import printable, printable_data
from ttmem.model.units import human

Json = dict[str, Any]
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


def rows(groups: Iterable[Json], by: str) -> Iterator[str]:
    """A line for each group, and for stacks one for each further frame."""
    for group in groups:
        key = group[by] and str(group[by])
        frames = key.split("\n") if by == "stack" and key else [short(key) if by == "line" else key]
        first, *rest = (frame and printable(frame) for frame in frames)
        sizes = printable_data(group["kinds"]).items()
        kinds = ", ".join(f"{kind} {human(size)}" for kind, size in sizes if by != "kind")
        row = f"{human(group['bytes']):>10} {group['count']:>7,} x  {first or NONE[by]}"
        yield f"{row}   {kinds}" if kinds else row
        yield from (f"{'':22}{frame}" for frame in rest)


def render(found: Json) -> str:
    """An answer of GET /groups."""
    by = found["by"]
    if not found["groups"]:
        return "Nothing is allocated."
    lines = [f"{human(found['bytes'])} by {WORDS[by]}:", *rows(found["groups"], by)]
    left = found["count"] - len(found["groups"])
    if left:
        lines.append(f"and {left:,} more")
    return "\n".join(lines)
