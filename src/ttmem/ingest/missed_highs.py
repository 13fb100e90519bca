# SPDX-License-Identifier: Apache-2.0
"""How high an agent's meters were among records that were lost.

An agent keeps the high of each meter for stretches of half a ring (windows), and the highest value since its start. The
windows that lie inside the loss give a lower limit. Those that overlap it give an upper one; if some of these are
overwritten, the highest value since the start does.
"""

from __future__ import annotations

from collections.abc import Callable

from ttmem.model.events import CaughtUp, MissedHigh, OpenPhaseHighs
from ttmem.wire.ring_meters import Measured


def caught_up(
    found: Measured,
    after: int,
    until: int,
    since: float,
    time_of: Callable[[int], float],
    missed_phases: int,
    first: bool,
) -> CaughtUp:
    """The event that ends a catch-up. The records after ``after`` up to ``until`` were lost."""
    return CaughtUp(since, _highs(found, after), _open_phases(found, until, time_of), missed_phases, first)


def _highs(found: Measured, after: int) -> tuple[MissedHigh, ...]:
    windows = [window for window in found.windows if window.last is None or window.last > after]
    complete = bool(windows) and windows[0].first <= after + 1
    inside = [window for window in windows if window.first > after]
    return tuple(
        MissedHigh(
            group.numbers,
            group.gauge,
            max((window.highs[number][0] for window in inside), default=0),
            max(window.highs[number][0] for window in windows) if complete else group.meter.ever,
            group.meter.ever,
            group.meter.reserved_ever,
        )
        for number, group in enumerate(found.groups)
        if group.numbers is not None
    )


def _open_phases(found: Measured, until: int, time_of: Callable[[int], float]) -> tuple[OpenPhaseHighs, ...]:
    """Later phases have records that will still be read."""
    return tuple(
        OpenPhaseHighs(
            phase.ident,
            phase.name,
            phase.parent,
            time_of(phase.time),
            tuple(
                (group.numbers, group.gauge, begin, peak)
                for group, (begin, peak) in zip(found.groups, phase.figures)
                if group.numbers is not None
            ),
        )
        for phase in found.phases
        if phase.began <= until
    )
