# SPDX-License-Identifier: Apache-2.0
"""Sets of cores as bit masks, their text forms, and ids that name one core's memory.

A set of cores is one ``int``: bit ``y * 64 + x`` stands for core (x, y). Union, difference and intersection are then
single machine operations. Residency (which program runs on which core) is computed from them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple, Union

ROW = 64
MAX_Y = 64


class CoreRange(NamedTuple):
    """An inclusive rectangle of logical cores."""

    x0: int
    y0: int
    x1: int
    y1: int

    @property
    def cores(self) -> int:
        return (self.x1 - self.x0 + 1) * (self.y1 - self.y0 + 1)


def mask_of(ranges: Iterable[CoreRange]) -> int:
    """The set of all cores in the rectangles.

    >>> mask_of([CoreRange(0, 0, 7, 7)]).bit_count()
    64
    """
    return _mask_of(tuple(ranges))


@lru_cache(maxsize=1024)  # the same few sets occur again and again
def _mask_of(ranges: tuple[CoreRange, ...]) -> int:
    mask = 0
    for x0, y0, x1, y1 in ranges:
        if not (0 <= x0 <= x1 < ROW and 0 <= y0 <= y1 < MAX_Y):
            raise ValueError(f"core range ({x0},{y0})-({x1},{y1}) is outside 0..{ROW - 1}")
        row = ((1 << (x1 - x0 + 1)) - 1) << x0
        for y in range(y0, y1 + 1):
            mask |= row << (y * ROW)
    return mask


Cores = Union[int, str, CoreRange, Iterable[Sequence[int]]]


def mask_from(cores: Cores) -> int:
    """A set of cores from any form of it: a mask, tt-metal's text, a range, or several ranges and (x, y) values.

    >>> mask_from("{[0-0 - 7-7]}") == mask_from(CoreRange(0, 0, 7, 7)) == mask_from([(0, 0, 7, 6), (0, 7, 7, 7)])
    True
    """
    try:
        if isinstance(cores, int):
            mask = cores if 0 < cores < 1 << (ROW * MAX_Y) else 0
        elif isinstance(cores, str):
            mask = mask_of(parse_ranges(cores))
        else:
            several = [cores] if isinstance(cores, CoreRange) else cores
            mask = mask_of(CoreRange(*(core if len(core) == 4 else (*core, *core))) for core in several)
    except (TypeError, ValueError) as error:
        raise ValueError(f"cores is {cores!r} ({error}); give a mask, or CoreRange or (x, y) values") from None
    if not mask:
        raise ValueError(f"cores is {cores!r}, which names no core; leave it out if the cores are not known")
    return mask


def cores_of(mask: int) -> Iterator[tuple[int, int]]:
    """The (x, y) of each core in a mask, row by row."""
    while mask:
        low = mask & -mask
        y, x = divmod(low.bit_length() - 1, ROW)
        yield x, y
        mask ^= low


def ranges_of(mask: int) -> list[CoreRange]:
    """A short list of rectangles that cover exactly the mask; equal rows are merged.

    >>> ranges_of(mask_of([CoreRange(1, 0, 3, 5)]))
    [CoreRange(x0=1, y0=0, x1=3, y1=5)]
    """
    done: list[CoreRange] = []
    growing: dict[tuple[int, int], int] = {}
    y = 0
    rest = mask
    while rest or growing:
        row = rest & ((1 << ROW) - 1)
        spans: dict[tuple[int, int], int] = {}
        while row:
            x0 = (row & -row).bit_length() - 1
            run = row >> x0
            width = (~run & (run + 1)).bit_length() - 1
            spans[x0, x0 + width - 1] = growing.pop((x0, x0 + width - 1), y)
            row &= ~(((1 << width) - 1) << x0)
        done.extend(CoreRange(x0, top, x1, y - 1) for (x0, x1), top in growing.items())
        growing = spans
        rest >>= ROW
        y += 1
    return sorted(done, key=lambda r: (r.y0, r.x0))


_RANGE_TEXT = re.compile(r"\[\s*(?:\(x=)?(\d+)(?:,y=|-)(\d+)\)?\s*-\s*(?:\(x=)?(\d+)(?:,y=|-)(\d+)\)?\s*\]")


def parse_ranges(text: str) -> list[CoreRange]:
    """Core ranges as tt-metal prints them.

    >>> parse_ranges("{[0-0 - 7-7], [0-8 - 3-8]}")
    [CoreRange(x0=0, y0=0, x1=7, y1=7), CoreRange(x0=0, y0=8, x1=3, y1=8)]
    """
    found = [CoreRange(*map(int, m.groups())) for m in _RANGE_TEXT.finditer(text)]
    if not found:
        raise ValueError(f"no core range in {text!r}; expected something like {{[0-0 - 7-7]}}")
    return found


def format_ranges(ranges: Iterable[CoreRange]) -> str:
    """The text form tt-metal uses."""
    return "{" + ", ".join(f"[{r.x0}-{r.y0} - {r.x1}-{r.y1}]" for r in ranges) + "}"


class CoreAddress(NamedTuple):
    """A place in one core's L1, as the per-core ids of legacy clients name it."""

    x: int
    y: int
    address: int


def core_id(x: int, y: int, address: int) -> int:
    """The 64-bit id of a per-core write: ``x`` in bits 48-63, ``y`` in 32-47, the address below.

    >>> hex(core_id(5, 3, 0x20000))
    '0x5000300020000'
    """
    return (x << 48) | (y << 32) | (address & 0xFFFFFFFF)


def split_core_id(ident: int, noc: tuple[int, int], l1_size: int) -> CoreAddress | None:
    """The core and address of an id, or None if it is an ordinary address or an opaque 64-bit id."""
    if ident <= 0xFFFFFFFF:
        return None
    x, y, address = ident >> 48, (ident >> 32) & 0xFFFF, ident & 0xFFFFFFFF
    if x >= noc[0] or y >= noc[1] or address >= l1_size:
        return None
    return CoreAddress(x, y, address)
