# SPDX-License-Identifier: Apache-2.0
"""Shows snapshots one after the other on a terminal, without flicker, until q is pressed."""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from ttmem.show.text import fit_line

_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
_HOME, _END_OF_LINE, _BELOW = "\x1b[H", "\x1b[K", "\x1b[J"
_DOWN, _UP = (b"\x1b[B", b"\x1bOB", b"j"), (b"\x1b[A", b"\x1bOA", b"k")
_PAGE_DOWN, _PAGE_UP = (b"\x1b[6~", b" "), (b"\x1b[5~", b"b")


class Frame(NamedTuple):
    """A snapshot, cut to the screen, and a line below it that is always shown."""

    text: str
    status: str


def watch(frame: Callable[[], Frame], interval: float, count: int | None = None) -> None:
    """Draw a frame every ``interval`` seconds until q is pressed, or a number of frames.

    The arrow keys scroll. If the window changes its size, a new frame is drawn at once.
    """
    top = 0
    with _screen() as (signals, suspend):
        while True:
            due = time.monotonic() + interval
            snapshot = frame()
            top = _draw(snapshot, top)
            count = None if count is None else count - 1
            if count == 0:
                return
            while keys := _keys(due, signals, suspend):
                if b"q" in keys.lower():
                    return
                moved = max(0, top + _move(keys))
                if moved != top:
                    top = _draw(snapshot, moved)


def repeat(emit: Callable[[], None], interval: float, count: int | None = None) -> None:
    """Without a terminal: print one snapshot after the other."""
    due = time.monotonic()
    while True:
        emit()
        sys.stdout.flush()
        count = None if count is None else count - 1
        if count == 0:
            return
        due = max(due + interval, time.monotonic())
        time.sleep(max(0.0, due - time.monotonic()))


def _size() -> tuple[int, int]:
    try:
        width, height = os.get_terminal_size(sys.stdout.fileno())
    except OSError:
        width, height = 0, 0
    return width or 80, height or 24


def _draw(frame: Frame, top: int) -> int:
    """Draw over the last frame, so that equal lines do not flicker. Returns the number of the first line shown."""
    width, height = _size()
    lines, room = frame.text.splitlines(), height - 1
    top = max(0, min(top, len(lines) - room))
    hidden = len(lines) - room
    more = f"   ({hidden} more line{'s' if hidden > 1 else ''}, the arrows scroll)" if hidden > 0 else ""
    shown = [fit_line(line, width) for line in (*lines[top : top + room], frame.status + more)]
    sys.stdout.write(_HOME + "\r\n".join(line + _END_OF_LINE for line in shown) + _BELOW)
    sys.stdout.flush()
    return top


def _move(keys: bytes) -> int:
    page = _size()[1] - 2
    steps = ((_DOWN, 1), (_UP, -1), (_PAGE_DOWN, page), (_PAGE_UP, -page))
    return sum(step * keys.count(key) for names, step in steps for key in names)


def _keys(due: float, signals: int, suspend: Callable[[], None]) -> bytes:
    """The keys pressed before the next frame is due; empty if it is due, or if everything must be drawn again."""
    ready, _, _ = select.select([sys.stdin, signals], [], [], max(0.0, due - time.monotonic()))
    if signals in ready:
        if signal.SIGTSTP in os.read(signals, 64):
            suspend()
    elif ready:
        return os.read(sys.stdin.fileno(), 64) or b"q"  # the terminal was closed
    return b""


@contextmanager
def _screen() -> Iterator[tuple[int, Callable[[], None]]]:
    """Use the terminal's alternate screen, with unbuffered keys and without echo.

    Yields a descriptor that signals are written to, and a function for Ctrl-Z. The function writes to the terminal, so
    it must not be a signal handler, which may interrupt a write.
    """
    fd = sys.stdin.fileno()
    before = termios.tcgetattr(fd)
    reads, writes = os.pipe()
    os.set_blocking(writes, False)
    woken = signal.set_wakeup_fd(writes)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGWINCH, signal.SIGTSTP)}

    def enter() -> None:
        tty.setcbreak(fd)
        sys.stdout.write(_ENTER)

    def leave() -> None:
        sys.stdout.write(_LEAVE)
        sys.stdout.flush()
        termios.tcsetattr(fd, termios.TCSADRAIN, before)

    def suspend() -> None:
        """Restore the shell's screen, stop, and take the screen again afterwards."""
        leave()
        os.kill(os.getpid(), signal.SIGSTOP)
        enter()

    for number in handlers:
        signal.signal(number, lambda *_: None)
    enter()
    try:
        yield reads, suspend
    finally:
        leave()
        for number, handler in handlers.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(woken)
        os.close(reads)
        os.close(writes)
