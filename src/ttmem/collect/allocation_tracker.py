# SPDX-License-Identifier: Apache-2.0
"""Functions for a runtime to report circular buffers and kernels, without any setup."""

from __future__ import annotations

from ttmem.collect.graph_tracker import GraphTracker, cores_or_none
from ttmem.model.core_sets import Cores, format_ranges, ranges_of

_idents: dict[tuple[int, int], int] = {}


def is_tracking_enabled() -> bool:
    """Whether this process reports: True if TT_ALLOC_TRACKING_ENABLED was "1" at the first call."""
    return GraphTracker.instance().client.is_enabled()


def report_kernel_allocation(device_id: int, size: int, kernel_handle: int) -> None:
    """A kernel was added to a program: ``size`` is its binaries times its cores."""
    GraphTracker.instance().client.report_kernel_load(device_id=device_id, size=size, kernel_id=kernel_handle)


def report_kernel_deallocation(device_id: int, kernel_handle: int) -> None:
    GraphTracker.instance().client.report_kernel_unload(device_id=device_id, kernel_id=kernel_handle)


def report_cb_allocation(device_id: int, size: int, buffer_index: int, core_range: Cores) -> None:
    """A circular buffer was created: ``size`` bytes on each core of the range, identified by its index there."""
    cores = cores_or_none(core_range)
    where = format_ranges(ranges_of(cores)) if cores else "no core"
    # Its address is not known, so it must not get a place in the map of its cores.
    GraphTracker.instance().client.report_cb_allocation(
        device_id=device_id, size=size * cores.bit_count(), cb_id=_ident(buffer_index, cores),
        tag=f"c_{buffer_index} on {where}",
    )  # fmt: skip


def report_cb_deallocation(device_id: int, buffer_index: int, core_range: Cores) -> None:
    ident = _ident(buffer_index, cores_or_none(core_range))
    GraphTracker.instance().client.report_cb_deallocation(device_id=device_id, cb_id=ident)


def _ident(buffer_index: int, cores: int) -> int:
    """A number for an index on a range of cores; the same index may be used on several ranges."""
    return _idents.setdefault((buffer_index, cores), len(_idents) + 1)
