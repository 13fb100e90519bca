# SPDX-License-Identifier: Apache-2.0
"""The interface of observers, which see each event as it is applied: recorders, the event stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ttmem.account.allocations import Allocation
    from ttmem.account.entities import Source
    from ttmem.model.events import Event


class Observer(Protocol):
    """Somebody who wants to see each event as it is applied."""

    def __call__(self, time: float, source: Source | None, event: Event, allocation: Allocation | None) -> None: ...
