# SPDX-License-Identifier: Apache-2.0
"""The document of a run that has ended, schema "ttmem.run/1"; `ttmem run` writes it and makes its text from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from ttmem.account.allocations import Allocation, Holding
from ttmem.account.entities import Chip
from ttmem.account.ledger import Ledger
from ttmem.analyze import hold_reasons
from ttmem.analyze.breakdown import Breakdown
from ttmem.analyze.hold_reasons import Cause
from ttmem.analyze.sizing import SizingLine
from ttmem.analyze.verdict_types import Verdict
from ttmem.documents import explanation
from ttmem.documents import snapshot as snap
from ttmem.documents.peaks import peaks
from ttmem.ingest.clock import rfc3339
from ttmem.model.events import Failed
from ttmem.model.kinds import KINDS, POOL_OF, Pool
from ttmem.model.uncertain_reasons import listed

if TYPE_CHECKING:
    from ttmem.model import schema

SCHEMA: Final = "ttmem.run/1"
BREAKDOWNS = ("op", "line", "shape", "kind", "program")  # keys by which the allocations at the peak are grouped
LEAK = "tensor"  # the cause of an allocation that should have been freed

_CAUSES = {
    Cause.PROGRAM_CACHE: "program cache",
    Cause.LIKELY_PROGRAM_CACHE: "program cache, likely",
    Cause.SYSTEM: "system",
}


class RunFacts(NamedTuple):
    """The data of the document. Times are seconds since 1970."""

    command: Sequence[str]
    host: str
    exit_code: int
    started: float
    ended: float
    duration: float
    events: int
    dropped: int
    completeness: float | None
    unseen: Mapping[int, str]  # processes that used a device and did not report: pid and name
    counters: Mapping[str, int]  # the agent's own
    ledger: Ledger  # everything that was reported
    at_peak: Ledger  # the account at the peak of all buffers
    peak_time: float  # 0.0 if there was no buffer
    at_end: Ledger  # the account when the devices were closed
    left_known: bool
    left_earlier: dict[str, schema.CountAndBytes]  # tensors left over at earlier closings of devices, on one chip each
    sizing: Iterable[tuple[int, Sequence[Chip], Sequence[SizingLine]]]  # pid, chips of one mesh, advice
    failed: int
    failures: Iterable[tuple[float, int, Failed, Verdict]]  # time, pid, the event and its verdict


def cause_of(allocation: Allocation) -> str:
    """The cause why an allocation was left, as named in the document; without another reason it is a tensor."""
    return _CAUSES.get(hold_reasons.cause_of(allocation), LEAK)


def document(facts: RunFacts) -> schema.Run:
    """The whole document."""
    left = sorted(facts.at_end.allocations(), key=lambda allocation: (-allocation.size, allocation.born))
    return {
        "schema": SCHEMA,
        "command": list(facts.command),
        "exit_code": facts.exit_code,
        "started": facts.started,
        "ended": facts.ended,
        "duration_s": facts.duration,
        "events": facts.events,
        "dropped": facts.dropped,
        "completeness": facts.completeness,
        "uncertain": listed(facts.ledger.uncertain),
        "unseen": [{"pid": pid, "name": name} for pid, name in sorted(facts.unseen.items())],
        "trouble": _troubles(facts.ledger),
        "agent": cast("schema.AgentCounters", dict(facts.counters)),
        "anomalies": snap.anomalies(facts.ledger.anomalies),
        "sizing": [
            {"pid": pid, "chips": [chip.id for chip in chips], "lines": [_sizing_line(line) for line in lines]}
            for pid, chips, lines in facts.sizing
        ],
        "failed": facts.failed,
        "failures": [_failure(*failure) for failure in facts.failures],
        "chips": _chips(facts.ledger, left),
        "peaks": peaks(facts.ledger),
        "breakdown": _breakdowns(facts.at_peak),
        "peak_time": facts.peak_time or None,
        "peak": _snapshot(facts, facts.at_peak, facts.peak_time or facts.ended),
        "final": _snapshot(facts, facts.at_end, facts.ended),
        "left_known": facts.left_known,
        "left_earlier": {
            "tensors": sum(amount["count"] for amount in facts.left_earlier.values()),
            "pools": facts.left_earlier,
        },
        "left": [{**snap.allocation(allocation), "cause": cause_of(allocation)} for allocation in left],
    }


def _troubles(ledger: Ledger) -> list[str]:
    """What sources could not track, and why."""
    processes = (*ledger.processes.values(), *ledger.departed)
    return sorted({source.trouble for p in processes for source in p.sources.values() if source.trouble})


def _chips(ledger: Ledger, left: Iterable[Allocation]) -> list[schema.RunChip]:
    """Each chip with allocations, with its peaks and what was left on it."""
    ends: dict[Holding, tuple[list[int], list[int]]] = {}  # bytes by kind, reserved bytes by pool
    for allocation in left:
        if allocation.holding not in ends:
            ends[allocation.holding] = [0] * len(KINDS), [0] * len(Pool)
        used, reserved = ends[allocation.holding]
        used[allocation.kind] += allocation.counted
        reserved[POOL_OF[allocation.kind]] += allocation.taken or 0
    here: dict[str, list[Holding]] = {}
    for holding in ends:
        for chip in holding.chips:
            here.setdefault(chip.id, []).append(holding)
    shown = [chip for chip in ledger.chips.values() if any(total.peak.at_most for total in chip.kinds)]
    return [_chip(chip, [ends[holding] for holding in here.get(chip.id, [])]) for chip in shown]


def _chip(chip: Chip, left: Sequence[tuple[list[int], list[int]]]) -> schema.RunChip:
    """``left`` has for each device or mesh that was left on it: bytes by kind, and reserved bytes by pool."""
    used = [sum(one[kind] for one, _ in left) for kind in KINDS]
    reserved = [sum(one[pool] for _, one in left) for pool in Pool]
    geometry = chip.geometry
    arch = chip.info.arch or (geometry.arch if geometry is not None else None)
    capacities = {
        Pool.DRAM: geometry.dram_capacity if geometry is not None else None,
        Pool.L1: geometry.cores * (geometry.l1_size - geometry.l1_base) if geometry is not None else None,
    }

    def taken(pool: Pool) -> schema.ReservedPeak:
        return {
            "reserved_peak": chip.pools[pool].reserved_peak,
            "reserved_peak_exact": chip.pools[pool].reserved_peak_exact,
            "reserved_end": reserved[pool],
            "buffer_capacity": capacities[pool],
        }

    return {
        "chip": chip.id,
        "board": chip.info.board,
        "arch": arch.label if arch is not None else None,
        "kinds": {
            kind.label: {"peak": peak.value, "peak_at_most": peak.limit, "end": used[kind]}
            for kind in KINDS
            if (peak := chip.kinds[kind].peak).at_most
        },
        "dram": taken(Pool.DRAM),
        "l1": taken(Pool.L1),
    }


def _sizing_line(line: SizingLine) -> schema.SizingLineRow:
    return {"what": line.what, "text": line.text, "value": line.value, "basis": line.basis}


def _breakdowns(ledger: Ledger) -> schema.RunBreakdown:
    """The allocations of an account, grouped in each way that a run can show."""
    found = {by: Breakdown(by) for by in BREAKDOWNS}
    for allocation in ledger.allocations():
        for breakdown in found.values():
            breakdown.add(allocation)
    return cast("schema.RunBreakdown", {by: breakdown.pools() for by, breakdown in found.items()})


def _failure(time: float, pid: int, event: Failed, verdict: Verdict) -> schema.RunFailure:
    return {
        "time": time,
        "pid": pid,
        "text": event.text,
        "operation": event.tag,
        "stack": event.stack.split("\n") if event.stack else None,
        "verdict": explanation.verdict(verdict),
    }


def _snapshot(facts: RunFacts, ledger: Ledger, time: float) -> schema.Snapshot:
    sources: list[schema.SourceState] = [{"name": "agent", "state": "ok" if facts.events else "silent", "detail": None}]
    return snap.take_snapshot(ledger, time=rfc3339(time, 6), host=facts.host, sources=sources)
