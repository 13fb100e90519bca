# SPDX-License-Identifier: Apache-2.0
"""The history of every chip as the dashboard has seen it; it survives a server's restart.

Each quantity of each chip has three rings of buckets: half seconds for five minutes, five seconds for an hour, minutes
for a day. A bucket has the lowest and the highest value, so that nothing short is lost when buckets become coarser. A
bucket in which nothing was seen stays empty: a gap is never drawn over.
"""

from __future__ import annotations

from array import array
from math import ceil, inf, isfinite, nan
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from ttmem.show.chip_table import l1_buffers, level

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ttmem.model.schema import ChipRow, History, Phases, Snapshot

Range = tuple[float, float]  # lowest, highest
T = TypeVar("T")

_READINGS = ("temperature_c", "power_w", "aiclk_mhz")
NAMES = ("dram", "trace", "l1", "buffers", "cb", "kernel", *_READINGS)
MOST_PHASES = 400
_RINGS = ((0.5, 640), (5.0, 740), (60.0, 1480))  # step, length: the window and a little more
_NEVER = -(1 << 60)
_OLD_SECONDS = 5.0  # telemetry that is older says nothing about now
_HOLD_SECONDS = 3.0  # a value is taken to last so long if the next one comes by then
_HOLD_INTERVALS = 2.5
_HOLD_STEPS = 2  # the same of what the server has sampled
_SET_BACK_SECONDS = 60.0


class Phase(NamedTuple):
    """A stretch of a process that it gave a name; ``until`` is None while it lasts."""

    pid: int | None
    path: str | None
    since: float
    until: float | None
    chips: frozenset[str]


class Columns(NamedTuple):
    """The lowest and the highest value in each stretch of time; None is a gap."""

    ranges: list[Range | None]
    width: float  # of a stretch, in seconds
    first: int  # the number of the first; number 0 began in 1970
    final: int  # those with a lower number are complete
    version: int = 0  # another one if those have changed all the same


class ColumnCache(Generic[T]):
    """What was made of columns that can no longer change, so that at each tick only the newest are made."""

    __slots__ = ("_done", "_first", "_look")

    def __init__(self) -> None:
        self._look: object = None
        self._first = 0
        self._done: list[T] = []

    def get(self, look: object, first: int, end: int, final: int, make: Callable[[int], T]) -> list[T]:
        """Those from ``first`` up to ``end``; before ``final`` they are complete. Another ``look`` makes them anew."""
        if look != self._look or first < self._first:
            self._look, self._first, self._done = look, first, []
        done = self._done
        del done[: first - self._first]
        self._first = first
        begin = first + len(done)
        done += [make(index) for index in range(begin, min(end, final))]
        begin = first + len(done)
        return done[: end - first] if begin >= end else done + [make(index) for index in range(begin, end)]


class _Ring:
    """Buckets of one width."""

    __slots__ = ("high", "least", "length", "low", "most", "newest", "step")

    def __init__(self, step: float, length: int, code: str) -> None:
        self.step, self.length, self.newest = step, length, _NEVER
        self.least = self.most = nan  # of the newest bucket
        self.low = array(code, [nan]) * length
        self.high = array(code, [nan]) * length

    def put(self, bucket: int, low: float, high: float) -> None:
        slot = bucket % self.length
        if bucket > self.newest:
            if bucket > self.newest + 1 and self.newest != _NEVER:  # at first all are empty
                for skipped in range(max(self.newest + 1, bucket - self.length + 1), bucket):
                    self.low[skipped % self.length] = self.high[skipped % self.length] = nan
            self.low[slot], self.high[slot], self.newest = low, high, bucket
            self.least, self.most = low, high
        elif bucket > self.newest - self.length:
            # Also true of an empty bucket: nothing compares with nan.
            if not low >= self.low[slot]:
                self.low[slot] = low
            if not high <= self.high[slot]:
                self.high[slot] = high
            if bucket == self.newest:
                self.least, self.most = self.low[slot], self.high[slot]

    def get(self, first: int, end: int) -> Range | None:
        """Lowest and highest of some buckets."""
        first, end = max(first, self.newest - self.length + 1), min(end, self.newest + 1)
        if first >= end:
            return None
        at, to = first % self.length, (end - 1) % self.length + 1
        pieces = (slice(at, to),) if at < to else (slice(at, None), slice(0, to))
        lows = [value for piece in pieces for value in self.low[piece] if value == value]
        return (
            (min(lows), max(value for piece in pieces for value in self.high[piece] if value == value))
            if lows
            else None
        )


class _Series:
    """One quantity of one chip: bytes in double precision, because a cursor shows them all, readings in single."""

    __slots__ = ("began", "kept", "last", "rings", "time", "version")

    def __init__(self, name: str) -> None:
        code = "f" if name in _READINGS else "d"
        self.rings = tuple(_Ring(step, length, code) for step, length in _RINGS)
        self.time, self.last = -1e18, nan
        self.began = inf  # when it was first more than nothing
        self.version = 0  # changes when something was added to what was complete
        self.kept: ColumnCache[Range | None] = ColumnCache()

    def add(self, time: float, buckets: list[int], value: float, hold: float) -> None:
        held = time - self.time <= hold
        if value > 0 and time < self.began:
            self.began = time
        for ring, bucket in zip(self.rings, buckets):
            if bucket == ring.newest and ring.least <= value <= ring.most:
                continue  # as with most values and the wider buckets
            if held and bucket - ring.newest > 1:
                for between in range(ring.newest + 1, bucket):
                    ring.put(between, self.last, self.last)
            ring.put(bucket, value, value)
        self.time, self.last = time, value

    def fill(self, step: float, rows: list[tuple[float, float, float, float]]) -> None:
        """What was seen by others in steps so long: from when, until when, lowest, highest; in order."""
        for ring in self.rings:
            if 2 * ring.step >= step:
                reach = max(ring.newest * ring.step, rows[-1][0]) - ring.length * ring.step
                for since, until, low, high in rows:
                    if since >= reach:
                        for bucket in range(int(since // ring.step), ceil(until / ring.step)):
                            ring.put(bucket, low, high)
        self.began = min(self.began, next((since for since, _, _, high in rows if high > 0), inf))
        self.version += 1

    def columns(self, width: float, first: int, end: int) -> Columns:
        span = (end - first) * width
        # The finest that reaches back far enough.
        ring = next((ring for ring in self.rings if ring.step * (ring.length - 2) >= span), self.rings[-1])
        final = int(ring.newest * ring.step // width)

        def make(index: int) -> Range | None:
            return ring.get(int(index * width // ring.step), ceil((index + 1) * width / ring.step))

        look = (width, ring.step, self.version)
        return Columns(self.kept.get(look, first, end, final, make), width, first, final, self.version)


class ChipHistory:
    """Values by chip and name, with the time they were seen.

    A chip is kept by its PCI address where it has one: its chip_id changes when the first process tells the unique id.
    """

    def __init__(self) -> None:
        self.newest = 0.0  # when the last snapshot was made, seconds since 1970
        self._series: dict[tuple[str, str], _Series] = {}
        self._keys: dict[str, str] = {}
        self._phases: dict[tuple[Any, ...], Phase] = {}

    def add(self, time: float, snapshot: Snapshot, interval: float = 1.0) -> None:
        """Remember what a snapshot says; ``interval`` is how often there is one."""
        if time < self.newest - _SET_BACK_SECONDS:
            self._series.clear()  # the clock was set back: what was seen before would lie in the future
        self.newest = time if not self._series else max(time, self.newest)
        hold = max(_HOLD_SECONDS, _HOLD_INTERVALS * interval)
        buckets = [int(time // step) for step, _ in _RINGS]
        for chip in snapshot["chips"]:
            key = self._keys[chip["chip"]] = chip["pci"] or chip["chip"]
            for name, value in zip(NAMES, values_of(chip)):
                if value is not None and isfinite(value):
                    series = self._series.get((key, name)) or self._series.setdefault((key, name), _Series(name))
                    series.add(time, buckets, value, hold)

    def columns(self, chip_id: str, name: str, width: float, first: int, end: int) -> Columns:
        """Lowest and highest in each column of time; column ``n`` begins ``n * width`` seconds after 1970.

        Columns lie at fixed moments, so that a chart moves on without its peaks flickering, and what is complete is
        not looked up again.
        """
        series = self._series.get((self._keys.get(chip_id, chip_id), name))
        if series is None:
            return Columns([None] * (end - first), width, first, first)
        return series.columns(width, first, end)

    def began(self, chip_ids: Iterable[str], names: Sequence[str]) -> float | None:
        """When any of these was first more than nothing, as far as is known here; None if none was."""
        keys = [self._keys.get(chip_id, chip_id) for chip_id in chip_ids]
        found = [self._series[key, name].began for key in keys for name in names if (key, name) in self._series]
        first = min(found, default=inf)
        return None if first == inf else first

    def series(self, chip_id: str, name: str, since: float, until: float, points: int) -> list[Range | None]:
        """Lowest and highest in so many columns that end with the one in which ``until`` lies."""
        width = (until - since) / points
        end = int(until // width) + 1
        return self.columns(chip_id, name, width, end - points, end).ranges

    def fill(self, chip_id: str, history: History, shift: float = 0.0) -> None:
        """Take in what the server remembers of a chip (GET /history); ``shift`` is what our clock is ahead of its."""
        key, step = self._keys.get(chip_id, chip_id), history["step"]
        found = {one["kind"]: one for one in history["series"]}
        for name, kinds in (
            *(("dram", ("dram_taken",)), ("trace", ("trace",)), ("l1", ("l1_at_once",)), ("buffers", ("l1_taken",))),
            *((name, (name,)) for name in ("kernel", "temperature_c", "power_w", "aiclk_mhz")),
        ):
            seen: dict[float, Range] = {}
            for kind in kinds:
                one = found.get(kind)
                if one is None:
                    continue
                for second, last, high in zip(one["time"], one["last"], one["max"]):
                    low, most = seen.get(second, (0.0, 0.0))
                    # Two kinds need not be highest at the same moment: as if only one of them had moved.
                    seen[second] = (low + last, max(most + last, low + high))
            if seen:
                rows: list[tuple[float, float, float, float]] = []
                for time in sorted(seen):
                    begin, (low, high) = time + shift, seen[time]
                    if rows and rows[-1][1] < begin <= rows[-1][1] + _HOLD_STEPS * step:
                        rows.append((rows[-1][1], begin, rows[-1][2], rows[-1][2]))
                    rows.append((begin, begin + step, low, high))
                (self._series.get((key, name)) or self._series.setdefault((key, name), _Series(name))).fill(step, rows)

    def take_phases(self, answer: Phases, time: float) -> None:
        """Note the phases that are open (GET /phases), the last run of those that ended, and what ended meanwhile."""
        now = set()
        for process in answer["processes"]:
            for phase in process["open"]:
                key = (process["pid"], process["start"], phase["path"], phase["since"])
                now.add(key)
                chips = frozenset(row["chip"] for row in phase["rows"])
                self._phases[key] = Phase(process["pid"], phase["path"], phase["since"], None, chips)
            for ended in process["ended"]:
                key = (process["pid"], process["start"], ended["path"], ended["since"])
                now.add(key)
                chips = frozenset(row["chip"] for row in ended["rows"])
                self._phases[key] = Phase(process["pid"], ended["path"], ended["since"], ended["until"], chips)
        for key, known in self._phases.items():
            if known.until is None and key not in now:
                self._phases[key] = known._replace(until=max(time, known.since))
        for key in list(self._phases)[: max(0, len(self._phases) - MOST_PHASES)]:
            del self._phases[key]

    def phases(self, chip_id: str, since: float) -> list[Phase]:
        """Those on a chip that had not ended by then, the oldest first."""
        found = [p for p in self._phases.values() if chip_id in p.chips and (p.until is None or p.until >= since)]
        return sorted(found, key=lambda phase: (phase.since, phase.path or ""))


def values_of(chip: ChipRow) -> tuple[float | None, ...]:
    """What a snapshot says of a chip, in the order of NAMES; None is not known."""
    dram, l1 = chip["memory"]["dram"], chip["memory"]["l1"]
    cb = l1["cb"]["held"] if l1["cb"]["resident"] is None else l1["cb"]["resident"]
    memory = (level(dram), dram["trace"]["used"], l1["at_once"], level(l1_buffers(l1)), cb, l1["kernels"])
    now = chip["telemetry"]
    if now is None or now["state"] != "ok" or (now["age_s"] or 0.0) > _OLD_SECONDS:
        return (*memory, None, None, None)
    return (*memory, now["temperature_c"], now["power_w"], now["aiclk_mhz"])
