# SPDX-License-Identifier: Apache-2.0
"""Rows of a snapshot with unknown values, for chips and processes that no source reports on.

They have the same keys as the rows of ``documents/snapshot.py`` (a test compares them) at a lower cost: `ttmem smi`
uses them if there is no server.
"""

from __future__ import annotations

from ttmem.model import boards

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

    from ttmem.model.schema import Anomalies, ChipRow, ChipShare, MemoryRow, ProcessRow, Snapshot

SCHEMA: Final = "ttmem.snapshot/1"
KINDS = (
    *("dram", "l1", "host", "l1_small", "trace", "cb", "dfb", "scratchpad", "kernel", "fabric_kernel"),
    *("dispatch_kernel", "firmware"),
)


def snapshot(time: str, host: str) -> Snapshot:
    """A snapshot in which nothing is known."""
    return {
        "schema": SCHEMA,
        "time": time,
        "host": host,
        "server": None,
        "sources": [],
        "driver": None,
        "chips": [],
        "processes": [],
        "sums": None,
        "anomalies": anomalies(),
        "notes": [],
    }


def chip(chip_id: str, *, arch: str | None = None, board: str | None = None, identity: str = "known") -> ChipRow:
    """A chip with only these known values."""
    return {
        "chip": chip_id,
        "pci": None,
        "kmd": None,
        "arch": arch,
        "board": board,
        "remote": None,
        "identity": identity,
        "unique_id": None,
        "joined_by": None,
        "held": None,
        "serial": None,
        "asic_id": None,
        "firmware": {},
        "pcie": None,
        "telemetry": None,
        "shm": None,
        "memory": memory(board, arch),
    }


def anomalies() -> Anomalies:
    """No anomalies."""
    return {
        "unknown_free": 0,
        "double_free": 0,
        "ambiguous": 0,
        "misrouted": 0,
        "replaced": 0,
        "rejected": 0,
        "dropped": 0,
        "after_exit": 0,
        "resynced": 0,
    }


def memory(board: str | None, arch: str | None) -> MemoryRow:
    """Memory of unknown use, with the sizes of the table of boards."""
    name = boards.table_name(board, arch)
    basis = None if name is None else "table"
    dram = l1 = banks = cores = ring = None
    if name is not None:
        _, x, y, core_size, base, map_end, banks, bank_size = boards.SIZES[name]
        cores, ring, dram = x * y, base - map_end, banks * bank_size
        l1 = cores * core_size
    return {
        "dram": {
            "used": None,
            "reserved": None,
            "capacity": dram,
            "capacity_basis": basis,
            "peak": None,
            "peak_at_most": None,
            "reserved_peak": None,
            "largest_free": None,
            "banks": banks,
            "trace": {"used": None, "reserved": None, "region": None},
        },
        "l1": {
            "used": None,
            "reserved": None,
            "capacity": l1,
            "capacity_basis": basis,
            "peak": None,
            "peak_at_most": None,
            "reserved_peak": None,
            "largest_free": None,
            "bank_free": None,
            "banks": cores,
            "at_once": None,
            "at_once_parts": {
                "l1": None,
                "l1_small": None,
                "cb": None,
                "dfb": None,
                "scratchpad": None,
                "kernel": None,
                "firmware": None,
            },
            "buffers": None,
            "small": {"used": None, "reserved": None, "region": None, "peak": None, "peak_at_most": None},
            "cb": {"held": None, "resident": None},
            "dfb": {"held": None, "resident": None},
            "scratchpad": None,
            "kernels": None,
            "scratchpad_resident": None,
            "kernels_resident": None,
            "firmware": None,
            "ring": {"used_max": None, "size": ring},
            "physical": {"used": None, "max_core": None, "headroom_min": None, "age_s": None},
        },
        "system": {"fabric_kernels": None, "dispatch_kernels": None},
        "host": {"used": None},
        "reporter": {"total": None, "tracked": None, "inferred": None, "basis": "MemoryReporter unavailable"},
        "completeness": None,
        "uncertain": [],
        "confidence": {"exact": 0, "reported": 0, "estimated": 0},
        "missing": list(KINDS),
        "unseen": [],
    }


def process(pid: int | None, state: str) -> ProcessRow:
    """A process that reports nothing."""
    return {
        "pid": pid,
        "start": None,
        "user_id": None,
        "user": None,
        "name": None,
        "command": None,
        "container": None,
        "job": None,
        "cpu_percent": None,
        "rss": None,
        "state": state,
        "seen": None,
        "exited": None,
        "claimed_pids": [],
        "allocations": None,
        "sources": [],
        "holds": [],
        "chips": [],
        "failed": 0,
        "last_failure": None,
        "uncertain": [],
        "anomalies": anomalies(),
    }


def share(chip_id: str) -> ChipShare:
    """A share of a chip in which nothing is known."""
    return {
        "chip": chip_id,
        "metal_id": None,
        "metal_ids": [],
        "dram": None,
        "peak_dram": None,
        "peak_dram_at_most": None,
        "l1": None,
        "peak_l1": None,
        "peak_l1_at_most": None,
        "host": None,
        "peak_host": None,
        "peak_host_at_most": None,
        "system": None,
        "peak_system": None,
        "peak_system_at_most": None,
        "kinds": {},
        "source": "shm",
        "shm": None,
    }
