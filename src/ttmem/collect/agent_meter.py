# SPDX-License-Identifier: Apache-2.0
"""Reads the native agent's meters from inside its process: exact totals and peaks, by kind and device."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from struct import Struct

from ttmem.collect.meters import DRAM_POOL, L1_POOL, Reading
from ttmem.model.kinds import KINDS

_NO_ROOM = ctypes.c_size_t(0)
_MOST_ROWS = 257  # all devices together, and each of as many as the agent can tell apart
# A row of native/src/entries.cpp: device, bit per kind that can be seen, then four numbers for each pool and kind. Of a
# pool (None) something is always seen.
_LABELS = ((DRAM_POOL, None), (L1_POOL, None), *((kind.label, kind) for kind in KINDS))
_ROW = Struct("<iI" + "4Q" * len(_LABELS))
_ALL_DEVICES = -1


class AgentMeter:
    """What this process holds by the agent that was loaded into it: all threads, from its first allocation on.

    A forked child has meters of its own, which begin at nothing: what it inherited is its parent's. Without an agent
    there are no readings, and marks go nowhere.

    >>> AgentMeter().available()  # `ttmem run` would load it
    False
    """

    def __init__(self) -> None:
        # PyDLL keeps the GIL: the calls are short, and no other thread forks meanwhile.
        process = ctypes.PyDLL(None)
        self._meters = getattr(process, "ttmem_agent_meters", _no_agent)
        self._phase = getattr(process, "ttmem_agent_phase", _no_agent)

    def available(self) -> bool:
        """Is the agent here, not switched off, and able to see something of this tt-metal?"""
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
    """What a call writes. Kinds that the agent cannot see in this tt-metal are left out: unknown, and not 0."""
    rows = ctypes.create_string_buffer(_MOST_ROWS * _ROW.size)  # of this call alone: threads may read at once
    count = call(*arguments, rows, ctypes.c_size_t(_MOST_ROWS))
    readings = {}
    for row in range(count):
        device, seen, *numbers = _ROW.unpack_from(rows, row * _ROW.size)
        number = None if device == _ALL_DEVICES else device
        for i, (label, kind) in enumerate(_LABELS):
            if kind is None or seen >> kind & 1:
                readings[number, label] = Reading(*numbers[4 * i : 4 * i + 4])
    return readings
