# SPDX-License-Identifier: Apache-2.0
"""What this process holds on its devices, asked by the workload itself: now, at most, and in phases it names.

A ``kind`` is the label of a kind ("dram", "l1", "cb", ...) or of a pool: "dram_pool" is DRAM and traces together and
what None means, "l1_pool" all that lies in the L1 of the compute grid. They are two memories, so nothing adds them up.
A ``device`` is tt-metal's number of a chip, None all of them together. docs/phases.md says what each meter knows.
"""

from __future__ import annotations

import functools
import itertools
import os
import threading
from collections.abc import Callable
from contextvars import ContextVar
from types import TracebackType
from typing import Any, NamedTuple, TypeVar

from ttmem.account.kinds import KIND_BY_LABEL
from ttmem.account.units import human
from ttmem.collect import client, memory_reporter
from ttmem.collect.agent_meter import AgentMeter
from ttmem.collect.meters import DRAM_POOL, L1_POOL, ClientMeter, Meter, Reading, Readings, ReporterMeter

LABELS = (DRAM_POOL, L1_POOL, *KIND_BY_LABEL)
_NOTHING = Reading(0, 0, 0, 0)
_Key = tuple[int | None, str]
_F = TypeVar("_F", bound=Callable[..., Any])


class NoMeter(RuntimeError):
    """Nothing in this process knows the answer; the text says what would."""


_NO_METER = (
    "nothing in this process measures memory: run it with `ttmem run -- COMMAND`, report with an AllocationClient "
    "(TT_ALLOC_TRACKING_ENABLED=1) or ttmem.instrument(), or start a ttmem.MemoryReporter"
)
# What is said of each meter's peaks.
_PEAKS = {"agent": "exact", "client": "exact about what was reported", "reporter": "only as sampled"}


def memory_allocated(device: int | None = None, kind: str | None = None) -> int:
    """Bytes that are allocated now, as they were asked for."""
    return _reading(device, kind).used


def max_memory_allocated(device: int | None = None, kind: str | None = None) -> int:
    """The most that was allocated since the start, or since ``reset_peak_memory_stats``."""
    return _reading(device, kind).peak


def memory_reserved(device: int | None = None, kind: str | None = None) -> int:
    """Bytes that the allocator took for it: whole pages, in all banks. Nothing for what is no buffer."""
    return _told(_reading(device, kind).reserved)


def max_memory_reserved(device: int | None = None, kind: str | None = None) -> int:
    """The most that the allocator took since the start, or since ``reset_peak_memory_stats``."""
    return _told(_reading(device, kind).reserved_peak)


def reset_peak_memory_stats(device: int | None = None) -> None:
    """Let the maxima of a device, or of all and of all together, start anew from what is allocated now."""
    _recorder().reset(device)


def memory_summary(device: int | None = None) -> str:
    """All of it as a table."""
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


class Stretch(NamedTuple):
    """What one kind on one device did in a phase."""

    begin: int
    peak: int
    end: int

    @property
    def delta(self) -> int:
        return self.end - self.begin


class phase:
    """Names a stretch of the run and measures it, as ``with phase("prefill"):`` or as a decorator of a function.

    Phases nest, in each thread and each task by itself; a phase sees the memory of the whole process. It is reported to
    the server, too. Without a meter it measures nothing and ``meter`` is None; it never raises.

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
        self._recorder: Recorder | None = None
        self._ident = 0
        self._outer = 0
        self._stretches: dict[_Key, Stretch] = {}

    def begin(self, kind: str | None = None, device: int | None = None) -> int | None:
        """Bytes allocated when it began."""
        found = self._stretch(kind, device)
        return None if found is None else found.begin

    def peak(self, kind: str | None = None, device: int | None = None) -> int | None:
        """The most that was allocated within."""
        found = self._stretch(kind, device)
        return None if found is None else found.peak

    def end(self, kind: str | None = None, device: int | None = None) -> int | None:
        """Bytes allocated when it ended."""
        found = self._stretch(kind, device)
        return None if found is None else found.end

    def delta(self, kind: str | None = None, device: int | None = None) -> int | None:
        """How much more was allocated when it ended than when it began."""
        found = self._stretch(kind, device)
        return None if found is None else found.delta

    def __enter__(self) -> phase:
        self._ident, self._outer = next(_idents), _inside.get()
        _inside.set(self._ident)
        try:
            self._recorder = _recorder()
            self._recorder.begin(self._ident, self.name, self._outer)
            self.meter = self._recorder.name
        except Exception:  # measuring may fail, the workload may not
            self._recorder = None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _inside.set(self._outer)
        recorder, self._recorder = self._recorder, None
        if recorder is not None:
            try:
                self._stretches = recorder.end(self._ident)
            except Exception:
                self.meter = None

    def __call__(self, function: _F) -> _F:
        @functools.wraps(function)
        def measured(*arguments: Any, **keywords: Any) -> Any:
            with phase(self.name):
                return function(*arguments, **keywords)

        return measured  # type: ignore[return-value]

    def _stretch(self, kind: str | None, device: int | None) -> Stretch | None:
        """None before it ended, without a meter, and of a kind that the meter does not see."""
        kind = _known(kind)
        found = self._stretches.get((device, kind))
        if found is None and (None, kind) in self._stretches:
            return Stretch(0, 0, 0)  # nothing of that kind was ever on that device
        return found


class _Open(NamedTuple):
    begin: dict[_Key, int]
    peaks: dict[_Key, int]


class Recorder:
    """Keeps the peaks that a meter gives away whenever a phase begins or ends: the user's own, and each phase's."""

    def __init__(self, name: str, meter: Meter) -> None:
        self.name = name
        self.meter = meter
        self.lock = threading.Lock()
        self._peaks: dict[_Key, tuple[int, int | None]] = {}
        self._open: dict[int, _Open] = {}

    def read(self) -> dict[_Key, Reading]:
        """The readings, with the peaks since the user last reset them."""
        with self.lock:
            return {key: self._with_peaks(key, reading) for key, reading in self.meter.read().items()}

    def reset(self, device: int | None) -> None:
        with self.lock:
            readings = self.meter.read_and_reset()
            self._fold(readings)
            for (number, label), reading in readings.items():
                if device in (None, number):
                    self._peaks[number, label] = reading.used, reading.reserved

    def begin(self, ident: int, name: str, parent: int) -> None:
        with self.lock:
            readings = self.meter.phase_began(ident, name, parent)
            self._fold(readings)
            begin = {key: reading.used for key, reading in readings.items()}
            self._open[ident] = _Open(begin, dict(begin))

    def end(self, ident: int) -> dict[_Key, Stretch]:
        with self.lock:
            readings = self.meter.phase_ended(ident)
            self._fold(readings)
            begin, peaks = self._open.pop(ident)
            return {key: Stretch(begin.get(key, 0), peaks[key], reading.used) for key, reading in readings.items()}

    def _fold(self, readings: Readings) -> None:
        for key, reading in readings.items():
            folded = self._with_peaks(key, reading)
            self._peaks[key] = folded.peak, folded.reserved_peak
            for phase in self._open.values():
                phase.peaks[key] = max(phase.peaks.get(key, 0), reading.peak)

    def _with_peaks(self, key: _Key, reading: Reading) -> Reading:
        peak, reserved = self._peaks.get(key, (0, 0))
        known = reserved is not None and reading.reserved_peak is not None
        taken = max(reserved or 0, reading.reserved_peak or 0) if known else None
        return reading._replace(peak=max(peak, reading.peak), reserved_peak=taken)


_idents = itertools.count(1)
_inside: ContextVar[int] = ContextVar("ttmem_phase", default=0)
_choosing = threading.Lock()
_current: Recorder | None = None


def _recorder() -> Recorder:
    """The best meter there is now, with the peaks it has given away so far."""
    global _current
    with _choosing:
        now = _current
        if _agent.available():
            if now is None or now.meter is not _agent:
                now = Recorder("agent", _agent)
        elif (newest := client.newest()) is not None:
            if now is None or not isinstance(now.meter, ClientMeter) or now.meter.client is not newest:
                now = Recorder("client", ClientMeter(newest))
        elif (reporter := memory_reporter.running()) is not None:
            if now is None or not isinstance(now.meter, ReporterMeter) or now.meter.reporter is not reporter:
                now = Recorder("reporter", ReporterMeter(reporter))
        else:
            raise NoMeter(_NO_METER)
        _current = now
        return now


_agent = AgentMeter()


def _known(kind: str | None) -> str:
    if kind is None:
        return DRAM_POOL
    if kind not in LABELS:
        raise ValueError(f"there is no kind {kind!r}; there are {', '.join(LABELS)}")
    return kind


def _reading(device: int | None, kind: str | None) -> Reading:
    kind = _known(kind)
    recorder = _recorder()
    readings = recorder.read()
    found = readings.get((device, kind))
    if found is None and (None, kind) not in readings:
        raise NoMeter(f"the {recorder.name} of this process does not see {kind}; `ttmem run -- COMMAND` would")
    return found or _NOTHING


def _told(reserved: int | None) -> int:
    if reserved is None:
        raise NoMeter(
            "what the allocator took was not reported of everything: give report_allocation its `reserved`, "
            "or use `ttmem run -- COMMAND`"
        )
    return reserved


def _after_fork() -> None:
    """A child holds nothing yet; a lock that another thread of its parent held would never be released."""
    global _current, _choosing
    if _current is not None:
        _current.lock = threading.Lock()  # phases of the parent may end here, too
    _current, _choosing = None, threading.Lock()


os.register_at_fork(after_in_child=_after_fork)
