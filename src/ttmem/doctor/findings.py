# SPDX-License-Identifier: Apache-2.0
"""The result of a check: what it examined, what it found, and what to do about it."""

from __future__ import annotations

from typing import NamedTuple

LEVELS = ("broken", "warning", "unknown", "ok")  # worst first; unknown: it could not be examined


class Message(NamedTuple):
    """One result of a check, without the name of the check. A check may yield several."""

    level: str
    looked_at: str
    found: str
    todo: str | None


class Finding(NamedTuple):
    """A message and the name of its check. ``todo`` is None if there is nothing to do."""

    check: str
    level: str
    looked_at: str
    found: str
    todo: str | None


def ok(looked_at: str, found: str) -> Message:
    return Message("ok", looked_at, found, None)


def warning(looked_at: str, found: str, todo: str) -> Message:
    return Message("warning", looked_at, found, todo)


def broken(looked_at: str, found: str, todo: str) -> Message:
    return Message("broken", looked_at, found, todo)


def unknown(looked_at: str, found: str, todo: str | None = None) -> Message:
    return Message("unknown", looked_at, found, todo)


def count(number: int, noun: str, plural: str | None = None) -> str:
    """A number with its noun.

    >>> count(1, "process", "processes"), count(2000, "chip")
    ('1 process', '2,000 chips')
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def some(names: list[str], most: int = 4) -> str:
    """The first few entries of a list.

    >>> some(["a", "b", "c"], 2)
    'a, b and 1 more'
    """
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
