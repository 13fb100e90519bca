# SPDX-License-Identifier: Apache-2.0
"""Checks of the server's snapshot: silent clients, lost events, suspiciously small amounts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ttmem.doctor.context import DoctorContext
from ttmem.doctor.findings import Message, count, ok, some, unknown, warning
from ttmem.documents.notes import name_of
from ttmem.documents.pool_amounts import sizes_text
from ttmem.model.uncertain_reasons import meanings_text
from ttmem.model.units import complete, human

if TYPE_CHECKING:
    from ttmem.model.schema import Allocations, ChipRow, MemoryRow, ProcessRow

_PROCESSES, _SNAPSHOT = "the server's list of processes", "the server's snapshot"
_ALLOCATIONS_LISTED = 200  # allocations to examine, the largest first
_LITTLE_L1_BYTES = 1 << 20  # of L1 on a chip: any operation uses more
_LITTLE_L1_RATIO = 100
_SMALL_ALLOCATION_BYTES = 1 << 20  # an allocation


def _tracked(context: DoctorContext) -> list[ProcessRow] | None:
    """The processes that report; None without a server."""
    if context.snapshot is None:
        return None
    return [process for process in context.snapshot["processes"] if process["state"] == "tracked"]


def _nobody(context: DoctorContext, route: str) -> Message:
    return unknown(route, "no server" if context.server is None else "the server did not answer in time")


def _name(process: ProcessRow) -> str:
    return f"pid {process['pid'] or '?'} ({process['name'] or '?'})"


def silent_clients(context: DoctorContext) -> Iterator[Message]:
    """Processes that are connected and have not reported anything."""
    tracked = _tracked(context)
    if tracked is None or context.server is None or context.server.health is None:
        yield _nobody(context, _PROCESSES)
        return
    silent = [process for process in tracked if not process["allocations"] and not process["chips"]]
    clients = context.server.health["clients"]
    for process in silent:
        sources = some([source["name"] for source in process["sources"]]) or "none"
        yield warning(
            _PROCESSES, f"{_name(process)} is connected (source: {sources}), but has reported nothing",
            "it has not opened a device yet, or its hooks are not called (RTLD_DEEPBIND, a static build): see `hooks`",
        )  # fmt: skip
    if clients and not tracked:
        yield warning(
            "/health", f"{count(clients, 'connection is', 'connections are')} open, but none has sent anything",
            "normal for programs that only query; a workload must report: see `untracked` and `tracking-variable`",
        )  # fmt: skip
    elif not silent:
        spare = clients - sum(len(process["sources"]) for process in tracked)
        more = f"; {count(spare, 'more connection')}, which may be silent" if spare > 0 else ""
        yield ok(_PROCESSES, f"{count(len(tracked), 'process reports', 'processes report')}{more}")


def agent_trouble(context: DoctorContext) -> Iterator[Message]:
    """Kinds of memory that sources report as not tracked."""
    tracked = _tracked(context)
    if tracked is None:
        yield _nobody(context, _PROCESSES)
        return
    troubled: dict[tuple[str, str], list[str]] = {}  # the workers of one job have the same trouble
    for process in tracked:
        for source in process["sources"]:
            for line in (source["trouble"] or "").splitlines():
                troubled.setdefault((source["name"], line), []).append(_name(process))
    for (name, line), whose in troubled.items():
        yield warning(
            _PROCESSES, f"{some(whose)}, {name}: {line}",
            "that kind is unknown, not 0; use a version of ttnn that ttmem is tested with: see `hooks`",
        )  # fmt: skip
    if not troubled:
        yield ok(_PROCESSES, "no source complains")


def losses(context: DoctorContext) -> Iterator[Message]:
    """Whether events were lost or rejected, and whether the account agrees with the allocators."""
    if context.snapshot is None:
        yield _nobody(context, _SNAPSHOT)
        return
    odd = context.snapshot["anomalies"]
    if odd["dropped"]:
        yield warning(
            _SNAPSHOT,
            f"{count(odd['dropped'], 'event was', 'events were')} dropped: peaks in between may be missing or a range",
            "the totals are corrected automatically; if it continues, check whether the server gets enough CPU time",
        )  # fmt: skip
    if odd["rejected"]:
        yield warning(
            _SNAPSHOT, f"{count(odd['rejected'], 'record was', 'records were')} rejected as invalid",
            "the server's standard error has the details; client and server may have different versions",
        )  # fmt: skip
    partial = [chip for chip in context.snapshot["chips"] if _share(chip) < 1.0]
    for chip in partial:
        yield warning(
            _SNAPSHOT, f"{name_of(chip)}: {complete(_share(chip))} of the bytes reported by allocators are tracked",
            "restart the program with `ttmem run`: allocations from before the agent was loaded are not known",
        )  # fmt: skip
    uncertain = [process for process in context.snapshot["processes"] if process["uncertain"]]
    for process in uncertain:
        yield warning(
            _SNAPSHOT, f"{_name(process)}: uncertain: its agent counted {meanings_text(process['uncertain'])}",
            "do not rely on its numbers; docs/accuracy.md explains each counter and its causes",
        )  # fmt: skip
    if not (odd["dropped"] or odd["rejected"] or partial or uncertain):
        yield ok(_SNAPSHOT, "no event was dropped or rejected")


def _share(chip: ChipRow) -> float:
    share: float | None = chip["memory"]["completeness"]
    return 1.0 if share is None else share


def per_core_only(context: DoctorContext) -> Iterator[Message]:
    """Whether a patched tt-metal reports only code: it reports writes to cores in one place, and buffers in another."""
    tracked = _tracked(context)
    if tracked is None:
        yield _nobody(context, "/allocations")
        return
    # Only such a tt-metal reports allocations by core. Listing allocations costs the server more than totals.
    bare = [
        process
        for process in tracked
        if process["allocations"]
        and process["pid"] is not None
        and any(source["name"] == "legacy" for source in process["sources"])
        if _single_cores(context.ask(f"/allocations?pid={process['pid']}&limit={_ALLOCATIONS_LISTED}"))
    ]
    for process in bare:
        yield warning(
            "/allocations",
            f"{_name(process)} reports only what is written to single cores (kernels, firmware), and no buffers",
            "its buffer tracking is off: TT_ALLOC_TRACKING_ENABLED=1 must be set before it starts (and its "
            "graph_tracking.cpp be built with it); or start it with `ttmem run`, which needs neither",
        )  # fmt: skip
    if not bare:
        yield ok("/allocations", "no process reports single cores only")


def _single_cores(listed: Allocations | None) -> bool:
    """Whether the largest allocations are all writes to one core."""
    rows = listed["allocations"] if listed is not None else []
    return bool(rows) and all(row["core"] is not None for row in rows)


def amounts(context: DoctorContext) -> Iterator[Message]:
    """If L1 shows only kilobytes: whether the workload ever used more."""
    if context.snapshot is None:
        yield _nobody(context, _SNAPSHOT)
        return
    chips = context.snapshot["chips"]
    lean = [chip for chip in chips if _in_dram(chip["memory"])]
    if lean:
        dram = sum(chip["memory"]["dram"]["used"] or 0 for chip in lean)
        l1 = max(_highest_l1(chip["memory"]) or 0 for chip in lean)
        where, each = some([name_of(chip) for chip in lean]), " of any" if len(lean) > 1 else ""
        yield warning(
            _SNAPSHOT, f"{where}: {human(dram)} in DRAM, and buffers in L1{each} were never more than {human(l1)}",
            "the workload keeps its tensors in DRAM; nothing is wrong, unless it should use L1 (memory_config)",
        )  # fmt: skip
    else:
        yield ok(_SNAPSHOT, _in_sum(_tracked(context) or []))


def _in_dram(memory: MemoryRow) -> bool:
    dram, l1 = memory["dram"]["used"], _highest_l1(memory)
    return dram is not None and l1 is not None and l1 < _LITTLE_L1_BYTES and dram >= _LITTLE_L1_RATIO * _LITTLE_L1_BYTES


def _highest_l1(memory: MemoryRow) -> int | None:
    """The highest that the peak of L1 buffers can have been."""
    l1 = memory["l1"]
    return l1["peak"] if l1["peak_at_most"] is None else l1["peak_at_most"]


def _in_sum(processes: list[ProcessRow]) -> str:
    """The message about the log: its sizes are those of single events, which are small even if the sum is large."""
    allocations = sum(process["allocations"] or 0 for process in processes)
    sizes = [item for process in processes for share in process["chips"] for item in share["kinds"].items()]
    used = sum(size for _, size in sizes)  # to compare, not to show: sizes of different pools do not add up
    if not used:
        return "nothing is in use"
    found = f"{count(allocations, 'allocation')}: {sizes_text(sizes)}"
    if allocations and used / allocations < _SMALL_ALLOCATION_BYTES <= used:
        found += ". The server's log shows each by itself, `ttmem smi` and `ttmem dump` the sums"
    return found
