# SPDX-License-Identifier: Apache-2.0
"""The ledger: applies events to the state, so that totals always equal the sum of live allocations.

It has no clock and does no I/O: the caller passes the time and the source of each event. docs/accounting.md explains
each rule with an example; the rule numbers in comments are those of that page. This module handles buffers. Other
events have modules of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ttmem.account import device_events as devices
from ttmem.account import missed_peaks, resync
from ttmem.account import process_events as lives
from ttmem.account import program_events as programs
from ttmem.account.allocations import REMEMBERED_FREES, Allocation, Holding
from ttmem.account.arbitration import new_leaf
from ttmem.account.entities import Chip, Source
from ttmem.account.free_matching import NUMBERED, buffer_key, find_elsewhere, match, place_of
from ttmem.account.live_set import place, remove
from ttmem.account.observer import FailureObserver
from ttmem.account.state import AccountState, Limits
from ttmem.account.totals import Total, TotalWithContents
from ttmem.model.core_sets import split_core_id
from ttmem.model.events import (
    Allocated,
    Audited,
    CaughtUp,
    ChipFound,
    Claimed,
    Described,
    Device,
    DeviceClosed,
    DeviceOpened,
    Event,
    Extra,
    Failed,
    Freed,
    GapBegan,
    Lost,
    Mark,
    PeaksReset,
    PhaseBegan,
    PhaseEnded,
    ProcessExited,
    ProgramCompiled,
    ProgramDestroyed,
    ProgramRun,
    Rejected,
    ResyncBegin,
    ResyncEnd,
    ResyncStep,
    Sees,
    Uncertain,
    Viewed,
    WorkloadRun,
    device_numbers,
)
from ttmem.model.geometry import noc_limits, region_at
from ttmem.model.identity import ChipInfo
from ttmem.model.kinds import KINDS, KINDS_OF, SPACE_OF, Kind, Pool

# Indexed by kind, because comparing members of an Enum costs more.
_IS_PART = tuple(kind >= Kind.CB and kind != Kind.FIRMWARE for kind in KINDS)
_NOWHERE = Chip(ChipInfo("nowhere"))  # the chip of a free on a device that was never reported


class Ledger(AccountState):
    """The account: what each process holds.

    >>> from ttmem.model.identity import ProcessInfo
    >>> from ttmem.model.kinds import Confidence
    >>> ledger = Ledger()
    >>> source = ledger.source(0.0, ProcessInfo(pid=42, start=7), "legacy", Confidence.REPORTED)
    >>> _ = ledger.apply(0.0, source, Allocated(0, Kind.DRAM, 0x1000, 4096))
    >>> ledger.chips["assumed:0"].kinds[Kind.DRAM].used
    4096
    """

    def __init__(
        self,
        limits: Limits = Limits(),
        all_chips: TotalWithContents | None = None,
        failure_observer: FailureObserver | None = None,
    ) -> None:
        """``all_chips`` is a total of the caller in which the buffers of every chip are counted."""
        super().__init__(limits, all_chips, failure_observer)
        self._max_size = limits.size
        self._max_allocations = limits.allocations_per_process

    def apply(self, time: float, source: Source | None, event: Event) -> Allocation | None:
        """Apply one event. Returns the allocation that it is about; None if it changed no allocation.

        Events about the machine, not about a process, have no source.
        """
        if type(event) is Allocated:
            return self.allocated(time, source, *event)  # type: ignore[arg-type]
        if type(event) is Freed:
            return self.freed(time, source, *event)  # type: ignore[arg-type]
        self.seq += 1
        if source is not None and source.process.exited is not None:
            return self.anomaly(source.process, "after_exit")
        return _HANDLERS[type(event)](self, time, source, event)

    def allocated(
        self,
        time: float,
        source: Source,
        device: Device,
        kind: Kind,
        address: int,
        size: int,
        program: int = 0,
        refs: int = 0,
        extra: Extra | None = None,
        ident: int = 0,
    ) -> Allocation | None:
        """The same as applying an ``Allocated``, without creating one: nearly all events are this or ``freed``."""
        self.seq = seq = self.seq + 1
        process = source.process
        if process.exited is not None:
            return self.anomaly(process, "after_exit")
        if not 0 < size <= self._max_size:
            return self.anomaly(process, "rejected")
        holding = source.holdings.get(device) or self.holding(source, device)
        if holding is None:
            return self.no_holding(source, device)
        if _IS_PART[kind]:
            return programs.part_allocated(self, time, holding, kind, address, size, program, refs, extra)
        if address > 0xFFFFFFFF and kind == Kind.L1:
            kind = _kind_of_core_write(holding, address)
        if ident:
            key = ident << 2 | NUMBERED
        elif not address:  # not placed yet, as in a graph capture: each is its own allocation
            key = -seq
        else:
            key = (address << 2) | SPACE_OF[kind]
            if extra is not None:
                key |= extra.allocator << 66
        buffers = holding.buffers
        allocation = buffers.get(key)
        if allocation is not None:
            same = allocation.size == size and allocation.kind == kind and not (refs and allocation.extra != extra)
            if same and (not ident or (refs and allocation.address == address)):
                allocation.refs = refs or allocation.refs + 1  # rule 4
                if source.generation is not None:
                    source.confirmed.add(allocation)
                return allocation
            remove(holding, allocation)
            del buffers[key]  # so that the new one is the last in the table
            if not refs:
                self.anomaly(process, "replaced")
        elif process.count >= self._max_allocations:
            return self.anomaly(process, "dropped")
        elif key < 0:
            holding.unplaced.add(place_of(holding, kind, extra), size, key)
        if refs or source.generation is not None or (extra is not None and (extra.shared or extra.per_core)):
            allocation = buffers[key] = place(holding, kind, address, size, seq, time, refs, extra)
            return allocation
        # A copy of `place`, inlined because nearly every event takes this path.
        allocation = buffers[key] = Allocation(holding, kind, address, size, seq, time, extra)
        process.count += 1
        leaf = holding.leaves[kind] or new_leaf(holding, kind, seq, time)
        taken = None if extra is None else extra.reserved
        if taken is None:
            leaf.add(size, seq, time)
        else:
            leaf.add_taken(size, taken, seq, time)
        return allocation

    def freed(
        self,
        time: float,
        source: Source,
        device: Device,
        kind: Kind | None,
        address: int,
        size: int = 0,
        program: int = 0,
        allocator: int = 0,
        cores: int = 0,
        ident: int = 0,
    ) -> Allocation | None:
        """The same as applying a ``Freed``, without creating one."""
        self.seq += 1
        process = source.process
        if process.exited is not None:
            return self.anomaly(process, "after_exit")
        holding = source.holdings.get(device)
        if holding is None:
            if min(device_numbers(device), default=-1) < 0:
                return self.no_holding(source, device)
            holding = Holding(source, device, (_NOWHERE,))  # a free alone does not create a chip
        if kind is not None and _IS_PART[kind]:
            return programs.part_freed(self, holding, kind, address, program, cores)
        buffers = holding.buffers
        if ident:
            key = ident << 2 | NUMBERED
        elif source.kindless:
            if device:
                source.frees_elsewhere = True
            key = address << 2
            if key not in buffers or (key | 1) in buffers or (key | 2) in buffers:  # not exactly one buffer, in DRAM
                key, certain = match(holding, kind, address, size)
                if not certain:
                    self.anomaly(process, "ambiguous")
        else:
            key = (allocator << 66) | (address << 2) | SPACE_OF[kind or 0]
        allocation = buffers.get(key)
        if allocation is None:
            found, odd = find_elsewhere(holding, kind, address, size, allocator, ident)
            if odd is not None:
                self.anomaly(process, odd)
            if found is None:
                return None
            holding, key = found
            allocation = holding.buffers[key]
        if allocation.refs > 1:
            allocation.refs -= 1
            return allocation
        del holding.buffers[key]
        if key < 0:
            holding.unplaced.remove(place_of(holding, allocation.kind, allocation.extra), allocation.size, key)
        allocation.refs = 0
        leaf = holding.leaves[allocation.kind]
        extra = allocation.extra
        plain = extra is None or not (extra.shared or extra.per_core)
        if leaf is None or source.generation is not None or not plain:
            remove(holding, allocation)
        else:  # a copy of `remove`, inlined because nearly every event takes this path
            process.count -= 1
            taken = None if extra is None else extra.reserved
            if taken is None:
                leaf.remove(allocation, allocation.size)
            else:
                leaf.remove_taken(allocation, allocation.size, taken)
        holding.freed.add(address)  # a copy of `note_freed`
        if len(holding.freed) >= REMEMBERED_FREES:
            holding.forget_old_frees()
        return allocation


def _kind_of_core_write(holding: Holding, ident: int) -> Kind:
    """The kind of a write to one core, which its address determines: firmware, kernel, or data (rule 10)."""
    geometry = holding.chip.geometry
    where = split_core_id(ident, *noc_limits(geometry))
    return Kind.L1 if where is None else region_at(geometry, where.address).kind


def _described(state: AccountState, time: float, source: Source, event: Described) -> Allocation | None:
    """Add details to a live buffer. What is counted for it does not change, or its free would subtract another size."""
    holding = source.holdings.get(event.device)
    key = buffer_key(event.kind, event.address, event.extra.allocator, event.ident)
    allocation = None if holding is None else holding.buffers.get(key)
    if allocation is None or allocation.extra is None or allocation.address != event.address:
        return None  # it was freed meanwhile, or its allocation was lost
    known, new = allocation.extra, event.extra
    if (known.reserved, known.per_core, known.shared) != (new.reserved, new.per_core, new.shared):
        return None
    allocation.extra = new
    return allocation


def _marked(state: AccountState, time: float, source: Source | None, event: Mark) -> None:
    state.marks.append((time, event.text))


def _peaks_reset(state: AccountState, time: float, source: Source | None, event: PeaksReset) -> None:
    state.peaks_since = time
    nothing = state.chips.nothing
    known: dict[Total, bool] = dict.fromkeys((*nothing.kinds, *nothing.pools), True)
    for chip in state.chips.values():
        known.update(dict.fromkeys(chip.totals(), True))
    for process in state.processes.values():
        process.phases.turn()
        known.update(dict.fromkeys(process.nothing, True))
        for share in process.shares.values():
            for pool, total in zip(Pool, share.pools):
                voices = (share.voices[kind] for kind in KINDS_OF[pool])
                known[total] = not any(voice is not None and voice.in_gap for voice in voices)
        for source_of in process.sources.values():
            source_of.reset_in_gap = source_of.in_gap
            known.update(dict.fromkeys(source_of.totals.values(), not source_of.in_gap))
    for holding in state.holdings():
        leaves = (leaf for leaf in holding.leaves if leaf is not None)
        known.update(dict.fromkeys(leaves, not holding.source.in_gap))
    for total, is_known in known.items():
        total.reset_recent(state.seq, time, known=is_known)


_HANDLERS: dict[type, Callable[[AccountState, float, Any, Any], Allocation | None]] = {
    Described: _described,
    ProgramRun: programs.run,
    WorkloadRun: programs.workload_run,
    ProgramCompiled: programs.compiled,
    ProgramDestroyed: programs.destroyed,
    ChipFound: devices.found,
    DeviceOpened: devices.opened,
    DeviceClosed: devices.closed,
    Audited: devices.audited,
    Viewed: devices.viewed,
    ResyncBegin: resync.begin,
    ResyncStep: resync.step,
    ResyncEnd: resync.end,
    Sees: lives.sees,
    Claimed: lives.claimed,
    Lost: lives.lost,
    GapBegan: missed_peaks.gap_began,
    CaughtUp: missed_peaks.caught_up,
    Uncertain: lives.uncertain,
    Rejected: lives.rejected,
    Failed: lives.failed,
    PhaseBegan: lives.phase_began,
    PhaseEnded: lives.phase_ended,
    ProcessExited: lives.exited,
    Mark: _marked,
    PeaksReset: _peaks_reset,
}
