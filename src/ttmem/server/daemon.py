# SPDX-License-Identifier: Apache-2.0
"""`ttmem serve`: builds the parts of the server, runs them in one loop, and closes them."""

from __future__ import annotations

import asyncio
import concurrent.futures.thread  # noqa: F401 - asyncio would load it at the first snapshot, perhaps amid an upgrade
import gc
import json
import os
import signal
import socket
import sys
from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

from ttmem import __version__
from ttmem.account.entities import Source
from ttmem.account.ledger import Ledger
from ttmem.documents.cores import Cores
from ttmem.ingest import file_descriptors as descriptors
from ttmem.ingest.clock import Clock, rfc3339
from ttmem.ingest.legacy_log import LegacyLog
from ttmem.ingest.legacy_replies import LegacyAnswers
from ttmem.ingest.rings import Rings
from ttmem.ingest.sink import Sink
from ttmem.ingest.sockets import TURN_SECONDS, EventSockets
from ttmem.model.events import ChipFound, Event
from ttmem.model.identity import ChipInfo
from ttmem.model.kinds import WORKER_L1, Pool
from ttmem.model.printable import printable
from ttmem.model.units import human
from ttmem.recording.output_files import write_atomically
from ttmem.recording.recorder import Recorder
from ttmem.server.current_snapshot import AccountSnapshots, CurrentSnapshot
from ttmem.server.dumps import Dumps
from ttmem.server.event_stream import EventStream
from ttmem.server.guard import Guard
from ttmem.server.history import History
from ttmem.server.http_server import HttpServer
from ttmem.server.listen import Claim, ListenError, claim, group_id
from ttmem.server.machine_poller import MachinePoller
from ttmem.server.router import Api
from ttmem.sources import sysfs
from ttmem.sources.polling import Rounds
from ttmem.wire.agent_ring import Ring
from ttmem.wire.endpoint import LEGACY_PATH, api_path, beside
from ttmem.wire.legacy_records import Type

if TYPE_CHECKING:
    from ttmem.model.machine_rows import DriverChip
    from ttmem.model.schema import ServerFigures

_TICK_SECONDS = 0.05
_RINGS_SECONDS = 0.04  # of a tick, for agents' rings
_LEAST_PAUSE_SECONDS = 0.005  # between two ticks, for clients and the API
_THIN_PER_TICK = 5000
_COLLECT_SECONDS = 60
_FEW_ALLOCATIONS = 20_000
_FIRST_LOOK_SECONDS = 1.0  # to list the chips at the start


class Options(NamedTuple):
    """The options of the command line."""

    socket: str
    group: str | None = None
    legacy_path: str | None = LEGACY_PATH
    record: str | None = None
    record_limit: int | None = None  # bytes
    metrics: tuple[str, int] | None = None
    log_format: str = "text"
    log_style: str = "newest"
    quiet: bool = False
    statistics: bool = False  # at the end
    noc_capacity: bool = False
    machine: str | None = "/"  # the folder with sys, proc and dev


class ServeError(Exception):
    """The server cannot start; the message has the reason and what to do."""


class Server:
    """One allocation server."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.clock = Clock()
        self.since = self.clock.now()
        self.ledger = Ledger()
        self._guard = Guard(self.warn, self.clock.now)
        # In the order in which an event passes through the server.
        self.log = LegacyLog(style=options.log_style, as_json=options.log_format == "json", quiet=options.quiet)
        self.sink = Sink(self.ledger, now=self.clock.now, warn=self.warn, log=self.log)
        self.rings = Rings(self.sink, record=self._record)
        self._recording: Recorder | None = None
        machine = self._machine = _chips(options.machine)
        self.sockets = EventSockets(
            self.sink,
            self.rings,
            answer=LegacyAnswers(self.ledger, noc_capacity=options.noc_capacity),
            dump=self._print_dump,
            machine=machine,
        )
        self.history = History()
        feed = EventStream(self.sink)
        self.cores = Cores(self.ledger)
        account = AccountSnapshots(self.ledger, self.cores, feed, self.clock, self.about)
        catch_up = self.sockets.catch_up
        self.current = CurrentSnapshot(account, machine=options.machine is not None, catch_up=catch_up, warn=self.warn)
        self._poller = MachinePoller(
            options.machine, self.ledger, self._emit, self.current, chips_seen=self._follow_chips
        )
        self._dumps = Dumps(
            self.ledger,
            self.clock,
            write=lambda text: self.log.say(self.clock.now(), text),
            failed=lambda error: self._guard.failed("dump", error),
        )
        self.api = Api(
            ledger=self.ledger,
            sink=self.sink,
            current=self.current,
            cores=self.cores,
            dumps=self._dumps,
            history=self.history,
            feed=feed,
            clock=self.clock,
            server=self.about,
            catch_up=catch_up,
        )
        self._claims: list[Claim] = []
        self._stop = asyncio.Event()
        self._turn_scheduled = False
        self._started = False
        self._http: list[HttpServer] = []
        self._servers: list[asyncio.Server] = []
        if options.record is not None:
            try:
                self._recording = Recorder(options.record, self.sink, self.warn, _facts(), options.record_limit)
            except OSError as error:
                raise ServeError(f"cannot record to {options.record}: {error.strerror}") from None
        for chip in machine:
            self.sink.apply(self.since, None, ChipFound(chip))

    def about(self) -> ServerFigures:
        return {
            "status": "ok" if self._guard.all_well else "degraded",
            "parts": self._guard.json(),
            "pid": os.getpid(),
            "since": self.since,
            "version": __version__,
            "clients": len(self.sockets.connections),
            "accepted": self.sockets.accepted,
            "live_allocations": self.ledger.live_count(),
            "unread_replies": self.sockets.unread_replies,
            "socket": self.options.socket,
        }

    def warn(self, text: str) -> None:
        """A message about the server itself, on standard error."""
        if self.options.log_format == "json":
            text = json.dumps({"time": rfc3339(self.clock.now()), "event": "warning", "text": text})
        else:
            text = printable(f"ttmem: {text}")
        try:
            print(text, file=sys.stderr, flush=True)
        except OSError:
            pass  # it has no reader any more

    async def run(self, ready: Callable[[], None] = lambda: None) -> None:
        """Serve until a signal stops the server."""
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._loop_failed)
        descriptors.raise_limit()
        # A full garbage collection visits every live allocation, a tenth of a second for a million, and finds almost
        # nothing, because freed allocations are not in cycles. So only young objects are collected, a few at a time
        # because this blocks the loop, and everything is collected only when there are few allocations.
        gc.set_threshold(10_000, 1, 1_000_000)
        try:
            await self._poller.start()
            await self._listen()
            self._handle_signals(loop)
            self._write_pid()
            loop.add_reader(self.sockets.fileno(), self._turn)
            ticker = loop.create_task(self._tick())
            self._started = True
            ready()
            await self._stop.wait()
            ticker.cancel()
            loop.remove_reader(self.sockets.fileno())
        finally:
            self._close()

    def stop(self) -> None:
        self._stop.set()

    def statistics(self) -> str:
        """The periodic statistics in the format of the proof of concept."""
        lines = ["📊 Current Statistics:"]
        for chip in self.ledger.chips.values():
            allocations = sum(total.count for total in chip.kinds)
            if allocations:
                dram, l1 = chip.pools[Pool.DRAM].used, sum(chip.kinds[kind].used for kind in WORKER_L1)
                lines.append(f"  {printable(chip.id)}:")
                lines.append(f"    Buffers: {allocations}")
                lines.append(f"    DRAM: {dram} bytes ({dram / 1024:g} KB)")
                lines.append(f"    L1: {l1} bytes ({l1 / 1024:g} KB)")
                lines.append(f"    Total: {dram + l1} bytes ({human(dram + l1)})")
        lines.append(f"Active allocations: {self.ledger.live_count()}")
        lines.append(f"Events: {self.ledger.seq}")
        return "\n".join(lines)

    # -- inside --------------------------------------------------------------------------------------------------

    def _turn(self) -> None:
        """Called by the loop while a descriptor is readable. Schedules the next turn if work is left."""
        if self._stop.is_set():
            return
        more = False
        try:
            more = self.sockets.turn()
        except Exception as error:
            self._guard.failed("clients", error)
        if more and not self._turn_scheduled:
            self._turn_scheduled = True
            asyncio.get_running_loop().call_soon(self._scheduled_turn)

    def _scheduled_turn(self) -> None:
        """There is at most one of these: if each readable descriptor added one, the API would wait for all of them."""
        self._turn_scheduled = False
        self._turn()

    async def _tick(self) -> None:
        """Run the repeated tasks. If one fails, the others still run."""
        guard, now = self._guard, self.clock.now
        second = int(now())
        next_tick = monotonic()
        while True:
            next_tick = max(next_tick + _TICK_SECONDS, monotonic() + _LEAST_PAUSE_SECONDS)
            await asyncio.sleep(next_tick - monotonic())
            guard.run("clients", self.sockets.tick)
            await self._follow_rings()
            guard.run("log", lambda: self.log.tick(now()))
            if self._recording is not None:
                guard.run("recording", self._remember)
            guard.run("dead processes", lambda: self.ledger.thin_dead_allocations(_THIN_PER_TICK))
            if int(now()) != second:
                await asyncio.sleep(0)  # with many chips a sample takes long
                second = int(now())
                guard.run("history", lambda: self.history.sample(now(), self.ledger, self.current.chips()))
                guard.run("telemetry", self._record_telemetry)
                if second % _COLLECT_SECONDS == 0 and self.ledger.live_count() < _FEW_ALLOCATIONS:
                    gc.collect()

    async def _follow_rings(self) -> None:
        """Read rings for a share of each tick only. A process that writes endlessly must not block other tasks."""
        began = monotonic()
        deadline = began + _RINGS_SECONDS
        try:
            self.rings.tick()
            if monotonic() > began + TURN_SECONDS:  # copying a large live table takes that long
                await asyncio.sleep(0)
            while self.rings.follow(monotonic() + TURN_SECONDS):
                if monotonic() > deadline:
                    behind = self.rings.behind()
                    self._guard.waiting("agents", f"{behind} records are waiting to be read")
                    return
                await asyncio.sleep(0)
        except Exception as error:
            self._guard.failed("agents", error)
        else:
            self._guard.well("agents")

    def _loop_failed(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Report an uncaught exception in one line, once for each kind."""
        error = context.get("exception")
        self._guard.failed("server", error or RuntimeError(context.get("message", "unknown")))

    async def _listen(self) -> None:
        options = self.options
        group = group_id(options.group) if options.group is not None else None
        events = claim(options.socket, group=group, note=self.warn)
        self._claims.append(events)
        self.sockets.listen(events.sock)
        api = claim(api_path(options.socket), group=group, locked=False)
        self._claims.append(api)
        await self._serve_http(self.api.handle, sock=api.sock)
        if options.legacy_path is not None and options.legacy_path != options.socket:
            try:
                legacy = claim(options.legacy_path, group=group, locked=False)
            except ListenError as error:
                self.warn(f"{error}; programs that only know {options.legacy_path} will not be tracked")
            else:
                self._claims.append(legacy)
                self.sockets.listen(legacy.sock)
        if options.metrics is not None:
            host, port = options.metrics
            try:
                await self._serve_http(self.api.handle_metrics_only, host=host, port=port)
            except OSError as error:
                raise ServeError(f"cannot serve metrics on {host}:{port}: {error.strerror or error}") from None

    async def _serve_http(self, handler: Any, **where: Any) -> None:
        http = HttpServer(handler, self.warn, most=max(4, descriptors.reserve() // 2))
        self._http.append(http)
        if "sock" in where:
            self._servers.append(await asyncio.start_unix_server(http.connected, **where))
        else:
            self._servers.append(await asyncio.start_server(http.connected, **where))

    def _handle_signals(self, loop: asyncio.AbstractEventLoop) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.stop)
        loop.add_signal_handler(signal.SIGUSR1, self._print_dump, Type.DUMP_REMAINING)
        loop.add_signal_handler(signal.SIGHUP, lambda: None)  # a closed terminal must not end the server

    def _print_dump(self, op: Type) -> None:
        """Write a dump of this moment to standard output."""
        self.sockets.apply_exits()
        self.sockets.catch_up()
        self._dumps.request(op)

    def _write_pid(self) -> None:
        path = beside(self.options.socket, ".pid")
        try:
            write_atomically(path, f"{os.getpid()}\n")
        except OSError as error:
            self.warn(f"cannot write {path}: {error.strerror}; continuing without it")

    def _follow_chips(self, seen: list[DriverChip]) -> None:
        """Update the chips.

        After a reset the driver may renumber them, and TT_VISIBLE_DEVICES uses the current numbers.
        """
        numbers = {chip["pci"]: chip["kmd"] for chip in seen if chip["telemetry"]["state"] != "gone"}
        for place, chip in enumerate(self._machine):
            if chip.pci in numbers and chip.kmd != numbers[chip.pci]:
                self._machine[place] = chip._replace(kmd=numbers[chip.pci])
                self.sink.apply(self.clock.now(), None, ChipFound(self._machine[place]))

    def _record_telemetry(self) -> None:
        if self._recording is not None:
            found = {chip["pci"]: chip["telemetry"] for chip in self.current.chips()}
            self._recording.keep_telemetry({pci: one for pci, one in found.items() if pci and one is not None})

    def _remember(self) -> None:
        if self._recording is not None:
            self._recording.remember(self.rings.positions(), self.rings.counts()[0])

    def _record(self, source: Source, ring: Ring, offset: float) -> None:
        if self._recording is not None:
            self._recording.follow(source, ring, offset)

    def _emit(self, source: Source, event: Event) -> None:
        self.sink.apply(self.clock.now(), source, event)

    def _close(self) -> None:
        self._poller.stop()
        for http in self._http:
            http.close()
        for server in self._servers:
            server.close()
        self.sockets.close()
        for owned in reversed(self._claims):
            owned.release()
        if self._started:
            try:
                os.unlink(beside(self.options.socket, ".pid"))
            except OSError:
                pass
        if self._recording is not None:
            self._recording.close()
        if self.options.statistics and self._started:
            self.log.say(self.clock.now(), self.statistics())
        self.log.close()


def _facts() -> dict[str, Any]:
    """What a recording should contain about the server."""
    return {"host": socket.gethostname(), "ttmem": __version__}


def _chips(root: str | None) -> list[ChipInfo]:
    """The driver's chips; none if listing them takes too long because one is broken."""
    if root is None:
        return []
    outcome = Rounds(_FIRST_LOOK_SECONDS).run({"chips": lambda: sysfs.chips(root)})["chips"]
    return outcome.value or []
