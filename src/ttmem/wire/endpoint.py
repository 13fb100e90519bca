# SPDX-License-Identifier: Apache-2.0
"""The socket paths of the server, for server and clients, and the check of who listens there."""

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
    """Possible socket paths of a server, best first.

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
    """The default socket path of a server that this user starts."""
    paths = search_paths(env, user_id)
    if len(paths) > 1 and (os.getuid() if user_id is None else user_id) != 0:
        paths.remove(SYSTEM_PATH)
    return paths[0]


def api_path(path: str) -> str:
    """The path of the API socket, next to the event socket.

    >>> api_path("/run/ttmem/ttmem.sock")
    '/run/ttmem/ttmem.api.sock'
    """
    return beside(path, ".api.sock")


def beside(path: str, suffix: str) -> str:
    """The path of a file that belongs to a socket, next to it."""
    return (path[: -len(".sock")] if path.endswith(".sock") else path) + suffix


def peer_credentials(sock: socket.socket) -> tuple[int, int, int]:
    """(pid, user_id, gid) of the other end, as the kernel noted them at connect."""
    import socket

    return _CREDENTIALS.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))


class UntrustedServer(OSError):
    """An untrusted user listens on the path."""


def trusted(user_id: int, path: str) -> bool:
    """Whether a server of this user is trusted: root, ourselves, or a service user in a folder that root gave to it."""
    if user_id in (0, os.getuid()):
        return True
    folder = os.path.dirname(os.path.abspath(path))
    try:
        here, above = os.stat(folder), os.stat(os.path.dirname(folder))
    except OSError:
        return False
    return here.st_uid == user_id and above.st_uid == 0 and not above.st_mode & 0o022


def connect(path: str, timeout: float | None = None, *, check: bool = True) -> socket.socket:
    """A connection to the server on a path, after a check of its user.

    Any user can create a socket in /tmp, and the allocations of a workload must not be sent to other users.
    """
    import socket  # imported here, so that `ttmem smi` does not load it if there is no server

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
    """A connection to the first server that answers. If none answers, the most informative error is raised."""
    trouble: OSError | None = None
    for path in paths:
        try:
            return connect(path, timeout, check=check), path
        except OSError as error:
            gone = isinstance(error, (FileNotFoundError, ConnectionRefusedError))
            if error.strerror is not None:
                error.filename = path  # the kernel does not set it for a socket
            trouble = trouble or error if gone else error
    raise trouble or FileNotFoundError("no socket path to try")
