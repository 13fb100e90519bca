# SPDX-License-Identifier: Apache-2.0
"""The sink: applies every event to the account, then passes it to the observers and to the legacy log.

Sockets, client messages and rings get a sink when they are created. They depend neither on each other nor on observers.
"""

from __future__ import annotations

from collections.abc import Callable

from ttmem.account.allocations import Allocation
from ttmem.account.entities import Source
from ttmem.account.ledger import Ledger
from ttmem.account.observer import Backlog, Observer
from ttmem.ingest.legacy_log import LegacyLog
from ttmem.model.events import Event


def _ignore(text: str) -> None:
    """Discard a warning."""


def _leave_out_of_nothing(count: int) -> None:
    """Used for events whose lines were written."""


class Sink:
    """The only way for an event into an account.

    ``now`` returns the time in seconds. ``warn`` reports a problem with the input to the user who runs ttmem.
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
        self._ring_observers: tuple[Observer, ...] = ()  # those that are called with records of rings, too
        self._backlogs: dict[Observer, Backlog] = {}
        self._reported: set[tuple[str, str]] = set()  # (observer, exception) pairs that were reported
        self._noted = 0  # events that were passed to the log, or that have no line in it

    def add_observer(self, observer: Observer, *, rings: bool = True, backlog: Backlog | None = None) -> None:
        """Call it with every event from now on, after the event was applied; without ``rings``, not with records.

        While its ``backlog`` is full, it may get the number of records instead.
        """
        self._observers = (*self._observers, observer)
        if backlog is not None:
            self._backlogs[observer] = backlog
        if rings:
            self._ring_observers = (*self._ring_observers, observer)

    def remove_observer(self, observer: Observer) -> None:
        """Stop calling an observer. It may remove itself while it is called."""
        self._observers = tuple(one for one in self._observers if one != observer)
        self._ring_observers = tuple(one for one in self._ring_observers if one != observer)
        self._backlogs.pop(observer, None)

    def observed(self, *, ring: bool = False) -> bool:
        """Whether events of clients, or records of rings, are observed. If not, they may go to the ledger directly."""
        return any(map(self._has_room, self._ring_observers)) if ring else bool(self._observers)

    def _has_room(self, observer: Observer) -> bool:
        backlog = self._backlogs.get(observer)
        return backlog is None or not backlog.is_full()

    def apply(self, time: float, source: Source | None, event: Event) -> Allocation | None:
        """Apply one event. Returns the allocation that it concerns, or None if it changed nothing."""
        allocation = self.ledger.apply(time, source, event)
        self._show(self._observers, time, source, event, allocation)
        return allocation

    def apply_record(self, time: float, source: Source, event: Event) -> None:
        """Apply an event that a record of a ring means. A recording copies the ring itself."""
        self.observe_record(time, source, event, self.ledger.apply(time, source, event))

    def observe_record(self, time: float, source: Source, event: Event, allocation: Allocation | None) -> None:
        """Show such an event to observers and log. It was applied to the ledger, and was about this allocation."""
        self._show(self._ring_observers, time, source, event, allocation)

    def _show(
        self,
        observers: tuple[Observer, ...],
        time: float,
        source: Source | None,
        event: Event,
        allocation: Allocation | None,
    ) -> None:
        self._noted += 1
        for observer in observers:
            try:
                observer(time, source, event, allocation)
            except Exception as error:
                self._observer_failed(observer, error)
        if self._log is not None and source is not None:
            self._log.note(time, source, event, allocation)

    def log_for(self, source: Source) -> LegacyLog | None:
        """The log, if buffers of this source that are applied to the ledger directly get a line in it."""
        return self._log if self._log is not None and self._log.wants(source) else None

    def direct(self, log: LegacyLog | None) -> DirectEvents:
        """Use ``with sink.direct(log):`` around events of a client that are applied to the ledger directly.

        The caller writes their lines to the log. Without a log, they are counted as left out.
        """
        return DirectEvents(self, self._leave_out_of_log if log is None else _leave_out_of_nothing)

    def direct_records(self) -> DirectEvents:
        """The same for records of a ring, which have no lines in the log."""
        return DirectEvents(self, self._leave_out_of_backlogs)

    def _leave_out_of_log(self, count: int) -> None:
        if self._log is not None:
            self._log.leave_out(count)

    def _leave_out_of_backlogs(self, count: int) -> None:
        for backlog in self._backlogs.values():
            backlog.left_out(count)

    def refused(self) -> None:
        """Report that the account did not count an allocation that was applied directly."""
        self._noted += 1

    def _observer_failed(self, observer: Observer, error: Exception) -> None:
        """A failing observer does not stop the account. Each kind of failure is reported once."""
        kind = getattr(observer, "__qualname__", type(observer).__name__), type(error).__name__
        if kind not in self._reported:
            self._reported.add(kind)
            self.warn(
                f"{kind[0]} failed at an event: {kind[1]}: {error}; further failures of this kind are not reported"
            )


class DirectEvents:
    """Reports how many events bypassed the sink. Events may also pass through the sink in between."""

    __slots__ = ("_leave_out", "_noted", "_seq", "_sink")

    def __init__(self, sink: Sink, leave_out: Callable[[int], None]) -> None:
        self._sink = sink
        self._leave_out = leave_out

    def __enter__(self) -> None:
        self._seq, self._noted = self._sink.ledger.seq, self._sink._noted

    def __exit__(self, *_: object) -> None:
        count = self._sink.ledger.seq - self._seq - (self._sink._noted - self._noted)
        if count:
            self._leave_out(count)
