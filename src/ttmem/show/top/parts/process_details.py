# SPDX-License-Identifier: Apache-2.0
"""The details of the selected process: where it runs, what it holds by kind, its sources and problems."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ttmem.documents.common_text import anomaly_line
from ttmem.model.units import human, peak_text
from ttmem.show.chip_table import Names
from ttmem.show.process_table import MEANINGS, limit_of
from ttmem.show.text import Style, one_line, wrap
from ttmem.show.top.parts.listing import age
from ttmem.show.top.parts.rows import Row

if TYPE_CHECKING:
    from ttmem.model.schema import Note, ProcessRow

Said = tuple[str, str]  # sentence, style
Peak = tuple["int | None", "int | None"]  # value, upper limit if it is not exact
_TICKS = os.sysconf("SC_CLK_TCK")
_PEAKS_SHOWN = 3


def born(process: ProcessRow, booted: float | None) -> float | None:
    """When it started, in seconds since 1970; if not known, when it first reported."""
    if process["start"] is not None and booted is not None:
        return float(booted + process["start"] / _TICKS)
    return process["seen"]


def process_age(process: ProcessRow, now: float | None, booted: float | None) -> float | None:
    """Its age; for an exited process, its age at the exit."""
    start = born(process, booted)
    end = now if process["exited"] is None else process["exited"]
    return None if start is None or end is None else end - start


def title(process: ProcessRow) -> str:
    """
    >>> title({"pid": 4711, "name": "python", "user": "ann"})
    'pid 4711 python (ann)'
    """
    name = f" {process['name']}" if process["name"] else ""
    user = f" ({process['user']})" if process["user"] else ""
    return f"pid {process['pid'] or '?'}{name}{user}"


def details(
    process: ProcessRow, notes: list[Note], names: Names, now: float | None, booted: float | None, style: Style
) -> list[Row]:
    """Rows on one process, the most important first."""
    sentences = [*_self(process, now, booted), *_memory(process, names, style), *_trouble(process)]
    sentences += [(f"Note: {note['text']}", "warn") for note in notes if note["pid"] == process["pid"] is not None]
    return [[(row, name)] for text, name in sentences for row in wrap(style.clean(text), style, "  ", " ")]


def _self(process: ProcessRow, now: float | None, booted: float | None) -> Iterator[Said]:
    unknown = "command line not known, or not visible to this user"
    yield process["command"] or unknown, "" if process["command"] else "dim"
    words = [process["state"], f"age {age(process_age(process, now, booted))}"]
    if process["exited"] is not None and now is not None:
        words.append(f"exited {age(max(0.0, now - process['exited']))} ago")
    if process["container"]:
        words.append(f"in {process['container']}")
    if process["user_id"] is not None:
        words.append(f"uid {process['user_id']}")
    if process["claimed_pids"]:
        words.append(f"calls itself pid {', '.join(map(str, process['claimed_pids']))}")
    if process["rss"] is not None:
        busy = "" if process["cpu_percent"] is None else f" and {process['cpu_percent']:.0f}% of a core"
        words.append(f"uses {human(process['rss'])} of host RAM{busy}")
    if process["allocations"] is not None:
        words.append(f"{process['allocations']:,} allocations")
    words += [f"source {source['name']} ({source['confidence']})" for source in process["sources"]]
    yield ", ".join(words), ""
    if process["state"] in MEANINGS:
        yield MEANINGS[process["state"]], "dim"


def _memory(process: ProcessRow, names: Names, style: Style) -> Iterator[Said]:
    shares = process["chips"]
    kinds: dict[str, int] = {}
    for share in shares:
        for kind, size in share["kinds"].items():
            kinds[kind] = kinds.get(kind, 0) + (size or 0)
    sums = [f"{kind} {human(size)}" for kind, size in kinds.items() if size]
    chip_ids = {share["chip"] for share in shares}
    on = f" on chip{'s' if len(chip_ids) > 1 else ''} {names.several(chip_ids)}" if chip_ids else ""
    if sums:
        yield f"By kind{on}: {', '.join(sums)}", ""
    if process.get("holds"):
        held = f"Open chips: {names.several(process['holds'])}"
        silent = [chip_id for chip_id in process["holds"] if chip_id not in chip_ids]
        yield held + (f"; its memory on {names.several(silent)} is not known" if silent else ""), ""
    peaks: dict[tuple[Peak, Peak], list[str]] = {}  # equal peaks are shown once
    for share in shares:
        dram, l1 = ((share[name], limit_of(share, name)) for name in ("peak_dram", "peak_l1"))
        if dram[0] is not None or l1[0] is not None:
            peaks.setdefault((dram, l1), []).append(share["chip"])
    texts = [
        f"{names.several(found)}{' each' if len(found) > 1 else ''}: "
        f"DRAM {_peak(dram, style)}, L1 buffers {_peak(l1, style)}"
        for (dram, l1), found in list(peaks.items())[:_PEAKS_SHOWN]
    ]
    if texts:
        rest = sum(len(found) for found in list(peaks.values())[_PEAKS_SHOWN:])
        more = f"; and {rest} more chip{'s' if rest > 1 else ''}" if rest else ""
        yield "Peaks on chip " + "; ".join(texts) + more, ""


def _peak(peak: Peak, style: Style) -> str:
    size, at_most = peak
    return peak_text(human(size), at_most, ascii=style.ascii)


def _trouble(process: ProcessRow) -> Iterator[Said]:
    for source in process["sources"]:
        if source["trouble"]:
            yield f"{source['name']}: {one_line(source['trouble'])}", "warn"
    if any(process["anomalies"].values()):
        yield anomaly_line(process["anomalies"]), "warn"
