# SPDX-License-Identifier: Apache-2.0
"""`ttmem web`: listens on TCP, and answers with the page, its script and style, and the documents that it reads."""

from __future__ import annotations

import asyncio
import errno
import getpass
import os
import signal
import socket
from collections.abc import Callable
from ipaddress import ip_address
from typing import NamedTuple, Protocol
from urllib.parse import urlsplit

from ttmem.pages.web_access import Access, new_token
from ttmem.pages.web_shell import refused_page
from ttmem.server.http_server import HttpError, HttpServer, Request, Response

_MOST_CONNECTIONS = 128  # half of them for the pages, because they count as those of one user
_TICK_SECONDS = 0.5
HEADERS = (
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cross-origin-opener-policy", "same-origin"),
)


class WebError(Exception):
    """The page cannot be served; the message has the reason and what to do."""


class Content(Protocol):
    """What is served, after the checks: the live page, or the report of a recording."""

    async def page(self) -> bytes:
        """The HTML text of the page."""

    async def answer(self, path: str, query: dict[str, str]) -> Response:
        """Anything else; HttpError if there is no such path. Paths have no slash in front."""

    def tick(self) -> None:
        """Called twice a second."""

    def close(self) -> None: ...


class Address(NamedTuple):
    """Where the page is served."""

    host: str
    port: int
    public_url: str | None = None  # the address that a proxy gives the page

    @property
    def loopback(self) -> bool:
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    @property
    def url(self) -> str:
        if self.public_url is not None:
            return self.public_url.rstrip("/") + "/"
        name = self.host
        try:
            address = ip_address(self.host)
            if address.is_unspecified:
                name = socket.gethostname()
            elif address.version == 6:
                name = f"[{self.host}]"
        except ValueError:
            pass
        return f"http://{name}:{self.port}/"


def ssh_command(port: int) -> str:
    """The command with which the page is reached from another machine."""
    try:
        user = f"{getpass.getuser()}@"
    except (KeyError, OSError):
        user = ""
    return f"ssh -L {port}:127.0.0.1:{port} {user}{socket.gethostname()}"


def listen(host: str, port: int) -> socket.socket:
    """A socket on an address; WebError if it is in use, or not an address of this machine."""
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (OSError, UnicodeError):
        raise WebError(f"--host: {host!r} is not an address or a name of this machine") from None
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(where)
        sock.listen(socket.SOMAXCONN)
    except OSError as error:
        sock.close()
        if error.errno == errno.EADDRINUSE:
            text = f"port {port} of {host} is in use; choose another with --port, or any free one with --port 0"
        elif error.errno == errno.EACCES:
            text = f"you may not listen on port {port}; choose one above 1023 with --port"
        elif error.errno == errno.EADDRNOTAVAIL:
            text = f"--host: {host} is not an address of this machine"
        else:
            text = f"cannot listen on {host}:{port}: {error.strerror or error}"
        raise WebError(text) from None
    sock.setblocking(False)
    return sock


class WebServer:
    """Serves one page. Everything that is asked for passes the checks of `Access` first."""

    def __init__(self, content: Content, sock: socket.socket, *, host: str, public_url: str | None = None) -> None:
        port = sock.getsockname()[1]
        self.address = Address(host, port, public_url)
        self._content = content
        self._sock = sock
        self._prefix = urlsplit(public_url).path.rstrip("/") if public_url is not None else ""
        self.access = Access(
            new_token(),
            loopback=self.address.loopback,
            names=[] if self.address.loopback else [host, socket.gethostname(), socket.getfqdn()],
            public_url=public_url,
            identity=f"{socket.gethostname()} {port} {os.getuid()}",
        )

    @property
    def url(self) -> str:
        """The address of the page with its token."""
        return f"{self.address.url}?token={self.access.token}"

    async def run(self, ready: Callable[[], None], ended: Callable[[], bool], warn: Callable[[str], None]) -> None:
        """Serve until a signal comes, or ``ended`` is true."""
        http = HttpServer(self.handle, warn, most=_MOST_CONNECTIONS, headers=HEADERS)
        server = await asyncio.start_server(http.connected, sock=self._sock)
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, stop.set)
        ready()
        try:
            while not stop.is_set() and not ended():
                try:
                    await asyncio.wait_for(stop.wait(), _TICK_SECONDS)
                except (asyncio.TimeoutError, TimeoutError):
                    self._content.tick()
        finally:
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                loop.remove_signal_handler(number)
            server.close()
            http.close()
            self._content.close()

    async def handle(self, request: Request) -> Response:
        path = request.path
        if self._prefix and (path + "/").startswith(self._prefix + "/"):  # a proxy may leave it in place
            path = path[len(self._prefix) :] or "/"
        page = path == "/"
        if request.method not in ("GET", "HEAD"):
            raise HttpError(405, f"{path[:100]} takes GET, not {request.method[:20]}: the page changes nothing")
        try:
            self.access.check(request, page=page)
        except HttpError as error:
            if not page:
                raise
            return Response(refused_page(str(error)), error.status, "text/html; charset=utf-8")
        if page and "token" in request.query:  # the token leaves the address bar
            return Response(status=303, headers=(("location", "./"), self.access.set_cookie()))
        if page:
            return Response(await self._content.page(), content_type="text/html; charset=utf-8")
        return await self._content.answer(path[1:], {k: v for k, v in request.query.items() if k != "token"})
