# SPDX-License-Identifier: Apache-2.0
"""Colours: what each style looks like in each theme, in the words of Rich."""

from __future__ import annotations

from collections.abc import Mapping

# The ground comes first: what is behind everything, and what plain text looks like.
_DARK = {
    "": "#c5cdd8 on #11151c", "dim": "#7d8896", "bold": "bold #eef3f8", "title": "bold #11151c on #7aa2f7",
    "head": "bold #93a4bd", "select": "on #263750", "key": "bold #7dcfff", "good": "#9ece6a", "warn": "#e6b455",
    "bad": "bold #ff6f83", "bar": "#7aa2f7", "track": "#46546a", "mark": "#bb9af7", "peak": "#ff9e64",
    "dram": "#7aa2f7", "trace": "#a3b8f0", "l1": "#9ece6a", "l1_small": "#5fd7b8", "cb": "#e6b455", "dfb": "#ff9e64",
    "scratchpad": "#bb9af7", "kernel": "#f07a90", "firmware": "#98a2b6", "host": "#c8a98a", "free": "#46546a",
    "temperature": "#ff9e64", "power": "#e6b455", "clock": "#7dcfff",
}  # fmt: skip
_LIGHT = {
    "": "#24292f on #ffffff", "dim": "#68717c", "bold": "bold #000000", "title": "bold #ffffff on #0a57c2",
    "head": "bold #45566c", "select": "on #d3e4fb", "key": "bold #0a57c2", "good": "#1a7f37", "warn": "#8f5a00",
    "bad": "bold #c4122f", "bar": "#0a57c2", "track": "#cfd6de", "mark": "#7a3fc4", "peak": "#b34300",
    "dram": "#0a57c2", "trace": "#3f6cbb", "l1": "#1a7f37", "l1_small": "#0b7f73", "cb": "#8f5a00", "dfb": "#b34300",
    "scratchpad": "#7a3fc4", "kernel": "#c4122f", "firmware": "#57606a", "host": "#7a5230", "free": "#cfd6de",
    "temperature": "#b34300", "power": "#8f5a00", "clock": "#0a6c94",
}  # fmt: skip
_HIGH_CONTRAST = {
    "": "#ffffff on #000000", "dim": "#d0d0d0", "bold": "bold #ffffff", "title": "bold #000000 on #ffff00",
    "head": "bold underline #ffffff", "select": "bold #000000 on #00ffff", "key": "bold #ffff00", "good": "#00ff00",
    "warn": "bold #ffff00", "bad": "bold #ffffff on #d00000", "bar": "#00ffff", "track": "#808080", "mark": "#ff80ff",
    "peak": "#ffb000", "dram": "#60b0ff", "trace": "#a0d0ff", "l1": "#00ff00", "l1_small": "#00ffc0", "cb": "#ffff00",
    "dfb": "#ffb000", "scratchpad": "#ff80ff", "kernel": "#ff7070", "firmware": "#d0d0d0", "host": "#ffd0a0",
    "free": "#808080", "temperature": "#ffb000", "power": "#ffff00", "clock": "#00ffff",
}  # fmt: skip
_MONO = {"": "default on default"} | dict.fromkeys(_DARK, "")
_MONO |= {
    "": "default on default", "dim": "dim", "bold": "bold", "title": "bold reverse", "head": "bold underline",
    "select": "reverse", "key": "bold", "warn": "bold", "bad": "bold", "track": "dim", "mark": "dim", "peak": "bold",
    "free": "dim",
}  # fmt: skip

THEMES: dict[str, Mapping[str, str]] = {
    "dark": _DARK,
    "light": _LIGHT,
    "high-contrast": _HIGH_CONTRAST,
    "mono": _MONO,
}


def look_of(theme: str, style: str) -> str:
    """A style of a theme in Rich's words; several names are laid one over the other, the last on top."""
    looks = THEMES[theme]
    return " ".join(look for look in (looks[""], *(looks[name] for name in style.split())) if look)


def following(theme: str) -> str:
    """
    >>> following("dark"), following("mono")
    ('light', 'dark')
    """
    names = list(THEMES)
    return names[(names.index(theme) + 1) % len(names)]
