# SPDX-License-Identifier: Apache-2.0
"""Answers over HTTP: a large answer does not block others, however fast it is read."""

from __future__ import annotations

import asyncio
import socket
import tempfile
from collections.abc import AsyncIterator

import pytest

from ttmem.server.http_server import HttpServer, Request, Response

PIECES, PIECE = 40, 256 * 1024
QUESTION = b"GET / HTTP/1.1\r\nHost: ttmem\r\nConnection: close\r\n\r\n"


class Taker:
    """A writer whose reader takes everything at once, so that the server never has to wait."""

    def __init__(self) -> None:
        self.taken = 0
        self.own, self._other = socket.socketpair()

    def write(self, data: bytes) -> None:
        self.taken += len(data)

    async def drain(self) -> None:
        pass

    def close(self) -> None:
        self.own.close()
        self._other.close()

    def get_extra_info(self, name: str) -> socket.socket:
        return self.own


async def in_pieces() -> AsyncIterator[bytes]:
    for _ in range(PIECES):
        yield bytes(PIECE)


@pytest.mark.parametrize("whole", [True, False])
def test_who_takes_it_as_fast_as_it_comes_leaves_others_their_turn(whole: bool) -> None:
    turns = 0

    async def handle(request: Request) -> Response:
        nonlocal turns
        turns = 0
        return Response(bytes(PIECES * PIECE)) if whole else Response(in_pieces(), length=PIECES * PIECE)

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def ask() -> int:
        reader, writer = asyncio.StreamReader(), Taker()
        troubles: list[str] = []
        reader.feed_data(QUESTION)
        reader.feed_eof()
        beside = asyncio.create_task(others())
        await HttpServer(handle, troubles.append).connected(reader, writer)  # type: ignore[arg-type]
        beside.cancel()
        assert troubles == []
        return writer.taken

    assert asyncio.run(ask()) > PIECES * PIECE
    assert turns >= PIECES


# -- requests ----------------------------------------------------------------------------------------------------


def answers(*requests: bytes, most: int = 256, held: int = 0) -> list[int]:
    """The status of each request, sent one after the other on new connections, while ``held`` idle ones are open."""
    troubles: list[str] = []

    async def handle(request: Request) -> Response:
        return Response(request.path.encode())

    async def ask(path: str, request: bytes) -> int:
        reader, writer = await asyncio.open_unix_connection(path)
        try:
            writer.write(request)
            line = await reader.readline()
            return int(line.split()[1]) if line else 0
        finally:
            writer.close()

    async def act() -> list[int]:
        with tempfile.TemporaryDirectory(prefix="ttmem-", dir="/tmp") as folder:
            path = f"{folder}/api.sock"
            http = HttpServer(handle, troubles.append, most=most)
            server = await asyncio.start_unix_server(http.connected, path)
            idle = [await asyncio.open_unix_connection(path) for _ in range(held)]
            await asyncio.sleep(0)
            found = [await ask(path, request) for request in requests]
            for _, writer in idle:
                writer.close()
            http.close()
            server.close()
            return found

    found = asyncio.run(act())
    assert troubles == []
    return found


def get(target: str, *headers: str) -> bytes:
    return "\r\n".join([f"GET {target} HTTP/1.1", "Host: ttmem", "Connection: close", *headers, "", ""]).encode()


@pytest.mark.parametrize("target", ["//[", "http://[::1", "*", "no-slash", "/?" + "&".join("a=1" for _ in range(101))])
def test_a_target_that_makes_no_sense(target: str) -> None:
    assert answers(get(target), get("/health")) == [400, 200]


@pytest.mark.parametrize(
    "request_bytes",
    [
        get("/", "X-Long: " + "a" * 17_000),
        get("/", *(f"X-{number}: {'a' * 100}" for number in range(200))),
        get("/", *["X: y"] * 5000),
        get("/" + "a" * 17_000),
    ],
    ids=["one long header", "many headers", "many short headers", "a long target"],
)
def test_headers_above_the_limit(request_bytes: bytes) -> None:
    assert answers(request_bytes, get("/", "X-Long: " + "a" * 15_000)) == [431, 200]


def test_a_body_above_the_limit() -> None:
    body = b"POST / HTTP/1.1\r\nHost: ttmem\r\nConnection: close\r\nContent-Length: 70000\r\n\r\n" + bytes(70_000)
    assert answers(body) == [413]


def test_connections_of_one_user_are_half_of_all_at_most() -> None:
    assert answers(get("/"), most=8, held=3) == [200]
    assert answers(get("/"), get("/"), most=8, held=4) == [503, 503]
