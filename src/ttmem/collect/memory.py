# SPDX-License-Identifier: Apache-2.0
"""Memory of this process on its devices, for the workload itself: current use, peaks, and peaks of named phases.

A ``kind`` is the label of a kind ("dram", "l1", "cb", ...) or of a pool. "dram_pool", the default, is DRAM and traces
together; "l1_pool" is everything in the L1 of the compute grid. They are two memories and are never summed. A
``device`` is tt-metal's number for a chip; None means all chips together. docs/phases.md describes the meters.
"""

from __future__ import annotations

import functools
import itertools
import operator
import os
import threading
import weakref
from collections.abc import Callable
from contextvars import ContextVar
from types import TracebackType
from typing import Any, NamedTuple, TypeVar

from ttmem.collect import client, memory_reporter
from ttmem.collect.agent_meter import AgentMeter
from ttmem.collect.meters import DRAM_POOL, L1_POOL, ClientMeter, Meter, Reading, Readings, ReporterMeter
from ttmem.model.kinds import KIND_BY_LABEL
from ttmem.model.units import human

LABELS = (DRAM_POOL, L1_POOL, *KIND_BY_LABEL)
_NOTHING = Reading(0, 0, 0, 0)
_Key = tuple[int | None, str]
_F = TypeVar("_F", bound=Callable[..., Any])


class NoMeter(RuntimeError):
    """No meter in this process can answer; the message says what to do."""


_NO_METER = (
    "nothing in this process measures memory: run it with `ttmem run -- COMMAND`, report with an AllocationClient "
    "(TT_ALLOC_TRACKING_ENABLED=1) or ttmem.instrument(), or start a ttmem.MemoryReporter"
)
# A note on the peaks of each meter.
_PEAKS = {"agent": "exact", "client": "exact about what was reported", "reporter": "only as sampled"}


def memory_allocated(device: int | None = None, kind: str | None = None) -> int:
    """Bytes that are allocated now, as requested."""
    return _reading(device, kind).used


def max_memory_allocated(device: int | None = None, kind: str | None = None) -> int:
    """The most that was allocated since the start, or since ``reset_peak_memory_stats``."""
    return _reading(device, kind).peak


def memory_reserved(device: int | None = None, kind: str | None = None) -> int:
    """Bytes that the allocator reserved: whole pages, in all banks. 0 for anything that is not a buffer."""
    return _known_bytes(_reading(device, kind).reserved)


def max_memory_reserved(device: int | None = None, kind: str | None = None) -> int:
    """The most that the allocator reserved since the start, or since ``reset_peak_memory_stats``."""
    return _known_bytes(_reading(device, kind).reserved_peak)


def reset_peak_memory_stats(device: int | None = None) -> None:
    """Reset the maxima of one device, or of all devices and their sum, to the current values."""
    _recorder().reset(_device_number(device))


def memory_summary(device: int | None = None) -> str:
    """All values as a table."""
    device = _device_number(device)
    recorder = _recorder()
    readings = recorder.read()
    lines = [f"memory of process {os.getpid()} by the {recorder.name}; peaks are {_PEAKS[recorder.name]}"]
    lines.append(f"{'DEVICE':<8} {'KIND':<16} {'ALLOCATED':>11} {'PEAK':>11} {'RESERVED':>11} {'PEAK':>11}")
    devices: list[int | None] = [*sorted({number for number, _ in readings if number is not None}), None]
    for number in devices if device is None else [device]:
        for label in LABELS:
            reading = readings.get((number, label), _NOTHING)
            if any(reading) or label in (DRAM_POOL, L1_POOL):
                used, reserved, peak, reserved_peak = map(human, reading)
                where = "all" if number is None else str(number)
                lines.append(f"{where:<8} {label:<16} {used:>11} {peak:>11} {reserved:>11} {reserved_peak:>11}")
    return "\n".join(lines)


class PhaseFigures(NamedTuple):
    """The values of one kind on one device in a phase."""

    begin: int
    peak: int
    end: int

    @property
    def delta(self) -> int:
        return self.end - self.begin


class phase:
    """Names and measures a part of the run: ``with phase("prefill"):``, or a decorator of a function.

    Phases nest separately in each thread and each task. A phase measures the memory of the whole process, and is also
    reported to the server. Without a meter it measures nothing and ``meter`` is None. It never raises.

    >>> reports = client.AllocationClient(enabled=True, socket_path="/nowhere")
    >>> with phase("load") as load:
    ...     reports.report_allocation(device_id=0, size=4096, buffer_type="dram", buffer_id=0x1000)
    >>> load.meter, load.peak("dram"), load.delta("dram_pool", device=0)
    ('client', 4096, 4096)
    >>> reports.close(0)
    """

    def __init__(self, name: str) -> None:
        self.name = str(name)
        self.meter: str | None = None  # "agent", "client" or "reporter", once it has begun
        # Its number, the number of the enclosing phase, and the recorder; several entries if it is nested in itself.
        self._begun: list[tuple[int, int, PhaseRecorder | None]] = []
        self._stretches: dict[_Key, PhaseFigures] = {}

    def begin(self, kind: str | None = None, device: int | None = None) -> int | None:
        """Bytes allocated when it began."""
        found = self._stretch(kind, device)
        return None if found is None else found.begin

    def peak(self, kind: str | None = None, device: int | None = None) -> int | None:
        """The most that was allocated during the phase."""
        found = self._stretch(kind, device)
        return None if found is None else found.peak

    def end(self, kind: str | None = None, device: int | None = None) -> int | None:
        """Bytes allocated when it ended."""
        found = self._stretch(kind, device)
        return None if found is None else found.end

    def delta(self, kind: str | None = None, device: int | None = None) -> int | None:
        """Bytes allocated at the end minus bytes allocated at the start."""
        found = self._stretch(kind, device)
        return None if found is None else found.delta

    def __enter__(self) -> phase:
        ident, outer, recorder = next(_idents), _inside.get(), None
        _inside.set(ident)
        try:
            recorder = _recorder()
            recorder.begin(ident, self.name, outer)
            self.meter = recorder.name
        except Exception:  # an error in measuring must not stop the workload
            recorder = None
        self._begun.append((ident, outer, recorder))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        ident, outer, recorder = self._begun.pop()
        _inside.set(outer)
        if recorder is not None:
            try:
                self._stretches = recorder.end(ident)
            except Exception:
                self.meter = None

    def __call__(self, function: _F) -> _F:
        @functools.wraps(function)
        def measured(*arguments: Any, **keywords: Any) -> Any:
            with phase(self.name):
                return function(*arguments, **keywords)

        return measured  # type: ignore[return-value]

    def _repr_html_(self) -> str:
        """A table of its figures, for notebooks."""
        from ttmem.collect.phase_table import phase_table

        state = "it has not ended" if self._begun else "nothing in this process measured memory"
        about = f"measured by the {self.meter}; peaks are {_PEAKS[self.meter]}" if self.meter is not None else state
        return phase_table(self.name, about if self._stretches or self.meter is None else state, self._stretches)

    def _stretch(self, kind: str | None, device: int | None) -> PhaseFigures | None:
        """The figures; None before its end, without a meter, and for a kind that the meter cannot track."""
        kind, device = _known(kind), _device_number(device)
        found = self._stretches.get((device, kind))
        if found is None and (None, kind) in self._stretches:
            return PhaseFigures(0, 0, 0)  # this kind never occurred on this device
        return found


class _Open(NamedTuple):
    begin: dict[_Key, int]
    peaks: dict[_Key, int]


class Peaks:
    """Collects the peaks that a meter resets whenever a phase begins or ends: for the user, and for each phase."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._highest: dict[_Key, tuple[int, int | None]] = {}
        self._open: dict[int, _Open] = {}

    def reset(self, readings: Readings, device: int | None) -> None:
        self._fold(readings)
        for (number, label), reading in readings.items():
            if device in (None, number):
                self._highest[number, label] = reading.used, reading.reserved

    def begin(self, ident: int, readings: Readings) -> None:
        self._fold(readings)
        begin = {key: reading.used for key, reading in readings.items()}
        self._open[ident] = _Open(begin, dict(begin))

    def end(self, ident: int, readings: Readings) -> dict[_Key, PhaseFigures]:
        self._fold(readings)
        begin, peaks = self._open.pop(ident)
        return {key: PhaseFigures(begin.get(key, 0), peaks[key], reading.used) for key, reading in readings.items()}

    def added(self, key: _Key, reading: Reading) -> Reading:
        """A reading with the peaks since the last reset by the user."""
        peak, reserved = self._highest.get(key, (0, 0))
        known = reserved is not None and reading.reserved_peak is not None
        taken = max(reserved or 0, reading.reserved_peak or 0) if known else None
        return reading._replace(peak=max(peak, reading.peak), reserved_peak=taken)

    def _fold(self, readings: Readings) -> None:
        for key, reading in readings.items():
            folded = self.added(key, reading)
            self._highest[key] = folded.peak, folded.reserved_peak
            for phase in self._open.values():
                phase.peaks[key] = max(phase.peaks.get(key, 0), reading.peak)


class PhaseRecorder:
    """A meter, and the peaks that it has returned so far."""

    def __init__(self, name: str, meter: Meter, peaks: Peaks) -> None:
        self.name = name
        self.meter = meter
        self.peaks = peaks

    def read(self) -> dict[_Key, Reading]:
        with self.peaks.lock:
            return {key: self.peaks.added(key, reading) for key, reading in self.meter.read().items()}

    def reset(self, device: int | None) -> None:
        with self.peaks.lock:
            self.peaks.reset(self.meter.read_and_reset(), device)

    def begin(self, ident: int, name: str, parent: int) -> None:
        with self.peaks.lock:
            self.peaks.begin(ident, self.meter.phase_began(ident, name, parent))

    def end(self, ident: int) -> dict[_Key, PhaseFigures]:
        with self.peaks.lock:
            return self.peaks.end(ident, self.meter.phase_ended(ident))


_idents = itertools.count(1)
_inside: ContextVar[int] = ContextVar("ttmem_phase", default=0)
_agent = AgentMeter()
# By the object that holds the numbers. Several meters may read it, and a new meter does not change them.
_peaks: weakref.WeakKeyDictionary[object, Peaks] = weakref.WeakKeyDictionary()


def _recorder() -> PhaseRecorder:
    """The best available meter."""
    if _agent.available():
        return PhaseRecorder("agent", _agent, _peaks_of(_agent))
    newest = client.newest()
    if newest is not None:
        return PhaseRecorder("client", ClientMeter(newest), _peaks_of(newest.table))
    reporter = memory_reporter.running()
    if reporter is not None:
        return PhaseRecorder("reporter", ReporterMeter(reporter), _peaks_of(reporter))
    raise NoMeter(_NO_METER)


def _peaks_of(keeper: object) -> Peaks:
    known = _peaks.get(keeper)
    return _peaks.setdefault(keeper, Peaks()) if known is None else known


def _known(kind: str | None) -> str:
    if kind is None:
        return DRAM_POOL
    if kind not in LABELS:
        raise ValueError(f"there is no kind {kind!r}; there are {', '.join(LABELS)}")
    return kind


def _device_number(device: int | None) -> int | None:
    try:
        return None if device is None else operator.index(device)
    except TypeError:
        raise ValueError(f"device is {device!r}; give tt-metal's number of a chip, or None for all") from None


def _reading(device: int | None, kind: str | None) -> Reading:
    kind, device = _known(kind), _device_number(device)
    recorder = _recorder()
    readings = recorder.read()
    found = readings.get((device, kind))
    if found is None and (None, kind) not in readings:
        raise NoMeter(f"the {recorder.name} of this process does not track {kind}; `ttmem run -- COMMAND` does")
    return found or _NOTHING


def _known_bytes(reserved: int | None) -> int:
    if reserved is None:
        raise NoMeter(
            "the reserved size is not known for all allocations: pass `reserved` to report_allocation, "
            "or use `ttmem run -- COMMAND`"
        )
    return reserved


def _after_fork() -> None:
    """A child holds nothing yet. Locks are replaced: one held by another thread of the parent is never released."""
    for peaks in list(_peaks.values()):
        peaks.lock = threading.RLock()  # phases of the parent may also end in the child
    _peaks.clear()


os.register_at_fork(after_in_child=_after_fork)
