# SPDX-License-Identifier: Apache-2.0
"""A terminal for tests, benchmarks and pictures: a program in a window, and the content of the window."""

from __future__ import annotations

import codecs
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
import unicodedata
from collections.abc import Callable
from fcntl import ioctl
from typing import Any, NamedTuple

from tests.support import PATIENCE, wait_until

TOKEN = re.compile(
    r"\x1b\[([?>=<]?)([\d;:]*)([ -/]*)([@-~])|\x1b[P\]_^].*?(?:\x1b\\|\x07)|\x1b[()][0-9A-B]|\x1b[^\[P\]_^()]",
    re.DOTALL,
)


class Look(NamedTuple):
    """How a cell is drawn; colours are "#rrggbb", or None for the terminal's own."""

    ink: str | None = None
    ground: str | None = None
    bold: bool = False
    dim: bool = False
    underlined: bool = False
    reversed: bool = False


_PLAIN = Look()
# Programs send only the numbers of the sixteen colours; these are the usual values.
_SIXTEEN = (
    *("#1d1f21", "#cc6666", "#b5bd68", "#f0c674", "#81a2be", "#b294bb", "#8abeb7", "#c5c8c6"),
    *("#666666", "#d54e53", "#b9ca4a", "#e7c547", "#7aa6da", "#c397d8", "#70c0b1", "#eaeaea"),
)


class Screen:
    """The content of a terminal, for the subset of sequences that Textual writes."""

    def __init__(self, height: int, width: int) -> None:
        self.resize(height, width)
        self.modes: set[str] = set()
        self._rest = ""

    def resize(self, height: int, width: int) -> None:
        self.cells = [[" "] * width for _ in range(height)]
        self.looks = [[_PLAIN] * width for _ in range(height)]
        self.look = _PLAIN
        self.x = self.y = 0

    def feed(self, text: str) -> None:
        text = self._rest + text
        # An incomplete sequence waits for its rest.
        cut = text.rfind("\x1b")
        self._rest = text[cut:] if cut >= 0 and len(text) - cut < 64 and not TOKEN.match(text, cut) else ""
        text = text[: len(text) - len(self._rest)]
        at = 0
        for found in TOKEN.finditer(text):
            self._write(text[at : found.start()])
            at = found.end()
            if found.group(4):
                self._control(*found.group(1, 2, 4))
        self._write(text[at:])

    def _write(self, text: str) -> None:
        for character in text:
            if character == "\n" and self.y >= len(self.cells) - 1:
                self.cells = [*self.cells[1:], [" "] * len(self.cells[0])]
                self.looks = [*self.looks[1:], [_PLAIN] * len(self.cells[0])]
            elif character == "\n":
                self.y += 1
            elif character == "\r":
                self.x = 0
            elif character.isprintable():
                wide = unicodedata.east_asian_width(character) in "WF"
                if self.y < len(self.cells) and self.x < len(self.cells[0]):
                    self.cells[self.y][self.x] = character
                    self.looks[self.y][self.x] = self.look
                self.x += 1 + wide

    def _control(self, prefix: str, numbers: str, final: str) -> None:
        values = [int(number or 0) for number in re.split("[;:]", numbers)]
        if prefix == "?" and final in "hl":
            for value in values:
                (self.modes.add if final == "h" else self.modes.discard)(str(value))
            if 1049 in values:  # switch to the other screen or back: the old content is not kept
                self.resize(len(self.cells), len(self.cells[0]))
        elif not prefix and final == "H":
            self.y, self.x = max(0, values[0] - 1), max(0, (values[1] if len(values) > 1 else 1) - 1)
        elif not prefix and final == "J":
            self.cells = [[" "] * len(self.cells[0]) for _ in self.cells]
            self.looks = [[_PLAIN] * len(self.cells[0]) for _ in self.cells]
        elif not prefix and final == "m":
            self._dress(values)

    def _with(self, **changes: Any) -> None:
        self.look = self.look._replace(**changes)

    def _dress(self, values: list[int]) -> None:
        """Select graphic rendition: the numbers that Rich writes."""
        while values:
            first, *values = values
            if first == 0:
                self.look = _PLAIN
            elif first in (1, 2, 4, 7):
                self._with(**{{1: "bold", 2: "dim", 4: "underlined", 7: "reversed"}[first]: True})
            elif first in (38, 48):
                if values[0] == 2:
                    colour, values = "#{:02x}{:02x}{:02x}".format(*values[1:4]), values[4:]
                else:
                    colour, values = _of_256(values[1]), values[2:]
                self._with(**{"ink" if first == 38 else "ground": colour})
            elif first in (39, 49):
                self._with(**{"ink" if first == 39 else "ground": None})
            elif 30 <= first % 60 <= 37 or 40 <= first % 60 <= 47:
                colour = _SIXTEEN[first % 10 + 8 * (first >= 90)]
                self._with(**{"ink" if first % 60 < 40 else "ground": colour})

    @property
    def lines(self) -> list[str]:
        return ["".join(line).rstrip() for line in self.cells]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


def _of_256(number: int) -> str:
    if number < 16:
        return _SIXTEEN[number]
    if number >= 232:
        return "#{0:02x}{0:02x}{0:02x}".format(8 + 10 * (number - 232))
    red, green, blue = ((number - 16) // 36, (number - 16) // 6 % 6, (number - 16) % 6)
    return "#{:02x}{:02x}{:02x}".format(*(55 + 40 * part if part else 0 for part in (red, green, blue)))


class Terminal:
    """A window, lines by columns, in which a program runs."""

    def __init__(
        self, env: dict[str, str], *command: str, size: tuple[int, int] = (40, 120), owned: bool = True
    ) -> None:
        self.mine, self._theirs = pty.openpty()
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode  # a read may end within a character
        self.screen = Screen(*size)
        self._set_size(size)
        self.before = termios.tcgetattr(self._theirs)
        self.process = subprocess.Popen(
            command,
            stdin=self._theirs,
            stdout=self._theirs,
            stderr=self._theirs,
            env=env,
            preexec_fn=self._own if owned else os.setsid,
        )

    def _own(self) -> None:
        """Make it the controlling terminal, so that closing it sends a signal."""
        os.setsid()
        ioctl(self._theirs, termios.TIOCSCTTY, 0)

    def _set_size(self, size: tuple[int, int]) -> None:
        ioctl(self._theirs, termios.TIOCSWINSZ, struct.pack("4H", *size, 0, 0))

    def resize(self, *size: int) -> None:
        self.screen.resize(size[0], size[1])
        self._set_size((size[0], size[1]))

    def read(self, wait: float = 0.05) -> bool:
        """Read the output; False if there is none."""
        ready, _, _ = select.select([self.mine], [], [], wait)
        if not ready:
            return False
        try:
            self.screen.feed(self._decode(os.read(self.mine, 1 << 16)))
        except OSError:
            return False
        return True

    def wait_for(self, true: Callable[[str], object] | str, what: str = "") -> str:
        """Wait until the screen shows a text, or meets a condition, in a complete frame; returns the screen."""
        deadline = time.monotonic() + PATIENCE
        while True:
            text = self.screen.text
            if true in text if isinstance(true, str) else true(text):
                while self.read(0.03):  # a frame may come in pieces; the next one is not due yet
                    pass
                return self.screen.text
            assert time.monotonic() < deadline, f"{what or true!r} was never shown:\n{text}"
            if not self.read() and self.process.poll() is not None:
                raise AssertionError(
                    f"it ended with {self.process.returncode}; {what or true!r} was never shown:\n{text}"
                )

    def press(self, keys: str) -> None:
        os.write(self.mine, keys.encode())

    def click(self, x: int, y: int) -> None:
        """Send a click as terminals do: in SGR format, counted from 1."""
        self.press(f"\x1b[<0;{x + 1};{y + 1}M\x1b[<0;{x + 1};{y + 1}m")

    def ended(self) -> int:
        """Wait for the end and return the exit code; remaining output is read."""
        wait_until(lambda: self.process.poll() is not None or (self.read(0.01) and False), "the end")
        while self.read(0.01):
            pass
        return int(self.process.returncode)

    def restored(self) -> bool:
        """Whether the terminal is restored: settings, the screen of the shell, the cursor, no mouse reports."""
        left = self.screen.modes - {"7"}
        return termios.tcgetattr(self._theirs) == self.before and left <= {"25"} and "25" in left

    def close(self) -> None:
        os.close(self.mine)
        os.close(self._theirs)

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
