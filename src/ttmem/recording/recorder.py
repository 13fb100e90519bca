# SPDX-License-Identifier: Apache-2.0
"""Writes a recording: a thread copies the rings of agents, and the events of all other sources are added to it.

The thread polls each ring with a position of its own. It does nothing for a single record, so it costs the account
little. Nothing waits longer than a second before it is written.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from time import monotonic
from typing import TYPE_CHECKING, Any, BinaryIO
from weakref import WeakKeyDictionary

from ttmem.account.entities import Process, Source
from ttmem.account.saved_history import saved
from ttmem.model.events import Event, ProcessExited
from ttmem.recording.blocks import BlockType, BlockWriter
from ttmem.recording.columns import CHECKPOINT
from ttmem.recording.event_entries import EventEncoder
from ttmem.recording.output_files import open_recording
from ttmem.recording.ring_copier import RingCopier
from ttmem.recording.segment_folder import SegmentFolder
from ttmem.recording.source_checkpoint import checkpoint_events, is_complete
from ttmem.sources.process_lookup import host_memory
from ttmem.wire.agent_ring import Ring, RingError

if TYPE_CHECKING:
    from ttmem.account.allocations import Allocation
    from ttmem.ingest.sink import Sink

_POLL_SECONDS = 0.1
_FAST_POLL_SECONDS = 0.05  # while a ring fills fast
_FAST_FILL = 0.125  # of a ring, between two polls
_FLUSH_SECONDS = 1.0
_RECORDS_BETWEEN_HISTORIES = 65_536
_EVENTS_BETWEEN_CHECKPOINTS = 32_768  # of sources without a ring; to apply one costs about as much as two records
_LIVE_FACTOR = 4  # at least so many events for each that a checkpoint has
_MOST_CHECKPOINT_EVENTS = 10_000  # to make so many takes about 25 ms, for which the account waits
_MOST_EVENT_BYTES = 4 << 20  # that wait


class Recorder:
    """Records everything that a sink is given from now on, and the rings that it is handed."""

    def __init__(
        self,
        path: str,
        sink: Sink,
        warn: Callable[[str], None],
        facts: Mapping[str, Any] | None = None,
        limit: int | None = None,
    ) -> None:
        """OSError if the file cannot be created.

        With a ``limit`` in bytes the recording is a folder of segments, and the oldest are deleted.
        """
        self._segments = None if limit is None else SegmentFolder(path, limit)
        # It contains command lines and tags of all users, so only the user who runs ttmem may read it.
        fd = open_recording(path) if self._segments is None else self._segments.following()
        self._file: BinaryIO = open(fd, "wb", buffering=0)  # noqa: SIM115 - lives as long as this
        self._sink = sink
        self._warn = warn
        self._lock = threading.Lock()  # of all that follows
        self._blocks = BlockWriter(self._file)
        self._events = EventEncoder()
        self._written = 0  # events
        self._copiers: list[tuple[Process, RingCopier]] = []
        self._rings = 0
        self._ring_numbers: WeakKeyDictionary[Ring, int] = WeakKeyDictionary()
        self._ring_sources: set[Source] = set()
        self._tables: dict[int, int] | None = None  # the next history is written when these records are applied
        self._remembered = 0  # records that were applied when the history was written last
        self._flushed = monotonic()
        self._pause = _FAST_POLL_SECONDS  # before the next poll
        self._telemetry: dict[str, dict[str, Any]] = {}
        self._waiting: list[Callable[[], object]] = []  # blocks that the thread writes, in this order
        self._checkpoint_at = 0  # events that there were at the last checkpoint of sources without a ring
        self._checkpoint_size = 0  # events in it
        self._stopped = False
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        self._facts = {"start": sink.now(), **(facts or {})}
        self._guarded(self._write_facts)
        sink.add_observer(self._observe, rings=False)

    def follow(self, source: Source, ring: Ring, offset: float) -> None:
        """Record an agent's ring from its beginning; ``offset`` added to the agent's clock gives wall time."""
        process = source.process
        about = {"process": list(process.info), "name": source.name, "confidence": int(source.confidence)}
        with self._lock:
            if self._stopped:
                return
            self._rings += 1
            self._ring_numbers[ring] = self._rings
            self._ring_sources.add(source)
            self._copiers.append((process, RingCopier(self._rings, ring.again(), about, offset, process.seen)))
        self._start()

    def remember(self, positions: list[tuple[Ring, int, int]], applied: int) -> None:
        """Write the account's history if enough records were applied since the last time, or a segment is full.

        ``positions`` are the last records of each ring that were applied, ``applied`` is their number over all rings.
        It is called between two slices of records, when the account is as it was after these.
        """
        if self._stopped:
            return
        if self._tables is None:
            full = self._segments is not None and self._blocks.size >= self._segments.segment_bytes
            enough = applied - self._remembered >= _RECORDS_BETWEEN_HISTORIES
            if not (full or enough or self._many_events()):
                return
            self._remembered = applied
            with self._lock:
                self._guarded(self._next_segment if full else self._write_tables)
                self._tables = {copier.number: copier.table_last for _, copier in self._copiers}
        # A moment is opened from a table and the history after it: the fewer records in between, the faster.
        reached = {self._ring_numbers[ring]: last for ring, last, _ in positions if ring in self._ring_numbers}
        if any(last < self._tables.get(number, 0) for number, last in reached.items()):
            return
        self._tables = None
        if any(lost for _, _, lost in positions):
            return  # what the account does not know, the recording may have
        time = self._sink.now()
        past: dict[str, Any] = {
            "time": time,
            "rings": {str(number): last for number, last in reached.items()},
            "known": self._rings,
            "account": saved(self._sink.ledger),
        }
        with self._lock:
            if self._many_events():
                self._checkpoint_sources()
            past["events"] = self._events.events
            self._waiting.append(lambda: self._write_history(past, time))  # by the thread: many chips take long
        self._start()

    def keep_telemetry(self, telemetry: Mapping[str, Mapping[str, Any]]) -> None:
        """Telemetry of chips by PCI address, to be written with the next sample."""
        with self._lock:
            self._telemetry = {pci: dict(one) for pci, one in telemetry.items()}

    def add_facts(self, **facts: Any) -> None:
        """Add what became known of the run later, such as the exit code."""
        with self._lock:
            self._facts.update(facts)
            self._guarded(self._write_facts)

    def flush(self) -> None:
        """Write everything that is new now."""
        with self._lock:
            self._guarded(lambda: self._poll(flush=True))

    def close(self) -> None:
        """Read all rings to their end, and complete the file."""
        self._closing.set()
        if self._thread is not None:
            self._thread.join()
        with self._lock:
            self._sink.remove_observer(self._observe)
            self._guarded(lambda: self._poll(flush=True, final=True))
            self._guarded(self._blocks.finish)
            self._stop()

    # -- inside --------------------------------------------------------------------------------------------------

    def _many_events(self) -> bool:
        """Did sources without a ring report so much that their next checkpoint is due?"""
        new = self._events.events - self._checkpoint_at
        return new >= max(_EVENTS_BETWEEN_CHECKPOINTS, _LIVE_FACTOR * self._checkpoint_size)

    def _checkpoint_sources(self) -> None:
        """Write what sources without a ring hold now. The thread encodes it: that takes long."""
        ledger, has_ring = self._sink.ledger, frozenset(self._ring_sources)
        self._checkpoint_at = self._events.events
        if not is_complete(ledger, has_ring):
            return
        found = list(islice(checkpoint_events(ledger, has_ring, self._sink.now()), _MOST_CHECKPOINT_EVENTS + 1))
        self._checkpoint_size = len(found)
        if len(found) > _MOST_CHECKPOINT_EVENTS:
            return  # moments are opened from an earlier one
        self._waiting.append(self._taken_events())
        self._events.begin_anew()
        count, time = self._events.events, self._sink.now()
        self._waiting.append(lambda: self._write_checkpoint(found, count, time))

    def _write_checkpoint(self, events: Iterable[tuple[float, Source | None, Event]], count: int, time: float) -> None:
        """Write the state of sources without a ring after so many events, in a block that needs no other."""
        encoder = EventEncoder()
        for item in events:
            encoder.add(*item)
        entries, flags = encoder.take()
        self._blocks.write(BlockType.EVENTS, entries, number=count, last=count, time=time, flags=flags | CHECKPOINT)

    def _observe(self, time: float, source: Source | None, event: Event, allocation: Allocation | None) -> None:
        with self._lock:
            if self._stopped:
                return
            self._events.add(time, source, event)
            if source is not None and type(event) is ProcessExited:
                for gone in source.process.sources.values():
                    self._events.exited(gone)
                    self._ring_sources.discard(gone)
                for process, copier in self._copiers:
                    if process is source.process:
                        copier.ended = True
            if self._events.size > _MOST_EVENT_BYTES:
                self._guarded(self._flush_events)
        self._start()

    def _start(self) -> None:
        """The thread begins with the first thing to record: the command of a run is started before that."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="ttmem recording", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while not self._closing.wait(self._pause):
            with self._lock:
                if self._stopped:
                    return
                self._guarded(lambda: self._poll(flush=monotonic() - self._flushed >= _FLUSH_SECONDS))

    def _poll(self, *, flush: bool, final: bool = False) -> None:
        now = monotonic()
        self._write_waiting()
        filled = 0.0
        for process, copier in self._copiers.copy():
            try:
                last = copier.ended
                filled = max(filled, copier.poll(self._blocks, now, final=last or final))
                if flush or last:
                    copier.flush(self._blocks)
            except RingError as error:
                self._warn(f"pid {process.info.pid}: its agent's memory is invalid and is not recorded: {error}")
                last = True
            if last:
                self._copiers.remove((process, copier))
                copier.close()
        if flush:
            self._flushed = now
            self._flush_events()
            self._sample()
        pause = _FAST_POLL_SECONDS if filled > _FAST_FILL else _POLL_SECONDS
        self._pause = max(0.0, min(pause, self._flushed + _FLUSH_SECONDS - now))

    def _sample(self) -> None:
        """Write the host memory of each recorded process, and the telemetry of each chip."""
        found = {str(process.info.pid): host_memory(process.info.pid) for process, _ in self._copiers}
        known = {pid: memory for pid, memory in found.items() if memory is not None}
        telemetry, self._telemetry = self._telemetry, {}
        if known or telemetry:
            time = self._sink.now()
            row = {"time": time, "host": known, "telemetry": telemetry}
            self._blocks.write(BlockType.SAMPLES, json.dumps(row).encode(), time=time)

    def _flush_events(self) -> None:
        self._write_waiting()
        self._taken_events()()

    def _taken_events(self) -> Callable[[], object]:
        """Take the events that wait for their block. Returns what writes it."""
        entries, flags = self._events.take()
        if not entries:
            return lambda: None
        first, self._written = self._written + 1, self._events.events
        last, time = self._written, self._events.time
        return lambda: self._blocks.write(BlockType.EVENTS, entries, number=first, last=last, time=time, flags=flags)

    def _write_tables(self) -> None:
        for _, copier in self._copiers:
            try:
                copier.poll(self._blocks, monotonic())
                copier.flush(self._blocks)
                copier.write_table(self._blocks)
            except RingError:
                pass  # the next poll reports it

    def _next_segment(self) -> None:
        """Complete the segment, and begin the next one with everything that a reader needs who has no other."""
        assert self._segments is not None
        self._poll(flush=True)
        self._blocks.finish()
        self._file.close()
        self._file = open(self._segments.following(), "wb", buffering=0)  # noqa: SIM115 - lives as long as this
        self._blocks = BlockWriter(self._file)
        self._write_facts()
        self._events.begin_anew()
        now = self._sink.now()
        held = checkpoint_events(self._sink.ledger, frozenset(self._ring_sources), now)
        self._write_checkpoint(held, self._events.events, now)
        for _, copier in self._copiers:
            copier.begin_segment()
        self._poll(flush=True)

    def _write_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        for write in waiting:
            write()

    def _write_history(self, past: dict[str, Any], time: float) -> None:
        self._blocks.write(BlockType.HISTORY, json.dumps(past, separators=(",", ":")).encode(), time=time)

    def _write_facts(self) -> None:
        self._blocks.write(BlockType.FACTS, json.dumps(self._facts).encode(), time=self._facts["start"])

    def _guarded(self, work: Callable[[], None]) -> None:
        """A full disk ends the recording, not the account."""
        if self._stopped:
            return
        try:
            work()
        except OSError as error:
            self._stop()
            self._warn(f"recording stopped: {error.strerror}; the file can be read up to here")

    def _stop(self) -> None:
        if not self._stopped:
            self._stopped = True
            for _, copier in self._copiers:
                copier.close()
            self._copiers.clear()
            try:
                self._file.close()
            except OSError:
                pass  # nothing was buffered
