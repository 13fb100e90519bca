# SPDX-License-Identifier: Apache-2.0
"""Interfaces of code that is called while events are applied: for each event, or for failed allocations only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ttmem.account.allocations import Allocation
    from ttmem.account.entities import Process, Source
    from ttmem.model.events import Event, Failed


class Observer(Protocol):
    """Called with each event after it was applied. Examples: a recording, the event stream."""

    def __call__(self, time: float, source: Source | None, event: Event, allocation: Allocation | None) -> None: ...


class Backlog(Protocol):
    """The events that wait in an observer. While it is full, the observer need not be called with records of rings."""

    def is_full(self) -> bool: ...

    def left_out(self, count: int) -> None:
        """So many events were applied without a call."""


class Observable(Protocol):
    """Calls observers."""

    def add_observer(self, observer: Observer, *, backlog: Backlog | None = None) -> None: ...

    def remove_observer(self, observer: Observer) -> None: ...


class FailureObserver(Protocol):
    """Called when an allocation fails, while the account has the state of that moment."""

    def __call__(self, time: float, process: Process, event: Failed) -> None: ...
