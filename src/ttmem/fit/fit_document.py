# SPDX-License-Identifier: Apache-2.0
"""The answer of `ttmem fit` as a document, schema "ttmem.fit/1"."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from ttmem.fit.fit_listener import FitSizes
from ttmem.fit.fit_verdict import exit_code, programs_tracked, verdict_on
from ttmem.fit.mock_environment import settings_for
from ttmem.fit.mock_run import AllocatorUse, MockRun, RunOptions
from ttmem.fit.varied import Varied
from ttmem.model.geometry import Geometry
from ttmem.model.kinds import Kind
from ttmem.model.stack_frames import line_of
from ttmem.wire.agent_ring import Cause

if TYPE_CHECKING:
    from ttmem.model import schema

SCHEMA: Final = "ttmem.fit/1"
_TILE_BYTES = 2048  # of bfloat16
_DRAM, _L1 = int(Kind.DRAM), int(Kind.L1)
_NOTES = {
    "validation": "the validation of Metal 2.0 was skipped: it is wrong on mock devices that dispatch from ethernet "
    "cores (tt-metal#54475)",
    "weights": "--fake-weights: large tensors were not turned into tiles on the host; their values are zero",
    "device": "the command tried to open /dev/tenstorrent, which was refused",
}
_NO_QUEUES = (
    "this ttnn runs on mock devices without command queues only, so that no cores are reserved for dispatch and L1 has "
    "more banks than on hardware"
)
_NOTHING_FAKED = "--fake-weights had no effect: ttnn turned no large tensor into tiles on the host"


def fit_document(
    command: Sequence[str],
    options: RunOptions,
    boards: Sequence[schema.FitBoard],
    borders: Sequence[schema.FitBorder] = (),
    varied: Sequence[Varied] = (),
    *,
    anywhere: bool = False,
) -> schema.Fit:
    """The document. Boards are in the order in which they were run, the smallest machine first with --board all.

    ``anywhere``: it is enough that the command fits on one of them.
    """
    if borders:  # the values above a border need not fit
        machines = [border["board"] for border in borders]
        failing = {border["board"] for border in borders if border["largest"] is None}
        code = exit_code(boards) if failing else 0
    else:
        machines = [board["board"] for board in boards]
        failing = {board["board"] for board in boards if board["verdict"] != "fits"}
        code = exit_code(boards)
    smallest = next((machine for machine in machines if machine not in failing), None)
    return {
        "schema": SCHEMA,
        "command": list(command),
        "ttnn": {
            "python": options.ttnn.python,
            "version": options.ttnn.version,
            "root": str(options.ttnn.root),
        },
        "real_kernels": options.real_kernels,
        "fake_weights": options.fake_weights,
        "varied": [_varied_row(one) for one in varied],
        "boards": list(boards),
        "borders": list(borders),
        "smallest": smallest,
        "exit_code": 0 if anywhere and smallest is not None else code,
    }


def _varied_row(one: Varied) -> schema.FitVaried:
    """The values of a range are not listed."""
    return {
        "name": one.name,
        "searched": one.searched,
        "values": [] if one.searched else list(one.values),
        "first": min(one.values),
        "last": max(one.values),
    }


def board_row(run: MockRun, values: Mapping[str, int], options: RunOptions) -> schema.FitBoard:
    """The answer for one machine. ``values`` are those of --vary."""
    document = run.result.document
    dram = _dram(run.allocators)
    unknown = _unknown(run, options.real_kernels)
    verdict = verdict_on(run, dram, unknown)
    failures = document["failures"]
    numbers = {number for use in run.allocators for number in use.sizes.numbers}
    words = {what for what, _ in run.reported}
    notes = [text for what, text in _NOTES.items() if what in words]
    if settings_for(options.ttnn.version).get("TT_METAL_SLOW_DISPATCH_MODE"):
        notes.append(_NO_QUEUES)
    if options.fake_weights and "weights" not in words:
        notes.append(_NOTHING_FAKED)
    return {
        "board": run.machine.name,
        "values": {name: str(value) for name, value in values.items()},
        "verdict": verdict.verdict,
        "reason": verdict.reason,
        "command_exit_code": run.result.exit_code,
        "duration_s": document["duration_s"],
        "stopped": run.stopped,
        "chips": len(numbers),
        "failures": document["failed"],
        "failure": _failure(failures[0]["verdict"]) if failures else None,
        "dram": dram,
        "phases": _phases(run.allocators),
        "kv": kv_row(dram, unknown, options.bytes_per_token),
        "l1": _l1(run.allocators),
        "l1_small": _l1_small(run.allocators),
        "trace": _trace(run),
        "programs": max((use.sizes.programs for use in run.allocators), default=0) if programs_tracked(run) else None,
        "kernel_ring": _kernel_ring(run) if options.real_kernels else None,
        "unknown": unknown,
        "notes": [*notes, *run.warnings],
        "output": run.output if verdict.verdict == "unknown" else [],
    }


def _failure(verdict: schema.VerdictRow) -> schema.FitFailure:
    return {
        "headline": verdict["headline"],
        "held_by": verdict["held_by"],
        "operation": verdict["operation"],
        "line": verdict["line"],
    }


def _dram(allocators: Sequence[AllocatorUse]) -> schema.FitDram | None:
    """The DRAM of the allocator whose largest free block became smallest."""
    found = [(use.sizes.banks[_DRAM], use.sizes.geometry) for use in allocators if _DRAM in use.sizes.banks]
    rows: list[schema.FitDram] = [
        {
            "banks": geometry.dram_banks,
            "bank_size": bank.size,
            "peak": bank.peak,
            "largest_free_min": bank.least_largest,
        }
        for bank, geometry in found
        if geometry is not None
    ]
    return min(rows, key=lambda row: row["largest_free_min"], default=None)


def _phases(allocators: Sequence[AllocatorUse]) -> list[schema.FitPhase]:
    """The DRAM of each phase, of the allocator that came closest to its limit in it."""
    found: dict[str, schema.FitPhase] = {}
    for use in allocators:
        for path, phase in use.sizes.phases.items():
            row: schema.FitPhase = {"phase": path, "peak": phase.peak, "largest_free_min": phase.least_largest}
            if path not in found or row["largest_free_min"] < found[path]["largest_free_min"]:
                found[path] = row
    return list(found.values())


def kv_row(
    dram: schema.FitDram | None, unknown: Sequence[schema.FitUnknown], bytes_per_token: int | None
) -> schema.FitKv | None:
    """The KV cache that would fit beside the rest: one tensor in the largest free block at its smallest.

    Room for what is unknown is left.
    """
    if dram is None or bytes_per_token is None:
        return None
    free = dram["largest_free_min"] - sum(row["bound"] or 0 for row in unknown)
    in_bytes = max(0, free // _TILE_BYTES) * _TILE_BYTES * dram["banks"]
    return {"bytes_per_token": bytes_per_token, "bytes": in_bytes, "tokens": in_bytes // bytes_per_token}


def _l1(allocators: Sequence[AllocatorUse]) -> schema.FitL1 | None:
    """The L1 of the allocator with the least headroom."""
    rows = [_l1_row(use) for use in allocators if _DRAM in use.sizes.banks]
    return min(rows, key=lambda row: (row["headroom"] is None, row["headroom"]), default=None)


def _l1_row(use: AllocatorUse) -> schema.FitL1:
    sizes = use.sizes
    bank = sizes.banks.get(_L1)
    cause: Cause | None = None
    headroom: int | None = None
    limited_by: str | None = None
    if sizes.least is not None:
        cause, headroom = use.tightest, sizes.least.room
        limited_by = f"an L1 buffer of {use.holder.tag}" if use.holder and use.holder.tag else "an L1 buffer"
    if sizes.room_below_end is not None and (headroom is None or sizes.room_below_end[0] < headroom):
        cause, headroom, limited_by = use.lowest, sizes.room_below_end[0], "the end of L1"
    return {
        "bank_size": _bank_size(sizes),
        "buffers_peak": None if bank is None else bank.peak,
        "reserved_peak": sizes.l1_reserved_peak,
        "largest_free_min": None if bank is None else bank.least_largest,
        "headroom": headroom,
        "operation": None if cause is None else cause.tag,
        "line": None if cause is None else line_of(cause.stack),
        "limited_by": limited_by,
    }


def _bank_size(sizes: FitSizes) -> int:
    geometry = sizes.geometry
    return 0 if geometry is None else sizes.l1_end - geometry.l1_base


def _l1_small(allocators: Sequence[AllocatorUse]) -> schema.FitRegion | None:
    rows: list[schema.FitRegion] = []
    for use in allocators:
        geometry = use.sizes.geometry
        if geometry is not None and _DRAM in use.sizes.banks:
            lowest = use.sizes.lowest_small
            needed = 0 if lowest is None else geometry.l1_size - lowest
            rows.append({"declared": geometry.l1_small_size, "needed": needed})
    return max(rows, key=lambda row: (row["needed"], row["declared"]), default=None)


def _trace(run: MockRun) -> schema.FitTrace | None:
    geometry = _geometry(run)
    if geometry is None:
        return None
    launches = [number for what, number in run.reported if what == "trace"]
    return {"declared": geometry.trace_size, "captured": len(launches), "launches": sum(launches)}


def _kernel_ring(run: MockRun) -> schema.FitRing | None:
    """Only of kernels that were compiled: the sizes of others are not real."""
    rows: list[schema.FitRing] = [
        {
            "size": use.sizes.geometry.ring_size,
            "needed": use.sizes.ring[0],
            "operation": None if use.ring is None else use.ring.tag,
        }
        for use in run.allocators
        if use.sizes.geometry is not None and use.sizes.programs
    ]
    return max(rows, key=lambda row: row["needed"], default=None)


def _geometry(run: MockRun) -> Geometry | None:
    """The geometry of the devices; with several, that of the one with the largest trace region."""
    found = [use.sizes.geometry for use in run.allocators if use.sizes.geometry and _DRAM in use.sizes.banks]
    return max(found, key=lambda geometry: geometry.trace_size, default=None)


def _unknown(run: MockRun, real_kernels: bool) -> list[schema.FitUnknown]:
    """What mock devices do not show. Bounds are of one DRAM bank."""
    geometry = _geometry(run)
    if geometry is None:
        return []
    rows: list[schema.FitUnknown] = [
        {"what": "not tracked", "text": trouble, "bound": None} for trouble in run.result.document["trouble"]
    ]
    if any(use.sizes.programs for use in run.allocators):
        rows.append(
            {
                "what": "kernel binaries",
                "text": "kernels are not copied to DRAM on mock devices; each has at most the size of the kernel ring",
                "bound": -(-_kernels(run) * geometry.ring_size // geometry.dram_banks),
            }
        )
        if not real_kernels:
            rows.append(
                {
                    "what": "kernel ring",
                    "text": "kernels were not compiled, so whether those of a program fit into the kernel ring is not "
                    "known; --real-kernels compiles them",
                    "bound": None,
                }
            )
    launches = sum(number for what, number in run.reported if what == "trace")
    if launches:
        dynamic = geometry.trace_size == 0
        per_launch = geometry.cores * geometry.ring_size
        rows.append(
            {
                "what": "traces",
                "text": "traces are not written on mock devices; each launch has at most the size of the kernel rings "
                "of all cores, which is reasoned and was not compared with a real trace"
                if dynamic
                else "traces are not written on mock devices; whether they fit into the declared region is not known",
                "bound": -(-launches * per_launch // geometry.dram_banks) if dynamic else None,
            }
        )
    return rows


def _kernels(run: MockRun) -> int:
    """Kernels of the programs that were cached at the end, on the chip that had most."""
    counts: dict[str, int] = {}
    for row in run.result.document["left"]:
        if row["kind"] == Kind.KERNEL.label:
            for chip in row["chips"]:
                counts[chip] = counts.get(chip, 0) + 1
    return max(counts.values(), default=0)
