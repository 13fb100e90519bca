# SPDX-License-Identifier: Apache-2.0
"""The errors of a simulated device, with ttnn's messages."""

from __future__ import annotations


class SimError(RuntimeError):
    """Base of all errors; ttnn raises RuntimeError for all of them."""


class OutOfMemory(SimError):
    """No free block of a bank is large enough."""


class Clash(SimError):
    """A program's circular or dataflow buffers reach into the L1 buffers, or beyond the end of L1."""


class RingTooSmall(SimError):
    """A program does not fit into the kernel config ring."""


class TraceRegionTooSmall(SimError):
    """The live traces together need more than the trace region holds."""
