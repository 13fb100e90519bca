# SPDX-License-Identifier: Apache-2.0
"""Leaks in words, for `ttmem leaks` and the verdict of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ttmem.documents.common_text import short_line
from ttmem.documents.pool_amounts import amounts_text, pool_amounts
from ttmem.model.kinds import KIND_BY_LABEL
from ttmem.model.stack_frames import users_frames
from ttmem.model.units import human

if TYPE_CHECKING:
    from ttmem.model import schema


def leak_text(found: schema.Leaks) -> str:
    """The verdict if there is a leak: the group that grows fastest, and how many more there are."""
    first, groups = found["growing"][0], found["verdict"]["groups"]
    more = f"; and {groups - 1:,} more group{'s' * (groups > 2)}" if groups > 1 else ""
    return f"leak: {speed_text(first)} at {origin_text(first)}; {amount_text(first)} so far{more}"


def amount_text(row: schema.LeakRow) -> str:
    amount = int(KIND_BY_LABEL[row["kind"]]), tuple(row["chips"]), row["count"], row["per_chip"]
    return amounts_text(pool_amounts([amount]), "buffer")


def speed_text(row: schema.LeakRow) -> str:
    """How fast a group grows, or how much it is above a baseline."""
    if row["above_baseline"]:
        return f"+{row['above_baseline']:,} above the baseline"
    growth = row["growth"]
    if growth is None:
        return ""
    per_step = growth["per_step"]
    return f"+{_number(growth['per_minute'])} per minute" if per_step is None else f"+{_number(per_step)} per step"


def _number(value: float) -> str:
    """
    >>> _number(2.0), _number(1.25), _number(1234.5), _number(0.0123)
    ('2', '1.2', '1,234', '0.012')
    """
    if value >= 10 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 1 else f"{value:.2g}"


def origin_text(row: schema.LeakRow, shapes: int = 1) -> str:
    """The line, the operation and the shape of a group, as far as they are known; or the number of shapes."""
    size = f"{human(row['size'])} each" if row["size"] else None
    shape = row["shape"] or size if shapes == 1 else f"{shapes:,} shapes"
    made = [_place(row["stack"]), row["op"], shape]
    return ", ".join(part for part in made if part) or "buffers of other sizes"


def _place(stack: list[str] | None) -> str | None:
    """The user's innermost line and the one that called it: the first is often that of a helper that makes all tensors.

    >>> _place(["a/llama/model.py:12 zeros", "a/llama/model.py:42 forward"]), _place(["main.py:3 main"])
    ('llama/model.py:12 zeros, called at :42 forward', 'main.py:3 main')
    """
    if not stack:
        return None
    frames = users_frames("\n".join(stack)) or stack
    line = short_line(frames[0]) or ""
    if len(frames) < 2:
        return line
    file, caller = line.rpartition(":")[0], short_line(frames[1]) or ""
    return f"{line}, called at {caller[len(file) :] if file and caller.startswith(f'{file}:') else caller}"


def age_text(seconds: float) -> str:
    """An age in a readable unit.

    >>> age_text(0.42), age_text(59.9), age_text(150), age_text(7300), age_text(200000)
    ('0.4 s', '59 s', '2 min', '2.0 h', '2.3 d')
    """
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{int(seconds)} s"
    if seconds < 7200:
        return f"{int(seconds / 60)} min"
    return f"{seconds / 3600:.1f} h" if seconds < 172800 else f"{seconds / 86400:.1f} d"
