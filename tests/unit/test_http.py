# SPDX-License-Identifier: Apache-2.0
"""Answers over HTTP: a large one leaves others their turn, however fast it is taken."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator

import pytest

from ttmem.server.http import HttpServer, Request, Response

PIECES, PIECE = 40, 256 * 1024
QUESTION = b"GET / HTTP/1.1\r\nHost: ttmem\r\nConnection: close\r\n\r\n"


class Taker:
    """A writer whose reader takes everything at once, so that there is never anything to wait for."""

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
        reader, writer, troubles = asyncio.StreamReader(), Taker(), []
        reader.feed_data(QUESTION)
        reader.feed_eof()
        beside = asyncio.create_task(others())
        await HttpServer(handle, troubles.append).connected(reader, writer)  # type: ignore[arg-type]
        beside.cancel()
        assert troubles == []
        return writer.taken

    assert asyncio.run(ask()) > PIECES * PIECE
    assert turns >= PIECES
