# SPDX-License-Identifier: Apache-2.0
"""Places the circular and dataflow buffers of a program on its cores, and checks them against L1 buffers.

A program has one track for each distinct rectangle of cores among its buffers. A track holds the space used on that
rectangle, from the base of L1 up. Every program starts again at the base: programs share L1 in time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ttmem.model.core_sets import CoreRange, mask_of, ranges_of
from ttmem.sim.errors import Clash
from ttmem.sim.free_list import round_up


def rectangles(ranges: Sequence[CoreRange]) -> list[CoreRange]:
    """The cores of several ranges, divided as by tt-metal's host API: equal rows stacked, by column, then row.

    >>> rectangles([CoreRange(0, 1, 7, 1), CoreRange(0, 0, 7, 0)])
    [CoreRange(x0=0, y0=0, x1=7, y1=1)]
    """
    return list(ranges) if len(ranges) <= 1 else sorted(ranges_of(mask_of(ranges)))


def _meet(a: CoreRange, b: CoreRange) -> bool:
    return a.x0 <= b.x1 and b.x0 <= a.x1 and a.y0 <= b.y1 and b.y0 <= a.y1


class _Track:
    __slots__ = ("cores", "regions")

    def __init__(self, cores: CoreRange) -> None:
        self.cores = cores
        self.regions: list[tuple[int, int]] = []

    @property
    def end(self) -> int:
        return self.regions[-1][1] if self.regions else 0

    def take(self, base: int, address: int, size: int) -> None:
        start, end = self.regions[-1] if self.regions else (base, base)
        if address == end:
            self.regions[-1:] = [(start, end + size)]
        else:
            self.regions.append((address, address + size))


class Tracks:
    """The tracks of one program, on a device with this base and allocation unit.

    >>> grid = [CoreRange(0, 0, 7, 7)]
    >>> tracks = Tracks(105824, 32, [grid, grid])
    >>> tracks.place(grid, 4096), tracks.place(grid, 100)
    (105824, 109920)
    """

    def __init__(self, base: int, unit: int, buffers: Iterable[Sequence[CoreRange]]) -> None:
        """``buffers`` are the rectangles of each buffer that will be placed."""
        self._base = base
        self._unit = unit
        self._tracks = [_Track(one) for one in dict.fromkeys(one for ranges in buffers for one in ranges)]

    def place(self, ranges: Sequence[CoreRange], size: int) -> int:
        """The address of the next buffer, the same on all its cores."""
        ends = [track.end for track in self._tracks if track.cores in ranges]
        address = round_up(max([self._base, *ends]), self._unit)
        for one in ranges:
            for track in self._tracks:
                passed = track.cores != one and track.end > address
                if _meet(track.cores, one) and not passed:
                    if address < track.end:
                        start, end = track.regions[-1]
                        raise Clash(
                            f"Local buffer address {address} has to append to last L1 region [{start}, {end}) or be at "
                            "a higher address"
                        )
                    track.take(self._base, address, size)
        return address

    def place_above(self, ranges: Sequence[CoreRange], size: int) -> int:
        """The address of a scratchpad: above everything placed on any of its cores."""
        meeting = [track for track in self._tracks if any(_meet(track.cores, one) for one in ranges)]
        address = round_up(max([self._base, *(track.end for track in meeting)]), self._unit)
        for track in meeting:
            track.take(self._base, address, size)
        return address

    def check(self, what: str, program: int, l1_size: int, lowest: int | None) -> None:
        """tt-metal's check before every launch; ``lowest`` is the lowest L1 buffer of the device, on whichever core.

        It ignores L1_SMALL: without a live L1 buffer, a program may overwrite live L1_SMALL buffers unnoticed.
        """
        for track in self._tracks:
            if not track.regions:
                continue
            (x0, y0, x1, y1), end = track.cores, track.end
            where = f"on core range [{x0}-{y0} - {x1}-{y1}]"
            if end > l1_size:
                raise Clash(
                    f"Statically allocated {what} buffers {where} grow to {end} B which is beyond max L1 size of "
                    f"{l1_size} B"
                )
            if lowest is not None and lowest < end:
                raise Clash(
                    f"Statically allocated {what} buffers in program {program} clash with L1 buffers {where}. "
                    f"L1 buffer allocated at {lowest} and static {what} buffer region ends at {end}"
                )

    @property
    def end(self) -> int:
        """The highest address of the program on any core."""
        return max((track.end for track in self._tracks), default=self._base)
