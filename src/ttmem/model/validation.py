# SPDX-License-Identifier: Apache-2.0
"""Limits on the values that a client, an agent or a recording may report. Each value is checked once, where it enters.

The account adds, multiplies and divides these values for all users of the machine. A value outside the limits is
rejected together with its event. So a bad sender loses its event and does not affect others.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

from ttmem.model.core_sets import MAX_Y, ROW
from ttmem.model.events import (
    MAX_SIZE,
    Allocated,
    Audited,
    ChipFound,
    Described,
    DeviceOpened,
    Event,
    Extra,
    Freed,
    Lost,
    ProgramCompiled,
    ProgramRun,
    Rejected,
    Sees,
    Uncertain,
    Viewed,
)
from ttmem.model.geometry import Geometry
from ttmem.model.identity import ChipInfo

MAX_DEVICE_NUMBER = (1 << 31) - 1
MAX_MESH_CHIPS = 256  # the agent's table of chips has no more
MAX_BANKS = 1 << 16
MAX_BANK_BYTES = 1 << 40
MAX_L1_BYTES = 1 << 30  # of one core
MAX_DRIVER_NUMBER = (1 << 16) - 1  # N of /dev/tenstorrent/N
MAX_COUNT = 1 << 48  # of records, mismatches and the like
MAX_TIME_SECONDS = 1e11  # the year 5138: every date below it can be printed
_CORE_MASK_BITS = ROW * MAX_Y
_UINT64 = (1 << 64) - 1
_PCI_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", re.ASCII)


class InvalidValue(ValueError):
    """A value that no device, process or clock can have. The message has the value and the limit."""


def check(event: Event) -> None:
    """Raise InvalidValue if an event has an impossible value.

    >>> check(Lost(3))
    >>> check(Lost(1 << 60))
    Traceback (most recent call last):
        ...
    ttmem.model.validation.InvalidValue: lost events: 1152921504606846976 is not between 0 and 281474976710656
    """
    checker = _CHECKERS.get(type(event))
    if checker is not None:
        checker(event)


def check_device(number: int) -> None:
    _check_range("device number", number, 0, MAX_DEVICE_NUMBER)


def check_time(seconds: float) -> None:
    if not (math.isfinite(seconds) and 0 <= seconds <= MAX_TIME_SECONDS):
        raise InvalidValue(f"time: {seconds} is not between 0 and {MAX_TIME_SECONDS:.0f} seconds since 1970")


def check_cores(mask: int) -> None:
    if mask < 0 or mask >> _CORE_MASK_BITS:
        raise InvalidValue(f"cores: a set with a core outside the {ROW} x {MAX_Y} there can be")


def check_reserved(size: int) -> None:
    _check_range("reserved bytes", size, 0, MAX_SIZE)


def check_chip(chip: ChipInfo) -> None:
    if not chip.id:
        raise InvalidValue("chip: its id is empty")
    if chip.pci is not None and not _PCI_ADDRESS.fullmatch(chip.pci):
        raise InvalidValue(f"PCI address: {chip.pci!r} is not like 0000:01:00.0")
    if chip.kmd is not None:
        _check_range("driver number", chip.kmd, 0, MAX_DRIVER_NUMBER)
    if chip.geometry is not None:
        check_geometry(chip.geometry)


def check_geometry(geometry: Geometry) -> None:
    """A chip has cores, and its regions lie inside its L1 and its banks."""
    _check_range("grid width", geometry.grid_x, 1, ROW)
    _check_range("grid height", geometry.grid_y, 1, MAX_Y)
    _check_range("L1 size", geometry.l1_size, 1, MAX_L1_BYTES)
    _check_range("L1 base", geometry.l1_base, 0, geometry.l1_size)
    _check_range("end of the fixed L1 map", geometry.map_end, 0, geometry.l1_base)
    _check_range("L1_SMALL size", geometry.l1_small_size, 0, geometry.l1_size - geometry.l1_base)
    _check_range("DRAM banks", geometry.dram_banks, 0, MAX_BANKS)
    _check_range("DRAM bank size", geometry.dram_bank_size, 0, MAX_BANK_BYTES)
    _check_range("trace region size", geometry.trace_size, 0, geometry.dram_bank_size)


def _check_range(what: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise InvalidValue(f"{what}: {value} is not between {least} and {most}")


def _check_extra(extra: Extra) -> None:
    if extra.reserved is not None:
        check_reserved(extra.reserved)
    check_cores(extra.cores)


def _allocated(event: Allocated) -> None:
    if event.extra is not None:
        _check_extra(event.extra)


def _audited(event: Audited) -> None:
    for ours, theirs, free, banks in zip(event.ours, event.theirs, event.largest_free, event.banks):
        _check_range("banks", banks, 0, MAX_BANKS)
        for size in (ours, theirs, free):
            _check_range("bytes in a bank", size, 0, 2 * MAX_BANK_BYTES)  # two regions share a bank
    _check_range("mismatches", event.mismatches, 0, MAX_COUNT)


def _viewed(event: Viewed) -> None:
    _check_range("banks", event.banks, 0, MAX_BANKS)
    for size in (event.size, event.allocated, event.largest_free):
        _check_range("bytes in a bank", size, 0, MAX_BANK_BYTES)


def _compiled(event: ProgramCompiled) -> None:
    _check_range("program", event.program, 0, _UINT64)
    _check_range("Metal's program number", event.metal_id, 0, _UINT64)
    _check_range("bytes of the kernel ring", event.ring, 0, MAX_L1_BYTES)


_CHECKERS: dict[type, Callable[[Any], None]] = {
    Allocated: _allocated,
    Audited: _audited,
    ChipFound: lambda event: check_chip(event.chip),
    Described: lambda event: _check_extra(event.extra),
    DeviceOpened: lambda event: check_chip(event.chip),
    Freed: lambda event: check_cores(event.cores),
    Lost: lambda event: _check_range("lost events", event.events, 0, MAX_COUNT),
    ProgramCompiled: _compiled,
    ProgramRun: lambda event: check_cores(event.cores),
    Rejected: lambda event: _check_range("rejected records", event.records, 0, MAX_COUNT),
    Sees: lambda event: _check_range("kinds", event.kinds, 0, _UINT64),
    Uncertain: lambda event: _check_range("uncertain events", event.events, 1, MAX_COUNT),
    Viewed: _viewed,
}
