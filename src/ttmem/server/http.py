# SPDX-License-Identifier: Apache-2.0
"""A small HTTP/1.1 server on asyncio streams: h11 parses, routes answer. GET and POST, no bodies, no surprises."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

import h11

from ttmem.wire.endpoint import peer

IDLE_SECONDS = 75.0
_MAX_HEADERS = 16 * 1024
_MAX_BODY = 64 * 1024
_PIECE = 256 * 1024


class Request(NamedTuple):
    """What was asked, and by whom: ``uid`` is None when the asker came over TCP."""

    method: str
    path: str
    query: dict[str, str]
    uid: int | None


class Response(NamedTuple):
    """An answer; a body given as an iterator is sent piece by piece until it ends or the asker leaves."""

    body: bytes | AsyncIterator[bytes] = b""
    status: int = 200
    content_type: str = "application/json"
    length: int | None = None  # of all pieces, if that is known


class HttpError(Exception):
    """A request that cannot be answered; the text goes to the asker."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


Handler = Callable[[Request], Awaitable[Response]]


def json_text(data: Any) -> str:
    return json.dumps(data, separators=(",", ":"))


def json_response(data: Any, status: int = 200) -> Response:
    return Response(json_text(data).encode() + b"\n", status)


class HttpServer:
    """Serves one handler on any number of sockets."""

    def __init__(self, handler: Handler, report: Callable[[str], None]) -> None:
        self._handler = handler
        self._report = report
        self._tasks: set[asyncio.Task[None]] = set()

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """asyncio's callback for a new connection."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._converse(reader, writer)
        except (ConnectionError, asyncio.TimeoutError, TimeoutError, asyncio.CancelledError):
            pass
        except Exception as error:  # one asker's trouble is nobody else's
            self._report(f"API connection failed: {type(error).__name__}: {error}")
        finally:
            self._tasks.discard(task)
            writer.close()

    def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sock = writer.get_extra_info("socket")
        uid = peer(sock)[1] if sock.family == socket.AF_UNIX else None
        connection = h11.Connection(h11.SERVER, max_incomplete_event_size=_MAX_HEADERS)
        while True:
            try:
                head = await self._next_request(connection, reader)
            except h11.RemoteProtocolError as error:
                if connection.our_state in (h11.IDLE, h11.SEND_RESPONSE):
                    await self._send(connection, writer, _sorry(400, f"bad request: {error}"), "GET")
                return
            if head is None:
                return
            parts = urlsplit(head.target.decode("ascii", "replace"))
            method = head.method.decode("ascii", "replace")
            query = dict(parse_qsl(parts.query, keep_blank_values=True))
            try:
                response = await self._handler(Request(method, unquote(parts.path), query, uid))
            except HttpError as error:
                response = _sorry(error.status, str(error))
            except (KeyboardInterrupt, asyncio.CancelledError):
                raise
            except Exception as error:
                self._report(f"API {method} {parts.path} failed: {type(error).__name__}: {error}")
                response = _sorry(500, "the server failed to answer; its log says why")
            await self._send(connection, writer, response, method)
            if connection.our_state is h11.MUST_CLOSE or connection.their_state is not h11.DONE:
                return
            connection.start_next_cycle()

    async def _next_request(self, connection: h11.Connection, reader: asyncio.StreamReader) -> h11.Request | None:
        """The next request, its body read and dropped; None when the asker is done."""
        head: h11.Request | None = None
        body = 0
        while True:
            event = connection.next_event()
            if event is h11.NEED_DATA:
                data = await asyncio.wait_for(reader.read(65536), IDLE_SECONDS)
                connection.receive_data(data)
            elif isinstance(event, h11.Request):
                head = event
            elif isinstance(event, h11.Data):
                body += len(event.data)
                if body > _MAX_BODY:
                    raise h11.RemoteProtocolError("the body is too large", error_status_hint=413)
            elif isinstance(event, h11.EndOfMessage):
                return head
            else:
                return None

    async def _send(
        self, connection: h11.Connection, writer: asyncio.StreamWriter, response: Response, method: str
    ) -> None:
        body = response.body
        headers = [("content-type", response.content_type), ("cache-control", "no-store")]
        length = len(body) if isinstance(body, bytes) else response.length
        if length is not None:
            headers.append(("content-length", str(length)))
        writer.write(_bytes(connection.send(h11.Response(status_code=response.status, headers=headers))))
        if method == "HEAD":
            pass
        elif isinstance(body, bytes):
            for start in range(0, len(body), _PIECE):  # all at once would be copied anew as often as some of it is sent
                await self._send_piece(connection, writer, body[start : start + _PIECE])
        else:
            async for piece in body:
                await self._send_piece(connection, writer, piece)
        writer.write(_bytes(connection.send(h11.EndOfMessage())))
        await writer.drain()

    async def _send_piece(self, connection: h11.Connection, writer: asyncio.StreamWriter, piece: bytes) -> None:
        writer.write(_bytes(connection.send(h11.Data(data=piece))))
        await writer.drain()
        await asyncio.sleep(0)  # for a reader that keeps up there is nothing to wait for, and others have their turn


def _bytes(data: bytes | None) -> bytes:
    return data or b""


def _sorry(status: int, text: str) -> Response:
    return json_response({"error": text}, status)
