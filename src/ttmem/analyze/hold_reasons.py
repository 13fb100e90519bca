# SPDX-License-Identifier: Apache-2.0
"""Why an allocation is still held: by the program cache, a trace, the runtime, or a reference."""

from __future__ import annotations

from enum import IntEnum

from ttmem.account.allocations import Allocation, Part
from ttmem.model.kinds import KINDS, Kind


class Cause(IntEnum):
    """What keeps an allocation alive. HELD: only a reference in the program, so it may be a leak."""

    HELD = 0
    PROGRAM_CACHE = 1
    LIKELY_PROGRAM_CACHE = 2
    TRACE = 3
    SYSTEM = 4


_CAUSES = {
    Kind.CB: Cause.PROGRAM_CACHE,
    Kind.DFB: Cause.PROGRAM_CACHE,
    Kind.SCRATCHPAD: Cause.PROGRAM_CACHE,
    Kind.KERNEL: Cause.PROGRAM_CACHE,
    # Not known for sure to belong to a cached program, but nearly all do.
    Kind.L1_SMALL: Cause.LIKELY_PROGRAM_CACHE,
    Kind.TRACE: Cause.TRACE,
    Kind.FABRIC_KERNEL: Cause.SYSTEM,
    Kind.DISPATCH_KERNEL: Cause.SYSTEM,
    Kind.FIRMWARE: Cause.SYSTEM,
}
_CAUSE_OF = tuple(_CAUSES.get(kind, Cause.HELD) for kind in KINDS)


def cause_of(allocation: Allocation) -> Cause:
    """The likely cause, from the properties of the allocation alone."""
    extra, part = allocation.extra, isinstance(allocation, Part)
    if extra is None:
        return cause_with(allocation.kind, system=False, binary=False, kept=False, part=part)
    return cause_with(allocation.kind, system=extra.system, binary=extra.binary, kept=extra.kept, part=part)


def cause_with(kind: Kind, *, system: bool, binary: bool, kept: bool, part: bool) -> Cause:
    """The likely cause for an allocation with these properties; ``part`` if a program has it."""
    if system:
        return Cause.SYSTEM
    if binary:
        return Cause.PROGRAM_CACHE
    if kept:
        return Cause.LIKELY_PROGRAM_CACHE
    if kind is Kind.KERNEL and not part:
        return Cause.SYSTEM  # a write into a core's kernel ring, below the allocatable L1
    return _CAUSE_OF[kind]
