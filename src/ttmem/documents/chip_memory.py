# SPDX-License-Identifier: Apache-2.0
"""The memory of one chip as a row of a snapshot, pool by pool, from the totals of the account."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain as join
from operator import attrgetter
from typing import TYPE_CHECKING, cast

from ttmem.account.allocations import Holding
from ttmem.account.allocator_views import agreements, reporter
from ttmem.account.entities import Chip, Source
from ttmem.account.totals import Total
from ttmem.account.uncertainty import of_chip
from ttmem.model.geometry import Geometry
from ttmem.model.kinds import KINDS, WORKER_L1, Confidence, Kind, Pool

if TYPE_CHECKING:
    from ttmem.model import schema

_OF_PROGRAMS = (Kind.CB, Kind.DFB, Kind.SCRATCHPAD, Kind.KERNEL)
_BUFFERS = {Pool.DRAM: (Kind.DRAM, Kind.TRACE), Pool.L1: (Kind.L1, Kind.L1_SMALL)}
_RING = attrgetter("ring")
_LABELS = [kind.label for kind in KINDS]


def memory(chip: Chip, geometry: Geometry | None, physical: schema.PhysicalL1 | None = None) -> schema.MemoryRow:
    """One chip's memory, pool by pool."""
    used = _used(chip)
    resident = _resident(chip, used)
    parts = _at_once(chip, used, resident)
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
            "peak_at_most": dram_pool.peak.limit,
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
            "peak_at_most": l1_pool.peak.limit,
            "reserved_peak": _reserved_peak(l1_pool, (chip.kinds[kind] for kind in _BUFFERS[Pool.L1])),
            "largest_free": _largest_free(chip, Pool.L1),
            "bank_free": _bank_free(chip, geometry, used[Kind.L1]),
            "banks": geometry.cores if geometry else None,
            "at_once": _sum(parts.values()),
            "at_once_parts": cast("schema.AtOnceParts", parts),
            "buffers": used[Kind.L1],
            "small": {
                "used": used[Kind.L1_SMALL],
                "reserved": _reserved(chip, (Kind.L1_SMALL,)),
                "region": geometry.cores * geometry.l1_small_size if geometry and geometry.live else None,
                "peak": small.peak.value if used[Kind.L1_SMALL] is not None else None,
                "peak_at_most": small.peak.limit,
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


def at_once(chip: Chip) -> int | None:
    """L1 in use at one time, as in the row; without what takes long if the chip is part of many meshes."""
    used = _used(chip)
    return _sum(_at_once(chip, used, _resident(chip, used)).values())


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


def _reserved_peak(total: Total, kinds: Iterable[Total]) -> int | None:
    """The highest reserved bytes; None if only a lower limit of it is known.

    If it is less than requested, some allocation lacks its reserved size.
    """
    taken = total.reserved_peak
    if not total.reserved_peak_exact:
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
