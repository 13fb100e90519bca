# SPDX-License-Identifier: Apache-2.0
"""Opens output files, and refuses to overwrite files that ttmem did not write itself.

An existing file is used only if it is empty or of the same kind. In folders that others may write to, another user
could have created a link or a pipe with the name. So recordings and pid files are written only to regular files of the
same user. Problems raise an ``OSError`` whose ``strerror`` describes what exists and what to do.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
import tempfile
from typing import NamedTuple, TextIO

from ttmem.recording.blocks import FILE_MAGIC

_PROBED_BYTES = 256  # at the beginning of a file
_ELSEWHERE = "name another file, or delete this one first"
_DESCRIPTORS = ("/dev/", "/proc/")  # /dev/stdout, and /dev/fd/63 of a shell's >(command)
_TYPES = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class FileKind(NamedTuple):
    """A kind of file that ttmem writes, and its first bytes."""

    name: str
    begins: re.Pattern[bytes]


RECORDING = FileKind("a recording", re.compile(re.escape(FILE_MAGIC)))
PAGE_MARK = "<!doctype html><!-- ttmem page -->"  # how a page begins
PAGE = FileKind("a page of ttmem", re.compile(re.escape(PAGE_MARK.encode())))
RUN_REPORT = FileKind("a report of `ttmem run`", re.compile(rb'\s*\{\s*"schema"\s*:\s*"ttmem\.run/'))


def open_recording(path: str) -> int:
    """A descriptor of an empty recording that only its owner can read. Never a file of another user, or a link."""
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except FileExistsError:
        pass
    fd = _open_regular(path, os.O_RDWR | os.O_NOFOLLOW)
    try:
        found = os.fstat(fd)
        if found.st_uid != os.geteuid():
            raise _refusal(path, f"it belongs to another user, uid {found.st_uid}")
        if found.st_nlink > 1:
            raise _refusal(path, "it is a hard link: the file also has another name")
        _check_kind(fd, path, RECORDING)
        os.ftruncate(fd, 0)
    except BaseException:
        os.close(fd)
        raise
    return fd


def open_report(path: str, kind: FileKind) -> int:
    """A descriptor to write a report to; the file keeps its contents until ``overwrite``.

    Pipes and devices that the user names are used as they are, if they have a reader.
    """
    if os.path.abspath(path).startswith(_DESCRIPTORS):  # may be a file that other processes also write to
        return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    except FileExistsError:
        pass
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        raise _refusal(path, "it is a symbolic link to a file that does not exist") from None
    if stat.S_ISFIFO(mode):
        return _open_pipe(path)
    if stat.S_ISCHR(mode):
        return os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOCTTY)
    fd = _open_regular(path, os.O_RDWR)
    try:
        _check_kind(fd, path, kind)
    except BaseException:
        os.close(fd)
        raise
    return fd


def overwrite(fd: int) -> TextIO:
    """The descriptor as a file without its old contents."""
    if stat.S_ISREG(os.fstat(fd).st_mode) and not fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_APPEND:
        os.ftruncate(fd, 0)
    return open(fd, "w", encoding="utf-8")


def check_replaceable(path: str, kind: FileKind) -> None:
    """Raise an error if something exists that a new file of this kind must not replace."""
    try:
        fd = _open_regular(path, os.O_RDONLY)
    except FileNotFoundError:
        return
    try:
        _check_kind(fd, path, kind)
    finally:
        os.close(fd)


def write_atomically(path: str, text: str, mode: int = 0o644) -> None:
    """Replace whatever has this name by a new file. A link or a pipe is replaced, never written to."""
    folder, name = os.path.split(path)
    fd, scratch = tempfile.mkstemp(prefix=f".{name}.", dir=folder or ".")
    try:
        with open(fd, "w", encoding="utf-8") as file:
            file.write(text)
            os.fchmod(fd, mode)
        os.replace(scratch, path)
    except BaseException:
        os.unlink(scratch)
        raise


def read_small(path: str, size: int) -> str:
    """The beginning of a file that another user could have replaced by a link or a pipe."""
    fd = _open_regular(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        return os.read(fd, size).decode("ascii", "replace")
    finally:
        os.close(fd)


def _open_regular(path: str, flags: int) -> int:
    """Checks the file before opening, because opening a device may have effects, and after, because it may change."""
    follow = not flags & os.O_NOFOLLOW
    _check_type(os.stat(path, follow_symlinks=follow), path)
    try:
        fd = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError as error:
        raise (_refusal(path, "it is a symbolic link") if error.errno == errno.ELOOP else error) from None
    try:
        _check_type(os.fstat(fd), path)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _open_pipe(path: str) -> int:
    try:
        fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ENXIO:
            raise OSError(error.errno, "it is a named pipe without a reader; start the reader first", path) from None
        raise
    os.set_blocking(fd, True)
    return fd


def _check_type(found: os.stat_result, path: str) -> None:
    if not stat.S_ISREG(found.st_mode):
        what = _TYPES.get(stat.S_IFMT(found.st_mode), "no regular file")
        raise OSError(errno.EEXIST, f"it is {what}; name a regular file", path)


def _check_kind(fd: int, path: str, kind: FileKind) -> None:
    head = os.pread(fd, _PROBED_BYTES, 0)
    if head and not kind.begins.match(head):
        begin = head[:20].decode("utf-8", "backslashreplace")
        raise _refusal(path, f"ttmem did not write it: it begins with {begin!r} and is not {kind.name}")


def _refusal(path: str, why: str) -> OSError:
    return OSError(errno.EEXIST, f"{why}; {_ELSEWHERE}", path)
