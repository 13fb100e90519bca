# SPDX-License-Identifier: Apache-2.0
"""The peaks of each chip and kind as text, with the largest allocations that were live then."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ttmem.documents.common_text import local_time, short_line
from ttmem.model.kinds import KERNEL_KINDS
from ttmem.model.units import human
from ttmem.show.text import Style, wrap

if TYPE_CHECKING:
    from ttmem.model.schema import PeakRow
    from ttmem.show.chip_table import Names

_ALLOCATIONS_SHOWN = 5
_IN_THE_RING = {kind.label for kind in KERNEL_KINDS}  # their address is that of the kernel ring


def render(found: list[PeakRow], names: Names, style: Style) -> str:
    """Each peak of a kind, with its largest allocations."""
    found = style.clean(found)
    lines = []
    for one in found:
        if "kind" not in one:  # a pool has the same allocations again
            continue
        title = f"{names.title(one['chip'])}, {one['kind']}: {human(one['bytes'])} at {local_time(one['time'], 6)}"
        lines += wrap(title, style)
        for item in one["largest"][:_ALLOCATIONS_SHOWN]:
            where = "" if item["kind"] in _IN_THE_RING else f" at {item['address']:#x}"
            text = f"{human(item['size'])}{where}{' in an L1 buffer, which is counted' if item['shared'] else ''}"
            words = text, item["cores"], item["tag"], item["shape"], short_line(item["line"])
            lines += wrap(", ".join(filter(None, words)), style, "    ", "  ")
        if len(one["largest"]) > _ALLOCATIONS_SHOWN:
            lines.append(f"  and {len(one['largest']) - _ALLOCATIONS_SHOWN} smaller ones, which --json has")
    return "\n".join(lines) or "Nothing was ever allocated."
