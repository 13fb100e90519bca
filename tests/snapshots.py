# SPDX-License-Identifier: Apache-2.0
"""Creates data of sources and accounts, for tests of the merge."""

from __future__ import annotations

from typing import Any

from ttmem.account.entities import Source
from ttmem.account.ledger import Ledger
from ttmem.documents.snapshot import take_snapshot
from ttmem.model.events import Allocated, DeviceOpened, Event
from ttmem.model.geometry import BOARDS
from ttmem.model.identity import ChipInfo, ProcessInfo
from ttmem.model.kinds import Confidence, Kind

Json = Any  # made by hand; test_schema.py compares it with the types
KINDS = ("dram", "l1", "l1_small", "trace", "cb")
WELL: Json = {
    "temperature_c": 51.0, "temperature_max_c": 75.0, "power_w": 18.0, "power_max_w": 160.0, "current_a": 21.0,
    "current_max_a": 160.0, "voltage_mv": 730, "voltage_max_mv": 900, "aiclk_mhz": 1000, "axiclk_mhz": 900,
    "arcclk_mhz": 540, "fan_rpm": None, "heartbeat": 12345, "alive": True, "therm_trips": None, "state": "ok",
    "age_s": 0.0, "implausible": {},
}  # fmt: skip


def driver_chip(kmd: int, board: str = "n150", *, arch: str = "wormhole_b0", **facts: Any) -> Json:
    """A chip as the driver shows it."""
    pcie = {"speed_gts": 16.0, "width": 16, "max_speed_gts": 16.0, "max_width": 16, "numa": 0}
    return {
        "kmd": kmd, "pci": f"0000:{kmd + 1:02x}:00.0", "arch": arch, "board": board, "serial": f"{0xAB00 + kmd:016X}",
        "asic_id": f"{0xCD00 + kmd:016X}", "firmware": {"bundle": "18.10.0.0"}, "pcie": pcie, "telemetry": {**WELL},
        **facts,
    }  # fmt: skip


def holder(pid: int, *holds: int, start: int = 100, user_id: int = 1000, name: str = "python") -> Json:
    """A process that has chips open."""
    return {
        "pid": pid, "start": start, "user_id": user_id, "user": "ann", "name": name, "command": f"{name} model.py",
        "container": None, "job": {"id": "session 3", "name": "bash"}, "inner_pid": None, "letter": "S",
        "holds": list(holds),
    }  # fmt: skip


def slot(pid: int, *sizes: int, state: str = "live", start: int = 100, name: str = "python") -> Json:
    """tt-metal's counters of one process: DRAM, L1, L1_SMALL, TRACE, CB."""
    counted = dict(zip(KINDS, (*sizes, 0, 0, 0, 0, 0)))
    live = state == "live"
    return {
        "pid": pid, "process": pid if live else None, "start": start if live else None,
        "user_id": 1000 if live else None, "user": None, "name": name, **counted, "updated": 1.5e9,
        "state": state, "why": None,
    }  # fmt: skip


def counters(chip_id: int | str, *slots: Json, metal_id: int = 0, lost: int = 0) -> Json:
    """tt-metal's counters of a chip; ``lost`` bytes of DRAM in the totals belong to no slot."""
    totals = {kind: sum(one[kind] for one in slots) for kind in KINDS}
    totals["dram"] += lost
    live = {kind: sum(one[kind] for one in slots if one["state"] == "live") for kind in KINDS}
    stale: Json = {kind: max(0, totals[kind] - live[kind]) for kind in KINDS[:4]}
    return {
        "chip": str(chip_id), "path": f"/dev/shm/tt_device_{chip_id}_memory", "owner": 1000, "state": "ok", "why": None,
        "version": 3, "metal_id": metal_id, "attached": 1, "updated": 1.5e9, "totals": totals, "slots": list(slots),
        "live": live, "stale": {**stale, "cb": None},
    }  # fmt: skip


def unreadable(chip_id: int | str) -> Json:
    unknown = ("version", "metal_id", "attached", "updated", "totals", "live", "stale")
    said = {"slots": [], "state": "unreadable", "why": "belongs to bob (uid 1001)"}
    return {**counters(chip_id), **dict.fromkeys(unknown), **said}


def machine(*chips: Json, processes: Any = (), shm: Any = (), foreign: dict[int, int] | None = None) -> Json:
    """The state of a machine."""
    return {
        "driver": {"version": "2.10.0", "loaded": bool(chips)},
        "sources": [{"name": name, "state": "ok", "detail": None} for name in ("sysfs", "processes", "shm")],
        "chips": list(chips),
        "processes": list(processes),
        "foreign": foreign or {},
        "usage": {},
        "shm": list(shm),
    }


class Account:
    """An account and its snapshot."""

    def __init__(self) -> None:
        self.ledger = Ledger()

    def source(self, pid: int, name: str = "agent", start: int = 100) -> Source:
        confidence = Confidence.EXACT if name == "agent" else Confidence.REPORTED
        return self.ledger.source(0.0, ProcessInfo(pid, start, 1000, "python"), name, confidence)

    def apply(self, source: Source | None, *events: Event) -> None:
        for event in events:
            self.ledger.apply(0.0, source, event)

    def tracked(
        self, pid: int, chip_id: str, *, device: int = 0, dram: int = 0, l1: int = 0, remote: bool = False
    ) -> None:
        """A process under the agent holds these amounts of a chip."""
        source, board = self.source(pid), BOARDS["n150"]
        info = ChipInfo(chip_id, None, None, board.arch, None, remote, board._replace(live=True))
        self.apply(source, DeviceOpened(device, info))
        for kind, size in ((Kind.DRAM, dram), (Kind.L1, l1)):
            if size:
                self.apply(source, Allocated(device, kind, 0x100000, size))

    def snapshot(self) -> Json:
        server: Json = {"pid": 1, "since": "then", "events": 1, "version": "1", "clients": 1, "lost_to_readers": 0}
        return take_snapshot(self.ledger, time="2026-01-02T03:04:05.678Z", host="box", server=server)
