# SPDX-License-Identifier: Apache-2.0
"""The figures of `ttmem stats` computed again, without numpy: a recording is applied to an account event by event.

The program `Walk` notes when each allocation began and ended; the functions below count with loops.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import partial
from math import ceil, inf
from typing import Any

from ttmem.account.allocations import Allocation, Part
from ttmem.account.call_sites import operation_of, stack_of
from ttmem.account.entities import Source
from ttmem.account.ledger import Ledger
from ttmem.account.live_set import counted_chips
from ttmem.analyze.hold_reasons import Cause, cause_of
from ttmem.model.events import (
    Allocated,
    DeviceClosed,
    Event,
    Freed,
    ProcessExited,
    ProgramCompiled,
    ProgramDestroyed,
    ResyncEnd,
)
from ttmem.model.kinds import BREAKDOWN_POOL_OF, KINDS, Kind
from ttmem.model.stack_frames import line_of
from ttmem.recording.recorded_ring import RecordedFold
from ttmem.recording.recording_file import Recording
from ttmem.recording.replay import Merge, ReplaySink, RingStretch
from ttmem.wire.agent_ring import RECORD, RECORD_SIZE, WHOLESALE, Record, RingEvent

_COUNTED = ("start", "made", "freed", "live", "temporary")


class Life:
    """One allocation from its begin to its end, in nanoseconds after the start of the recording."""

    def __init__(self, one: Allocation, begin: int) -> None:
        self.allocation = one
        self.process = one.holding.source.process.info
        self.chips = [chip.id for chip in counted_chips(one)]
        self.kind = one.kind
        self.size, self.counted, self.taken = one.size, one.counted, one.taken
        self.begin = begin
        self.end: int | None = None
        self.how = "live"
        self.further = 0  # buffers of the process that were allocated until it was freed

    @property
    def keys(self) -> dict[str, str | None]:
        """Names may come after the allocation, so they are read at the end."""
        one, extra = self.allocation, self.allocation.extra
        shape = None if extra is None or isinstance(one, Part) else extra.shape
        op = one.origin.tag if isinstance(one, Part) else operation_of(one)
        return {"op": op, "line": line_of(stack_of(one)), "shape": shape}

    def bytes_on(self, chips: set[str]) -> int:
        return self.counted * sum(chip in chips for chip in self.chips)

    def on(self, chips: set[str]) -> bool:
        return any(chip in chips for chip in self.chips)

    def live_at(self, time: float) -> bool:
        return self.begin <= time and (self.end is None or self.end > time)


class Walk(ReplaySink):
    """Applies a whole recording and notes every life, and every program."""

    def __init__(self, recording: Recording) -> None:
        super().__init__(Ledger(), recording.begin, lambda ledger, event: False)
        self.begin = recording.begin
        self.lives: list[Life] = []
        self.programs: list[list[Any]] = []  # source, number, kernel ring, chips, begin, end
        self.open_programs: dict[tuple[Any, Any, int], list[Any]] = {}
        self.live: dict[int, Life] = {}
        self.made: Counter[object] = Counter()  # buffers of each process so far
        self.wholesale: set[tuple[int, float]] = set()
        for process in recording.processes.values():
            for index in process.records:
                raw = process.raw_records(index) or b""
                for place in range(0, len(raw), RECORD_SIZE):
                    record = Record._make(RECORD.unpack_from(raw, place))
                    if record.event == RingEvent.FREED and record.flags & WHOLESALE:
                        self.wholesale.add((process.source.info.pid, record.time * 1e-9 + process.offset))
        stretches = [RingStretch(partial(RecordedFold.of, one, self)) for one in recording.processes.values()]
        events = ((number, *happened) for number, happened in enumerate(recording.events(), 1))
        Merge(self, events, stretches, lambda fold, error: None).advance(inf)

    def apply(self, time: float, source: Source | None, event: Event) -> Allocation | None:
        found = super().apply(time, source, event)
        self._note(time, source, event, found)
        return found

    def observe_record(self, time: float, source: Source, event: Event, allocation: Allocation | None) -> None:
        super().observe_record(time, source, event, allocation)
        self._note(time, source, event, allocation)

    def _note(self, time: float, source: Source | None, event: Event, found: Allocation | None) -> None:
        now = round((time - self.begin) * 1e9)
        if isinstance(event, Freed) and found is not None and not found.refs:
            pid = found.holding.source.process.info.pid
            self._ended(found, now, "device_closed" if (pid, time) in self.wholesale else "freed")
        if isinstance(event, Allocated) and found is not None and id(found) not in self.live:
            self._began(found, now)
        if len(self.live) != self.ledger.live_count():
            live = {id(one): one for one in self.ledger.allocations()}
            how = {
                DeviceClosed: "device_closed",
                ProcessExited: "process_exited",
                ProgramDestroyed: "program_destroyed",
            }
            for life in [life for key, life in self.live.items() if key not in live]:
                self._ended(life.allocation, now, how.get(type(event), "unknown"))
            for one in live.values():
                if id(one) not in self.live:
                    assert isinstance(event, ResyncEnd)
                    self._began(one, now)
        self._note_programs(now, source, event)

    def _note_programs(self, now: int, source: Source | None, event: Event) -> None:
        if isinstance(event, ProgramCompiled) and source is not None:
            key = source, event.device, event.program
            chips = [chip.id for chip in source.holdings[event.device].chips]
            if key in self.open_programs:
                self.open_programs[key][2] = event.ring
            else:
                self.open_programs[key] = [source.process.info, event.program, event.ring, chips, now, None]
                self.programs.append(self.open_programs[key])
        for key in list(self.open_programs):
            holding = key[0].holdings.get(key[1])
            gone = key[0].process.info not in {process.info for process in self.ledger.processes.values()}
            if gone or holding is None or key[2] not in holding.programs:
                self.open_programs.pop(key)[-1] = now

    def _began(self, one: Allocation, now: int) -> None:
        life = self.live[id(one)] = Life(one, now)
        self.lives.append(life)
        if one.kind < Kind.CB:
            self.made[life.process] += 1
            life.further = -self.made[life.process]

    def _ended(self, one: Allocation, now: int, how: str) -> None:
        life = self.live.pop(id(one), None)
        if life is not None:
            life.end, life.how = now, how
            life.further += self.made[life.process]


class Naive:
    """The figures of a window: after ``after``, up to ``until``, in nanoseconds; None is everything."""

    def __init__(self, walk: Walk, chips: set[str], after: int | None = None, until: int | None = None) -> None:
        self.walk, self.chips = walk, chips
        self.after = -inf if after is None else after
        self.until = inf if until is None else until
        self.lives = [life for life in walk.lives if life.on(chips)]
        self.made = [life for life in self.lives if self.after < life.begin <= self.until]
        self.ended = [life for life in self.lives if life.end is not None and self.after < life.end <= self.until]

    def _sums(self, lives: list[Life]) -> dict[str, Any]:
        return {"count": len(lives), "bytes": sum(life.bytes_on(self.chips) for life in lives)}

    def kinds(self) -> dict[str, Any]:
        found = {}
        for kind in KINDS:
            parts = {
                "start": [life for life in self.lives if life.kind == kind and life.live_at(self.after)],
                "made": [life for life in self.made if life.kind == kind],
                "freed": [life for life in self.ended if life.kind == kind],
                "live": [life for life in self.lives if life.kind == kind and life.live_at(self.until)],
                "temporary": [life for life in self.made if life.kind == kind and self._is_temporary(life)],
            }
            if any(parts.values()):
                found[kind.label] = {name: self._sums(lives) for name, lives in parts.items()} | {
                    "peak": self._peak(kind)
                }
        return found

    def _is_temporary(self, life: Life) -> bool:
        over = life.end is not None and life.end <= self.until
        return life.kind < Kind.CB and over and life.how == "freed" and life.further <= 1

    def _peak(self, kind: Kind) -> tuple[int, float, set[str]] | None:
        """Bytes on a chip, when, and the chips that had them."""
        peaks = {chip: self._peak_of(kind, chip)[0] for chip in self.chips}
        highest = max(peaks.values(), default=0)
        if not highest:
            return None
        return highest, -1.0, {chip for chip, value in peaks.items() if value == highest}

    def peak_times(self, kind: Kind, chip: str) -> float:
        """When the peak of a chip was first reached."""
        return self._peak_of(kind, chip)[1]

    def _peak_of(self, kind: Kind, chip: str) -> tuple[int, float]:
        changes: dict[float, int] = defaultdict(int)
        for life in self.lives:
            if life.kind == kind and chip in life.chips:
                changes[max(life.begin, self.after)] += life.counted
                if life.end is not None:
                    changes[max(life.end, self.after)] -= life.counted
        level, best = 0, (0, -inf)
        for time in sorted(changes):
            level += changes[time]
            if time <= self.until and level > best[0]:
                best = level, time
        return best

    def sizes(self) -> dict[str, dict[int, tuple[int, int]]]:
        found: dict[str, dict[int, tuple[int, int]]] = defaultdict(dict)
        for life in self.made:
            rows = found[BREAKDOWN_POOL_OF[life.kind].label]
            power = 0
            while life.size >= 1 << power:
                power += 1
            at_least = 1 << power - 1 if power else 0
            count, size = rows.get(at_least, (0, 0))
            rows[at_least] = count + 1, size + life.bytes_on(self.chips)
        return dict(found)

    def tops(self) -> dict[tuple[str, str], dict[str | None, list[int]]]:
        """Count, bytes, temporary count and bytes, live count and bytes."""
        found: dict[tuple[str, str], dict[str | None, list[int]]] = defaultdict(dict)
        for life in self.made:
            size = life.bytes_on(self.chips)
            over = life.end is not None and life.end <= self.until
            for by, key in life.keys.items():
                row = found[BREAKDOWN_POOL_OF[life.kind].label, by].setdefault(key, [0] * 6)
                for place, counts in enumerate((True, self._is_temporary(life), not over)):
                    if counts:
                        row[2 * place] += 1
                        row[2 * place + 1] += size
        return dict(found)

    def ends(self) -> dict[str, dict[str, Any]]:
        """By kind, how many ended in which way, and percentiles of the ages in nanoseconds."""
        found: dict[str, dict[str, Any]] = {}
        for kind in KINDS:
            mine = [life for life in self.made if life.kind == kind]
            if not mine:
                continue
            counts: Counter[str] = Counter()
            ages = []
            for life in mine:
                how = life.how if life.end is not None and life.end <= self.until else "live"
                counts[how] += 1
                if how in ("freed", "program_destroyed") and life.end is not None:
                    ages.append(life.end - life.begin)
            ages.sort()
            ranks = [ages[ceil(len(ages) * share / 100) - 1] for share in (50, 90, 99, 100)] if ages else None
            found[kind.label] = {"counts": counts, "ages": ranks}
        return found

    def late(self) -> dict[tuple[str, str | None, str | None], list[int]]:
        """Count, bytes, with the device, with the process, longest life."""
        found: dict[tuple[str, str | None, str | None], list[int]] = {}
        for life in self.ended:
            if life.how in ("device_closed", "process_exited") and cause_of(life.allocation) is Cause.HELD:
                keys, pool = life.keys, BREAKDOWN_POOL_OF[life.kind].label
                row = found.setdefault((pool, keys["line"], keys["op"]), [0] * 5)
                row[0] += 1
                row[1] += life.bytes_on(self.chips)
                row[2] += life.how == "device_closed"
                row[3] += life.how == "process_exited"
                row[4] = max(row[4], (life.end or 0) - life.begin)
        return found

    def free(self, kind: Kind, base: int, size: int, banks: int, time: int) -> tuple[int, int]:
        """Free bytes and the largest free block in a bank, byte range by byte range."""
        taken = sorted(
            (life.allocation.address, life.allocation.address + (life.taken or 0) // banks)
            for life in self.lives
            if life.kind == kind and life.live_at(time)
        )
        at, free, largest = base, 0, 0
        for start, stop in [*taken, (base + size, base + size)]:
            if start > at:
                free += start - at
                largest = max(largest, start - at)
            at = max(at, stop)
        return free, largest

    def changes_near(self, kind: Kind, time: int, slack: int) -> list[int]:
        """When buffers of a kind began or ended at most so long before or after a time."""
        ends = (time_of for life in self.lives if life.kind == kind for time_of in (life.begin, life.end))
        return sorted({int(one) for one in ends if one is not None and abs(one - time) <= slack})

    def least_free(self, kind: Kind, size: int, banks: int) -> int:
        """The least free bytes of a bank after any event of the window, if no two buffers overlap."""
        changes: dict[float, int] = defaultdict(int)
        for life in self.lives:
            if life.kind == kind:
                changes[life.begin] += (life.taken or 0) // banks
                if life.end is not None:
                    changes[life.end] -= (life.taken or 0) // banks
        taken, most = 0, 0
        for time in sorted(changes):
            taken += changes[time]
            if self.after < time <= self.until:
                most = max(most, taken)
        return size - most

    def programs_at(self, time: float) -> int:
        return sum(
            begin <= time and (end is None or end > time)
            for _, _, _, chips, begin, end in self.walk.programs
            if self.chips.intersection(chips)
        )

    def programs_between(self, after: float, until: float) -> tuple[int, int]:
        mine = [row for row in self.walk.programs if self.chips.intersection(row[3])]
        compiled = sum(after < begin <= until for *_, begin, _ in mine)
        return compiled, sum(end is not None and after < end <= until for *_, end in mine)

    def ring(self) -> int:
        return max(
            (ring for _, _, ring, chips, begin, end in self.walk.programs
             if self.chips.intersection(chips) and begin <= self.until and (end is None or end > self.after)),
            default=0,
        )  # fmt: skip


def check(found: Any, naive: Naive, *, most: int, tolerance: int = 0) -> None:
    """Every figure of a document is the naive one. ``tolerance`` of times in nanoseconds: wall times are floats."""
    near = tolerance / 1e9 + 2e-9

    kinds = naive.kinds()
    assert [row["kind"] for row in found["kinds"]] == list(kinds)
    for row in found["kinds"]:
        expected = kinds[row["kind"]]
        assert {name: row[name] for name in _COUNTED} == {name: expected[name] for name in _COUNTED}, row["kind"]
        assert row["start"]["count"] + row["made"]["count"] - row["freed"]["count"] == row["live"]["count"]
        if row["peak"] is None:
            assert expected["peak"] is None
        else:
            value, _, chips = expected["peak"]
            assert row["peak"]["per_chip"] == value
            assert chips.issuperset(row["peak"]["chips"])
            when = naive.peak_times(KINDS[[kind.label for kind in KINDS].index(row["kind"])], row["peak"]["chips"][0])
            assert abs(row["peak"]["after_s"] - max(0, when) / 1e9) <= near

    sizes = {
        pool["pool"]: {row["at_least"]: (row["count"], row["bytes"]) for row in pool["rows"]} for pool in found["sizes"]
    }
    assert sizes == naive.sizes()

    tops = naive.tops()
    assert {(top["pool"], top["by"]) for top in found["tops"]} == set(tops)
    for top in found["tops"]:
        groups = tops[top["pool"], top["by"]]
        assert top["groups"] == len(groups)
        for row in top["rows"]:
            figures = [row["count"], row["bytes"], *row["temporary"].values(), *row["live"].values()]
            assert figures == groups[row["key"]], (top["pool"], top["by"], row["key"])
        for name, place in (("bytes", 1), ("count", 0), ("temporary", 2)):
            listed = [groups[row["key"]][place] for row in sorted(top["rows"], key=lambda row: row["rank"][name])]
            best = sorted((figures[place] for figures in groups.values()), reverse=True)[:most]
            best = best if place != 2 else [value for value in best if value]
            assert listed[: len(best)] == best, (top["pool"], top["by"], name)

    ends = naive.ends()
    assert [row["kind"] for row in found["lives"]] == list(ends)
    for row in found["lives"]:
        expected = ends[row["kind"]]
        for how in ("freed", "program_destroyed", "device_closed", "process_exited", "unknown", "live"):
            assert row[how] == expected["counts"][how], (row["kind"], how)
        if row["seconds"] is None:
            assert expected["ages"] is None
        else:
            for age, nanoseconds in zip(row["seconds"].values(), expected["ages"]):
                assert abs(age - nanoseconds / 1e9) <= near, row["kind"]

    late = naive.late()
    assert found["freed_late"]["groups"] == len(late)
    assert found["freed_late"]["count"] == sum(row[0] for row in late.values())
    assert len(found["freed_late"]["rows"]) == min(most, len(late))
    for row in found["freed_late"]["rows"]:
        expected = late[row["pool"], row["line"], row["op"]]
        assert [row["count"], row["bytes"], row["device_closed"], row["process_exited"]] == expected[:4]
        assert abs(row["longest_s"] - expected[4] / 1e9) <= near

    programs = found["programs"]
    assert (programs["start"], programs["live"]) == (naive.programs_at(naive.after), naive.programs_at(naive.until))
    assert (programs["compiled"], programs["destroyed"]) == naive.programs_between(naive.after, naive.until)
    edges = [naive.after, *(round(row["until_s"] * 1e9) for row in programs["tenths"][:-1]), naive.until]
    for row, first, last in zip(programs["tenths"], edges, edges[1:]):
        assert (row["compiled"], row["destroyed"]) == naive.programs_between(first, last)
        assert row["live"] == naive.programs_at(last)
    assert (found["kernel_ring"]["used_max"] if found["kernel_ring"] else 0) == naive.ring()


def check_fragmentation(found: Any, naive: Naive, recording: Recording, *, wanted: int = 1, slack: int = 0) -> None:
    """Every examined moment, by looking at each block; and the least free bytes over all events are among them.

    The times of ``naive`` may differ by ``slack``: wall times are floats, which are not exact to the nanosecond. The
    order of events that are so near to a moment is then not known, so any of them may have been the last before it.
    """
    table = recording.lifetimes().allocations
    (allocator,) = table.allocators
    assert len(found["fragmentation"]) >= wanted
    for one in found["fragmentation"]:
        kind = Kind[one["kind"].upper()]
        region = allocator.regions[kind]
        assert (one["bank_size"], one["banks"]) == (region.size, region.banks)
        assert one["moments"] == len(one["series"])
        for point in one["series"]:
            time = round(point["after_s"] * 1e9)
            last = {time} if not slack else {time - slack, *naive.changes_near(kind, time, slack)}
            free = [naive.free(kind, region.base, region.size, region.banks, one) for one in last]
            assert (point["free"], point["largest"]) in free, point
        assert min(point["free"] for point in one["series"]) == naive.least_free(kind, region.size, region.banks)
        ratios = [point["largest"] / point["free"] if point["free"] else 1.0 for point in one["series"]]
        worst = one["worst"]
        assert (worst["largest"] / worst["free"] if worst["free"] else 1.0) == min(ratios)
        assert one["smallest"]["largest"] == min(point["largest"] for point in one["series"])
