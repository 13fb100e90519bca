# SPDX-License-Identifier: Apache-2.0
"""The last events of a server: numbered, so that a reader gets what is new. test_data_feed.py has broken streams."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

from tests.support import wait_until
from ttmem.wire.event_tail import EventTail


def test_a_reader_gets_what_is_new(tmp_path: Path) -> None:
    path = str(tmp_path / "x.api.sock")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()
    answering: list[socket.socket] = []
    thread = threading.Thread(target=lambda: answering.append(listener.accept()[0]))
    thread.start()
    tail = EventTail(path, bytes.strip, most=3)
    thread.join()
    (server,) = answering
    try:
        server.sendall(b"HTTP/1.1 200 OK\r\n\r\n: ttmem events\n\ndata: 1\n\ndata: 2\n\n")
        wait_until(lambda: tail.number == 2, "two events")
        assert tail.events() == ([b"1", b"2"], 2)
        assert tail.events(1) == ([b"2"], 2)
        assert tail.events(2) == ([], 2)
        server.sendall(b'event: lost\ndata: {"count":7}\n\ndata: 3\n\ndata: 4\n\n')
        wait_until(lambda: tail.number == 4, "four events")
        assert tail.events(2) == ([b"3", b"4"], 4)
        assert tail.events() == ([b"2", b"3", b"4"], 4), "the last three are kept"
        assert tail.events(99) == ([b"2", b"3", b"4"], 4), "a number of an earlier stream"
        assert tail.lost == 7
    finally:
        tail.close()
        server.close()
        listener.close()
