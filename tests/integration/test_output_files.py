# SPDX-License-Identifier: Apache-2.0
"""Files that ttmem writes: nothing that it did not write itself is overwritten, and no planted link or pipe is used."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import PATIENCE, Server
from tests.unit.test_imports import DATA
from ttmem.recording.blocks import FILE_MAGIC
from ttmem.server.daemon import Options, ServeError
from ttmem.server.daemon import Server as Daemon

SOURCE = "import sys\nprint('my program')\n"
CAPTURE = str(DATA / "n300_report.json")


def ttmem(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ttmem", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE)


# Every option that names a file to write, and what is written there.
WRITERS: dict[str, Callable[[str], list[str]]] = {
    "run --record": lambda path: ["run", "--record", path, "--", "touch", "started"],
    "run --json": lambda path: ["run", "--json", path, "--", "touch", "started"],
    "serve --record": lambda path: [
        "serve",
        "--socket",
        "s.sock",
        "--no-legacy-path",
        "--no-machine",
        "--record",
        path,
    ],
    "import -o": lambda path: ["import", CAPTURE, "-o", path],
}


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("content", [SOURCE, "{}\n", '{"schema": "ttmem.snapshot/1"}\n', "TTMEM", " "])
def test_a_file_that_ttmem_did_not_write_is_kept(writer: str, content: str, folder: Path) -> None:
    victim = folder / "victim.py"
    victim.write_text(content)
    done = ttmem(*WRITERS[writer]("victim.py"), folder=folder)
    assert victim.read_text() == content
    assert done.returncode == 1
    assert "victim.py" in done.stderr
    assert "ttmem did not write it" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert "internal error" not in done.stderr
    assert {path.name for path in folder.iterdir()} <= {"victim.py", "s.lock"}, "the command was started"


@pytest.mark.parametrize("writer", ["run --record", "run --json", "import -o"])
def test_a_file_that_ttmem_wrote_is_replaced(writer: str, folder: Path) -> None:
    out = folder / "out"
    out.touch()  # an empty file contains nothing to lose
    assert ttmem(*WRITERS[writer]("out"), folder=folder).returncode == 0
    first = out.read_bytes()
    assert first.startswith(FILE_MAGIC) or json.loads(first)["schema"] == "ttmem.run/1"
    out.write_bytes(first + b" " * 100_000)
    assert ttmem(*WRITERS[writer]("out"), folder=folder).returncode == 0
    assert out.read_bytes()[:8] == first[:8]
    assert len(out.read_bytes()) < 100_000


def test_a_report_that_was_laid_out_anew_is_still_a_report(folder: Path) -> None:
    out = folder / "out.json"
    assert ttmem(*WRITERS["run --json"]("out.json"), folder=folder).returncode == 0
    out.write_text(json.dumps(json.loads(out.read_text()), indent=4))
    assert ttmem(*WRITERS["run --json"]("out.json"), folder=folder).returncode == 0
    assert len(out.read_text().splitlines()) == 1


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("what", ["a folder", "a named pipe", "a socket"])
def test_what_is_no_file_is_refused_at_once(writer: str, what: str, folder: Path) -> None:
    place = folder / "place"
    if what == "a folder":
        place.mkdir()
    elif what == "a named pipe":
        os.mkfifo(place)  # it has no reader: an ordinary open would block forever
    else:
        os.mknod(place, stat.S_IFSOCK | 0o600)
    done = ttmem(*WRITERS[writer]("place"), folder=folder)
    assert done.returncode == 1
    assert what in done.stderr
    assert "internal error" not in done.stderr
    assert not (folder / "started").exists()


@pytest.mark.parametrize("writer", ["run --record", "serve --record"])
@pytest.mark.parametrize("there", [True, False])
def test_a_recording_does_not_follow_a_link(writer: str, there: bool, folder: Path) -> None:
    target = folder / "target"
    if there:
        target.write_bytes(FILE_MAGIC)
    (folder / "link").symlink_to(target)
    done = ttmem(*WRITERS[writer]("link"), folder=folder)
    assert done.returncode == 1
    assert "a symbolic link" in done.stderr
    assert target.exists() == there
    assert not there or target.read_bytes() == FILE_MAGIC


@pytest.mark.parametrize("writer", ["run --record", "serve --record"])
def test_a_recording_does_not_use_a_file_with_another_name(writer: str, folder: Path) -> None:
    (folder / "theirs").touch()
    os.link(folder / "theirs", folder / "out")
    done = ttmem(*WRITERS[writer]("out"), folder=folder)
    assert done.returncode == 1
    assert "hard link" in done.stderr
    assert not (folder / "theirs").read_bytes()


def test_a_link_to_a_file_of_another_kind_is_kept_by_json(folder: Path) -> None:
    (folder / "victim.py").write_text(SOURCE)
    (folder / "link").symlink_to("victim.py")
    done = ttmem(*WRITERS["run --json"]("link"), folder=folder)
    assert done.returncode == 1
    assert (folder / "victim.py").read_text() == SOURCE


def test_json_and_record_are_two_files(folder: Path) -> None:
    done = ttmem("run", "--json", "x", "--record", "./x", "--", "touch", "started", folder=folder)
    assert done.returncode == 2
    assert "the same file" in done.stderr
    assert not (folder / "started").exists()


# -- special files that the user means ---------------------------------------------------------------------------


def test_json_to_nowhere(folder: Path) -> None:
    assert ttmem("run", "--json", "/dev/null", "--", "true", folder=folder).returncode == 0


@pytest.mark.parametrize("path", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_json_to_standard_output_that_is_a_pipe(path: str, folder: Path) -> None:
    done = ttmem("run", "--quiet", "--json", path, "--", "echo", "from the command", folder=folder)
    assert done.returncode == 0
    first, second = done.stdout.splitlines()
    assert first == "from the command"
    assert json.loads(second)["schema"] == "ttmem.run/1"


def test_json_to_standard_output_that_is_a_file_comes_after_what_the_command_wrote(folder: Path) -> None:
    with open(folder / "all", "wb") as out:
        command = [sys.executable, "-m", "ttmem", "run", "--quiet", "--json", "/dev/stdout", "--", "echo", "first"]
        assert subprocess.run(command, stdout=out, timeout=PATIENCE).returncode == 0
    first, second = (folder / "all").read_text().splitlines()
    assert first == "first"
    assert json.loads(second)["schema"] == "ttmem.run/1"


def test_json_through_a_process_substitution(folder: Path) -> None:
    script = f"'{sys.executable}' -m ttmem run --quiet --json >(cat > copy) -- true; wait $!"
    done = subprocess.run(["bash", "-c", script], cwd=folder, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    assert json.loads((folder / "copy").read_text())["schema"] == "ttmem.run/1"


def test_json_through_a_named_pipe_that_is_read(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    reader = subprocess.Popen(["cat", str(folder / "pipe")], stdout=subprocess.PIPE, text=True)
    ours = os.open(folder / "pipe", os.O_RDWR)  # so that there is a reader whenever ttmem opens it
    try:
        done = ttmem("run", "--quiet", "--json", "pipe", "--", "true", folder=folder)
    finally:
        os.close(ours)
    assert done.returncode == 0, done.stderr
    out, _ = reader.communicate(timeout=PATIENCE)
    assert json.loads(out)["schema"] == "ttmem.run/1"


# -- the pid file ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("planted", ["link", "dangling link", "fifo", "hard link", "stale"])
def test_what_is_planted_at_the_pid_file_is_not_written_to(
    planted: str, folder: Path, serve: Callable[..., Server]
) -> None:
    victim, pid = folder / "victim", folder / "ttmem.pid"
    if planted != "dangling link":
        victim.write_text("precious")
    if planted in ("link", "dangling link"):
        pid.symlink_to(victim)
    elif planted == "fifo":
        os.mkfifo(pid)
    elif planted == "hard link":
        os.link(victim, pid)
    else:
        pid.write_text("1\n")
    server = serve("--quiet")
    assert pid.read_text() == f"{server.process.pid}\n"
    assert not pid.is_symlink()
    assert victim.read_text() == "precious" if victim.exists() else planted == "dangling link"
    assert server.stop() == 0
    assert not pid.exists()
    assert {path.name for path in folder.iterdir()} <= {"victim", "ttmem.log", "ttmem.err", "ttmem.lock"}


def test_a_server_starts_without_its_pid_file(folder: Path, serve: Callable[..., Server]) -> None:
    (folder / "ttmem.pid").mkdir()
    server = serve("--quiet")
    assert "ttmem.pid" in server.err.read_text()
    assert server.stop() == 0
    assert (folder / "ttmem.pid").is_dir()


def test_a_pipe_in_place_of_the_pid_file_does_not_stop_a_second_server(
    folder: Path, serve: Callable[..., Server]
) -> None:
    server = serve("--quiet")
    (folder / "ttmem.pid").unlink()
    os.mkfifo(folder / "ttmem.pid")
    done = ttmem("serve", "--no-legacy-path", "--no-machine", "--socket", server.path, folder=folder)
    assert done.returncode == 1
    assert "already serves" in done.stderr


def test_a_recording_of_another_user_is_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a shared folder, where another user created a file with that name first, to read what is written."""
    (folder / "out").write_bytes(FILE_MAGIC)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(ServeError, match=f"belongs to another user, uid {os.getuid()}"):
        Daemon(Options(str(folder / "s.sock"), legacy_path=None, machine=None, record=str(folder / "out")))
