# SPDX-License-Identifier: Apache-2.0
"""Meters: the current and highest memory use of a workload, read without a server."""

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
    # Reserved bytes; 0 for memory outside the banks of an allocator, such as circular buffers. None unless it was
    # reported for everything that is live, or was live since the reset.
    reserved: int | None
    peak: int
    reserved_peak: int | None


# By tt-metal's device number (None: all devices together), and by the label of a kind, or DRAM_POOL or L1_POOL.
Readings = Mapping[tuple[int | None, str], Reading]


class Meter(Protocol):
    """Measures the memory of this process. Kinds that never occurred may be missing in its readings.

    The start and end of a phase are atomic: the mark is made, the peaks so far are returned and reset, and no
    allocation of any thread comes in between. To keep peaks over a longer time, combine what ``read_and_reset``,
    ``phase_began`` and ``phase_ended`` return.
    """

    def read(self) -> Readings: ...

    def reset_peaks(self) -> None: ...

    def read_and_reset(self) -> Readings:
        """Return the readings and reset every peak to the current use, in one step."""
        ...

    def phase_began(self, ident: int, name: str, parent: int) -> Readings:
        """Mark the start of a phase, inside the phase ``parent`` or 0; returns readings as ``read_and_reset`` does."""
        ...

    def phase_ended(self, ident: int) -> Readings: ...


class ClientMeter:
    """The reports of this process through a client: exact for these, without anything else."""

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
    """Samples of the allocators: exact for current buffers; peaks between two samples are missed."""

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
