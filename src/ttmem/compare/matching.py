# SPDX-License-Identifier: Apache-2.0
"""Finds which allocations of two runs are the same, although lines have moved or shapes have changed."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

from ttmem.compare.sides import Held
from ttmem.model.stack_frames import users_frames

_FRAME = re.compile(r"(?P<file>.*):(?P<line>\d+) (?P<function>.*)", re.DOTALL)


class Pair(NamedTuple):
    """The same allocations in both runs. At least one side is there."""

    old: Held | None
    new: Held | None


def matched(old: Sequence[Held], new: Sequence[Held]) -> list[Pair]:
    """Every group of both sides once: first those that are equal, then those that differ ever more."""
    left, right, pairs = list(old), list(new), []
    for key in _KEYS:
        mine, theirs = _by(left, key), _by(right, key)
        for name, group in mine.items():
            # In the order of their lines: code that moved keeps its order.
            for one, other in zip(sorted(group, key=_place), sorted(theirs.get(name, ()), key=_place)):
                pairs.append(Pair(one, other))
        taken = {id(one) for pair in pairs for one in pair}
        left = [one for one in left if id(one) not in taken]
        right = [one for one in right if id(one) not in taken]
    return [*pairs, *(Pair(one, None) for one in left), *(Pair(None, one) for one in right)]


def _by(groups: Sequence[Held], key: Callable[[Held], Hashable]) -> dict[Hashable, list[Held]]:
    found: dict[Hashable, list[Held]] = defaultdict(list)
    for one in groups:
        name = key(one)
        if name is not None:
            found[name].append(one)
    return found


def _place(one: Held) -> tuple[object, ...]:
    lines = tuple(int(line) for _, line, _ in _frames(one.origin.stack))
    return lines, one.origin.shape or "", one.origin.program or "", one.bytes


def _frames(stack: str | None) -> list[tuple[str, str, str]]:
    """File, line and function of each frame that is the user's own."""
    found = (_FRAME.fullmatch(frame) for frame in users_frames(stack))
    return [(one["file"], one["line"], one["function"]) for one in found if one is not None]


def _files(stack: str | None) -> Hashable:
    """A stack without its line numbers."""
    return tuple((file.rpartition("/")[2], function) for file, _, function in _frames(stack)) or None


def _functions(stack: str | None) -> Hashable:
    """The functions of a stack, whatever file they are in."""
    return tuple(function for _, _, function in _frames(stack)) or None


def _innermost(stack: str | None) -> Hashable:
    """The innermost function."""
    return next((function for _, _, function in _frames(stack)), None)


def _exact(one: Held) -> Hashable:
    return one.origin


def _moved(one: Held) -> Hashable:
    origin = one.origin
    return origin.kind, origin.op, origin.shape, _files(origin.stack)


def _in_other_file(one: Held) -> Hashable:
    origin, functions = one.origin, _functions(one.origin.stack)
    return None if functions is None else (origin.kind, origin.op, origin.shape, functions)


def _called_otherwise(one: Held) -> Hashable:
    origin, function = one.origin, _innermost(one.origin.stack)
    return None if function is None else (origin.kind, origin.op, origin.shape, function)


def _other_shape(one: Held) -> Hashable:
    origin, files = one.origin, _files(one.origin.stack)
    return None if files is None and origin.op is None else (origin.kind, origin.op, files)


def _other_op(one: Held) -> Hashable:
    origin, files = one.origin, _files(one.origin.stack)
    return None if files is None else (origin.kind, origin.shape, files)


def _elsewhere(one: Held) -> Hashable:
    origin = one.origin
    return None if origin.op is None and origin.shape is None else (origin.kind, origin.op, origin.shape)


_KEYS = (_exact, _moved, _in_other_file, _called_otherwise, _other_shape, _other_op, _elsewhere)
