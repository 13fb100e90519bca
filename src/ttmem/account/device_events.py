# SPDX-License-Identifier: Apache-2.0
"""Which chips a process's devices are, and what their allocators said of themselves."""

from __future__ import annotations

from ttmem.account import allocator_views as views
from ttmem.account.arbitration import rehome
from ttmem.account.entities import Process, Source
from ttmem.account.state import Books
from ttmem.model.events import Audited, ChipFound, DeviceClosed, DeviceOpened, Viewed


def found(books: Books, time: float, source: Source | None, event: ChipFound) -> None:
    books.chips.described(event.chip).found = True


def opened(books: Books, time: float, source: Source, event: DeviceOpened) -> None:
    process, number = source.process, event.device
    if not books.may_number(process, number) or not books.may_name(process, event.chip.id):
        books.anomaly(process, "rejected")
        return
    believed = not _held_by_another_user(books, process, event.chip.id)
    chip = books.chips.described(event.chip, user=process.info.user_id, believed=believed)
    old = process.numbers.get(number)
    process.numbers[number] = chip
    if old is not None and old is not chip:
        rehome(process, number, chip, books.seq, time)
        if old.assumed:
            books.forget_chip(old)


def _held_by_another_user(books: Books, process: Process, chip_id: str) -> bool:
    """While one user's process holds memory of a chip, another user's does not redefine how large the chip is."""
    chip = books.chips.get(chip_id)
    others = () if chip is None else (holding.source.process for holding in chip.holdings)
    return any(other.exited is None and other.info.user_id != process.info.user_id for other in others)


def closed(books: Books, time: float, source: Source, event: DeviceClosed) -> None:
    holding = source.holdings.get(event.device)
    if holding is not None:
        books.graves.bury(holding, books.seq, exited=False)


def audited(books: Books, time: float, source: Source, event: Audited) -> None:
    holding = books.holding(source, event.device)
    if holding is None:
        return
    if event.banks == (0, 0):
        holding.audits.pop(event.allocator, None)  # that allocator is gone
    elif event.allocator in holding.audits or len(holding.audits) < books.limits.audits:
        holding.audits[event.allocator] = event


def viewed(books: Books, time: float, source: Source, event: Viewed) -> None:
    holding = books.holding(source, event.device)
    if holding is None:
        books.anomaly(source.process, "rejected")
    else:
        views.keep(holding, event, books.limits.views)
