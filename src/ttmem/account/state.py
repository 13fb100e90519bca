# SPDX-License-Identifier: Apache-2.0
"""The state of the account: chips, processes and their holdings, the limits on them, and counted anomalies.

Other modules change it: `ledger` for buffers, and one `*_events` module for each other kind of event.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from typing import NamedTuple

from ttmem.account.allocations import Allocation, Holding
from ttmem.account.chip_registry import Chips
from ttmem.account.dead_processes import DeadProcesses
from ttmem.account.entities import Chip, Process, Source
from ttmem.account.observer import FailureObserver
from ttmem.account.totals import TotalWithContents
from ttmem.model.events import MAX_SIZE, Device, device_numbers
from ttmem.model.identity import ProcessInfo, assumed_chip_id
from ttmem.model.kinds import KINDS, Confidence


class Limits(NamedTuple):
    """Limits on everything that can grow (rule 15). What exceeds a limit is counted, not kept."""

    allocations_per_process: int = 4_000_000
    programs_per_process: int = 250_000  # compiled or launched
    devices_per_process: int = 1024
    chips_per_user: int = 1024  # first reported by processes of this user
    chips: int = 4096  # above half of it, chips that are not in the machine and not in use are removed
    departed: int = 64
    dead_allocations: int = 10_000
    claimed_pids: int = 16
    marks: int = 1000
    audits: int = 256  # allocators of one process on one chip
    views: int = 1024  # the same, for each kind
    open_phases: int = 64  # per process, as are the next two
    phase_paths: int = 256
    phase_rows: int = 20_000
    size: int = MAX_SIZE


class AccountState:
    """All chips and processes, and what the processes hold."""

    def __init__(
        self,
        limits: Limits = Limits(),
        all_chips: TotalWithContents | None = None,
        failure_observer: FailureObserver | None = None,
    ) -> None:
        """``all_chips`` is a total of the caller in which the buffers of every chip are counted."""
        self.limits = limits
        self.seq = 0  # sequence number of the last applied event
        self.chips = Chips(limits.chips, all_chips)
        self.processes: dict[tuple[int, int | None, int], Process] = {}
        self.departed: deque[Process] = deque()
        self.dead_allocations = DeadProcesses(limits.dead_allocations)
        self.anomalies: Counter[str] = Counter()
        self.uncertain: Counter[str] = Counter()  # by reason, over all processes that ever reported
        self.marks: deque[tuple[float, str]] = deque(maxlen=limits.marks)
        self.peaks_since: float | None = None
        self.failure_observer = failure_observer

    def source(self, time: float, info: ProcessInfo, name: str, confidence: Confidence) -> Source:
        """The source with this name of this process, created on first use."""
        process = self.processes.get(info.key)
        if process is None:  # a late connection of a process that has exited gets the dead process
            process = next((dead for dead in reversed(self.departed) if dead.info.key == info.key), None)
        if process is None:
            process = self.processes[info.key] = Process(info, time)
        source = process.sources.get(name)
        if source is None:
            source = process.sources[name] = Source(process, name, confidence)
        return source

    def holding(self, source: Source, device: Device) -> Holding | None:
        """The holding of a source on a device or mesh, created on first use. Unknown chips are assumed."""
        if isinstance(device, tuple) and len(device) == 1:
            device = device[0]
        known = source.holdings.get(device)
        if known is not None:
            return known
        process = source.process
        chips: list[Chip] = []
        for number in device_numbers(device):
            if not self.may_number(process, number):
                return None
            chip = process.numbers.get(number)
            if chip is None:
                if not self.may_name(process, assumed_chip_id(number)):
                    return None
                chip = process.numbers[number] = self.chips.assumed(number, process.info.user_id)
            chips.append(chip)
        if not chips or len(set(chips)) < len(chips) or len(source.holdings) >= self.limits.devices_per_process * 4:
            return None
        holding = source.holdings[device] = Holding(source, device, tuple(chips))
        for chip in chips:
            chip.holdings.append(holding)
            chip.covered |= source.covered
        return holding

    def no_holding(self, source: Source, device: Device) -> Allocation | None:
        """Count an event for an invalid device as an anomaly.

        ``()`` is a mesh whose chips are all on other machines. It is valid, and nothing is counted for it.
        """
        return None if device == () else self.anomaly(source.process, "rejected")

    def may_number(self, process: Process, number: int) -> bool:
        """Whether the process may have a device with this number. The number of its devices is limited."""
        return number >= 0 and (number in process.numbers or len(process.numbers) < self.limits.devices_per_process)

    def may_name(self, process: Process, chip_id: str) -> bool:
        """Whether the process may report a chip with this id. The number of chips is limited, also per user."""
        if chip_id in self.chips:
            return True
        return (
            self.chips.has_room_for(chip_id) and self.chips.named_by(process.info.user_id) < self.limits.chips_per_user
        )

    def forget_chip(self, chip: Chip) -> None:
        """Remove a chip that no living process uses any more."""
        meant = any(chip is other for process in self.processes.values() for other in process.numbers.values())
        if not meant:
            self.chips.forget(chip)

    def remember_departed(self, process: Process) -> None:
        """Keep a dead process. Above the limit, the user with the most dead processes loses the oldest one."""
        self.departed.append(process)
        if len(self.departed) > self.limits.departed:
            most = Counter(dead.info.user_id for dead in self.departed).most_common(1)[0][0]
            self.departed.remove(next(dead for dead in self.departed if dead.info.user_id == most))

    def anomaly(self, process: Process, name: str, count: int = 1) -> Allocation | None:
        """Count an anomaly. Returns None, as the event is about no allocation."""
        process.anomalies[name] += count
        self.anomalies[name] += count
        return None

    def thin_dead_allocations(self, limit: int) -> bool:
        """Drop at most ``limit`` dead allocations above the cap. Returns True if more are left to drop."""
        return self.dead_allocations.thin(limit)

    def holdings(self) -> Iterator[Holding]:
        """Every holding of every live process."""
        for process in self.processes.values():
            yield from process.holdings()

    def allocations(self) -> Iterator[Allocation]:
        """Every live allocation, including those that do not count (rule 12)."""
        for holding in self.holdings():
            yield from holding.allocations()

    def live_count(self) -> int:
        return sum(process.count for process in self.processes.values())

    def used_by_number(self, number: int) -> list[int]:
        """Bytes by kind on the devices with this number, over all processes. Only a legacy query asks for this sum."""
        used = [0] * len(KINDS)
        for holding in self.holdings():
            if number in holding.numbers:
                chip = holding.chips[holding.numbers.index(number)]
                for kind, leaf in enumerate(holding.leaves):
                    if leaf is not None and chip in leaf.chips:
                        used[kind] += leaf.used
        return used
