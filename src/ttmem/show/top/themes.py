# SPDX-License-Identifier: Apache-2.0
"""Colour themes: the look of each style, in the notation of Rich."""

from __future__ import annotations

from collections.abc import Mapping

# The ground comes first: the background, and the style of plain text.
_DARK = {
    "": "#c5cdd8 on #11151c", "dim": "#7d8896", "bold": "bold #eef3f8", "title": "bold #11151c on #7aa2f7",
    "head": "bold #93a4bd", "select": "on #263750", "key": "bold #7dcfff", "good": "#9ece6a", "warn": "#e6b455",
    "bad": "bold #ff6f83", "bar": "#7aa2f7", "track": "#46546a", "mark": "#bb9af7", "peak": "#ff9e64",
    "dram": "#7aa2f7", "trace": "#a3b8f0", "l1": "#9ece6a", "l1_small": "#5fd7b8", "cb": "#e6b455", "dfb": "#ff9e64",
    "scratchpad": "#bb9af7", "kernel": "#f07a90", "firmware": "#98a2b6", "host": "#c8a98a", "free": "#46546a",
    "temperature": "#ff9e64", "power": "#e6b455", "clock": "#7dcfff",
    "heat0": "#93a4bd on #1a2230", "heat1": "#c5d4e8 on #1d3550", "heat2": "#e2f1f4 on #17596b",
    "heat3": "#f2fbf0 on #2b7350", "heat4": "#11151c on #e6b455", "heat5": "bold #11151c on #ff6f83",
}  # fmt: skip
_LIGHT = {
    "": "#24292f on #ffffff", "dim": "#68717c", "bold": "bold #000000", "title": "bold #ffffff on #0a57c2",
    "head": "bold #45566c", "select": "on #d3e4fb", "key": "bold #0a57c2", "good": "#1a7f37", "warn": "#8f5a00",
    "bad": "bold #c4122f", "bar": "#0a57c2", "track": "#cfd6de", "mark": "#7a3fc4", "peak": "#b34300",
    "dram": "#0a57c2", "trace": "#3f6cbb", "l1": "#1a7f37", "l1_small": "#0b7f73", "cb": "#8f5a00", "dfb": "#b34300",
    "scratchpad": "#7a3fc4", "kernel": "#c4122f", "firmware": "#57606a", "host": "#7a5230", "free": "#cfd6de",
    "temperature": "#b34300", "power": "#8f5a00", "clock": "#0a6c94",
    "heat0": "#45566c on #eef2f7", "heat1": "#24405f on #cfe0f3", "heat2": "#0c3d4a on #a5d8dd",
    "heat3": "#0d3a1d on #93d3a2", "heat4": "#3d2600 on #f2bf5e", "heat5": "bold #ffffff on #c4122f",
}  # fmt: skip
_HIGH_CONTRAST = {
    "": "#ffffff on #000000", "dim": "#d0d0d0", "bold": "bold #ffffff", "title": "bold #000000 on #ffff00",
    "head": "bold underline #ffffff", "select": "bold #000000 on #00ffff", "key": "bold #ffff00", "good": "#00ff00",
    "warn": "bold #ffff00", "bad": "bold #ffffff on #d00000", "bar": "#00ffff", "track": "#606060", "mark": "#ff80ff",
    "peak": "#ffb000", "dram": "#60b0ff", "trace": "#a0d0ff", "l1": "#00ff00", "l1_small": "#00ffc0", "cb": "#ffff00",
    "dfb": "#ffb000", "scratchpad": "#ff80ff", "kernel": "#ff7070", "firmware": "#d0d0d0", "host": "#ffd0a0",
    "free": "#808080", "temperature": "#ffb000", "power": "#ffff00", "clock": "#00ffff",
    "heat0": "#ffffff on #1c1c1c", "heat1": "#ffffff on #003a70", "heat2": "#ffffff on #004f4f",
    "heat3": "#000000 on #00d000", "heat4": "bold #000000 on #ffff00", "heat5": "bold #ffffff on #b00000",
}  # fmt: skip
_MONO = {"": "default on default"} | dict.fromkeys(_DARK, "")
_MONO |= {
    "": "default on default", "dim": "dim", "bold": "bold", "title": "bold reverse", "head": "bold underline",
    "select": "reverse", "key": "bold", "warn": "bold", "bad": "bold", "track": "dim", "mark": "dim", "peak": "bold",
    "free": "dim", "heat0": "dim", "heat2": "bold", "heat3": "underline", "heat4": "bold underline",
    "heat5": "bold reverse",
}  # fmt: skip

THEMES: dict[str, Mapping[str, str]] = {
    "dark": _DARK,
    "light": _LIGHT,
    "high-contrast": _HIGH_CONTRAST,
    "mono": _MONO,
}


def look_of(theme: str, style: str) -> str:
    """A style of a theme in Rich's notation; several names are combined, and the last one wins."""
    looks = THEMES[theme]
    return " ".join(look for look in (looks[""], *(looks[name] for name in style.split())) if look)


def following(theme: str) -> str:
    """
    >>> following("dark"), following("mono")
    ('light', 'dark')
    """
    names = list(THEMES)
    return names[(names.index(theme) + 1) % len(names)]
