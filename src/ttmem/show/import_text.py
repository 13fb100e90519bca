# SPDX-License-Identifier: Apache-2.0
"""The summary of an import as text: what was read and written, the peaks of each chip, and what is not known."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from ttmem.documents.common_text import chip_title, short_line
from ttmem.model.units import human
from ttmem.show.text import Column, Style, table, wrap

if TYPE_CHECKING:
    from ttmem.model.schema import Import, ImportChip, ImportKind


def render(found: Import, style: Style) -> str:
    """The text of a document with schema "ttmem.import/1"."""
    found = style.clean(found)
    release = f" of ttnn {found['ttnn']}" if found["ttnn"] else ""
    chips, out = found["chips"], shlex.quote(found["output"])
    operations = f"{found['operations']} operation{'s' if found['operations'] != 1 else ''}"
    lines = wrap(
        f"{found['file']}: {found['form']}{release}, {operations}"
        f"{', captured without executing anything' if found['virtual'] else ''}",
        style,
    )
    several = "s" if len(chips) != 1 else ""
    lines += wrap(f"{found['output']}: {found['events']} events, {len(chips)} chip{several}", style)
    rows = [(chip, kind, total) for chip in chips for kind, total in chip["kinds"].items()]
    lines += ["", *(_table(rows, style) if rows else ["Nothing in it takes memory of a chip."]), ""]
    lines += wrap(f"All of it is {found['confidence']}. Not in the file: {'; '.join(found['lacks'])}.", style)
    if found["clock"] == "counted":
        lines += wrap("There are no times in it: a microsecond stands for a node.", style)
    if any(chip["geometry"] is None for chip in chips):
        lines += wrap(
            "How large the chips are is not in it; --board NAME says so, and then there is a map of L1.", style
        )
    if found["unsized"]:
        lines += wrap(
            f"Left out, because nothing tells their size: {found['unsized']} buffers; try --board NAME.", style
        )
    lines += ["", f"Next: ttmem replay --peaks {out}", f"      ttmem l1 --file {out}"]
    if found["failures"]:
        failures = f"{found['failures']} failure{'s' if found['failures'] != 1 else ''}"
        lines.append(f"      ttmem explain {out}  # {failures} to explain")
    return "\n".join(lines)


def _table(rows: list[tuple[ImportChip, str, ImportKind]], style: Style) -> list[str]:
    return table(
        [
            Column("CHIP", [chip_title(chip["chip"], chip["device"], chip["board"]) for chip, _, _ in rows], 0),
            Column("KIND", [kind for _, kind, _ in rows], 0, gap=2),
            Column("AT THE END", [human(total["used"]) for _, _, total in rows], 0, right=True, gap=2),
            Column("PEAK", [human(total["peak"]) for _, _, total in rows], 0, right=True, gap=2),
            Column("IN", [_made_in(total) for _, _, total in rows], 1, low=8, gap=2),
        ],
        style,
    )


def _made_in(total: ImportKind) -> str:
    return ", ".join(filter(None, (total["peak_operation"], short_line(total["peak_line"])))) or "-"
