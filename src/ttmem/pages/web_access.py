# SPDX-License-Identifier: Apache-2.0
"""Who may read the pages of `ttmem web`: checks of the token, of the Host header, and of where a request comes from.

A request needs the token: in its address, or in the cookie that the first answer sets. The Host header must name this
machine, because a page of another site can give its own name the address of this machine (DNS rebinding). A browser
states which site made a request (Origin, Sec-Fetch-Site): other sites may only link to the page.
"""

from __future__ import annotations

import hmac
import ipaddress
import secrets
from collections.abc import Iterable
from hashlib import sha256
from urllib.parse import urlsplit

from ttmem.server.http_server import HttpError, Request

_TOKEN_BYTES = 32
_LOOPBACK_NAMES = frozenset({"localhost"})


def new_token() -> str:
    """A token that cannot be guessed, of letters, digits, - and _."""
    return secrets.token_urlsafe(_TOKEN_BYTES)


class Access:
    """The checks of one server."""

    def __init__(
        self,
        token: str,
        *,
        loopback: bool,
        names: Iterable[str] = (),
        public_url: str | None = None,
        identity: str = "",
    ) -> None:
        """``names`` are names of this machine besides localhost. With ``loopback``, other addresses are refused.

        ``public_url`` is the address that a proxy gives the page. ``identity`` tells servers apart: a browser has the
        same cookies for all ports of a host.
        """
        self.token = token
        self.cookie = f"ttmem-{sha256(identity.encode()).hexdigest()[:8]}"
        self._loopback = loopback
        public = urlsplit(public_url or "")
        self._public_host = public.netloc.lower()
        self._secure = public.scheme == "https"
        names = [*names, *([public.hostname] if public.hostname else [])]
        self._names = _LOOPBACK_NAMES | {name.lower().rstrip(".") for name in names}

    def check(self, request: Request, *, page: bool) -> None:
        """Raise HttpError unless the request may be answered. ``page``: it is for the page itself."""
        host = request.headers.get("host", "")
        if not self.knows(host):
            raise HttpError(
                403, f"the request is for the host {host[:100]!r}, which is not a name of this machine; "
                "use the address that `ttmem web` printed, or name the host with --public-url"
            )  # fmt: skip
        if not _same_origin(request, {host.lower(), self._public_host}, linked=page):
            raise HttpError(403, "the request comes from a page of another site; only the page of ttmem may read this")
        if not self.has_token(request):
            raise HttpError(403, "the token is missing or wrong; open the address that `ttmem web` printed")

    def has_token(self, request: Request) -> bool:
        """Compared in constant time, so that the time of an answer tells nothing about the token."""
        offered = [value for name, value in _cookies(request.headers.get("cookie", "")) if name == self.cookie]
        if "token" in request.query:
            offered.append(request.query["token"])
        expected = self.token.encode()
        return any(hmac.compare_digest(value.encode("utf-8", "replace"), expected) for value in offered)

    def set_cookie(self) -> tuple[str, str]:
        """The header that stores the token in the browser, only for the folder of the page and not for scripts.

        Without a path, the browser takes the folder of the address that it asked for, also behind a proxy.
        """
        secure = "; Secure" if self._secure else ""
        return "set-cookie", f"{self.cookie}={self.token}; HttpOnly; SameSite=Strict{secure}"

    def knows(self, host: str) -> bool:
        """Whether a Host header names this machine. The port does not matter: ssh may forward another one.

        >>> access = Access("x", loopback=True)
        >>> [access.knows(host) for host in ("localhost:80", "[::1]:80", "127.0.0.1", "evil.example", "10.0.0.1", "")]
        [True, True, True, False, False, False]
        """
        name = _host_name(host)
        if name is None:
            return False
        if name in self._names:
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return False
        return address.is_loopback or not self._loopback


def _host_name(host: str) -> str | None:
    """The name in a Host header, without the port; None if it is not valid."""
    if not host or any(character in host for character in "/@?#\\ ,\t"):
        return None
    try:
        parts = urlsplit(f"//{host}")
        _ = parts.port
    except ValueError:
        return None
    return parts.hostname.rstrip(".") if parts.hostname else None


def _same_origin(request: Request, hosts: set[str], *, linked: bool) -> bool:
    """Whether a request was made by a page of these hosts, by a program, or by the user.

    With ``linked``, also by a link on a page of another site.
    """
    site = request.headers.get("sec-fetch-site")
    if site is not None and site not in ("same-origin", "none"):
        by_link = request.headers.get("sec-fetch-mode") == "navigate"
        whole = request.headers.get("sec-fetch-dest") == "document"  # not in a frame
        if not (linked and by_link and whole):
            return False
    origin = request.headers.get("origin")
    return origin is None or _origin_host(origin) in hosts


def _origin_host(origin: str) -> str | None:
    """The host of an Origin header; None if it has none, as for a file or a sandboxed frame."""
    try:
        return urlsplit(origin).netloc.lower() or None
    except ValueError:
        return None


def _cookies(header: str) -> list[tuple[str, str]]:
    found = []
    for part in header.split(";"):
        name, _, value = part.strip().partition("=")
        found.append((name, value))
    return found
