# SPDX-License-Identifier: Apache-2.0
"""Values that `--vary` tries: parsed, put into the command, and searched for the largest that fits."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import NamedTuple

_RANGE = re.compile(r"(\w+)\.\.(\w+)")
_NAME = re.compile(r"[A-Za-z_]\w*")
_NUMBER = re.compile(r"(\d+)([kKmM]?)")
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20}
MOST_COMBINATIONS = 256  # of the values that are not searched
_BEYOND = 2  # values above a border that are tried as well


class Varied(NamedTuple):
    """One `--vary`: a list of values, or a range in which the largest that fits is searched."""

    name: str
    values: Sequence[int]
    searched: bool


class Border(NamedTuple):
    """The largest value that fits. ``next_value`` is the one above it, which does not; None at the end of the range.

    Values above a border may fit again, because fragmentation is not monotone: those are in ``fits_again``, and the
    border is the one below the first gap.
    """

    largest: int | None
    next_value: int | None
    tried: tuple[int, ...]  # ascending
    fits_again: tuple[int, ...]


def parse_vary(text: str) -> Varied:
    """
    >>> parse_vary("batch=1..4")
    Varied(name='batch', values=range(1, 5), searched=True)
    >>> parse_vary("seq=1k,2k")
    Varied(name='seq', values=(1024, 2048), searched=False)
    """
    name, _, rest = text.partition("=")
    if not _NAME.fullmatch(name) or not rest:
        raise ValueError(f"{text!r} is not NAME=FIRST..LAST or NAME=VALUE,VALUE")
    found = _RANGE.fullmatch(rest)
    if found is None:
        values = tuple(_number(one) for one in rest.split(","))
        return Varied(name, tuple(dict.fromkeys(values)), searched=False)
    first, last = _number(found[1]), _number(found[2])
    if first > last:
        raise ValueError(f"{rest}: {first} is above {last}; write the smaller number first")
    if last - first > 1 << 24:
        raise ValueError(f"{rest} has too many values")
    return Varied(name, range(first, last + 1), searched=True)


def _number(text: str) -> int:
    found = _NUMBER.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no number such as 32 or 4k")
    return int(found[1]) * _UNITS[found[2].lower()]


def check_varied(varied: Sequence[Varied], command: Sequence[str]) -> None:
    """Raise ValueError if the values cannot be tried with this command."""
    names = [one.name for one in varied]
    if len(set(names)) < len(names):
        raise ValueError(f"a name occurs twice: {', '.join(names)}")
    for name in names:
        if not any(f"{{{name}}}" in word for word in command):
            raise ValueError(f"the command does not contain {{{name}}}, where the value is to be put")
    if sum(one.searched for one in varied) > 1:
        raise ValueError("only one range can be searched; write the values of the others as a list")
    combinations = 1
    for one in varied:
        combinations *= 1 if one.searched else len(one.values)
    if combinations > MOST_COMBINATIONS:
        raise ValueError(f"the lists have {combinations} combinations, more than {MOST_COMBINATIONS}")


def combinations(varied: Sequence[Varied]) -> Iterator[dict[str, int]]:
    """Each combination of the values that are not searched."""
    listed = [one for one in varied if not one.searched]
    for values in product(*(one.values for one in listed)):
        yield dict(zip((one.name for one in listed), values))


def with_values(command: Sequence[str], values: Mapping[str, int]) -> list[str]:
    """The command with values in place of their names.

    >>> with_values(["python", "m.py", "--batch={batch}", "{}"], {"batch": 3})
    ['python', 'm.py', '--batch=3', '{}']
    """
    words = list(command)
    for name, value in values.items():
        words = [word.replace(f"{{{name}}}", str(value)) for word in words]
    return words


def search(values: Sequence[int], fits: Callable[[int], bool]) -> Border:
    """Search the largest value that fits, by bisection. Each border is proven by runs on both of its sides.

    >>> search(range(1, 65), lambda value: value <= 21).largest
    21
    """
    known: dict[int, bool] = {}

    def ask(place: int) -> bool:
        if place not in known:
            known[place] = fits(values[place])
        return known[place]

    low, high = 0, len(values) - 1
    if not ask(low):
        border = -1
    elif ask(high):
        border = high
    else:
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if ask(middle) else (low, middle)
        border = low
    for place in _beyond(border, len(values)):
        ask(place)
    return Border(
        largest=None if border < 0 else values[border],
        next_value=None if border + 1 >= len(values) else values[border + 1],
        tried=tuple(values[place] for place in sorted(known)),
        fits_again=tuple(values[place] for place in sorted(known) if place > border and known[place]),
    )


def most_runs(count: int) -> int:
    """The most runs that a search among so many values takes.

    >>> most_runs(1), most_runs(64)
    (1, 11)
    """
    return min(count, 2 + max(0, count - 2).bit_length() + _BEYOND + 1)


def _beyond(border: int, count: int) -> list[int]:
    """Places above a border that are tried as well: the next ones, and one halfway to the end."""
    halfway = (border + count) // 2
    places = [border + 1 + step for step in range(_BEYOND)] + [halfway]
    return sorted({place for place in places if border < place < count})
