# SPDX-License-Identifier: Apache-2.0
"""Reads the machine once a second: telemetry, processes that hold chips, tt-metal's own counters.

It runs in a thread, because reading a broken chip may hang. The results are stored in the current snapshot.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING

from ttmem.account.entities import Source
from ttmem.account.ledger import Ledger
from ttmem.ingest.device_numbers import chips_of_slots
from ttmem.model.events import DeviceOpened, Event
from ttmem.server.current_snapshot import CurrentSnapshot, aged
from ttmem.sources.host_usage import HostUsage
from ttmem.sources.machine import Machine

if TYPE_CHECKING:
    from ttmem.model.machine_rows import DriverChip, MachineLook

_PERIOD_SECONDS = 1.0
_SOON_SECONDS = 0.1  # until the counters are read again, if they differed from the account
_FIRST_SECONDS = 2.0  # to wait for the first read


class MachinePoller:
    """Reads the machine until it is stopped."""

    def __init__(
        self,
        root: str | None,
        ledger: Ledger,
        emit: Callable[[Source, Event], None],
        current: CurrentSnapshot,
        *,
        chips_seen: Callable[[list[DriverChip]], None] = lambda chips: None,
    ) -> None:
        """``root`` is the folder with the machine's files; None means no machine.

        ``emit`` is called with events that follow from a read, ``chips_seen`` with the chips after each read.
        """
        self._machine = None if root is None else Machine(root)
        self._ledger = ledger
        self._emit = emit
        self._current = current
        self._chips_seen = chips_seen
        self._emitted: dict[tuple[int, int | None, int], set[tuple[int, str]]] = {}  # by process: (device, chip)
        self._usage = HostUsage()
        self._tracked: tuple[int, ...] = ()  # pids; replaced, never changed: the poller's thread reads it
        self._stop = threading.Event()

    async def start(self) -> None:
        """Start, and wait a limited time for the first read."""
        if self._machine is None:
            return
        loop, first = asyncio.get_running_loop(), asyncio.Event()

        def looked(seen: MachineLook | Exception, began: float) -> None:
            try:
                self._take(seen, began)
            except Exception as error:
                self._current.failed(error)
            first.set()

        arguments = self._machine, loop, looked
        threading.Thread(target=self._watch, args=arguments, daemon=True, name="machine poller").start()
        try:
            await asyncio.wait_for(first.wait(), _FIRST_SECONDS)
        except asyncio.TimeoutError:
            pass

    def stop(self) -> None:
        self._stop.set()

    # -- inside --------------------------------------------------------------------------------------------------

    def _watch(
        self,
        machine: Machine,
        loop: asyncio.AbstractEventLoop,
        looked: Callable[[MachineLook | Exception, float], None],
    ) -> None:
        last: MachineLook | None = None  # the last read, if its counters are to be read again
        while True:
            seen: MachineLook | Exception
            began = monotonic()
            try:
                seen = self._look(machine) if last is None else machine.recount(aged(last, _SOON_SECONDS))
            except Exception as error:  # unexpected; the snapshot must then show that its data is old
                seen = error
            try:
                loop.call_soon_threadsafe(looked, seen, began)
            except RuntimeError:
                break  # the loop has ended
            again = last is None and self._current.differs and not isinstance(seen, Exception)
            last = seen if again and not isinstance(seen, Exception) else None
            if self._stop.wait(_SOON_SECONDS if again else _PERIOD_SECONDS):
                break
        machine.close()

    def _look(self, machine: Machine) -> MachineLook:
        """A look at the machine, and at what tracked processes use of the host.

        The kernel gave the pids of those, so their files are in the real /proc, wherever the driver's files are.
        """
        seen = machine.look()
        others = [pid for pid in self._tracked if pid not in seen["usage"]]
        seen["usage"].update(self._usage.look(others))
        return seen

    def _take(self, seen: MachineLook | Exception, began: float) -> None:
        if isinstance(seen, Exception):
            self._current.failed(seen)
            return
        self._current.store(seen)
        self._tracked = tuple([process.info.pid for process in self._ledger.processes.values() if process.info.pid])
        self._chips_seen(seen["chips"])
        self._resolve(seen)
        self._current.compare(seen, began)

    def _resolve(self, seen: MachineLook) -> None:
        """Find the chip of a process that reported only a device number: it has a slot in the chip's counters."""
        before, self._emitted = self._emitted, {}
        for key, process in list(self._ledger.processes.items()):
            assumed = {number for number, chip in process.numbers.items() if chip.assumed}
            if assumed and process.info.pid and process.sources:
                source = next(iter(process.sources.values()))
                done = self._emitted[key] = before.get(key, set())  # once: a full account would reject it each time
                for number, chip in chips_of_slots(process.info, assumed, seen["shm"]):
                    if (number, chip.id) not in done:
                        done.add((number, chip.id))
                        self._emit(source, DeviceOpened(number, chip))
