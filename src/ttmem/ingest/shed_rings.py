# SPDX-License-Identifier: Apache-2.0
"""Decides which rings are written faster than they can be read, and when to read them again.

A ring is shed when it is more than half full, got time in the last tick, and still did not become emptier; or when it
was overwritten. A burst that fits into the ring is therefore read to its end. While a ring is shed, the account is
renewed from the live table of its agent, at most once a second and at most for a twentieth of the time. The ring is
read again after it was written slowly enough for some seconds.
"""

from __future__ import annotations

from ttmem.wire.agent_ring import Ring

_RENEWAL_SECONDS = 1.0
_RENEWAL_SHARE = 0.05  # of the time, for the renewals of one ring
_CALM_RENEWALS = 3  # in a row, before a ring is read again
_READING_SHARE = 0.6  # of a core, for all rings that are read
_SMOOTHING = 0.05


class ReadingCost:
    """The CPU time that a record takes, averaged over the last slices.

    The time of day would grow when other processes use the same core, and a ring would then stay shed.
    """

    def __init__(self) -> None:
        self.seconds_per_record = 5e-6

    def note(self, records: int, seconds: float) -> None:
        if records:
            weight = min(1.0, _SMOOTHING * records / 256)
            self.seconds_per_record += weight * (seconds / records - self.seconds_per_record)


class ShedState:
    """Whether one ring is shed."""

    __slots__ = ("_calm", "_cost", "_gaps", "_head", "_most", "_since", "_unread", "due", "shed")

    def __init__(self, ring: Ring) -> None:
        self.shed = False
        self._most = ring.slots // 2
        self._unread = 0  # at the last look
        self._gaps = 0
        self.due = 0.0  # when it is time to renew the account
        self._since = 0.0
        self._head = 0  # when it was renewed last
        self._cost = 0.0  # seconds of the renewal under way
        self._calm = 0

    def look(self, unread: int, gaps: int, was_read: bool, now: float) -> None:
        """Called in each tick while the ring is read; ``gaps`` is how often it was overwritten so far."""
        too_full = was_read and unread > self._most and unread >= self._unread > 0
        if gaps > self._gaps or too_full:
            self.shed, self._calm, self.due, self._since, self._cost = True, 0, now, 0.0, 0.0
        self._gaps, self._unread = gaps, unread

    def begin(self, head: int, now: float) -> None:
        """The account is being renewed, and that takes long: shed the ring until it takes less."""
        if not self.shed:
            self.shed, self._calm, self._cost = True, 0, 0.0
            self._head, self._since, self.due = head, now, now + _RENEWAL_SECONDS

    def cost(self, seconds: float) -> None:
        """The renewal took so much time in the last tick."""
        self._cost += seconds
        self.due = max(self.due, self._since + self._cost / _RENEWAL_SHARE)

    def renew(self, head: int, now: float, seconds_per_record: float, busy: int) -> None:
        """A renewal begins. ``busy`` is how many rings were read in the last tick."""
        if self._since:
            rate = (head - self._head) / max(now - self._since, 1e-3)
            calm = rate * seconds_per_record < _READING_SHARE / (busy + 1)
            self._calm = self._calm + 1 if calm else 0
        self.due = now + _RENEWAL_SECONDS
        self._head, self._since, self._cost = head, now, 0.0
        if self._calm >= _CALM_RENEWALS:
            self.follow_again()

    def follow_again(self) -> None:
        self.shed, self._unread = False, 0
