# SPDX-License-Identifier: Apache-2.0
"""The peaks of each chip and kind as text, with the largest allocations that were live then."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ttmem.documents.common_text import local_time, short_line
from ttmem.model.kinds import KERNEL_KINDS
from ttmem.model.units import human
from ttmem.show.kind_table import KIND_WORDS
from ttmem.show.text import Style, wrap

if TYPE_CHECKING:
    from ttmem.model.schema import PeakRow
    from ttmem.show.chip_table import Names

_ALLOCATIONS_SHOWN = 5
_CORE_RANGE = re.compile(r"\[(\d+)-(\d+) - (\d+)-(\d+)\]")  # in ttnn's text of a set of ranges
_IN_THE_RING = {kind.label for kind in KERNEL_KINDS}  # their address is that of the kernel ring


def _cores(text: str | None) -> str:
    """Ranges of cores as in other commands.

    >>> _cores("{[0-0 - 7-7], [3-9 - 3-9]}")
    'cores 0,0 to 7,7 and 3,9'
    """
    found = _CORE_RANGE.findall(text or "")
    if not found:
        return text or ""
    ranges = [f"{x0},{y0}" if (x0, y0) == (x1, y1) else f"{x0},{y0} to {x1},{y1}" for x0, y0, x1, y1 in found]
    single = len(ranges) == 1 and "to" not in ranges[0]
    return f"core{'' if single else 's'} {' and '.join(ranges)}"


def render(found: list[PeakRow], names: Names, style: Style) -> str:
    """Each peak of a kind, with its largest allocations."""
    found = style.clean(found)
    lines = []
    for one in found:
        if "kind" not in one:  # a pool has the same allocations again
            continue
        when = local_time(one["time"], 6)
        title = f"{names.title(one['chip'])}, {KIND_WORDS[one['kind']]}: {human(one['bytes'])} at {when}"
        lines += wrap(title, style)
        for item in one["largest"][:_ALLOCATIONS_SHOWN]:
            where = "" if item["kind"] in _IN_THE_RING else f" at {item['address']:#x}"
            text = f"{human(item['size'])}{where}{' in an L1 buffer, which is counted' if item['shared'] else ''}"
            words = text, _cores(item["cores"]), item["tag"], item["shape"], short_line(item["line"])
            lines += wrap(", ".join(filter(None, words)), style, "    ", "  ")
        if len(one["largest"]) > _ALLOCATIONS_SHOWN:
            lines.append(f"  and {len(one['largest']) - _ALLOCATIONS_SHOWN} smaller ones; --json lists them")
    return "\n".join(lines) or "Nothing was ever allocated."
