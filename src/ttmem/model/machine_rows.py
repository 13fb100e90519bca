# SPDX-License-Identifier: Apache-2.0
"""The types of the data that `sources/` reads from the machine, before it is merged into a snapshot.

Import it under ``TYPE_CHECKING`` only, like `schema`. Rows that enter a snapshot unchanged are defined in `schema`.
"""

from __future__ import annotations

from typing import TypedDict

from ttmem.model.schema import (
    CountedBytes,
    Driver,
    Firmware,
    Job,
    PcieLink,
    SourceState,
    StaleBytes,
    Telemetry,
)


class MachineLook(TypedDict):
    """The state of the machine at one time, as the system itself shows it."""

    driver: Driver
    sources: list[SourceState]
    chips: list[DriverChip]
    processes: list[HolderRow]
    foreign: dict[int, int]  # by the driver's number: descriptors held by processes outside our pid namespace
    shm: list[CounterFile]
    usage: dict[int, HostUse]  # by pid, of those above that are alive


class HostUse(TypedDict):
    """What a process uses of the host. ``start`` tells it from another that had its pid."""

    start: int
    cpu_percent: float | None  # of one core, since the last look
    rss: int


class ChipFacts(TypedDict):
    """Properties that do not change while a chip runs."""

    pci: str | None
    arch: str | None
    board: str | None
    serial: str | None
    asic_id: str | None
    firmware: Firmware


class MaxLink(TypedDict):
    """The maximum speed and width of a chip's PCIe link."""

    max_speed_gts: float | None
    max_width: int | None
    numa: int | None


class ChipFiles(ChipFacts):
    """The data about a chip in sysfs, without telemetry."""

    pcie: MaxLink


class LocalChip(ChipFacts):
    """A chip as the driver's files show it."""

    kmd: int | None
    pcie: PcieLink
    telemetry: Telemetry


class DriverChip(LocalChip, total=False):
    """Adds what tt-umd reports, if it was requested."""

    unique_id: str | None
    remote: bool


class TelemetryLook(TypedDict):
    driver: Driver
    state: str
    why: str | None
    chips: list[DriverChip]


class UmdChip(TypedDict):
    """A chip that tt-umd has read. ``chip`` is its own number for it."""

    kmd: int | None
    pci: str | None
    unique_id: str | None
    remote: bool
    chip: int | None
    arch: str | None
    board: str | None
    serial: str | None
    firmware: Firmware
    telemetry: Telemetry


class UmdLook(TypedDict):
    state: str
    why: str | None
    warning: str
    chips: list[UmdChip]


class Holder(TypedDict):
    """A process that has chips open, by the driver's numbers."""

    pid: int
    start: int | None
    user_id: int | None
    user: str | None
    name: str | None
    command: str | None
    container: str | None
    job: Job | None
    inner_pid: int | None
    letter: str | None
    holds: list[int]


class HolderRow(Holder, total=False):
    """Adds whether the process holds the same chips as at the previous read."""

    settled: bool


class HoldersLook(TypedDict):
    state: str
    why: str | None
    via: str | None
    processes: list[HolderRow]
    foreign: dict[int, int]


class CounterFile(TypedDict):
    """One file with tt-metal's own counters for a chip. ``chip`` is the id in the name of the file."""

    chip: str
    path: str
    owner: int | None
    state: str
    why: str | None
    version: int | None
    metal_id: int | None
    attached: int | None
    updated: float | None
    totals: CountedBytes | None
    slots: list[CounterSlot]
    live: CountedBytes | None
    stale: StaleBytes | None


class SlotOwner(TypedDict):
    """The owner of a slot. ``pid`` is the pid in the file, ``process`` the pid in our own pid namespace."""

    pid: int
    process: int | None
    start: int | None
    user_id: int | None
    user: str | None
    name: str | None


class SlotValues(SlotOwner, CountedBytes):
    updated: float | None
    state: str
    why: str | None


class CounterSlot(SlotValues, total=False):
    """The counters of one process on one chip."""

    shared: list[int]  # several processes write here
    unsure: bool  # it may belong to a process in another pid namespace


class CountersLook(TypedDict):
    state: str
    why: str | None
    files: list[CounterFile]
