# SPDX-License-Identifier: Apache-2.0
"""Meters: what a workload holds now and held at most, read without a server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ttmem.model.events import PhaseBegan, PhaseEnded
from ttmem.model.kinds import covers

if TYPE_CHECKING:
    from ttmem.collect.client import AllocationClient
    from ttmem.collect.memory_reporter import MemoryReporter

DRAM_POOL, L1_POOL = "dram_pool", "l1_pool"


class Reading(NamedTuple):
    """Bytes of one kind or pool on one device, or on all together; the peaks are those since they were last reset."""

    used: int
    # What the allocators took; nothing for what lies outside their banks, such as circular buffers. None if it was not
    # reported of everything that is live, or was since the reset.
    reserved: int | None
    peak: int
    reserved_peak: int | None


# By Metal's device number, None for all devices together; and by the label of a kind, or DRAM_POOL or L1_POOL.
Readings = Mapping[tuple[int | None, str], Reading]


class Meter(Protocol):
    """Something that knows what this process holds. What never held anything may be missing in its readings.

    The begin and the end of a phase are moments of their own: the mark is made, the peaks up to it are returned and
    start anew, and no allocation of any thread comes between. Whoever keeps peaks over longer stretches folds in what
    ``read_and_reset``, ``phase_began`` and ``phase_ended`` return.
    """

    def read(self) -> Readings: ...

    def reset_peaks(self) -> None: ...

    def read_and_reset(self) -> Readings:
        """The readings, and every peak starts anew from what is used, in one step."""
        ...

    def phase_began(self, ident: int, name: str, parent: int) -> Readings:
        """Mark that a phase begins, inside the phase ``parent`` or 0; the readings as of ``read_and_reset``."""
        ...

    def phase_ended(self, ident: int) -> Readings: ...


class ClientMeter:
    """What this process reported through a client: exact about that, and about nothing else."""

    def __init__(self, client: AllocationClient) -> None:
        self.client = client
        nothing = Reading(0, 0, 0, 0)
        labels = [DRAM_POOL, L1_POOL, *(kind.label for kind in covers(client.source))]
        self._nothing: dict[tuple[int | None, str], Reading] = {(None, label): nothing for label in labels}

    def read(self) -> Readings:
        return {**self._nothing, **self.client.measure()}

    def reset_peaks(self) -> None:
        self.client.measure(reset=True)

    def read_and_reset(self) -> Readings:
        return {**self._nothing, **self.client.measure(reset=True)}

    def phase_began(self, ident: int, name: str, parent: int) -> Readings:
        return {**self._nothing, **self.client.measure(reset=True, mark=PhaseBegan(ident, name, parent))}

    def phase_ended(self, ident: int) -> Readings:
        return {**self._nothing, **self.client.measure(reset=True, mark=PhaseEnded(ident))}


class ReporterMeter:
    """What allocators say when they are asked: exact about buffers now; of peaks only what it happened to see."""

    def __init__(self, reporter: MemoryReporter) -> None:
        self.reporter = reporter

    def read(self) -> Readings:
        self.reporter.publish()
        readings = {}
        for key, (used, peak) in self.reporter.totals().items():
            readings[key] = Reading(used, used, peak, peak)
        return readings

    def reset_peaks(self) -> None:
        self.reporter.reset_peaks()

    def read_and_reset(self) -> Readings:
        readings = self.read()
        self.reset_peaks()
        return readings

    def phase_began(self, ident: int, name: str, parent: int) -> Readings:
        self.reporter.client.measure(mark=PhaseBegan(ident, name, parent))
        return self.read_and_reset()

    def phase_ended(self, ident: int) -> Readings:
        readings = self.read_and_reset()
        self.reporter.client.measure(mark=PhaseEnded(ident))
        return readings
