# SPDX-License-Identifier: Apache-2.0
"""Peaks while corrections take long and others on the same chips are read: compared with what really was held."""

from __future__ import annotations

from contextlib import ExitStack
from time import CLOCK_MONOTONIC, clock_gettime_ns

import pytest

from tests.random_workloads import LAYOUTS, Layout
from tests.scripted_agent import SLOTS
from tests.unit.test_missed_peaks_properties import Play
from tests.unit.test_slow_corrections import Slow, slow

__all__ = ["slow"]  # a fixture

_MOST_TICKS = 1000


class SlowPlay(Play):
    """The reader has one short turn in each call, and records are of now, as its copies are."""

    reader: Slow

    def act(self, pid: int) -> None:
        self.workloads[pid].agent.clock = clock_gettime_ns(CLOCK_MONOTONIC)
        self.workloads[pid].act()

    def settle(self) -> None:
        """Wait until all rings are read to their ends. There is more time in each tick: else a ring may stay shed."""
        turns, self.reader.turns = self.reader.turns, 50
        for _ in range(_MOST_TICKS):
            self.reader.clock.now += 0.3
            self.reader.tick()
            if not any(source.in_gap or source.unread for source in self.sources.values()):
                self.reader.turns = turns
                return
        raise AssertionError("the reader never catches up")

    def may_reset(self) -> bool:
        """Is every ring read to its end, or shed? Of others, what they held shortly before a reset counts as well."""
        rings = [self.reader.follower(pid) for pid in self.sources]
        return all((ring.shedding.shed and ring.source.in_gap) or not ring.fold.unread for ring in rings)


@LAYOUTS
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("processes", [1, 2, 3])
@pytest.mark.parametrize("resets", [False, True])
def test_peaks_are_true_however_long_corrections_take(
    seed: int, processes: int, resets: bool, layout: Layout, slow: Slow
) -> None:
    play = SlowPlay(seed, layout, slow)
    dice = play.dice
    slow.turns = dice.choice((1, 2, 4, 8))
    with ExitStack() as stack:
        stack.callback(play.end)
        for pid in range(1, processes + 1):
            play.start(pid)
        play.settle()
        for _ in range(6):
            for _ in range(dice.randrange(2, 12)):
                for _ in range(dice.choice((1, 3, SLOTS // 2, 2 * SLOTS))):
                    play.act(dice.choice(list(play.workloads)))
                slow.clock.now += dice.choice((0.0, 0.0, 1.1, 5.0))
                slow.tick(dice.choice((1, 1, 2, 5)))
                if resets and play.may_reset() and dice.random() < 0.5:
                    play.reset()
            if resets:  # what a process held shortly before a reset counts if its ring is read to the end
                play.settle()
            if processes > 1 and dice.random() < 0.3:
                gone = dice.choice(list(play.workloads))
                play.exit(gone)
                play.start(max(play.workloads, default=gone) + gone)
            play.settle()
            play.compare(shared=processes > 1)
    assert slow.warnings == []
