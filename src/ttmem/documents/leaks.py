# SPDX-License-Identifier: Apache-2.0
"""Finds leaks and groups held allocations by likely cause: schema "ttmem.leaks/1"."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, Union

from ttmem.account.allocations import Allocation
from ttmem.account.entities import Chip, Process
from ttmem.account.ledger import Ledger
from ttmem.account.live_set import counted_chips
from ttmem.account.uncertainty import added
from ttmem.analyze.hold_reasons import Cause, cause_of
from ttmem.documents.pool_amounts import pool_amounts
from ttmem.documents.snapshot import HIDDEN_TROUBLE
from ttmem.documents.snapshot import allocation as allocation_json
from ttmem.model.kinds import KINDS
from ttmem.model.uncertain_reasons import meanings_text

if TYPE_CHECKING:
    from ttmem.model import schema

SCHEMA: Final = "ttmem.leaks/1"
OLDER = 60  # seconds; a younger allocation is likely still in use
LISTED = 1000
_MAX_GROUPS = 10_000
_LARGEST_OF_DEAD = 5

Viewer = Callable[[int | None], bool]  # whether the reader may see texts of this user


# Key of a group of leaked allocations: process, chip, kind, and the tag, else the size, else None for the rest.
_Site = tuple[Process, Chip, int, Union[str, int, None]]


class _Sum:
    """Allocations of one kind, their bytes and their ages."""

    __slots__ = ("ages", "bytes", "count", "oldest", "youngest")

    def __init__(self) -> None:
        self.count = self.bytes = 0
        self.ages = self.oldest = 0.0
        self.youngest = float("inf")

    def add(self, size: int, age: float) -> None:
        self.count += 1
        self.bytes += size
        self.ages += age
        if age > self.oldest:
            self.oldest = age
        if age < self.youngest:
            self.youngest = age

    def grows(self, watched: float) -> bool:
        """Whether they were allocated one by one over the whole time, not as a batch, or a batch and a straggler.

        The allocation times must span more than half of the time that the process was tracked, and their mean must be
        in the middle half of that span.
        """
        reach = self.oldest - self.youngest
        middle = self.ages / self.count - self.youngest
        return self.count >= 3 and reach > max(watched, self.oldest) / 2 and reach < 4 * middle < 3 * reach


def _ages(sums: Iterable[_Sum]) -> schema.HeldAges:
    found = [one for one in sums if one.count]
    return {
        "oldest_s": round(max(one.oldest for one in found), 3) if found else None,
        "youngest_s": round(min(one.youngest for one in found), 3) if found else None,
    }


def _amounts(sums: Iterable[tuple[int, _Sum]]) -> schema.PoolAmounts:
    """Sums of kinds, summed up by pool."""
    found = [(kind, one.count, one.bytes) for kind, one in sums]
    return {"count": sum(count for _, count, _ in found), "pools": pool_amounts(found)}


def _held(by_kind: Sequence[_Sum]) -> schema.HeldRow:
    return {**_amounts(enumerate(by_kind)), **_ages(by_kind)}


class LeakFinder:
    """Finds leaks. Live allocations and exited processes are added one by one, so that a server can do it in slices.

    A leak is an allocation that a living process has held for ``older`` seconds or longer, with no other reason. A
    reader who may not see the tags of a process gets its leaks by size.
    """

    def __init__(
        self,
        now: float,
        older: float = OLDER,
        *,
        pids: frozenset[int] = frozenset(),
        chip: str | None = None,
        may_see: Viewer = lambda user_id: True,
    ) -> None:
        self._now = now
        self._older = older
        self._pids = pids
        self._chip = chip
        self._may_see = may_see
        self._leaks: dict[_Site, _Sum] = {}
        self._young = [_Sum() for _ in KINDS]
        self._causes = [[_Sum() for _ in KINDS] for _ in Cause]
        self._dead: list[schema.DeadProcessRow] = []

    def add(self, item: Allocation) -> None:
        process = item.holding.source.process
        if not item.refs or process.exited is not None:
            return
        for chip in counted_chips(item):
            if self._wanted(process, chip):
                self._add(item, process, chip)

    def _add(self, item: Allocation, process: Process, chip: Chip) -> None:
        cause, age = cause_of(item), max(0.0, self._now - item.time)
        if cause is not Cause.HELD:
            found = self._causes[cause][item.kind]
            if cause is Cause.LIKELY_PROGRAM_CACHE:
                self._causes[Cause.PROGRAM_CACHE][item.kind].add(item.counted, age)
        elif age < self._older:
            found = self._young[item.kind]
        else:
            found = self._site(item, process, chip)
        found.add(item.counted, age)

    def add_dead(self, process: Process) -> None:
        """Add what a process still held when it exited."""
        held = [
            (int(kind), leaf.count, leaf.used)
            for holding in process.holdings()
            for chip in holding.chips
            if self._wanted(process, chip)
            for kind, leaf in zip(KINDS, holding.leaves)
            if leaf is not None and chip in leaf.chips and leaf.count
        ]
        if not held or process.exited is None:
            return
        tags = self._may_see(process.info.user_id)
        largest = [
            (item, chip)
            for item in process.largest_left(20)
            for chip in item.holding.chips
            if chip in counted_chips(item) and self._wanted(process, chip)
        ]
        self._dead.append(
            {
                "pid": process.info.pid or None,
                "name": process.info.name,
                "exited": process.exited,
                "ago_s": round(max(0.0, self._now - process.exited), 3),
                "count": sum(count for _, count, _ in held),
                "pools": pool_amounts(held),
                "largest": [allocation_json(item, chip, see_tag=tags) for item, chip in largest[:_LARGEST_OF_DEAD]],
            }
        )

    def _wanted(self, process: Process, chip: Chip) -> bool:
        return (not self._pids or process.info.pid in self._pids) and self._chip in (None, chip.id)

    def _site(self, item: Allocation, process: Process, chip: Chip) -> _Sum:
        tag = item.extra.tag if item.extra is not None and self._may_see(process.info.user_id) else None
        # The hash of an IntEnum is Python code, the hash of its value is not.
        site: _Site = (process, chip, int(item.kind), item.size if tag is None else tag)
        found = self._leaks.get(site)
        if found is None:
            if len(self._leaks) >= _MAX_GROUPS:
                site = (*site[:3], None)
            found = self._leaks.setdefault(site, _Sum())
        return found

    def result(self, ledger: Ledger, *, time: str, since: str, tracked: float) -> schema.Leaks:
        """The findings. ``tracked`` is the number of seconds that the server has been running, ``since`` its start."""
        groups = sorted(self._leaks.items(), key=lambda item: (-item[1].bytes, -item[1].oldest))
        sums = [(site[2], found) for site, found in groups]
        living = [p for p in ledger.processes.values() if not self._pids or p.info.pid in self._pids]
        uncertain = added(p for p in living if self._chip is None or self._chip in p.shares)
        losses: schema.Losses = {
            "dropped": sum(p.anomalies["dropped"] for p in living),
            "unknown_free": sum(p.anomalies["unknown_free"] for p in living),
        }
        cached, likely = self._causes[Cause.PROGRAM_CACHE], self._causes[Cause.LIKELY_PROGRAM_CACHE]
        return {
            "schema": SCHEMA,
            "time": time,
            "since": since,
            "tracked_s": round(tracked, 3),
            "older_s": self._older,
            "verdict": {
                "leak": bool(groups),
                "groups": len(groups),
                **_amounts(sums),
            },
            "losses": losses,
            "uncertain": uncertain,
            "doubts": self._doubts(ledger, living, losses, uncertain, tracked),
            "leaks": [self._group(site, found) for site, found in groups[:LISTED]],
            "left_out": {"groups": len(sums[LISTED:]), **_amounts(sums[LISTED:])},
            "young": _held(self._young),
            "program_cache": {**_held(cached), "likely": _held(likely)},
            "trace": _held(self._causes[Cause.TRACE]),
            "system": _held(self._causes[Cause.SYSTEM]),
            "dead_process": self._dead,
        }

    def _group(self, site: _Site, found: _Sum) -> schema.LeakRow:
        process, chip, kind, what = site
        return {
            "pid": process.info.pid or None,
            "name": process.info.name,
            "chip": chip.id,
            "kind": KINDS[kind].label,
            "tag": what if isinstance(what, str) else None,
            "size": what if isinstance(what, int) else None,
            "count": found.count,
            "bytes": found.bytes,
            **_ages([found]),
            "grows": found.grows(self._now - process.seen),
        }

    def _doubts(
        self,
        ledger: Ledger,
        living: list[Process],
        losses: schema.Losses,
        uncertain: list[schema.UncertainRow],
        tracked: float,
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
        if tracked < self._older:
            doubts.append(f"tracking began {age_text(tracked)} ago: earlier allocations may be older than shown")
        if not ledger.processes and not ledger.departed:
            doubts.append("no process has reported anything yet")
        troubles = {
            source.trouble if self._may_see(process.info.user_id) else HIDDEN_TROUBLE
            for process in living
            for source in process.sources.values()
            if source.trouble
        }
        return doubts + [" ".join(trouble.split()) for trouble in sorted(troubles)]


def age_text(seconds: float) -> str:
    """An age in a readable unit.

    >>> age_text(59.9), age_text(150), age_text(7300), age_text(200000)
    ('59 s', '2 min', '2.0 h', '2.3 d')
    """
    if seconds < 120:
        return f"{int(seconds)} s"
    if seconds < 7200:
        return f"{int(seconds / 60)} min"
    return f"{seconds / 3600:.1f} h" if seconds < 172800 else f"{seconds / 86400:.1f} d"
