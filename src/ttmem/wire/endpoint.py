# SPDX-License-Identifier: Apache-2.0
"""Where the server listens, for server and clients alike, and who it is that listens there."""

from __future__ import annotations

import os
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping

LEGACY_PATH = "/tmp/tt_allocation_server.sock"
SYSTEM_PATH = "/run/ttmem/ttmem.sock"
_CREDENTIALS = struct.Struct("3i")


def search_paths(env: Mapping[str, str] = os.environ, user_id: int | None = None) -> list[str]:
    """The places a server may be, best first.

    >>> search_paths({"TTMEM_SOCKET": "/x/s.sock"})
    ['/x/s.sock']
    >>> search_paths({"XDG_RUNTIME_DIR": "/run/user/7"}, 7)
    ['/run/ttmem/ttmem.sock', '/run/user/7/ttmem/ttmem.sock', '/tmp/ttmem-7/ttmem.sock']
    """
    chosen = env.get("TTMEM_SOCKET")
    if chosen:
        return [chosen]
    paths = [SYSTEM_PATH]
    runtime = env.get("XDG_RUNTIME_DIR")
    if runtime:
        paths.append(os.path.join(runtime, "ttmem", "ttmem.sock"))
    paths.append(f"/tmp/ttmem-{os.getuid() if user_id is None else user_id}/ttmem.sock")
    return paths


def default_path(env: Mapping[str, str] = os.environ, user_id: int | None = None) -> str:
    """Where a server started by this user listens unless told otherwise."""
    paths = search_paths(env, user_id)
    if len(paths) > 1 and (os.getuid() if user_id is None else user_id) != 0:
        paths.remove(SYSTEM_PATH)
    return paths[0]


def api_path(path: str) -> str:
    """The API's socket, beside the events' socket.

    >>> api_path("/run/ttmem/ttmem.sock")
    '/run/ttmem/ttmem.api.sock'
    """
    return beside(path, ".api.sock")


def beside(path: str, suffix: str) -> str:
    """A companion file of a socket."""
    return (path[: -len(".sock")] if path.endswith(".sock") else path) + suffix


def peer_credentials(sock: socket.socket) -> tuple[int, int, int]:
    """(pid, user_id, gid) of the other end, as the kernel noted them at connect."""
    import socket

    return _CREDENTIALS.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))


class UntrustedServer(OSError):
    """Somebody else listens on the path."""


def trusted(user_id: int, path: str) -> bool:
    """Is a server of this user one to talk to: root's, our own, or a service user's in a folder that root gave it?"""
    if user_id in (0, os.getuid()):
        return True
    folder = os.path.dirname(os.path.abspath(path))
    try:
        here, above = os.stat(folder), os.stat(os.path.dirname(folder))
    except OSError:
        return False
    return here.st_uid == user_id and above.st_uid == 0 and not above.st_mode & 0o022


def connect(path: str, timeout: float | None = None, *, check: bool = True) -> socket.socket:
    """A connection to the server on a path, after a look at whose it is.

    A socket in /tmp may have been put there by anybody; what a workload allocates is not for everybody.
    """
    import socket  # only here: `ttmem smi` need not load it to find that there is no server

    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        sock.settimeout(timeout)
        sock.connect(path)
        user_id = peer_credentials(sock)[1]
        if check and not trusted(user_id, path):
            raise UntrustedServer(f"{path} belongs to uid {user_id}, which is neither root nor you; not talking to it")
    except BaseException:
        sock.close()
        raise
    return sock


def connect_any(paths: list[str], timeout: float | None = None, *, check: bool = True) -> tuple[socket.socket, str]:
    """A connection to the first server that answers. If none does, the error is the most telling one."""
    trouble: OSError | None = None
    for path in paths:
        try:
            return connect(path, timeout, check=check), path
        except OSError as error:
            gone = isinstance(error, (FileNotFoundError, ConnectionRefusedError))
            if error.strerror is not None:
                error.filename = path  # which the kernel does not say of a socket
            trouble = trouble or error if gone else error
    raise trouble or FileNotFoundError("no socket path to try")
