# SPDX-License-Identifier: Apache-2.0
"""`ttmem demo` as a user runs it: in a pipe, as JSON, on a terminal, with an existing server."""

from __future__ import annotations

import ctypes
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support import Server, process_state, wait_until
from tests.terminal import Terminal
from ttmem.sim.board_types import machine_named
from ttmem.sim.workloads import WORKLOADS

_PLAIN = {key: value for key, value in os.environ.items() if not key.startswith(("TTMEM_", "TT_ALLOC_", "NO_COLOR"))}
_DEMO = (sys.executable, "-m", "ttmem", "demo")
_PR_SET_CHILD_SUBREAPER = 36
_BARE = "import sys; sys.modules['textual'] = None; from ttmem.cli import main; sys.exit(main(sys.argv[1:]))"
_SAID = {
    "crash": ("killed by SIGKILL", "exited"),
    "fragmentation": ("Out of Memory: Not enough space to allocate",),
    "clash": ("clash with L1 buffers on core range [0-0 - 7-7]",),
}


def demo(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*_DEMO, *arguments], capture_output=True, text=True, timeout=120, env={**_PLAIN, **env})


def snapshot(*arguments: str) -> dict[str, Any]:
    done = demo("--json", *arguments)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_without_a_terminal_it_prints_one_picture_and_a_summary() -> None:
    done = demo("--devices", "quasar")
    assert done.returncode == 0
    assert done.stderr == ""
    for number in range(4):
        assert f"{number} sim-quasar-{number}" in done.stdout
    assert "Anomalies: none" in done.stdout
    assert "decode on simulated quasar devices, 4 processes" in done.stdout
    assert "Still allocated: nothing." in done.stdout
    assert "\x1b" not in done.stdout


def test_the_snapshot_is_of_the_fullest_moment() -> None:
    found = snapshot()
    assert found["schema"] == "ttmem.snapshot/1"
    assert [chip["chip"] for chip in found["chips"]] == [f"sim-n150-{number}" for number in range(4)]
    assert {process["state"] for process in found["processes"]} == {"tracked"}
    memories = [chip["memory"] for chip in found["chips"]]
    assert all(memory["dram"]["used"] == memory["dram"]["peak"] > 8 << 30 for memory in memories)
    for memory in memories:
        del memory["l1"]["physical"]  # detected as well, but not waited for on a slow machine
    assert memories[0] == memories[1] == memories[2] == memories[3]
    assert memories[0]["dram"]["trace"]["used"] > 0
    assert memories[0]["l1"]["cb"]["held"] > memories[0]["l1"]["cb"]["resident"] > 0
    assert memories[0]["system"] == {"fabric_kernels": 896 << 10, "dispatch_kernels": 92 << 10}
    assert not any(found["anomalies"].values())


@pytest.mark.parametrize(("machine", "chips"), [("t3k", 8), ("n300", 4), ("galaxy", 32)])
def test_machines(machine: str, chips: int) -> None:
    found = snapshot("--devices", machine, "--seconds", "0.2")
    assert len(found["chips"]) == chips
    assert len(found["processes"]) == 4
    assert all(chip["memory"]["dram"]["used"] for chip in found["chips"])


@pytest.mark.parametrize(("machine", "chips"), [("n150", 1), ("n300", 2), ("t3k", 8), ("galaxy", 32)])
def test_an_allocation_on_a_mesh_counts_once(machine: str, chips: int) -> None:
    """The number of live allocations is the same on 32 chips as on one, except for the cores of their grids."""
    found = snapshot("matmul", "--devices", machine)
    (process,) = found["processes"]
    assert len(process["chips"]) == len(found["chips"]) == chips
    columns, rows = machine_named(machine).board.compute_grid
    firmware, system_kernels, tensors, parts = 2 * columns * rows, 2, 3, 5
    assert process["allocations"] == firmware + system_kernels + tensors + parts
    assert len({json.dumps(chip["memory"]["dram"]) for chip in found["chips"]}) == 1
    assert sum(chip["memory"]["dram"]["used"] for chip in found["chips"]) == chips * 3 * 640 * 640 * 2


@pytest.mark.parametrize("name", [name for name in WORKLOADS if name != "decode"])
def test_every_workload_plays(name: str) -> None:
    done = demo(name)
    assert done.returncode == 0, done.stderr
    assert f"{name} on simulated n150 devices, one process" in done.stdout
    assert "Still allocated: nothing." in done.stdout
    for said in _SAID.get(name, ()):
        assert said in done.stdout


def test_on_a_server_that_is_there(server: Server) -> None:
    for done in (demo("matmul", "--socket", server.path), demo("matmul", TTMEM_SOCKET=server.path)):
        assert done.returncode == 0, done.stderr
    found = server.snapshot()
    assert [process["state"] for process in found["processes"]] == ["exited", "exited"]
    # There, the driver's numbers belong to real chips, so a simulated chip must not have one.
    assert {(chip["chip"], chip["kmd"]) for chip in found["chips"]} == {("sim-n150-0", None)}


def test_a_server_of_the_environment_that_is_not_there_does_not_matter() -> None:
    done = demo("matmul", TTMEM_SOCKET="/nowhere/t.sock")
    assert done.returncode == 0, done.stderr
    assert done.stderr == "ttmem demo: TTMEM_SOCKET: no server answers on /nowhere/t.sock; the demo starts its own\n"
    assert "Still allocated: nothing." in done.stdout


def test_it_ends_after_the_given_time() -> None:
    for seconds in (1, 5, 30):  # a busy machine may need the first ones to start the workload
        started = time.monotonic()
        done = demo("leak", "--seconds", str(seconds))
        assert done.returncode == 0, done.stderr
        assert time.monotonic() - started >= seconds
        rounds = re.search(r"round (\d+) ", done.stdout)
        if rounds is not None and int(rounds[1]) > 1:
            return
    raise AssertionError(f"it never came to a second round:\n{done.stdout}")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("quake",), 2, "there is no workload 'quake'; there are decode, matmul"),
        (("--seconds", "0"), 2, "'0' is not a number of seconds"),
        (("--devices", "n999"), 2, "there is no 'n999'; choose from n150"),
        (("--socket", "/nowhere/t.sock"), 1, "no ttmem server answers on /nowhere/t.sock"),
    ],
)
def test_what_is_wrong_is_said(arguments: tuple[str, ...], code: int, said: str) -> None:
    done = demo(*arguments)
    assert (done.returncode, "Traceback" in done.stderr) == (code, False)
    assert said in done.stderr


@pytest.fixture
def terminal(folder: Path) -> Iterator[Callable[..., Terminal]]:
    """Starts the demo on a terminal, with a home folder that has settings for `ttmem top`."""
    chosen = folder / "config/ttmem/top.json"
    chosen.parent.mkdir(parents=True)
    chosen.write_text('{"view": 5}')
    home = {"XDG_CONFIG_HOME": str(folder / "config"), "TMPDIR": str(folder), "PYTHONWARNINGS": "error"}
    opened: list[Terminal] = []

    def start(*arguments: str, command: tuple[str, ...] = _DEMO, owned: bool = True, **env: str) -> Terminal:
        env = {**_PLAIN, "TERM": "xterm-256color", "COLORTERM": "truecolor", "LANG": "C.UTF-8", **home, **env}
        opened.append(Terminal(env, *command, *arguments, owned=owned))
        return opened[-1]

    yield start
    for one in opened:
        one.kill()
        one.close()
    assert chosen.read_text() == '{"view": 5}'
    assert os.listdir(chosen.parent) == ["top.json"]


def children(screen: Terminal) -> list[int]:
    """The server first, then the workers."""
    pid = screen.process.pid
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@contextmanager
def orphans() -> Iterator[None]:
    """A process that loses its parent becomes our child, so that its end is known."""
    prctl = ctypes.CDLL(None).prctl
    prctl(_PR_SET_CHILD_SUBREAPER, 1)
    try:
        yield
    finally:
        prctl(_PR_SET_CHILD_SUBREAPER, 0)


def signal_of_death(pid: int) -> int | None:
    status = wait_until(lambda: (found := os.waitpid(pid, os.WNOHANG))[0] and found, f"the end of {pid}")[1]
    return os.WTERMSIG(status) if os.WIFSIGNALED(status) else None


def gone(pid: int) -> bool:
    return not os.path.exists(f"/proc/{pid}") or process_state(pid) == "Z"


def degrees(text: str) -> list[int]:
    return [int(found) for found in re.findall(r"sim-n150-\d .*?(\d+)°C +\d+/160 W", text)]


def test_the_dashboard_until_q(terminal: Callable[..., Terminal], folder: Path) -> None:
    """Simulated chips and telemetry. Killing a worker does not disturb the others; nothing is left behind."""
    screen = terminal()
    assert len(set(degrees(screen.wait_for(lambda text: len(degrees(text)) == 4, "four chips")))) > 1
    screen.press("3")
    screen.wait_for(lambda text: len(re.findall(r"\d+/75 °C", text)) == 4, "the telemetry")
    screen.press("t")
    screen.wait_for("theme: light")
    screen.press("4")
    victim = children(screen)[-1]
    os.kill(victim, signal.SIGKILL)
    screen.wait_for("3 tracked, 1 exited")
    screen.press("q")
    screen.wait_for("Still allocated: nothing.")
    assert screen.ended() == 0
    assert f"pid {victim}: killed by SIGKILL" in screen.screen.text
    assert screen.screen.text.count(": killed by") == 1
    assert screen.restored()
    assert os.listdir(folder) == ["config"]


def test_chips_in_use_draw_more_power(terminal: Callable[..., Terminal]) -> None:
    """conv uses one of the four."""
    screen = terminal("conv")

    def watts(text: str) -> list[int]:
        return [int(found) for found in re.findall(r"sim-n150-\d .* (\d+)/160 W", text)]

    screen.wait_for(lambda text: watts(text) and watts(text)[0] > 30, "work")


@pytest.mark.parametrize(
    ("name", "last", "state"),
    [
        ("crash", "simulated: killed by SIGKILL", "exited"),
        ("fragmentation", "simulated: Out of Memory", "tracked"),
    ],
)
def test_a_workload_that_is_over_can_be_looked_at(
    terminal: Callable[..., Terminal], name: str, last: str, state: str
) -> None:
    screen = terminal(name)
    screen.wait_for(last)
    screen.press("4")
    screen.wait_for(lambda text: re.search(rf"python +{state}", text), "its row")
    screen.press("q")
    screen.wait_for("Still allocated: nothing.")
    assert screen.ended() == 0
    assert _SAID[name][0] in screen.screen.text
    assert screen.restored()


def test_live_for_the_given_time(terminal: Callable[..., Terminal]) -> None:
    screen = terminal("leak", "--seconds", "1")
    screen.wait_for("leak on simulated n150 devices")
    assert screen.ended() == 0
    assert screen.restored()


@pytest.mark.parametrize(
    ("arguments", "command", "env", "hint"),
    [
        (("matmul", "--once"), _DEMO, {}, False),
        (("matmul",), _DEMO, {"TERM": "dumb"}, False),
        (("demo", "matmul"), (sys.executable, "-c", _BARE), {}, True),
    ],
    ids=["--once", "dumb", "no Textual"],
)
def test_on_a_terminal_without_the_dashboard(
    terminal: Callable[..., Terminal],
    arguments: tuple[str, ...],
    command: tuple[str, ...],
    env: dict[str, str],
    hint: bool,
) -> None:
    screen = terminal(*arguments, command=command, **env)
    assert screen.ended() == 0
    assert "Still allocated: nothing." in screen.screen.text
    assert ("for the dashboard: pip install 'ttmem[top]'" in screen.screen.text) == hint


def test_a_killed_demo_leaves_nobody_behind(terminal: Callable[..., Terminal]) -> None:
    """Also if the terminal is not its controlling one, so that the kernel sends no SIGHUP to all of them."""
    screen = terminal(owned=False)
    screen.wait_for("sim-n150-3")
    server, *workers = children(screen)
    assert len(workers) == 4
    with orphans():
        screen.process.kill()
        screen.process.wait()
        killed = time.monotonic()
        # Ended by a signal, or by themselves if their input was closed before that.
        assert {signal_of_death(pid) for pid in (server, *workers)} <= {signal.SIGTERM, None}
        assert time.monotonic() - killed < 25, "they waited for a server that was gone"


def test_a_demo_that_is_told_to_end_tidies_up(terminal: Callable[..., Terminal], folder: Path) -> None:
    screen = terminal()
    screen.wait_for("sim-n150-3")
    family = children(screen)
    screen.process.terminate()
    assert screen.ended() == 128 + signal.SIGTERM
    assert "Still allocated: " not in screen.screen.text
    assert screen.restored()
    assert all(gone(pid) for pid in family)
    assert os.listdir(folder) == ["config"]


def test_a_server_that_dies_under_the_demo(terminal: Callable[..., Terminal]) -> None:
    screen = terminal()
    screen.wait_for("sim-n150-3")
    os.kill(children(screen)[0], signal.SIGKILL)
    assert screen.ended() == 1
    assert "ttmem demo: the server is gone: no ttmem server answers" in screen.screen.text
    assert "Traceback" not in screen.screen.text
    assert screen.restored()
