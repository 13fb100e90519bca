# SPDX-License-Identifier: Apache-2.0
"""The operation and the Python stack that made an allocation."""

from __future__ import annotations

from ttmem.account.allocations import Allocation, Part
from ttmem.model.kinds import KERNEL_KINDS


def operation_of(allocation: Allocation) -> str | None:
    """The operation that made it. The tag of a part may be the name of the part, so the tag of its program is used."""
    if isinstance(allocation, Part) and (allocation.origin.tag is not None or allocation.kind in KERNEL_KINDS):
        return allocation.origin.tag
    return allocation.extra.tag if allocation.extra is not None else None


def stack_of(allocation: Allocation) -> str | None:
    if allocation.extra is not None and allocation.extra.stack is not None:
        return allocation.extra.stack
    return allocation.origin.stack if isinstance(allocation, Part) else None
