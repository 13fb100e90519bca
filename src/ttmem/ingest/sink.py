# SPDX-License-Identifier: Apache-2.0
"""The sink: takes every event that was read, applies it to the account, and shows it to observers and the legacy log.

Sockets, client messages and rings are given a sink when they are made. They know neither each other nor the observers.
"""

from __future__ import annotations

from collections.abc import Callable

from ttmem.account.allocations import Allocation
from ttmem.account.entities import Source
from ttmem.account.ledger import Ledger
from ttmem.account.observer import Observer
from ttmem.ingest.legacy_log import LegacyLog
from ttmem.model.events import Event


def _ignore(text: str) -> None:
    """Nobody reads the warnings."""


class Sink:
    """The one way into an account.

    ``now`` gives the time in seconds, ``warn`` reports a problem with the input to the user who runs ttmem.
    """

    def __init__(
        self,
        ledger: Ledger,
        *,
        now: Callable[[], float],
        warn: Callable[[str], None] = _ignore,
        log: LegacyLog | None = None,
    ) -> None:
        self.ledger = ledger
        self.now = now
        self.warn = warn
        self._log = log
        self._observers: tuple[Observer, ...] = ()
        self._reported: set[tuple[str, str]] = set()  # failures of observers
        self._noted = 0  # events that the log was shown, or has no line for

    def add_observer(self, observer: Observer) -> None:
        """Show it every event from now on, after it was applied."""
        self._observers = (*self._observers, observer)

    def remove_observer(self, observer: Observer) -> None:
        """An observer may remove itself while it is called."""
        self._observers = tuple(one for one in self._observers if one != observer)

    def plain(self, source: Source) -> bool:
        """Are the events of this source neither observed nor logged? Then buffers may go to the ledger directly."""
        return not self._observers and (self._log is None or not self._log.wants(source))

    def apply(self, time: float, source: Source | None, event: Event) -> Allocation | None:
        """Apply one event. Returns the allocation it was about, None if it changed nothing."""
        self._noted += 1
        allocation = self.ledger.apply(time, source, event)
        for observer in self._observers:
            try:
                observer(time, source, event, allocation)
            except Exception as error:
                self._observer_failed(observer, error)
        if self._log is not None and source is not None:
            self._log.note(time, source, event, allocation)
        return allocation

    def direct(self) -> DirectEvents:
        """``with sink.direct():`` is around events of a client that are applied to the ledger directly."""
        return DirectEvents(self)

    def refused(self) -> None:
        """An allocation that was applied directly was not counted by the account."""
        self._noted += 1

    def _observer_failed(self, observer: Observer, error: Exception) -> None:
        """An observer that fails does not stop the account. Each kind of failure is reported once."""
        kind = getattr(observer, "__qualname__", type(observer).__name__), type(error).__name__
        if kind not in self._reported:
            self._reported.add(kind)
            self.warn(
                f"{kind[0]} failed at an event: {kind[1]}: {error}; further failures of this kind are not reported"
            )


class DirectEvents:
    """Tells the log how many events it was not shown. Some may still go through the sink meanwhile."""

    __slots__ = ("_noted", "_seq", "_sink")

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def __enter__(self) -> None:
        self._seq, self._noted = self._sink.ledger.seq, self._sink._noted

    def __exit__(self, *_: object) -> None:
        sink = self._sink
        if sink._log is not None:
            sink._log.leave_out(sink.ledger.seq - self._seq - (sink._noted - self._noted))
