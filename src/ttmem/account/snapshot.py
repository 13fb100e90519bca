# SPDX-License-Identifier: Apache-2.0
"""The snapshot: one picture of the whole account as plain data, schema "ttmem.snapshot/1".

It is built from totals alone, so it costs the same with a thousand live things as with a million. Bytes are
integers, None is "not known", and keys are only ever added.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain as join
from operator import attrgetter
from typing import Any

from ttmem.account.blank import ANOMALIES, SCHEMA, UNSEEN
from ttmem.account.geometry import Geometry, Region, noc_limits, region_at
from ttmem.account.grid import format_ranges, ranges_of, split_core_id
from ttmem.account.kinds import KINDS, POOL_OF, Confidence, Kind, Pool
from ttmem.account.ledger import Ledger
from ttmem.account.parties import Chip, Process, Share
from ttmem.account.sites import line_of, stack_of
from ttmem.account.things import Thing
from ttmem.account.totals import NOT_YET, Peak, Total, keep_largest
from ttmem.account.views import agreements, reporter

_OF_PROGRAMS = (Kind.CB, Kind.DFB, Kind.SCRATCHPAD, Kind.KERNEL)
_RING = attrgetter("ring")
_POOL_KEYS = [(pool.label, f"peak_{pool.label}") for pool in Pool]
_LABELS = [kind.label for kind in KINDS]
_KINDS_OF = {pool: [kind for kind in KINDS if POOL_OF[kind] is pool] for pool in Pool}

# tt-metal's TensorMemoryLayout.
LAYOUTS = {0: "interleaved", 2: "height_sharded", 3: "width_sharded", 4: "block_sharded", 5: "nd_sharded"}

Json = dict[str, Any]


def snapshot(
    ledger: Ledger,
    *,
    time: str,
    host: str,
    server: Json | None = None,
    sources: list[Json] | None = None,
    user_of: Callable[[int], str | None] = lambda uid: None,
    may_see: Callable[[int | None], bool] = lambda uid: True,
    physical: Callable[[Chip], Json | None] = lambda chip: None,
) -> Json:
    """The account now. ``may_see`` says whose command lines the reader may be shown.

    ``physical`` gives what is known already of a chip's physical L1: to find it takes a look at every live thing.
    """
    processes = [_process(p, user_of, may_see) for p in (*ledger.processes.values(), *ledger.departed)]
    return {
        "schema": SCHEMA,
        "time": time,
        "host": host,
        "server": server,
        "sources": sources or [],
        "driver": None,
        "chips": [_chip(chip, physical(chip)) for chip in shown_chips(ledger)],
        "processes": processes,
        "sums": None,
        "anomalies": anomalies(ledger.anomalies),
        "notes": [],
    }


def anomalies(counts: dict[str, int]) -> dict[str, int]:
    return {name: counts.get(name, 0) for name in ANOMALIES}


def shown_chips(ledger: Ledger) -> list[Chip]:
    """Every chip once: while somebody's "device N" is taken for machine chip N, that row stands for both."""
    stood_for = {chip.info.kmd for chip in ledger.chips.values() if chip.assumed}
    shown = [c for c in ledger.chips.values() if c.assumed or c.holdings or c.info.kmd not in stood_for or c.covered]
    return sorted(shown, key=lambda c: (c.info.kmd is None, c.info.kmd, len(c.uid), c.uid))


def _used(chip: Chip, kind: Kind) -> int | None:
    """Bytes of a kind, None if no source that could see it has reported on this chip."""
    total = chip.kinds[kind]
    return total.used if kind in chip.covered or total.peak.value else None


def _sum(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _reserved(chip: Chip, kinds: Iterable[Kind]) -> int | None:
    """What the allocator took; None unless it is known of every live thing, or if there never was any."""
    parts = [chip.kinds[kind] for kind in kinds]
    if not any(total.known for total in parts):
        return None
    values = [total.reserved_bytes for total in parts]
    return None if None in values else _sum(values)


def _largest_free(chip: Chip, pool: int) -> int | None:
    """The largest block in one bank, by the tightest allocator that was asked; ttnn's own measure of what fits."""
    kind = (Kind.DRAM, Kind.L1)[pool]
    found = [a.largest_free[pool] for h in chip.holdings for a in h.audits.values() if a.banks[pool]]
    found += [view.largest_free for h in chip.holdings for view in h.views.values() if view.kind is kind]
    return min(found, default=None)


def completeness(chip: Chip) -> float | None:
    """What is tracked, by what the allocators themselves say is allocated; None if none was asked."""
    found = agreements(chip)
    both, either = (sum(column) for column in zip(*found)) if found else (0, 0)
    return None if not found else both / either if either else 1.0


def _ring_used(chip: Chip) -> int | None:
    """The most that a program of this chip needs of a core's kernel ring."""
    rings = join.from_iterable(map(_RING, holding.programs.values()) for holding in chip.holdings)
    return max((ring for ring in rings if ring is not None), default=None)


def _at_once(used: dict[Kind, int | None], resident: dict[Kind, int | None]) -> int | None:
    """L1 in use at one time: of the parts of all cached programs only the resident ones, where that is known."""
    known = {kind: size for kind, size in used.items() if size is not None and POOL_OF[kind] is Pool.L1}
    if not known:
        return None
    known.update({kind: size for kind, size in resident.items() if size is not None})
    return sum(known.values())


def _chip(chip: Chip, physical: Json | None) -> Json:
    info, geometry = chip.info, chip.geometry
    return {
        "uid": info.uid,
        "pci": info.pci,
        "kmd": info.kmd,
        "arch": (geometry.arch.label if geometry else None) if not info.arch else info.arch.label,
        "board": info.board,
        "remote": info.remote,
        "identity": "assumed" if chip.assumed else "known",
        **UNSEEN,
        "unique_id": info.uid if info.uid.isdecimal() else None,
        "memory": memory(chip, geometry, physical),
    }


def memory(chip: Chip, geometry: Geometry | None, physical: Json | None = None) -> Json:
    """One chip's memory, pool by pool."""
    used = {kind: _used(chip, kind) for kind in KINDS}
    # Of the programs that ran last on their cores (rule 9).
    resident = {kind: None if used[kind] is None else chip.resident_bytes(kind) for kind in _OF_PROGRAMS}
    small = chip.kinds[Kind.L1_SMALL]
    dram_pool, l1_pool = chip.pools[Pool.DRAM], chip.pools[Pool.L1]
    confidence = dict.fromkeys((c.label for c in reversed(Confidence)), 0)
    for holding in chip.holdings:
        counted = [leaf.used for leaf in filter(None, holding.leaves) if leaf.counts]
        if counted:
            confidence[holding.source.confidence.label] += sum(counted)
    basis = None if geometry is None else "live" if geometry.live else "table"
    return {
        "dram": {
            "used": _sum((used[Kind.DRAM], used[Kind.TRACE])),
            "reserved": _reserved(chip, (Kind.DRAM, Kind.TRACE)),
            "capacity": geometry.dram_capacity if geometry else None,
            "capacity_basis": basis,
            "peak": dram_pool.peak.value if used[Kind.DRAM] is not None else None,
            "largest_free": _largest_free(chip, 0),
            "banks": geometry.dram_banks if geometry else None,
            "trace": {
                "used": used[Kind.TRACE],
                "reserved": _reserved(chip, (Kind.TRACE,)),
                "region": geometry.dram_banks * geometry.trace_size if geometry and geometry.live else None,
            },
        },
        "l1": {
            "used": _sum(used[kind] for kind in _KINDS_OF[Pool.L1]),
            "reserved": _reserved(chip, (Kind.L1, Kind.L1_SMALL)),
            "capacity": geometry.l1_capacity if geometry else None,
            "capacity_basis": basis,
            "peak": l1_pool.peak.value if used[Kind.L1] is not None else None,
            "largest_free": _largest_free(chip, 1),
            "banks": geometry.cores if geometry else None,
            "at_once": _at_once(used, resident),
            "buffers": used[Kind.L1],
            "small": {
                "used": used[Kind.L1_SMALL],
                "reserved": _reserved(chip, (Kind.L1_SMALL,)),
                "region": geometry.cores * geometry.l1_small_size if geometry and geometry.live else None,
                "peak": small.peak.value if used[Kind.L1_SMALL] is not None else None,
            },
            "cb": {"held": used[Kind.CB], "resident": resident[Kind.CB]},
            "dfb": {"held": used[Kind.DFB], "resident": resident[Kind.DFB]},
            "scratchpad": used[Kind.SCRATCHPAD],
            "kernels": used[Kind.KERNEL],
            "scratchpad_resident": resident[Kind.SCRATCHPAD],
            "kernels_resident": resident[Kind.KERNEL],
            "firmware": used[Kind.FIRMWARE],
            "ring": {"used_max": _ring_used(chip), "size": geometry.ring_size if geometry else None},
            "physical": physical or dict.fromkeys(("used", "max_core", "headroom_min", "age_s")),
        },
        "system": {
            "fabric_kernels": used[Kind.FABRIC_KERNEL],
            "dispatch_kernels": used[Kind.DISPATCH_KERNEL],
        },
        "host": {"used": used[Kind.HOST]},
        "reporter": reporter(chip),
        "completeness": completeness(chip),
        "confidence": confidence,
        "missing": [kind.label for kind in KINDS if used[kind] is None],
        "unseen": [],
    }


def _process(process: Process, user_of: Callable[[int], str | None], may_see: Callable[[int | None], bool]) -> Json:
    info = process.info
    seen = may_see(info.uid)
    numbers: dict[str, list[int]] = {}
    for number, chip in process.numbers.items():
        numbers.setdefault(chip.uid, []).append(number)
    kinds: dict[Chip, dict[str, int]] = {}
    for holding in process.holdings():
        here = kinds.setdefault(holding.chip, {})
        for label, leaf in zip(_LABELS, holding.leaves):
            if leaf is not None and leaf.counts:
                here[label] = here.get(label, 0) + leaf.used
    return {
        "pid": info.pid or None,
        "start": info.start,
        "uid": info.uid,
        "user": user_of(info.uid) if info.uid is not None else None,
        "name": info.name,
        "command": info.command if seen else None,
        "container": None,
        "job": None,
        "state": "tracked" if process.exited is None else "exited",
        "seen": process.seen,
        "exited": process.exited,
        "claimed_pids": sorted(process.claimed),
        "things": process.count,
        "sources": [
            {"name": s.name, "confidence": s.confidence.label, "trouble": s.trouble} for s in process.sources.values()
        ],
        "holds": [],
        "chips": [
            _share(uid, share, numbers.get(uid, []), kinds.get(share.chip, {})) for uid, share in process.shares.items()
        ],
        "failed": process.failures.count,
        "last_failure": _last_failure(process) if seen else None,
        "anomalies": anomalies(process.anomalies),
    }


def _last_failure(process: Process) -> Json | None:
    """What the runtime said when it last refused memory; the backtrace is not part of it."""
    if not process.failures.last:
        return None
    time, event = process.failures.last[-1]
    return {"time": time, "text": event.text, "operation": event.tag, "line": line_of(event.stack)}


def _share(uid: str, share: Share, numbers: list[int], kinds: dict[str, int]) -> Json:
    out: Json = {"uid": uid, "metal_id": min(numbers, default=None), "metal_ids": sorted(numbers)}
    for (used, peak), total in zip(_POOL_KEYS, share.pools):
        out[used] = total.used
        out[peak] = total.peak.value
    out["kinds"], out["source"], out["shm"] = kinds, "server", None
    return out


def thing(item: Thing, *, see_tag: bool = True) -> Json:
    """One live thing as data."""
    holding, extra = item.holding, item.extra
    place = core_place(item)
    stack = stack_of(item)
    return {
        "pid": holding.source.process.info.pid or None,
        "chip": holding.chip.uid,
        "device": holding.number,
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
        "core_count": (extra.core_count or None) if extra else None,
        "tag": extra.tag if extra and see_tag else None,
        "shape": extra.shape if extra and see_tag else None,
        "line": line_of(stack) if see_tag else None,
        "stack": stack.split("\n") if stack and see_tag else None,
        "source": holding.source.name,
        "confidence": holding.source.confidence.label,
        "counted": counts(item),
    }


def counts(item: Thing) -> bool:
    """Is it part of the chip's totals? Not if a stronger source reports the same (rule 12), nor amid a resync."""
    leaf = item.holding.leaves[item.kind]
    return leaf is not None and leaf.counts and item.born != NOT_YET


def core_place(item: Thing) -> tuple[int, int, int, Region] | None:
    """For a per-core write: the core, the address on it, and what lies there."""
    if item.kind not in (Kind.L1, Kind.FIRMWARE, Kind.KERNEL):
        return None
    geometry = item.holding.chip.geometry
    place = split_core_id(item.address, *noc_limits(geometry))
    if place is None:
        return None
    return place.x, place.y, place.address, region_at(geometry, place.address)


class PeakFinder:
    """Finds what was live at each peak in one pass over the live things, which may be made in slices.

    The peaks are those of the chips, or those of one process on its chips, alive or departed.
    """

    def __init__(self, ledger: Ledger, *, recent: bool = False, process: Process | None = None) -> None:
        self._process = process
        self._corners: list[tuple[Json, Peak, list[tuple[int, int, Thing]]]] = []
        self._by_kind: dict[tuple[str, Kind], list[tuple[Peak, list[tuple[int, int, Thing]]]]] = {}
        if process is not None:
            self._look_at_process(process, recent)
            return
        for chip in shown_chips(ledger):
            for pool in Pool:
                self._corner(chip, {"pool": pool.label}, chip.pools[pool], _KINDS_OF[pool], recent)
            for kind in KINDS:
                self._corner(chip, {"kind": kind.label}, chip.kinds[kind], [kind], recent)

    def _look_at_process(self, process: Process, recent: bool) -> None:
        for share in process.shares.values():
            for pool in Pool:
                self._corner(share.chip, {"pool": pool.label}, share.pools[pool], _KINDS_OF[pool], recent)
        for holding in process.holdings():
            for kind, leaf in zip(KINDS, holding.leaves):
                if leaf is not None and leaf.counts:
                    name = {"kind": kind.label, "device": holding.number}
                    self._corner(holding.chip, name, leaf, [kind], recent)

    def _corner(self, chip: Chip, name: Json, total: Total, kinds: list[Kind], recent: bool) -> None:
        peak = total.recent if recent else total.peak
        if peak.value:
            heap: list[tuple[int, int, Thing]] = []
            self._corners.append(({"chip": chip.uid, **name}, peak, heap))
            for kind in kinds:
                self._by_kind.setdefault((chip.uid, kind), []).append((peak, heap))

    def add(self, item: Thing) -> None:
        """Look at one live thing."""
        if counts(item) and self._process in (None, item.holding.source.process):
            for peak, heap in self._by_kind.get((item.holding.chip.uid, item.kind), ()):
                if item.born <= peak.seq:
                    keep_largest(heap, item)

    def results(self, may_see: Callable[[int | None], bool] = lambda uid: True) -> Iterator[Json]:
        """Each peak: bytes, time, and the largest things of it."""
        for name, peak, heap in self._corners:
            largest = [
                thing(item, see_tag=may_see(item.holding.source.process.info.uid))
                for item in peak.largest(item for _, _, item in heap)
            ]
            yield {**name, "bytes": peak.value, "time": peak.time, "largest": largest}


def peaks(ledger: Ledger, *, recent: bool = False) -> list[Json]:
    """The peak of each pool and kind of each chip, with the largest things live then."""
    finder = PeakFinder(ledger, recent=recent)
    for item in ledger.things():
        finder.add(item)
    return [*finder.results()]
