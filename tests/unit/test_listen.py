# SPDX-License-Identifier: Apache-2.0
"""Taking over a socket path: only from an ended server, and only where no other user can replace it."""

from __future__ import annotations

import contextlib
import gc
import os
import socket
import stat
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ttmem.server import listen
from ttmem.server.listen import Claim, ListenError, group_id

Claimer = Callable[..., Claim]


@pytest.fixture
def claim() -> Iterator[Claimer]:
    """Claims that are released when the test is over."""
    with contextlib.ExitStack() as claims:

        def take(path: Path, **keywords: object) -> Claim:
            found = listen.claim(str(path), **keywords)  # type: ignore[arg-type]
            claims.callback(found.release)
            return found

        yield take


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def descriptors() -> set[str]:
    """What each open descriptor of this process is."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):
            found.add(f"{name} {os.readlink(f'/proc/self/fd/{name}')}")
    return {entry for entry in found if not entry.endswith("/fd")}


@contextlib.contextmanager
def nothing_left_open() -> Iterator[None]:
    """Closed explicitly, not by the garbage collector, which may run late."""
    gc.collect()
    before = descriptors()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ResourceWarning)
        yield
        gc.collect()
    leaks = [str(warning.message) for warning in caught if issubclass(warning.category, ResourceWarning)]
    assert not leaks
    assert descriptors() == before


def test_a_free_path(folder: Path, claim: Claimer) -> None:
    path = folder / "a.sock"
    taken = claim(path)
    assert taken.path == str(path)
    assert mode(path) == 0o600, "only the owner may connect"
    assert taken.sock.getblocking() is False
    assert not os.get_inheritable(taken.sock.fileno())
    assert taken.sock.getsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED) == 1
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))


def test_the_umask_is_put_back(folder: Path, claim: Claimer) -> None:
    before = os.umask(0o022)
    try:
        claim(folder / "a.sock")
        assert os.umask(0o022) == 0o022
    finally:
        os.umask(before)


def test_a_missing_folder_is_made_private(folder: Path, claim: Claimer) -> None:
    claim(folder / "deep" / "er" / "a.sock")
    assert mode(folder / "deep" / "er") == 0o700


def test_release_gives_everything_back(folder: Path) -> None:
    path = folder / "a.sock"
    with nothing_left_open():
        listen.claim(str(path)).release()
    assert not path.exists()
    listen.claim(str(path)).release()


def test_release_of_a_path_that_is_gone(folder: Path) -> None:
    taken = listen.claim(str(folder / "a.sock"))
    (folder / "a.sock").unlink()
    taken.release()


def test_release_leaves_another_servers_socket(folder: Path) -> None:
    path = folder / "a.sock"
    taken = listen.claim(str(path))
    os.rename(path, folder / "moved.sock")  # keeps the inode in use, so the new one differs
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(path))
        taken.release()
        assert path.exists()


@pytest.mark.parametrize("locked", [True, False])
def test_a_stale_socket_is_replaced(folder: Path, claim: Claimer, locked: bool) -> None:
    path = folder / "a.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    old = path.stat().st_ino, path.stat().st_ctime_ns
    claim(path, locked=locked)
    assert (path.stat().st_ino, path.stat().st_ctime_ns) != old
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))


def test_a_stale_lock_file_does_not_matter(folder: Path, claim: Claimer) -> None:
    (folder / "a.lock").write_text("left behind")
    claim(folder / "a.sock")


def test_a_living_server_is_not_evicted(folder: Path) -> None:
    path = folder / "a.sock"
    with socket.socket(socket.AF_UNIX) as living:
        living.bind(str(path))
        living.listen()
        with nothing_left_open(), pytest.raises(ListenError, match="another server answers on"):
            listen.claim(str(path))
        assert path.exists()
        living.accept()[0].close()


def test_a_busy_server_is_alive(folder: Path) -> None:
    """Its backlog is full, so a connection cannot be made. That does not mean that it has ended."""
    path = folder / "a.sock"
    with socket.socket(socket.AF_UNIX) as living, contextlib.ExitStack() as clients:
        living.bind(str(path))
        living.listen(0)
        for _ in range(3):
            client = clients.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK))
            with contextlib.suppress(BlockingIOError):
                client.connect(str(path))
        with pytest.raises(ListenError, match="another server holds"):
            listen.claim(str(path))
        assert path.exists()


def test_one_server_per_path(folder: Path, claim: Claimer) -> None:
    path = folder / "a.sock"
    claim(path)
    with pytest.raises(ListenError, match=r"a ttmem server already serves .*a\.sock; use it, stop it, or start"):
        listen.claim(str(path))
    (folder / "a.pid").write_text("4711\n")
    with nothing_left_open(), pytest.raises(ListenError, match=r"already serves .* \(pid 4711\)"):
        listen.claim(str(path))
    (folder / "a.pid").write_text("rubbish")
    with pytest.raises(ListenError, match=r"already serves .*a\.sock; use it"):
        listen.claim(str(path))


def test_the_lock_holds_even_while_the_socket_looks_stale(folder: Path, claim: Claimer) -> None:
    path = folder / "a.sock"
    taken = listen.claim(str(path))
    path.unlink()
    with pytest.raises(ListenError, match="already serves"):
        listen.claim(str(path))
    taken.release()
    claim(path)


def test_a_lock_that_is_a_link_is_not_followed(folder: Path) -> None:
    (folder / "victim").write_text("precious")
    (folder / "a.lock").symlink_to(folder / "victim")
    with pytest.raises(ListenError, match=r"cannot lock .*a\.lock"):
        listen.claim(str(folder / "a.sock"))
    assert (folder / "victim").read_text() == "precious"


@pytest.mark.parametrize("squatter", ["file", "folder", "link"])
def test_a_squatted_path_is_reported(folder: Path, squatter: str) -> None:
    path = folder / "a.sock"
    if squatter == "file":
        path.write_text("precious")
    elif squatter == "folder":
        path.mkdir()
    else:
        path.symlink_to(folder / "nowhere")
    with nothing_left_open(), pytest.raises(ListenError, match=r"a\.sock exists and is not a socket; move it"):
        listen.claim(str(path))
    assert path.is_symlink() or path.exists()
    path.rmdir() if squatter == "folder" else path.unlink()
    listen.claim(str(path)).release()  # the lock was released


@pytest.mark.parametrize(("length", "fits"), [(107, True), (108, False)])
def test_how_long_a_path_may_be(folder: Path, length: int, fits: bool) -> None:
    path = str(folder / "x")
    path += "x" * (length - len(path))
    if fits:
        listen.claim(path, locked=False).release()
    else:
        with pytest.raises(ListenError, match="longer than the 107 bytes Linux allows; choose a shorter one"):
            listen.claim(path, locked=False)


def test_bytes_count_not_letters(folder: Path) -> None:
    with pytest.raises(ListenError, match="107 bytes"):
        listen.claim(str(folder / ("é" * 50)))


def test_a_folder_that_cannot_be(folder: Path) -> None:
    (folder / "file").write_text("")
    with pytest.raises(ListenError, match="cannot use the folder"):
        listen.claim(str(folder / "file" / "a.sock"))


def test_a_foreign_folder_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    foreign = folder / "theirs"
    foreign.mkdir(mode=0o755)
    if os.getuid() == 0:
        os.chown(foreign, 4321, -1)
    else:
        monkeypatch.setattr(os, "getuid", lambda: 4321)
    with pytest.raises(ListenError, match=r"belongs to uid \d+ with mode 0755: another user could replace the socket"):
        listen.claim(str(foreign / "a.sock"))
    assert list(foreign.iterdir()) == []


def test_an_open_folder_is_refused_unless_sticky(folder: Path, claim: Claimer) -> None:
    open_to_all = folder / "open"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    with pytest.raises(ListenError, match="mode 0777: another user could replace the socket"):
        claim(open_to_all / "a.sock")
    open_to_all.chmod(0o1777)  # as /tmp
    claim(open_to_all / "a.sock")


def test_a_group_may_connect(folder: Path, claim: Claimer) -> None:
    path = folder / "ttmem" / "a.sock"
    claim(path, group=os.getgid())
    assert mode(path) == 0o660
    assert path.stat().st_gid == os.getgid()
    assert mode(path.parent) == 0o750
    assert path.parent.stat().st_gid == os.getgid()


def test_a_group_may_connect_in_any_folder_that_claim_made(folder: Path, claim: Claimer) -> None:
    path = folder / "mine" / "a.sock"
    claim(path, group=os.getgid())
    assert mode(path) == 0o660
    assert mode(path.parent) & 0o010, "a socket in a folder that the group may not enter is of no use to it"


def test_a_folder_that_was_there_keeps_its_mode(folder: Path, claim: Claimer) -> None:
    (folder / "srv").mkdir(mode=0o755)
    claim(folder / "srv" / "a.sock", group=os.getgid())
    assert mode(folder / "srv") == 0o755


@pytest.mark.parametrize("name", ["ttmem", "other"])
def test_a_group_one_is_not_in(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """The kernel's error for a user who gives a file to a group of which they are not a member."""

    def refuse(*arguments: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "chown", refuse)
    path = folder / name / "a.sock"
    with nothing_left_open(), pytest.raises(ListenError, match="Operation not permitted"):
        listen.claim(str(path), group=os.getgid())
    assert not path.exists(), "no socket is left behind that nobody listens on"


def test_a_group_given_later_may_connect_too(folder: Path, claim: Claimer) -> None:
    """The folder is our own, created by an earlier server for its owner alone."""
    path = folder / "ttmem" / "a.sock"
    listen.claim(str(path)).release()
    assert mode(path.parent) == 0o700
    claim(path, group=os.getgid())
    assert mode(path) == 0o660
    assert mode(path.parent) & 0o010, "the group is let in, or the user is told that it is not"


def test_a_socket_that_cannot_be_given_to_the_group_is_removed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str, *ids: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "chown", refuse)
    path = folder / "a.sock"  # in an existing folder, so that the socket itself is refused
    with nothing_left_open(), pytest.raises(ListenError, match="Operation not permitted"):
        listen.claim(str(path), group=os.getgid())
    assert not path.exists()


def test_group_names() -> None:
    import grp

    entry = grp.getgrgid(os.getgid())
    assert group_id(entry.gr_name) == entry.gr_gid
    with pytest.raises(ListenError, match="there is no group 'no-such-group'; make it with `groupadd no-such-group`"):
        group_id("no-such-group")
