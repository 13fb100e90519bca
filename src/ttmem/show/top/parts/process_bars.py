# SPDX-License-Identifier: Apache-2.0
"""Bars for the memory of a process on its chips, coloured by kind; chips with equal amounts share a bar."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ttmem.model.kinds import KIND_BY_LABEL, POOL_OF, WORKER_L1
from ttmem.model.units import human
from ttmem.show.chip_table import Names, percent, share
from ttmem.show.process_table import in_turns
from ttmem.show.text import Style, cells
from ttmem.show.top.parts.event_list import kind_style
from ttmem.show.top.parts.process_rows import parts
from ttmem.show.top.parts.rows import Row, fitted, width_of

if TYPE_CHECKING:
    from ttmem.model.schema import ChipRow, MainPool, ProcessRow

_POOLS: dict[MainPool, str] = {"dram": "DRAM", "l1": "L1"}
_BAR_COLUMNS = (10, 48)  # at least and at most
_WORDS_COLUMNS = 80  # left for text if there is room
_BLOCKS = {"trace": "▓", "kernel": "▒", "firmware": "▒", "l1": "▓", "l1_small": "▓"}  # the others are full
_LETTERS = {"dram": "#", "trace": "t", "l1": "L", "l1_small": "s", "cb": "C", "dfb": "D", "scratchpad": "S"}
_SMALL = {"kernel": "k", "firmware": "f"}


def bar_rows(process: ProcessRow, chips: list[ChipRow], names: Names, style: Style) -> list[Row]:
    """Two rows for each group of chips: DRAM and L1, each a bar and its kinds."""
    known = {chip["chip"]: chip for chip in chips}
    groups = [entry for entry in parts(None, process, names) if entry.share is not None and entry.kind is None]
    labels = [_label(entry.chip_ids, names, style) for entry in groups]
    room = max(map(cells, labels), default=0)
    rows: list[Row] = []
    for entry, label in zip(groups, labels):
        chip = known.get(entry.chip_ids[0])
        for pool, title in _POOLS.items():
            held = entry.share["kinds"] if entry.share else {}
            kinds = [(kind, size) for kind, size in held.items() if size and pool_of(kind) == pool]
            if kinds:
                head: Row = [(f" {label}{' ' * (room - cells(label))} ", "bold"), (f"{title:<5}", "head")]
                rows.append(_row(head, kinds, pool, chip, process["state"], style))
                label = ""
    return rows


def _label(chip_ids: Sequence[str], names: Names, style: Style) -> str:
    each = " each" if len(chip_ids) > 1 else ""
    return style.cut(f"chip {names.several(chip_ids)}", style.width // 3 - len(each)) + each


def pool_of(kind: str) -> str | None:
    known = KIND_BY_LABEL.get(kind)
    return None if known is None else "l1" if known in WORKER_L1 else POOL_OF[known].label


def _row(row: Row, kinds: list[tuple[str, int]], pool: MainPool, chip: ChipRow | None, state: str, style: Style) -> Row:
    """A bar after its name, its size, and as many of its kinds as fit, the largest first."""
    total = sum(size for _, size in kinds)
    capacity = None if chip is None else chip["memory"][pool]["capacity"]
    full_bar = max(total, capacity or 0)
    width = max(_BAR_COLUMNS[0], min(_BAR_COLUMNS[1], style.width - width_of(row) - _WORDS_COLUMNS))
    done = drawn = 0
    for kind, size in kinds:
        done += size
        # A part is never drawn as empty or full.
        end = max(1, min(width - (done < full_bar), round(done / full_bar * width)))
        full = (_LETTERS | _SMALL).get(kind, "#") if style.ascii else _BLOCKS.get(kind, "█")
        row.append((full * (end - drawn), kind_style(kind)))
        drawn = end
    row.append((("." if style.ascii else "░") * (width - drawn), "track"))
    of = "" if not capacity else f" of {human(capacity)}"
    part = percent(share(total, capacity)) if capacity and total <= capacity else ""
    if capacity and (total > capacity or in_turns(pool, total, chip, state)):
        # Cached programs use L1 in turn, so their sum may exceed the capacity.
        of, part = f" with all cached programs, of {human(capacity)}", ""
    row.append((f" {human(total)}{of} {part}".rstrip(), ""))
    for kind, size in sorted(kinds, key=lambda one: -one[1]) if len(kinds) > 1 else ():
        text = f"  {kind} {human(size)}"
        if width_of(row) + len(text) > style.width:
            break
        row.append((text, kind_style(kind)))
    return fitted([span for span in row if span[0]], style.width)
