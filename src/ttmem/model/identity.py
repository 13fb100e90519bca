# SPDX-License-Identifier: Apache-2.0
"""The identity of processes and chips: pid and start time, chip id and PCI address."""

from __future__ import annotations

from typing import NamedTuple

from ttmem.model.geometry import Arch, Geometry


class ProcessInfo(NamedTuple):
    """A process: (pid, start time) is its identity, the rest describes it.

    ``start`` is in clock ticks since boot, None if the process had exited before it could be looked up. A process in
    another pid namespace has pid 0 and is identified by its ``connection``.
    """

    pid: int
    start: int | None = None
    user_id: int | None = None
    name: str | None = None
    command: str | None = None
    connection: int = 0

    @property
    def key(self) -> tuple[int, int | None, int]:
        return self.pid, self.start, self.connection


class ChipInfo(NamedTuple):
    """A chip as the machine describes it. ``id`` is the unique id, else the PCI address, else ``assumed:N``."""

    id: str
    pci: str | None = None
    kmd: int | None = None
    arch: Arch = Arch.UNKNOWN
    board: str | None = None
    remote: bool | None = None
    geometry: Geometry | None = None


ASSUMED = "assumed:"


def assumed_chip_id(number: int) -> str:
    """The id of a chip that is known only as "device N"."""
    return f"{ASSUMED}{number}"
