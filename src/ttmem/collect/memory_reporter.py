# SPDX-License-Identifier: Apache-2.0
"""Publishes the numbers of this process's allocators, so that other processes need not open the device."""

from __future__ import annotations

import importlib
import os
import threading
import weakref
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, NamedTuple

from ttmem.collect.client import AllocationClient
from ttmem.collect.meters import DRAM_POOL, L1_POOL
from ttmem.model.kinds import POOL_OF, Kind, Pool

KINDS = (Kind.DRAM, Kind.L1, Kind.L1_SMALL, Kind.TRACE)
_TTNN = "ttnn"  # imported by the workload; ttmem does not depend on it

View = Callable[[Any, Kind], Any]


class Sample(NamedTuple):
    """One kind of memory of one allocator, in bytes of one bank."""

    banks: int
    size: int
    allocated: int
    largest_free: int

    @property
    def total(self) -> int:
        return self.allocated * self.banks


class _Device:
    """One device: its chips, and the last reading of it."""

    def __init__(self, device: Any) -> None:
        self.device = device
        self.chips = _chips(device)
        self.allocator = 0 if isinstance(device, int) else _ident(device) + 1
        self.samples: dict[Kind, Sample] = {}
        self.trouble: str | None = "not read yet"


class MemoryReporter:
    """Reads the memory views of open devices and publishes them; it never opens a device.

    ``devices`` are ttnn devices; every chip of a mesh is reported. ``view`` is called instead of
    ``ttnn.get_memory_view``. With an ``interval`` in seconds, a thread publishes at this interval; stop it before the
    devices are closed, with ``stop()`` or the end of a ``with`` block. Errors of the runtime are counted, never raised.

    >>> class Idle:
    ...     num_banks, total_bytes_per_bank, total_bytes_allocated_per_bank = 64, 1000, 80
    ...     largest_contiguous_bytes_free_per_bank = 920
    >>> reporter = MemoryReporter([0], view=lambda device, kind: Idle, client=AllocationClient(enabled=False))
    >>> reporter.publish()
    True
    >>> reporter.total(0), reporter.inferred(0, tracked=1000), reporter.inferred(0, tracked=9000)
    (5120, 4120, 0)
    """

    def __init__(
        self,
        devices: Iterable[Any],
        *,
        client: AllocationClient | None = None,
        interval: float | None = None,
        view: View | None = None,
    ) -> None:
        self.client = client or AllocationClient(enabled=True, source="reporter")
        self._own_client = client is None
        self.errors = 0
        self._view = view or _ttnn_view()
        self._devices = [_Device(device) for device in devices]
        self._looking = threading.RLock()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._peaks: dict[tuple[int | None, str], int] = {}
        _reporters[:] = [*(other for other in _reporters if other() is not None), weakref.ref(self)]
        if interval is not None:
            self._thread = threading.Thread(
                target=_run, args=(weakref.ref(self), self._stopped, interval), name="ttmem-reporter", daemon=True
            )
            self._thread.start()

    def publish(self) -> bool:
        """Read every device now and report to the server. False if a device could not be read."""
        with self._looking:
            for device in self._devices:
                self._look(device)
            for key, used in self._used().items():
                self._peaks[key] = max(self._peaks.get(key, 0), used)
            return self.available

    @property
    def available(self) -> bool:
        """Whether every device could be read the last time."""
        return all(device.trouble is None for device in self._devices)

    def status(self, device: int) -> str:
        """ "available", or "unavailable" and why."""
        found = [entry.trouble for entry in self._devices if device in entry.chips] or ["not one of the devices given"]
        trouble = next((text for text in found if text is not None), None)
        return "available" if trouble is None else f"unavailable: {trouble}"

    def total(self, device: int) -> int | None:
        """L1 in buffers on a chip as reported by its allocators; None if they cannot be read."""
        found = [e.samples[Kind.L1].total for e in self._devices if device in e.chips and Kind.L1 in e.samples]
        return sum(found) if found else None

    def inferred(self, device: int, tracked: int) -> int | None:
        """The part of the total that is not tracked; never negative.

        On stock ttnn the allocators count buffers only, so this does not measure circular buffers and kernels.
        """
        total = self.total(device)
        return None if total is None else max(0, total - tracked)

    def totals(self) -> dict[tuple[int | None, str], tuple[int, int]]:
        """Bytes at the last reading and the maximum of all readings, by chip or None for all, and by kind or pool."""
        with self._looking:
            return {key: (used, max(used, self._peaks.get(key, 0))) for key, used in self._used().items()}

    def reset_peaks(self) -> None:
        """Reset the maxima to the last reading."""
        with self._looking:
            self._peaks = self._used()

    def is_running(self) -> bool:
        """Whether it has not been stopped."""
        return not self._stopped.is_set()

    def stop(self) -> None:
        """Stop publishing. The last published numbers stay in the account until the device is closed."""
        self._stopped.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        if self._own_client:
            self.client.close(0)

    def __enter__(self) -> MemoryReporter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _look(self, entry: _Device) -> None:
        try:
            samples = {kind: _sample(self._view(entry.device, kind)) for kind in KINDS}
        except Exception as error:  # the device is closed or busy
            self.errors += 1
            samples = {}
            entry.trouble = (str(error) or type(error).__name__).splitlines()[0]
        else:
            entry.trouble = None
        for kind in {*samples, *entry.samples}:
            sample = samples.get(kind, Sample(0, 0, 0, 0))
            for chip in entry.chips:
                self.client.report_memory_view(
                    device_id=chip, buffer_type=kind, allocator=entry.allocator, **sample._asdict()
                )
        entry.samples = samples

    def _used(self) -> dict[tuple[int | None, str], int]:
        found: dict[tuple[int | None, str], int] = {}
        for entry in self._devices:
            for kind, sample in entry.samples.items():
                for where in [*entry.chips, *[None] * len(entry.chips)]:
                    for label in (kind.label, DRAM_POOL if POOL_OF[kind] is Pool.DRAM else L1_POOL):
                        found[where, label] = found.get((where, label), 0) + sample.total
        return found

    def _after_fork(self) -> None:
        """A child has no thread, and a lock that another thread held would never be released."""
        stopped = self._stopped.is_set()
        self._looking, self._stopped, self._thread = threading.RLock(), threading.Event(), None
        if stopped:
            self._stopped.set()


def running() -> MemoryReporter | None:
    """The newest reporter that has not been stopped."""
    for reference in reversed(_reporters):
        reporter = reference()
        if reporter is not None and reporter.is_running():
            return reporter
    return None


_reporters: list[weakref.ref[MemoryReporter]] = []


def _run(reference: weakref.ref[MemoryReporter], stopped: threading.Event, interval: float) -> None:
    while True:
        reporter = reference()
        if reporter is None:
            return
        reporter.publish()
        del reporter  # the thread must not keep an unused reporter alive
        if stopped.wait(interval):
            return


def _ttnn_view() -> View:
    try:
        ttnn = importlib.import_module(_TTNN)
    except ImportError as error:
        missing = f"{error}; give `view` to ask another runtime than ttnn"

        def none(device: Any, kind: Kind) -> Any:
            raise RuntimeError(missing)

        return none
    types = {kind: getattr(ttnn.BufferType, kind.name) for kind in KINDS}
    return lambda device, kind: ttnn.get_memory_view(device, types[kind])


def _sample(view: Any) -> Sample:
    return Sample(
        view.num_banks,
        view.total_bytes_per_bank,
        view.total_bytes_allocated_per_bank,
        view.largest_contiguous_bytes_free_per_bank,
    )


def _ident(device: Any) -> int:
    ident = device.id
    return int(ident() if callable(ident) else ident)


def _chips(device: Any) -> list[int]:
    """The numbers of the chips of a device."""
    if isinstance(device, int):
        return [device]
    if hasattr(device, "get_device_ids"):
        return [int(chip) for chip in device.get_device_ids()]
    return [_ident(chip) for chip in device.get_devices()]


def _after_fork() -> None:
    for reference in _reporters:
        reporter = reference()
        if reporter is not None:
            reporter._after_fork()


os.register_at_fork(after_in_child=_after_fork)
