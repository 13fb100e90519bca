# SPDX-License-Identifier: Apache-2.0
"""Finds lasting differences between the account and tt-metal's own counters for a process.

The two cannot be read at the same moment, so for a process that allocates they differ although both are right. A round
reads the counters first and the account after them. If the next round begins after that and finds both unchanged
(tt-metal has a time stamp for each change), both describe the same moment. A difference that is found in this way, and
again with the same amount some seconds later, is reported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ttmem.documents.merge import COMPARED

if TYPE_CHECKING:
    from ttmem.model.machine_rows import CounterFile
    from ttmem.model.schema import Snapshot

Where = tuple[int, str]  # pid and chip
Amounts = dict[str, tuple[int, int]]  # by kind, the bytes tracked and the bytes counted
_Key = tuple[int, int | None, str]  # pid, start and chip

LASTS_SECONDS = 2.0
_FORGOTTEN_SECONDS = 10.0  # for a process that is never idle: an earlier difference may be over


class _Seen(NamedTuple):
    """The values of one round for a process on a chip."""

    amounts: Amounts
    stamps: tuple[float | None, ...]  # when tt-metal last changed each of the process's counters


class _Found(NamedTuple):
    """A difference with its amounts, found while neither side changed."""

    amounts: Amounts
    since: float
    until: float

    @property
    def by_kind(self) -> dict[str, int]:
        return {kind: counted - tracked for kind, (tracked, counted) in self.amounts.items()}


class Differences:
    """Compares round by round; ``lasting`` are the differences to report."""

    def __init__(self) -> None:
        self.lasting: dict[Where, Amounts] = {}
        self.open = False  # whether the last round found a difference that may or may not last
        self._before: dict[_Key, _Seen] = {}
        self._began = self._ended = float("-inf")
        self._found: dict[_Key, _Found] = {}

    def take(self, merged: Snapshot, shm: list[CounterFile], began: float, ended: float) -> None:
        """Add a round: the counters were read after ``began``, the account was captured at ``ended``."""
        now = _observe(merged, shm)
        still = began > self._ended  # else the counters may be older than the previous account
        found = {}
        for key, seen in now.items():
            known = self._found.get(key)
            if still and self._before.get(key) == seen:
                amounts = _differing(seen)
                fresh = _Found(amounts, self._began, ended)
                if known is not None and known.by_kind == fresh.by_kind:
                    fresh = fresh._replace(since=known.since)
                known = fresh if amounts else None
            if known is not None and ended - known.until < _FORGOTTEN_SECONDS:
                found[key] = known
        lasting = {key: one for key, one in found.items() if one.until - one.since >= LASTS_SECONDS}
        self.lasting = {(pid, chip_id): one.amounts for (pid, _, chip_id), one in lasting.items()}
        self.open = any(_differing(seen) for seen in now.values())
        self._before, self._began, self._ended, self._found = now, began, ended, found


def _observe(merged: Snapshot, shm: list[CounterFile]) -> dict[_Key, _Seen]:
    """The values of every live process that is on both sides, chip by chip."""
    stamps: dict[int, list[float | None]] = {}
    for file in shm:
        for slot in file["slots"]:
            if slot["state"] == "live" and slot["process"] is not None:
                stamps.setdefault(slot["process"], []).append(slot["updated"])
    out = {}
    for process in merged["processes"]:
        pid = process["pid"]
        if process["state"] == "tracked" and pid is not None and pid in stamps:
            for share in process["chips"]:
                counted = share["shm"]
                if counted:
                    both = [(kind, share["kinds"].get(kind), counted[kind]) for kind in COMPARED]
                    amounts: Amounts = {kind: (mine, theirs) for kind, mine, theirs in both if mine is not None}
                    out[pid, process["start"], share["chip"]] = _Seen(amounts, tuple(stamps[pid]))
    return out


def _differing(seen: _Seen) -> Amounts:
    return {kind: pair for kind, pair in seen.amounts.items() if pair[0] != pair[1]}
