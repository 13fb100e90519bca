# SPDX-License-Identifier: Apache-2.0
"""The peaks of a recording, and what was live at each of them, found by opening its moment.

The account of a later moment has the values and times of the peaks, but not all allocations that were live at them.
"""

from __future__ import annotations

from heapq import nlargest
from math import nextafter
from typing import TYPE_CHECKING, NamedTuple, cast

from ttmem.account.allocations import Allocation
from ttmem.account.ledger import Ledger
from ttmem.account.live_set import counted_chips
from ttmem.account.totals import KEPT
from ttmem.documents.peak_groups import alike
from ttmem.documents.peaks import peaks
from ttmem.documents.snapshot import allocation
from ttmem.model.kinds import KIND_BY_LABEL, KINDS_OF, Kind, Pool
from ttmem.recording.moments import peak_reached
from ttmem.recording.recording_file import Recording

if TYPE_CHECKING:
    from ttmem.account.entities import Chip
    from ttmem.model.schema import PeakGroup, PeakRow
    from ttmem.recording.playhead import Playhead

_KINDS_OF_LABEL = {pool.label: tuple(KINDS_OF[pool]) for pool in Pool}
_Name = tuple[str, int, "int | None", "float | None"]  # kind or pool, value, highest possible value, time


class RecordedPeak(NamedTuple):
    """A peak of one or several chips, and all that was live at it; no groups for a pool or if it is not known."""

    row: PeakRow
    groups: list[PeakGroup]


def recorded_peaks(recording: Recording, ledger: Ledger) -> list[RecordedPeak]:
    """The peaks that an account of a recording has, with what was live at each of them."""
    rows: dict[_Name, list[PeakRow]] = {}
    for row in peaks(ledger):
        label = row["kind"] if "kind" in row else row["pool"]
        name = ("kind " if "kind" in row else "pool ") + label, row["per_chip"], row["at_most"], row["time"]
        rows.setdefault(name, []).append(row)
    found: dict[_Name, list[RecordedPeak]] = {}
    at: dict[float, dict[_Name, list[PeakRow]]] = {}
    for name, same in rows.items():
        if name[3] is None:  # among lost records: what was live is not known
            found[name] = [RecordedPeak(row, []) for row in same]
        else:
            at.setdefault(name[3], {})[name] = same
    head: Playhead | None = None
    for time in sorted(at):
        head = recording.moved(head, nextafter(time, 0.0))
        _open(head, time, at[time], found)
    return [peak for name in rows for peak in found[name]]


def _open(
    head: Playhead, time: float, wanted: dict[_Name, list[PeakRow]], found: dict[_Name, list[RecordedPeak]]
) -> None:
    """Move on to a time. Each peak of that time is taken right after the event that reached it."""
    waiting = dict(wanted)

    def look() -> None:
        for name, rows in [*waiting.items()]:
            if peak_reached(head.ledger, name[0][5:], rows[0]["chips"][0], name[1]):
                found[name] = _peaks_now(head.ledger, waiting.pop(name))

    head.advance(time, observer=lambda time, source, event, allocation: look())
    for name, rows in waiting.items():  # of a chip that several processes share: the peak is that of the live account
        found[name] = _peaks_now(head.ledger, rows)


def _peaks_now(ledger: Ledger, rows: list[PeakRow]) -> list[RecordedPeak]:
    """The rows of a peak that is reached now: one for the chips that have the same allocations."""
    first, chip_ids = rows[0], [chip for row in rows for chip in row["chips"]]
    kinds = (KIND_BY_LABEL[first["kind"]],) if "kind" in first else _KINDS_OF_LABEL[first["pool"]]
    by_chip = _largest(ledger, chip_ids, kinds)
    groups: dict[tuple[int, ...], list[str]] = {}
    for chip_id in chip_ids:
        groups.setdefault(tuple(map(id, by_chip[chip_id])), []).append(chip_id)
    result = []
    for chips in groups.values():
        on = tuple(cast("Chip", ledger.chips.get(chip_id)) for chip_id in chips if chip_id in ledger.chips)
        row = first.copy()
        row["chips"] = chips
        row["largest"] = [allocation(item, on) for item in by_chip[chips[0]]]
        result.append(RecordedPeak(row, alike(ledger, chips[0], row["kind"]) if "kind" in row else []))
    return result


def _largest(ledger: Ledger, chip_ids: list[str], kinds: tuple[Kind, ...]) -> dict[str, list[Allocation]]:
    """The largest live allocations of some kinds on each of these chips."""
    live: dict[str, list[Allocation]] = {chip_id: [] for chip_id in chip_ids}
    for item in ledger.allocations():
        if item.kind in kinds and item.refs:
            for chip in counted_chips(item):
                if chip.id in live:
                    live[chip.id].append(item)
    return {chip_id: nlargest(KEPT, items, key=lambda item: (item.size, item.born)) for chip_id, items in live.items()}
