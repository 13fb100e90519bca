# SPDX-License-Identifier: Apache-2.0
"""What clients' records say: cuts a connection's bytes into records, tells the account, and answers what is asked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from time import monotonic
from typing import TYPE_CHECKING

from ttmem.account.entities import Source
from ttmem.ingest.device_numbers import chips_of_visible
from ttmem.ingest.rings import AGENT
from ttmem.model.events import Allocated, Claimed, DeviceOpened, Mark, Rejected, Sees
from ttmem.model.identity import ChipInfo
from ttmem.model.kinds import BUFFER_KINDS
from ttmem.model.validation import InvalidValue
from ttmem.sources import process_lookup as processes
from ttmem.wire import client_records as native
from ttmem.wire import handshake
from ttmem.wire.agent_ring import RingError
from ttmem.wire.client_decode import NativeStream, decode
from ttmem.wire.client_records import NativeError
from ttmem.wire.legacy_records import Record, Type, event_of
from ttmem.wire.legacy_stream import LegacyStream

if TYPE_CHECKING:
    from ttmem.ingest.client_connection import Connection
    from ttmem.ingest.peers import Peer
    from ttmem.ingest.sockets import Ingest

_MOST_SOURCES = 16
_ALLOC, _FREE = int(Type.ALLOC), int(Type.FREE)
_QUERIES = (Type.QUERY, Type.DEVICE_INFO_QUERY)
_ASKS = (*_QUERIES, Type.DUMP_REMAINING, Type.DUMP_KERNELS)
_SILENT = (Type.RESPONSE, Type.DEVICE_INFO_RESPONSE)


class ClientMessages:
    """Both protocols, for all connections of an ingest."""

    def __init__(self, ingest: Ingest, machine: list[ChipInfo], root: str) -> None:
        self._ingest = ingest
        self._machine = machine
        self._root = root

    def take(self, connection: Connection, data: bytes, owner: Peer, pid: int, deadline: float) -> None:
        """What was read from a connection, stamped by that process."""
        if connection.legacy is None and connection.native is None:
            if data[0] == native.MAGIC:
                connection.native = NativeStream()
            else:
                connection.legacy = LegacyStream()
        if connection.native is not None:
            self.native(connection, connection.native.feed(data), owner, deadline)
            return
        connection.close_descriptors()
        stream = connection.legacy
        assert stream is not None
        rejected = stream.rejected
        source = self._source(connection, owner)
        for size, records in stream.feed(data, pid):
            self._legacy(connection, source, size, records, pid)
        if stream.rejected != rejected:
            self._reject(source, stream.rejected - rejected)
            self._complain(connection, owner, "garbage", "sends bytes that are no records of any known size; skipped")

    def finish(self, connection: Connection) -> None:
        """The client sends no more: what is left of a stream is the first one's who sent."""
        stream = connection.legacy
        if stream is None or not connection.owners:
            return
        pid, owner = next(iter(connection.owners.items()))
        before = stream.rejected
        for size, records in stream.finish(pid):
            self._legacy(connection, self._source(connection, owner), size, records, pid)
        if stream.rejected != before:
            self._reject(self._source(connection, owner), stream.rejected - before)
            self._complain(connection, owner, "truncated", "ended inside a record; the rest is dropped")

    def native(self, connection: Connection, records: Iterator[bytes], owner: Peer, deadline: float) -> None:
        """Our own records, one at least, and as many as there is time for."""
        ingest = self._ingest
        connection.pending = None
        try:
            for record in records:
                op = record[0]
                if op == native.MAGIC:
                    hello = handshake.read_hello(record)
                    if hello.source not in owner.sources and len(owner.sources) >= _MOST_SOURCES:
                        raise NativeError(f"one process cannot have more than {_MOST_SOURCES} sources")
                    connection.source_name, connection.confidence = hello.source, hello.confidence
                    if hello.source == AGENT:
                        self._adopt(connection, owner)
                    self._reply(connection, handshake.welcome())
                elif op == native.SYNC:
                    self._reply(connection, handshake.synced(handshake.sync_token(record)))
                else:
                    self._event(connection, owner, record)
                if monotonic() > deadline:
                    connection.pending = records, owner
                    return
            connection.close_descriptors()  # whoever wanted one has taken it
        except NativeError as error:
            self._reject(self._source(connection, owner))
            self._complain(connection, owner, "native", f"sent a damaged record: {error}; closing the connection")
            ingest.end(connection)  # our client reconnects and re-sends what is live

    def _event(self, connection: Connection, owner: Peer, record: bytes) -> None:
        """One event of our own protocol. A value that cannot be costs its sender that event."""
        ingest, source = self._ingest, self._source(connection, owner)
        try:
            event = decode(record)
        except InvalidValue as error:
            self._reject(source)
            self._complain(connection, owner, "value", f"ignored a record with an impossible value: {error}")
            return
        now = ingest.now()
        if type(event) is Mark or ingest.observers or ingest.log.quota > 0:
            allocation = ingest.emit(now, source, event)
            ingest.log.note(now, source, event, allocation)
        else:
            allocation = ingest.ledger.apply(now, source, event)
            ingest.log.left_out += 1
        if allocation is None and type(event) is Allocated:
            self._refused(connection, source, event.device, event.size)

    def _source(self, connection: Connection, owner: Peer) -> Source:
        source = owner.sources.get(connection.source_name)
        if source is None:
            now = self._ingest.now()
            first = not owner.sources
            source = self._ingest.ledger.source(now, owner.info, connection.source_name, connection.confidence)
            owner.sources[connection.source_name] = source
            # An agent says itself which chips it opened.
            if first and owner.info.pid and connection.source_name != AGENT:
                visible = processes.visible_devices(owner.info.pid, self._root)
                for number, chip in chips_of_visible(visible or [], self._machine):
                    self._ingest.emit(now, source, DeviceOpened(number, chip))
        return source

    def _legacy(self, connection: Connection, source: Source, size: int, records: Iterable[Record], pid: int) -> None:
        """The hot path: legacy records to the account."""
        ledger, log = self._ingest.ledger, self._ingest.log
        before = ledger.seq
        if self._ingest.observers or log.quota > 0:
            for record in records:
                self._record(connection, source, record, size, pid)
        else:
            allocated, freed, now = ledger.allocated, ledger.freed, self._ingest.now()
            kinds = BUFFER_KINDS
            for op, device, length, code, claimed, ident, stamp in records:
                if op == _ALLOC and claimed == pid and code < 5:
                    if allocated(now, source, device, kinds[code], ident, length) is None:
                        self._refused(connection, source, device, length)
                        log.left_out -= 1  # no line for it
                elif op == _FREE and claimed == pid and code < 5:
                    freed(now, source, device, kinds[code] if code else None, ident, length)
                else:
                    record = (op, device, length, code, claimed, ident, stamp)
                    plain = ledger.seq
                    self._record(connection, source, record, size, pid)  # says itself whether it left out a line
                    log.left_out -= ledger.seq - plain
            log.left_out += ledger.seq - before

    def _record(self, connection: Connection, source: Source, record: Record, size: int, pid: int) -> None:
        """One record, whatever it says, seen by whoever wants to see."""
        event = event_of(record)
        if event is None:
            self._unevent(connection, source, record, size)
            return
        now, claimed = self._ingest.now(), record[4]
        if claimed != pid and claimed and claimed not in source.process.claimed:
            self._ingest.emit(now, source, Claimed(claimed))
        allocation = self._ingest.emit(now, source, event)
        self._ingest.log.note(now, source, event, allocation)
        if allocation is None and type(event) is Allocated:
            self._refused(connection, source, event.device, event.size)

    def _unevent(self, connection: Connection, source: Source, record: Record, size: int) -> None:
        """A record that is no event: a question, a reply sent to us, or a code that means nothing."""
        op, device, _, code = record[:4]
        if op in _QUERIES:
            answer = self._ingest.answer(record, size)
            if answer is not None:
                self._reply(connection, answer)
        elif op in _ASKS:
            self._ingest.bury_dead()
            self._ingest.dump_asked(Type(op))
        elif op not in _SILENT:
            self._reject(source)
            what = "kernel type" if op == Type.KERNEL_LOAD else "buffer_type"
            self._complain(connection, None, what, f"Invalid {what} {code} - ignoring message (device {device})")

    def _refused(self, connection: Connection, source: Source, device: int, size: int) -> None:
        """Say once per connection and cause why an allocation was not counted."""
        if source.process.exited is not None:
            return
        if not 0 < size <= self._ingest.ledger.limits.size:
            self._complain(connection, None, "size", f"Invalid size {size} - ignoring message")
        elif device not in source.holdings:
            self._complain(connection, None, "device_id", f"Invalid device_id {device} - ignoring message")
        else:
            self._complain(connection, None, "limit", "holds more allocations than the account keeps for one process")

    def _adopt(self, connection: Connection, owner: Peer) -> None:
        """An agent handed over its memory, or says that it has none to hand over."""
        if not connection.descriptors:
            text = "its agent cannot share memory (no memfd or no descriptor left); nothing of it is seen"
            self._complain(connection, owner, "ring", text)
            blind = Sees(0, f"nothing is tracked: {text}")
            self._ingest.emit(self._ingest.now(), self._source(connection, owner), blind)
            return
        try:
            self._ingest.rings.adopt(owner, self._source(connection, owner), connection.descriptors.pop(0))
        except RingError as error:
            self._reject(self._source(connection, owner))
            self._complain(connection, owner, "ring", f"its agent handed over memory that cannot be read: {error}")

    def _reject(self, source: Source, records: int = 1) -> None:
        self._ingest.emit(self._ingest.now(), source, Rejected(records))

    def _complain(self, connection: Connection, owner: Peer | None, cause: str, text: str) -> None:
        """One line per connection and cause."""
        if connection.is_news(cause):
            pid = owner.info.pid if owner is not None else connection.peer_pid
            self._ingest.warn(f"connection {connection.number} (pid {pid}): {text}")

    def _reply(self, connection: Connection, data: bytes) -> None:
        """Replies that a client does not fetch are dropped and counted."""
        if not connection.reply(data):
            self._ingest.unread_replies += 1
            self._complain(connection, None, "unread", "does not read its replies; further ones are dropped")
