# SPDX-License-Identifier: Apache-2.0
"""The account of a recording at a moment, which can be moved on to later moments."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from ttmem.account.totals import TotalWithContents

if TYPE_CHECKING:
    from ttmem.account.ledger import Ledger
    from ttmem.account.observer import Observer
    from ttmem.recording.replay import Merge, Reached, ReplaySink


class Playhead:
    """Stands at a moment of a recording. To go back, open another one."""

    def __init__(self, sink: ReplaySink, merge: Merge, all_chips: TotalWithContents) -> None:
        self._sink, self._merge = sink, merge
        self.all_chips = all_chips  # the buffers of all chips together
        self.reach = -inf  # everything up to this time was applied
        self.stopped = False  # in the middle of records: it cannot be moved on

    @property
    def ledger(self) -> Ledger:
        return self._sink.ledger

    @property
    def time(self) -> float:
        """Of the last event that was applied, or the start of the recording."""
        return self._sink.last

    def advance(self, time: float, reached: Reached | None = None, *, observer: Observer | None = None) -> None:
        """Apply all events up to a time, or until ``reached`` is true. The observer is called after each of them."""
        if self.stopped:
            raise ValueError("a playhead that stopped between two records cannot be moved on")
        self._sink.stop_at(reached)
        self._sink.observer = observer
        try:
            self.stopped = self._merge.advance(time)
        finally:
            self._sink.observer = None
        self.reach = max(self.reach, time)
