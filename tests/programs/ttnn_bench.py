# SPDX-License-Identifier: Apache-2.0
"""Shared code of the ttnn programs: open a board, query ttnn's own account, and report in step with a test."""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import Any

import ttnn

MESHES = {"n300": (1, 2), "t3k": (2, 4)}  # the others are opened as single devices
BUFFER_TYPES = ("DRAM", "L1", "L1_SMALL", "TRACE")
L1_SMALL_SIZE = 32768
CONVOLUTION = {
    "in_channels": 32,
    "out_channels": 32,
    "batch_size": 1,
    "input_height": 16,
    "input_width": 16,
    "kernel_size": (3, 3),
    "stride": (1, 1),
    "padding": (1, 1),
}


def parser(description: str | None) -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=description)
    options.add_argument("--board", default="n150")
    options.add_argument("--fabric", action="store_true", help="start the routers on the ethernet cores")
    options.add_argument("--trace-region-size", type=int, default=0)
    options.add_argument("--ring-size", type=int, default=0, help="bytes of a core's kernel ring; 0 for ttnn's choice")
    options.add_argument("--report-fd", type=int, help="write JSON lines there; without it they go to stdout")
    options.add_argument("--ack-fd", type=int, help="wait there for one byte after each line")
    return options


class Reporter:
    """Writes one JSON line after each step and, if asked to, waits until the reader has had its look."""

    def __init__(self, report_fd: int | None, ack_fd: int | None) -> None:
        self._out = sys.stdout if report_fd is None else os.fdopen(report_fd, "w")
        self._ack_fd = ack_fd

    def __call__(self, **record: Any) -> None:
        self._out.write(json.dumps(record) + "\n")
        self._out.flush()
        if self._ack_fd is not None and not os.read(self._ack_fd, 1):
            raise SystemExit("the reader of the reports is gone")


def open_board(options: argparse.Namespace) -> Any:
    sizes = {"l1_small_size": L1_SMALL_SIZE, "trace_region_size": options.trace_region_size}
    if options.ring_size:
        sizes["worker_l1_size"] = ttnn._ttnn.device.get_max_worker_l1_unreserved_size() - options.ring_size
    if options.fabric:
        ttnn.set_fabric_config(ttnn.FabricConfig.FABRIC_1D)
    if options.board not in MESHES:
        return ttnn.open_device(device_id=0, **sizes)
    # By default these boards dispatch from ethernet cores, and on mock ttnn then plans for 8x8 cores but allows 8x7.
    dispatch = ttnn.DispatchCoreConfig(ttnn.DispatchCoreType.WORKER)
    return ttnn.open_mesh_device(ttnn.MeshShape(*MESHES[options.board]), dispatch_core_config=dispatch, **sizes)


def close_board(options: argparse.Namespace, device: Any) -> None:
    (ttnn.close_mesh_device if options.board in MESHES else ttnn.close_device)(device)


def account(device: Any, listed: bool = True) -> dict[str, Any]:
    """What ttnn says is allocated; its list of buffers only on request, for it may hold some that are no more."""
    views = {}
    for name in BUFFER_TYPES:
        view = ttnn.get_memory_view(device, getattr(ttnn.BufferType, name))
        views[name] = {
            "banks": view.num_banks,
            "allocated_per_bank": view.total_bytes_allocated_per_bank,
            "largest_free_per_bank": view.largest_contiguous_bytes_free_per_bank,
            "total_per_bank": view.total_bytes_per_bank,
        }
    buffers = ttnn._ttnn.reports.get_buffers([device]) if listed else []
    return {
        "chips": list(device.get_device_ids()),
        "views": views,
        "buffers": sorted([buffer.buffer_type.value, buffer.address] for buffer in buffers),
        "program_cache": device.num_program_cache_entries(),
    }


def first_line(error: BaseException) -> str:
    """An error in one line; ttnn's own go on with a backtrace."""
    text = str(error).partition("\nbacktrace:")[0]
    return f"{type(error).__name__}: {' '.join(text.split())}"
