# SPDX-License-Identifier: Apache-2.0
"""The dashboard's own history of every chip; it survives a restart of the server.

Each quantity of each chip has three rings of buckets: half seconds for five minutes, five seconds for an hour, minutes
for a day. A bucket has the lowest and the highest value, so that short peaks are not lost in coarser buckets. A
bucket without data stays empty, so that gaps remain visible.
"""

from __future__ import annotations

from array import array
from math import ceil, inf, isfinite, nan
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from ttmem.show.chip_table import l1_buffers, level

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ttmem.documents.recorded_moments import PhaseBar, RecordedHistory
    from ttmem.model.schema import ChipRow, History, Phases, Snapshot

Range = tuple[float, float]  # lowest, highest
T = TypeVar("T")

_READINGS = ("temperature_c", "power_w", "aiclk_mhz")
NAMES = ("dram", "trace", "l1", "buffers", "cb", "kernel", *_READINGS)
MOST_PHASES = 400
_RINGS = ((0.5, 640), (5.0, 740), (60.0, 1480))  # step, length: slightly more than the window
_NEVER = -(1 << 60)
# Quantities of the history of a recording, by their names there.
_RECORDED = {"dram_taken": "dram", "trace": "trace", "l1_at_once": "l1", "l1_taken": "buffers", "kernel": "kernel"}
_OLD_SECONDS = 5.0  # older telemetry is not current
_HOLD_SECONDS = 3.0  # maximum time between two values without a gap
_HOLD_INTERVALS = 2.5
_HOLD_STEPS = 2  # the same for samples of the server
_SET_BACK_SECONDS = 60.0


class Phase(NamedTuple):
    """A named phase of a process; ``until`` is None while it is open."""

    pid: int | None
    path: str | None
    since: float
    until: float | None
    chips: frozenset[str]


class Columns(NamedTuple):
    """The lowest and the highest value in each column of time; None is a gap."""

    ranges: list[Range | None]
    width: float  # of a column, in seconds
    first: int  # number of the first column; column 0 began in 1970
    final: int  # columns with a lower number are complete
    version: int = 0  # changes if complete columns have changed


class ColumnCache(Generic[T]):
    """Caches what was computed from complete columns, so that each update computes only the newest ones."""

    __slots__ = ("_done", "_first", "_look")

    def __init__(self) -> None:
        self._look: object = None
        self._first = 0
        self._done: list[T] = []

    def get(self, look: object, first: int, end: int, final: int, make: Callable[[int], T]) -> list[T]:
        """The results for ``first`` up to ``end``; those before ``final`` are cached while ``look`` stays the same."""
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
            if bucket > self.newest + 1 and self.newest != _NEVER:  # a new ring is empty
                for skipped in range(max(self.newest + 1, bucket - self.length + 1), bucket):
                    self.low[skipped % self.length] = self.high[skipped % self.length] = nan
            self.low[slot], self.high[slot], self.newest = low, high, bucket
            self.least, self.most = low, high
        elif bucket > self.newest - self.length:
            # Also true for an empty bucket, because all comparisons with nan are false.
            if not low >= self.low[slot]:
                self.low[slot] = low
            if not high <= self.high[slot]:
                self.high[slot] = high
            if bucket == self.newest:
                self.least, self.most = self.low[slot], self.high[slot]

    def get(self, first: int, end: int) -> Range | None:
        """The lowest and the highest value of a range of buckets."""
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
    """One quantity of one chip: bytes in double precision, because the cursor shows exact bytes; readings in single."""

    __slots__ = ("began", "kept", "last", "rings", "time", "version")

    def __init__(self, name: str, rings: Sequence[tuple[float, int]]) -> None:
        code = "f" if name in _READINGS else "d"
        self.rings = tuple(_Ring(step, length, code) for step, length in rings)
        self.time, self.last = -1e18, nan
        self.began = inf  # time of the first value above 0
        self.version = 0  # changes when complete buckets change
        self.kept: ColumnCache[Range | None] = ColumnCache()

    def add(self, time: float, buckets: list[int], value: float, hold: float) -> None:
        held = time - self.time <= hold
        if value > 0 and time < self.began:
            self.began = time
        for ring, bucket in zip(self.rings, buckets):
            if bucket == ring.newest and ring.least <= value <= ring.most:
                continue  # true for most values in wide buckets
            if held and bucket - ring.newest > 1:
                for between in range(ring.newest + 1, bucket):
                    ring.put(between, self.last, self.last)
            ring.put(bucket, value, value)
        self.time, self.last = time, value

    def fill(self, step: float, rows: list[tuple[float, float, float, float]]) -> None:
        """Add samples of the server, in order: start, end, lowest, highest."""
        for ring in self.rings:
            if 2 * ring.step >= step:
                reach = max(ring.newest * ring.step, rows[-1][0]) - ring.length * ring.step
                for since, until, low, high in rows:
                    if since >= reach:
                        for bucket in range(int(since // ring.step), ceil(until / ring.step)):
                            ring.put(bucket, low, high)
        self.began = min(self.began, next((since for since, _, _, high in rows if high > 0), inf))
        self.version += 1

    def load(self, times: Sequence[float], lasts: Sequence[float], highs: Sequence[float]) -> None:
        """Set all values of a recording. Each interval is a bucket; a chip that was gone for a while has gaps."""
        (ring,) = self.rings
        places = [int(time // ring.step) for time in times]
        if places[-1] - places[0] + 1 == len(places):  # at once, because there may be a million values
            at = places[0] % ring.length
            for values, kept in ((lasts, ring.low), (highs, ring.high)):
                found = array(kept.typecode, values)
                fits = ring.length - at
                kept[at : at + len(found)] = found[:fits]
                kept[: max(0, len(found) - fits)] = found[fits:]
            ring.newest, ring.least, ring.most = places[-1], lasts[-1], highs[-1]
        else:
            for place, low, high in zip(places, lasts, highs):
                ring.put(place, low, high)
        self.began = next((time for time, high in zip(times, highs) if high > 0), inf)
        self.version += 1

    def columns(self, width: float, first: int, end: int) -> Columns:
        span = (end - first) * width
        # The finest ring that reaches back far enough.
        ring = next((ring for ring in self.rings if ring.step * (ring.length - 2) >= span), self.rings[-1])
        final = int(ring.newest * ring.step // width)

        def make(index: int) -> Range | None:
            return ring.get(int(index * width // ring.step), ceil((index + 1) * width / ring.step))

        look = (width, ring.step, self.version)
        return Columns(self.kept.get(look, first, end, final, make), width, first, final, self.version)


class ChipHistory:
    """The history of values by chip and name.

    The key of a chip is its PCI address if it has one: its chip_id changes when a process first reports the unique id.
    """

    def __init__(self, rings: Sequence[tuple[float, int]] = _RINGS) -> None:
        """``rings`` are the widths of buckets, and how many of each are kept."""
        self._rings = rings
        self.version = 0  # of a recording: changes when more of it was read
        self.newest = 0.0  # time of the last snapshot, seconds since 1970
        self._series: dict[tuple[str, str], _Series] = {}
        self._keys: dict[str, str] = {}
        self._phases: dict[tuple[Any, ...], Phase] = {}

    def add(self, time: float, snapshot: Snapshot, interval: float = 1.0) -> None:
        """Add the values of a snapshot; ``interval`` is the time between two snapshots."""
        if time < self.newest - _SET_BACK_SECONDS:
            self._series.clear()  # the clock was set back: earlier values would be in the future
        self.newest = time if not self._series else max(time, self.newest)
        hold = max(_HOLD_SECONDS, _HOLD_INTERVALS * interval)
        buckets = [int(time // step) for step, _ in self._rings]
        for chip in snapshot["chips"]:
            key = self._keys[chip["chip"]] = chip["pci"] or chip["chip"]
            for name, value in zip(NAMES, values_of(chip)):
                if value is not None and isfinite(value):
                    self._of(key, name).add(time, buckets, value, hold)

    def columns(self, chip_id: str, name: str, width: float, first: int, end: int) -> Columns:
        """The lowest and the highest value in each column; column ``n`` begins ``n * width`` seconds after 1970.

        Columns begin at fixed times, so that peaks do not flicker when a chart scrolls, and complete columns can be
        cached.
        """
        series = self._series.get((self._keys.get(chip_id, chip_id), name))
        if series is None:
            return Columns([None] * (end - first), width, first, first)
        return series.columns(width, first, end)

    def began(self, chip_ids: Iterable[str], names: Sequence[str]) -> float | None:
        """The time when any of these was first above 0, as far as is known here; None if none was."""
        keys = [self._keys.get(chip_id, chip_id) for chip_id in chip_ids]
        found = [self._series[key, name].began for key in keys for name in names if (key, name) in self._series]
        first = min(found, default=inf)
        return None if first == inf else first

    def series(self, chip_id: str, name: str, since: float, until: float, points: int) -> list[Range | None]:
        """The lowest and the highest value in columns, the last of which contains ``until``."""
        width = (until - since) / points
        end = int(until // width) + 1
        return self.columns(chip_id, name, width, end - points, end).ranges

    def fill(self, chip_id: str, history: History, shift: float = 0.0) -> None:
        """Add the server's history of a chip (GET /history); ``shift`` is the lead of our clock over the server's."""
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
                    # Kinds may have their peaks at different times, so the peaks are not added.
                    seen[second] = (low + last, max(most + last, low + high))
            if seen:
                rows: list[tuple[float, float, float, float]] = []
                for time in sorted(seen):
                    begin, (low, high) = time + shift, seen[time]
                    if rows and rows[-1][1] < begin <= rows[-1][1] + _HOLD_STEPS * step:
                        rows.append((rows[-1][1], begin, rows[-1][2], rows[-1][2]))
                    rows.append((begin, begin + step, low, high))
                self._of(key, name).fill(step, rows)

    def _of(self, key: str, name: str) -> _Series:
        return self._series.get((key, name)) or self._series.setdefault((key, name), _Series(name, self._rings))

    @classmethod
    def of_recording(cls, history: RecordedHistory, phases: Iterable[PhaseBar]) -> ChipHistory:
        """The history of a whole recording, in intervals of its own length."""
        step = history.step
        made = cls(((step, 2 * (1 + max((len(one.times) for one in history.series.values()), default=0))),))
        for (chip_id, kind), (times, lasts, highs) in history.series.items():
            name = _RECORDED.get(kind)
            if name is not None and times:
                made._of(chip_id, name).load(times, lasts, highs)
        made.newest, made.version = history.until, round((history.until - history.begin) / step)
        made._phases = {(number,): Phase(*phase) for number, phase in enumerate(phases)}
        return made

    def take_phases(self, answer: Phases, time: float) -> None:
        """Store the open phases (GET /phases) and the last run of ended ones; end those that are no longer listed."""
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
        """The phases on a chip that had not ended at ``since``, oldest first."""
        found = [p for p in self._phases.values() if chip_id in p.chips and (p.until is None or p.until >= since)]
        return sorted(found, key=lambda phase: (phase.since, phase.path or ""))


def values_of(chip: ChipRow) -> tuple[float | None, ...]:
    """The values of a chip in a snapshot, in the order of NAMES; None if not known."""
    dram, l1 = chip["memory"]["dram"], chip["memory"]["l1"]
    cb = l1["cb"]["held"] if l1["cb"]["resident"] is None else l1["cb"]["resident"]
    memory = (level(dram), dram["trace"]["used"], l1["at_once"], level(l1_buffers(l1)), cb, l1["kernels"])
    now = chip["telemetry"]
    if now is None or now["state"] != "ok" or (now["age_s"] or 0.0) > _OLD_SECONDS:
        return (*memory, None, None, None)
    return (*memory, now["temperature_c"], now["power_w"], now["aiclk_mhz"])
