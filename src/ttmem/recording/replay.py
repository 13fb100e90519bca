# SPDX-License-Identifier: Apache-2.0
"""Applies recorded rings and events to an account, in the order of their times."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import inf
from typing import Union

from ttmem.account.allocations import Allocation
from ttmem.account.entities import Source
from ttmem.account.ledger import Ledger
from ttmem.account.observer import Observer
from ttmem.ingest.sink import Sink
from ttmem.model.events import Event
from ttmem.recording.event_entries import SourceName
from ttmem.recording.recorded_ring import RecordedFold
from ttmem.wire.agent_ring import RingError

Reached = Callable[[Ledger, Event], bool]
Stream = Iterator[tuple[float, Union[SourceName, None], Event]]
# The events of sources other than rings: the number of each, 0 for what repeats earlier segments and is always applied.
Numbered = Iterator[tuple[int, float, Union[SourceName, None], Event]]

_ALL_RECORDS = 1 << 30  # of one read: all of a block
_INVALID = (RingError, ValueError, ArithmeticError, LookupError)


class _Reached(BaseException):
    """The moment that was asked for."""


class ReplaySink(Sink):
    """Applies events to an account, and stops as soon as ``reached`` is true.

    ``observer`` may be set while it applies events, and is called after each of them.
    """

    def __init__(self, ledger: Ledger, begin: float, reached: Reached | None) -> None:
        super().__init__(ledger, now=lambda: self.last)
        self.last = begin  # time of the last event
        self._reached = reached
        self.observer: Observer | None = None

    def stop_at(self, reached: Reached | None) -> None:
        self._reached = reached

    def observed(self, *, ring: bool = False) -> bool:
        return self._reached is not None or self.observer is not None

    def apply(self, time: float, source: Source | None, event: Event) -> Allocation | None:
        allocation = self.ledger.apply(time, source, event)
        self._applied(time, source, event, allocation)
        return allocation

    def apply_record(self, time: float, source: Source, event: Event) -> None:
        self.apply(time, source, event)

    def observe_record(self, time: float, source: Source, event: Event, allocation: Allocation | None) -> None:
        self._applied(time, source, event, allocation)

    def _applied(self, time: float, source: Source | None, event: Event, allocation: Allocation | None) -> None:
        self.last = max(self.last, time)
        if self.observer is not None:
            self.observer(time, source, event, allocation)
        if self._reached is not None and self._reached(self.ledger, event):
            raise _Reached


class RingStretch:
    """Records of one process to apply: all, or those up to ``last``."""

    def __init__(self, begin: Callable[[], RecordedFold], last: int | None = None, *, since: float = -inf) -> None:
        """``begin`` adds the process to the account. That is done at the time ``since``, not earlier."""
        self._begin, self._last, self.since = begin, last, since
        self._fold: RecordedFold | None = None

    @property
    def begun(self) -> bool:
        return self._fold is not None

    @property
    def fold(self) -> RecordedFold:
        if self._fold is None:
            self._fold = self._begin()
        return self._fold

    def load(self) -> bool:
        """Read on, if everything before was applied; False if there is no more."""
        fold, last = self.fold, self._last
        while not fold.loaded:
            before = fold.ring.cursor
            if last is not None and before >= last and fold.greeted:
                return False
            fold.load(_ALL_RECORDS if last is None else max(0, last - before))
            if not fold.loaded and fold.ring.cursor == before:
                return False
        return True


class Merge:
    """Applies events and the records of rings in the order of their times, up to one time after another.

    Events of other sources come before records of the same time. ``note`` reports records that are invalid.
    """

    def __init__(
        self,
        sink: ReplaySink,
        events: Numbered,
        stretches: list[RingStretch],
        note: Callable[[RecordedFold, Exception], None],
    ) -> None:
        self._sink, self._events, self._note = sink, events, note
        self._stretches = list(stretches)
        self._following = next(events, None)

    def advance(self, until: float) -> bool:
        """Apply everything up to a time; True if the moment of the sink was reached before. Then it cannot go on."""
        try:
            self._advance(until)
        except _Reached:
            return True
        return False

    def _advance(self, until: float) -> None:
        sink = self._sink
        waiting = list(self._stretches)  # those that may have records up to that time
        while True:
            times: list[tuple[float, RingStretch]] = []
            for stretch in waiting.copy():
                if not stretch.begun and stretch.since > until:
                    waiting.remove(stretch)
                    continue
                if not stretch.begun:
                    times.append((stretch.since, stretch))
                    continue
                try:
                    if not stretch.load():
                        self._stretches.remove(stretch)
                    elif (time := stretch.fold.next_wall_time) <= until:
                        times.append((time, stretch))
                        continue
                except _INVALID as error:
                    self._invalid(stretch, error)
                waiting.remove(stretch)
            times.sort(key=lambda item: item[0])
            following = self._following
            if following is not None and following[0] and following[1] > until:
                following = None
            if following is not None and (not times or following[1] <= times[0][0]):
                _, time, name, event = following
                self._following = next(self._events, None)
                sink.apply(time, None if name is None else name.of(sink.ledger), event)
                continue
            if not times:
                return
            _, first = times[0]
            if not first.begun:
                try:
                    first.load()
                except _INVALID as error:
                    self._invalid(first, error)
                    waiting.remove(first)
                continue
            others = [item[0] for item in times[1:2]] + ([] if following is None else [following[1]])
            try:
                first.fold.fold(first.fold.clock_at(min([until, *others])), inf)
            except _INVALID as error:
                self._invalid(first, error)
                waiting.remove(first)
            sink.last = max(sink.last, first.fold.last_wall_time)

    def _invalid(self, stretch: RingStretch, error: Exception) -> None:
        self._note(stretch.fold, error)
        self._stretches.remove(stretch)
