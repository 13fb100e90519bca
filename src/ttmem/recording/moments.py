# SPDX-License-Identifier: Apache-2.0
"""Moments of a recording by name, as `--at` takes them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from math import inf, isfinite, nextafter
from typing import NamedTuple

from ttmem.account.entities import Chip
from ttmem.account.ledger import Ledger
from ttmem.account.phases import is_called
from ttmem.account.totals import Peak
from ttmem.model.events import Event, Failed, PhaseBegan, PhaseEnded
from ttmem.model.kinds import KIND_BY_LABEL, Pool
from ttmem.recording.recording_file import Happened, Opened, Recording
from ttmem.recording.replay import Reached

FORMS = (
    "+2.3s after the start, -1s before the end, peak, peak:l1, peak:dram@CHIP, failure, end, phase:NAME (the end of "
    "its last run), or a time such as 2026-01-31T12:00:00Z"
)
_UNITS = {"": 1.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "m": 60.0, "h": 3600.0}
_RELATIVE = re.compile(r"([+-])(\d+(?:\.\d*)?|\.\d+)(us|ms|s|m|h|)")
_ROUNDING = 1e-3  # seconds; printed times are cut to milliseconds
_POOLS = {pool.label: pool for pool in Pool}


class MomentError(ValueError):
    """There is no such moment in the recording; the text says what there is."""


class NotAMoment(MomentError):
    """The text is in none of the forms."""


class Moment(NamedTuple):
    """A moment, and in words which one it is."""

    time: float
    words: str
    reached: Reached | None = None  # true of the account after the event that is meant


def _stamp(seconds: float) -> str:
    moment = datetime.fromtimestamp(seconds, timezone.utc)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"


def open_moment(recording: Recording, moment: Moment) -> Opened:
    """The account at a moment. What was live at earlier peaks is not part of it."""
    return recording.at(moment.time, moment.reached)


def find_moment(
    recording: Recording,
    text: str,
    *,
    is_failure: Callable[[str], bool] = lambda message: True,
    find_chip: Callable[[str, Ledger], str] | None = None,
    stamp: Callable[[float], str] = _stamp,
) -> Moment:
    """The moment that a text means; MomentError if there is none.

    ``is_failure`` decides whether the message of an exception is about memory. ``find_chip`` gives the id of the chip
    that a user names. ``stamp`` formats the times in errors.
    """
    if text == "end":
        return Moment(inf, "at its end")
    if text == "failure":
        return _failure(recording, is_failure)
    if text == "peak" or text.startswith("peak:"):
        return _peak(recording, text[5:], find_chip)
    if text.startswith("phase:"):
        return _phase(recording, text[6:])
    return _time(recording, text, stamp)


def default_moment(recording: Recording, *, is_failure: Callable[[str], bool] = lambda message: True) -> Moment:
    """The moment that matters: the last failed allocation, otherwise the peak, otherwise the end."""
    for text in ("failure", "peak"):
        try:
            return find_moment(recording, text, is_failure=is_failure)
        except MomentError:
            continue
    return find_moment(recording, "end")


def range_text(recording: Recording, stamp: Callable[[float], str]) -> str:
    """The time range of a recording in words; ``stamp`` formats a time, cut to milliseconds."""
    length = _milliseconds(recording.end) - _milliseconds(recording.begin)  # the difference of the printed times
    return f"{length / 1000:.3f} s long, from {stamp(recording.begin)} to {stamp(recording.end)}"


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1e6) // 1000


def _failure(recording: Recording, is_failure: Callable[[str], bool]) -> Moment:
    found = [one for one in recording.failures() if isinstance(one.event, Failed) and is_failure(one.event.text)]
    if not found:
        raise MomentError("the recording has no failed allocation; `peak` and `end` always exist")
    return Moment(found[-1].time, "at the last failed allocation", at_failure(found[-1], found))


def at_failure(happened: Happened, failures: list[Happened]) -> Reached:
    """True after that failed allocation, of which there may be several with the same text at the same time."""
    text = _text_of(happened)
    alike = sum(one.time == happened.time and _text_of(one) == text for one in failures)
    left = alike

    def reached(ledger: Ledger, event: Event) -> bool:
        nonlocal left
        if isinstance(event, Failed) and event.text == text and _last_failure(ledger) >= happened.time:
            left -= 1
            if left <= 0:
                left = alike  # the moment may be opened again
                return True
        return False

    return reached


def _text_of(happened: Happened) -> str:
    return happened.event.text if isinstance(happened.event, Failed) else ""


def _last_failure(ledger: Ledger) -> float:
    """The time of the last failure of any process."""
    processes = (*ledger.processes.values(), *ledger.departed)
    return max((process.failures.last[-1][0] for process in processes if process.failures.last), default=-inf)


def _peak(recording: Recording, what: str, find_chip: Callable[[str, Ledger], str] | None) -> Moment:
    ledger, all_chips = recording.at_end()[1:]
    if not what:
        if not all_chips.peak.value:
            raise MomentError("the recording has no peak, because no buffer was allocated")
        highest = all_chips.peak.value

        def at_highest(ledger: Ledger, event: Event) -> bool:
            found = ledger.chips.all_chips
            return found is not None and found.peak.value >= highest

        return Moment(all_chips.peak.time or recording.end, "at the peak of all buffers", at_highest)
    label, _, name = what.partition("@")
    if label not in _POOLS and label not in KIND_BY_LABEL:
        raise MomentError(f"there is no kind of memory {label!r}; there are {', '.join({**_POOLS, **KIND_BY_LABEL})}")
    chips = list(ledger.chips.values())
    if name:
        chip_id = name if find_chip is None else find_chip(name, ledger)
        chips = [chip for chip in chips if chip.id == chip_id]
        if not chips:
            raise MomentError(f"there is no chip {name!r}")
    best = max(chips, key=lambda chip: _peak_of(chip, label).value, default=None)
    if best is None or not _peak_of(best, label).value:
        raise MomentError(f"the recording has no peak of {label}, because none was allocated")
    peak = _peak_of(best, label)
    if peak.time is None:
        after = peak_moment(label, best.id, peak.value, recording.end)
        return after._replace(words=f"after the lost records with the peak of {label} on chip {best.id}")
    return peak_moment(label, best.id, peak.value, peak.time)


def peak_moment(label: str, chip_id: str, value: int, time: float) -> Moment:
    """The moment when a kind or pool first had that value on a chip."""

    def reached(ledger: Ledger, event: Event) -> bool:
        return peak_reached(ledger, label, chip_id, value)

    return Moment(time, f"at the peak of {label} on chip {chip_id}", reached)


def peak_reached(ledger: Ledger, label: str, chip_id: str, value: int) -> bool:
    """Has a kind or pool ever had that value on a chip?"""
    chip = ledger.chips.get(chip_id)
    return chip is not None and _peak_of(chip, label).value >= value


def _peak_of(chip: Chip, label: str) -> Peak:
    pool = _POOLS.get(label)
    return (chip.kinds[KIND_BY_LABEL[label]] if pool is None else chip.pools[pool]).peak


def _phase(recording: Recording, name: str) -> Moment:
    """The end of the last run of a phase, or of the recording if it did not end.

    The name may leave out the phases around it.
    """
    running: set[tuple[object, int]] = set()
    found: float | None = None
    paths: dict[str, None] = {}
    for one, key, path in _phase_events(recording):
        if path is not None:
            paths[path] = None
            if is_called(path, name):
                running.add(key)
                found = None
        elif key in running:
            running.discard(key)
            found = one.time
    if found is not None:
        before = just_before(found)
        return Moment(before, f"at the end of phase {name}")
    if running:
        return Moment(inf, f"at its end, in phase {name}")
    listed = ", ".join([*paths][:8])
    raise MomentError(
        f"the recording has no phase {name!r}; it has {listed}" if paths else "the recording has no phases"
    )


def phase_begins(recording: Recording, name: str) -> list[float]:
    """When the runs of a phase began."""
    return [one.time for one, _, path in _phase_events(recording) if path is not None and is_called(path, name)]


def _phase_events(recording: Recording) -> Iterator[tuple[Happened, tuple[object, int], str | None]]:
    """Every start and end of a phase, and what identifies its run; of a start also its path."""
    paths: dict[tuple[object, int], str] = {}
    for one in recording.phases():
        if isinstance(one.event, PhaseBegan):
            outer = paths.get((one.source, one.event.parent))
            path = one.event.name if outer is None else f"{outer}/{one.event.name}"
            paths[one.source, one.event.ident] = path
            yield one, (one.source, one.event.ident), path
        elif isinstance(one.event, PhaseEnded):
            yield one, (one.source, one.event.ident), None


def just_before(time: float) -> float:
    """The last time before another: what happened at that time itself is not yet applied."""
    return nextafter(time, -inf)


def _time(recording: Recording, text: str, stamp: Callable[[float], str]) -> Moment:
    match = _RELATIVE.fullmatch(text)
    if match is not None:
        seconds = float(match[2]) * _UNITS[match[3]]
        time = recording.begin + seconds if match[1] == "+" else recording.end - seconds
        words = f"{match[2]}{match[3] or 's'} " + ("after its start" if match[1] == "+" else "before its end")
    else:
        time, words = _wall_time(recording, text, stamp), f"at {text}"
    if not recording.begin - _ROUNDING <= time <= recording.end + _ROUNDING:
        raise MomentError(f"{text} is outside the recording, which is {range_text(recording, stamp)}")
    return Moment(time, words)


def _wall_time(recording: Recording, text: str, stamp: Callable[[float], str]) -> float:
    try:
        if isfinite(seconds := float(text)):
            return seconds
    except ValueError:
        pass
    try:
        return datetime.fromisoformat(re.sub(r"(Z| UTC)$", "+00:00", text)).timestamp()  # local time without a zone
    except (ValueError, OverflowError):
        raise NotAMoment(
            f"{text!r} is not a moment: use {FORMS}; the recording is {range_text(recording, stamp)}"
        ) from None
