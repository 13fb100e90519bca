# SPDX-License-Identifier: Apache-2.0
"""The history of all chips over a whole recording, read a few milliseconds at a time."""

from __future__ import annotations

from math import ceil, floor, log2, nextafter
from time import monotonic

from ttmem.documents.recorded_moments import RecordedHistory, Series
from ttmem.recording.recording_file import Recording
from ttmem.server.history import sampled

_SAMPLES = 2048  # at least, unless the recording is very short
_LEAST_STEP_SECONDS = 2.0**-20  # a wall time is not more precise


class HistoryReader:
    """Moves an account of its own from the start to the end of a recording, and samples it.

    The step is a power of two, so that the ends of all intervals are exact numbers.
    """

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        length = max(recording.end - recording.begin, _LEAST_STEP_SECONDS)
        self.step = max(2.0 ** floor(log2(length / _SAMPLES)), _LEAST_STEP_SECONDS)
        self._head = recording.stepper(self.step)
        self._next = floor(recording.begin / self.step)  # number of the next interval
        self._last = ceil(recording.end / self.step)
        self._series: dict[tuple[str, str], Series] = {}
        self._values: dict[tuple[str, str], tuple[float, float]] = {}
        self._seq = -1

    @property
    def done(self) -> bool:
        return self._next > self._last

    @property
    def progress(self) -> float:
        """The part that was read, from 0 to 1."""
        first = floor(self._recording.begin / self.step)
        return min(1.0, (self._next - first) / max(1, self._last + 1 - first))

    def read_on(self, seconds: float) -> None:
        """Read at least one interval more, and as many as fit into this time."""
        deadline = monotonic() + seconds
        while not self.done:
            self._head.advance(nextafter((self._next + 1) * self.step, 0.0))
            self._sample(self._next * self.step)
            self._next += 1
            if monotonic() > deadline:
                break

    def _sample(self, begin: float) -> None:
        ledger = self._head.ledger
        if ledger.seq == self._seq:
            self._values = {key: (last, last) for key, (last, _) in self._values.items()}
        else:
            self._seq = ledger.seq
            self._values, _ = sampled(ledger, self._series)
        for key, (last, highest) in self._values.items():
            series = self._series.get(key)
            if series is None:
                series = self._series[key] = Series([], [], [])
            series.times.append(begin)
            series.last.append(last)
            series.highest.append(highest)

    def history(self) -> RecordedHistory:
        """A copy of what was read so far."""
        copied = {key: Series(*(list(column) for column in one)) for key, one in self._series.items()}
        return RecordedHistory(self.step, self._recording.begin, self._next * self.step, copied)
