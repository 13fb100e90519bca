# SPDX-License-Identifier: Apache-2.0
"""Finds leaks and groups held allocations by likely cause: schema "ttmem.leaks/1"."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from ttmem.account.allocations import Allocation, Holding
from ttmem.account.entities import Chip, Process
from ttmem.account.uncertainty import added
from ttmem.analyze.chip_sums import ChipSums, CountedChips, Selected
from ttmem.analyze.growth import Growth, Past, Ruler, Steps, time_steps
from ttmem.analyze.hold_reasons import Cause, cause_of
from ttmem.documents.pool_amounts import pool_amounts
from ttmem.documents.snapshot import HIDDEN_TROUBLE
from ttmem.documents.snapshot import allocation as allocation_json
from ttmem.model.kinds import BREAKDOWN_POOL_OF, KIND_BY_LABEL, KINDS, BreakdownPool
from ttmem.model.stack_frames import line_of
from ttmem.model.uncertain_reasons import meanings_text

if TYPE_CHECKING:
    from ttmem.model import schema

SCHEMA: Final = "ttmem.leaks/1"
LISTED = 1000
HISTORY = 16  # moments at which the size of a growing group is given
_MAX_GROUPS = 10_000
_LARGEST_OF_DEAD = 5
_SHORT_SECONDS = 60.0  # growth that is judged over less time is doubtful

Viewer = Callable[[int | None], bool]  # whether the reader may see texts of this user


class LeakOrigin(NamedTuple):
    """What the allocations of a group have in common. A size only if the shape is not known."""

    op: str | None
    stack: str | None
    shape: str | None
    size: int

    def matches(self, patterns: Sequence[str]) -> bool:
        """Does one of the patterns of a user match the operation or a line of the stack?"""
        words = [word for word in (self.op, *(self.stack or "").split("\n")) if word]
        return any(fnmatchcase(word, pattern) or pattern in word for word in words for pattern in patterns)


class Group(NamedTuple):
    """Allocations of one kind and origin."""

    process: Process
    where: Selected
    kind: int  # the hash of an IntEnum is Python code, the hash of its value is not
    origin: LeakOrigin


_REST = LeakOrigin(None, None, None, 0)  # groups beyond the limit


class Judge(Protocol):
    """What is known of a process beside what is live."""

    def steps(self, process: Process) -> Steps: ...

    def past(self, group: Group) -> Past | None:
        """The past of a group, None if it is not known."""
        ...

    def history(self, group: Group, times: list[float]) -> list[int] | None:
        """How many allocations a group had at some times."""
        ...


class ByAge:
    """Judges processes that run now: what was freed before is not known."""

    def __init__(self, now: float, since: float) -> None:
        self._now, self._since = now, since

    def steps(self, process: Process) -> Steps:
        return time_steps(max(self._since, process.seen), self._now)

    def past(self, group: Group) -> Past | None:
        return None

    def history(self, group: Group, times: list[float]) -> list[int] | None:
        return None


class Request(NamedTuple):
    """What a user asks for. An empty set of pids means all processes."""

    pids: frozenset[int] = frozenset()
    chip: str | None = None
    since: float = 0.0  # what was made before is left out
    ignore: tuple[str, ...] = ()


class _Sum:
    """Allocations of one kind, their bytes and their ages."""

    __slots__ = ("made", "oldest", "sums", "youngest")

    def __init__(self) -> None:
        self.sums: ChipSums[Chip] = ChipSums()
        self.oldest = 0.0
        self.youngest = float("inf")
        self.made: list[int] = []  # of a group: how many were made in each slice of time

    @property
    def count(self) -> int:
        return self.sums.count

    def add(self, chips: tuple[Chip, ...], size: int, age: float) -> None:
        self.sums.add(chips, size)
        if age > self.oldest:
            self.oldest = age
        if age < self.youngest:
            self.youngest = age


def _ages(sums: Iterable[_Sum]) -> schema.HeldAges:
    found = [one for one in sums if one.count]
    return {
        "oldest_s": round(max(one.oldest for one in found), 3) if found else None,
        "youngest_s": round(min(one.youngest for one in found), 3) if found else None,
    }


def _amounts(sums: Iterable[tuple[int, _Sum]]) -> schema.PoolAmounts:
    """Sums of kinds, summed up by pool."""
    pools: list[ChipSums[Chip]] = [ChipSums() for _ in BreakdownPool]
    for kind, one in sums:
        pools[BREAKDOWN_POOL_OF[kind]].merge(one.sums)
    found = {pool.label: total.counted() for pool, total in zip(BreakdownPool, pools) if total.count}
    return {"count": sum(total.count for total in pools), "pools": found}


def _held(by_kind: Sequence[_Sum]) -> schema.HeldRow:
    return {**_amounts(enumerate(by_kind)), **_ages(by_kind)}


class LeakFinder:
    """Finds leaks. Live allocations and exited processes are added one by one, so that a server can do it in slices.

    A leak is a group of allocations of a living process that grows (see `analyze.growth`), or that has more than a
    baseline has. A reader who may not see the tags of a process gets its groups by size.
    """

    def __init__(
        self,
        now: float,
        judge: Judge,
        request: Request = Request(),
        *,
        may_see: Viewer = lambda user_id: True,
    ) -> None:
        self._now = now
        self._judge = judge
        self._request = request
        self._counted = CountedChips(self._wanted)
        self._may_see = may_see
        self._groups: dict[Group, _Sum] = {}
        self._rows: list[schema.LeakRow] = []  # of the groups that were judged
        self._rulers: dict[Process, Ruler] = {}
        self._ignored = 0
        self._matches: dict[LeakOrigin, bool] = {}  # of patterns with origins
        self._causes = [[_Sum() for _ in KINDS] for _ in Cause]
        self._dead: list[schema.DeadProcessRow] = []

    def add(self, item: Allocation, now: float | None = None) -> None:
        """Add a live allocation. ``now`` is the moment that it is looked at, if that is another one."""
        process = item.holding.source.process
        if not item.refs or process.exited is not None or item.time < self._request.since:
            return
        found = self._counted.of(item)
        if found.chips:
            self._add(item, process, found, max(0.0, (self._now if now is None else now) - item.time))

    def _add(self, item: Allocation, process: Process, where: Selected, age: float) -> None:
        cause = cause_of(item)
        if cause is not Cause.HELD:
            self._causes[cause][item.kind].add(where.chips, item.counted, age)
            if cause is Cause.LIKELY_PROGRAM_CACHE:
                self._causes[Cause.PROGRAM_CACHE][item.kind].add(where.chips, item.counted, age)
            return
        origin = self._origin(item, process)
        if self._request.ignore and self._is_ignored(origin):
            self._ignored += 1
            return
        group = Group(process, where, int(item.kind), origin)
        ruler = self._rulers.get(process)
        if ruler is None:
            ruler = self._rulers[process] = Ruler(self._judge.steps(process))
        found = self._groups.get(group)
        if found is None:
            if len(self._groups) >= _MAX_GROUPS:
                group = group._replace(origin=_REST)
            found = self._groups.setdefault(group, _Sum())
            found.made = found.made or ruler.empty()
        found.add(where.chips, item.counted, age)
        found.made[ruler.place(item.time)] += 1

    def _origin(self, item: Allocation, process: Process) -> LeakOrigin:
        op = stack = shape = None
        if item.extra is not None and self._may_see(process.info.user_id):
            op, stack, shape = item.extra.tag, item.extra.stack, item.extra.shape
        return LeakOrigin(op, stack, shape, item.size if shape is None else 0)

    def _is_ignored(self, origin: LeakOrigin) -> bool:
        found = self._matches.get(origin)
        if found is None:
            if len(self._matches) >= _MAX_GROUPS:
                self._matches.clear()
            found = self._matches[origin] = origin.matches(self._request.ignore)
        return found

    def add_dead(self, process: Process) -> None:
        """Add what a process still held when it exited."""
        held = [
            (int(kind), chips, leaf.count, leaf.used)
            for holding in process.holdings()
            for kind, leaf in zip(KINDS, holding.leaves)
            if leaf is not None and leaf.count and (chips := self._counted.of_leaf(holding, leaf).chips)
        ]
        if not held or process.exited is None:
            return
        tags = self._may_see(process.info.user_id)
        left = [(item, self._counted.of(item).chips) for item in process.largest_left(20)]
        largest = [(item, chips) for item, chips in left if chips]
        self._dead.append(
            {
                "pid": process.info.pid or None,
                "name": process.info.name,
                "exited": process.exited,
                "ago_s": round(max(0.0, self._now - process.exited), 3),
                "count": sum(count for _, _, count, _ in held),
                "pools": pool_amounts(held),
                "largest": [allocation_json(item, chips, see_tag=tags) for item, chips in largest[:_LARGEST_OF_DEAD]],
            }
        )

    def _wanted(self, holding: Holding) -> tuple[Chip, ...]:
        if self._request.pids and holding.source.process.info.pid not in self._request.pids:
            return ()
        return tuple(chip for chip in holding.chips if self._request.chip in (None, chip.id))

    def judge(self) -> Iterator[None]:
        """Judge each group. `result` does so at once, if it was not done before."""
        for group, found in itertools.islice(self._groups.items(), len(self._rows), None):
            self._rows.append(self._row(group, found))
            yield

    def result(self, processes: Iterable[Process], *, time: str, since: str, tracked: float) -> schema.Leaks:
        """The findings. ``tracked`` is the number of seconds of tracking, ``since`` its start.

        ``processes`` are those whose losses make the findings uncertain.
        """
        for _ in self.judge():
            pass
        request, rows = self._request, self._rows
        growing = _growing_first(row for row in rows if row["growth"] is not None)
        held = largest_first(row for row in rows if row["growth"] is None)
        processes = list(processes)
        chosen = [p for p in processes if not request.pids or p.info.pid in request.pids]
        uncertain = added(p for p in chosen if request.chip is None or request.chip in p.shares)
        losses: schema.Losses = {
            "dropped": sum(p.anomalies["dropped"] for p in chosen),
            "unknown_free": sum(p.anomalies["unknown_free"] for p in chosen),
        }
        cached, likely = self._causes[Cause.PROGRAM_CACHE], self._causes[Cause.LIKELY_PROGRAM_CACHE]
        return {
            "schema": SCHEMA,
            "time": time,
            "since": since,
            "tracked_s": round(tracked, 3),
            "judged": [_judged(process, ruler.steps) for process, ruler in self._rulers.items()],
            "verdict": {"leak": bool(growing), **summed(growing)},
            "losses": losses,
            "uncertain": uncertain,
            "doubts": self._doubts(chosen, losses, uncertain, any_process=bool(processes or self._dead)),
            "growing": growing[:LISTED],
            "held": held[:LISTED],
            "left_out": summed([*growing[LISTED:], *held[LISTED:]]),
            "ignored": self._ignored,
            "program_cache": {**_held(cached), "likely": _held(likely)},
            "trace": _held(self._causes[Cause.TRACE]),
            "system": _held(self._causes[Cause.SYSTEM]),
            "dead_process": self._dead,
        }

    def _row(self, group: Group, found: _Sum) -> schema.LeakRow:
        process, where, kind, origin = group
        sums, label = found.sums.sums(), KINDS[kind].label
        ruler = self._rulers[process]
        growth = ruler.growth(found.made, self._judge.past(group))
        return {
            "pid": process.info.pid or None,
            "name": process.info.name,
            "chips": [chip.id for chip in where.chips],
            "other_chips": [chip.id for chip in where.others],
            "kind": label,
            "op": origin.op,
            "line": line_of(origin.stack),
            "stack": origin.stack.split("\n") if origin.stack else None,
            "shape": origin.shape,
            "size": origin.size or None,
            "count": found.count,
            "bytes": sums["bytes"],
            "per_chip": sums["per_chip"],
            **_ages([found]),
            "above_baseline": None,
            "growth": None if growth is None else self._growth(group, ruler, growth, found),
        }

    def _growth(self, group: Group, ruler: Ruler, growth: Growth, found: _Sum) -> schema.GrowthRow:
        edges = ruler.steps.edges
        times = [edges[(len(edges) - 1) * number // HISTORY] for number in range(1, HISTORY)]
        return {
            "since": growth.since,
            "count": growth.count,
            "per_step": growth.per_step if ruler.steps.by != "time" else None,
            "per_minute": growth.per_minute,
            "bytes_per_minute": growth.per_minute * found.sums.bytes / found.count,
            "history": _with_now(self._judge.history(group, times), found.count),
        }

    def _doubts(
        self,
        living: list[Process],
        losses: schema.Losses,
        uncertain: list[schema.UncertainRow],
        *,
        any_process: bool,
    ) -> list[str]:
        """The reasons why the verdict may be wrong, as sentences."""
        doubts = []
        if uncertain:
            doubts.append(f"the agent counted {meanings_text(uncertain)}")
        if losses["dropped"]:
            doubts.append(f"{losses['dropped']:,} events were lost: a free or an allocation may have been missed")
        if losses["unknown_free"]:
            doubts.append(
                f"{losses['unknown_free']:,} frees were of unreported allocations: reports, and other frees "
                "with them, may have been missed"
            )
        doubts += _doubts_of_steps({process: ruler.steps for process, ruler in self._rulers.items()})
        if not any_process:
            doubts.append("no process has reported anything yet")
        troubles = {
            source.trouble if self._may_see(process.info.user_id) else HIDDEN_TROUBLE
            for process in living
            for source in process.sources.values()
            if source.trouble
        }
        return doubts + [" ".join(trouble.split()) for trouble in sorted(troubles)]


def _doubts_of_steps(steps: Mapping[Process, Steps]) -> Iterator[str]:
    """Why growth could not be judged well, once for all processes."""
    short = [str(process.info.pid or "?") for process, one in steps.items() if not one.enough]
    if short:
        yield f"nothing was repeated often enough to judge growth (pid {', '.join(short)})"
    times = [one.edges[-1] - one.edges[0] for one in steps.values() if one.enough and one.by == "time"]
    if times and min(times) < _SHORT_SECONDS:
        yield f"growth was judged over {min(times):.1f} s only, in which a model that is being loaded grows too"


def _with_now(history: list[int] | None, count: int) -> list[int] | None:
    """The last moment is the one that is shown."""
    return None if history is None else [*history, count]


def _growing_first(rows: Iterable[schema.LeakRow]) -> list[schema.LeakRow]:
    """Those that grow fastest first."""
    return sorted(
        rows,
        key=lambda row: (-(row["growth"]["bytes_per_minute"] if row["growth"] is not None else 0.0), -row["bytes"]),
    )


def largest_first(rows: Iterable[schema.LeakRow]) -> list[schema.LeakRow]:
    return sorted(rows, key=lambda row: (-row["bytes"], -(row["oldest_s"] or 0.0)))


def _judged(process: Process, steps: Steps) -> schema.JudgedRow:
    return {
        "pid": process.info.pid or None,
        "by": steps.by,
        "name": steps.name,
        "steps": steps.count,
        "from": steps.edges[0] if steps.edges else None,
        "until": steps.edges[-1] if steps.edges else None,
    }


def summed(rows: Sequence[schema.LeakRow]) -> schema.LeaksLeftOut:
    """Groups, allocations and bytes of some rows."""
    found = [(int(KIND_BY_LABEL[row["kind"]]), tuple(row["chips"]), row["count"], row["per_chip"]) for row in rows]
    return {"groups": len(rows), "count": sum(row["count"] for row in rows), "pools": pool_amounts(found)}
