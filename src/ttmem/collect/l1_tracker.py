# SPDX-License-Identifier: Apache-2.0
"""Manual tracking of L1: the workload reports its circular buffers and kernels, and this module sums them."""

from __future__ import annotations

import itertools
import operator
import os
import threading

from ttmem.collect.client import AllocationClient
from ttmem.model.core_sets import Cores, cores_of, mask_from
from ttmem.model.kinds import Confidence

KERNEL_BYTES = 50 * 1024  # a cautious estimate: code for a compute and two data movement processors

_lock = threading.RLock()  # also held while reporting: a free must not overtake its allocation
_ids = itertools.count(1)
_reporter: AllocationClient | None = None


class L1Tracker:
    """Sums circular buffers and kernels that the workload reports; a kernel counts as 50 KiB per core.

    >>> tracker = L1Tracker()
    >>> tracker.track_cb(1024, 2048)
    2097152
    >>> tracker.track_kernel(num_cores=64)
    3276800
    >>> tracker.show()
    <BLANKLINE>
    L1: CBs=2.0MB, Kernels=3.1MB

    ``cores`` are the cores that something occupies: a mask (``ttmem.model.core_sets``), ``CoreRange`` or (x, y) values.
    A circular buffer then counts on each of them. With ``client=True``, everything is also reported to the server, as
    an estimate; a missing server changes nothing.
    """

    def __init__(self, device: int = 0, client: AllocationClient | bool | None = None) -> None:
        self.device = _integer("device", device)
        self.client = client if isinstance(client, AllocationClient) else _shared_client() if client else None
        self.cb_total = 0
        self.kernel_est = 0
        self.num_kernels = 0
        self._cbs: dict[tuple[int, int], list[int]] = {}  # (bytes per core, cores) -> ids
        self._kernels: dict[tuple[int, int], list[int]] = {}  # (number of cores, cores) -> ids

    @property
    def cb(self) -> int:
        return self.cb_total

    @property
    def kern(self) -> int:
        return self.kernel_est

    def track_cb(self, num_tiles: int, tile_size: int, *, cores: Cores | None = None) -> int:
        """A circular buffer was created; returns its bytes, on all its cores together if these are given."""
        key, size = _cb(num_tiles, tile_size, cores)
        with _lock:
            ident = next(_ids)
            self._cbs.setdefault(key, []).append(ident)
            self.cb_total += size
            if self.client is not None and size:
                # Its address is not known, so it must not get a place in the map of its cores.
                self.client.report_cb_allocation(device_id=self.device, size=size, cb_id=ident)
        return size

    def free_cb(self, num_tiles: int, tile_size: int, *, cores: Cores | None = None) -> int:
        """A circular buffer that was tracked with these values was freed; returns its bytes."""
        key, size = _cb(num_tiles, tile_size, cores)
        with _lock:
            ident = _youngest(self._cbs, key, f"circular buffer of {num_tiles} tiles of {tile_size} B", "track_cb")
            self.cb_total -= size
            if self.client is not None and size:
                self.client.report_cb_deallocation(device_id=self.device, cb_id=ident)
        return size

    def track_kernel(self, num_cores: int = 1, *, cores: Cores | None = None) -> int:
        """A kernel was added; returns its estimated bytes on all its cores together."""
        key, size = _kernel(num_cores, cores)
        with _lock:
            ident = next(_ids)
            self._kernels.setdefault(key, []).append(ident)
            self.kernel_est += size
            self.num_kernels += 1
            if self.client is not None and size:
                self.client.report_kernel_load(device_id=self.device, size=size, kernel_id=ident)
        return size

    def unload_kernel(self, num_cores: int = 1, *, cores: Cores | None = None) -> int:
        """A kernel that was tracked with these values was unloaded; returns its bytes."""
        key, size = _kernel(num_cores, cores)
        with _lock:
            ident = _youngest(self._kernels, key, f"kernel on {key[0]} cores", "track_kernel")
            self.kernel_est -= size
            self.num_kernels -= 1
            if self.client is not None and size:
                self.client.report_kernel_unload(device_id=self.device, kernel_id=ident)
        return size

    def cb_alloc(self, tiles: int, tile_size: int) -> None:
        """Like ``track_cb``, and prints what was added."""
        size = self.track_cb(tiles, tile_size)
        print(f"CB: +{_mb(size):.1f}MB")

    def kernel_add(self, cores: int = 1) -> None:
        """Like ``track_kernel``, with the number of cores."""
        self.track_kernel(cores)

    def per_core(self) -> dict[tuple[int, int], int]:
        """The bytes on each core, of everything with known cores."""
        sums: dict[tuple[int, int], int] = {}
        with _lock:
            cbs, kernels = self._cbs.copy(), self._kernels.copy()  # a garbage collection may free some during the count
        held = [(mask, size * len(ids)) for (size, mask), ids in cbs.items()]
        held += [(mask, KERNEL_BYTES * len(ids)) for (_, mask), ids in kernels.items()]
        for mask, size in held:
            for core in cores_of(mask):
                sums[core] = sums.get(core, 0) + size
        return sums

    def summary(self) -> None:
        """Print the breakdown, and the fullest core if cores were given."""
        rule = "=" * 60
        print(f"\n{rule}\nL1 Memory Usage Breakdown\n{rule}")
        print(f"Circular Buffers:  {_mb(self.cb_total):8.1f} MB")
        print(f"Kernel Code (est): {_mb(self.kernel_est):8.1f} MB")
        print(f"  ({self.num_kernels} kernels)")
        print(f"Total L1 Overhead: {_mb(self.cb_total + self.kernel_est):8.1f} MB")
        by_core = self.per_core()
        if by_core:
            x, y = max(by_core, key=by_core.__getitem__)
            print(f"Fullest core:      {by_core[x, y] / 1024:8.1f} KB on (x={x},y={y})")
        print(f"{rule}\n")

    def show(self) -> None:
        """Print both sums in one line."""
        print(f"\nL1: CBs={_mb(self.cb):.1f}MB, Kernels={_mb(self.kern):.1f}MB")


def _shared_client() -> AllocationClient:
    """One client for all trackers of a process: they are one source, and their ids must not collide."""
    global _reporter
    with _lock:
        if _reporter is None:
            _reporter = AllocationClient(enabled=True, source="l1_tracker", confidence=Confidence.ESTIMATED)
        return _reporter


def _cb(num_tiles: int, tile_size: int, cores: Cores | None) -> tuple[tuple[int, int], int]:
    """The key that identifies a circular buffer, and its bytes."""
    each = _integer("num_tiles", num_tiles) * _integer("tile_size", tile_size)
    mask = _mask(cores)
    return (each, mask), each * (mask.bit_count() or 1)


def _kernel(num_cores: int, cores: Cores | None) -> tuple[tuple[int, int], int]:
    count, mask = _integer("num_cores", num_cores), _mask(cores)
    if mask:
        if count not in (1, mask.bit_count()):
            raise ValueError(f"num_cores is {count} but cores has {mask.bit_count()}; give only one of them")
        count = mask.bit_count()
    return (count, mask), count * KERNEL_BYTES


def _integer(name: str, value: int) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise ValueError(f"{name} is {value!r}; give a whole number, 0 or more") from None
    if number < 0:
        raise ValueError(f"{name} is {number}; give a whole number, 0 or more")
    return number


def _mask(cores: Cores | None) -> int:
    """The cores as a set; 0 if they are not known."""
    return 0 if cores is None else mask_from(cores)


def _youngest(live: dict[tuple[int, int], list[int]], key: tuple[int, int], what: str, call: str) -> int:
    ids = live.get(key)
    if not ids:
        raise ValueError(f"no {what} is tracked; give the same values, with the same cores, as to {call}")
    ident = ids.pop()
    if not ids:
        del live[key]
    return ident


def _mb(size: int) -> float:
    return size / 1024 / 1024


def _after_fork() -> None:
    """Replace the lock: if another thread of the parent held it, it would never be released here."""
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_after_fork)
