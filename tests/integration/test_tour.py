# SPDX-License-Identifier: Apache-2.0
"""A tour of wrong uses: every command with values, files and servers that are wrong. Each gives one clear message.

The whole tour is in tests/data/tour.txt, to be read from top to bottom.

`make screens` regenerates that file; then read the diff.
"""

from __future__ import annotations

import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.screens import RENEW
from tests.support import PATIENCE, ROOT, Server, wait_until
from ttmem.cli import COMMANDS

TRANSCRIPT = ROOT / "tests" / "data" / "tour.txt"
TTMEM = [sys.executable, "-m", "ttmem"]
USAGE, FAILED = 2, 1

# Exit code, command line, and words of the message. The files are made by `place`.
TOUR: tuple[tuple[int, str, str], ...] = (
    (USAGE, "", "usage: ttmem COMMAND"),
    (USAGE, "frobnicate", "there is no command 'frobnicate'"),
    (USAGE, "smy", "did you mean `ttmem smi`?"),
    (USAGE, "help frobnicate", "there is no command 'frobnicate'"),
    (USAGE, "--frobnicate", "there is no command '--frobnicate'"),
    # smi
    (USAGE, "smi --frobnicate", "unknown option or argument: --frobnicate"),
    (USAGE, "smi extra", "unknown option or argument: extra"),
    (USAGE, "smi -r", "-r needs a value"),
    (USAGE, "smi -r 0", "-r: '0' is not a number of milliseconds from 100 up"),
    (USAGE, "smi -r fast", "'fast' is not a number"),
    (USAGE, "smi -n 0", "'0' is not a number of snapshots"),
    (USAGE, "smi -n -1", "'-1' is not a number of snapshots"),
    (USAGE, "l1 --core -1,0", "--core: '-1,0' is not X,Y in logical coordinates"),
    (USAGE, "l1 --core --json", "--core needs a value"),
    (USAGE, "leaks --since -5m", "--since: '-5m' is not a time"),
    (USAGE, "smi -d ''", "'' names no chip"),
    (USAGE, "smi -d 0,,1", "'0,,1' names no chip"),
    (USAGE, "smi --json --csv", "--csv and --json cannot be used together"),
    (USAGE, "smi --umd sometimes", "--umd: there is no 'sometimes'; choose from idle, anyway"),
    (USAGE, "smi --umd -w", "leave out --umd"),
    (USAGE, "smi --socket ''", "--socket: the path is empty"),
    (FAILED, "smi --root empty_folder -d 99", "there is no chip '99'; no chip is known"),
    (FAILED, "smi --socket nowhere/t.sock", "no ttmem server answers on nowhere/t.sock"),
    (FAILED, "smi --socket empty_folder", "no ttmem server answers on empty_folder"),
    (FAILED, "smi --socket text.txt", "no ttmem server answers on text.txt"),
    (FAILED, "smi --socket dead.sock", "no ttmem server answers on dead.sock"),
    (FAILED, "smi --socket other.sock", "the program on other.sock is not a ttmem server"),
    (FAILED, "smi --socket server.sock -d 99", "there is no chip '99'; there is chip assumed:0"),
    # top
    (FAILED, "top", "needs a terminal"),
    (USAGE, "top -r 5", "'5' is not a number of milliseconds from 100 to 10000"),
    (USAGE, "top -r 99999", "'99999' is not a number"),
    (USAGE, "top --theme pink", "there is no 'pink'; choose from dark, light, high-contrast, mono"),
    (USAGE, "top -d ,", "',' names no chip"),
    (FAILED, "top nowhere.ttmem", "nowhere.ttmem: No such file or directory"),
    (FAILED, "top text.txt", "text.txt: not a ttmem recording"),
    (USAGE, "top text.txt --socket server.sock", "--socket and FILE cannot be used together"),
    (USAGE, "top --at peak", "--at needs a recording"),
    # run
    (USAGE, "run", "there is no command to run"),
    (USAGE, "run --", "there is no command to run"),
    (127, "run -- nowhere/program", "cannot run nowhere/program: No such file or directory"),
    (126, "run -- ./text.txt", "cannot run ./text.txt: Permission denied"),
    (USAGE, "run --max-l1 lots -- true", "not a size: 'lots'"),
    (USAGE, "run --max-dram -1 -- true", "not a size: '-1'"),
    (USAGE, "run --stacks --depth 0 -- true", "'0' is not a number of frames from 1 to 64"),
    (USAGE, "run --stacks --depth 65 -- true", "'65' is not a number of frames"),
    (USAGE, "run --by colour -- true", "there is no 'colour'; choose from op, line, shape"),
    (USAGE, "run --json same --record same -- true", "name the same file"),
    (USAGE, "run --frobnicate -- true", "unknown option or argument: --frobnicate"),
    (FAILED, "run --socket nowhere/t.sock -- true", "no ttmem server answers on nowhere/t.sock"),
    (FAILED, "run --socket text.txt -- true", "no ttmem server answers on text.txt"),
    (FAILED, "run --socket dead.sock -- true", "no ttmem server answers on dead.sock"),
    (FAILED, "run --json empty_folder -- true", "it is a folder"),
    (FAILED, "run --json nowhere/x.json -- true", "cannot write nowhere/x.json: No such file or directory"),
    (FAILED, "run --json text.txt -- true", "ttmem did not write it"),
    (FAILED, "run --json link -- true", "ttmem did not write it"),
    (FAILED, "run --record empty_folder -- true", "it is a folder"),
    (FAILED, "run --record text.txt -- true", "ttmem did not write it"),
    (FAILED, "run --record nowhere/x.ttmem -- true", "cannot write nowhere/x.ttmem"),
    (5, "run --quiet --fail-on-leak -- true", "the agent saw no device being opened"),
    # fit
    (USAGE, "fit --board n150", "there is no command to run"),
    (USAGE, "fit -- true", "--board is missing; choose from n150"),
    (USAGE, "fit --board , -- true", "--board names no board; choose from n150"),
    (USAGE, "fit --board n151 -- true", "there is no board 'n151'; choose from n150"),
    (USAGE, "fit --board n150 --until later -- true", "'later' is no end of a run"),
    (USAGE, "fit --board n150 --vary batch=9..1 -- true {batch}", "write the smaller number first"),
    (USAGE, "fit --replay run.ttmem -- true", "--replay repeats a recording, so it takes no command"),
    (USAGE, "fit --replay run.ttmem --board x9", "there is no board 'x9'; choose one from n150"),
    (USAGE, "fit --board n150 --order largest-first -- true", "need --replay"),
    (FAILED, "fit --replay nowhere/x.ttmem", "nowhere/x.ttmem: No such file or directory"),
    (FAILED, "fit --replay text.txt", "not a ttmem recording"),
    (FAILED, "fit --board nowhere.yaml -- true", "cannot read nowhere.yaml: No such file or directory"),
    (FAILED, "fit --describe --python nowhere/python", "nowhere/python cannot be run: No such file or directory"),
    (FAILED, "fit --board n150 --python nowhere/python -- true", "nowhere/python cannot be asked for its ttnn"),
    # env
    (USAGE, "env --format toml", "there is no 'toml'; choose from shell, systemd, docker, k8s"),
    (USAGE, "env --depth many", "'many' is not a number of frames"),
    (USAGE, "env --socket ''", "the path is empty"),
    # serve
    (USAGE, "serve --socket ''", "the path is empty"),
    (USAGE, "serve --socket x.sock --metrics port", "--metrics takes PORT or HOST:PORT, not 'port'"),
    (USAGE, "serve --socket x.sock --metrics 99999", "not '99999'"),
    (USAGE, "serve --log-format xml", "there is no 'xml'; choose from text, json"),
    (USAGE, "serve --log-style old", "there is no 'old'"),
    (USAGE, "serve --noc-capacity=yes", "--noc-capacity takes no value, not 'yes'"),
    (FAILED, "serve --socket empty_folder", "empty_folder exists and is not a socket"),
    (FAILED, "serve --socket text.txt", "text.txt exists and is not a socket"),
    (FAILED, "serve --socket link", "link exists and is not a socket"),
    (FAILED, "serve --socket x.sock --group nosuchgroup", "there is no group 'nosuchgroup'"),
    (FAILED, "serve --socket x.sock --record empty_folder", "it is a folder"),
    (FAILED, "serve --socket x.sock --record text.txt", "ttmem did not write it"),
    # l1
    (USAGE, "l1 --core 3", "'3' is not X,Y"),
    (USAGE, "l1 --core a,b", "'a,b' is not X,Y"),
    (USAGE, "l1 --at 5", "--at needs --file"),
    (USAGE, "l1 --file run.ttmem --socket x.sock", "--socket and --file cannot be used together"),
    (USAGE, "l1 --file run.ttmem --at yesterday", "'yesterday' is not a moment"),
    (FAILED, "l1", "no ttmem server answers on /nonexistent/ttmem.sock"),
    (FAILED, "l1 --socket server.sock -d 99", "there is no chip '99'"),
    (FAILED, "l1 --file nowhere/x.ttmem", "nowhere/x.ttmem: No such file or directory"),
    (FAILED, "l1 --file empty_folder", "empty_folder: a folder without segments of a recording"),
    (FAILED, "l1 --file text.txt", "not a ttmem recording"),
    (FAILED, "l1 --file empty", "not a ttmem recording"),
    (FAILED, "l1 --file run.ttmem --core 99,99", "there is no core 99,99"),
    (FAILED, "l1 --file run.ttmem -d 9", "there is no chip '9'; there are n300 chip 0"),
    (FAILED, "l1 --file run.ttmem --at 1", "1 is outside the recording, which is "),
    # explain
    (USAGE, "explain", "FILE is missing"),
    (USAGE, "explain text.txt extra", "unknown option or argument: extra"),
    (FAILED, "explain nowhere/log", "nowhere/log: No such file or directory"),
    (FAILED, "explain empty_folder", "empty_folder is a folder"),
    (FAILED, "explain empty", "no failure in empty"),
    (FAILED, "explain text.txt --all", "no failure in text.txt"),
    (FAILED, "explain run.ttmem", "no failure in run.ttmem"),
    (FAILED, "explain /proc/self/mem", "/proc/self/mem: Input/output error"),
    # doctor
    (USAGE, "doctor extra", "unknown option or argument: extra"),
    (FAILED, "doctor --python nowhere/python", "'nowhere/python' is not a program that can be run"),
    (FAILED, "doctor --python ./text.txt", "'./text.txt' is not a program that can be run"),
    (FAILED, "doctor --wheel nowhere/ttnn", "--wheel: nowhere/ttnn: No such file or directory"),
    (FAILED, "doctor --wheel text.txt", "text.txt is neither a libtt_metal.so nor an interpreter"),
    (FAILED, "doctor --wheel empty_folder", "empty_folder is not a folder of ttnn"),
    # dump
    (USAGE, "dump --by colour", "there is no 'colour'"),
    (FAILED, "dump", "no ttmem server answers on /nonexistent/ttmem.sock"),
    (FAILED, "dump --socket dead.sock", "no ttmem server answers on dead.sock"),
    (FAILED, "dump --reports nowhere", "nowhere"),
    (FAILED, "dump --reports text.txt", "text.txt: Not a directory"),
    (FAILED, "dump --reports empty_folder", "no memory reports in empty_folder"),
    # leaks
    (USAGE, "leaks --since soon", "'soon' is not a time"),
    (USAGE, "leaks --since ''", "'' is not a time"),
    (USAGE, "leaks --ignore ''", "a pattern is one line of text"),
    (FAILED, "leaks --baseline nowhere.json", "nowhere.json: No such file or directory"),
    (FAILED, "leaks --baseline broken.json", "broken.json is not the output of `ttmem leaks --json`"),
    (FAILED, "leaks --baseline other.json", "other.json is not the output of `ttmem leaks --json`"),
    (FAILED, "leaks --file run.ttmem --since phase:none", "there is no phase 'none'"),
    (USAGE, "leaks --file run.ttmem --since soon", "'soon' is not a time"),
    (USAGE, "leaks --pid me", "'me' is not a process id"),
    (USAGE, "leaks --pid 1,,2", "'1,,2' is not a process id"),
    (USAGE, "leaks --pid", "--pid needs a value"),
    (FAILED, "leaks", "no ttmem server answers on /nonexistent/ttmem.sock"),
    (FAILED, "leaks --socket server.sock --pid 99999999", "99999999"),
    (FAILED, "leaks --socket server.sock -d 99", "there is no chip '99'; there is chip assumed:0"),
    # diff
    (USAGE, "diff", "OLD and NEW are missing"),
    (USAGE, "diff run.ttmem", "NEW is missing"),
    (USAGE, "diff run.ttmem run.ttmem --at +1s", "a moment of both recordings is peak"),
    (USAGE, "diff run.ttmem run.ttmem --by colour", "there is no 'colour'"),
    (USAGE, "diff run.ttmem run.ttmem --fail sram:1", "'sram:1' is not a limit"),
    (USAGE, "diff run.ttmem run.ttmem --fail dram:much", "'much' of 'dram:much' is neither a size nor a percentage"),
    (FAILED, "diff nowhere/x.ttmem run.ttmem", "nowhere/x.ttmem: No such file or directory"),
    (FAILED, "diff run.ttmem text.txt", "text.txt is neither a recording nor the output of `ttmem run --json`"),
    (FAILED, "diff run.ttmem run.ttmem --at phase:none", "the recording has no phases"),
    # replay
    (USAGE, "replay", "FILE is missing"),
    (USAGE, "replay run.ttmem --at yesterday", "'yesterday' is not a moment"),
    (USAGE, "replay run.ttmem --at ''", "'' is not a moment"),
    (USAGE, "replay run.ttmem --at nan", "'nan' is not a moment"),
    (USAGE, "replay run.ttmem --by colour", "there is no 'colour'"),
    (USAGE, "replay run.ttmem --peaks --by op", "--by and --peaks cannot be used together"),
    (FAILED, "replay nowhere/x.ttmem", "nowhere/x.ttmem: No such file or directory"),
    (FAILED, "replay empty_folder", "empty_folder: a folder without segments of a recording"),
    (FAILED, "replay text.txt", "not a ttmem recording"),
    (FAILED, "replay empty", "not a ttmem recording"),
    # report
    (USAGE, "report", "FILE is missing"),
    (FAILED, "report nowhere/x.ttmem", "nowhere/x.ttmem: No such file or directory"),
    (FAILED, "report text.txt", "not a ttmem recording"),
    (FAILED, "report run.ttmem -o text.txt", "ttmem did not write it"),
    (FAILED, "report run.ttmem -o nowhere/x.html", "nowhere/x.html: No such file or directory"),
    (USAGE, "run --report x.html --record x.html -- true", "--record and --report name the same file, x.html"),
    # options that need another one
    (USAGE, "demo --port 1", "--port, --host and --open need --web"),
    (USAGE, "demo --open --json", "--port, --host and --open need --web"),
    (USAGE, "run --depth 3 -- true", "--depth needs --stacks"),
    (USAGE, "env --depth 5", "--depth needs --stacks"),
    # web
    (USAGE, "web --port x", "'x' is not a port from 0 to 65535"),
    (USAGE, "web run.ttmem --socket x.sock", "a recording needs no server"),
    (FAILED, "web nowhere/x.ttmem", "nowhere/x.ttmem: No such file or directory"),
    # stats
    (USAGE, "stats", "FILE is missing"),
    (USAGE, "stats run.ttmem --from yesterday", "--from: 'yesterday' is not a moment"),
    (USAGE, "stats run.ttmem --from end --until +0s", "--from end is later than --until +0s; swap them"),
    (FAILED, "stats run.ttmem --until +9h", "--until: +9h is outside the recording"),
    (FAILED, "stats run.ttmem --from phase:warm", "--from: the recording has no phases"),
    (FAILED, "stats run.ttmem -d 99", "there is no chip '99'"),
    (FAILED, "stats nowhere/x.ttmem", "nowhere/x.ttmem: No such file or directory"),
    (FAILED, "stats text.txt", "not a ttmem recording"),
    # tree
    (USAGE, "tree run.ttmem --depth 0", "'0' is not a number of levels from 1 up"),
    (USAGE, "tree run.ttmem --min lots", "not a size: 'lots'"),
    (USAGE, "tree run.ttmem --search ''", "the text is empty"),
    (USAGE, "tree run.ttmem --pool l2", "--pool: there is no 'l2'; choose from dram"),
    (FAILED, "tree run.ttmem --at +9h", "--at: +9h is outside the recording"),
    (FAILED, "tree text.txt", "not a ttmem recording"),
    # import
    (USAGE, "import", "FILE is missing"),
    (USAGE, "import report.json --board n151", "there is no 'n151'"),
    (USAGE, "import report.json --rank one", "'one' is not the number of a rank"),
    (FAILED, "import nowhere", "nowhere: No such file or directory"),
    (FAILED, "import empty_folder", "a folder without a report"),
    (FAILED, "import empty", "the file is empty"),
    (FAILED, "import text.txt", "neither JSON of ttnn nor an SQLite database"),
    (FAILED, "import other.json", "not a report of ttnn"),
    (FAILED, "import broken.json", "the file is cut off"),
    (FAILED, "import run.ttmem", "`ttmem replay` shows it"),
    (FAILED, "import report.json --rank 1", "--rank is for databases"),
    (FAILED, "import report.json -o empty_folder", "it is a folder"),
    (FAILED, "import report.json -o text.txt", "ttmem did not write it"),
    (FAILED, "import report.json -o nowhere/x.ttmem", "cannot write nowhere/x.ttmem"),
    # completion and demo
    (USAGE, "completion", "SHELL is missing"),
    (USAGE, "completion fish", "there is no 'fish'; choose from bash, zsh, tcsh"),
    (USAGE, "demo quake", "there is no workload 'quake'"),
    (USAGE, "demo --devices n999", "there is no 'n999'"),
    (USAGE, "demo --seconds 0", "'0' is not a number of seconds above 0"),
    (USAGE, "demo --seconds soon", "'soon' is not a number of seconds"),
    (USAGE, "demo --socket ''", "the path is empty"),
    (FAILED, "demo --socket nowhere/t.sock", "no ttmem server answers on nowhere/t.sock"),
)


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """A folder with invalid files, a server, and a socket of another program."""
    with tempfile.TemporaryDirectory(prefix="ttmem-") as name:
        folder = Path(name)
        (folder / "empty_folder").mkdir()
        (folder / "empty").touch()
        (folder / "text.txt").write_text("hello\n")
        (folder / "link").symlink_to("text.txt")
        (folder / "other.json").write_text('{"a": 1}')
        (folder / "broken.json").write_text("[")
        (folder / "report.json").write_bytes((ROOT / "tests/data/imports/n300_report.json").read_bytes())
        subprocess.run([*TTMEM, "import", "report.json", "-o", "run.ttmem"], cwd=folder, check=True, timeout=PATIENCE)
        with socket.socket(socket.AF_UNIX) as dead, socket.socket(socket.AF_UNIX) as dead_api:
            dead.bind(str(folder / "dead.sock"))
            dead_api.bind(str(folder / "dead.api.sock"))
        server = Server(folder, name="server")
        legacy = subprocess.Popen(
            [sys.executable, "-c", _CLIENT, server.path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        other = subprocess.Popen([sys.executable, "-c", _OTHER, str(folder / "other.api.sock")])
        try:
            assert legacy.stdout is not None
            assert legacy.stdout.readline() == "reported\n"
            wait_until((folder / "other.api.sock").exists, "the other server's start")
            yield folder
        finally:
            other.kill()
            other.wait()
            legacy.kill()
            legacy.communicate()
            server.stop()


_CLIENT = """
import sys
from ttmem import AllocationClient
client = AllocationClient(enabled=True, socket_path=sys.argv[1])
client.report_allocation(device_id=0, size=4096, buffer_type="dram", buffer_id=0x1000)
assert client.flush(60)
print("reported", flush=True)
sys.stdin.read()
"""
_OTHER = """
import socket, sys
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen()
while True:
    asker, _ = listener.accept()
    with asker:
        asker.recv(4096)
        asker.sendall(b"hello")
"""


def take(line: str, place: Path) -> tuple[int, str, str]:
    """One step of the tour: exit code, output, messages."""
    environment = {**os.environ, "COLUMNS": "100"}
    done: Any = subprocess.run(
        [*TTMEM, *shlex.split(line)], cwd=place, env=environment, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=PATIENCE,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


def section(line: str, code: int, out: str, err: str) -> str:
    return f"$ ttmem {line}".rstrip() + f"\n{out}{err}[exit code {code}]\n"


@pytest.mark.parametrize(("code", "line", "words"), TOUR, ids=[line or "nothing" for _, line, _ in TOUR])
def test_one_clear_message(code: int, line: str, words: str, place: Path) -> None:
    found, out, err = take(line, place)
    assert (found, "Traceback" in err) == (code, False), err
    assert words in (err if line else out)
    if line:
        assert out == ""
        assert len(err.splitlines()) == 1, err
        assert err.startswith("ttmem"), err
        assert not any(path in err for path in ("/snapshot", "/processes", "/leaks?", "HTTP", "internal error")), err
    if not RENEW:
        assert section(line, found, out, err) in TRANSCRIPT.read_text(encoding="utf-8"), "renew it with `make screens`"


def test_the_transcript_has_every_step_in_order(place: Path) -> None:
    if RENEW:
        text = "\n".join(section(line, *take(line, place)) for _, line, _ in TOUR)
        TRANSCRIPT.write_text(text, encoding="utf-8")
    written = [line for line in TRANSCRIPT.read_text(encoding="utf-8").splitlines() if line.startswith("$ ")]
    assert written == [f"$ ttmem {line}".rstrip() for _, line, _ in TOUR]
    assert {line.split()[0] for _, line, _ in TOUR if line} >= set(COMMANDS), "every command"


@pytest.mark.parametrize("line", ["explain -", "explain - --json"])
def test_interrupted(line: str, place: Path) -> None:
    with subprocess.Popen(
        [*TTMEM, *shlex.split(line)], cwd=place, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        process.stdin.write(b"a line\n" * (1 << 17))  # more than a pipe holds: the command reads it
        process.stdin.flush()
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=PATIENCE) == (b"", b"")
    assert process.returncode == 130
