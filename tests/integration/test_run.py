# SPDX-License-Identifier: Apache-2.0
"""`ttmem run` and `ttmem env`: the command is not disturbed, and the figures equal ttnn's own."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import select
import shlex
import shutil
import signal
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.mock.wheel import PYTHONS
from tests.runs import (
    TTMEM,
    Bench,
    Ran,
    Watched,
    addresses,
    figures,
    memory_of,
    reserved,
    taken,
    ttmem,
    wait_for_account,
)
from tests.schema_conformance import problems
from tests.support import PATIENCE, Server, wait_until
from ttmem.agent import require
from ttmem.model import schema
from ttmem.model.kinds import KINDS, Kind
from ttmem.model.units import human

SIGNALLED = {signal.SIGKILL: 137, signal.SIGSEGV: 139, signal.SIGABRT: 134, signal.SIGTERM: 143}
PARTS = {kind.label for kind in KINDS if Kind.CB <= kind < Kind.FIRMWARE}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Ran]]:
    """A program that ended in some way, run once for all tests of it."""
    known: dict[str, Ran] = {}
    with Bench(tmp_path_factory.mktemp("endings")) as bench:

        def run(ending: str) -> Ran:
            if ending not in known:
                known[ending] = bench.run("ttnn_endings", "--ending", ending)
            return known[ending]

        yield run


@pytest.fixture
def bench(folder: Path) -> Iterator[Bench]:
    with Bench(folder) as made:
        yield made


@pytest.fixture
def two_chips(folder: Path) -> Iterator[Bench]:
    with Bench(folder, "n150x2") as made:
        yield made


def run(*command: str, options: tuple[str, ...] = (), **popen: Any) -> Ran:
    """A command that is no ttnn program, under `ttmem run`."""
    popen["env"] = {**os.environ, "TTMEM_SOCKET": "/nonexistent/s.sock", **popen.get("env", {})}
    return ttmem("run", *options, "--", *command, **popen)


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


# -- the command is not changed -------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [0, 1, 7, 255])
def test_the_exit_code_is_the_commands(code: int) -> None:
    assert run("sh", "-c", f"exit {code}").code == code


@pytest.mark.parametrize("number", SIGNALLED)
def test_a_command_ended_by_a_signal(number: signal.Signals) -> None:
    done = run(*python(f"import os; os.kill(os.getpid(), {int(number)})"))
    assert done.code == SIGNALLED[number]
    assert f"ttmem run: exit {SIGNALLED[number]} after" in done.err


def test_input_and_output_are_not_touched() -> None:
    noise = bytes(range(256)) * 4096
    done = run("cat", stdin=None, input=noise)
    assert done.out == noise
    assert run("sh", "-c", "echo problem >&2; printf 'no newline'", options=("--quiet",)) == (
        *(0, b"no newline", "problem\n", {}),
    )


def test_descriptors_of_the_caller_are_passed_on() -> None:
    """<(...) of a shell is one, and so is the connection between a job scheduler and its ranks."""
    reading, writing = os.pipe()
    os.write(writing, b"through a descriptor")
    os.close(writing)
    try:
        code = f"import os; os.write(1, os.read({reading}, 100))"
        done = run(*python(code), pass_fds=(reading,))
    finally:
        os.close(reading)
    assert done.out == b"through a descriptor"


def test_the_command_has_no_descriptors_of_ours() -> None:
    listed = run(*python("import os; print(sorted(os.listdir('/proc/self/fd')))"))
    plain = subprocess.run(python("import os; print(sorted(os.listdir('/proc/self/fd')))"), capture_output=True)
    assert listed.out == plain.stdout


def test_arguments_and_environment_are_the_commands() -> None:
    code = "import os, sys; print(sys.argv[1:], os.environ['MINE'], os.getcwd())"
    arguments = ["--json", "--", "-- x", "*", "", "--quiet"]
    done = run(*python(code), *arguments, env={"MINE": "a b"}, cwd="/")
    assert done.out.decode() == f"{arguments} a b /\n"


@contextlib.contextmanager
def running_in_a_session(*command: str) -> Iterator[subprocess.Popen[bytes]]:
    """A command under `ttmem run`, which reports that it is ready. If the test fails, both are killed."""
    with subprocess.Popen(
        [*TTMEM, "run", "--", *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    ) as running:
        try:
            assert running.stdout is not None
            assert running.stdout.readline() == b"ready\n"
            yield running
        except BaseException:
            os.killpg(running.pid, signal.SIGKILL)
            raise


@pytest.mark.parametrize(
    "number",
    [signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT, signal.SIGQUIT],
)
def test_signals_sent_to_run_reach_the_command(number: signal.Signals) -> None:
    """Also those of a terminal, without a terminal that sends them to both."""
    code = f"""
import signal, sys
signal.signal({int(number)}, lambda *_: sys.exit(20))
print("ready", flush=True)
signal.pause()
"""
    with running_in_a_session(*python(code)) as running:
        running.send_signal(number)
        assert running.wait(PATIENCE) == 20


def test_a_command_that_dies_of_a_passed_on_signal() -> None:
    code = "import signal; print('ready', flush=True); signal.pause()"
    with running_in_a_session(*python(code)) as running:
        running.send_signal(signal.SIGTERM)
        assert running.wait(PATIENCE) == 143
        assert running.stderr is not None
        assert b"ttmem run: exit 143 after" in running.stderr.read()  # the summary is printed all the same


def test_signals_that_were_ignored_stay_ignored() -> None:
    """As for SIGHUP under nohup, and for SIGINT in background commands of a shell."""
    code = "import signal; print([signal.getsignal(n) is signal.SIG_IGN for n in (1, 2, 3, 15)])"
    command = shlex.join([*TTMEM, "run", "--", *python(code)])
    done = subprocess.run(["sh", "-c", f"trap '' HUP INT QUIT TERM; {command}"], capture_output=True, timeout=PATIENCE)
    assert done.stdout == b"[True, True, True, True]\n"


# -- on a terminal --------------------------------------------------------------------------------------------------


class Terminal:
    """A terminal of its own, with a command in the foreground."""

    def __init__(self, *command: str) -> None:
        self._master, slave = os.openpty()
        attributes = termios.tcgetattr(slave)
        attributes[3] &= ~termios.ECHO
        termios.tcsetattr(slave, termios.TCSANOW, attributes)
        self.process = subprocess.Popen(
            command,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(slave)
        self.seen = b""

    def type(self, keys: bytes) -> None:
        os.write(self._master, keys)

    def wait_for(self, text: bytes) -> None:
        while text not in self.seen:
            assert select.select([self._master], [], [], PATIENCE)[0], f"{text!r} was never shown: {self.seen!r}"
            self.seen += os.read(self._master, 4096)

    def close(self) -> bytes:
        """Its whole output. The command must have ended or end soon."""
        with contextlib.suppress(OSError):  # the other side is closed
            while more := os.read(self._master, 4096):
                self.seen += more
        self.process.wait(PATIENCE)
        os.close(self._master)
        return self.seen


def test_a_terminal_stays_a_terminal() -> None:
    code = "import os; print([os.isatty(fd) for fd in (0, 1, 2)], os.getpgrp() == os.tcgetpgrp(0))"
    terminal = Terminal(*TTMEM, "run", "--", *python(code))
    assert b"[True, True, True] True\r\n" in terminal.close()
    assert terminal.process.returncode == 0


@pytest.mark.parametrize(("variables", "options", "bold"), [((), (), True), (("NO_COLOR=1",), (), False),
                                                            ((), ("--no-color",), False)])  # fmt: skip
def test_the_summary_has_colours_on_a_terminal(variables: list[str], options: list[str], bold: bool) -> None:
    command = ["env", "-u", "NO_COLOR", "TERM=xterm", *variables, *TTMEM, "run", *options, "--", "true"]
    shown = Terminal(*command).close()
    assert b"ttmem run: exit 0" in shown
    assert (b"\x1b[1mttmem run: exit 0" in shown) == (b"\x1b" in shown) == bold


def test_an_interrupt_from_the_terminal_reaches_the_command_once() -> None:
    """SIGUSR1 is passed on by `ttmem run`, and arrives after a SIGINT that it would send a second time."""
    code = """
import os, signal, sys
interrupts = []
def count(*_):
    interrupts.append(1)
    os.write(1, b"interrupted\\n")  # not print(), within which it may come
signal.signal(signal.SIGINT, count)
signal.signal(signal.SIGUSR1, lambda *_: sys.exit(4 + len(interrupts)))
print("ready", flush=True)
while True:
    signal.pause()
"""
    terminal = Terminal(*TTMEM, "run", "--", *python(code))
    terminal.wait_for(b"ready")
    terminal.type(b"\x03")
    terminal.wait_for(b"interrupted")
    terminal.process.send_signal(signal.SIGUSR1)
    shown = terminal.close()
    assert terminal.process.returncode == 5
    assert b"ttmem run: exit 5 after" in shown
    assert b"Traceback" not in shown


def test_an_interrupted_command_is_still_summed_up() -> None:
    terminal = Terminal(*TTMEM, "run", "--", *python("import signal; print('ready', flush=True); signal.pause()"))
    terminal.wait_for(b"ready")
    terminal.type(b"\x03")
    shown = terminal.close()
    assert terminal.process.returncode == 130
    assert b"ttmem run: exit 130 after" in shown
    assert shown.count(b"Traceback") == 1  # the command's own KeyboardInterrupt


# -- commands that cannot run ---------------------------------------------------------------------------------------


def test_no_such_command() -> None:
    assert run("no-such-command-anywhere") == (
        *(127, b"", "ttmem run: cannot run no-such-command-anywhere: No such file or directory\n", {}),
    )


def test_a_command_that_may_not_be_run(folder: Path) -> None:
    script = folder / "script"
    script.write_text("#!/bin/sh\n")
    assert run(str(script)) == (126, b"", f"ttmem run: cannot run {script}: Permission denied\n", {})
    assert run(str(folder)).code == 126


@pytest.mark.parametrize("arguments", [(), ("--",), ("--quiet", "--")])
def test_no_command(arguments: tuple[str, ...]) -> None:
    done = ttmem("run", *arguments)
    assert (done.code, done.out) == (2, b"")
    example = "write it after --, for example: ttmem run -- python model.py"
    assert done.err == f"ttmem run: there is no command to run; {example}\n"


@pytest.mark.parametrize("option", ["--json", "--record"])
def test_a_file_that_cannot_be_written_is_refused_before_the_command_runs(folder: Path, option: str) -> None:
    marker, path = folder / "ran", folder / "no" / "such" / "folder.json"
    done = run("touch", str(marker), options=(option, str(path)))
    assert (done.code, done.err) == (1, f"ttmem run: cannot write {path}: No such file or directory\n")
    assert not marker.exists()


@pytest.mark.parametrize("option", ["--max-l1", "--max-dram"])
def test_a_budget_that_is_no_size(option: str) -> None:
    done = run("true", options=(option, "much"))
    assert done.code == 2
    assert "not a size: 'much'" in done.err


@pytest.mark.parametrize("arguments", [("run", "--", "true"), ("env",)])
def test_no_agent(arguments: tuple[str, ...]) -> None:
    done = ttmem(*arguments, env={**os.environ, "TTMEM_AGENT_LIBRARY": "/nonexistent"})
    assert (done.code, done.out) == (1, b"")
    assert re.fullmatch(rf"ttmem {arguments[0]}: TTMEM_AGENT_LIBRARY is /nonexistent, [^\n]+\n", done.err)


def test_the_users_own_preloads_stay_and_come_first(folder: Path) -> None:
    system = re.search(r"(/\S+/libm\.so\.6)", Path("/proc/self/maps").read_text())
    assert system is not None
    mine = str(shutil.copy(system[1], folder / "mine.so"))
    code = "import os; print(os.environ['LD_PRELOAD']); print(open('/proc/self/maps').read())"
    done = run(*python(code), env={"LD_PRELOAD": mine})
    first, _, maps = done.out.decode().partition("\n")
    assert first == f"{mine}:{require()}"
    assert mine in maps
    assert str(require()) in maps


# -- figures --------------------------------------------------------------------------------------------------------


def test_a_command_without_a_device(folder: Path) -> None:
    path = folder / "run.json"
    done = run("true", options=("--json", str(path)))
    lines = [line for line in done.err.splitlines() if line]
    assert re.fullmatch(r"ttmem run: exit 0 after \d+\.\d s; 0 records, none lost; not audited", lines[0])
    assert lines[1:] == ["No process of this command was seen to open a device.", "Anomalies: none"]
    data = json.loads(path.read_text())
    assert problems(data, schema.Run) == []
    assert (data["events"], data["completeness"], data["left"], data["peaks"]) == (0, None, [], [])
    assert data["peak"]["chips"] == data["final"]["chips"] == []
    assert data["command"] == ["true"]


def test_quiet_says_nothing() -> None:
    assert run("true", options=("--quiet",)).err == ""


@pytest.mark.parametrize("python", PYTHONS)
def test_every_figure_is_ttnns_own(folder: Path, python: str) -> None:
    with Bench(folder, python=python) as bench:
        ran = bench.run("ttnn_endings")
        plain = bench.plain("ttnn_endings")
    peak, kept = ran.records
    data, chip_id = ran.data, bench.chip_ids[0]
    assert ran.out == plain.out
    assert problems(data, schema.Run) == []
    assert data["command"] == bench.command("ttnn_endings")
    assert (data["exit_code"], data["dropped"], data["completeness"]) == (0, 0, 1.0)
    assert (data["unseen"], data["trouble"], set(data["anomalies"].values())) == ([], [], {0})
    assert 0 < data["duration_s"] < PATIENCE
    assert data["events"] > 2 * len(peak["buffers"])
    assert taken(peak) > taken(kept) > (0, 0)
    assert reserved(memory_of(data["peak"], chip_id)) == taken(peak)
    assert reserved(memory_of(data["final"], chip_id)) == taken(kept)
    assert [chip["chip"] for snapshot in ("peak", "final") for chip in data[snapshot]["chips"]] == [chip_id, chip_id]
    check_left(data, kept)
    check_pictures(data, chip_id)


def check_left(data: dict[str, Any], kept: dict[str, Any]) -> None:
    """Exactly ttnn's live buffers, and the parts of exactly the programs in its cache."""
    left = data["left"]
    assert addresses(left) == kept["buffers"]
    parts = [allocation for allocation in left if allocation["kind"] in PARTS]
    assert len(addresses(left)) + len(parts) == len(left)
    assert {allocation["cause"] for allocation in parts} <= {"program cache"}
    assert len({allocation["program"] for allocation in parts}) == kept["program_cache"]
    assert {allocation["cause"] for allocation in left if allocation["kind"] in ("dram", "l1")} <= {"tensor"}
    assert [allocation["size"] for allocation in left] == sorted(
        (allocation["size"] for allocation in left), reverse=True
    )


def check_pictures(data: dict[str, Any], chip_id: str) -> None:
    """Numbers that occur twice are equal: the allocations left, the final snapshot, and the peaks by kind."""
    final, peak = memory_of(data["final"], chip_id), memory_of(data["peak"], chip_id)
    for kind, said in (
        ("dram", final["dram"]["used"]),
        ("l1", final["l1"]["buffers"]),
        ("cb", final["l1"]["cb"]["held"]),
        ("dfb", final["l1"]["dfb"]["held"]),
        ("kernel", final["l1"]["kernels"]),
    ):
        assert said == sum(
            allocation["size"] for allocation in data["left"] if allocation["kind"] == kind and not allocation["shared"]
        )
    peaks = {entry["kind"]: entry["per_chip"] for entry in data["peaks"] if "kind" in entry}
    assert (peaks["dram"], peaks["l1"]) == (peak["dram"]["used"], peak["l1"]["buffers"])
    # The circular buffers are those of a program that was compiled after the peak.
    assert (peak["l1"]["cb"]["held"], peak["l1"]["dfb"]["held"]) == (0, peaks["dfb"])
    assert (final["l1"]["cb"]["held"], final["l1"]["dfb"]["held"]) == (peaks["cb"], peaks["dfb"])
    assert final["confidence"]["exact"] == sum(
        allocation["size"] for allocation in data["left"] if not allocation["shared"]
    )
    assert data["peak"]["time"] < data["final"]["time"]


@pytest.mark.parametrize(
    ("ending", "code"),
    [
        *(("freed", 0), ("cleared", 0), ("leave", 0), ("system_exit", 7), ("exception", 1), ("os_exit", 0)),
        *(("kill", 137), ("abort", 134), ("segfault", 139), ("reopen", 0), ("reopen_clean", 0)),
    ],
)
def test_what_is_left_however_it_ends(runs: Callable[[str], Ran], ending: str, code: int) -> None:
    ran = runs(ending)
    peak, kept = ran.records[0], ran.records[-1]
    assert ran.code == ran.data["exit_code"] == code
    assert (ran.data["completeness"], ran.data["dropped"]) == (1.0, 0)
    check_left(ran.data, kept)
    assert [reserved(chip["memory"]) for chip in ran.data["peak"]["chips"]] == [taken(peak)]
    assert [reserved(chip["memory"]) for chip in ran.data["final"]["chips"]] == [taken(kept)] * bool(ran.data["left"])


def test_a_thread_that_allocates_until_the_very_end(runs: Callable[[str], Ran]) -> None:
    """What the thread held when the device was closed is also left: none or one of its tensors."""
    ran = runs("thread")
    kept = ran.records[-1]
    assert ran.code in (0, 134)  # ttnn may abort when a thread allocates on a device that closes
    left = addresses(ran.data["left"])
    extra = [place for place in left if place not in kept["buffers"]]
    assert sorted([*kept["buffers"], *extra]) == left
    assert len(extra) <= 1
    assert ran.data["completeness"] == 1.0


def test_the_summary_says_what_the_data_says(runs: Callable[[str], Ran]) -> None:
    ran = runs("leave")
    lines = ran.err.splitlines()
    assert lines[
        1
    ] == f"ttmem run: exit 0 after {ran.data['duration_s']:.1f} s; {ran.data['events']} records, none lost; " + (
        "100 % complete"
    )
    assert lines[3] == f"n150 chip 0 (id {ran.data['final']['chips'][0]['chip']})"
    table = {line[2:24].rstrip(): line[24:].split() for line in lines[5:12]}
    assert list(table) == [
        *("DRAM buffers", "L1 buffers", "circular buffers", "dataflow buffers", "kernels"),
        *("DRAM reserved", "L1 reserved by buffers"),
    ]
    assert table["DRAM reserved"][:4] == ["384.0", "KiB", "144.0", "KiB"]
    left = [allocation for allocation in ran.data["left"] if allocation["kind"] not in ("dram", "l1")]
    programs = human(sum(allocation["size"] for allocation in left if not allocation["shared"]))
    assert (
        "left at the end: 128.0 KiB of DRAM in 2 allocations, 40.0 KiB of L1 (sum over all cores) in 3 allocations, "
        f"{programs} of programs that use L1 in turn (sum over all cores) in {len(left)} allocations "
        "tensors: 128.0 KiB of DRAM in 2 buffers, 40.0 KiB of L1 (sum over all cores) in 3 buffers; never freed"
    ) in " ".join(ran.err.split())
    assert lines[-1] == "Anomalies: none"


# -- output that cannot be written ----------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [0, 7])
@pytest.mark.parametrize("deaf", ["2>&-", "2>/dev/full", "2>&1 >&3 | { exec <&-; touch gone; }"])
def test_the_exit_code_and_output_are_the_commands_whoever_listens(deaf: str, code: int, folder: Path) -> None:
    """Standard error is closed, or full, or a pipe whose reader is gone when the command ends."""
    if "|" not in deaf:
        (folder / "gone").touch()
    command = f"{sys.executable} -m ttmem run -- sh -c 'until [ -e gone ]; do :; done; echo said; exit {code}' {deaf}"
    script = f"exec 3>&1; set -o pipefail; {command}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60, cwd=folder)
    assert (done.returncode, done.stdout) == (code, "said\n")


@pytest.mark.parametrize(("code", "expected"), [(7, 7), (0, 1)])
def test_data_that_cannot_be_written(code: int, expected: int) -> None:
    done = ttmem("run", "--quiet", "--json", "/dev/full", "--", "sh", "-c", f"exit {code}")
    assert (done.code, done.err) == (expected, "ttmem run: cannot write /dev/full: No space left on device\n")


# -- verdicts -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("ending", "code"), [("close", 0), ("freed", 0), ("system_exit", 7), ("kill", 137)])
def test_what_is_merely_left_is_no_leak(bench: Bench, ending: str, code: int) -> None:
    ran = bench.run("ttnn_endings", "--ending", ending, options=("--fail-on-leak", "--quiet"))
    assert (ran.code, "verdict" in ran.err) == (code, False), ran.err
    left = [row["kind"] for row in ran.data["left"] if row["cause"] == "tensor"]
    assert sorted(left) == ([] if ending == "freed" else ["dram"] * 2 + ["l1"] * 3)


KEEPING = """
import json
import sys

import ttnn

device = ttnn.open_device(device_id=0, l1_small_size=16384)


def allocated(kind):
    return ttnn.get_memory_view(device, getattr(ttnn.BufferType, kind)).total_bytes_allocated_per_bank


image = ttnn.zeros([1, 1, 1024, 64], dtype=ttnn.bfloat16, layout=ttnn.ROW_MAJOR_LAYOUT, device=device)
weight = ttnn.zeros([64, 64, 3, 3], dtype=ttnn.bfloat16, layout=ttnn.ROW_MAJOR_LAYOUT)
made, (ready, bias) = ttnn.conv2d(
    input_tensor=image, weight_tensor=weight, device=device, in_channels=64, out_channels=64, batch_size=1,
    input_height=32, input_width=32, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1), return_weights_and_bias=True,
    conv_config=ttnn.Conv2dConfig(config_tensors_in_dram=True),
)
held = ready.buffer_address()
if sys.argv[1] != "hold":
    held = ready = None
del image, made, bias
print(json.dumps({"held": held, "dram": allocated("DRAM"), "l1": allocated("L1")}))
if sys.argv[1] == "clear":
    device.clear_program_cache()
    print(json.dumps({"dram": allocated("DRAM")}))
ttnn.close_device(device)
"""


@pytest.mark.parametrize("ending", ["drop", "hold", "clear"])
@pytest.mark.parametrize("stacks", [(), ("--stacks",)])
def test_what_a_cached_program_keeps_is_no_tensor(bench: Bench, ending: str, stacks: tuple[str, ...]) -> None:
    """The indices of a convolution, in DRAM. The weights that it prepared belong to the caller."""
    program = bench.folder / "keeping.py"
    program.write_text(KEEPING)
    ran = bench.run_command([bench.python, str(program), ending], options=["--fail-on-leak", *stacks])
    assert ran.code == 0, ran.err
    said = ran.records[-1] if ending == "clear" else ran.records[0]
    left = [allocation for allocation in ran.data["left"] if allocation["kind"] in ("dram", "l1")]
    if ending == "clear":
        assert (said["dram"], left) == (0, [])
        return
    assert said["dram"] > 0
    assert sum(allocation["reserved"] for allocation in left) == 12 * said["dram"]
    tensors = [allocation["address"] for allocation in left if allocation["cause"] == "tensor"]
    assert tensors == ([said["held"]] if ending == "hold" else [])
    assert {allocation["cause"] for allocation in left} >= {"program cache, likely"}


@pytest.mark.parametrize(("option", "pool"), [("--max-dram", 0), ("--max-l1", 1)])
def test_a_budget_may_be_used_up_and_no_more(bench: Bench, runs: Callable[[str], Ran], option: str, pool: int) -> None:
    most = taken(runs("close").records[0])[pool]
    within = bench.run("ttnn_endings", options=(option, str(most), "--quiet"))
    assert (within.code, within.err) == (0, "")
    over = bench.run("ttnn_endings", options=(option, str(most - 1), "--quiet"))
    assert over.code == 4
    assert f"({most:,} B) is over the budget of" in over.err
    own = bench.run("ttnn_endings", "--ending", "system_exit", options=(option, "1", "--quiet"))
    assert own.code == 7
    assert "is over the budget of 1 B" in own.err


def test_buffers_of_cached_programs_are_no_leak(bench: Bench) -> None:
    """Convolutions and poolings keep theirs in L1_SMALL until the cache is cleared."""
    ran = bench.run("ttnn_cached", options=("--fail-on-leak",))
    cached = ran.records[-1]
    assert addresses(ran.data["left"]) == cached["buffers"] != []
    assert {allocation["cause"] for allocation in ran.data["left"] if allocation["kind"] == "l1_small"} == {
        "program cache, likely"
    }
    assert reserved(memory_of(ran.data["final"], bench.chip_ids[0])) == taken(cached)
    assert ran.code == 0, ran.err


def test_tensors_freed_after_a_part_of_the_mesh_closed_are_no_leak(folder: Path) -> None:
    with Bench(folder, "n300") as bench:
        ran = bench.run("ttnn_part_closed", "--board", "n300", options=("--fail-on-leak", "--quiet"))
    assert [record["what"] for record in ran.records] == ["both", "part closed", "whole empty"]
    assert addresses(ran.data["left"]) == ran.records[-1]["buffers"] == []
    assert ran.code == 0, ran.err


# -- several processes ----------------------------------------------------------------------------------------------


def test_all_processes_of_a_command_count(two_chips: Bench) -> None:
    """A shell that runs Python that runs workers, each with a chip that it calls device 0."""
    command = ["sh", "-c", f"{shlex.join(two_chips.command('ttnn_workers'))}; exit 9"]
    with Watched(two_chips, command) as running:
        records = [next(running.records()) for _ in two_chips.chip_ids]
        running.wait_for_agents(2)  # while both hold theirs: the records of each agent are read at once and to the end
        ran = running.ran
    assert ran.code == 9
    assert taken(records[0]) != taken(records[1])
    for number, record in enumerate(records):
        chip_id = two_chips.chip_ids[number]
        assert reserved(memory_of(ran.data["peak"], chip_id)) == taken(record)
        assert reserved(memory_of(ran.data["final"], chip_id)) == taken(record)
        left = [allocation for allocation in ran.data["left"] if allocation["chips"] == [chip_id]]
        assert addresses(left) == record["buffers"]
        assert {(allocation["pid"], *allocation["devices"]) for allocation in left} == {(record["pid"], 0)}
    assert {process["pid"] for process in ran.data["final"]["processes"]} == {record["pid"] for record in records}
    # No number identifies the two, so each is shown by its id.
    assert {f"n150 chip {chip_id}" for chip_id in two_chips.chip_ids.values()} <= set(ran.err.splitlines())


def test_a_run_inside_a_run(bench: Bench) -> None:
    """Both receive everything."""
    inside = bench.folder / "inside.json"
    ran = bench.run_command([*TTMEM, "run", "--quiet", "--json", str(inside), "--", *bench.command("ttnn_endings")])
    data = json.loads(inside.read_text())
    assert addresses(data["left"]) == addresses(ran.data["left"]) == ran.records[-1]["buffers"] != []
    assert data["events"] == ran.data["events"]


def test_a_process_that_becomes_another_program(bench: Bench) -> None:
    """The same pid, without anything that it held before."""
    ran = bench.run("ttnn_exec")
    kept = ran.records[-1]
    assert [record["what"] for record in ran.records] == ["first", "second"]
    assert addresses(ran.data["left"]) == kept["buffers"]
    assert reserved(memory_of(ran.data["final"], bench.chip_ids[0])) == taken(kept)


# -- beside a server ------------------------------------------------------------------------------------------------


def test_the_server_says_the_same(bench: Bench, server: Server) -> None:
    with bench.in_step("ttnn_endings", TTMEM_SOCKET=server.path) as running:
        for record in running.records():
            last = figures(wait_for_account(server, record, bench.chip_ids[0]))
        ran = running.ran
    assert ran.code == 0
    assert figures(memory_of(ran.data["final"], bench.chip_ids[0])) == last
    mine, theirs = memory_of(ran.data["peak"], bench.chip_ids[0]), server.chip(bench.chip_ids[0])
    assert mine["dram"]["used"] == theirs["dram"]["peak"]


def test_what_was_recorded_can_be_played_again(bench: Bench) -> None:
    """The peak, and what a killed process held, are the same from the file and from the run."""
    path = bench.folder / "run.ttmem"
    ran = bench.run("ttnn_endings", "--ending", "kill", options=("--record", str(path), "--stacks"))
    assert ran.code == 137
    assert path.stat().st_mode & 0o777 == 0o600
    snapshot = json.loads(ttmem("replay", str(path), "--json", "--at", "end").out)
    (process,) = snapshot["processes"]
    assert (process["pid"], process["state"]) == (ran.data["left"][0]["pid"], "exited")
    peaks = json.loads(ttmem("replay", str(path), "--peaks", "--json").out)
    told = {one["kind"]: one["per_chip"] for one in peaks if "kind" in one and one["kind"] in ("dram", "l1")}
    mine = memory_of(ran.data["peak"], bench.chip_ids[0])
    assert told == {"dram": mine["dram"]["used"], "l1": mine["l1"]["buffers"]}
    largest = next(one["largest"] for one in peaks if one.get("kind") == "dram")
    assert all(allocation["line"] for allocation in largest)


def test_a_server_named_by_option(bench: Bench, server: Server) -> None:
    ran = bench.run("ttnn_endings", options=("--socket", server.path))
    assert ran.code == 0
    (process,) = wait_until(
        lambda: [p for p in server.snapshot()["processes"] if p["state"] == "exited"], "the process's end"
    )
    assert process["chips"][0]["peak_dram"] == memory_of(ran.data["peak"], bench.chip_ids[0])["dram"]["used"]


def test_a_server_that_comes_late_knows_everything(bench: Bench, serve: Callable[..., Server]) -> None:
    path = str(bench.folder / "ttmem.sock")
    with bench.in_step("ttnn_endings", TTMEM_SOCKET=path) as running:
        for record in running.records():
            if record["what"] == "kept":
                server = serve("--quiet")
                assert server.path == path
                last = wait_for_account(server, record, bench.chip_ids[0])
        ran = running.ran
    assert figures(memory_of(ran.data["final"], bench.chip_ids[0])) == figures(last)
    assert last["completeness"] == 1.0


def test_a_server_killed_and_started_again_knows_everything(bench: Bench, server: Server) -> None:
    with bench.in_step("ttnn_endings", TTMEM_SOCKET=server.path) as running:
        for record in running.records():
            wait_for_account(server, record, bench.chip_ids[0])
            assert server.stop(signal.SIGKILL) == -signal.SIGKILL
            server.start()
            last = wait_for_account(server, record, bench.chip_ids[0])
        ran = running.ran
    assert ran.code == 0
    assert figures(memory_of(ran.data["final"], bench.chip_ids[0])) == figures(last)


# -- ttmem env ------------------------------------------------------------------------------------------------------


def test_env_makes_a_shells_programs_report(bench: Bench, server: Server) -> None:
    command = shlex.join(bench.command("ttnn_endings", "--ending", "kill"))
    script = f'eval "$({shlex.join(TTMEM)} env)"; {command}'
    environment = {**bench.environment, "TTMEM_SOCKET": server.path}
    done = subprocess.run(
        ["sh", "-c", script], env=environment, cwd=bench.folder, capture_output=True, timeout=PATIENCE
    )
    kept = json.loads(done.stdout.splitlines()[-1])
    process = wait_until(lambda: next(iter(server.snapshot()["processes"]), None), "the process")
    wait_until(lambda: server.process_of(process["pid"])["state"] == "exited", "its death")  # type: ignore[index]
    last = server.process_of(process["pid"])
    assert last is not None
    assert last["allocations"] > len(kept["buffers"]) > 0
    assert last["chips"][0]["chip"] == bench.chip_ids[0]


def test_a_server_that_is_named_must_be_there(folder: Path) -> None:
    done = ttmem("run", "--socket", str(folder / "nope.sock"), "--", "touch", str(folder / "ran"))
    assert done.code == 1
    assert f"no ttmem server answers on {folder}/nope.sock: No such file or directory; start one" in done.err
    assert not (folder / "ran").exists()


def test_data_on_standard_output_comes_after_the_commands_own(folder: Path) -> None:
    """Also if that is a file: what the command wrote into it stays."""
    piped = ttmem("run", "--quiet", "--json", "-", "--", "echo", "mine")
    first, second = piped.out.splitlines()
    assert (piped.code, first, json.loads(second)["schema"]) == (0, b"mine", "ttmem.run/1")
    with open(folder / "out", "wb") as file:
        ttmem_run = [sys.executable, "-m", "ttmem", "run", "--quiet", "--json", "-", "--", "echo", "mine"]
        subprocess.run(ttmem_run, stdout=file, stderr=subprocess.PIPE, check=True, timeout=PATIENCE)
    lines = (folder / "out").read_bytes().splitlines()
    assert (lines[0], json.loads(lines[1])["schema"]) == (b"mine", "ttmem.run/1")


def test_env_finds_the_server_and_keeps_what_is_preloaded(server: Server) -> None:
    environment = {**os.environ, "TTMEM_SOCKET": server.path, "LD_PRELOAD": ""}
    done = ttmem("env", env=environment)
    assert done.out.decode().splitlines() == [
        f"export LD_PRELOAD={require()}",
        f"export TTMEM_SOCKET={server.path}",
    ]
    again = ttmem("env", env={**environment, "LD_PRELOAD": str(require())})
    assert again.out == done.out


def test_env_survives_awkward_paths(folder: Path) -> None:
    """Evaluating them returns the same value, character by character."""
    awkward = str(folder / "a 'b' \"c\" $HOME %n \\ d.sock")
    shell = ttmem("env", "--socket", awkward)
    echoed = subprocess.run(
        ["sh", "-c", f'{shell.out.decode()}printf %s "$TTMEM_SOCKET"'], capture_output=True, check=True
    )
    assert echoed.stdout.decode() == awkward
    docker = shlex.split(ttmem("env", "--format", "docker", "--socket", awkward).out.decode())
    assert f"--env=TTMEM_SOCKET={awkward}" in docker
    lines = ttmem("env", "--format", "systemd", "--socket", awkward).out.decode().splitlines()
    assert dict(map(systemd_setting, lines))["TTMEM_SOCKET"] == awkward


def systemd_setting(line: str) -> tuple[str, str]:
    """One Environment= line as systemd.exec(5) reads it: quotes, then C escapes, then % specifiers."""
    match = re.fullmatch(r'Environment="((?:[^"\\]|\\.)*)"', line)
    assert match, line
    text = re.sub(r"\\(.)", r"\1", match[1])
    assert not re.search(r"(?<!%)(?:%%)*%(?!%)", text), f"a specifier: {line}"
    name, _, value = text.replace("%%", "%").partition("=")
    return name, value


def test_env_for_a_unit_file(server: Server) -> None:
    done = ttmem("env", "--format", "systemd", "--socket", server.path, env={**os.environ, "LD_PRELOAD": ""})
    assert dict(map(systemd_setting, done.out.decode().splitlines())) == {
        "LD_PRELOAD": str(require()),
        "TTMEM_SOCKET": server.path,
    }


@pytest.mark.parametrize("before", ["", "/usr/lib/other.so"])
def test_env_for_a_container(server: Server, before: str) -> None:
    done = ttmem("env", "--format", "docker", "--socket", server.path, env={**os.environ, "LD_PRELOAD": before})
    assert done.out.count(b"\n") == 1
    options = shlex.split(done.out.decode())
    folder = os.path.dirname(server.path)
    assert options[:3] == ["--pid=host", f"--volume={require()}:{require()}:ro", f"--volume={folder}:{folder}"]
    assert options[3:] == [
        f"--env=LD_PRELOAD={before + ':' if before else ''}{require()}",
        f"--env=TTMEM_SOCKET={server.path}",
    ]


def test_env_mounts_the_agent_wherever_it_stands_in_the_list(server: Server) -> None:
    preloaded = f"{require()}:/usr/lib/other.so"
    done = ttmem("env", "--format", "docker", "--socket", server.path, env={**os.environ, "LD_PRELOAD": preloaded})
    assert f"--volume={require()}:{require()}:ro" in shlex.split(done.out.decode())
