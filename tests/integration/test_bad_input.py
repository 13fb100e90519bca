# SPDX-License-Identifier: Apache-2.0
"""Garbage, slow and incorrect clients: counted, reported once, and without effect on others."""

from __future__ import annotations

import os
import random
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import PATIENCE, LegacyClient, Server, not_none, wait_until
from ttmem.account.ledger import Ledger
from ttmem.ingest import sockets as event_sockets
from ttmem.ingest.rings import Rings
from ttmem.ingest.sink import Sink
from ttmem.ingest.sockets import EventSockets
from ttmem.model.events import Mark, PhaseBegan
from ttmem.model.kinds import Confidence
from ttmem.wire import client_records as native
from ttmem.wire import handshake
from ttmem.wire.client_encode import encode
from ttmem.wire.legacy_records import Type, request

Legacy = Callable[..., LegacyClient]


def _alloc(ident: int, size: int = 4096, record_size: int = 144) -> bytes:
    return request(Type.ALLOC, 0, size=size, code=0, pid=os.getpid(), ident=ident, record_size=record_size)


def _ask(sock: socket.socket, device: int = 0, record_size: int = 144) -> int:
    sock.sendall(request(Type.QUERY, device, record_size=record_size))
    return int.from_bytes(sock.recv(record_size, socket.MSG_WAITALL)[40:48], "little")


@pytest.mark.parametrize("record_size", [72, 112, 128, 144])
def test_one_byte_at_a_time(server: Server, record_size: int) -> None:
    with server.connect() as sock:
        stream = b"".join(_alloc(0x1000 * (n + 1), record_size=record_size) for n in range(3))
        stream += request(Type.QUERY, 0, record_size=record_size)
        for byte in stream:
            sock.send(bytes([byte]))
        reply = sock.recv(4096, 0)
        assert len(reply) == record_size
        assert int.from_bytes(reply[40:48], "little") == 3 * 4096


@pytest.mark.parametrize("record_size", [72, 112, 128, 144])
def test_a_lone_query_in_pieces_is_answered_when_the_asker_is_done(server: Server, record_size: int) -> None:
    with server.connect() as sock, server.connect() as other:
        question = request(Type.QUERY, 0, record_size=record_size)
        sock.send(question[:1])
        _ask(other)  # the first byte was read alone, so the rest cannot be mistaken for a complete record
        for byte in question[1:]:
            sock.send(bytes([byte]))
        sock.shutdown(socket.SHUT_WR)
        assert len(sock.recv(4096, socket.MSG_WAITALL)) == record_size


def test_garbage_between_records_loses_only_the_garbage(server: Server, legacy: Legacy) -> None:
    other = legacy(server)
    noise = random.Random(7)
    with server.connect() as sock:
        for round_ in range(20):
            sock.sendall(_alloc(0x1000 * (round_ + 1)))
            sock.sendall(bytes([0xFF]) + noise.randbytes(noise.randrange(1, 3000)))
        sock.sendall(bytes(40) + _alloc(0x900000))
        assert _ask(sock) >= 4096 * 10
        odd = not_none(server.process_of(os.getpid()))["anomalies"]["rejected"]
        assert odd >= 10
    other.say("alloc 1 100 0 0x1000")
    assert other.query(1)["dram"] == 100
    assert not_none(server.process_of(other.pid))["anomalies"]["rejected"] == 0
    assert server.err.read_text().count("no records of any known size") == 1
    assert "Traceback" not in server.err.read_text()


def test_a_newline_from_a_shell_is_a_truncated_record(server: Server) -> None:
    with server.connect() as sock:
        sock.sendall(b"\n")
    process = wait_until(lambda: server.process_of(os.getpid()), "the report")
    wait_until(lambda: not_none(server.process_of(os.getpid()))["anomalies"]["rejected"] == 1, "the rejection")
    assert process["allocations"] == 0
    assert "ended inside a record" in server.err.read_text()


def test_a_client_that_never_reads_its_replies(server: Server, legacy: Legacy) -> None:
    other = legacy(server)
    with server.connect() as sock:
        for _ in range(100):
            sock.sendall(request(Type.QUERY, 0) * 200)
        sock.sendall(_alloc(0x1000))
        wait_until(lambda: (p := server.process_of(os.getpid())) and p["allocations"] == 1, "its allocation")
        assert other.query(0)["dram"] == 4096
        assert server.err.read_text().count("does not read its replies") == 1
        assert server.get("/health")["unread_replies"] > 0


def test_a_damaged_native_record_costs_that_connection_only(server: Server) -> None:
    with server.connect() as sock:
        sock.sendall(handshake.hello("client", Confidence.REPORTED) + b"\x81\x00\x07\x00" + bytes(12))
        assert sock.recv(16, socket.MSG_WAITALL)[0] == native.WELCOME
        assert sock.recv(16) == b""
    assert not_none(server.process_of(os.getpid()))["anomalies"]["rejected"] == 1
    assert "cannot be 7 bytes long" in server.err.read_text()
    with server.connect() as sock:
        sock.sendall(b"\xf7\x54\x10\x00\x63\x00\x00\x00" + bytes(8))
        assert sock.recv(16) == b""
    assert "version 99" in server.err.read_text()


def sockets_over(ledger: Ledger) -> EventSockets:
    sink = Sink(ledger, now=lambda: 0.0)
    return EventSockets(sink, Rings(sink))


def test_a_turn_ends_between_two_records(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One read has thousands of records, while other clients wait. Nothing is lost or changes its order."""
    monkeypatch.setattr(event_sockets, "TURN_SECONDS", 0.0)  # time for one record, which is the minimum
    ledger, path = Ledger(), str(folder / "events.sock")
    sockets = sockets_over(ledger)
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as client:
        listener.bind(path)
        listener.listen()
        listener.setblocking(False)
        sockets.listen(listener)
        client.connect(path)
        phases = [encode(PhaseBegan(ident, f"phase {ident}")) for ident in range(1, 51)]
        client.sendall(b"".join((handshake.hello("test", Confidence.EXACT), *phases, handshake.sync(7))))
        turns = 0
        while not ledger.seq:
            assert (turns := turns + 1) < 10
            sockets.turn()
        assert ledger.seq == 1
        while ledger.seq < 50:
            before = ledger.seq
            assert sockets.turn(), "there is more to do"
            assert ledger.seq == before + 1
        while sockets.turn():
            pass
        client.settimeout(PATIENCE)
        assert client.recv(4096) == handshake.welcome() + handshake.synced(7)
        (process,) = ledger.processes.values()
        assert [phase.path for phase in process.phases.open.values()] == [f"phase {ident}" for ident in range(1, 51)]
    sockets.close()


def test_the_dead_are_heard_to_the_end(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also data that was read and is not applied yet."""
    monkeypatch.setattr(event_sockets, "TURN_SECONDS", 0.0)
    ledger, path = Ledger(), str(folder / "events.sock")
    sockets = sockets_over(ledger)
    program = (
        "import socket, sys\n"
        "from ttmem.model.events import Allocated\n"
        "from ttmem.model.kinds import Confidence, Kind\n"
        "from ttmem.wire.client_encode import encode\n"
        "from ttmem.wire.handshake import hello\n"
        "s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])\n"
        "records = [encode(Allocated(0, Kind.DRAM, i << 12, 64)) for i in range(1, 41)]\n"
        "s.sendall(b''.join((hello('test', Confidence.EXACT), *records)))\n"
        "input()\n"
    )
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        listener.setblocking(False)
        sockets.listen(listener)
        with subprocess.Popen([sys.executable, "-c", program, path], stdin=subprocess.PIPE) as child:
            wait_until(lambda: sockets.turn() and ledger.live_count() > 0, "its first buffers")
            assert ledger.live_count() < 40
            child.kill()
        wait_until(lambda: sockets.turn() is not None and bool(ledger.departed), "its death")
    assert ledger.departed[0].count == 40
    sockets.close()


def test_a_process_cannot_have_sources_without_end(server: Server) -> None:
    with server.connect() as sock:
        for number in range(30):
            try:
                sock.sendall(handshake.hello(f"source{number}", Confidence.REPORTED) + encode(Mark("x")))
            except BrokenPipeError:
                break
        wait_until(lambda: "more than 16 sources" in server.err.read_text(), "the refusal")
    assert len(not_none(server.process_of(os.getpid()))["sources"]) == 16
    with server.connect() as sock:
        sock.sendall(handshake.hello("legacy", Confidence.EXACT))
        assert sock.recv(16) == b""
    assert "cannot call itself 'legacy'" in server.err.read_text()


def test_http_on_the_event_socket_and_events_on_the_api(server: Server) -> None:
    with server.connect() as sock:
        sock.sendall(b"GET /snapshot HTTP/1.1\r\nHost: x\r\n\r\n")
        wait_until(lambda: "no records of any known size" in server.err.read_text(), "the complaint")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.connect(server.api)
        sock.sendall(_alloc(0x1000))
        assert b"400" in sock.recv(4096)


def test_five_hundred_clients(server: Server) -> None:
    socks = [server.connect() for _ in range(500)]
    try:
        for number, sock in enumerate(socks):
            sock.sendall(_alloc(0x1000 * (number + 1)))
        assert [_ask(sock) for sock in socks[-3:]][-1] <= 500 * 4096
        wait_until(lambda: _ask(socks[0]) == 500 * 4096, "all of them")
        assert server.get("/health")["clients"] == 500
    finally:
        for sock in socks:
            sock.close()
    wait_until(lambda: server.get("/health")["clients"] == 0, "their end")
    assert server.chip()["dram"]["used"] == 500 * 4096  # a closed connection alone frees nothing
