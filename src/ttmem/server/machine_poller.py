# SPDX-License-Identifier: Apache-2.0
"""Looks at the machine once a second beside the account: telemetry, holders of chips, tt-metal's own counters.

It does so in a thread, because a read of a chip that is in trouble may hang. What it has seen is merged into a
snapshot when somebody asks for one; on a large machine that takes long, so it is not done in the server's loop.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from time import monotonic
from typing import Any

from ttmem.account.entities import Source
from ttmem.account.ledger import Ledger
from ttmem.documents import chip_matching as joins
from ttmem.documents.differences import Differences
from ttmem.documents.merge import joined, merge
from ttmem.ingest.device_numbers import chips_of_slots
from ttmem.model.events import DeviceOpened, Event
from ttmem.sources.machine import Machine

Json = Any

_PERIOD = 1.0
_SOON_SECONDS = 0.1  # until the counters are read again, if they differed from the account
_FIRST_SECONDS = 2.0
_LATE_SECONDS = 5.0
_SOURCES = ("sysfs", "processes", "shm")


class MachinePoller:
    """What the machine showed last."""

    def __init__(
        self,
        root: str | None,
        ledger: Ledger,
        emit: Callable[[Source, Event], None],
        *,
        warn: Callable[[str], None] = lambda text: None,
        chips_seen: Callable[[list[Json]], None] = lambda chips: None,
    ) -> None:
        """``root`` is where the machine lies; None is nowhere. ``chips_seen`` is told of the chips after each look."""
        self._machine = None if root is None else Machine(root)
        self._ledger = ledger
        self._emit = emit
        self._warn = warn
        self._chips_seen = chips_seen
        self._seen: Json | None = None
        self._time = monotonic()
        self._trouble: str | None = None
        self._warned: str | None = None
        self._joins: dict[str, joins.Memory] = {}  # never changed, only replaced: others read it meanwhile
        self._differences = Differences()
        self._said: dict[tuple[int, int | None, int], set[tuple[int, str]]] = {}
        self._study: asyncio.Future[None] | None = None
        self._stop = threading.Event()

    async def start(self, account: Callable[[], Callable[[], Json]]) -> None:
        """Begin, and wait for the first look, but not for long.

        ``account`` gives the account of the moment, from which a thread makes the snapshot to compare with.
        """
        if self._machine is None:
            return
        loop, first = asyncio.get_running_loop(), asyncio.Event()

        def looked(seen: Json | Exception, began: float) -> None:
            try:
                self._take(seen, began, account)
            except Exception as error:
                self._complain(error)
            first.set()

        threading.Thread(target=self._watch, args=(self._machine, loop, looked), daemon=True, name="lookout").start()
        try:
            await asyncio.wait_for(first.wait(), _FIRST_SECONDS)
        except asyncio.TimeoutError:
            pass

    def stop(self) -> None:
        self._stop.set()

    def merged(self, snapshot: Json, may_see: Callable[[int | None], bool]) -> Json:
        """A snapshot of the account, with what the machine shows. May be called from any thread."""
        if self._machine is None:
            return snapshot
        seen, since = self._seen, monotonic() - self._time
        late = None
        if since > _LATE_SECONDS or seen is None:
            late = f"the last look at the machine was {since:.0f} s ago" if seen else "not looked at yet"
            late = f"{late}: {self._trouble}" if self._trouble else late
        if seen is None:
            return {**snapshot, "sources": [*snapshot["sources"], *_late(late)]}
        machine = _aged(seen, since)
        if late:
            machine["sources"] = _late(late)
        return merge(snapshot, machine, before={**self._joins}, differing=self._differences.lasting, may_see=may_see)

    def chips(self) -> list[Json]:
        """The driver's chips with their telemetry."""
        return [] if self._seen is None else _aged(self._seen, monotonic() - self._time)["chips"]

    # -- inside --------------------------------------------------------------------------------------------------

    def _watch(
        self, machine: Machine, loop: asyncio.AbstractEventLoop, looked: Callable[[Json | Exception, float], None]
    ) -> None:
        last: Json | None = None  # a look of which the counters are to be read again
        while True:
            seen: Json | Exception
            began = monotonic()
            try:
                seen = machine.look() if last is None else machine.recount(_aged(last, _SOON_SECONDS))
            except Exception as error:  # it should not; but who looks at the screen must not trust an old snapshot
                seen = error
            try:
                loop.call_soon_threadsafe(looked, seen, began)
            except RuntimeError:
                break  # the loop has ended
            again = last is None and self._differences.open and not isinstance(seen, Exception)
            last = seen if again and not isinstance(seen, Exception) else None
            if self._stop.wait(_SOON_SECONDS if again else _PERIOD):
                break
        machine.close()

    def _take(self, seen: Json | Exception, began: float, account: Callable[[], Callable[[], Json]]) -> None:
        if isinstance(seen, Exception):
            self._complain(seen)
            return
        self._seen, self._time, self._trouble = seen, monotonic(), None
        self._chips_seen(seen["chips"])
        self._resolve(seen)
        if (self._study is None or self._study.done()) and (seen["processes"] or seen["shm"]):
            loop = asyncio.get_running_loop()
            snapshot, ended = account(), monotonic()
            self._study = loop.run_in_executor(None, self._compare, seen, snapshot, began, ended)

    def _complain(self, error: Exception) -> None:
        self._trouble = f"{type(error).__name__}: {error}"
        if self._trouble != self._warned:  # once, though it may come with every look
            self._warned = self._trouble
            self._warn(f"cannot look at the machine: {self._trouble}")

    def _resolve(self, seen: Json) -> None:
        """A process that only said "device 0" has a slot in the counters of the chip it meant."""
        said, self._said = self._said, {}
        for key, process in list(self._ledger.processes.items()):
            assumed = {number for number, chip in process.numbers.items() if chip.assumed}
            if assumed and process.info.pid and process.sources:
                source = next(iter(process.sources.values()))
                once = self._said[key] = said.get(key, set())  # a full account may refuse it, each time anew
                for number, chip in chips_of_slots(process.info, assumed, seen["shm"]):
                    if (number, chip.id) not in once:
                        once.add((number, chip.id))
                        self._emit(source, DeviceOpened(number, chip))

    def _compare(self, seen: Json, take: Callable[[], Json], began: float, ended: float) -> None:
        """Remember which chip is which, and where the counters differ from the account."""
        try:
            snapshot = take()
            known = {**self._joins}
            joins.remember(known, joined(snapshot, seen, known), seen["chips"])
            self._joins = known
            tracked = {process["pid"] for process in snapshot["processes"] if process["state"] == "tracked"}
            counted = {slot["process"] for file in seen["shm"] for slot in file["slots"] if slot["state"] == "live"}
            merged = merge(snapshot, seen, before={**known}) if tracked & counted else snapshot
            self._differences.take(merged, seen["shm"], began, ended)
        except Exception as error:
            self._complain(error)


def _aged(seen: Json, since: float) -> Json:
    """What was seen, with the age it has now."""
    chips = []
    for chip in seen["chips"]:
        age = chip["telemetry"]["age_s"]
        aged = None if age is None else age + round(since, 3)
        chips.append({**chip, "telemetry": {**chip["telemetry"], "age_s": aged}})
    return {**seen, "chips": chips}


def _late(detail: str | None) -> list[Json]:
    return [{"name": name, "state": "late", "detail": detail} for name in _SOURCES]
