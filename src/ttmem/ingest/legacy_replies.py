# SPDX-License-Identifier: Apache-2.0
"""Replies to the two queries of the legacy protocol."""

from __future__ import annotations

from ttmem.account.entities import Chip
from ttmem.account.ledger import Ledger
from ttmem.model.geometry import Geometry, noc_capacity
from ttmem.model.identity import assumed_chip_id
from ttmem.wire.legacy_records import DeviceInfo, Record, Type, Usage, reply

_MOST_DEVICES = 1024


class LegacyAnswers:
    """Answers by device number. Only here are chips of different processes summed by their number."""

    def __init__(self, ledger: Ledger, *, noc_capacity: bool = False) -> None:
        self._ledger = ledger
        self._noc_capacity = noc_capacity  # report the L1 capacity as the proof of concept did

    def __call__(self, record: Record, size: int) -> bytes:
        op, device = record[0], record[1]
        if op == Type.QUERY:
            return reply(Type.RESPONSE, size, device, self._usage(device))
        if device == -1:
            count = self._device_count()
            return reply(Type.DEVICE_INFO_RESPONSE, size, device, info=DeviceInfo(available=count > 0, devices=count))
        chip = self._chip(device)
        if chip is None:
            return reply(Type.DEVICE_INFO_RESPONSE, size, device)
        usage = self._usage(device)
        counters = Usage(cb=usage.cb, kernel=usage.kernel)  # used where the record size has these fields
        return reply(Type.DEVICE_INFO_RESPONSE, size, device, counters, self._info(chip.geometry))

    def _usage(self, device: int) -> Usage:
        return Usage.of(self._ledger.used_by_number(device))

    def _device_count(self) -> int:
        """The number n for which queries of 0 to n-1 find every chip."""
        numbers = {n for p in self._ledger.processes.values() for n in p.numbers if n < _MOST_DEVICES}
        machine = [chip for chip in self._ledger.chips.values() if not chip.assumed and chip.info.kmd is not None]
        return max(len(machine), max(numbers, default=-1) + 1)

    def _chip(self, device: int) -> Chip | None:
        for process in self._ledger.processes.values():
            chip = process.numbers.get(device)
            if chip is not None:
                return chip
        here = (chip for chip in self._ledger.chips.values() if chip.info.kmd == device)
        return next(here, None) or self._ledger.chips.get(assumed_chip_id(device))

    def _info(self, geometry: Geometry | None) -> DeviceInfo:
        """A chip that is known only from events is available, and its sizes are unknown."""
        if geometry is None:
            return DeviceInfo(available=1)
        return DeviceInfo(
            total_dram=geometry.dram_capacity,
            total_l1=noc_capacity(geometry) if self._noc_capacity else geometry.l1_capacity,
            arch=geometry.arch,
            dram_channels=geometry.dram_banks,
            dram_channel_size=geometry.dram_bank_size,
            l1_per_core=geometry.l1_size,
            available=1,
        )
