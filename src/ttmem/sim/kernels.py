# SPDX-License-Identifier: Apache-2.0
"""Kernels of a program, and the bytes they need in the kernel config ring of a core."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ttmem.model.core_sets import CoreRange, format_ranges, mask_of, ranges_of
from ttmem.sim.errors import RingTooSmall
from ttmem.sim.free_list import round_up

PROCESSORS = ("brisc", "ncrisc", "trisc0", "trisc1", "trisc2")
_ALIGNMENT_BYTES = 16
_SLOT_BYTES = 16  # a semaphore, a buffer's configuration


class Kernel(NamedTuple):
    """A compiled kernel: the packed bytes of its binary for each processor it runs on, and how many arguments."""

    name: str
    binaries: tuple[tuple[str, int], ...]
    args: int = 0
    common_args: int = 0

    @property
    def size(self) -> int:
        """Bytes on each of its cores."""
        return sum(size for _, size in self.binaries)


def data_movement_kernel(
    name: str, size: int, processor: str = "brisc", *, args: int = 0, common_args: int = 0
) -> Kernel:
    """A reader or a writer: one binary, for one of the two data-movement processors."""
    return Kernel(name, ((processor, size),), args, common_args)


def compute_kernel(name: str, sizes: tuple[int, int, int], *, args: int = 0, common_args: int = 0) -> Kernel:
    """One source, three binaries: unpack, math, pack."""
    return Kernel(name, tuple(zip(PROCESSORS[2:], sizes)), args, common_args)


class Group(NamedTuple):
    """Cores that run the same kernels."""

    kernels: tuple[Kernel, ...]
    cores: int  # mask

    @property
    def size(self) -> int:
        """Bytes of kernels on each of its cores."""
        return sum(kernel.size for kernel in self.kernels)


def groups_of(kernels: Iterable[tuple[Kernel, Sequence[CoreRange]]]) -> list[Group]:
    """A program's kernels by the cores that share them."""
    groups: list[Group] = []
    for kernel, ranges in kernels:
        rest = mask_of(ranges)
        split: list[Group] = []
        for group in groups:
            both = group.cores & rest
            rest &= ~both
            if both:
                split.append(Group((*group.kernels, kernel), both))
            if group.cores & ~both:
                split.append(Group(group.kernels, group.cores & ~both))
        groups = split + ([Group((kernel,), rest)] if rest else [])
    return groups


class RingUse(NamedTuple):
    """The parts of a program in a core's kernel ring, each with its largest size on any core."""

    runtime_args: int
    semaphores: int
    circular_buffers: int
    dataflow_buffers: int
    kernel_text: int

    @property
    def total(self) -> int:
        return sum(self)


def ring_use(
    groups: Sequence[Group], *, semaphores: int = 0, cbs: Mapping[int, int] | None = None, dfbs: int = 0
) -> RingUse:
    """The ring use of a program.

    ``cbs`` maps a circular buffer's index to its cores; ``dfbs`` counts dataflow buffers.
    """
    used = 0
    for group in groups:
        found = [index for index, cores in (cbs or {}).items() if cores & group.cores]
        used = max(used, max(found, default=-1) + 1)
    unique = max((round_up(4 * sum(k.args for k in group.kernels), _ALIGNMENT_BYTES) for group in groups), default=0)
    common = max(
        (sum(round_up(4 * k.common_args, _ALIGNMENT_BYTES) for k in group.kernels) for group in groups), default=0
    )
    text = max((text_size(group) for group in groups), default=0)
    return RingUse(unique + common, semaphores * _SLOT_BYTES, used * _SLOT_BYTES, dfbs * _SLOT_BYTES, text)


def text_size(group: Group) -> int:
    """Bytes of its kernels in the ring of each of its cores."""
    return sum(round_up(size, _ALIGNMENT_BYTES) for kernel in group.kernels for _, size in kernel.binaries)


def check_ring(use: RingUse, ring_size: int, groups: Sequence[Group]) -> None:
    """tt-metal's check when a program is compiled, with its table of the parts of the program."""
    if use.total <= ring_size:
        return
    largest = max(groups, key=text_size)  # of several equal ones, tt-metal may use any
    sizes = dict.fromkeys(PROCESSORS, 0)
    for kernel in largest.kernels:
        for processor, size in kernel.binaries:
            sizes[processor] += size
    order = sorted(largest.kernels, key=lambda kernel: min(PROCESSORS.index(name) for name, _ in kernel.binaries))
    rows = [(f"  {name.replace('_', ' ')}", f"{size} B") for name, size in zip(RingUse._fields, use)]
    rows += [(f"    {processor}", f"{size} B") for processor, size in sizes.items()]
    rows.append(("    text-sizing group, cores", format_ranges(sorted(ranges_of(largest.cores)))))
    rows.append(("    text-sizing group, kernels", ", ".join(dict.fromkeys(kernel.name for kernel in order))))
    table = "\n".join(f"{name:<30} {value}" for name, value in rows)
    raise RingTooSmall(
        f"Program size ({use.total}) too large for kernel config buffer ({ring_size}) on TENSIX, "
        f"{use.total - ring_size} B over:\n{table}"
    )
