# SPDX-License-Identifier: Apache-2.0
"""Advice on sizes after a run: l1_small_size, trace region, kernel ring, headroom, fragmentation.

Figures that were not recorded give no line.
"""

from __future__ import annotations

from typing import NamedTuple, TypedDict

from ttmem.analyze.process_layout import round_up
from ttmem.analyze.verdict_types import AT_LEAST, EXACT
from ttmem.model.units import exact, part_text

_LEAST_FRAGMENTED_PERCENT = 1.0  # less is not reported


class Figures(TypedDict, total=False):
    """Figures of one chip, in bytes per bank or core if not stated otherwise. Unknown figures are missing or None."""

    unit: int  # the unit of sizes in a bank: 32 or 64
    l1_small_size: int | None  # with which the device was opened
    l1_small_depth: int | None  # maximum distance from the lowest L1_SMALL buffer to the top of L1
    l1_small_peak: int | None  # maximum allocated: less than the depth if there were gaps
    l1_small_refused: bool  # a request failed
    dram_banks: int | None
    trace_region: int | None  # size of the region in a bank
    trace_peak: int | None  # maximum sum of the sizes of traces, over all banks
    trace_refused: bool
    ring_size: int | None
    ring_peak: int | None  # of the largest program
    ring_program: str | None
    ring_programs: int | None  # number of programs that were measured
    headroom: int | None  # minimum distance from a launched program to the lowest L1 buffer
    headroom_program: str | None
    headroom_holder: str | None  # holder of that L1 buffer
    gaps: dict[str, BankFreeSpace]  # by kind


class BankFreeSpace(TypedDict):
    """A bank at the request when the most bytes were free outside the largest free block."""

    free: int
    largest: int
    exact: bool  # False: not measured at each request, because there were too many buffers


class SizingLine(NamedTuple):
    """A figure and the advice that follows from it. ``value`` is the size to open the device with, if any."""

    what: str
    text: str
    value: int | None = None
    basis: str = EXACT


def advise(figures: Figures) -> list[SizingLine]:
    """The lines on the sizes of a run, in a fixed order.

    >>> advise({"unit": 32, "l1_small_size": 32768, "l1_small_depth": 1000})[0].text
    'L1_SMALL: at most 1000 B of 32 KiB per core used; l1_small_size=1024 would have been exactly enough; saves 31 KiB'
    """
    found = [_small(figures), _trace(figures), _ring(figures), _headroom(figures)]
    lines = [line for line in found if line is not None]
    for kind, gaps in sorted(figures.get("gaps", {}).items()):
        part = 100 * (1 - gaps["largest"] / gaps["free"]) if gaps["free"] > 0 else 0.0
        if part >= _LEAST_FRAGMENTED_PERCENT:
            more = "" if gaps["exact"] else "; with so many buffers, not every request was checked"
            text = (
                f"fragmentation of {kind}: at the worst request {exact(gaps['free'])} per bank free, the largest piece "
                f"{exact(gaps['largest'])} ({part:.0f} % fragmented{more})"
            )
            lines.append(SizingLine("fragmentation", text, basis=EXACT if gaps["exact"] else AT_LEAST))
    return lines


def _small(figures: Figures) -> SizingLine | None:
    """The line on L1_SMALL. Buffers are placed from the top, in the first gap that fits, so the depth is the need."""
    size, depth, peak = figures.get("l1_small_size"), figures.get("l1_small_depth"), figures.get("l1_small_peak")
    most = depth if depth is not None else peak
    if size is None or most is None or not size:
        return None
    used = f"L1_SMALL: at most {exact(most)} of {exact(size)} per core used"
    if figures.get("l1_small_refused"):
        return SizingLine("l1_small_size", f"{used}, and a request for more failed: too small")
    value = round_up(most, figures.get("unit", 64))
    if not most:
        return SizingLine("l1_small_size", f"L1_SMALL: never used; l1_small_size=0 saves {exact(size)} per core", 0)
    sure = "been exactly enough" if depth is not None else "been enough, or slightly more if there were gaps"
    back = f"; saves {exact(size - value)}" if value < size else ""
    text = f"{used}; l1_small_size={value} would have {sure}{back}"
    return SizingLine("l1_small_size", text, value, EXACT if depth is not None else AT_LEAST)


def _trace(figures: Figures) -> SizingLine | None:
    region, peak, banks = figures.get("trace_region"), figures.get("trace_peak"), figures.get("dram_banks")
    if region is None or peak is None or not region or not banks:
        return None
    used = f"trace region: at most {exact(peak)} of {exact(region * banks)} over all banks used"
    if figures.get("trace_refused"):
        return SizingLine("trace_region_size", f"{used}, and a request for more failed: too small")
    if not peak:
        text = f"trace region: never used; trace_region_size=0 saves {exact(region)} in each of {banks} banks of DRAM"
        return SizingLine("trace_region_size", text, 0)
    share = part_text(peak, region * banks)
    text = f"{used} ({share}); trace_region_size={peak} or slightly more would have been enough"
    return SizingLine("trace_region_size", text, peak, AT_LEAST)


def _ring(figures: Figures) -> SizingLine | None:
    size, peak = figures.get("ring_size"), figures.get("ring_peak")
    if not size or not peak:
        return None
    who, count = figures.get("ring_program"), figures.get("ring_programs")
    of = f" of {count} programs" if count else " program"
    largest = "the only program" if count == 1 else f"the largest{of}"
    text = f"kernel ring: {exact(peak)} of {exact(size)} per core ({part_text(peak, size)}) used by {largest}"
    return SizingLine("kernel_ring", f"{text}, {who}" if who else text, peak)


def _headroom(figures: Figures) -> SizingLine | None:
    least = figures.get("headroom")
    if least is None:
        return None
    program, holder = figures.get("headroom_program"), figures.get("headroom_holder")
    text = f"headroom: at least {exact(least)} per core between a program and the lowest L1 buffer"
    who = ", ".join(filter(None, (program, f"below {holder}" if holder else None)))
    return SizingLine("headroom", f"{text}: {who}" if who else text, least)
