# SPDX-License-Identifier: Apache-2.0
"""The functions of libtt_metal.so that the agent needs: read from native/src/symbols.def, which is compiled into it.

The file is installed next to the agent, so the doctor reports what the agent would find.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from ttmem.agent import NAME as AGENT
from ttmem.agent import AgentMissing

_MACRO = "TTMEM_"  # prefix of the macros in the list
NAME = "symbols.def"
BUFFER_FIELDS = "buffer_fields"
"""The substitute that reads the fields of a Buffer in place."""

# A string, a word, or a single character. Comments and preprocessor directives are on separate lines.
_TOKEN = re.compile(r'"[^"\n]*"|\w+|\S')
_IGNORED = re.compile(r"^\s*(//|#).*$", re.MULTILINE)


class KindRequirement(NamedTuple):
    """A group of kinds, and the functions that the agent needs to track it."""

    what: str
    hooks: tuple[str, ...]
    calls: tuple[str, ...]


class Substitute(NamedTuple):
    """If a library lacks all of ``missing`` and has all of ``needed``, the agent does not need ``missing``."""

    missing: tuple[str, ...]
    needed: tuple[str, ...]


class RequiredSymbols(NamedTuple):
    """The list. Functions have short names; the first three fields map them to symbols."""

    hooks: dict[str, str]
    """Functions the agent stands in for: the library must have them, and call them through its linkage table."""
    calls: dict[str, str]
    """Functions it only calls."""
    older: dict[str, str]
    """Functions it calls where a wheel lacks some of those above."""
    needs: tuple[KindRequirement, ...]
    """Without the first one, nothing is tracked at all."""
    unknown: dict[str, tuple[str, ...]]
    """What is not known without some functions that no kind needs."""
    substitutes: dict[str, Substitute]
    programs_since: str
    """A library that needs the substitute BUFFER_FIELDS and lacks this function is too old for programs."""


@functools.cache
def required_symbols() -> RequiredSymbols:
    """The list of the installed agent; AgentMissing if it was installed without one."""
    path = Path(str(files("ttmem") / "agent" / NAME))
    try:
        text = path.read_text(encoding="ascii")
    except FileNotFoundError:
        raise AgentMissing(
            f"{path} does not exist: it is installed with the native agent ({AGENT}), and this ttmem has none"
        ) from None
    return parse(text)


def parse(text: str) -> RequiredSymbols:
    """Parse the list; ValueError if it is malformed."""
    groups: dict[str, str] = {}
    hooks: dict[str, str] = {}
    calls: dict[str, str] = {}
    older: dict[str, str] = {}
    needed_for: dict[str, list[str]] = {}
    unknown: dict[str, list[str]] = {}
    substitutes: dict[str, Substitute] = {}
    programs_since = ""
    for macro, arguments in _entries(text):
        name = _word(arguments[0])
        if macro == _MACRO + "GROUP":
            groups[name] = _text(arguments[1])
        elif macro == _MACRO + "OLDER":
            older[name] = _text(arguments[1])
        elif macro == _MACRO + "SUBSTITUTE":
            missing, needed = (_words(argument) for argument in arguments[1:])
            substitutes[name] = Substitute(missing, needed)
        elif macro == _MACRO + "PROGRAMS_SINCE":
            programs_since = name
        elif macro in (_MACRO + "HOOK", _MACRO + "CALL"):
            wanted_by, without, symbol = arguments[-3:]
            (hooks if macro == _MACRO + "HOOK" else calls)[name] = _text(symbol)
            needed_for[name] = [group for group in _words(wanted_by) if group != "none"]
            if _text(without):
                unknown.setdefault(_text(without), []).append(name)
        else:
            raise ValueError(f"{macro} is no entry of {NAME}")
    needs = tuple(
        KindRequirement(
            what,
            tuple(name for name in hooks if group in needed_for[name]),
            tuple(name for name in calls if group in needed_for[name]),
        )
        for group, what in groups.items()
    )
    named = {what: tuple(names) for what, names in unknown.items()}
    return RequiredSymbols(hooks, calls, older, needs, named, substitutes, programs_since)


def _entries(text: str) -> Iterator[tuple[str, list[list[str]]]]:
    """Every entry: the macro, and its arguments as lists of tokens."""
    tokens = (match[0] for match in _TOKEN.finditer(_IGNORED.sub("", text)))
    for macro in tokens:
        if next(tokens, "") != "(":
            raise ValueError(f"{NAME} has {macro} where an entry is expected")
        arguments: list[list[str]] = [[]]
        depth = 1
        for token in tokens:
            depth += (token == "(") - (token == ")")
            if depth == 0:
                break
            if token == "," and depth == 1:
                arguments.append([])
            else:
                arguments[-1].append(token)
        else:
            raise ValueError(f"{NAME} ends within {macro}")
        yield macro, arguments


def _words(tokens: list[str]) -> tuple[str, ...]:
    return tuple(token for token in tokens if token.isidentifier())


def _word(tokens: list[str]) -> str:
    (word,) = tokens
    return word


def _text(tokens: list[str]) -> str:
    return _word(tokens).removeprefix('"').removesuffix('"')
