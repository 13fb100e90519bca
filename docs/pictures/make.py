# SPDX-License-Identifier: Apache-2.0
"""Makes the pictures of the documents: real screens of `ttmem demo`, one per view, and of a recording, as SVG.

`make pictures` runs it.
"""

from __future__ import annotations

import copy
import os
import re
import subprocess
import sys
import tempfile
import time
from html import escape
from pathlib import Path
from typing import NamedTuple

from tests.support import Server
from tests.terminal import Look, Screen, Terminal

_HERE = Path(__file__).resolve().parent
_WIDE, _HIGH = 8.4, 18.0  # pixels of a cell
_EDGE = 10.0
_RECORDED_STEPS, _STEP_SECONDS = 220, 0.02
_INK, _GROUND = "#c5cdd8", "#11151c"
_FONTS = "'DejaVu Sans Mono', Menlo, Consolas, 'Liberation Mono', monospace"

Shape = tuple[float, float, float, float, float]  # in a cell: left, right, top, bottom; and how dense


def _dot(column: int, row: int) -> Shape:
    """One of the two by four dots of a braille sign, as wide as high."""
    x, y, wide, high = (2 * column + 1) / 4, (2 * row + 1) / 8, 2 / _WIDE, 2 / _HIGH
    return (x - wide / 2, x + wide / 2, y - high / 2, y + high / 2, 1.0)


def _across(left: float, right: float, thick: float = 1.0) -> Shape:
    return (left, right, 0.5 - thick / 2 / _HIGH, 0.5 + thick / 2 / _HIGH, 1.0)


_DOTS = [_dot(*place) for place in ((0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (0, 3), (1, 3))]  # by bit
_UPRIGHT: Shape = (0.5 - 0.5 / _WIDE, 0.5 + 0.5 / _WIDE, 0.0, 1.0, 1.0)
_LINES = {
    "─": [_across(0, 1)],
    "━": [_across(0, 1, 2.0)],
    "╌": [_across(0.05, 0.45), _across(0.55, 0.95)],
    "┈": [_across(part / 4, (part + 0.5) / 4) for part in range(4)],
    "│": [_UPRIGHT],
    "┤": [_UPRIGHT, _across(0, 0.5)],
    "├": [_UPRIGHT, _across(0.5, 1)],
}


class Scene(NamedTuple):
    """What to start, what to press one after the other and what must then be seen, before the picture is taken."""

    name: str
    arguments: tuple[str, ...]
    steps: tuple[tuple[str, str], ...]
    size: tuple[int, int] = (40, 120)
    seconds: float = 0.0  # to look on before the picture is taken, so that there is a past to see
    recorded: bool = False  # `ttmem top` on a recording of the simulated workload, instead of the demo


_WORKING = ("", "simulated: decoded token")  # the program cache and the trace are there by then
SCENES = (
    Scene("overview", (), (_WORKING,), seconds=25),
    Scene("charts", ("--devices", "t3k"), (("2", "(automatic)"), _WORKING), seconds=15),
    Scene("telemetry", (), (_WORKING, ("3", "AI clock")), seconds=15),
    Scene("processes", ("--devices", "t3k"), (_WORKING, ("4", "4 tracked"))),
    Scene("cores", ("clash",), (("", "simulated: Statically allocated"), ("5", "least headroom"))),
    Scene("allocations", (), (_WORKING, ("6", "layers.31"))),
    Scene(
        "recording",
        ("decode", "--devices", "n150", "--rounds", "40"),
        (("", "RECORDING"), ("2z", "the whole recording"), ("", "╞load"), ("", "at the peak")),
        seconds=1,
        recorded=True,
    ),
)


def main(names: list[str]) -> int:
    unknown = set(names) - {scene.name for scene in SCENES}
    if unknown:
        print(f"there is no picture {', '.join(sorted(unknown))}; there are {', '.join(s.name for s in SCENES)}")
        return 2
    for scene in SCENES:
        if not names or scene.name in names:
            path = _HERE / f"{scene.name}.svg"
            path.write_text(svg(taken(scene)))
            print(path)
    return 0


def taken(scene: Scene) -> Screen:
    """The screen of a scene once all of its steps have been played."""
    with tempfile.TemporaryDirectory() as folder:
        env = {name: value for name, value in os.environ.items() if not name.startswith(("TTMEM_", "TT_", "NO_COLOR"))}
        env |= {"TERM": "xterm-256color", "COLORTERM": "truecolor", "LANG": "C.UTF-8", "XDG_CONFIG_HOME": folder}
        command = (sys.executable, "-m", "ttmem", "demo", *scene.arguments)
        if scene.recorded:
            command = (sys.executable, "-m", "ttmem", "top", "--utc", _recording(Path(folder), env, scene.arguments))
        terminal = Terminal(env, *command, size=scene.size)
        try:
            for keys, seen in scene.steps:
                terminal.press(keys)
                terminal.wait_for(seen)
            enough = time.monotonic() + scene.seconds
            while time.monotonic() < enough:
                terminal.read()
            while terminal.read(0.03):  # until the last frame is whole
                pass
            return _anywhere(copy.deepcopy(terminal.screen))  # what it writes when it ends does not belong there
        finally:
            terminal.process.terminate()
            terminal.ended()


def _recording(folder: Path, env: dict[str, str], arguments: tuple[str, ...]) -> str:
    """A recording of a simulated workload, at its own pace, written by a server."""
    path = str(folder / "run.ttmem")
    server = Server(folder, "--record", path)
    worker = subprocess.Popen(
        [sys.executable, "-m", "ttmem.demo.worker", *arguments],
        env={**env, "TTMEM_SOCKET": server.path, "TT_ALLOC_TRACKING_ENABLED": "1"},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert worker.stdin is not None
    assert worker.stdout is not None
    for _ in range(_RECORDED_STEPS):
        if not worker.stdout.readline():
            break
        time.sleep(_STEP_SECONDS)
        worker.stdin.write("\n")
        worker.stdin.flush()
    worker.stdin.close()
    worker.wait()
    server.stop()
    return path


def _anywhere(screen: Screen) -> Screen:
    """The screen without where this machine has its Python; what follows moves to the left."""
    here = f"{os.path.dirname(sys.executable)}/"
    for row in screen.cells:
        text = "".join(row)
        if here in text:
            row[:] = text.replace(here, "").ljust(len(row))
    return screen


def svg(screen: Screen) -> str:
    """A screen as a picture. Blocks, dots and lines are drawn, so that they meet whatever the reader's font is."""
    height, width = len(screen.cells), len(screen.cells[0])
    wide, high = width * _WIDE + 2 * _EDGE, height * _HIGH + 2 * _EDGE
    ground = _colours(screen.looks[0][-1])[1]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide:g} {high:g}" width="{wide:g}" height="{high:g}">',
        f'<rect width="100%" height="100%" rx="6" fill="{ground}"/>',
        f'<g transform="translate({_EDGE:g} {_EDGE:g})" shape-rendering="crispEdges" '
        f'font-family="{_FONTS}" font-size="14">',
    ]
    for y in range(height):
        for x, text, look in _runs(screen.cells[y], screen.looks[y]):
            parts += _drawn(x, y, text, look, ground)
    return "\n".join([*parts, "</g>", "</svg>", ""])


def _runs(cells: list[str], looks: list[Look]) -> list[tuple[int, str, Look]]:
    """Neighbours that look the same."""
    runs: list[tuple[int, str, Look]] = []
    for x, (character, look) in enumerate(zip(cells, looks)):
        if runs and runs[-1][2] == look:
            runs[-1] = (runs[-1][0], runs[-1][1] + character, look)
        else:
            runs.append((x, character, look))
    return runs


def _colours(look: Look) -> tuple[str, str]:
    ink, ground = look.ink or _INK, look.ground or _GROUND
    return (ground, ink) if look.reversed else (ink, ground)


def _drawn(x: int, y: int, text: str, look: Look, behind: str) -> list[str]:
    ink, ground = _colours(look)
    parts = []
    if ground != behind:
        parts.append(_box(x, y, len(text), 1, ground))
    letters = ""
    for number, character in enumerate(text):
        shapes = _shapes(character)
        parts += [
            _box(x + number + left, y + top, right - left, bottom - top, ink, shade)
            for left, right, top, bottom, shade in shapes
        ]
        letters += " " if shapes else character
    style = ' font-weight="bold"' * look.bold + ' opacity="0.6"' * look.dim
    style += ' text-decoration="underline"' * look.underlined
    return parts + [
        f'<text x="{(x + word.start()) * _WIDE:.1f}" y="{y * _HIGH + 13.5:.1f}" fill="{ink}"{style} '
        f'textLength="{len(word[0]) * _WIDE:.1f}">{escape(word[0])}</text>'
        for word in re.finditer(r"\S+(?: \S+)*", letters)  # several spaces would be drawn as one
    ]


def _shapes(character: str) -> list[Shape]:
    """What a sign that is no letter consists of; nothing if it is one."""
    code = ord(character)
    if 0x2581 <= code <= 0x2588:  # lower eighths
        return [(0.0, 1.0, 1 - (code - 0x2580) / 8, 1.0, 1.0)]
    if 0x2589 <= code <= 0x258F:  # left eighths
        return [(0.0, (0x2590 - code) / 8, 0.0, 1.0, 1.0)]
    if 0x2591 <= code <= 0x2593:
        return [(0.0, 1.0, 0.0, 1.0, (code - 0x2590) / 4)]
    if character == "▀":
        return [(0.0, 1.0, 0.0, 0.5, 1.0)]
    if 0x2800 <= code <= 0x28FF:
        return [_DOTS[bit] for bit in range(8) if (code - 0x2800) >> bit & 1]
    return _LINES.get(character, [])


def _box(x: float, y: float, wide: float, high: float, colour: str, shade: float = 1.0) -> str:
    return (
        f'<rect x="{x * _WIDE:.1f}" y="{y * _HIGH:.1f}" width="{wide * _WIDE:.2f}" height="{high * _HIGH:.2f}" '
        f'fill="{colour}"' + (f' fill-opacity="{shade:g}"' if shade < 1 else "") + "/>"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
