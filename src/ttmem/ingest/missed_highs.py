# SPDX-License-Identifier: Apache-2.0
"""How high an agent's meters were among records that were lost.

An agent keeps the high of each meter for stretches of half a ring (windows), and the highest value since its start. The
windows that lie inside the loss give a lower limit. Those that overlap it give an upper one; if some of these are
overwritten, the highest value since the start does.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import compress
from typing import NamedTuple

from ttmem.account.ledger import Ledger
from ttmem.model.events import CaughtUp, MissedHigh, OpenPhaseHighs
from ttmem.wire.ring_meters import Measured, Window


class LostRecords(NamedTuple):
    """The records that were lost, by their sequence numbers."""

    after: int  # the last one that was read
    until: int


class ResetPosition:
    """Between which records of a ring the peaks were reset last."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._since = ledger.peaks_since
        self.head = 0  # the newest record at the last look
        self.after = 0  # and at the last look before the reset
        self.until = 0  # and at the first one after it

    def look(self, head: int) -> None:
        if self._ledger.peaks_since != self._since:
            self._since, self.after, self.until = self._ledger.peaks_since, self.head, head
        self.head = head


def caught_up(
    found: Measured,
    lost: LostRecords,
    reset: ResetPosition,
    since: float,
    time_of: Callable[[int], float],
    missed_phases: int,
    first: bool,
) -> CaughtUp:
    """The event that ends a catch-up."""
    phases = _open_phases(found, lost.until, time_of)
    was_reset = reset.until > lost.after
    return CaughtUp(since, _highs(found, lost, reset), phases, missed_phases, first, was_reset, not found.groups)


def _highs(found: Measured, lost: LostRecords, reset: ResetPosition) -> tuple[MissedHigh, ...]:
    whole = since_reset = _limits(found, lost.after, lost.after)
    if reset.until > lost.after:
        since_reset = _limits(found, reset.until, max(lost.after, reset.after))
    return tuple(
        MissedHigh(
            group.numbers,
            group.gauge,
            *whole[number],
            *since_reset[number],
            group.meter.ever,
            group.meter.reserved_ever,
        )
        for number, group in enumerate(found.groups)
        if group.numbers is not None
    )


def _limits(found: Measured, surely_after: int, perhaps_after: int) -> list[tuple[int, int]]:
    """How high each meter was at least and at most, if the records that count begin between these two."""
    windows = [window for window in found.windows if window.last is None or window.last > perhaps_after]
    complete = bool(windows) and windows[0].first <= perhaps_after + 1
    inside = [window for window in windows if window.first > surely_after]
    return [
        # A window is never above the meter's highest value, except in invalid memory.
        (min(low, group.meter.ever), min(high, group.meter.ever))
        for low, high, group in zip(
            _highest(inside, len(found.groups)),
            _highest(windows, len(found.groups)) if complete else [group.meter.ever for group in found.groups],
            found.groups,
        )
    ]


def _highest(windows: list[Window], meters: int) -> list[int]:
    """The highest value of each meter in any of these windows."""
    highest = [0] * meters
    for window in windows:
        highest = [high if high > used else used for high, used in zip(highest, window.highs)]
    return highest


def before_reset(event: CaughtUp) -> CaughtUp:
    """The peaks were reset after all lost records: none of these counts since then."""
    highs = tuple(high._replace(reset_at_least=0, reset_at_most=0) for high in event.highs)
    return event._replace(highs=highs, reset=True)


def amid_reset(event: CaughtUp) -> CaughtUp:
    """The peaks were reset among the lost records, and it is not known where."""
    highs = tuple(high._replace(reset_at_least=0, reset_at_most=high.at_most) for high in event.highs)
    return event._replace(highs=highs, reset=True)


def _open_phases(found: Measured, until: int, time_of: Callable[[int], float]) -> tuple[OpenPhaseHighs, ...]:
    """Later phases have records that will still be read."""
    chips_own = [group.numbers is not None for group in found.groups]
    return tuple(
        OpenPhaseHighs(
            phase.ident,
            phase.name,
            phase.parent,
            time_of(phase.time),
            tuple(compress(phase.begins, chips_own)),
            tuple(compress(phase.peaks, chips_own)),
        )
        for phase in found.phases
        if phase.began <= until
    )
