# SPDX-License-Identifier: Apache-2.0
"""Applies events about devices: which chips they are, and the reports of their allocators."""

from __future__ import annotations

from ttmem.account import allocator_views as views
from ttmem.account.arbitration import rehome
from ttmem.account.entities import Process, Source
from ttmem.account.state import AccountState
from ttmem.model.events import Audited, ChipFound, DeviceClosed, DeviceOpened, Viewed


def found(state: AccountState, time: float, source: Source | None, event: ChipFound) -> None:
    state.chips.described(event.chip).found = True


def opened(state: AccountState, time: float, source: Source, event: DeviceOpened) -> None:
    process, number = source.process, event.device
    if not state.may_number(process, number) or not state.may_name(process, event.chip.id):
        state.anomaly(process, "rejected")
        return
    believed = not _held_by_another_user(state, process, event.chip.id)
    chip = state.chips.described(event.chip, user=process.info.user_id, believed=believed)
    old = process.numbers.get(number)
    process.numbers[number] = chip
    if old is not None and old is not chip:
        rehome(process, number, chip, state.seq, time)
        if old.assumed:
            state.forget_chip(old)


def _held_by_another_user(state: AccountState, process: Process, chip_id: str) -> bool:
    """Whether a living process of another user holds memory on a chip. Then this process may not redefine the chip."""
    chip = state.chips.get(chip_id)
    others = () if chip is None else (holding.source.process for holding in chip.holdings)
    return any(other.exited is None and other.info.user_id != process.info.user_id for other in others)


def closed(state: AccountState, time: float, source: Source, event: DeviceClosed) -> None:
    holding = source.holdings.get(event.device)
    if holding is not None:
        state.dead_allocations.keep(holding, state.seq, exited=False)


def audited(state: AccountState, time: float, source: Source, event: Audited) -> None:
    holding = state.holding(source, event.device)
    if holding is None:
        return
    if event.banks == (0, 0):
        holding.audits.pop(event.allocator, None)  # the allocator no longer exists
    elif event.allocator in holding.audits or len(holding.audits) < state.limits.audits:
        holding.audits[event.allocator] = event


def viewed(state: AccountState, time: float, source: Source, event: Viewed) -> None:
    holding = state.holding(source, event.device)
    if holding is None:
        state.no_holding(source, event.device)
    else:
        views.keep(holding, event, state.limits.views)
