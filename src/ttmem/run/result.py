# SPDX-License-Identifier: Apache-2.0
"""The result of a run: its document, from which text and JSON are made, and the figures that verdicts need."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ttmem.account.allocations import Allocation
from ttmem.documents.run_document import LEAK, RunFacts, cause_of, document
from ttmem.model.kinds import Pool
from ttmem.recording.moment import account_of, programs_behind
from ttmem.run.launch import Ended
from ttmem.run.session import Session
from ttmem.run.size_figures import advice

if TYPE_CHECKING:
    from ttmem.model import schema


@dataclass(frozen=True, slots=True)
class RunResult:
    """What is known of a run when it has ended."""

    document: schema.Run  # schema "ttmem.run/1"
    exit_code: int  # the command's own
    events: int
    seen_completely: bool  # no record was lost, no process went unseen, audits agree, agents had no trouble
    uncertain: Sequence[schema.UncertainRow]  # what agents counted that makes the numbers uncertain
    reserved_peaks: Mapping[Pool, int]  # the most that allocators took on any one chip
    leaks: int  # tensors that nobody freed
    leaked_bytes: int


def result_of(command: Sequence[str], ended: Ended, session: Session, host: str) -> RunResult:
    """The result of a run whose command has ended. What was live at the peak and at the end is folded here, once."""
    rings = session.rings
    events, dropped = rings.counts()
    now = session.clock.now()
    at_peak, left = session.at_peak(), session.left()
    earlier = _left_earlier(left, *session.freed_by_close)
    completeness = rings.completeness()
    if completeness == 1.0 and session.ledger.uncertain:  # as of a chip: see documents/snapshot.py
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
            peak_time=session.all_chips.peak.time,
            at_end=account_of(left, session.programs_left()),
            left_known=session.left_known,
            left_earlier=earlier,
            sizing=advice(session.agents),
            failed=session.failed,
            failures=session.failures,
        )
    )
    leaks = [row["size"] for row in found["left"] if row["cause"] == LEAK]
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
        leaks=len(leaks) + earlier[0],
        leaked_bytes=sum(leaks) + earlier[1],
    )


def _left_earlier(left: Iterable[Allocation], count: int, size: int) -> tuple[int, int]:
    """Tensors that were left when devices were closed before the last time, and their bytes.

    ``count`` and ``size`` are those of every closing. The allocations of the last one have no reference any more.
    """
    last = {_buffer(item): item.size for item in left if not item.refs and cause_of(item) == LEAK}
    return max(0, count - len(last)), max(0, size - sum(last.values()))


def _buffer(allocation: Allocation) -> Hashable:
    """The buffer that an allocation is a part of."""
    extra = allocation.extra
    if extra is not None and extra.per_core:
        return allocation
    return allocation.holding.source, allocation.address, allocation.kind, extra.allocator if extra is not None else 0
