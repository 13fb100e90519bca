# SPDX-License-Identifier: Apache-2.0
"""The figures of a phase as a table in HTML, for notebooks."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from ttmem.model.units import human

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ttmem.collect.memory import PhaseFigures

_TITLES = ("device", "kind", "start", "peak", "end", "change")
_POOLS = {"dram_pool": "DRAM pool", "l1_pool": "L1 pool"}
_RIGHT = "text-align:right"


def phase_table(name: str, about: str, figures: Mapping[tuple[int | None, str], PhaseFigures]) -> str:
    """A row for each device and kind that was used; ``about`` says how exact the figures are."""
    devices = sorted({device for device, _ in figures if device is not None})
    rows = []
    for device in devices if len(devices) == 1 else [*devices, None]:
        for (number, kind), one in figures.items():
            if number == device and (any(one) or kind in _POOLS):
                where = "all" if device is None else str(device)
                change = ("+" if one.delta > 0 else "-" if one.delta < 0 else "") + human(abs(one.delta))
                values = (human(one.begin), human(one.peak), human(one.end), change)
                rows.append([where, _POOLS.get(kind, kind), *values])
    head = "".join(f"<th>{title}</th>" for title in _TITLES)
    body = "".join(f"<tr>{''.join(_cell(text, place >= 2) for place, text in enumerate(row))}</tr>" for row in rows)
    return (
        f"<div><b>phase {escape(name)}</b> <span>({escape(about)})</span>"
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _cell(text: str, number: bool) -> str:
    return f'<td style="{_RIGHT}">{escape(text)}</td>' if number else f"<td>{escape(text)}</td>"
