# SPDX-License-Identifier: Apache-2.0
"""The meters in an agent's memory, read from outside, with their highs in windows of records and in open phases."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from struct import Struct
from typing import NamedTuple

from ttmem.wire.agent_ring import (
    GAUGES,
    GROUP_FIELDS,
    GROUP_SIZE,
    METER_FIELDS,
    METER_SIZE,
    PHASE_FIELDS,
    PHASE_HEAD,
    WINDOW_HEAD,
    Ring,
    RingError,
)
from ttmem.wire.meter_rows import WINDOW, MeterRows, copy_rows

_MAX_FIGURE = 1 << 53  # bytes; more than any process can hold, and numbers in JSON are exact up to it
_METER = Struct("<" + "".join(code for _, _, code in METER_FIELDS))
_GROUP = Struct("<" + "".join(code for _, _, code in GROUP_FIELDS))
_PHASE = Struct("<" + "".join(code for _, _, code in PHASE_FIELDS))


class Meter(NamedTuple):
    """Bytes of one kind or pool."""

    used: int
    reserved: int
    peak: int  # since the workload last reset the peaks
    reserved_peak: int
    ever: int  # the highest since the agent started
    reserved_ever: int


class MeterGroup(NamedTuple):
    """Chips that share one meter of a gauge, because they always counted the same of it."""

    gauge: str
    numbers: tuple[int, ...] | None  # Metal's; None: all chips together
    meter: Meter  # of each of these chips


class Window(NamedTuple):
    """The highest value of each meter, over a stretch of records."""

    number: int
    first: int  # sequence
    last: int | None  # None: it is open
    highs: tuple[int, ...]  # used bytes, one for each meter group


class OpenPhase(NamedTuple):
    """A phase that has not ended."""

    ident: int
    parent: int
    began: int  # sequence of its record
    time: int
    name: str
    begins: tuple[int, ...]  # used bytes when it began, one for each meter group
    peaks: tuple[int, ...]  # and at most since then


class Measured(NamedTuple):
    """Meters, windows and open phases, copied at one moment. Their rows have one entry for each group, in order."""

    groups: tuple[MeterGroup, ...]
    windows: tuple[Window, ...]  # oldest first
    phases: tuple[OpenPhase, ...]  # in the order in which they began


_NOTHING = Meter(0, 0, 0, 0, 0, 0)


def meters(ring: Ring) -> dict[tuple[int | None, str], Meter]:
    """What is held, by Metal's number (None: on all chips together) and gauge; 0 if a chip never had any of it."""
    found: dict[tuple[int | None, str], Meter] = {}
    for index in range(min(ring.field("chips_used"), ring.chip_count)):
        number = ring.chip(index).number
        found.update(((number, gauge), _NOTHING) for gauge in GAUGES)
    for group in measured(ring, windows_after=None, phases=False).groups:
        for number_or_all in (None,) if group.numbers is None else group.numbers:
            found[number_or_all, group.gauge] = group.meter
    return found


def measured(ring: Ring, windows_after: int | None = 0, phases: bool = True) -> Measured:
    """Meters, the windows with records after ``windows_after`` (None: no windows), and the phases that are open."""
    return decoded(ring, copy_rows(ring, windows_after, phases))


def decoded(ring: Ring, rows: MeterRows) -> Measured:
    """What rows mean; the ring has the chips and names that they refer to."""
    count = rows.meter_count
    if count < len(GAUGES):
        raise RingError(f"it has {count} meters; there are {len(GAUGES)} for all chips together")
    groups: list[MeterGroup] = []
    numbers: list[int] = []  # of the meters of these groups
    chip_numbers = _ChipNumbers(ring)
    for number in range(count):
        figures = _METER.unpack_from(rows.meters, number * METER_SIZE)
        mask, *peaks, gauge = _GROUP.unpack_from(rows.groups, number * GROUP_SIZE)
        if gauge >= len(GAUGES):
            raise RingError(f"meter {number} is of gauge {gauge}; there are {len(GAUGES)}")
        if max(*figures, *peaks) > _MAX_FIGURE:
            raise RingError(f"meter {number} has counted {max(*figures, *peaks)} bytes")
        used, reserved, high, reserved_high = figures
        peak, reserved_peak, ever, reserved_ever = peaks
        chips = chip_numbers.take(gauge, mask) if number >= len(GAUGES) else None
        if chips == ():
            continue  # a number that was left out, or chips that other meters have
        meter = Meter(
            used, reserved, max(peak, high), max(reserved_peak, reserved_high), max(ever, high),
            max(reserved_ever, reserved_high),
        )  # fmt: skip
        groups.append(MeterGroup(GAUGES[gauge], chips, meter))
        numbers.append(number)
    columns = _Columns(numbers, [_METER.unpack_from(rows.meters, number * METER_SIZE)[2] for number in numbers])
    return Measured(
        tuple(groups),
        tuple(columns.window(row) for row in rows.windows),
        tuple(sorted((columns.phase(ring, row) for row in rows.phases), key=lambda phase: phase.began)),
    )


class _ChipNumbers:
    """Metal's numbers of chips. A chip has one meter of a gauge; if the memory is invalid, the first of them."""

    def __init__(self, ring: Ring) -> None:
        self._ring = ring
        self._taken = [0] * len(GAUGES)  # the chips of the meters of each gauge, as a mask
        self._numbers: dict[int, int] = {}

    def take(self, gauge: int, mask: bytes) -> tuple[int, ...]:
        """The chips of a meter of this gauge, without those of meters before it."""
        bits = int.from_bytes(mask, "little") & ~self._taken[gauge]
        self._taken[gauge] |= bits
        found = []
        while bits:
            found.append(self._number((bits & -bits).bit_length() - 1))
            bits &= bits - 1
        return tuple(found)

    def _number(self, index: int) -> int:
        if index not in self._numbers:
            self._numbers[index] = self._ring.chip(index).number
        return self._numbers[index]


class _Columns:
    """Decodes the figures of all meters of a window or phase at once: there may be thousands."""

    def __init__(self, numbers: Sequence[int], highs: Sequence[int]) -> None:
        """``numbers`` are the meters that are wanted, more than one; ``highs`` the highs that they have now."""
        self._wanted: Callable[[list[int]], tuple[int, ...]] = itemgetter(*numbers)
        self._highs = highs

    def window(self, row: bytes) -> Window:
        number, first, last = WINDOW.unpack_from(row)
        used = self._column(row, WINDOW_HEAD, 0)
        return Window(number, first, last, used) if last else Window(number, first, None, self._or_now(used))

    def phase(self, ring: Ring, row: bytes) -> OpenPhase:
        began, ident, parent, time, name = _PHASE.unpack_from(row)
        begins, peaks = (self._column(row, PHASE_HEAD, place) for place in (0, 1))
        return OpenPhase(ident, parent, began, time, ring.name(name) or "", begins, self._or_now(peaks))

    def _column(self, row: bytes, head: int, place: int) -> tuple[int, ...]:
        """The first or the second figure of each meter, after the head of a row."""
        with memoryview(row) as data, data[head:] as figures, figures.cast("Q") as values:
            return self._wanted(values[place::2].tolist())

    def _or_now(self, figures: Iterable[int]) -> tuple[int, ...]:
        """For what has not ended: the high of now, if that is higher."""
        return tuple([figure if figure > high else high for figure, high in zip(figures, self._highs)])
