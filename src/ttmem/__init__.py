# SPDX-License-Identifier: Apache-2.0
"""ttmem: where every byte of a Tenstorrent accelerator's memory goes."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ttmem.collect.budget import KvBudget, kv_budget
    from ttmem.collect.client import AllocationClient
    from ttmem.collect.graph_tracker import GraphTracker
    from ttmem.collect.instrument import instrument
    from ttmem.collect.l1_tracker import L1Tracker
    from ttmem.collect.memory import (
        NoMeter,
        max_memory_allocated,
        max_memory_reserved,
        memory_allocated,
        memory_reserved,
        memory_summary,
        phase,
        reset_peak_memory_stats,
    )
    from ttmem.collect.memory_reporter import MemoryReporter

    # Not from below: nothing that runs inside a workload imports it.
    load: Any  # ttmem.pages.notebook.load

__version__ = "0.1.0"
__all__ = [
    "AllocationClient",
    "GraphTracker",
    "KvBudget",
    "L1Tracker",
    "MemoryReporter",
    "NoMeter",
    "__version__",
    "instrument",
    "kv_budget",
    "load",
    "max_memory_allocated",
    "max_memory_reserved",
    "memory_allocated",
    "memory_reserved",
    "memory_summary",
    "phase",
    "reset_peak_memory_stats",
]

_HOMES = {
    "AllocationClient": "client",
    "GraphTracker": "graph_tracker",
    "KvBudget": "budget",
    "L1Tracker": "l1_tracker",
    "MemoryReporter": "memory_reporter",
    "instrument": "instrument",
    "kv_budget": "budget",
}


def __getattr__(name: str) -> Any:
    """The public names, imported when first used: `import ttmem` itself must cost a workload nothing."""
    if name not in __all__:
        raise AttributeError(f"module 'ttmem' has no attribute {name!r}")
    from importlib import import_module

    home = "pages.notebook" if name == "load" else f"collect.{_HOMES.get(name, 'memory')}"
    value = globals()[name] = getattr(import_module(f"ttmem.{home}"), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
