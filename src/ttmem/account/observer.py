# SPDX-License-Identifier: Apache-2.0
"""Who is called while events are applied: an observer of every event, or only of failed allocations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ttmem.account.allocations import Allocation
    from ttmem.account.entities import Process, Source
    from ttmem.model.events import Event, Failed


class Observer(Protocol):
    """Called with each event after it was applied: a recording, the event stream."""

    def __call__(self, time: float, source: Source | None, event: Event, allocation: Allocation | None) -> None: ...


class Observable(Protocol):
    """Something that calls observers."""

    def add_observer(self, observer: Observer) -> None: ...

    def remove_observer(self, observer: Observer) -> None: ...


class FailureObserver(Protocol):
    """Called when an allocation fails, while the account is as it was at that moment."""

    def __call__(self, time: float, process: Process, event: Failed) -> None: ...
