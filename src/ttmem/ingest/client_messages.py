# SPDX-License-Identifier: Apache-2.0
"""Splits the bytes of a client's connection into records, passes their events to the sink, and answers queries."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from math import inf
from operator import length_hint
from time import monotonic
from typing import TYPE_CHECKING

from ttmem.account.entities import Source
from ttmem.account.resync import steps_left
from ttmem.ingest.device_numbers import chips_of_visible
from ttmem.ingest.plain_legacy_records import apply_plain
from ttmem.ingest.rings import Rings
from ttmem.ingest.sink import Sink
from ttmem.model.events import Allocated, Claimed, Device, DeviceOpened, Event, Rejected, ResyncEnd, ResyncStep, Sees
from ttmem.model.identity import ChipInfo
from ttmem.model.kinds import AGENT, BUFFER_KINDS
from ttmem.model.validation import InvalidValue
from ttmem.sources import process_lookup as processes
from ttmem.wire import client_records as native
from ttmem.wire import handshake
from ttmem.wire.agent_ring import RingError
from ttmem.wire.client_decode import NativeStream, decode
from ttmem.wire.client_records import NativeError
from ttmem.wire.legacy_records import Record, Type, event_of
from ttmem.wire.legacy_stream import Batch, LegacyStream

if TYPE_CHECKING:
    from ttmem.ingest.client_connection import Connection
    from ttmem.ingest.peers import Peer

_MOST_SOURCES = 16
_FEW = 32  # records
_RECORDS_PER_LOOK = 32  # at the clock
_ALLOC, _FREE = int(Type.ALLOC), int(Type.FREE)
_QUERIES = (Type.QUERY, Type.DEVICE_INFO_QUERY)
_DUMPS = (Type.DUMP_REMAINING, Type.DUMP_KERNELS)
_SILENT = (Type.RESPONSE, Type.DEVICE_INFO_RESPONSE)


class _OutOfTime(Exception):
    """The rest of the records is for a later turn."""


class ClientMessages:
    """Decodes both protocols, for all connections."""

    def __init__(
        self,
        sink: Sink,
        rings: Rings,
        *,
        answer: Callable[[Record, int], bytes | None],
        dump: Callable[[Type], None],
        machine: list[ChipInfo],
        root: str,
    ) -> None:
        """``answer`` returns the reply to a legacy query, in the record size of the client. ``dump`` writes a dump."""
        self._sink = sink
        self._rings = rings
        self._answer = answer
        self._dump = dump
        self._machine = machine
        self._root = root
        self.unread_replies = 0  # dropped, because the client did not read earlier replies

    def take(self, connection: Connection, data: bytes, peer: Peer, pid: int, deadline: float) -> bool:
        """Process bytes of a connection that this process sent. Returns False to close the connection."""
        if connection.legacy is None and connection.native is None:
            if data[0] == native.MAGIC:
                connection.native = NativeStream()
            else:
                connection.legacy = LegacyStream()
        if connection.native is not None:
            return self.native(connection, connection.native.feed(data), peer, deadline)
        connection.close_descriptors()
        assert connection.legacy is not None
        return self.legacy(connection, connection.legacy.feed(data, pid), peer, pid, deadline)

    def finish(self, connection: Connection) -> None:
        """Handle the end of a stream. What is left of it belongs to the process that sent first."""
        stream = connection.legacy
        if stream is None or not connection.peers:
            return
        pid, peer = next(iter(connection.peers.items()))
        before = stream.rejected
        for size, records in stream.finish(pid):
            self._legacy(connection, self._source(connection, peer), size, iter(records), pid)
        if stream.rejected != before:
            self._reject(self._source(connection, peer), stream.rejected - before)
            self._complain(connection, peer, "truncated", "ended inside a record; the rest is dropped")

    def legacy(self, connection: Connection, batches: Iterator[Batch], peer: Peer, pid: int, deadline: float) -> bool:
        """Process the legacy records of a read until the deadline, at least some. Returns True: nothing closes it."""
        stream = connection.legacy
        assert stream is not None
        connection.pending = None
        rejected = stream.rejected
        source = self._source(connection, peer)
        for size, records in batches:
            rest = iter(records)
            done = self._legacy(connection, source, size, rest, pid, deadline)
            if not done or monotonic() > deadline:
                later = batches if done else chain(((size, rest),), batches)
                connection.pending = partial(self.legacy, connection, later, peer, pid)
                break
        if stream.rejected != rejected:
            self._reject(source, stream.rejected - rejected)
            self._complain(connection, peer, "garbage", "sends bytes that are no records of any known size; skipped")
        return True

    def native(self, connection: Connection, records: Iterator[bytes], peer: Peer, deadline: float) -> bool:
        """Process ttmem's own records until the deadline, at least one. Returns False to close the connection."""
        connection.pending = None
        try:
            for record in records:
                op = record[0]
                if op == native.MAGIC:
                    hello = handshake.read_hello(record)
                    if hello.source not in peer.sources and len(peer.sources) >= _MOST_SOURCES:
                        raise NativeError(f"one process cannot have more than {_MOST_SOURCES} sources")
                    connection.source_name, connection.confidence = hello.source, hello.confidence
                    if hello.source == AGENT:
                        self._adopt(connection, peer)
                    self._reply(connection, handshake.welcome())
                elif op == native.SYNC:
                    self._reply(connection, handshake.synced(handshake.sync_token(record)))
                else:
                    while self._event(connection, peer, record):
                        if monotonic() > deadline:
                            connection.pending = partial(self.native, connection, chain((record,), records), peer)
                            return True
                if monotonic() > deadline:
                    connection.pending = partial(self.native, connection, records, peer)
                    return True
            connection.close_descriptors()  # a hello that needed a descriptor has taken it by now
        except NativeError as error:
            self._reject(self._source(connection, peer))
            self._complain(connection, peer, "native", f"sent a damaged record: {error}; closing the connection")
            return False  # ttmem's client reconnects and sends its live allocations again
        return True

    def _event(self, connection: Connection, peer: Peer, record: bytes) -> bool:
        """Apply one event of ttmem's own protocol. An event with an impossible value is dropped.

        Returns whether the same record is to be applied again: the end of a resync is, until it is a short step.
        """
        source = self._source(connection, peer)
        try:
            event = decode(record)
        except InvalidValue as error:
            self._reject(source)
            self._complain(connection, peer, "value", f"ignored a record with an impossible value: {error}")
            return False
        if type(event) is ResyncEnd and steps_left(source, event.generation):
            self._sink.apply(self._sink.now(), source, ResyncStep(event.generation))
            return True
        allocation = self._sink.apply(self._sink.now(), source, event)
        if allocation is None and type(event) is Allocated:
            self._refused(connection, source, event.device, event.size)
        return False

    def _source(self, connection: Connection, peer: Peer) -> Source:
        source = peer.sources.get(connection.source_name)
        if source is None:
            now = self._sink.now()
            first = not peer.sources
            source = self._sink.ledger.source(now, peer.info, connection.source_name, connection.confidence)
            peer.sources[connection.source_name] = source
            # An agent reports the chips that it opened.
            if first and peer.info.pid and connection.source_name != AGENT:
                visible = processes.visible_devices(peer.info.pid, self._root)
                for number, chip in chips_of_visible(visible or [], self._machine):
                    self._sink.apply(now, source, DeviceOpened(number, chip))
        return source

    def _legacy(
        self,
        connection: Connection,
        source: Source,
        size: int,
        records: Iterator[Record],
        pid: int,
        deadline: float = inf,
    ) -> bool:
        """Apply legacy records. Returns False if some are left at the deadline.

        Whether their events are observed or logged is checked once for each call and after each request.
        """
        while True:
            apply = self._shown if self._sink.observed() else self._direct
            try:
                record = apply(connection, source, records, pid, deadline)
            except _OutOfTime:
                return False
            if record is None:
                return True
            self._request(connection, source, record, size)
            if monotonic() > deadline:
                return False

    def _direct(
        self, connection: Connection, source: Source, records: Iterator[Record], pid: int, deadline: float
    ) -> Record | None:
        """The hot path: apply buffers directly to the ledger. Returns the first record that is not an event."""
        sink = self._sink
        ledger, kinds, now = sink.ledger, BUFFER_KINDS, sink.now()
        allocated, freed, log = ledger.allocated, ledger.freed, sink.log_for(source)
        # The loop for plain records costs as much as four records to begin, and has no lines for the log.
        plain = log is None and length_hint(records) > _FEW
        singly = 0 if plain else _FEW  # records to apply one by one, before that loop is tried again
        begun = False
        with sink.direct(log):
            while True:
                if singly:
                    singly -= 1
                    record = next(records, None)
                else:
                    if begun and monotonic() > deadline:
                        raise _OutOfTime
                    begun, singly = True, _FEW
                    record = apply_plain(ledger, now, source, pid, records) if plain else next(records, None)
                if record is None:
                    return None
                op, device, length, code, claimed, ident, _ = record
                if op == _ALLOC and claimed == pid and code < 5:
                    allocation = allocated(now, source, device, kinds[code], ident, length)
                    if allocation is None:
                        sink.refused()
                        self._refused(connection, source, device, length)
                    elif log is not None:
                        log.note_buffer(now, source, device, kinds[code], ident, allocation)
                elif op == _FREE and claimed == pid and code < 5:
                    allocation = freed(now, source, device, kinds[code] if code else None, ident, length)
                    if log is not None:
                        log.note_buffer(now, source, device, None, ident, allocation)
                else:
                    event = event_of(record)
                    if event is None:
                        return record
                    self._legacy_event(connection, source, event, claimed, pid, now)

    def _shown(
        self, connection: Connection, source: Source, records: Iterator[Record], pid: int, deadline: float
    ) -> Record | None:
        """The same as `_direct` for events that are observed."""
        now = self._sink.now()
        for number, record in enumerate(records, 1):
            event = event_of(record)
            if event is None:
                return record
            self._legacy_event(connection, source, event, record[4], pid, now)
            if number % _RECORDS_PER_LOOK == 0 and monotonic() > deadline:
                raise _OutOfTime
        return None

    def _legacy_event(
        self, connection: Connection, source: Source, event: Event, claimed: int, pid: int, now: float
    ) -> None:
        """Apply one event. ``claimed`` is the pid in the record, ``pid`` is the sender's according to the kernel."""
        sink = self._sink
        if claimed != pid and claimed and claimed not in source.process.claimed:
            sink.apply(now, source, Claimed(claimed))
        allocation = sink.apply(now, source, event)
        if allocation is None and type(event) is Allocated:
            self._refused(connection, source, event.device, event.size)

    def _request(self, connection: Connection, source: Source, record: Record, size: int) -> None:
        """Handle a record that is not an event: a query, a request for a dump, a reply, or an unknown code."""
        op, device, _, code = record[:4]
        if op in _QUERIES:
            answer = self._answer(record, size)
            if answer is not None:
                self._reply(connection, answer)
        elif op in _DUMPS:
            self._dump(Type(op))
        elif op not in _SILENT:
            self._reject(source)
            what = "kernel type" if op == Type.KERNEL_LOAD else "buffer_type"
            self._complain(connection, None, what, f"Invalid {what} {code} - ignoring message (device {device})")

    def _refused(self, connection: Connection, source: Source, device: Device, size: int) -> None:
        """Report why an allocation was not counted, once for each connection and cause."""
        if source.process.exited is not None:
            return
        if not 0 < size <= self._sink.ledger.limits.size:
            self._complain(connection, None, "size", f"Invalid size {size} - ignoring message")
        elif device not in source.holdings:
            self._complain(connection, None, "device_id", f"Invalid device_id {device} - ignoring message")
        else:
            self._complain(connection, None, "limit", "holds more allocations than the account keeps for one process")

    def _adopt(self, connection: Connection, peer: Peer) -> None:
        """Start to read the ring that an agent sent, or record that it could not share one."""
        if not connection.descriptors:
            text = "its agent cannot share memory (no memfd or no descriptor left); nothing of it is seen"
            self._complain(connection, peer, "ring", text)
            nothing = Sees(0, f"nothing is tracked: {text}")
            self._sink.apply(self._sink.now(), self._source(connection, peer), nothing)
            return
        try:
            self._rings.adopt(peer, self._source(connection, peer), connection.descriptors.pop(0))
        except RingError as error:
            self._reject(self._source(connection, peer))
            self._complain(connection, peer, "ring", f"its agent handed over memory that cannot be read: {error}")

    def _reject(self, source: Source, records: int = 1) -> None:
        self._sink.apply(self._sink.now(), source, Rejected(records))

    def _complain(self, connection: Connection, peer: Peer | None, cause: str, text: str) -> None:
        """Warn once for each connection and cause."""
        if connection.is_news(cause):
            pid = peer.info.pid if peer is not None else connection.peer_pid
            self._sink.warn(f"connection {connection.number} (pid {pid}): {text}")

    def _reply(self, connection: Connection, data: bytes) -> None:
        """Replies that a client does not read are dropped and counted."""
        if not connection.reply(data):
            self.unread_replies += 1
            self._complain(connection, None, "unread", "does not read its replies; further ones are dropped")
