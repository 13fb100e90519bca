# SPDX-License-Identifier: Apache-2.0
"""The snapshot: the account at one moment as a document, schema "ttmem.snapshot/1".

It is built from totals alone, so it costs the same with a thousand live allocations as with a million. Bytes are
integers, None is "not known", and later versions only add keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from ttmem.account.allocations import Allocation
from ttmem.account.call_sites import operation_of, stack_of
from ttmem.account.entities import Chip, Process
from ttmem.account.ledger import Ledger
from ttmem.account.live_set import counted_chips
from ttmem.account.totals import Total
from ttmem.documents.chip_memory import memory
from ttmem.documents.unknown_rows import SCHEMA
from ttmem.model.core_sets import format_ranges, ranges_of, split_core_id
from ttmem.model.events import Failed
from ttmem.model.geometry import Region, noc_limits, region_at
from ttmem.model.identity import ProcessInfo
from ttmem.model.kinds import KINDS, Kind
from ttmem.model.stack_frames import line_of
from ttmem.model.uncertain_reasons import listed, meanings_text

if TYPE_CHECKING:
    from ttmem.model import schema

_LABELS = [kind.label for kind in KINDS]

# tt-metal's TensorMemoryLayout.
LAYOUTS = {0: "interleaved", 2: "height_sharded", 3: "width_sharded", 4: "block_sharded", 5: "nd_sharded"}

Physical = Callable[[Chip], "schema.PhysicalL1 | None"]  # the known numbers of a chip's physical L1


class Moment:
    """The account at one moment, in values that no later event changes, so that all parts of an answer agree.

    Capturing it is fast. The large snapshot is built from it later, in any thread.
    """

    def __init__(self, ledger: Ledger, physical: Physical = lambda chip: None) -> None:
        """``physical`` must be cheap; it must not examine every allocation."""
        self._chips = [_chip(chip, physical(chip)) for chip in shown_chips(ledger)]
        self._processes = [_taken(process) for process in (*ledger.processes.values(), *ledger.departed)]
        self._anomalies = anomalies(ledger.anomalies)

    def snapshot(
        self,
        *,
        time: str,
        host: str,
        server: schema.ServerRow | None = None,
        sources: list[schema.SourceState] | None = None,
        user_of: Callable[[int], str | None] = lambda user_id: None,
        may_see: Callable[[int | None], bool] = lambda user_id: True,
    ) -> schema.Snapshot:
        """The snapshot. ``may_see`` decides whose command lines the reader may see."""
        return {
            "schema": SCHEMA,
            "time": time,
            "host": host,
            "server": server,
            "sources": sources or [],
            "driver": None,
            "chips": self._chips,
            "processes": [_process(taken, user_of, may_see) for taken in self._processes],
            "sums": None,
            "anomalies": self._anomalies,
            "notes": [_uncertain_note(taken) for taken in self._processes if taken.uncertain],
        }


def take_snapshot(
    ledger: Ledger,
    *,
    time: str,
    host: str,
    server: schema.ServerRow | None = None,
    sources: list[schema.SourceState] | None = None,
    physical: Physical = lambda chip: None,
    user_of: Callable[[int], str | None] = lambda user_id: None,
    may_see: Callable[[int | None], bool] = lambda user_id: True,
) -> schema.Snapshot:
    """The snapshot of the current moment."""
    return Moment(ledger, physical).snapshot(
        time=time, host=host, server=server, sources=sources, user_of=user_of, may_see=may_see
    )


def anomalies(counts: Mapping[str, int]) -> schema.Anomalies:
    return {
        "unknown_free": counts.get("unknown_free", 0),
        "double_free": counts.get("double_free", 0),
        "ambiguous": counts.get("ambiguous", 0),
        "misrouted": counts.get("misrouted", 0),
        "replaced": counts.get("replaced", 0),
        "rejected": counts.get("rejected", 0),
        "dropped": counts.get("dropped", 0),
        "after_exit": counts.get("after_exit", 0),
        "resynced": counts.get("resynced", 0),
    }


def shown_chips(ledger: Ledger) -> list[Chip]:
    """The chips of the machine, and those that living processes use, each once.

    An assumed chip is shown while a living process uses it: it is a device number of that process, not a chip of the
    machine. While it stands for the machine's chip N, the row of that chip is left out.
    """
    used = {chip for process in ledger.processes.values() for chip in process.numbers.values() if chip.assumed}
    chips = [chip for chip in ledger.chips.values() if not chip.assumed or chip.holdings or chip in used]
    stood_for = {chip.info.kmd for chip in chips if chip.assumed}
    shown = [c for c in chips if c.assumed or c.holdings or c.info.kmd not in stood_for or c.covered]
    return in_order(shown)


def in_order(chips: Iterable[Chip]) -> list[Chip]:
    """By the driver's number; those without one after them, by id."""
    return sorted(chips, key=lambda c: (c.info.kmd is None, c.info.kmd, len(c.id), c.id))


def _chip(chip: Chip, physical: schema.PhysicalL1 | None) -> schema.ChipRow:
    info, geometry = chip.info, chip.geometry
    return {
        "chip": info.id,
        "pci": info.pci,
        "kmd": info.kmd,
        "arch": (geometry.arch.label if geometry else None) if not info.arch else info.arch.label,
        "board": info.board,
        "remote": info.remote,
        "identity": "assumed" if chip.assumed else "known",
        "unique_id": info.id if info.id.isdecimal() else None,
        "joined_by": None,
        "held": None,
        "serial": None,
        "asic_id": None,
        "firmware": {},
        "pcie": None,
        "telemetry": None,
        "shm": None,
        "memory": memory(chip, geometry, physical),
    }


class _ProcessFigures(NamedTuple):
    """A process as it was at one moment."""

    info: ProcessInfo
    seen: float
    exited: float | None
    claimed: list[int]
    allocations: int
    sources: list[schema.ProcessSource]
    numbers: dict[int, Chip]
    shares: list[tuple[str, tuple[int, ...]]]  # for each chip, as in `_used_and_peaks`
    held: list[tuple[Chip, list[int | None]]]  # for each holding and chip, by kind: the bytes, None if not counted
    failed: int
    last_failure: tuple[float, Failed] | None
    uncertain: list[schema.UncertainRow]
    anomalies: schema.Anomalies


def _taken(process: Process) -> _ProcessFigures:
    failures = process.failures
    return _ProcessFigures(
        process.info,
        process.seen,
        process.exited,
        sorted(process.claimed),
        process.count,
        [
            {
                "name": source.name,
                "confidence": source.confidence.label,
                "trouble": source.trouble,
                "unread": source.unread,
                "shed": source.shed,
            }
            for source in process.sources.values()
        ],
        process.numbers.copy(),
        [(chip_id, _used_and_peaks(*share.pools)) for chip_id, share in process.shares.items()],
        [
            (chip, [leaf.used if leaf is not None and chip in leaf.chips else None for leaf in holding.leaves])
            for holding in process.holdings()
            for chip in holding.chips
        ],
        failures.count,
        failures.last[-1] if failures.last else None,
        listed(process.uncertain),
        anomalies(process.anomalies),
    )


def _used_and_peaks(dram: Total, l1: Total, host: Total, system: Total, program: Total) -> tuple[int, ...]:
    """For each pool the bytes, their peak, and the bound of the peak; ``_share`` unpacks them.

    Without a loop for speed, because there is one for each process on each chip.
    """
    return (
        dram.used,
        dram.peak.value,
        dram.peak.bound,
        l1.used + program.used,
        l1.peak.value,
        l1.peak.bound,
        host.used,
        host.peak.value,
        host.peak.bound,
        system.used,
        system.peak.value,
        system.peak.bound,
    )


HIDDEN_TROUBLE = "it cannot track everything; only its owner and root may read the reason"


def _process(
    taken: _ProcessFigures, user_of: Callable[[int], str | None], may_see: Callable[[int | None], bool]
) -> schema.ProcessRow:
    info = taken.info
    seen = may_see(info.user_id)
    numbers: dict[str, list[int]] = {}
    for number, chip in taken.numbers.items():
        numbers.setdefault(chip.id, []).append(number)
    kinds: dict[str, dict[str, int]] = {}
    for chip, sizes in taken.held:
        here = kinds.setdefault(chip.id, {})
        for label, size in zip(_LABELS, sizes):
            if size is not None:
                here[label] = here.get(label, 0) + size
    return {
        "pid": info.pid or None,
        "start": info.start,
        "user_id": info.user_id,
        "user": user_of(info.user_id) if info.user_id is not None else None,
        "name": info.name,
        "command": info.command if seen else None,
        "container": None,
        "job": None,
        "cpu_percent": None,
        "rss": None,
        "state": "tracked" if taken.exited is None else "exited",
        "seen": taken.seen,
        "exited": taken.exited,
        "claimed_pids": taken.claimed,
        "allocations": taken.allocations,
        "sources": taken.sources
        if seen
        else [{**s, "trouble": s["trouble"] and HIDDEN_TROUBLE} for s in taken.sources],
        "holds": [],
        "chips": [
            _share(chip_id, pools, numbers.get(chip_id, []), kinds.get(chip_id, {})) for chip_id, pools in taken.shares
        ],
        "failed": taken.failed,
        "last_failure": _failure(*taken.last_failure) if taken.last_failure is not None and seen else None,
        "uncertain": taken.uncertain,
        "anomalies": taken.anomalies,
    }


def _uncertain_note(taken: _ProcessFigures) -> schema.Note:
    """A note in the form of `documents/notes`."""
    pid = taken.info.pid or None
    who = f"pid {pid or '?'}" + ("" if taken.exited is None else ", which has exited")
    return {
        "what": "uncertain",
        "chip": None,
        "pid": pid,
        "text": f"{who}: its numbers are uncertain; its agent counted {meanings_text(taken.uncertain)}",
    }


def _failure(time: float, event: Failed) -> schema.LastFailure:
    """The message of the last failed allocation, without its backtrace."""
    return {"time": time, "text": event.text, "operation": event.tag, "line": line_of(event.stack)}


def _share(chip_id: str, pools: tuple[int, ...], numbers: list[int], kinds: dict[str, int]) -> schema.ChipShare:
    dram, peak_dram, dram_bound, l1, peak_l1, l1_bound, *others = pools
    host, peak_host, host_bound, system, peak_system, system_bound = others
    return {
        "chip": chip_id,
        "metal_id": min(numbers, default=None),
        "metal_ids": sorted(numbers),
        "dram": dram,
        "peak_dram": peak_dram,
        "peak_dram_at_most": dram_bound if dram_bound > peak_dram else None,
        "l1": l1,
        "peak_l1": peak_l1,
        "peak_l1_at_most": l1_bound if l1_bound > peak_l1 else None,
        "host": host,
        "peak_host": peak_host,
        "peak_host_at_most": host_bound if host_bound > peak_host else None,
        "system": system,
        "peak_system": peak_system,
        "peak_system_at_most": system_bound if system_bound > peak_system else None,
        "kinds": kinds,
        "source": "server",
        "shm": None,
    }


def allocation(
    item: Allocation, chips: tuple[Chip, ...] | None = None, *, of: tuple[Chip, ...] = (), see_tag: bool = True
) -> schema.AllocationRow:
    """The row of one live allocation. ``chips`` are the requested ones of its chips; all if none are given.

    ``of`` are all of its chips at the requested moment; now if none are given.
    """
    holding, extra = item.holding, item.extra
    devices = holding.numbers
    everywhere = of or holding.chips
    others: tuple[Chip, ...] = ()
    if chips is None or chips == everywhere or set(chips) == set(everywhere):
        chips = everywhere
    else:
        devices = tuple(holding.number_on(chip, of) for chip in chips)
        others = tuple(chip for number, chip in zip(holding.numbers, everywhere) if number not in devices)
    counted = counted_chips(item)
    place = core_place(item)
    stack = stack_of(item)
    return {
        "pid": holding.source.process.info.pid or None,
        "chips": [chip.id for chip in chips],
        "other_chips": [chip.id for chip in others],
        "devices": list(devices),
        "kind": item.kind.label,
        "id": hex(item.address),
        "address": item.address,
        "size": item.size,
        "reserved": extra.reserved if extra else None,
        "refs": item.refs,
        "since": item.time,
        "program": item.program or None,
        "cores": format_ranges(ranges_of(extra.cores)) if extra and extra.cores else None,
        "core": None if place is None else {"x": place[0], "y": place[1], "address": place[2], "what": place[3].name},
        "shared": bool(extra and extra.shared),
        "layout": LAYOUTS.get(extra.layout) if extra and extra.layout is not None else None,
        "core_count": (extra.core_count or extra.cores.bit_count() or None) if extra else None,
        "per_core": extra is not None and extra.per_core,
        "tag": extra.tag if extra and see_tag else None,
        "operation": operation_of(item) if see_tag else None,
        "shape": extra.shape if extra and see_tag else None,
        "line": line_of(stack) if see_tag else None,
        "stack": stack.split("\n") if stack and see_tag else None,
        "source": holding.source.name,
        "confidence": holding.source.confidence.label,
        "not_counted": [] if chips is counted else [chip.id for chip in chips if chip not in counted],
    }


def core_place(item: Allocation) -> tuple[int, int, int, Region] | None:
    """For a per-core write: the core, the address on it, and its region."""
    if item.kind not in (Kind.L1, Kind.FIRMWARE, Kind.KERNEL):
        return None
    geometry = item.holding.chip.geometry
    place = split_core_id(item.address, *noc_limits(geometry))
    if place is None:
        return None
    return place.x, place.y, place.address, region_at(geometry, place.address)
