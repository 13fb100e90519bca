# SPDX-License-Identifier: Apache-2.0
"""The result of a run: its document, which becomes text and JSON, and the figures that verdicts need."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ttmem.account.allocations import Allocation
from ttmem.documents.run_document import LEAK, RunFacts, cause_of, document
from ttmem.model.kinds import BREAKDOWN_POOL_OF, KINDS, Pool
from ttmem.recording.moment import account_of, programs_behind
from ttmem.run.launch import Ended
from ttmem.run.session import Session
from ttmem.run.size_figures import advice

if TYPE_CHECKING:
    from ttmem.model import schema


@dataclass(frozen=True, slots=True)
class RunResult:
    """The result of a run after its end."""

    document: schema.Run  # schema "ttmem.run/1"
    exit_code: int  # the command's own
    events: int
    seen_completely: bool  # no lost record, no untracked process, audits agree, no trouble of agents
    uncertain: Sequence[schema.UncertainRow]  # why the numbers are uncertain
    reserved_peaks: Mapping[Pool, int]  # the most that allocators reserved on any one chip


def result_of(command: Sequence[str], ended: Ended, session: Session, host: str) -> RunResult:
    """The result of a run whose command has ended. Computes the accounts at the peak and at the end, each once."""
    rings = session.rings
    events, dropped = rings.counts()
    now = session.clock.now()
    at_peak, left = session.at_peak(), session.left()
    earlier = _left_earlier(left, session.freed_by_close)
    completeness = rings.completeness()
    if completeness == 1.0 and session.ledger.uncertain:  # as for a chip: see documents/snapshot.py
        completeness = None
    found = document(
        RunFacts(
            command=command,
            host=host,
            exit_code=ended.exit_code,
            started=now - ended.duration,
            ended=now,
            duration=ended.duration,
            events=events,
            dropped=dropped,
            completeness=completeness,
            unseen=ended.unseen,
            counters=rings.counters(),
            ledger=session.ledger,
            at_peak=account_of(at_peak, programs_behind(at_peak)),
            peak_time=session.all_chips.peak.time or 0.0,
            at_end=account_of(left, session.programs_left()),
            left_known=session.left_known,
            left_earlier=earlier,
            sizing=advice(session.agents),
            failed=session.failed,
            failures=session.failures,
        )
    )
    return RunResult(
        document=found,
        exit_code=ended.exit_code,
        events=events,
        seen_completely=not (dropped or ended.unseen or completeness not in (None, 1.0) or found["trouble"]),
        uncertain=found["uncertain"],
        reserved_peaks={
            Pool.DRAM: max((chip["dram"]["reserved_peak"] for chip in found["chips"]), default=0),
            Pool.L1: max((chip["l1"]["reserved_peak"] for chip in found["chips"]), default=0),
        },
    )


def _left_earlier(left: Iterable[Allocation], freed: Sequence[tuple[int, int]]) -> dict[str, schema.CountAndBytes]:
    """Tensors that were left over at earlier closings of devices, by pool. The bytes of each are those on one chip.

    ``freed`` are number and bytes at all closings, for each kind. Allocations of the last one have no references any
    more.
    """
    last = {_buffer(item): item for item in left if not item.refs and cause_of(item) == LEAK}
    earlier: dict[str, schema.CountAndBytes] = {}
    for kind, (count, size) in zip(KINDS, freed):
        sizes = [item.size for item in last.values() if item.kind == kind]
        if count > len(sizes):
            pool = earlier.setdefault(BREAKDOWN_POOL_OF[kind].label, {"count": 0, "bytes": 0})
            pool["count"] += count - len(sizes)
            pool["bytes"] += max(0, size - sum(sizes))
    return earlier


def _buffer(allocation: Allocation) -> Hashable:
    """The buffer that an allocation is a part of."""
    extra = allocation.extra
    if extra is not None and extra.per_core:
        return allocation
    return allocation.holding.source, allocation.address, allocation.kind, extra.allocator if extra is not None else 0
