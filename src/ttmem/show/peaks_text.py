# SPDX-License-Identifier: Apache-2.0
"""The peaks of each chip and kind as text, with the largest allocations that were live then."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ttmem.documents.common_text import local_time, short_line
from ttmem.model.units import human, peak_text
from ttmem.show.kind_table import KIND_WORDS
from ttmem.show.text import Style, wrap

if TYPE_CHECKING:
    from ttmem.model.schema import PeakGroup, PeakRow
    from ttmem.show.chip_table import Names

_GROUPS_SHOWN = 8


def _value(peak: PeakRow, style: Style) -> str:
    """The value of a peak, with its limits if it is not exact, and its time."""
    value = peak_text(human(peak["per_chip"]), peak["at_most"], ascii=style.ascii)
    if peak["at_most"] is not None:
        value += f", at most {human(peak['at_most'])},"
    each = " on each chip" if len(peak["chips"]) > 1 else ""
    when = "among records that were lost" if peak["time"] is None else f"at {local_time(peak['time'], 6)}"
    return f"{value}{each} {when}"


def _number(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def render(found: list[PeakRow], groups: list[list[PeakGroup]], names: Names, style: Style) -> str:
    """Each peak of a kind, with everything that was live then; allocations that are alike are one line."""
    found, groups = style.clean(found), style.clean(groups)
    lines = []
    for one, alike in zip(found, groups):
        if "kind" not in one:  # a pool has the same allocations again
            continue
        count = sum(group["count"] for group in alike)
        inside = f", {_number(count, 'allocation')}" if alike else ""
        lines += wrap(
            f"{names.set_title(one['chips'])}, {KIND_WORDS[one['kind']]}: {_value(one, style)}{inside}", style
        )
        for group in alike[:_GROUPS_SHOWN]:
            many = f"{group['count']} x " if group["count"] > 1 else ""
            size = human(group["size"]) if group["size"] else "inside an L1 buffer, which is counted"
            words = f"{many}{size}", group["tag"], group["shape"], short_line(group["line"])
            lines += wrap(", ".join(filter(None, words)), style, "    ", "  ")
        rest = alike[_GROUPS_SHOWN:]
        if rest:
            left, size_left = sum(g["count"] for g in rest), sum(g["count"] * g["size"] for g in rest)
            lines.append(f"  and {_number(left, 'smaller one')}, {human(size_left)} together")
    return "\n".join(lines) or "Nothing was ever allocated."
