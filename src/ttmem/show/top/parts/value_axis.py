# SPDX-License-Identifier: Apache-2.0
"""The value axis of a chart: at which values it begins and ends, and the labels beside it."""

from __future__ import annotations

from math import ceil, floor, log10
from typing import NamedTuple

from ttmem.show.chip_table import short_size

RANGES = {"auto": "automatic", "peak": "0 to peak", "capacity": "0 to capacity"}
_PARTS = 4  # of an axis between labels
_SNUG_SHARE = 1 / 3  # values that differ by less than this part of the highest are drawn on an axis of their own
_NICE = (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)
_DIGITS = (1, 2, 3, 4, 5, 6, 8)  # of the step between two labels
_UNITS = "BKMGTP"


class Scale(NamedTuple):
    """Both ends of an axis, in bytes, percent, or the unit of a reading; and how values on it are written.

    >>> axis = Scale(0.0, 4.0 * 2**30, 2.0**30, "G", 0)
    >>> axis.label(0.5), axis.precise(1.5 * 2**30), axis.from_zero
    ('2G', '1.5G', True)
    """

    bottom: float
    top: float
    divisor: float
    suffix: str
    digits: int | None  # after the point; None: as sizes in tables

    def label(self, part: float) -> str:
        """The label of a part of the axis, from 0 to 1."""
        value = self.bottom + part * (self.top - self.bottom)
        if value == 0 and self.suffix != "%":
            return "0"  # of every unit
        return short_size(int(value)) if self.digits is None else self._text(value, self.digits)

    def precise(self, value: float) -> str:
        """A value on this axis, with a digit more than the labels have."""
        return short_size(int(value)) if self.digits is None else self._text(value, self.digits + 1)

    def _text(self, value: float, digits: int) -> str:
        return f"{value / self.divisor:.{digits}f}{self.suffix}"

    @property
    def from_zero(self) -> bool:
        return self.bottom <= 0


def scale(mode: str, low: float, high: float, full: Scale, least: float) -> Scale:
    """The axis for values between ``low`` and ``high``; ``mode`` is one of RANGES.

    ``full`` is the axis of the mode "capacity", ``least`` the smallest step between two labels. The automatic range
    fits sizes that differ little closely, and then it does not begin at 0.

    >>> full = Scale(0.0, 100.0, 1.0, "%", 0)
    >>> [scale("auto", *ends, full, 0.01)[:2] for ends in ((78.3, 78.7), (20, 78), (3, 7), (40, 40))]
    [(78.3, 78.7), (0.0, 100.0), (0.0, 8.0), (0.0, 40.0)]
    >>> [scale(mode, 38, 39, full, 0.01)[:2] for mode in RANGES]
    [(37.8, 39.0), (0.0, 40.0), (0.0, 100.0)]
    """
    high = min(high, full.top)
    low = min(low, high)
    is_reading = full.digits is not None and not full.suffix  # such as a temperature: how near its limit is counts
    if mode == "capacity" or high <= 0 or (mode == "auto" and is_reading):
        return full
    if mode == "auto" and 0 < high - low < _SNUG_SHARE * high:
        return _snug(low, high, full, least)
    if mode == "auto" and high > full.top / 2:
        return full
    near = _snug(0.0, high, full, least)
    return full if near.top >= full.top else near


def _snug(low: float, high: float, full: Scale, least: float) -> Scale:
    """The closest axis whose labels are round numbers."""
    divisor, suffix = full.divisor, full.suffix
    if full.digits is None:  # the unit of a size follows from the size
        power = min(len(_UNITS) - 1, next((k for k in range(len(_UNITS)) if high / 1024**k < 1000), len(_UNITS) - 1))
        divisor, suffix = 1024.0**power, _UNITS[power]
        least = divisor * (1.0 if not power else 0.01 if high / divisor >= 100 else 0.001)
    wanted = max((high - low) / _PARTS, least) / divisor
    power = floor(log10(wanted) + 1e-9)
    for step in (digit * 10.0**exponent for exponent in range(power, power + 3) for digit in _DIGITS):
        first = floor(low / divisor / step + 1e-9)
        if step * 1.000001 >= wanted and (first + _PARTS) * step * divisor >= high:
            digits = max(0, ceil(-log10(step) - 1e-9))
            bottom, top = (round(end * step, digits) * divisor for end in (first, first + _PARTS))
            return Scale(bottom, top, divisor, suffix, digits)
    return full  # no number is round enough


def nice(value: float) -> float:
    """The next value up that is good for the end of an axis.

    >>> nice(82.5), nice(176), nice(0)
    (100.0, 200.0, 1.0)
    """
    if value <= 0:
        return 1.0
    power = 10.0 ** len(str(int(value))) / 10
    return next(step * power for step in _NICE if step * power >= value)
