# SPDX-License-Identifier: Apache-2.0
"""`ttmem top` as a user runs it: on a terminal, with keys, mouse and resizes, and with servers and chips that end."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests import machines
from tests.recorded_stories import story_file
from tests.support import PATIENCE, LegacyClient, Server, process_state, wait_until
from tests.terminal import Terminal

TOP = [sys.executable, "-m", "ttmem", "top"]
_OURS = ("TTMEM_SOCKET", "COLUMNS", "LINES", "NO_COLOR", "LC_ALL", "LC_CTYPE")
_PLAIN = {name: value for name, value in os.environ.items() if name not in _OURS}


@pytest.fixture
def env(folder: Path) -> dict[str, str]:
    """An environment without a server and without settings."""
    return {
        **_PLAIN,
        "LANG": "C.UTF-8",
        "TERM": "xterm-256color",
        "TTMEM_SOCKET": str(folder / "ttmem.sock"),
        "XDG_CONFIG_HOME": str(folder / "config"),
        "PYTHONWARNINGS": "error",
    }


@pytest.fixture
def top(env: dict[str, str]) -> Iterator[Callable[..., Terminal]]:
    opened: list[Terminal] = []

    def start(
        *arguments: str, size: tuple[int, int] = (40, 120), owned: bool = True, more: dict[str, str] | None = None
    ) -> Terminal:
        opened.append(Terminal({**env, **(more or {})}, *TOP, *arguments, size=size, owned=owned))
        return opened[-1]

    yield start
    for one in opened:
        one.kill()


@pytest.fixture
def root(folder: Path) -> Path:
    """A folder for a machine."""
    path = folder / "machine"
    path.mkdir()
    return path


def test_without_a_server(top: Callable[..., Terminal], root: Path) -> None:
    machines.t3k(root)
    terminal = top("--root", str(root))
    terminal.wait_for("03:00.0")
    text = terminal.wait_for("start one with `ttmem serve")  # the last line, which is drawn last
    assert "no server" in text.splitlines()[0]
    assert "51°C" in text
    terminal.press("q")
    assert terminal.ended() == 0
    assert terminal.restored()


@pytest.mark.parametrize("how", ["q", "\x03", signal.SIGTERM, signal.SIGHUP])
def test_every_way_to_end(top: Callable[..., Terminal], root: Path, how: str | int) -> None:
    machines.n150(root)
    terminal = top("--root", str(root))
    terminal.wait_for("01:00.0")
    if isinstance(how, str):
        terminal.press(how)
    else:
        terminal.process.send_signal(how)
    assert terminal.ended() == 0
    assert terminal.restored()


def test_it_can_be_suspended(top: Callable[..., Terminal], root: Path) -> None:
    """Ctrl-Z returns the terminal to the shell, and `fg` draws the whole screen again."""
    machines.n150(root)
    terminal = top("--root", str(root))
    terminal.wait_for("01:00.0")
    terminal.press("3")
    terminal.wait_for("voltage")
    terminal.press("\x1a")
    wait_until(lambda: process_state(terminal.process.pid) == "T" or (terminal.read() and False), "the stop")
    while terminal.read():
        pass
    assert terminal.restored()
    terminal.screen.resize(40, 120)
    terminal.process.send_signal(signal.SIGCONT)
    text = terminal.wait_for("voltage")  # its content does not change, so everything is drawn again
    assert "1 Overview" in text
    assert "quit" in text.splitlines()[-1]
    terminal.press("q")
    assert terminal.ended() == 0


@pytest.mark.parametrize("owned", [True, False])
def test_a_terminal_that_is_closed(top: Callable[..., Terminal], root: Path, owned: bool) -> None:
    """Also without a signal, if the terminal is not the controlling one."""
    machines.n150(root)
    terminal = top("--root", str(root), "-r", "100", owned=owned)
    terminal.wait_for("01:00.0")
    terminal.close()
    wait_until(lambda: terminal.process.poll() is not None, "the end")


def test_a_terminal_that_is_closed_meanwhile(top: Callable[..., Terminal], root: Path) -> None:
    """A suspended process gets two signals: to continue, and that its terminal is gone."""
    machines.n150(root)
    terminal = top("--root", str(root), owned=True)
    terminal.wait_for("01:00.0")
    terminal.press("\x1a")
    wait_until(lambda: process_state(terminal.process.pid) == "T" or (terminal.read() and False), "the stop")
    terminal.close()
    wait_until(lambda: terminal.process.poll() is not None, "the end", 30)


def test_keys(top: Callable[..., Terminal], root: Path) -> None:
    machines.t3k(root)
    terminal = top("--root", str(root))
    terminal.wait_for("chip 0 (id 0000:01:00.0)")
    terminal.press("\x1b[B")  # down
    terminal.wait_for("chip 1 (id 0000:02:00.0)")
    terminal.press("\t")
    terminal.wait_for("chip 2 (id 0000:03:00.0)")
    terminal.press("\x1b[Z")  # shift and tab
    terminal.wait_for("chip 1 (id 0000:02:00.0)")
    terminal.press("3")
    terminal.wait_for("voltage")
    terminal.press("?")
    terminal.wait_for("Keys everywhere")
    terminal.press("x")
    terminal.wait_for(lambda text: "Keys everywhere" not in text and "voltage" in text)
    terminal.press("-")
    terminal.wait_for(lambda text: "  1 s  " in text.splitlines()[0])
    terminal.press(" ")
    terminal.wait_for("PAUSED")
    terminal.press(" ")
    terminal.wait_for(lambda text: "PAUSED" not in text)
    terminal.press("1d2,04:00.0\r")
    text = terminal.wait_for(lambda text: "01:00.0" not in text and "03:00.0" in text)
    assert "only 2,04:00.0" in text.splitlines()[0]
    terminal.press("d\x157\r")  # Ctrl-U empties the line
    terminal.wait_for("there is no chip '7'; there are n300 chip 0 (id 0000:01:00.0)")


def test_mouse(top: Callable[..., Terminal], root: Path) -> None:
    machines.t3k(root)
    terminal = top("--root", str(root))
    text = terminal.wait_for("chip 0 (id 0000:01:00.0)")
    wait_until(lambda: "1006" in terminal.screen.modes or (terminal.read() and False), "asking for the mouse")
    y = next(number for number, line in enumerate(text.splitlines()) if "03:00.0" in line)
    terminal.click(4, y)
    terminal.wait_for("chip 2 (id 0000:03:00.0)")
    terminal.press("\x1b[<64;5;5M")  # the wheel, up
    terminal.wait_for("chip 1 (id 0000:02:00.0)")
    terminal.click(text.splitlines()[0].index("Telemetry"), 0)
    terminal.wait_for("voltage")


def test_the_cursor_of_charts(top: Callable[..., Terminal], root: Path) -> None:
    machines.t3k(root)
    terminal = top("--root", str(root))
    terminal.wait_for("n300 chip 0 (id 0000:01:00.0)")
    terminal.press("2mmm")
    terminal.wait_for("Temperature, last 30 seconds (automatic)")
    terminal.press("\x1b[D")  # left
    terminal.wait_for(" cursor ")
    terminal.press("\x1b[1;2D")  # shift and left
    terminal.wait_for("s ago")
    terminal.press("\x1b")
    terminal.wait_for("range: automatic")
    terminal.press("r")
    terminal.wait_for("range: 0 to peak")
    wait_until(lambda: "1006" in terminal.screen.modes or (terminal.read() and False), "asking for the mouse")
    terminal.click(30, 8)
    terminal.wait_for(" cursor ")


def test_a_view_that_needs_a_server_is_not_reopened_without_one(
    top: Callable[..., Terminal], root: Path, env: dict[str, str]
) -> None:
    machines.n150(root)
    file = Path(env["XDG_CONFIG_HOME"], "ttmem", "top.json")
    file.parent.mkdir(parents=True)
    for view, name in ((4, "Cores"), (5, "Allocations")):
        file.write_text(json.dumps({"view": view}))
        terminal = top("--root", str(root))
        terminal.wait_for(f"{name} needs a server and there is none: this is the overview")
        assert "n150 chip 0 (id 0000:01:00.0)" in terminal.wait_for("quit")
        terminal.press("q")
        assert terminal.ended() == 0
        assert json.loads(file.read_text())["view"] == view


def test_every_size(top: Callable[..., Terminal], root: Path) -> None:
    """Each is drawn at once, and nothing of the previous one is left."""

    def whole(text: str) -> bool:
        return text.count("1 Overview") == 1 and " 0 01:00.0" in text and "quit" in text.splitlines()[-1]

    machines.galaxy(root)
    terminal = top("--root", str(root), "-r", "10000")
    terminal.wait_for("01:00.0")
    for size in ((24, 80), (80, 300), (10, 40), (60, 200), (1, 1), (40, 120)):
        terminal.resize(*size)
        if size[0] > 1:
            terminal.wait_for(whole, f"a whole picture of {size}")
            wait_until(lambda: not terminal.read(0.3), "silence")
            assert whole(terminal.screen.text), terminal.screen.text


def test_a_textual_without_its_private_parts(env: dict[str, str], root: Path) -> None:
    """Then the public interface is used for drawing: the same screen, at a higher cost."""
    machines.t3k(root)
    program = (
        "import sys, textual.app, textual._compositor; del textual._compositor.CompositorUpdate; "
        "from ttmem.show.top import app; assert app.Lines is None; from ttmem.cli import main; sys.exit(main())"
    )
    terminal = Terminal(env, sys.executable, "-c", program, "top", "--root", str(root), "-r", "100")
    try:
        terminal.wait_for("chip 0 (id 0000:01:00.0)")
        terminal.press("\t")
        text = terminal.wait_for("chip 1 (id 0000:02:00.0)")
        assert "chip 0 (id 0000:01:00.0)" not in text
        terminal.press("3")
        assert "chip 1 (id 0000:02:00.0)" not in terminal.wait_for("voltage")
        clock = text.splitlines()[0][-12:]
        terminal.wait_for(lambda text: text.splitlines()[0].endswith(" UTC") and clock not in text, "the next second")
        terminal.press("q")
        assert terminal.ended() == 0
        assert terminal.restored()
    finally:
        terminal.kill()


def test_a_server_that_comes_goes_and_comes_again(
    top: Callable[..., Terminal], folder: Path, root: Path, env: dict[str, str]
) -> None:
    machines.n150(root)
    terminal = top("--root", str(root), "-r", "100")
    terminal.wait_for("no server")
    server = Server(folder, "--quiet")
    client = LegacyClient(server)
    try:
        client.say("alloc 0 1048576 0 0x1000")
        client.query(0)
        terminal.wait_for(lambda text: "no server" not in text and "1.0 MiB" in text and str(client.pid) in text)
        server.stop()
        terminal.wait_for(lambda text: "no server" in text and "01:00.0" in text)
        terminal.wait_for("start one with `ttmem serve")
        server.start()
        terminal.wait_for(lambda text: "no server" not in text)
        with server.stopped():
            terminal.wait_for(" s OLD")
            assert "does not answer within 2 s" in terminal.wait_for("does not answer")
            terminal.press("3")  # keys still work
            terminal.wait_for("nothing to read")
        terminal.wait_for(lambda text: " OLD" not in text and "does not answer" not in text)
        terminal.press("q")
        assert terminal.ended() == 0
    finally:
        client.kill()
        server.stop()


def test_a_chip_that_disappears(top: Callable[..., Terminal], root: Path) -> None:
    machine = machines.t3k(root)
    terminal = top("--root", str(root), "-r", "100")
    terminal.wait_for("chip 0 (id 0000:01:00.0)")
    terminal.press("\x1b[B")
    terminal.wait_for("chip 1 (id 0000:02:00.0)")
    machine.remove(1)
    text = terminal.wait_for("gone")
    assert "03:00.0" in text
    terminal.press("q")
    assert terminal.ended() == 0


def test_what_was_chosen_is_remembered(top: Callable[..., Terminal], root: Path, env: dict[str, str]) -> None:
    machines.n150(root)
    first = top("--root", str(root))
    first.wait_for("chip 0 (id 0000:01:00.0)")
    first.press("t3-q")
    assert first.ended() == 0
    kept = json.loads(Path(env["XDG_CONFIG_HOME"], "ttmem", "top.json").read_text())
    assert (kept["theme"], kept["view"], kept["interval"]) == ("light", 2, 1.0)
    second = top("--root", str(root))
    second.wait_for("voltage")
    second.press("q")
    assert second.ended() == 0


def test_a_broken_settings_file(top: Callable[..., Terminal], root: Path, env: dict[str, str]) -> None:
    machines.n150(root)
    file = Path(env["XDG_CONFIG_HOME"], "ttmem", "top.json")
    file.parent.mkdir(parents=True)
    file.write_text("{")
    terminal = top("--root", str(root))
    terminal.wait_for("top.json is broken; going on without what was chosen last time")
    terminal.press("q")
    assert terminal.ended() == 0


def test_ascii_and_no_colours(top: Callable[..., Terminal], root: Path) -> None:
    machines.t3k(root)
    terminal = top("--root", str(root), "--ascii", more={"NO_COLOR": "1"})
    raw: list[bytes] = []
    feed = terminal.screen.feed

    def keep(text: str) -> None:
        raw.append(text.encode())
        feed(text)

    terminal.screen.feed = keep  # type: ignore[method-assign]
    text = terminal.wait_for("04:00.0")
    assert text.isascii()
    codes = {code for found in re.findall(rb"\x1b\[([\d;]*)m", b"".join(raw)) for code in found.split(b";")}
    assert codes <= {b"", b"0", b"1", b"2", b"4", b"7", b"39", b"49"}, "bold, dim, underlined, reversed; no colours"


def test_not_on_a_terminal(env: dict[str, str]) -> None:
    done = subprocess.run(TOP, capture_output=True, text=True, env=env, stdin=subprocess.DEVNULL, timeout=PATIENCE)
    assert (done.returncode, done.stdout) == (1, "")
    assert "`ttmem smi -w`" in done.stderr


@pytest.mark.parametrize("wrong", [["-r", "99"], ["-r", "10001"], ["--theme", "pink"]])
def test_wrong_usage(env: dict[str, str], wrong: list[str]) -> None:
    done = subprocess.run([*TOP, *wrong], capture_output=True, text=True, env=env, timeout=PATIENCE)
    assert done.returncode == 2
    assert wrong[1] in done.stderr


def test_textual_is_not_installed(top: Callable[..., Terminal], folder: Path) -> None:
    """Simulated: a module with that name that cannot be imported comes first in the path."""
    (folder / "without").mkdir()
    (folder / "without" / "textual.py").write_text("raise ImportError")
    paths = [str(folder / "without"), os.environ.get("PYTHONPATH", "")]
    terminal = top(more={"PYTHONPATH": os.pathsep.join(path for path in paths if path)})
    assert terminal.ended() == 1
    assert "pip install 'ttmem[top]'" in terminal.screen.text


# -- recordings ------------------------------------------------------------------------------------------------------


def moment(terminal: Terminal, words: str) -> str:
    """Wait for a moment, which is named in the line before the last."""
    return terminal.wait_for(lambda text: words in text.splitlines()[-2] and "loading" not in text, words)


def test_a_recording(top: Callable[..., Terminal], folder: Path) -> None:
    """Views, steps, a typed moment, the mouse, and playing to the end."""
    terminal = top(story_file(folder), "--utc")
    text = moment(terminal, "+7.000000s of 10.000s  at the last failed allocation")
    assert "RECORDING" in text.splitlines()[0]
    assert "100M/12.0G" in text
    terminal.press("{{")  # the peaks before it
    moment(terminal, "at the peak of l1 on chip 1")
    terminal.press("[")
    moment(terminal, "at the end of phase prefill")
    terminal.wait_for("300M/12.0G")
    terminal.press(".")
    moment(terminal, "+4.000000s of 10.000s  after PhaseEnded, and 1 more at the same time")
    terminal.press("6")
    terminal.wait_for("ALLOCATIONS  2 allocations")
    terminal.press("@+3s\r")
    moment(terminal, "+3.000000s of 10.000s  3s after its start")
    terminal.wait_for("ALLOCATIONS  3 allocations")
    terminal.click(8, 37)
    moment(terminal, "+0.")
    terminal.press("\x1b[<0;60;38M\x1b[<32;65;38M\x1b[<32;70;38M\x1b[<0;70;38m")  # press, drag, release
    dragged = moment(terminal, " +6.").splitlines()[-2]
    terminal.press("\x1b[<35;20;38M")  # the mouse moves on without a button
    terminal.press("1")
    terminal.wait_for("100M/12.0G")
    assert dragged in terminal.screen.text
    terminal.press("^>>>>>>> ")
    moment(terminal, "+10.000000s of 10.000s  at its end")
    terminal.press("q")
    assert terminal.ended() == 0
    assert terminal.restored()


def test_its_first_moment(top: Callable[..., Terminal], folder: Path) -> None:
    terminal = top(story_file(folder), "--at", "peak:l1", size=(24, 80))
    moment(terminal, "+5.000000s of 10.000s  at the peak of l1 on chip 771")
    terminal.press("q")
    assert terminal.ended() == 0


def test_a_recording_that_was_cut_off(top: Callable[..., Terminal], folder: Path) -> None:
    """What is readable is shown, and the screen and the last words say so."""
    path = story_file(folder)
    whole = Path(path).read_bytes()
    Path(path).write_bytes(whole[:-40])
    terminal = top(path, size=(24, 132))
    text = moment(terminal, "at the last failed allocation")
    assert "INCOMPLETE" in text.splitlines()[0]
    assert re.match(r"incomplete: \d+ bytes at its end are not a complete block", text.splitlines()[-1])
    terminal.press("q")
    assert terminal.ended() == 0
    assert "what is readable is shown" in terminal.screen.text


def test_an_empty_recording(top: Callable[..., Terminal], folder: Path) -> None:
    terminal = top(story_file(folder, []))
    assert terminal.ended() == 1
    assert "the recording is empty" in terminal.screen.text
