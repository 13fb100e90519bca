# SPDX-License-Identifier: Apache-2.0
"""The result of a run: its document, which becomes text and JSON, and the figures that verdicts need."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ttmem.account.allocations import Allocation
from ttmem.documents.pool_amounts import pool_amounts
from ttmem.documents.run_document import LEAK, RunFacts, cause_of, document
from ttmem.model.kinds import KIND_BY_LABEL, KINDS, Pool
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
    leaks: Mapping[str, schema.CountAndBytes]  # tensors that were not freed, by breakdown pool


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
            peak_time=session.all_chips.peak.time,
            at_end=account_of(left, session.programs_left()),
            left_known=session.left_known,
            left_earlier=pool_amounts(earlier),
            sizing=advice(session.agents),
            failed=session.failed,
            failures=session.failures,
        )
    )
    leaks = [(int(KIND_BY_LABEL[row["kind"]]), 1, row["size"]) for row in found["left"] if row["cause"] == LEAK]
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
        leaks=pool_amounts([*leaks, *earlier]),
    )


def _left_earlier(left: Iterable[Allocation], freed: Sequence[tuple[int, int]]) -> list[tuple[int, int, int]]:
    """Kind, number and bytes of the tensors that were left over at earlier closings of devices.

    ``freed`` are number and bytes at all closings, for each kind. Allocations of the last one have no references any
    more.
    """
    last = {_buffer(item): item for item in left if not item.refs and cause_of(item) == LEAK}
    earlier = []
    for kind, (count, size) in zip(KINDS, freed):
        sizes = [item.size for item in last.values() if item.kind == kind]
        earlier.append((int(kind), max(0, count - len(sizes)), max(0, size - sum(sizes))))
    return earlier


def _buffer(allocation: Allocation) -> Hashable:
    """The buffer that an allocation is a part of."""
    extra = allocation.extra
    if extra is not None and extra.per_core:
        return allocation
    return allocation.holding.source, allocation.address, allocation.kind, extra.allocator if extra is not None else 0
