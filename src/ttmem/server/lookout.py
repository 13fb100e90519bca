# SPDX-License-Identifier: Apache-2.0
"""Looks at the machine once a second beside the account: telemetry, holders of chips, tt-metal's own counters.

It does so in a thread, because a read of a chip that is in trouble may hang. What it has seen is merged into a
snapshot when somebody asks for one.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from time import monotonic
from typing import Any

from ttmem.account.events import DeviceOpened, Event
from ttmem.account.ledger import Ledger
from ttmem.account.parties import Source
from ttmem.server.resolve import chips_of_slots
from ttmem.sources.machine import Machine
from ttmem.sources.merge import differences, merge

Json = dict[str, Any]

_PERIOD = 1.0
_FIRST_SECONDS = 2.0


class Lookout:
    """What the machine showed last."""

    def __init__(self, root: str | None, ledger: Ledger, emit: Callable[[Source, Event], None]) -> None:
        """``root`` is where the machine lies; None is nowhere."""
        self._machine = None if root is None else Machine(root)
        self._ledger = ledger
        self._emit = emit
        self._seen: Json | None = None
        self._time = 0.0
        self._joins: dict[str, tuple[str, str]] = {}
        self._differed: set[tuple[int, str]] = set()
        self._doubted: set[tuple[int, str]] = set()
        self._stop = threading.Event()

    async def start(self, account: Callable[[], Json]) -> None:
        """Begin, and wait for the first look, but not for long. ``account`` gives a snapshot to compare with."""
        if self._machine is None:
            return
        loop, first = asyncio.get_running_loop(), asyncio.Event()

        def looked(seen: Json) -> None:
            self._seen, self._time = seen, monotonic()
            self._resolve(seen)
            self._compare(seen, account)
            first.set()

        threading.Thread(target=self._watch, args=(self._machine, loop, looked), daemon=True, name="lookout").start()
        try:
            await asyncio.wait_for(first.wait(), _FIRST_SECONDS)
        except asyncio.TimeoutError:
            pass

    def stop(self) -> None:
        self._stop.set()

    def merged(self, picture: Json, may_see: Callable[[int | None], bool]) -> Json:
        """A snapshot of the account, with what the machine shows."""
        if self._seen is None:
            return picture
        machine = self._aged(self._seen)
        return merge(picture, machine, before=self._joins, doubted=self._doubted, may_see=may_see)

    def chips(self) -> list[Json]:
        """The driver's chips with their telemetry."""
        return [] if self._seen is None else self._aged(self._seen)["chips"]

    # -- inside --------------------------------------------------------------------------------------------------

    def _watch(self, machine: Machine, loop: asyncio.AbstractEventLoop, looked: Callable[[Json], None]) -> None:
        while True:
            seen = machine.look()
            try:
                loop.call_soon_threadsafe(looked, seen)
            except RuntimeError:
                break  # the loop has ended
            if self._stop.wait(_PERIOD):
                break
        machine.close()

    def _aged(self, seen: Json) -> Json:
        """What was seen, with the age it has now."""
        since = round(monotonic() - self._time, 3)
        chips = []
        for chip in seen["chips"]:
            age = chip["telemetry"]["age_s"]
            chips.append({**chip, "telemetry": {**chip["telemetry"], "age_s": None if age is None else age + since}})
        return {**seen, "chips": chips}

    def _resolve(self, seen: Json) -> None:
        """A process that only said "device 0" has a slot in the counters of the chip it meant."""
        for process in list(self._ledger.processes.values()):
            assumed = {number for number, chip in process.numbers.items() if chip.assumed}
            if assumed and process.info.pid and process.sources:
                source = next(iter(process.sources.values()))
                for number, chip in chips_of_slots(process.info, assumed, seen["shm"]):
                    self._emit(source, DeviceOpened(number, chip))

    def _compare(self, seen: Json, account: Callable[[], Json]) -> None:
        """Where the counters differ from the account in two looks in a row, it is no matter of a moment."""
        if any(slot["state"] == "live" for file in seen["shm"] for slot in file["slots"]):
            differ = {(pid, uid) for pid, uid, *_ in differences(merge(account(), seen, before=self._joins))}
        else:
            differ = set()
        self._doubted, self._differed = differ & self._differed, differ
