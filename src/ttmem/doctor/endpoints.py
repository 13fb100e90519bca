# SPDX-License-Identifier: Apache-2.0
"""The sockets where a server may listen, and what is found at each."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, NamedTuple, cast

from ttmem.wire.api_client import ApiError, get_json
from ttmem.wire.endpoint import connect, peer_credentials, trusted

if TYPE_CHECKING:
    from ttmem.model.schema import Health

SERVER, NOTHING, STALE, FOREIGN, OTHER, CLOSED, SILENT, IN_THE_WAY = (
    "server", "nothing", "stale", "foreign", "other", "closed", "silent", "in the way"
)  # fmt: skip
_SECONDS = 0.5


class Listener(NamedTuple):
    """What is at the path of a socket.

    ``pid`` and ``user_id`` are of the listener, or of the file's owner without one.
    """

    state: str
    pid: int | None = None
    user_id: int | None = None
    why: str | None = None


class Endpoint(NamedTuple):
    """The two sockets of a server; ``event`` is None if only the API socket was given."""

    event: str | None
    api: str
    state: str
    pid: int | None
    user_id: int | None
    why: str | None
    health: Health | None

    @property
    def path(self) -> str:
        return self.event or self.api


def probe(event: str | None, api: str, *, named: bool = False) -> Endpoint:
    """Find out who listens there. A server that the user ``named`` may belong to any user."""
    found, health = listener(api, named=named), None
    if found.state == OTHER:
        found, health = _greet(api, found)
    elif found.pid is None and found.state in (NOTHING, FOREIGN) and event is not None:
        found = listener(event)  # a server without an API is not a ttmem server
    return Endpoint(event, api, *found, health)


def _greet(api: str, found: Listener) -> tuple[Listener, Health | None]:
    try:
        answer = get_json("/health", socket_path=api, timeout=_SECONDS)
    except (ApiError, ValueError) as error:
        state = SILENT if "does not answer" in str(error) else OTHER
        return found._replace(state=state, why=str(error)), None
    if not isinstance(answer, dict) or "version" not in answer or "pid" not in answer:
        return found._replace(why=f"the program on {api} is not a ttmem server"), None
    return found._replace(state=SERVER), cast("Health", answer)


def listener(path: str, *, named: bool = False) -> Listener:
    """What is at the path of a socket; OTHER is a listener that accepts a connection."""
    try:
        with connect(path, _SECONDS, check=False) as sock:
            pid, user_id, _ = peer_credentials(sock)
    except OSError as error:
        return _silent(path, error)
    if not named and not trusted(user_id, path):
        return Listener(FOREIGN, pid or None, user_id, f"uid {user_id} listens there, which is neither root nor you")
    return Listener(OTHER, pid or None, user_id)


def _silent(path: str, error: OSError) -> Listener:
    """Why a connection failed."""
    owner = _owner(path)
    if isinstance(error, FileNotFoundError) and owner is None:
        folder = os.path.dirname(os.path.abspath(path))
        user_id = _owner(folder)
        if user_id is not None and user_id not in (0, os.getuid()) and not trusted(user_id, path):
            return Listener(
                FOREIGN, None, user_id, f"its folder {folder} belongs to uid {user_id}, neither root nor you"
            )
        return Listener(NOTHING)
    if isinstance(error, PermissionError):
        return Listener(CLOSED, None, owner, f"you may not connect to it; it belongs to uid {owner}")
    if isinstance(error, (TimeoutError, BlockingIOError)):
        return Listener(SILENT, None, owner, "a program listens, but does not answer")
    try:
        is_socket = stat.S_ISSOCK(os.stat(path).st_mode)
    except OSError:
        is_socket = False
    if not is_socket:
        return Listener(IN_THE_WAY, None, owner, "it is not a socket")
    if isinstance(error, ConnectionRefusedError):
        return Listener(STALE, None, owner, "no program listens there any more")
    return Listener(OTHER, None, owner, error.strerror or str(error))


def _owner(path: str) -> int | None:
    try:
        return os.lstat(path).st_uid
    except OSError:
        return None
