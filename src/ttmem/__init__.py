# SPDX-License-Identifier: Apache-2.0
"""ttmem: where every byte of a Tenstorrent accelerator's memory goes."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ttmem.collect.client import AllocationClient

__version__ = "0.1.0"
__all__ = ["AllocationClient", "__version__"]


def __getattr__(name: str) -> Any:
    """The public names, imported when first used: `import ttmem` itself must cost a workload nothing."""
    if name == "AllocationClient":
        from ttmem.collect.client import AllocationClient

        return AllocationClient
    raise AttributeError(f"module 'ttmem' has no attribute {name!r}")
