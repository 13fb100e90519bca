# SPDX-License-Identifier: Apache-2.0
"""The commands as a user types them: clear errors, documented exit codes and options, no traceback."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.mock.wheel import VERSION, wheel
from tests.recorded_stories import STORY, story_file
from tests.support import ROOT, LegacyClient, Server
from ttmem.cli import COMMANDS
from ttmem.model.events import Allocated, Extra


def _ttmem(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ttmem", *arguments],
        capture_output=True, text=True, timeout=60, env={**os.environ, **env},
    )  # fmt: skip


def test_help_and_version() -> None:
    shown = _ttmem("--help")
    assert shown.returncode == 0
    assert all(command in shown.stdout for command in COMMANDS)
    assert re.fullmatch(
        r"ttmem \d+\.\d+\.\d+\nagent /.*/libttmem_agent\.so\nttnn not installed in this Python; .*\n",
        _ttmem("--version").stdout,
    )
    assert _ttmem().returncode == 2
    assert _ttmem("help").stdout == shown.stdout
    asked = _ttmem("help", "smi")
    assert (asked.returncode, asked.stdout) == (0, _ttmem("smi", "--help").stdout)


def test_the_version_names_what_it_found() -> None:
    """The ttnn of a Python that has one, and the agent named by a variable."""
    found = wheel("3.12")
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "TTMEM_AGENT_LIBRARY": "/nonexistent.so"}
    done = subprocess.run([found.python, "-m", "ttmem", "-V"], capture_output=True, text=True, timeout=60, env=env)
    lines = done.stdout.splitlines()
    assert lines[1] == "agent not installed; `ttmem doctor` says why"
    assert re.fullmatch(rf"ttnn {re.escape(VERSION)}, /.*/ttnn", lines[2])


@pytest.mark.parametrize("module", ["ttmem.__main__", "argparse", "ttmem.cli", "fnmatch"])
def test_an_early_interrupt_leaves_no_traceback(module: str) -> None:
    """From the entry point on, also while the command's own module is imported (`fnmatch` is part of that). Before the
    entry point, the interpreter handles the signal."""
    with subprocess.Popen(
        [sys.executable, "-X", "importtime", str(Path(sys.executable).parent / "ttmem"), "doctor"],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stderr is not None
        for line in process.stderr:
            if line.rpartition("|")[2].strip() == module:
                process.send_signal(signal.SIGINT)
                break
        said = process.stderr.read()
    assert "Traceback" not in said
    assert process.returncode in (-signal.SIGINT, 130)


def test_a_folder_that_serve_creates_is_reported(folder: Path) -> None:
    serve = [sys.executable, "-m", "ttmem", "serve", "--quiet", "--no-legacy-path", "--no-machine"]
    with subprocess.Popen(
        [*serve, "--socket", str(folder / "new" / "t.sock")], stderr=subprocess.PIPE, text=True
    ) as server:
        assert server.stderr is not None
        assert server.stderr.readline() == f"ttmem: created the folder {folder}/new\n"
        server.terminate()


@pytest.mark.parametrize("shell", ["bash", "zsh", "tcsh"])
def test_completion_scripts_have_every_command(shell: str) -> None:
    done = _ttmem("completion", shell)
    assert done.returncode == 0
    assert all(command in done.stdout for command in COMMANDS)


def test_bash_completes_commands_and_options(folder: Path) -> None:
    script = folder / "ttmem.bash"
    script.write_text(_ttmem("completion", "bash").stdout)
    ask = (
        "source {script}; COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); COMP_TYPE=9;"
        " COMP_LINE='{words}'; COMP_POINT=${{#COMP_LINE}}; _shtab_ttmem; echo ${{COMPREPLY[@]}}"
    )
    for words, expected in (
        ("ttmem le", "leaks"),
        ("ttmem run --fail", "--fail-on-leak"),
        ("ttmem env --format k", "k8s"),
    ):
        done = subprocess.run(
            ["bash", "-c", ask.format(script=script, words=words)], capture_output=True, text=True, timeout=60
        )
        assert done.stdout.split() == [expected], done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["fly"], 2, "there is no command 'fly'; there are demo, run, "),
        (["dmup"], 2, "there is no command 'dmup'; did you mean `ttmem dump`?"),
        (["help", "fly"], 2, "there is no command 'fly'"),
        (["smi", "--fly"], 2, "unknown option or argument: --fly"),
        (["smi", "--socket", "/nonexistent/api.sock"], 1, "start one with `ttmem serve"),
        (["dump", "--socket", "/nonexistent/api.sock"], 1, "start one with `ttmem serve"),
        (["replay", "/nonexistent/file"], 1, "No such file"),
        (["replay", "/dev/null"], 1, "not a ttmem recording"),
        (["replay", "/dev/null", "--at", "noon"], 1, "not a ttmem recording"),
        (["serve", "--socket", "/nonexistent/folder/x.sock", "--no-legacy-path"], 1, "choose another with --socket"),
        (["serve", "--socket", "/tmp/" + "x" * 120, "--no-legacy-path"], 1, "longer than the 107 bytes"),
        (["serve", "--metrics", "nowhere"], 2, "--metrics takes PORT or HOST:PORT"),
        (["serve", "--record", "/nonexistent/file", "--no-legacy-path"], 1, "cannot record to"),
    ],
)
def test_errors_name_the_fix_and_have_a_code(arguments: list[str], code: int, words: str, folder: Path) -> None:
    if "/nonexistent/folder/x.sock" in arguments and os.getuid() == 0:
        blocker = folder / "file"
        blocker.write_text("")  # root may make any folder, but not below a file
        arguments = [a.replace("/nonexistent/folder", f"{blocker}/folder") for a in arguments]
    failed = _ttmem(*arguments, TTMEM_SOCKET=str(folder / "s.sock"))
    assert failed.returncode == code, failed.stderr
    assert words in failed.stderr
    assert "Traceback" not in failed.stderr


def test_smi_and_dump_show_what_the_server_knows(server: Server, legacy: Callable[..., LegacyClient]) -> None:
    client = legacy(server)
    client.say("alloc 0 1048576 0 0x1000", "cb_alloc 0 4096 7", "free 0 0x99")
    client.query(0)
    env = {"TTMEM_SOCKET": server.path}
    snapshot = json.loads(_ttmem("smi", "--json", **env).stdout)
    assert snapshot["schema"] == "ttmem.snapshot/1"
    assert snapshot["chips"][0]["memory"]["dram"]["used"] == 1048576
    shown = _ttmem("smi", **env).stdout
    assert "1.0 MiB" in shown
    assert str(client.pid) in shown
    assert "Anomalies: frees of unknown allocations 1" in shown
    dumped = _ttmem("dump", **env).stdout.splitlines()
    assert dumped[0].startswith("2 live allocations on 1 chip ")
    assert "  DRAM buffers: 1, 1.0 MiB (1,048,576 B)" in dumped
    assert json.loads(_ttmem("dump", "--json", **env).stdout)["total"] == 2
    assert "Nothing is allocated." in _ttmem("dump", "--kernels", **env).stdout


def test_a_stopped_server_is_named_as_such(server: Server) -> None:
    from ttmem.wire.api_client import ApiError, get

    with server.stopped(), pytest.raises(ApiError, match=r"does not answer within 0\.2 s; is it stopped\?"):
        get("/snapshot", socket_path=server.api, timeout=0.2)


@pytest.mark.parametrize("arguments", ["--help", "smi --help", "smi --json --socket {api}", "dump --socket {api}"])
def test_output_into_a_closed_pipe(server: Server, arguments: str) -> None:
    """This is not reported, and not an error, with the buffering that is used without PYTHONUNBUFFERED."""
    command = f"set -o pipefail; {sys.executable} -m ttmem {arguments.format(api=server.api)} | true"
    piped = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
    assert (piped.returncode, piped.stderr) == (0, "")


@pytest.mark.parametrize("arguments", ["leaks --file", "leaks --json --file", "report -o -", "replay", "explain"])
def test_output_that_cannot_be_written_is_no_error_of_the_recording(folder: Path, arguments: str) -> None:
    """Each line is written at once, while the recording is open."""
    command = [sys.executable, "-u", "-m", "ttmem", *arguments.split(), story_file(folder)]
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "wb") as closed, open("/dev/full", "wb") as full:
        piped = subprocess.run(command, stdout=closed, stderr=subprocess.PIPE, text=True, timeout=60)
        stopped = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    assert (piped.returncode, piped.stderr) == (0, "")
    name = arguments.split()[0]
    assert (stopped.returncode, stopped.stderr) == (
        1, f"ttmem {name}: cannot write the output: No space left on device\n",
    )  # fmt: skip


def test_ascii_is_an_option_of_every_command_that_prints_more(folder: Path) -> None:
    """A name of an operation, the arrow of a comparison, the chart of a leak, a folder: none of them is ASCII."""
    story = [(after, event._replace(extra=Extra(tag="模型")) if isinstance(event, Allocated) else event)
             for after, event in STORY]  # fmt: skip
    (folder / "模型").mkdir()
    old, new = story_file(folder / "模型", story), story_file(folder, story[:-3])
    captured = str(ROOT / "tests/data/imports/n300_report.json")
    for arguments in (
        ["leaks", "--file", old], ["diff", old, new, "--by", "op"], ["stats", old], ["tree", old], ["replay", old],
        ["import", captured, "-o", str(folder / "模型" / "out.ttmem")],
        ["doctor", "--socket", str(folder / "模型" / "t.sock"), "--root", str(folder)],
        ["fit", "--replay", old],
    ):  # fmt: skip
        plain, posix = _ttmem(*arguments, "--ascii", "--no-color"), _ttmem(*arguments, LC_ALL="POSIX")
        assert plain.returncode != 2, plain.stderr
        assert plain.stdout.isascii(), arguments
        assert posix.stdout.isascii(), arguments
        assert "\\u" not in posix.stdout, arguments
    assert " -> " in _ttmem("diff", old, new, "--ascii").stdout


def test_help_is_ascii_and_has_the_exit_codes() -> None:
    for command in COMMANDS:
        shown = _ttmem(command, "--help").stdout
        assert shown.isascii(), command
        assert "\nExit code: " in shown, command


def test_every_option_and_variable_is_documented() -> None:
    pages = "\n".join(page.read_text() for page in [*(ROOT / "docs").glob("*.md"), ROOT / "README.md"])
    for command in COMMANDS:
        for option in set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", _ttmem(command, "--help").stdout)) - {"--help"}:
            assert option in pages, f"{option} of ttmem {command}"
    used = set()
    for source in (ROOT / "src").rglob("*.py"):
        used |= set(re.findall(r'"((?:TTMEM|TT_ALLOC)_[A-Z_]+)"', source.read_text()))
    assert used
    for variable in used:
        assert variable in pages, variable


def test_times_are_local_with_their_zone_and_in_utc_by_option(folder: Path) -> None:
    events = folder / "run.ttmem"
    captured = str(ROOT / "tests/data/imports/n300_report.json")
    assert _ttmem("import", captured, "-o", str(events)).returncode == 0
    stamp = re.compile(r"\d{4}-\d\d-\d\d (\d\d):\d\d:\d\d(\.\d+)?(\+02:30| UTC)")
    for arguments in (["replay", str(events)], ["replay", str(events), "--peaks"], ["smi", "--root", str(folder)]):
        local = stamp.search(_ttmem(*arguments, TZ="XYZ-2:30").stdout)
        utc = stamp.search(_ttmem(*arguments, "--utc", TZ="XYZ-2:30").stdout)
        assert local is not None, arguments
        assert utc is not None, arguments
        assert (local[3], utc[3]) == ("+02:30", " UTC")
    peaks = _ttmem("replay", str(events), "--peaks", TZ="XYZ-2:30").stdout
    until = max(found[0] for found in stamp.finditer(peaks))
    again = _ttmem("replay", str(events), "--peaks", "--at", until, TZ="XYZ-2:30").stdout
    assert again.partition("\n\n")[2] == peaks.partition("\n\n")[2], "as it is printed"
    assert json.loads(_ttmem("replay", str(events), "--json", TZ="XYZ-2:30").stdout)["time"].endswith("Z")


_HOLDER = """
import sys
from ttmem import AllocationClient
from ttmem.model.identity import ChipInfo
client = AllocationClient(enabled=True, socket_path=sys.argv[1])
client.report_device_open(device_id=0, chip=ChipInfo(sys.argv[2], board="n150"))
client.report_allocation(device_id=0, size=1024, buffer_type="dram", buffer_id=0x1000)
print(client.flush(60), flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("command", ["smi", "dump", "l1", "leaks"])
def test_a_number_that_two_chips_have(server: Server, command: str) -> None:
    """Each of two processes, as in two containers, has a chip that it calls device 0."""
    ids = ("17716556166399396846", "17716556166399396847")
    holders = [
        subprocess.Popen(
            [sys.executable, "-c", _HOLDER, server.path, chip_id],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for chip_id in ids
    ]  # fmt: skip
    try:
        assert [holder.stdout.readline() for holder in holders if holder.stdout] == ["True\n"] * 2
        found = _ttmem(command, "--socket", server.path, "-d", "0")
        names = [f"-d {chip_id} (n150, device 0 of process {one.pid})" for chip_id, one in zip(ids, holders)]
        assert found.stdout == ""
        assert (found.returncode, found.stderr) == (
            1,
            f"ttmem {command}: '0' is ambiguous, 2 chips have this name; use {' or '.join(names)}\n",
        )
        assert _ttmem(command, "--socket", server.path, "-d", ids[1]).returncode == 0
    finally:
        for holder in holders:
            holder.communicate("")


@pytest.mark.parametrize("dashes", [["--"], []])
def test_the_arguments_of_a_command_are_its_own(folder: Path, dashes: list[str]) -> None:
    """Also those that are named like options of ttmem and have values that begin with a minus sign."""
    command = ["sh", "-c", 'echo "$@"', "sh", "--at", "-1s", "--json", "-5x", "--depth", "-1"]
    done = _ttmem("run", "--quiet", *dashes, *command)
    assert (done.returncode, done.stdout) == (0, "--at -1s --json -5x --depth -1\n"), done.stderr
