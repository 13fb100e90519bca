# SPDX-License-Identifier: Apache-2.0
"""What a player of recordings shows besides documents: where it is, the marks on its time line, and the history."""

from __future__ import annotations

from math import floor
from typing import Literal, NamedTuple

StepKind = Literal["event", "peak", "phase", "failure"]


class NoSuchMoment(ValueError):
    """The recording has no such moment, or it cannot be read; the text is for the user."""


class Position(NamedTuple):
    """A moment of a recording: its time, and in words which one it is."""

    time: float
    words: str = ""


class TimeMark(NamedTuple):
    """A moment that is marked on the time line."""

    time: float
    kind: StepKind


class PhaseBar(NamedTuple):
    """One run of a phase, and the chips that its process used. ``until`` is None if it did not end."""

    pid: int
    path: str
    since: float
    until: float | None
    chips: frozenset[str]


class Series(NamedTuple):
    """A quantity of a chip: begin of each interval, last and highest value in it."""

    times: list[float]
    last: list[float]
    highest: list[float]


class RecordedHistory(NamedTuple):
    """The history of all chips, as far as it was read; ``step`` is the length of an interval in seconds."""

    step: float
    begin: float
    until: float
    series: dict[tuple[str, str], Series]  # chip, and the name of the quantity as in /history


def offset_text(time: float, begin: float) -> str:
    """A time after the start as `--at` takes it. It is rounded up, so that the event of that time is included.

    >>> offset_text(102.3, 100.0), offset_text(100.0, 100.0), offset_text(101.0000001, 100.0)
    ('+2.300000s', '+0.000000s', '+1.000001s')
    """
    micros = max(0, floor((time - begin) * 1e6))
    while begin + micros / 1e6 < time:
        micros += 1
    return f"+{micros / 1e6:.6f}s"
