# SPDX-License-Identifier: Apache-2.0
"""The times of events in a recording: the next one after a moment, and those before it."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from math import inf

from ttmem.recording.recorded_ring import RecordedProcess
from ttmem.recording.recording_file import Recording
from ttmem.wire.agent_ring import RECORD_SIZE

_WORD = 8  # bytes; a record has its time in the second word


class EventTimes:
    """Looks times up in the blocks of rings; those of other sources' events are read once, when first needed."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._processes = [_RingTimes(process) for process in recording.processes.values()]
        self._others: array[float] | None = None

    def after(self, time: float) -> float | None:
        """The time of the next event after a time; None if there is none."""
        others = self._other_times()
        place = bisect_right(others, time)
        found = [one.after(time) for one in self._processes] + [others[place] if place < len(others) else inf]
        first = min(found)
        return None if first == inf else first

    def before(self, time: float, count: int = 1) -> float | None:
        """The time of the last event before a time, or of the one that is ``count`` events before; None if none is."""
        others = self._other_times()
        place = bisect_left(others, time)
        found = list(others[max(0, place - count) : place])
        for one in self._processes:
            found += one.before(time, count)
        return sorted(found)[-count:][0] if found else None

    def _other_times(self) -> array[float]:
        if self._others is None:
            self._others = array("d", sorted(one.time for one in self._recording.events()))
        return self._others


class _RingTimes:
    """The times of the records of one process."""

    def __init__(self, process: RecordedProcess) -> None:
        self._process = process
        self._lasts = [process.blocks[index].block.time for index in process.records]  # of each block

    def after(self, time: float) -> float:
        for place in range(bisect_right(self._lasts, time), len(self._lasts)):
            words = self._words(place)
            at = bisect_right(words, time, key=self._wall_time)
            if at < len(words):
                return self._wall_time(words[at])
        return inf

    def before(self, time: float, count: int) -> list[float]:
        """The times of at most so many records before a time."""
        found: list[float] = []
        for place in range(min(bisect_left(self._lasts, time), len(self._lasts) - 1), -1, -1):
            words = self._words(place)
            at = bisect_left(words, time, key=self._wall_time)
            found = [self._wall_time(word) for word in words[max(0, at - count) : at]] + found
            if len(found) >= count:
                break
        return found

    def _wall_time(self, nanoseconds: int) -> float:
        return nanoseconds * 1e-9 + self._process.offset

    def _words(self, place: int) -> Sequence[int]:
        raw = self._process.raw_records(self._process.records[place])
        return () if raw is None else memoryview(raw).cast("Q")[1 :: RECORD_SIZE // _WORD].tolist()
