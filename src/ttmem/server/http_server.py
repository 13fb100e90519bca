# SPDX-License-Identifier: Apache-2.0
"""A small HTTP/1.1 server on asyncio streams, with h11 as the parser. GET and POST; request bodies are ignored."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

import h11

from ttmem.wire.endpoint import peer_credentials

IDLE_SECONDS = 75.0
_MAX_HEADER_BYTES = 16 * 1024
_MAX_BODY_BYTES = 64 * 1024
_PIECE_BYTES = 256 * 1024
_MAX_PARAMETERS = 100
_REFUSE_SECONDS = 2.0


_NO_HEADERS: Mapping[str, str] = MappingProxyType({})


class Request(NamedTuple):
    """A request and its user: ``user_id`` is None over TCP. Names of headers are in lower case."""

    method: str
    path: str
    query: dict[str, str]
    user_id: int | None
    headers: Mapping[str, str] = _NO_HEADERS


class Response(NamedTuple):
    """An answer. A body that is an iterator is sent piece by piece until it ends or the client disconnects."""

    body: bytes | AsyncIterator[bytes] = b""
    status: int = 200
    content_type: str = "application/json"
    length: int | None = None  # of all pieces, if that is known
    headers: tuple[tuple[str, str], ...] = ()


class HttpError(Exception):
    """A request that cannot be answered; the message is sent to the client."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


Handler = Callable[[Request], Awaitable[Response]]


def json_text(data: Any) -> str:
    return json.dumps(data, separators=(",", ":"))


def json_response(data: Any, status: int = 200) -> Response:
    return Response(json_text(data).encode() + b"\n", status)


async def rows_response(make: Callable[[], Mapping[str, object]]) -> Response:
    """A response whose text is created in a thread, so that the loop can serve other requests."""
    return await asyncio.to_thread(lambda: Response(_rows_text(make()).encode() + b"\n"))


def _rows_text(data: Mapping[str, object]) -> str:
    """The same as ``json_text``, row by row, because no other thread can run while the encoder works.

    >>> _rows_text({"host": "box", "chips": [{"chip": "77"}, {}], "core": {"x": 0, "segments": [{}, 1]}})
    '{"host":"box","chips":[{"chip":"77"},{}],"core":{"x":0,"segments":[{},1]}}'
    """
    parts = []
    for key, value in data.items():
        if isinstance(value, list):
            text = f"[{','.join([json_text(row) for row in value])}]"
        else:
            text = _rows_text(value) if isinstance(value, dict) else json_text(value)
        parts.append(f"{json_text(key)}:{text}")
    return f"{{{','.join(parts)}}}"


class HttpServer:
    """Serves one handler on any number of sockets."""

    def __init__(
        self,
        handler: Handler,
        report: Callable[[str], None],
        most: int = 256,
        headers: tuple[tuple[str, str], ...] = (),
    ) -> None:
        """``most`` is the limit of open connections; one user may have half of them. All answers have ``headers``."""
        self._handler = handler
        self._report = report
        self._most = most
        self._headers = headers
        self._tasks: dict[asyncio.Task[None], int | None] = {}
        self._closed = False

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """asyncio's callback for a new connection."""
        task = asyncio.current_task()
        assert task is not None
        sock = writer.get_extra_info("socket")
        user_id = peer_credentials(sock)[1] if sock.family == socket.AF_UNIX else None
        crowded = self._crowded(user_id)
        self._tasks[task] = user_id
        try:
            if crowded:
                await asyncio.wait_for(self._refuse(reader, writer, crowded), _REFUSE_SECONDS)
            else:
                await self._converse(reader, writer, user_id)
        except (ConnectionError, asyncio.TimeoutError, TimeoutError, asyncio.CancelledError):
            pass
        except Exception as error:  # an error of one request must not affect others
            self._report(f"API connection failed: {type(error).__name__}: {error}")
        finally:
            del self._tasks[task]
            writer.close()

    def close(self) -> None:
        """End all connections. What they ask from now on is not answered: the parts that would answer are closing."""
        self._closed = True
        for task in list(self._tasks):
            task.cancel()

    def _crowded(self, user_id: int | None) -> str | None:
        if len(self._tasks) >= self._most:
            return f"{self._most} connections are open, which is the limit; try again later"
        mine = sum(other == user_id for other in self._tasks.values())
        if mine >= max(1, self._most // 2):
            return f"{mine} connections of one user are open, which is the limit; close some"
        return None

    async def _refuse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, why: str) -> None:
        """Answer the first request with an error, and close."""
        connection = h11.Connection(h11.SERVER, max_incomplete_event_size=_MAX_HEADER_BYTES)
        head = await self._next_request(connection, reader)
        if head is not None:
            await self._send(connection, writer, _sorry(503, why), "GET")

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, user_id: int | None) -> None:
        connection = h11.Connection(h11.SERVER, max_incomplete_event_size=_MAX_HEADER_BYTES)
        while not self._closed:  # a cancellation can be lost in wait_for
            try:
                # The limit is for the whole request, because a request sent byte by byte would never end.
                head = await asyncio.wait_for(self._next_request(connection, reader), IDLE_SECONDS)
            except h11.RemoteProtocolError as error:
                if connection.our_state in (h11.IDLE, h11.SEND_RESPONSE):
                    answer = _sorry(error.error_status_hint, f"bad request: {error}")
                    await self._send(connection, writer, answer, "GET")
                return
            if head is None or self._closed:
                return
            method = head.method.decode("ascii", "replace")
            path = "?"
            try:
                path, query = _target(head)
                response = await self._handler(Request(method, path, query, user_id, _headers(head)))
            except HttpError as error:
                response = _sorry(error.status, str(error))
            except (KeyboardInterrupt, asyncio.CancelledError):
                raise
            except Exception as error:
                if self._closed:
                    return
                self._report(f"API {method} {path} failed: {type(error).__name__}: {error}")
                response = _sorry(500, "the server could not answer; its log has the reason")
            await self._send(connection, writer, response, method)
            if connection.our_state is h11.MUST_CLOSE or connection.their_state is not h11.DONE:
                return
            connection.start_next_cycle()

    async def _next_request(self, connection: h11.Connection, reader: asyncio.StreamReader) -> h11.Request | None:
        """The next request, its body read and dropped; None when the client is done."""
        head: h11.Request | None = None
        body = 0
        while True:
            event = connection.next_event()
            if event is h11.NEED_DATA:
                connection.receive_data(await reader.read(65536))
            elif isinstance(event, h11.Request):
                head = event
            elif isinstance(event, h11.Data):
                body += len(event.data)
                if body > _MAX_BODY_BYTES:
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
        headers += [*self._headers, *response.headers]
        length = len(body) if isinstance(body, bytes) else response.length
        if length is not None:
            headers.append(("content-length", str(length)))
        writer.write(_bytes(connection.send(h11.Response(status_code=response.status, headers=headers))))
        if method == "HEAD":
            pass
        elif isinstance(body, bytes):
            for start in range(
                0, len(body), _PIECE_BYTES
            ):  # a single piece would be copied each time a part of it is sent
                await self._send_piece(connection, writer, body[start : start + _PIECE_BYTES])
        else:
            async for piece in body:
                await self._send_piece(connection, writer, piece)
        writer.write(_bytes(connection.send(h11.EndOfMessage())))
        await writer.drain()

    async def _send_piece(self, connection: h11.Connection, writer: asyncio.StreamWriter, piece: bytes) -> None:
        writer.write(_bytes(connection.send(h11.Data(data=piece))))
        await writer.drain()
        await asyncio.sleep(0)  # drain() does not yield for a fast reader; let others run


def _target(head: h11.Request) -> tuple[str, dict[str, str]]:
    """Path and parameters of a request; HttpError if the target is invalid."""
    size = len(head.target) + sum(len(name) + len(value) + len(": \r\n") for name, value in head.headers)
    if size > _MAX_HEADER_BYTES:  # h11 limits only headers that come in several pieces
        raise HttpError(431, f"the request has {size} bytes of headers; the limit is {_MAX_HEADER_BYTES}")
    target = head.target.decode("ascii", "replace")
    try:
        parts = urlsplit(target)
        query = dict(parse_qsl(parts.query, keep_blank_values=True, max_num_fields=_MAX_PARAMETERS))
    except ValueError as error:
        raise HttpError(400, f"the request is for {target[:100]!r}, which is not a valid target: {error}") from None
    path = unquote(parts.path)
    if not path.startswith("/"):
        raise HttpError(400, f"the request is for {target[:100]!r}; a target begins with /")
    return path, query


def _headers(head: h11.Request) -> dict[str, str]:
    """The headers of a request. A header that was sent several times has all values, as in RFC 9110."""
    found: dict[str, str] = {}
    for raw_name, raw_value in head.headers:
        name, value = raw_name.decode("ascii"), raw_value.decode("latin-1")
        apart = "; " if name == "cookie" else ", "
        found[name] = f"{found[name]}{apart}{value}" if name in found else value
    return found


def _bytes(data: bytes | None) -> bytes:
    return data or b""


def _sorry(status: int, text: str) -> Response:
    return json_response({"error": text}, status)
