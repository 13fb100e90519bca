# SPDX-License-Identifier: Apache-2.0
"""The live page of `ttmem web`: the page, its script and style, and the documents of the server."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from ttmem import __version__
from ttmem.pages.web_documents import WebDocuments
from ttmem.pages.web_shell import served_page
from ttmem.server.http_server import HttpError, Response

if TYPE_CHECKING:
    from ttmem.model.page_schema import LivePage
    from ttmem.pages.html_page import Bundle

FILES = {"app.js": "text/javascript; charset=utf-8", "app.css": "text/css; charset=utf-8"}


class LiveContent:
    """Serves the live page."""

    def __init__(self, bundle: Bundle, api: str | None, *, user: str, ssh: str | None, root: str = "/") -> None:
        """``api`` is the API socket, None for the usual ones; ``root`` the folder of a simulated machine."""
        self._bundle = bundle
        self._documents = WebDocuments(api, root=root)
        self._start: LivePage = {
            "ttmem": __version__,
            "host": socket.gethostname(),
            "user": user,
            "ssh": ssh,
            "file": None,
        }

    async def page(self) -> bytes:
        return served_page(f"ttmem: {self._start['host']}", {"page": "live", "live": self._start})

    async def answer(self, path: str, query: dict[str, str]) -> Response:
        if path in FILES:
            return file_response(self._bundle, path)
        folder, _, name = path.partition("/")
        if folder != "api":
            raise HttpError(404, f"there is no {path[:100]!r} here")
        return Response(await self._documents.answer(name, query))

    def tick(self) -> None:
        self._documents.tick()

    def close(self) -> None:
        self._documents.close()


def file_response(bundle: Bundle, name: str) -> Response:
    """The script or the style of the pages. Only these two names exist, so no path leads to another file."""
    text = bundle.script if name == "app.js" else bundle.style
    return Response(text.encode(), content_type=FILES[name])
