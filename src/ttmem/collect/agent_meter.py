# SPDX-License-Identifier: Apache-2.0
"""Reads the native agent's meters from inside its process: exact totals and peaks, by kind and device."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from struct import Struct

from ttmem.collect.meters import DRAM_POOL, L1_POOL, Reading
from ttmem.model.kinds import KINDS

_NO_ROOM = ctypes.c_size_t(0)
_MOST_ROWS = 257  # one for all devices together, and one for each device that the agent can distinguish
# A row of native/src/entries.cpp: device, one bit per tracked kind, then four numbers for each pool and kind. A pool
# (None) always has a tracked kind.
_LABELS = ((DRAM_POOL, None), (L1_POOL, None), *((kind.label, kind) for kind in KINDS))
_ROW = Struct("<iI" + "4Q" * len(_LABELS))
_ALL_DEVICES = -1


class AgentMeter:
    """What this process holds according to its agent: all threads, from the first allocation on.

    A forked child has its own meters, which start at 0: inherited allocations count for the parent. Without an agent
    there are no readings, and marks are ignored.

    >>> AgentMeter().available()  # `ttmem run` would load it
    False
    """

    def __init__(self) -> None:
        # PyDLL keeps the GIL: the calls are short, and no other thread can fork during a call.
        process = ctypes.PyDLL(None)
        self._meters = getattr(process, "ttmem_agent_meters", _no_agent)
        self._phase = getattr(process, "ttmem_agent_phase", _no_agent)

    def available(self) -> bool:
        """Whether the agent is loaded, enabled, and able to track anything of this tt-metal."""
        return bool(self._meters(0, None, _NO_ROOM) >= 0)

    def read(self) -> dict[tuple[int | None, str], Reading]:
        return _readings(self._meters, 0)

    def reset_peaks(self) -> None:
        self._meters(1, None, _NO_ROOM)

    def read_and_reset(self) -> dict[tuple[int | None, str], Reading]:
        return _readings(self._meters, 1)

    def phase_began(self, ident: int, name: str, parent: int) -> dict[tuple[int | None, str], Reading]:
        text = name.encode("utf-8", "replace")
        return _readings(self._phase, 1, ctypes.c_uint64(ident), ctypes.c_uint64(parent), text)

    def phase_ended(self, ident: int) -> dict[tuple[int | None, str], Reading]:
        return _readings(self._phase, 0, ctypes.c_uint64(ident), ctypes.c_uint64(0), b"")


def _no_agent(*_: object) -> int:
    return -1


def _readings(call: Callable[..., int], *arguments: object) -> dict[tuple[int | None, str], Reading]:
    """The readings of a call. Kinds that the agent cannot track in this tt-metal are left out: unknown, not 0."""
    rows = ctypes.create_string_buffer(_MOST_ROWS * _ROW.size)  # per call, because threads may read at the same time
    count = call(*arguments, rows, ctypes.c_size_t(_MOST_ROWS))
    readings = {}
    for row in range(count):
        device, seen, *numbers = _ROW.unpack_from(rows, row * _ROW.size)
        number = None if device == _ALL_DEVICES else device
        for i, (label, kind) in enumerate(_LABELS):
            if kind is None or seen >> kind & 1:
                readings[number, label] = Reading(*numbers[4 * i : 4 * i + 4])
    return readings
