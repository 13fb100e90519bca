# SPDX-License-Identifier: Apache-2.0
"""What is known of a run when it has ended, as data: schema "ttmem.run/1"."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

from ttmem.account.allocations import Allocation
from ttmem.account.ledger import Ledger
from ttmem.analyze import hold_reasons as causes
from ttmem.analyze.breakdown import Breakdown
from ttmem.analyze.hold_reasons import Cause
from ttmem.documents import explanation as explain_data
from ttmem.documents import snapshot as snap
from ttmem.documents.peaks import peaks
from ttmem.ingest.clock import rfc3339
from ttmem.model.kinds import Pool
from ttmem.model.uncertain_reasons import listed
from ttmem.recording.moment import account_of, programs_behind
from ttmem.run.launch import Ended
from ttmem.run.session import Failure, Session
from ttmem.run.size_figures import advice

SCHEMA = "ttmem.run/1"

Json = Any

_WORDS = {
    Cause.PROGRAM_CACHE: "program cache",
    Cause.LIKELY_PROGRAM_CACHE: "program cache, likely",
    Cause.SYSTEM: "system",
}


def cause_of(allocation: Allocation) -> str:
    """The cause in a run's words; what is held without another one is a tensor."""
    return _WORDS.get(causes.cause_of(allocation), "tensor")


def _buffer(allocation: Allocation) -> Hashable:
    """What an allocation is a part of: one buffer in lock step is an allocation on every chip of its mesh."""
    extra = allocation.extra
    if extra is not None and extra.per_core:
        return allocation
    return allocation.holding.source, allocation.address, allocation.kind, extra.allocator if extra is not None else 0


def _by_size(allocations: Iterable[Allocation]) -> list[Allocation]:
    return sorted(allocations, key=lambda allocation: (-allocation.size, allocation.born))


class RunResult:
    """The figures of one run."""

    def __init__(self, command: Sequence[str], ended: Ended, collector: Session, host: str) -> None:
        self.command = list(command)
        self.ended = ended
        self.ledger = collector.ledger
        self.host = host
        self.events, self.dropped = collector.ingest.rings.counts()
        self.peak_time = collector.whole.peak.time
        self.ended_at = collector.clock.now()
        self.started_at = self.ended_at - ended.duration
        self.at_peak = collector.at_peak()
        self._programs_at_peak = programs_behind(self.at_peak)
        self.left = _by_size(collector.left())
        self._programs_left = collector.programs_left()
        self.uncertain = listed(self.ledger.uncertain)
        self.completeness = collector.ingest.rings.completeness()
        if self.uncertain and self.completeness == 1.0:  # as of a chip: see documents/snapshot.py
            self.completeness = None
        self.counters = collector.ingest.rings.counters()
        self.failures, self.failed = list(collector.failures), collector.failed
        self.sizing = list(advice(collector.ingest.rings.sizes))
        self.left_known = not collector.ingest.rings.blind
        self.earlier = self._left_earlier(*collector.ingest.rings.wholesale)
        self.troubles = sorted(
            {s.trouble for p in (*self.ledger.processes.values(), *self.ledger.departed)
             for s in p.sources.values() if s.trouble}
        )  # fmt: skip

    @property
    def leaks(self) -> list[Allocation]:
        """What should not have been left: not what the program cache holds."""
        return [allocation for allocation in self.left if cause_of(allocation) == "tensor"]

    def _left_earlier(self, count: int, size: int) -> tuple[int, int]:
        """Tensors that were left when devices were closed before the last time, and their bytes."""
        last = [allocation for allocation in self.leaks if not allocation.refs]  # the last closing freed them, too
        counted = {_buffer(allocation): allocation.size for allocation in last}
        return max(0, count - len(counted)), max(0, size - sum(counted.values()))

    def highest(self, pool: Pool) -> int:
        """The most that allocators had taken of a pool on any one chip."""
        return max((chip.pools[pool].reserved_peak for chip in self.ledger.chips.values()), default=0)

    def data(self) -> Json:
        final = account_of(self.left, self._programs_left)
        return {
            "schema": SCHEMA,
            "command": self.command,
            "exit_code": self.ended.exit_code,
            "duration_s": self.ended.duration,
            "events": self.events,
            "dropped": self.dropped,
            "completeness": self.completeness,
            "uncertain": self.uncertain,
            "unseen": [{"pid": pid, "name": name} for pid, name in sorted(self.ended.unseen.items())],
            "trouble": self.troubles,
            "agent": self.counters,
            "anomalies": snap.anomalies(self.ledger.anomalies),
            "sizing": [
                {"pid": pid, "chips": [chip.id for chip in chips], "lines": [line._asdict() for line in lines]}
                for pid, chips, lines in self.sizing
            ],
            "failed": self.failed,
            "failures": [self._failure(failure) for failure in self.failures],
            "peaks": peaks(self.ledger),
            "breakdown": {by: self.breakdown(by) for by in ("op", "line", "shape")},
            "peak": self._snapshot(account_of(self.at_peak, self._programs_at_peak), self.peak_time or self.ended_at),
            "final": self._snapshot(final, self.ended_at),
            "left_known": self.left_known,
            "left_earlier": {"tensors": self.earlier[0], "bytes": self.earlier[1]},
            "left": [
                {**snap.allocation(allocation), "cause": cause_of(allocation)}
                for allocation in _by_size(final.allocations())
            ],
        }

    def breakdown(self, by: str) -> list[Json]:
        """What was live at the peak of all buffers, put together."""
        breakdown = Breakdown(by)
        for allocation in account_of(self.at_peak, self._programs_at_peak).allocations():
            breakdown.add(allocation)
        return breakdown.rows()

    def _failure(self, failure: Failure) -> Json:
        stack = failure.event.stack
        return {
            "time": failure.time,
            "pid": failure.pid,
            "text": failure.event.text,
            "operation": failure.event.tag,
            "stack": stack.split("\n") if stack else None,
            "verdict": explain_data.verdict(failure.verdict),
        }

    def _snapshot(self, ledger: Ledger, time: float) -> Json:
        sources: Any = [{"name": "agent", "state": "ok" if self.events else "silent", "detail": None}]
        return snap.take_snapshot(ledger, time=rfc3339(time, 6), host=self.host, sources=sources)
