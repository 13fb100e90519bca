# SPDX-License-Identifier: Apache-2.0
"""Memory use over time: last and highest value of every second for an hour, of every ten seconds for a day."""

from __future__ import annotations

from array import array
from collections.abc import Container, Iterable
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Literal

from ttmem.account.entities import Chip
from ttmem.account.ledger import Ledger
from ttmem.account.totals import Total
from ttmem.documents.chip_memory import at_once
from ttmem.documents.snapshot import shown_chips
from ttmem.model.kinds import KINDS, Kind

if TYPE_CHECKING:
    from ttmem.model.machine_rows import DriverChip
    from ttmem.model.schema import HistorySeries

SCHEMA: Final = "ttmem.history/1"
MOST_SERIES = 640  # 32 chips with all twelve kinds and the sampled series, and some spare; about 200 KB each
AT_ONCE = "l1_at_once"
DRAM_TAKEN = "dram_taken"
L1_TAKEN = "l1_taken"
TELEMETRY: tuple[Literal["temperature_c", "power_w", "aiclk_mhz"], ...] = ("temperature_c", "power_w", "aiclk_mhz")
SAMPLED = (DRAM_TAKEN, L1_TAKEN, AT_ONCE, *TELEMETRY)
_EMPTY = -(1 << 62)  # less than any value, and exact as a float
_OLD_SECONDS = 5.0
_MAX_VALUE = (1 << 62) - 1
_UNUSED_BUCKETS = 60  # after this many without a value, a series may be replaced by another


class _Column:
    """One quantity in one tier: two rings of 64-bit integers for bytes, of floats for telemetry."""

    __slots__ = ("highest", "last", "used")

    def __init__(self, length: int, code: str) -> None:
        self.used = 0  # the last bucket with a value
        self.last = _empty(length, code)[:]
        self.highest = _empty(length, code)[:]


@cache
def _empty(length: int, code: str) -> array[Any]:
    """Copied for each ring, because that takes a fraction of the time of making it."""
    return array(code, [_EMPTY]) * length


class Tier:
    """Buckets of one width. Slot = bucket number modulo length; ``buckets`` has the bucket number of each slot."""

    def __init__(self, step: int, length: int) -> None:
        self.step = step
        self.length = length
        self.buckets = array("q", [_EMPTY]) * length
        self.columns: dict[tuple[str, str], _Column] = {}
        self.left_out = 0  # values without a series

    def put(
        self, time: float, values: dict[tuple[str, str], tuple[float, float]], machine: frozenset[str] = frozenset()
    ) -> None:
        """Store (last, highest) of each quantity; several values in one bucket keep the last and the highest.

        ``machine`` are the real chips of the machine: their series have priority over those of chips that clients
        report.
        """
        bucket = int(time // self.step)
        slot = bucket % self.length
        fresh = self.buckets[slot] != bucket
        self.buckets[slot] = bucket
        unused = claimed = None  # series that others may replace; found once, because there may be very many
        for key, (last, highest) in values.items():
            column = self.columns.get(key)
            if column is None:
                if len(self.columns) >= MOST_SERIES:
                    if unused is None or claimed is None:
                        unused = self._unused(bucket, values)
                        claimed = [one for one in reversed(self.columns) if one[0] not in machine]
                    if not (self._drop(unused) or (key[0] in machine and self._drop(claimed))):
                        self.left_out += 1
                        continue
                column = self.columns[key] = _Column(self.length, "d" if key[1] in TELEMETRY else "q")
                if claimed is not None and key[0] not in machine:
                    claimed.insert(0, key)
            column.used = bucket
            column.last[slot] = min(last, _MAX_VALUE)
            if fresh or highest > column.highest[slot]:
                column.highest[slot] = min(highest, _MAX_VALUE)
        if fresh:
            for key, column in self.columns.items():
                if key not in values:
                    column.last[slot] = column.highest[slot] = _EMPTY

    def _drop(self, candidates: list[tuple[str, str]]) -> bool:
        """Drop the last of these series that is still there."""
        while candidates:
            if self.columns.pop(candidates.pop(), None) is not None:
                return True
        return False

    def _unused(self, bucket: int, values: Container[tuple[str, str]]) -> list[tuple[str, str]]:
        """The series that others may replace, the last to be used first: none of those that have a value now."""
        oldest = bucket - _UNUSED_BUCKETS
        unused = [key for key, column in self.columns.items() if column.used < oldest and key not in values]
        return sorted(unused, key=lambda key: self.columns[key].used, reverse=True)

    def read(self, key: tuple[str, str], since: float, until: float) -> list[tuple[int, float, float]]:
        """(time, last, highest) of each bucket that has a value, oldest first."""
        column = self.columns.get(key)
        if column is None:
            return []
        newest = int(until // self.step)
        oldest = max(int(since // self.step), newest - self.length + 1)
        found = []
        for bucket in range(oldest, newest + 1):
            slot = bucket % self.length
            if self.buckets[slot] == bucket and column.last[slot] != _EMPTY:
                found.append((bucket * self.step, column.last[slot], column.highest[slot]))
        return found


class History:
    """Samples the account. Only quantities that were ever used take space: about 200 KB each."""

    def __init__(self) -> None:
        self.fine = Tier(1, 3600)
        self.coarse = Tier(10, 8640)

    def sample(self, time: float, ledger: Ledger, machine: Iterable[DriverChip] = ()) -> None:
        """Called once a second. The highest value of a kind since the last sample is kept, even if it was short.

        ``machine`` are the driver's chips with their telemetry. They are stored by PCI address, which stays the same
        when a process reports the chip's unique id.
        """
        values, there = sampled(ledger, self.fine.columns)
        for seen in machine:
            now = seen["telemetry"]
            if now["state"] == "ok" and (now["age_s"] or 0.0) <= _OLD_SECONDS:
                chip_id = seen["pci"] or f"kmd:{seen['kmd']}"
                there.add(chip_id)
                for field in TELEMETRY:
                    if (reading := now[field]) is not None:
                        values[chip_id, field] = (reading, reading)
        self.fine.put(time, values, frozenset(there))
        self.coarse.put(time, values, frozenset(there))

    def series(self, step: int) -> Tier:
        return self.fine if step == self.fine.step else self.coarse

    def names(self, step: int, chips: Container[str] | None, kinds: Container[str] | None) -> list[tuple[str, str]]:
        """Chip and kind of every series; None is all."""
        return [
            name
            for name in sorted(self.series(step).columns)
            if (chips is None or name[0] in chips) and (kinds is None or name[1] in kinds)
        ]

    def one(self, step: int, since: float, until: float, key: tuple[str, str]) -> HistorySeries:
        """The series of a chip and a kind."""
        rows = self.series(step).read(key, since, until)
        return {
            "chip": key[0],
            "kind": key[1],
            "time": [row[0] for row in rows],
            "last": [row[1] for row in rows],
            "max": [row[2] for row in rows],
        }


def sampled(
    ledger: Ledger, known: Container[tuple[str, str]]
) -> tuple[dict[tuple[str, str], tuple[float, float]], set[str]]:
    """The last and the highest value of each quantity since the last sample, and the chips that the driver listed.

    ``known`` are the quantities that had values before.
    """
    values: dict[tuple[str, str], tuple[float, float]] = {}
    highs: dict[Total, int] = {}  # chips share totals, and the highest value can be taken once
    there: set[str] = set()
    for chip in shown_chips(ledger):
        if chip.found:
            there.add(chip.id)
        more = dict.fromkeys(KINDS, 0)  # requested since the last sample; at least as much was reserved
        for kind, total in zip(KINDS, chip.kinds):
            if total.peak.value:
                if total not in highs:
                    highs[total] = total.take_high()
                values[chip.id, kind.label] = (total.used, highs[total])
                more[kind] = highs[total] - total.used
        for name, value, above in (
            (DRAM_TAKEN, _taken(chip, Kind.DRAM, Kind.TRACE), max(more[Kind.DRAM], more[Kind.TRACE])),
            (L1_TAKEN, _taken(chip, Kind.L1), more[Kind.L1]),
            (AT_ONCE, at_once(chip), 0),
        ):
            if value is not None and (value or above or (chip.id, name) in known):
                values[chip.id, name] = (value, value + above)
    return values, there


def _taken(chip: Chip, *kinds: Kind) -> int | None:
    """Reserved bytes of buffers, or requested bytes if the reserved ones are not known for all."""
    totals = [chip.kinds[kind] for kind in kinds]
    if not (chip.covered.intersection(kinds) or any(total.peak.value for total in totals)):
        return None
    taken = [total.reserved_bytes for total in totals]
    return sum(total.used for total in totals) if None in taken else sum(filter(None, taken))
