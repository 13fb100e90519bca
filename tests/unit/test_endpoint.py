# SPDX-License-Identifier: Apache-2.0
"""Paths of a server's socket, and which owners are trusted."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from ttmem.wire import endpoint
from ttmem.wire.endpoint import UntrustedServer, api_path, beside, connect, connect_any, default_path, search_paths


@pytest.fixture
def listening(folder: Path) -> Iterator[str]:
    path = str(folder / "live.sock")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.bind(path)
        sock.listen()
        yield path


@pytest.fixture
def stale(folder: Path) -> str:
    path = str(folder / "stale.sock")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.bind(path)
    return path


def test_a_named_socket_is_the_only_one() -> None:
    env = {"TTMEM_SOCKET": "/x/y.sock", "XDG_RUNTIME_DIR": "/run/user/7"}
    assert search_paths(env, 7) == ["/x/y.sock"]
    assert default_path(env, 7) == default_path(env, 0) == "/x/y.sock"


@pytest.mark.parametrize("socket_variable", [{}, {"TTMEM_SOCKET": ""}])
def test_search_order(socket_variable: dict[str, str]) -> None:
    env = {**socket_variable, "XDG_RUNTIME_DIR": "/run/user/7"}
    assert search_paths(env, 7) == [
        "/run/ttmem/ttmem.sock",
        "/run/user/7/ttmem/ttmem.sock",
        "/tmp/ttmem-7/ttmem.sock",
    ]
    assert search_paths({}, 7) == ["/run/ttmem/ttmem.sock", "/tmp/ttmem-7/ttmem.sock"]
    assert search_paths({}) == ["/run/ttmem/ttmem.sock", f"/tmp/ttmem-{os.getuid()}/ttmem.sock"]


def test_default_path_is_the_users_own_unless_root() -> None:
    env = {"XDG_RUNTIME_DIR": "/run/user/7"}
    assert default_path(env, 7) == "/run/user/7/ttmem/ttmem.sock"
    assert default_path({}, 7) == "/tmp/ttmem-7/ttmem.sock"
    assert default_path({}, 0) == "/run/ttmem/ttmem.sock"
    assert default_path({"TTMEM_SOCKET": endpoint.SYSTEM_PATH}, 7) == endpoint.SYSTEM_PATH


def test_companions() -> None:
    assert endpoint.LEGACY_PATH == "/tmp/tt_allocation_server.sock"
    assert api_path("/a/b.sock") == "/a/b.api.sock"
    assert api_path("/a/b") == "/a/b.api.sock"
    assert beside("/a/b.sock", ".pid") == "/a/b.pid"
    assert beside("/a.sock/b", ".lock") == "/a.sock/b.lock"


def test_peer_is_who_the_kernel_says() -> None:
    left, right = socket.socketpair()
    with left, right:
        assert endpoint.peer_credentials(left) == (os.getpid(), os.getuid(), os.getgid())


def test_connect(listening: str) -> None:
    with connect(listening, 1.5) as sock:
        assert sock.gettimeout() == 1.5
        assert not os.get_inheritable(sock.fileno())


def test_connect_to_nobody(stale: str, folder: Path) -> None:
    with pytest.raises(ConnectionRefusedError):
        connect(stale)
    with pytest.raises(FileNotFoundError):
        connect(str(folder / "none.sock"))


def test_a_strangers_server_is_not_talked_to(listening: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stranger = os.getuid() + 4321
    monkeypatch.setattr(endpoint, "peer_credentials", lambda sock: (1, stranger, 1))
    with pytest.raises(UntrustedServer, match=f"belongs to uid {stranger}, which is neither root nor you"):
        connect(listening)
    connect(listening, check=False).close()
    for friend in (0, os.getuid()):
        monkeypatch.setattr(endpoint, "peer_credentials", lambda sock, friend=friend: (1, friend, 1))
        connect(listening).close()


@pytest.mark.parametrize(
    ("folder_user_id", "above_user_id", "above_mode", "trusted"),
    [
        (4321, 0, 0o40755, True),  # /run/ttmem, created by systemd for its service user
        (4321, 0, 0o41777, False),  # a folder in /tmp
        (4321, 0, 0o40775, False),  # a group could replace the folder
        (4321, 1234, 0o40755, False),  # in the home of a user
        (1234, 0, 0o40755, False),  # the owner of the socket is not the owner of the folder
    ],
)
def test_a_service_users_server(
    folder_user_id: int, above_user_id: int, above_mode: int, trusted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {
        "/run/ttmem": SimpleNamespace(st_uid=folder_user_id, st_mode=0o40750),
        "/run": SimpleNamespace(st_uid=above_user_id, st_mode=above_mode),
    }
    monkeypatch.setattr(os, "stat", files.__getitem__)
    monkeypatch.setattr(os, "getuid", lambda: 999)
    assert endpoint.trusted(4321, "/run/ttmem/ttmem.sock") is trusted


def test_nobody_is_trusted_in_a_folder_that_is_gone(folder: Path) -> None:
    assert not endpoint.trusted(os.getuid() + 4321, str(folder / "gone" / "ttmem.sock"))


def test_the_first_that_answers(listening: str, stale: str, folder: Path) -> None:
    sock, path = connect_any([str(folder / "none.sock"), stale, listening])
    sock.close()
    assert path == listening


def test_the_most_telling_error(listening: str, stale: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = str(folder / "none.sock")
    with pytest.raises(FileNotFoundError):
        connect_any([])
    with pytest.raises(FileNotFoundError):
        connect_any([missing])
    with pytest.raises((ConnectionRefusedError, FileNotFoundError)):
        connect_any([missing, stale])
    monkeypatch.setattr(endpoint, "peer_credentials", lambda sock: (1, os.getuid() + 4321, 1))
    for paths in ([missing, listening, stale], [listening, missing]):
        with pytest.raises(UntrustedServer):
            connect_any(paths)


def test_a_path_that_cannot_be_is_an_os_error(folder: Path) -> None:
    with pytest.raises(OSError, match="too long"):
        connect(str(folder / ("x" * 200)))
    (folder / "file").write_text("")
    with pytest.raises(OSError, match="refused") as caught:
        connect(str(folder / "file"))
    assert caught.value.errno == errno.ECONNREFUSED
