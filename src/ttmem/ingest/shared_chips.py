# SPDX-License-Identifier: Apache-2.0
"""Which rings share chips, up to which time each of them is read in a turn, and which of them ends next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ttmem.ingest.followed_ring import ALL_TIMES, FollowedRing

if TYPE_CHECKING:
    from ttmem.ingest.peers import Peer

Item = tuple["Peer", FollowedRing]


def sharing_chips(first: Item, rings: Iterable[Item]) -> list[Item]:
    """A ring, and those of the others that share chips with it, directly or not.

    A ring whose corrections take long is read by itself: its chips have no peaks meanwhile, so the order is of no use.
    """
    group = dict([first])
    if first[1].fold.apart:
        return [first]
    others = [
        (peer, follower, follower.chips) for peer, follower in rings if peer not in group and not follower.fold.apart
    ]
    reached = first[1].chips
    grown = True
    while grown:
        grown = False
        for peer, follower, chips in others:
            if peer not in group and not reached.isdisjoint(chips):
                group[peer] = follower
                reached |= chips
                grown = True
    return list(group.items())


def limit_turns(rings: list[Item], now: int) -> None:
    """Rings that share chips are read up to the time of this turn, and up to the end of one that has ended.

    Records that were written since then may be younger than unread ones of another process on the same chips, or than
    the end. A ring that shares no chips is read as far as it goes.
    """
    used: Counter[str] = Counter()
    for _, follower in rings:
        used.update(follower.chips)
    for _, follower in rings:
        follower.turn = now if any(used[chip] > 1 for chip in follower.chips) else ALL_TIMES
    for item in rings:
        ended = item[1]
        if ended.end is not None and not ended.late and ended.turn != ALL_TIMES:
            for _, follower in sharing_chips(item, rings):
                follower.turn = min(follower.turn, ended.ended)


def first_to_end(ending: Item, rings: list[Item]) -> Item:
    """Of a ring that has ended, and those that share chips with it and have ended, the one that ended first."""
    if ending[1].late:
        return ending
    return min((one for one in sharing_chips(ending, rings) if one[1].end is not None), key=lambda one: one[1].ended)


def may_end(ended: FollowedRing, rings: list[Item]) -> bool:
    """Are all older records of others on its chips applied? They count before the exit of the process."""
    return ended.late or not any(
        follower is not ended and not follower.fold.apart and not ended.chips.isdisjoint(follower.chips)
        for _, follower in with_older(ended, rings)
    )


def with_older(ended: FollowedRing, rings: list[Item]) -> list[Item]:
    """The rings that may have records from before the end of this one that are not applied yet."""
    return [item for item in rings if item[1].may_have_older(ended.ended)]
