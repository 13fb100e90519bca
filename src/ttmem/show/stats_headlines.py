# SPDX-License-Identifier: Apache-2.0
"""What stands out in the statistics of a recording, in a few sentences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ttmem.documents.common_text import short_line
from ttmem.model.units import human
from ttmem.show.kind_table import KIND_WORDS
from ttmem.show.stats_over_time import after

if TYPE_CHECKING:
    from ttmem.model.schema import Stats, StatsCause, StatsFragmentation, StatsKindRow

_POOL_OF = {"dram": "dram", "l1": "l1_buffers"}  # of the kinds that are worth a sentence
_TEMPORARY_SHARE = 0.25
_SCATTERED = 0.75  # a largest free block below this part of what is free is worth a sentence


def headlines(found: Stats) -> list[str]:
    """Sentences, the most useful first; none if nothing stands out."""
    return [
        *(line for row in found["kinds"] for line in _temporary(row, found)),
        *_late(found),
        *(line for one in found["fragmentation"] for line in _scattered(one, found)),
        *_growth(found),
    ]


def _temporary(row: StatsKindRow, found: Stats) -> Iterator[str]:
    made, temporary = row["made"]["count"], row["temporary"]["count"]
    if row["kind"] not in _POOL_OF or not made or temporary < _TEMPORARY_SHARE * made:
        return
    where = _place(_POOL_OF[row["kind"]], found)
    yield (
        f"{temporary:,} of {made:,} {KIND_WORDS[row['kind']]} were temporary "
        f"({human(row['temporary']['bytes'])} of {human(row['made']['bytes'])}){where}"
    )


def _place(pool: str, found: Stats) -> str:
    """The line, or else the operation, that made most of the temporary allocations."""
    for by in ("line", "op"):
        for top in found["tops"]:
            rows = [row for row in top["rows"] if row["key"] is not None and row["temporary"]["count"]]
            if (top["pool"], top["by"]) == (pool, by) and rows:
                row: StatsCause = min(rows, key=lambda one: one["rank"]["temporary"])
                return f", most by {short_line(row['key'])}: {row['temporary']['count']:,}"
    return ""


def _late(found: Stats) -> Iterator[str]:
    late = found["freed_late"]
    if late["rows"]:
        row = late["rows"][0]
        where = short_line(row["line"]) or row["op"] or "an unknown place"
        yield (
            f"{late['count']:,} allocations were never freed by the program; "
            f"most bytes by {where}: {human(row['bytes'])} in {row['count']:,}"
        )


def _scattered(one: StatsFragmentation, found: Stats) -> Iterator[str]:
    worst = one["worst"]
    if worst is None or not worst["free"] or worst["largest"] >= _SCATTERED * worst["free"]:
        return
    phases = [row["phase"] for row in found["phases"] if worst == (row["dram"] if one["kind"] == "dram" else row["l1"])]
    during = f" in phase {phases[-1]}" if phases else ""
    yield (
        f"{one['kind'].upper()} was most fragmented at {after(worst['after_s'])}{during}: the largest free block of a "
        f"bank was {human(worst['largest'])} of {human(worst['free'])} free"
    )


def _growth(found: Stats) -> Iterator[str]:
    last = found["programs"]["tenths"][-1]
    if last["compiled"] and found["programs"]["compiled"] > last["compiled"]:
        number = f"{last['compiled']:,} programs were" if last["compiled"] > 1 else "1 program was"
        yield f"{number} still compiled in the last tenth of the time"
