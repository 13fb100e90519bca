# SPDX-License-Identifier: Apache-2.0
"""The snapshot: the account at one moment as a document, schema "ttmem.snapshot/1".

It is built from totals alone, so it costs the same with a thousand live allocations as with a million. Bytes are
integers, None is "not known", and later versions only add keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import chain as join
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple, cast

from ttmem.account.allocations import Allocation, Holding
from ttmem.account.allocator_views import agreements, reporter
from ttmem.account.call_sites import operation_of, stack_of
from ttmem.account.entities import Chip, Process, Source
from ttmem.account.ledger import Ledger
from ttmem.account.live_set import counted_chips
from ttmem.account.totals import Total
from ttmem.account.uncertainty import of_chip
from ttmem.documents.unknown_rows import SCHEMA
from ttmem.model.core_sets import format_ranges, ranges_of, split_core_id
from ttmem.model.events import Failed
from ttmem.model.geometry import Geometry, Region, noc_limits, region_at
from ttmem.model.identity import ProcessInfo
from ttmem.model.kinds import KINDS, WORKER_L1, Confidence, Kind, Pool
from ttmem.model.stack_frames import line_of
from ttmem.model.uncertain_reasons import listed, meanings_text

if TYPE_CHECKING:
    from ttmem.model import schema

_OF_PROGRAMS = (Kind.CB, Kind.DFB, Kind.SCRATCHPAD, Kind.KERNEL)
_BUFFERS = {Pool.DRAM: (Kind.DRAM, Kind.TRACE), Pool.L1: (Kind.L1, Kind.L1_SMALL)}
_RING = attrgetter("ring")
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


def memory(chip: Chip, geometry: Geometry | None, physical: schema.PhysicalL1 | None = None) -> schema.MemoryRow:
    """One chip's memory, pool by pool."""
    used = _used(chip)
    resident = _resident(chip, used)
    at_once = _at_once(chip, used, resident)
    small = chip.kinds[Kind.L1_SMALL]
    dram_pool, l1_pool = chip.pools[Pool.DRAM], chip.pools[Pool.L1]
    basis = None if geometry is None else "live" if geometry.live else "table"
    return {
        "dram": {
            "used": _sum((used[Kind.DRAM], used[Kind.TRACE])),
            "reserved": _reserved(chip, (Kind.DRAM, Kind.TRACE)),
            "capacity": geometry.dram_capacity if geometry else None,
            "capacity_basis": basis,
            "peak": dram_pool.peak.value if used[Kind.DRAM] is not None else None,
            "peak_at_most": _at_most(dram_pool),
            "reserved_peak": _reserved_peak(dram_pool, (dram_pool,)),
            "largest_free": _largest_free(chip, Pool.DRAM),
            "banks": geometry.dram_banks if geometry else None,
            "trace": {
                "used": used[Kind.TRACE],
                "reserved": _reserved(chip, (Kind.TRACE,)),
                "region": geometry.dram_banks * geometry.trace_size if geometry and geometry.live else None,
            },
        },
        "l1": {
            "used": _sum(used[kind] for kind in WORKER_L1),
            "reserved": _reserved(chip, (Kind.L1, Kind.L1_SMALL)),
            "capacity": geometry.l1_capacity if geometry else None,
            "capacity_basis": basis,
            "peak": l1_pool.peak.value if used[Kind.L1] is not None else None,
            "peak_at_most": _at_most(l1_pool),
            "reserved_peak": _reserved_peak(l1_pool, (chip.kinds[kind] for kind in _BUFFERS[Pool.L1])),
            "largest_free": _largest_free(chip, Pool.L1),
            "bank_free": _bank_free(chip, geometry, used[Kind.L1]),
            "banks": geometry.cores if geometry else None,
            "at_once": _sum(at_once.values()),
            "at_once_parts": cast("schema.AtOnceParts", at_once),
            "buffers": used[Kind.L1],
            "small": {
                "used": used[Kind.L1_SMALL],
                "reserved": _reserved(chip, (Kind.L1_SMALL,)),
                "region": geometry.cores * geometry.l1_small_size if geometry and geometry.live else None,
                "peak": small.peak.value if used[Kind.L1_SMALL] is not None else None,
                "peak_at_most": _at_most(small),
            },
            "cb": {"held": used[Kind.CB], "resident": resident[Kind.CB]},
            "dfb": {"held": used[Kind.DFB], "resident": resident[Kind.DFB]},
            "scratchpad": used[Kind.SCRATCHPAD],
            "kernels": used[Kind.KERNEL],
            "scratchpad_resident": resident[Kind.SCRATCHPAD],
            "kernels_resident": resident[Kind.KERNEL],
            "firmware": used[Kind.FIRMWARE],
            "ring": {"used_max": _ring_used(chip), "size": geometry.ring_size if geometry else None},
            "physical": physical or {"used": None, "max_core": None, "headroom_min": None, "age_s": None},
        },
        "system": {
            "fabric_kernels": used[Kind.FABRIC_KERNEL],
            "dispatch_kernels": used[Kind.DISPATCH_KERNEL],
        },
        "host": {"used": used[Kind.HOST]},
        "reporter": reporter(chip),
        "completeness": completeness(chip),
        "uncertain": of_chip(chip),
        "confidence": _confidence(chip),
        "missing": [label for label, size in zip(_LABELS, used) if size is None],
        "unseen": [],
    }


def _used(chip: Chip) -> list[int | None]:
    """Bytes of each kind, None if no source that could see it has reported on this chip."""
    covered = chip.covered
    return [total.used if total.peak.value or kind in covered else None for kind, total in zip(KINDS, chip.kinds)]


def _resident(chip: Chip, used: list[int | None]) -> list[int | None]:
    """For each kind, the bytes of the programs that ran last on their cores (rule 9), None if not known."""
    return [
        None if size is None or kind not in _OF_PROGRAMS else chip.resident_bytes(kind)
        for kind, size in zip(KINDS, used)
    ]


def _at_once(chip: Chip, used: list[int | None], resident: list[int | None]) -> dict[str, int | None]:
    """L1 in use at one time, by kind: buffers as reserved, and resident parts of programs, each where known."""
    sizes = {}
    for kind in WORKER_L1:
        better = _reserved(chip, (kind,)) if kind in _BUFFERS[Pool.L1] else resident[kind]
        sizes[_LABELS[kind]] = used[kind] if better is None else better
    return sizes


def _sum(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _reserved(chip: Chip, kinds: Iterable[Kind]) -> int | None:
    """Reserved bytes; None unless known for every live allocation, or if there never was an allocation."""
    parts = [chip.kinds[kind] for kind in kinds]
    if not any(total.known for total in parts):
        return None
    values = [total.reserved_bytes for total in parts]
    return None if None in values else _sum(values)


def _at_most(total: Total) -> int | None:
    """The highest that a peak can have been; None if the peak is exact."""
    at_most = total.peak.at_most
    return at_most if at_most > total.peak.value else None


def _reserved_peak(total: Total, kinds: Iterable[Total]) -> int | None:
    """The highest reserved bytes; None if less than requested, because then some allocation lacks its reserved size."""
    taken = total.reserved_peak
    if _at_most(total) is not None:
        return None
    return taken if taken and taken >= max(kind.peak.value for kind in kinds) else None


def _largest_free(chip: Chip, pool: Pool) -> int | None:
    """The largest free block in one bank, the smallest of all allocators' reports: ttnn's own measure of what fits.

    None if the number of bytes has changed since the reports.
    """
    kinds = _BUFFERS[pool]
    found = []
    if not any(holding.audits or holding.views for holding in chip.holdings):
        return None
    by_source: dict[Source, list[Holding]] = {}
    for holding in chip.holdings:
        by_source.setdefault(holding.source, []).append(holding)
    for holdings in by_source.values():
        # An allocator gives out memory on its mesh and on parts of it, so only the sums can be compared.
        audits = [audit for holding in holdings for audit in holding.audits.values() if audit.banks[pool]]
        if audits:
            leaves = (holding.leaves[kind] for holding in holdings for kind in kinds)
            now = sum(leaf.reserved for leaf in leaves if leaf is not None)
            if now != sum(audit.ours[pool] * audit.banks[pool] for audit in audits):
                return None
            found += [audit.largest_free[pool] for audit in audits]
        views = (view for holding in holdings for view in holding.views.values())
        found += [view.largest_free for view in views if view.kind is kinds[0]]
    return min(found, default=None)


def _bank_free(chip: Chip, geometry: Geometry | None, used: int | None) -> int | None:
    """L1 that is free in one bank, in any number of pieces; known if the runtime reported the sizes of its regions."""
    taken = chip.kinds[Kind.L1].reserved_bytes
    if geometry is None or not geometry.live or taken is None or used is None:
        return None
    if any(holding.per_core for holding in chip.holdings):  # the free bytes differ between banks
        return None
    return max(0, geometry.l1_size - geometry.l1_base - geometry.l1_small_size - taken // geometry.cores)


def completeness(chip: Chip) -> float | None:
    """Tracked bytes divided by the bytes that the allocators report; None without a report.

    None also if everything seems to be tracked but an agent counted a problem that makes this uncertain.
    """
    found = agreements(chip)
    both, either = (sum(column) for column in zip(*found)) if found else (0, 0)
    share = None if not found else both / either if either else 1.0
    return None if share == 1.0 and of_chip(chip) else share


def _ring_used(chip: Chip) -> int | None:
    """The most bytes that a program of this chip needs in a core's kernel ring."""
    rings = join.from_iterable(map(_RING, holding.programs.values()) for holding in chip.holdings if holding.programs)
    return max((ring for ring in rings if ring is not None), default=None)


def _confidence(chip: Chip) -> schema.ConfidenceBytes:
    """The bytes that count, by confidence."""
    found = [0] * (max(Confidence) + 1)
    for holding in chip.holdings:
        for leaf in filter(None, holding.leaves):
            if chip in leaf.chips:
                found[holding.source.confidence] += leaf.used
    return {
        "exact": found[Confidence.EXACT],
        "reported": found[Confidence.REPORTED],
        "estimated": found[Confidence.ESTIMATED],
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
    shares: list[tuple[str, tuple[int, ...]]]  # for each chip: the bytes of each pool and their peak
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
    """In the order of ``_share``; without a loop for speed, because there is one for each process on each chip."""
    return (
        dram.used,
        dram.peak.value,
        l1.used + program.used,
        l1.peak.value,
        host.used,
        host.peak.value,
        system.used,
        system.peak.value,
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
    dram, peak_dram, l1, peak_l1, host, peak_host, system, peak_system = pools
    return {
        "chip": chip_id,
        "metal_id": min(numbers, default=None),
        "metal_ids": sorted(numbers),
        "dram": dram,
        "peak_dram": peak_dram,
        "l1": l1,
        "peak_l1": peak_l1,
        "host": host,
        "peak_host": peak_host,
        "system": system,
        "peak_system": peak_system,
        "kinds": kinds,
        "source": "server",
        "shm": None,
    }


def allocation(
    item: Allocation, chips: tuple[Chip, ...] | None = None, *, see_tag: bool = True
) -> schema.AllocationRow:
    """The row of one live allocation. ``chips`` are the requested ones of its chips; all if none are given."""
    holding, extra = item.holding, item.extra
    devices = holding.numbers
    others: tuple[Chip, ...] = ()
    if chips is None or chips == holding.chips or set(chips) == set(holding.chips):
        chips = holding.chips
    else:
        devices = tuple(holding.number_on(chip) for chip in chips)
        others = tuple(chip for number, chip in zip(holding.numbers, holding.chips) if number not in devices)
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
