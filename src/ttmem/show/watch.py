# SPDX-License-Identifier: Apache-2.0
"""Shows a picture on a terminal over and over until q is pressed, on a screen of its own and without flicker."""

from __future__ import annotations

import os
import re
import select
import shutil
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
_COLOUR = re.compile(r"(\x1b\[[0-9;]*m)")
_HOME, _END_OF_LINE, _BELOW = "\x1b[H", "\x1b[K", "\x1b[J"


class Frame(NamedTuple):
    """A picture, of which as much is shown as fits, and a line below it that is always shown."""

    text: str
    status: str


def watch(frame: Callable[[], Frame | None], interval: float, seconds: float | None = None) -> None:
    """Draw a frame every ``interval`` seconds until q, until the time is over, or until there is none any more."""
    deadline = None if seconds is None else time.monotonic() + seconds
    with _screen():
        while deadline is None or time.monotonic() < deadline:
            due = time.monotonic() + interval
            picture = frame()
            if picture is None:
                return
            _draw(picture)
            if _pressed_q(due):
                return


def _draw(frame: Frame) -> None:
    """Over what is there: a line that stays the same does not flicker."""
    width, height = shutil.get_terminal_size()
    lines, room = frame.text.splitlines(), height - 1
    hidden = f" ({len(lines) - room} more lines) " if len(lines) > room else ""
    lines = [_cut(line, width) for line in (*lines[:room], hidden + frame.status)]
    sys.stdout.write(_HOME + "\r\n".join(line + _END_OF_LINE for line in lines) + _BELOW)
    sys.stdout.flush()


def _cut(line: str, width: int) -> str:
    """As much of a line as fits; what sets colours takes no room, and is kept."""
    shown, kept = 0, []
    for piece in _COLOUR.split(line):
        if not piece.startswith("\x1b"):
            piece = piece[: width - shown]
            shown += len(piece)
        kept.append(piece)
    return "".join(kept)


def _pressed_q(due: float) -> bool:
    """Wait for the next frame, or for a q."""
    while True:
        left = due - time.monotonic()
        ready, _, _ = select.select([sys.stdin], [], [], max(0.0, left))
        if not ready:
            return False
        keys = os.read(sys.stdin.fileno(), 64)
        if not keys or b"q" in keys.lower():
            return True


@contextmanager
def _screen() -> Iterator[None]:
    fd = sys.stdin.fileno()
    before = termios.tcgetattr(fd)
    tty.setcbreak(fd)
    sys.stdout.write(_ENTER)
    try:
        yield
    finally:
        sys.stdout.write(_LEAVE)
        sys.stdout.flush()
        termios.tcsetattr(fd, termios.TCSADRAIN, before)
