# SPDX-License-Identifier: Apache-2.0
"""A small HTTP client for the API socket, used by all screens. It costs less than importing an HTTP library."""

from __future__ import annotations

import os

from ttmem.wire.endpoint import UntrustedServer, api_path, connect_any, search_paths

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping
    from typing import Any


_MOST_DIGITS = 18  # of a length


class ApiError(Exception):
    """The request failed, or the server rejected it; the message is for the user."""


class NoServer(ApiError):
    """No server listens on the socket."""


class OutOfReach(ApiError):
    """A server listens, but does not allow the connection or is not trusted."""


def api_paths(env: Mapping[str, str] = os.environ) -> list[str]:
    """Possible paths of the API socket: next to the event socket."""
    return [api_path(path) for path in search_paths(env)]


def get(path: str, *, socket_path: str | None = None, timeout: float = 10.0, method: str = "GET") -> bytes:
    """The body of a successful answer."""
    paths = [socket_path] if socket_path is not None else api_paths()
    try:
        if not any(map(os.path.exists, paths)):  # then the modules for a connection need not be loaded
            raise FileNotFoundError
        # A path that the user named is trusted; a path that was found may belong to any user.
        sock, used = connect_any(paths, timeout, check=socket_path is None)
    except (FileNotFoundError, ConnectionRefusedError):
        where = _where(paths)
        named = "" if socket_path is None else f" --socket {where}"
        raise NoServer(f"no ttmem server answers on {where}; start one with `ttmem serve{named}`") from None
    except PermissionError as error:
        whose = "ask for the group of that server (`ttmem serve --group NAME`), or start your own"
        raise OutOfReach(f"{_where([error.filename])}: you may not connect to it; {whose}") from None
    except UntrustedServer as error:
        elsewhere = "choose another place for server, programs and screens with TTMEM_SOCKET"
        raise OutOfReach(f"{error}; {elsewhere}") from None
    except OSError as error:
        raise ApiError(f"{_where([error.filename or paths[0]])}: {error.strerror or error}") from None
    used = _where([used])
    with sock:
        try:
            sock.sendall(f"{method} {path} HTTP/1.1\r\nHost: ttmem\r\nConnection: close\r\n\r\n".encode("ascii"))
            answer = _read_all(sock)
        except TimeoutError:
            raise ApiError(f"the server on {used} does not answer within {timeout:g} s; is it stopped?") from None
        except OSError as error:
            raise ApiError(f"the server on {used} went away: {error.strerror}") from None
    return _body(answer, used)


def get_json(path: str, *, socket_path: str | None = None, timeout: float = 10.0, method: str = "GET") -> Any:
    body = get(path, socket_path=socket_path, timeout=timeout, method=method)
    import json  # not loaded if there is no server

    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise ApiError(f"the program on {_asked(socket_path)} is not a ttmem server") from None


def get_document(path: str, schema: str | None, *, socket_path: str | None = None, timeout: float = 10.0) -> Any:
    """An answer that is a JSON object, with this schema if one is given."""
    found = get_json(path, socket_path=socket_path, timeout=timeout)
    if not isinstance(found, dict):
        where = _asked(socket_path)
        raise ApiError(f"the program on {where} is not a ttmem server: its answer is not a JSON object")
    if schema is not None and found.get("schema") != schema:
        where, spoken = _asked(socket_path), found.get("schema")
        raise ApiError(f"the server on {where} answers with {spoken}, not {schema}; it may be another version of ttmem")
    return found


# The exceptions that a screen raises for a document in which a field is missing or has another type.
MALFORMED = (
    *(LookupError, TypeError, ValueError, AttributeError, ArithmeticError),
    *(RecursionError, MemoryError, StopIteration),
)


def malformed(error: BaseException, command: str) -> str:
    """The message for such an error. It may be a defect of the screen, so the message explains how to report one."""
    return (
        f"the server's answer cannot be shown ({type(error).__name__}: {error}): is it a server of another version? "
        f"If not, please report this with the output of TTMEM_DEBUG=1 ttmem {command}"
    )


def _asked(socket_path: str | None) -> str:
    return _where(api_paths() if socket_path is None else [socket_path])


def _where(paths: list[str]) -> str:
    """Servers by their event sockets, which is how users name them.

    >>> _where(["/run/ttmem/ttmem.api.sock", "/tmp/ttmem-7/ttmem.api.sock"])
    '/run/ttmem/ttmem.sock or /tmp/ttmem-7/ttmem.sock'
    """
    stems = [path.removesuffix(".api.sock") for path in paths]
    return " or ".join(stem if os.path.exists(stem) else f"{stem}.sock" for stem in stems)


def _read_all(sock: socket.socket) -> bytes:
    pieces: list[bytes] = []
    while True:
        piece = sock.recv(1 << 20)
        if not piece:
            return b"".join(pieces)
        pieces.append(piece)


def _length(head: bytes) -> bytes | None:
    """The content length of the answer, if it has one."""
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length":
            return value.strip()
    return None


def _body(answer: bytes, used: str) -> bytes:
    head, found, body = answer.partition(b"\r\n\r\n")
    parts = head.split(b" ", 2)
    if not found or len(parts) < 2 or not parts[1].isdigit():
        raise ApiError(f"the program on {used} is not a ttmem server")
    length = _length(head)
    if length is not None and (not length.isdigit() or len(length) > _MOST_DIGITS):
        raise ApiError(f"the program on {used} is not a ttmem server")
    if length is not None and len(body) < int(length):
        raise ApiError(f"the answer of the server on {used} is cut off: {len(body)} of {int(length)} bytes came")
    if parts[1] != b"200":
        import json

        try:
            text = json.loads(body)["error"]
        except (ValueError, KeyError, TypeError, RecursionError):
            text = parts[1].decode("ascii", "replace")
        raise ApiError(f"the server reports: {text}")
    return body
