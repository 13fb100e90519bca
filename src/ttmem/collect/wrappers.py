# SPDX-License-Identifier: Apache-2.0
"""Wrappers around the calls of any runtime: each makes the call, reports it, and returns its result.

Arguments for the tracking are passed by keyword; all other arguments are passed on. An exception of the runtime's call
is raised to the caller, and nothing is reported then. An error in the tracking does not affect the result.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable
from typing import Any, Protocol, TypeVar
from zlib import crc32

from ttmem.collect.client import AllocationClient
from ttmem.collect.l1_tracker import KERNEL_BYTES
from ttmem.model.core_sets import MAX_Y, ROW, Cores, mask_from
from ttmem.model.kinds import Confidence

Result = TypeVar("Result")

_clients: dict[Confidence, AllocationClient] = {}
_SOURCES = {Confidence.REPORTED: "wrappers", Confidence.ESTIMATED: "wrapper_kernels"}
_handles = itertools.count(1 << 63)  # for kernels without a number, far from the numbers of a runtime


class Tracker(Protocol):
    """Sums up instead of a client, or in addition; ``L1Tracker`` is one."""

    def track_cb(self, num_tiles: int, tile_size: int, *, cores: Cores | None = None) -> int: ...
    def free_cb(self, num_tiles: int, tile_size: int, *, cores: Cores | None = None) -> int: ...
    def track_kernel(self, num_cores: int = 1, *, cores: Cores | None = None) -> int: ...
    def unload_kernel(self, num_cores: int = 1, *, cores: Cores | None = None) -> int: ...


def create_circular_buffer_with_tracking(
    create: Callable[..., Result], *args: Any, device: int, size: int, cores: Cores, index: int,
    address: int | None = None, program: int = 0, client: AllocationClient | None = None,
    tracker: Tracker | None = None, **kwargs: Any,
) -> Result:  # fmt: skip
    """Create a circular buffer of ``size`` bytes on each of its cores.

    >>> from ttmem import L1Tracker
    >>> tracker = L1Tracker()
    >>> create_circular_buffer_with_tracking(
    ...     "a buffer of {}".format, 4096, device=0, size=4096, cores=[(0, 0), (1, 0)], index=0, tracker=tracker
    ... )
    'a buffer of 4096'
    >>> tracker.cb_total
    8192
    """
    result = create(*args, **kwargs)
    with contextlib.suppress(TypeError, ValueError):
        mask = mask_from(cores)
        if tracker is not None:
            tracker.track_cb(1, size, cores=mask)
        reporter = _reporter(client, tracker)
        if reporter is not None:
            ident, known = _place(address, index, mask)
            reporter.report_cb_allocation(
                device_id=device, size=size * mask.bit_count(), cb_id=ident, program=program, cores=known
            )
    return result


def free_circular_buffer_with_tracking(
    free: Callable[..., Result], *args: Any, device: int, size: int, cores: Cores, index: int,
    address: int | None = None, program: int = 0, client: AllocationClient | None = None,
    tracker: Tracker | None = None, **kwargs: Any,
) -> Result:  # fmt: skip
    """Free a circular buffer; pass the same values as at its creation."""
    result = free(*args, **kwargs)
    with contextlib.suppress(TypeError, ValueError):
        mask = mask_from(cores)
        if tracker is not None:
            tracker.free_cb(1, size, cores=mask)
        reporter = _reporter(client, tracker)
        if reporter is not None:
            ident, known = _place(address, index, mask)
            reporter.report_cb_deallocation(device_id=device, cb_id=ident, program=program, cores=known)
    return result


def add_kernel_with_tracking(
    add: Callable[..., Result], *args: Any, device: int, cores: Cores, size: int | None = None,
    kernel: int | None = None, program: int = 0, client: AllocationClient | None = None,
    tracker: Tracker | None = None, **kwargs: Any,
) -> Result:  # fmt: skip
    """Add a kernel whose binaries take ``size`` bytes on each of its cores, or 50 KiB by estimate.

    ``kernel`` is its number; by default that is the handle that ``add`` returns, if it is a number. All kernels are
    reported as estimates, because some may be; so a given ``client`` should have confidence ESTIMATED.
    """
    result = add(*args, **kwargs)
    with contextlib.suppress(TypeError, ValueError):
        mask = mask_from(cores)
        if tracker is not None:
            tracker.track_kernel(mask.bit_count(), cores=mask)
        reporter = _reporter(client, tracker, Confidence.ESTIMATED)
        if reporter is not None:
            handle = result if kernel is None and isinstance(result, int) else kernel
            reporter.report_kernel_load(
                device_id=device, size=(KERNEL_BYTES if size is None else size) * mask.bit_count(),
                kernel_id=next(_handles) if handle is None else handle, program=program, cores=mask,
            )  # fmt: skip
    return result


def unload_kernel_with_tracking(
    unload: Callable[..., Result], *args: Any, device: int, cores: Cores, kernel: int, size: int | None = None,
    program: int = 0, client: AllocationClient | None = None, tracker: Tracker | None = None, **kwargs: Any,
) -> Result:  # fmt: skip
    """Unload a kernel; pass the same values as when it was added, and its number."""
    result = unload(*args, **kwargs)
    with contextlib.suppress(TypeError, ValueError):
        mask = mask_from(cores)
        if tracker is not None:
            tracker.unload_kernel(mask.bit_count(), cores=mask)
        reporter = _reporter(client, tracker, Confidence.ESTIMATED)
        if reporter is not None:
            reporter.report_kernel_unload(device_id=device, kernel_id=kernel, program=program, cores=mask)
    return result


def _reporter(
    client: AllocationClient | None, tracker: Tracker | None, confidence: Confidence = Confidence.REPORTED
) -> AllocationClient | None:
    """The given client, none if there is only a tracker, else the client of this module."""
    if client is not None or tracker is not None:
        return client
    known = _clients.get(confidence)
    if known is None:  # two threads may both create one; they are one source
        known = _clients.setdefault(confidence, AllocationClient(source=_SOURCES[confidence], confidence=confidence))
    return known


def _place(address: int | None, index: int, mask: int) -> tuple[int, int]:
    """Number and cores of a circular buffer. Without an address, it must not get a place in the map of its cores."""
    if address is not None:
        return address, mask
    return crc32(mask.to_bytes(ROW * MAX_Y // 8, "little")) << 16 | index, 0
