# SPDX-License-Identifier: Apache-2.0
"""Counts how often random streams reach the situations that the laws about meshes are for."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tests.unit.naive_model import Item, Key, Party, Voice
from tests.unit.test_ledger_properties import Both
from ttmem.account.allocations import Allocation
from ttmem.account.state import Limits
from ttmem.account.totals import Total
from ttmem.model import events as ev
from ttmem.model.kinds import KINDS


class Situations(Both):
    """The ledger and the model, which are not compared here. ``seen`` has the counts of all streams."""

    def __init__(self, seen: Counter[str], limits: Limits) -> None:
        super().__init__(limits)
        self.seen = seen
        self._closed: dict[tuple[Voice, Any], bool] = {}  # closed with something live -> whether it was opened again

    def tell(self, process: int, name: str, late: bool, event: ev.Event) -> Allocation | None:
        if isinstance(event, (ev.PeaksReset, ev.Mark)):
            return super().tell(process, name, late, event)
        voice = self._source(process, name, late)[1]
        mine = [item for item in self.model.live if item.voice is voice]
        old, resyncing = self._totals(), voice.generation is not None
        if isinstance(event, ev.ProcessExited) and not voice.party.exited:
            self.seen["exits of a process that shares a total with others"] += voice.party in self._sharing(old)
        waiting = [item for item in mine if item.waiting]
        dropped = self.ledger.anomalies["dropped"]
        told = super().tell(process, name, late, event)
        if isinstance(event, ev.Allocated):
            self.seen["allocations above the limit"] += self.ledger.anomalies["dropped"] > dropped
        if resyncing and voice.generation is None:
            self._resync(mine, waiting)
        self._reopening(voice, event, mine)
        self._splits(old)
        self.seen["events"] += 1
        self.seen["events while processes share a total"] += bool(self._sharing(old))
        return told

    def _totals(self) -> dict[Key, Total]:
        """The totals of kinds of chips on which something was counted."""
        chips = self.ledger.chips.values()
        all_totals = ((("kind", chip.id, kind), chip.kinds[kind]) for chip in chips for kind in KINDS)
        return {key: total for key, total in all_totals if total.peak.value}

    def _sharing(self, totals: dict[Key, Total]) -> set[Party]:
        """Processes that count in a total of several chips in which other processes count, too."""
        counting: dict[Key, set[Party]] = {}
        for item in self.model.live:
            if not item.waiting:
                counting.setdefault(("kind", item.chip, item.kind), set()).add(item.voice.party)
        shared = [key for key, total in totals.items() if len(total.chips) > 1 and len(counting.get(key, ())) > 1]
        return {party for key in shared for party in counting[key]}

    def _resync(self, mine: list[Item], waiting: list[Item]) -> None:
        """A resync has ended, or the process with it."""
        left = set(self.model.live)
        self.seen["resyncs that keep something"] += not left.isdisjoint(set(mine) - set(waiting))
        self.seen["resyncs that add something"] += not left.isdisjoint(waiting)
        self.seen["resyncs that remove something"] += not left.issuperset(mine) and not left.isdisjoint(mine)

    def _reopening(self, voice: Voice, event: ev.Event, mine: list[Item]) -> None:
        if isinstance(event, ev.DeviceClosed) and any(item.device == event.device for item in mine):
            self._closed[voice, event.device] = False
        elif isinstance(event, ev.DeviceOpened):
            for other, device in self._closed:
                if other is voice and event.device in ev.device_numbers(device):
                    self._closed[voice, device] = True
        elif isinstance(event, ev.Allocated) and self._closed.get((voice, event.device)):
            here = [item for item in self.model.live if item.voice is voice and item.device == event.device]
            if here:
                del self._closed[voice, event.device]
                what = "meshes" if isinstance(event.device, tuple) else "devices"
                self.seen[f"{what} closed with allocations, opened and used again"] += 1

    def _splits(self, old: dict[Key, Total]) -> None:
        new = self._totals()
        kept = set(new.values())
        split = [key for key, total in old.items() if total in kept and new.get(key, total) is not total]
        self.seen["splits"] += bool(split)
        self.seen["splits with a peak of several processes"] += any(
            len({item.voice.party for item in self.model.peak[key].items}) > 1 for key in split
        )
        self.seen["splits with a peak of a dead process"] += any(
            item.voice.party.exited for key in split for item in self.model.peak[key].items
        )
