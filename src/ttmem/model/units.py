# SPDX-License-Identifier: Apache-2.0
"""Bytes to text and back. Bytes stay integers everywhere else."""

from __future__ import annotations

_STEPS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_FACTORS = {"": 0, "B": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5}
_SIZE = r"(?i)^\s*(\d+(?:\.\d+)?)\s*([KMGTP]?)(?:i?B)?\s*$"


def human(size: int | None, unknown: str = "-") -> str:
    """A size in the largest fitting unit, at most seven characters before the unit.

    >>> human(1536), human(0), human(None)
    ('1.5 KiB', '0 B', '-')
    """
    if size is None:
        return unknown
    value = float(size)
    for step in _STEPS[:-1]:
        if abs(value) < 1023.95 or (step == "B" and abs(value) < 1024):
            return f"{size} B" if step == "B" else f"{value:.1f} {step}"
        value /= 1024
    return f"{value:.1f} {_STEPS[-1]}"


def peak_text(text: str, at_most: int | None, *, ascii: bool = False) -> str:
    """The text of a peak; ``at_most`` is its upper limit if it is only a lower limit, None if it is exact.

    >>> peak_text("1.5 KiB", None), peak_text("1.5 KiB", 2048)
    ('1.5 KiB', '≥ 1.5 KiB')
    """
    return text if at_most is None else lower_limit(text, ascii=ascii)


def lower_limit(text: str, *, ascii: bool = False) -> str:
    """The text of a value that may have been higher, because records were lost.

    >>> lower_limit("1.5 KiB"), lower_limit("1.5 KiB", ascii=True)
    ('≥ 1.5 KiB', '>= 1.5 KiB')
    """
    return f"{'>=' if ascii else '≥'} {text}"


def short(size: int) -> str:
    """As ``human``; a decimal that is exactly zero is left out.

    >>> short(512 << 20), short(79_200), short((1 << 20) + 1), short(0)
    ('512 MiB', '77.3 KiB', '1.0 MiB', '0 B')
    """
    text = human(size)
    return text.replace(".0 ", " ") if _says_all(text, size) else text


def exact(size: int) -> str:
    """A size for people, with its bytes if they do not follow from it.

    >>> exact(1536), exact(79_200), exact(-160)
    ('1.5 KiB', '77.3 KiB (79,200 B)', '-160 B')
    """
    text = human(size)
    return short(size) if _says_all(text, size) else f"{text} ({size:,} B)"


def _says_all(text: str, size: int) -> bool:
    number, _, unit = text.partition(" ")
    return unit == "B" or float(number) * 1024 ** _STEPS.index(unit) == size


def complete(part: float) -> str:
    """A share as text. A share below 1 is never shown as 100 %.

    >>> complete(1.0), complete(0.75), complete(0.9999999)
    ('100 %', '75 %', '99.99 %')
    """
    return "99.99 %" if 0.9999 < part < 1 else f"{100 * part:.4g} %"


def part_text(size: int, whole: int) -> str:
    """The share of a size in percent. Only nothing is 0 %, and only everything is 100 %.

    >>> part_text(0, 8), part_text(1, 1 << 30), part_text(2, 3000), part_text(1, 2), part_text(9999, 10000)
    ('0 %', 'under 0.0001 %', '0.067 %', '50 %', '99 %')
    """
    part = size / whole if whole else 0.0
    if 0 < part < 1e-6:
        return "under 0.0001 %"
    if part < 0.0995:
        return f"{100 * part:.2g} %"
    return "99 %" if 0.995 <= part < 1 else f"{100 * part:.0f} %"


def parse(text: str) -> int:
    """The bytes that a size like ``64K``, ``1.5 MiB`` or ``4096`` means; powers of 1024.

    >>> parse("1.5 MiB")
    1572864
    """
    import re  # not needed by most commands

    match = re.match(_SIZE, text)
    if match is None:
        raise ValueError(f"not a size: {text!r}; write bytes or a number with K, M, G or T, such as 64K or 1.5MiB")
    factor: int = 1024 ** _FACTORS[match[2].upper()]
    return int(float(match[1]) * factor) if "." in match[1] else int(match[1]) * factor
