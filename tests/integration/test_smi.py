# SPDX-License-Identifier: Apache-2.0
"""`ttmem smi` as a user runs it: in a pipe, on a terminal, with a server, without one, and with one that is stuck."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import pty
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from fcntl import ioctl
from pathlib import Path
from typing import Any

import pytest

from tests import machines
from tests.support import PATIENCE, LegacyClient, Server, process_state, wait_until
from ttmem.cli import smi as smi_command

SMI = [sys.executable, "-m", "ttmem", "smi"]
_OURS = ("TTMEM_SOCKET", "COLUMNS", "NO_COLOR", "LC_ALL", "LC_CTYPE")
_PLAIN = {name: value for name, value in os.environ.items() if name not in _OURS} | {"LANG": "C.UTF-8", "TERM": "xterm"}


@pytest.fixture
def env(folder: Path) -> dict[str, str]:
    """An environment without a server."""
    return {**_PLAIN, "TTMEM_SOCKET": str(folder / "nobody.sock")}


def smi(env: dict[str, str], *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*SMI, *arguments], capture_output=True, text=True, timeout=60, env={**env, **more})


def laid_out(folder: Path, make: Callable[[Path], machines.Machine]) -> list[str]:
    root = folder / "machine"
    root.mkdir()
    make(root)
    return ["--root", str(root)]


def test_without_a_server(folder: Path, env: dict[str, str]) -> None:
    done = smi(env, *laid_out(folder, machines.containers))
    assert (done.returncode, done.stderr) == (0, "")
    assert "no server" in done.stdout.splitlines()[0]
    assert "start one with `ttmem serve" in " ".join(done.stdout.split())
    assert re.search(r"^0 01:00\.0 +n150", done.stdout, re.MULTILINE)
    assert re.search(r"^4711 .*untracked.*docker 3f2a91c0b7de", done.stdout, re.MULTILINE)
    assert "\x1b" not in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 100


def test_nothing_to_show(folder: Path, env: dict[str, str]) -> None:
    root = laid_out(folder, machines.no_driver)
    done = smi(env, *root)
    assert (done.returncode, done.stderr) == (1, "")
    assert "No chip is known" in done.stdout
    assert "`ttmem doctor`" in done.stdout
    data = smi(env, "--json", *root)
    assert (data.returncode, json.loads(data.stdout)["chips"]) == (1, [])
    rows = smi(env, "--csv", *root)
    assert (rows.returncode, rows.stdout.count("\n")) == (1, 1)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--socket", "/nonexistent/api.sock"], 1, "start one with `ttmem serve"),
        (["-d", "9"], 1, "there is no chip '9'; there is n150 chip 0 (id 0000:01:00.0)"),
        (["--chip", "0,nine"], 1, "there is no chip 'nine'"),
        (["-d", ""], 2, "'' names no chip"),
        (["-d", "0,"], 2, "'0,' names no chip"),
        (["-r", "99"], 2, "'99' is not a number of milliseconds from 100 up"),
        (["-r", "soon"], 2, "'soon' is not a number of milliseconds"),
        (["-n", "0"], 2, "'0' is not a number of snapshots"),
        (["--json", "--csv"], 2, "--csv and --json cannot be used together"),
    ],
)
def test_errors(folder: Path, env: dict[str, str], arguments: list[str], code: int, said: str) -> None:
    done = smi(env, *arguments, *laid_out(folder, machines.n150))
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_tt_umd_is_asked_only_once_and_with_a_warning(folder: Path, env: dict[str, str]) -> None:
    """It is not installed here. tests/integration/test_umd.py tests the output where it is."""
    root = laid_out(folder, machines.n150)
    done = smi(env, "--umd", *root)
    assert done.returncode == 0
    assert "opens the chips" in done.stderr
    assert "umd absent: tt-umd is not installed" in done.stdout
    again = smi(env, "--umd", "-w", *root)
    assert (again.returncode, again.stdout) == (2, "")
    assert "prints only one snapshot" in again.stderr


def test_with_a_server(server: Server, legacy: Callable[..., LegacyClient], env: dict[str, str]) -> None:
    client = legacy(server)
    client.say("alloc 0 1048576 0 0x1000")
    client.query(0)
    done = smi(env, "--socket", server.api)
    assert done.returncode == 0
    assert f"server pid {server.process.pid}" in " ".join(done.stdout.splitlines()[:2])
    assert re.search(rf"^ *{client.pid} .*tracked +assumed:0 +1\.0 MiB", done.stdout, re.MULTILINE)
    found = smi(env, TTMEM_SOCKET=server.path)
    assert f"server pid {server.process.pid}" in " ".join(found.stdout.splitlines()[:2])
    data = json.loads(smi(env, "--json", "-d", "assumed:0", "--socket", server.api).stdout)
    assert [chip["chip"] for chip in data["chips"]] == ["assumed:0"]
    assert [process["pid"] for process in data["processes"]] == [client.pid]
    (row,) = csv.DictReader(io.StringIO(smi(env, "--csv", "-d", "assumed:0", "--socket", server.api).stdout))
    assert (row["chip"], row["dram_used_bytes"], row["temperature_c"]) == ("assumed:0", "1048576", "")


def test_a_server_that_is_stuck(server: Server, folder: Path, env: dict[str, str]) -> None:
    """A server that was found by default is skipped; a server that was named is an error."""
    root = laid_out(folder, machines.n150)
    with server.stopped():
        done = smi(env, *root, TTMEM_SOCKET=server.path)
        named = smi(env, "--socket", server.api)
    assert done.returncode == 0
    assert "server does not answer" in done.stdout
    assert "does not answer within 2 s; is it stopped?" in " ".join(done.stdout.split())
    assert "01:00.0" in done.stdout
    assert (named.returncode, named.stdout) == (1, "")
    assert "does not answer within 2 s" in named.stderr


def test_a_server_that_is_stuck_and_then_gone(
    server: Server, folder: Path, env: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, root = laid_out(folder, machines.n150)
    monkeypatch.setattr(smi_command, "_ANSWER_SECONDS", 0.2)
    monkeypatch.setattr(smi_command, "_RETRY_SECONDS", 0.0)
    monkeypatch.setenv("TTMEM_SOCKET", server.path)
    look = smi_command._SnapshotSource(None, root, None)
    with server.stopped():
        assert look.snapshot()["sources"][0]["state"] == "does not answer"
    server.stop()
    assert look.snapshot()["sources"][0]["state"] == "not running"


NOBODY = "import os, socket, sys\nos.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
LISTEN = "s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen(); print(flush=True); input()"
# Once as root, so that everything is imported: another user may not read root's folders.
TWICE = """
import contextlib, io, socket
from ttmem.cli import main
with contextlib.redirect_stdout(io.StringIO()):
    main(sys.argv[1:])
"""
needs_root = pytest.mark.skipif(os.getuid() != 0, reason="needs root to act as another user")


@needs_root
def test_somebody_else_listens(folder: Path, env: dict[str, str]) -> None:
    """In a folder that is writable for all users, such as /tmp."""
    root = laid_out(folder, machines.n150)
    place = folder / "theirs"
    place.mkdir()
    folder.chmod(0o1777)
    os.chown(place, 65534, 65534)
    command = [sys.executable, "-c", NOBODY + LISTEN, str(place / "ttmem.api.sock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        done = smi(env, *root, TTMEM_SOCKET=str(place / "ttmem.sock"))
        other.communicate(b"\n")
    assert done.returncode == 0
    assert "server out of reach" in " ".join(done.stdout.splitlines()[:2])
    said = " ".join(done.stdout.split())
    assert "belongs to uid 65534, which is neither root nor you; not talking to it; choose another place" in said


@needs_root
def test_a_server_that_does_not_let_us_in(server: Server, folder: Path, env: dict[str, str]) -> None:
    root = laid_out(folder, machines.n150)
    folder.chmod(0o755)
    code = f"import sys\n{TWICE}\n{NOBODY}\nsys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, "smi", *root]
    asking = {**env, "TTMEM_SOCKET": server.path}
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=asking, cwd="/")
    assert done.returncode == 0, done.stderr
    assert "server out of reach" in " ".join(done.stdout.splitlines()[:2])
    assert f"{server.path}: you may not connect to it; ask for the group" in " ".join(done.stdout.split())


@pytest.mark.parametrize("answer", [b"HELO", b"HTTP/1.1 200 OK\r\n\r\nhello", b"HTTP/1.1 200 OK\r\n\r\n{}"])
def test_something_else_answers(folder: Path, env: dict[str, str], answer: bytes) -> None:
    path = str(folder / "other.api.sock")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        with subprocess.Popen([*SMI, "--socket", path], stderr=subprocess.PIPE, text=True, env=env) as asking:
            connection, _ = listener.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(answer)
            assert asking.stderr is not None
            said = asking.stderr.read()
            name = str(folder / "other.sock")
            assert f"the program on {name} is not a ttmem server" in said or f"{name} answers with None" in said
    assert asking.returncode == 1


@pytest.mark.parametrize("more", [{"LC_ALL": "C"}, {"LANG": "C"}, {"PYTHONIOENCODING": "ascii"}, {}])
def test_plain_ascii(folder: Path, env: dict[str, str], more: dict[str, str]) -> None:
    arguments = [] if more else ["--ascii"]
    done = smi(env, *arguments, *laid_out(folder, machines.n150), **more)
    assert done.returncode == 0
    assert done.stdout.isascii()
    assert "51C" in done.stdout


@pytest.mark.parametrize("width", [60, 100, 160])
def test_no_line_is_too_long(folder: Path, env: dict[str, str], width: int) -> None:
    done = smi(env, *laid_out(folder, machines.galaxy), COLUMNS=str(width))
    assert max(map(len, done.stdout.splitlines())) == width, "the rule is as long as can be, nothing longer"


def test_watching_into_a_pipe(folder: Path, env: dict[str, str]) -> None:
    root = laid_out(folder, machines.n150)
    snapshots = smi(env, "-w", "-r", "100", "-n", "3", *root).stdout.split("\n\nttmem ")
    assert len(snapshots) == 3
    data = [json.loads(line) for line in smi(env, "--json", "-r", "100", "-n", "3", *root).stdout.splitlines()]
    times = [snapshot["time"] for snapshot in data]
    assert times == sorted(set(times))
    rows = list(csv.DictReader(io.StringIO(smi(env, "--csv", "-r", "100", "-n", "3", *root).stdout)))
    assert [row["temperature_c"] for row in rows] == ["51.187"] * 3
    assert len({row["time"] for row in rows}) == 3


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_watching(folder: Path, env: dict[str, str], number: signal.Signals) -> None:
    command = [*SMI, "--json", "-w", *laid_out(folder, machines.n150)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env) as watching:
        assert watching.stdout is not None
        assert watching.stderr is not None
        json.loads(watching.stdout.readline())
        watching.send_signal(number)
        for line in watching.stdout.read().splitlines():
            json.loads(line)
        assert watching.wait(PATIENCE) == 0
        assert watching.stderr.read() == ""


@pytest.mark.parametrize("form", ["", "--json", "--csv"])
def test_a_closed_pipe_ends_the_watching(folder: Path, env: dict[str, str], form: str) -> None:
    command = " ".join([*SMI, form, "-r", "100", *laid_out(folder, machines.galaxy)])
    script = f"set -o pipefail; {command} | head -1"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60, env=env)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("\n") == 1


class Terminal:
    """`ttmem smi` on a terminal of its own."""

    def __init__(self, *arguments: str, env: dict[str, str], size: tuple[int, int] = (40, 100)) -> None:
        self._mine, self._theirs = pty.openpty()
        self.resize(size)
        self.before = termios.tcgetattr(self._theirs)
        ends: Any = {"stdin": self._theirs, "stdout": self._theirs, "stderr": self._theirs}
        self.process = subprocess.Popen([*SMI, *arguments], env=env, preexec_fn=self._own, **ends)
        self.seen = ""

    def _own(self) -> None:
        """Its controlling terminal, so that keys can be signals."""
        os.setsid()
        ioctl(self._theirs, termios.TIOCSCTTY, 0)

    def resize(self, size: tuple[int, int]) -> None:
        ioctl(self._theirs, termios.TIOCSWINSZ, struct.pack("4H", *size, 0, 0))

    def wait_for(self, text: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while text not in self.seen:
            ready, _, _ = select.select([self._mine], [], [], 0.2)
            if ready:
                self.seen += os.read(self._mine, 65536).decode(errors="replace")
            elif self.process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"{text!r} was never shown:\n{self.seen[-2000:]}")

    def frame(self) -> list[str]:
        """The lines of the last complete frame."""
        whole = self.seen[: self.seen.rindex("\x1b[J")].split("\x1b[H")[-1]
        return [re.sub(r"\x1b\[[0-9;]*[mK]", "", line) for line in whole.replace("\r", "").split("\n")]

    def press(self, keys: str) -> None:
        self.seen = ""
        os.write(self._mine, keys.encode())

    def restored(self) -> bool:
        return termios.tcgetattr(self._theirs) == self.before

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._mine)
        os.close(self._theirs)


@contextlib.contextmanager
def terminal(*arguments: str, env: dict[str, str], size: tuple[int, int] = (40, 100)) -> Iterator[Terminal]:
    found = Terminal(*arguments, env=env, size=size)
    try:
        yield found
    finally:
        found.close()


@pytest.mark.parametrize("end", ["q", "Q", "\x03"])
def test_watching_on_a_terminal(folder: Path, env: dict[str, str], end: str) -> None:
    with terminal("-w", *laid_out(folder, machines.n150), env=env) as screen:
        screen.wait_for("q ends, every 0.5 s")
        assert screen.seen.startswith("\x1b[?1049h")
        screen.wait_for("\x1b[J")
        assert screen.frame()[4].startswith("0 01:00.0")
        screen.press("x")  # any other key does nothing
        screen.wait_for("\x1b[J")
        screen.press(end)
        screen.wait_for("\x1b[?1049l")
        assert screen.process.wait(PATIENCE) == 0
        assert screen.restored()


def test_a_terminal_that_changes_its_size(folder: Path, env: dict[str, str]) -> None:
    with terminal("-r", "600000", *laid_out(folder, machines.galaxy), env=env) as screen:
        screen.wait_for("\x1b[J")
        assert (max(map(len, screen.frame())), len(screen.frame())) == (100, 40)
        screen.seen = ""
        screen.resize((20, 70))
        screen.wait_for("\x1b[J")  # at once, not in ten minutes
        assert max(map(len, screen.frame())) == 70
        assert len(screen.frame()) == 20
        screen.press("q")
        assert screen.process.wait(PATIENCE) == 0


def test_the_arrows_scroll(folder: Path, env: dict[str, str]) -> None:
    with terminal("-r", "600000", *laid_out(folder, machines.galaxy), env=env, size=(20, 100)) as screen:
        screen.wait_for("\x1b[J")
        first = screen.frame()
        assert "more lines, the arrows scroll" in first[-1]
        for keys, top in (("\x1b[B\x1b[B", 2), ("\x1b[A", 1), ("k", 0)):
            screen.press(keys)
            screen.wait_for("\x1b[J")
            assert screen.frame()[:17] == first[top : top + 17]
        screen.press("\x1b[6~" * 9)
        screen.wait_for("\x1b[J")
        assert screen.frame()[-2].startswith(("Hint", "  ")), "the end"
        screen.press("q")
        assert screen.process.wait(PATIENCE) == 0


def test_control_z_gives_the_terminal_back(folder: Path, env: dict[str, str]) -> None:
    with terminal("-w", *laid_out(folder, machines.n150), env=env) as screen:
        screen.wait_for("\x1b[J")
        screen.process.send_signal(signal.SIGTSTP)
        screen.wait_for("\x1b[?1049l")
        wait_until(lambda: process_state(screen.process.pid) == "T", "the stop")
        assert screen.restored()
        screen.seen = ""
        screen.process.send_signal(signal.SIGCONT)
        screen.wait_for("\x1b[?1049h")
        screen.wait_for("\x1b[J")
        screen.press("q")
        assert screen.process.wait(PATIENCE) == 0
        assert screen.restored()


def test_control_z_in_the_midst_of_a_frame(folder: Path, env: dict[str, str]) -> None:
    """It is more than the terminal holds, and at first it is not read."""

    def writes() -> bool:
        call = Path(f"/proc/{screen.process.pid}/syscall").read_text().split()
        return call[0] in ("1", "64") and call[1] == "0x1"  # write to standard output, on x86 and on ARM

    with terminal("-w", *laid_out(folder, machines.galaxy), env=env, size=(200, 400)) as screen:
        wait_until(writes, "a write that waits")
        screen.process.send_signal(signal.SIGTSTP)
        screen.wait_for("\x1b[?1049l")
        assert wait_until(lambda: (now := process_state(screen.process.pid)) in "TZ" and now, "the stop") == "T"
        screen.seen = ""
        screen.process.send_signal(signal.SIGCONT)
        screen.wait_for("\x1b[?1049h")
        screen.wait_for("\x1b[J")
        screen.press("q")
        screen.wait_for("\x1b[?1049l")
        assert screen.process.wait(PATIENCE) == 0


def test_on_a_terminal_once(folder: Path, env: dict[str, str]) -> None:
    root = laid_out(folder, machines.n150)
    with terminal(*root, env=env) as screen:
        screen.wait_for("Hint")
        assert screen.process.wait(PATIENCE) == 0
        assert "\x1b[1m" in screen.seen
        assert "\x1b[?1049h" not in screen.seen
    for more in (["--no-color"], []):
        plain = env if more else {**env, "NO_COLOR": "1"}
        with terminal(*root, *more, env=plain) as screen:
            screen.wait_for("Hint")
            assert "\x1b" not in screen.seen


def test_a_dumb_terminal_gets_one_picture_after_another(folder: Path, env: dict[str, str]) -> None:
    with terminal("-w", "-n", "2", *laid_out(folder, machines.n150), env={**env, "TERM": "dumb"}) as screen:
        screen.wait_for("\r\n\r\nttmem ")
        assert screen.process.wait(PATIENCE) == 0
        assert "\x1b" not in screen.seen


def test_an_error_while_watching_leaves_the_terminal_as_it_was(folder: Path, env: dict[str, str]) -> None:
    with terminal("-w", "-d", "9", *laid_out(folder, machines.n150), env=env) as screen:
        screen.wait_for("there is no chip '9'")
        assert screen.process.wait(PATIENCE) == 1
        assert screen.seen.index("\x1b[?1049l") < screen.seen.index("there is no chip")
        assert screen.restored()


def test_a_server_that_comes_and_goes_is_seen(folder: Path, env: dict[str, str], serve: Callable[..., Server]) -> None:
    """Watching continues with the available data."""
    command = [*SMI, "--json", "-r", "100", *laid_out(folder, machines.n150)]
    path = {**env, "TTMEM_SOCKET": str(folder / "ttmem.sock")}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=path) as watching:
        assert watching.stdout is not None

        def state() -> bool:
            assert watching.stdout is not None
            return json.loads(watching.stdout.readline())["server"] is not None

        assert not state()
        server = serve("--quiet")
        wait_until(state, "the server's appearance")
        server.stop()
        wait_until(lambda: not state(), "the server's disappearance")
        watching.terminate()
        watching.stdout.read()
    assert watching.returncode == 0
