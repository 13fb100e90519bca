# SPDX-License-Identifier: Apache-2.0
"""Claims a socket path: never from a running server, always from a dead one, with an error if another file is there."""

from __future__ import annotations

import errno
import fcntl
import grp
import os
import socket
import stat
from collections.abc import Callable

from ttmem.recording.output_files import read_small
from ttmem.wire.endpoint import beside

BACKLOG = 1024


class ListenError(Exception):
    """The path cannot be used; the message has the reason and what to do."""


class Claim:
    """A listening socket and the path it owns."""

    def __init__(self, path: str, sock: socket.socket, lock: int | None) -> None:
        self.path = path
        self.sock = sock
        self._lock = lock
        self._inode = os.stat(path).st_ino

    def release(self) -> None:
        """Close, and remove the path if it is still ours."""
        self.sock.close()
        try:
            if os.lstat(self.path).st_ino == self._inode:
                os.unlink(self.path)
        except FileNotFoundError:
            pass
        if self._lock is not None:
            os.close(self._lock)


def group_id(name: str) -> int:
    try:
        return grp.getgrnam(name).gr_gid
    except KeyError:
        raise ListenError(f"there is no group {name!r}; make it with `groupadd {name}` or name another") from None


def claim(
    path: str, *, group: int | None = None, locked: bool = True, note: Callable[[str], None] = lambda text: None
) -> Claim:
    """Listen on a path. Only the owner may connect, or the group if one is given.

    ``note`` is called with a message if a folder had to be created.
    """
    if len(os.fsencode(path)) > 107:
        raise ListenError(f"the socket path {path!r} is longer than the 107 bytes Linux allows; choose a shorter one")
    folder = os.path.dirname(path) or "."
    if _prepare_folder(folder, group):
        note(f"created the folder {folder}")
    lock = _lock(beside(path, ".lock"), path) if locked else None
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    bound = False
    try:
        _clear(path)
        # Accepted sockets inherit the option, so it also applies to data that arrives before accept().
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        before = os.umask(0o177)
        try:
            sock.bind(path)
            bound = True
        finally:
            os.umask(before)
        if group is not None:
            os.chown(path, -1, group)
            os.chmod(path, 0o660)
        sock.listen(BACKLOG)
    except (OSError, ListenError) as error:
        sock.close()
        if bound:
            os.unlink(path)
        if lock is not None:
            os.close(lock)
        if isinstance(error, ListenError):
            raise
        raise ListenError(f"cannot listen on {path}: {error.strerror}; choose another path with --socket") from error
    return Claim(path, sock, lock)


def _prepare_folder(folder: str, group: int | None) -> bool:
    """Create a private folder if necessary; refuse one where another user could replace the socket.

    Returns whether it was created.
    """
    try:
        made = not os.path.isdir(folder)
        os.makedirs(folder, mode=0o700, exist_ok=True)
        info = os.stat(folder)
    except OSError as error:
        raise ListenError(f"cannot use the folder {folder}: {error.strerror}; choose another with --socket") from error
    others = info.st_mode & stat.S_IWOTH and not info.st_mode & stat.S_ISVTX
    if info.st_uid not in (0, os.getuid()) or others:
        raise ListenError(
            f"the folder {folder} belongs to uid {info.st_uid} with mode {stat.S_IMODE(info.st_mode):04o}: "
            f"another user could replace the socket; remove it or choose another path with --socket"
        )
    ours = made or (info.st_uid == os.getuid() and os.path.basename(folder).startswith("ttmem"))
    if group is not None and ours:
        try:
            os.chown(folder, -1, group)
            os.chmod(folder, 0o750)
        except OSError as error:
            raise ListenError(f"cannot give {folder} to group {group}: {error.strerror}; are you a member?") from error
    return made


def _lock(path: str, socket_path: str) -> int:
    """One server per path: two that start at the same time must not both find the socket stale."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise ListenError(f"cannot lock {path}: {error.strerror}; remove it or choose another --socket") from error
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        raise ListenError(
            f"a ttmem server already serves {socket_path}{_who(socket_path)}; use it, stop it, "
            f"or start this one with another --socket"
        ) from None
    return fd


def _who(socket_path: str) -> str:
    try:
        return f" (pid {int(read_small(beside(socket_path, '.pid'), 20))})"
    except (OSError, ValueError):
        return ""


def _clear(path: str) -> None:
    """Remove a socket without a listener; raise an error for anything else."""
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise ListenError(f"{path} exists and is not a socket; move it away or choose another path with --socket")
    probe = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    try:
        probe.connect(path)
    except OSError as error:
        # A full backlog (EAGAIN) and a lack of permission mean that there is a listener.
        if error.errno != errno.ECONNREFUSED:
            raise ListenError(f"another server holds {path} ({error.strerror}); it is left alone") from None
    else:
        raise ListenError(f"another server answers on {path}; it is left alone, stop it first or choose another path")
    finally:
        probe.close()
    os.unlink(path)
