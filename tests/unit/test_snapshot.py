# SPDX-License-Identifier: Apache-2.0
"""The snapshot has every key of its schema, of the right type, and null where nothing is known."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.schema_conformance import problems
from ttmem.account.entities import Source
from ttmem.account.ledger import Ledger
from ttmem.documents.peaks import peaks
from ttmem.documents.snapshot import Moment, take_snapshot
from ttmem.documents.unknown_rows import anomalies
from ttmem.model import schema
from ttmem.model.core_sets import CoreRange, mask_of
from ttmem.model.events import (
    Allocated,
    ChipFound,
    Claimed,
    DeviceClosed,
    DeviceOpened,
    Extra,
    Failed,
    Freed,
    PeaksReset,
    ProcessExited,
    ProgramRun,
    Sees,
    Uncertain,
)
from ttmem.model.geometry import BOARDS, Arch
from ttmem.model.identity import ChipInfo, ProcessInfo
from ttmem.model.kinds import KINDS, Confidence, Kind

MIB = 1 << 20
GRID = mask_of([CoreRange(0, 0, 10, 9)])


class Account:
    def __init__(self) -> None:
        self.ledger = Ledger()

    def source(self, pid: int = 42, name: str = "agent", **info: Any) -> Source:
        confidence = Confidence.EXACT if name == "agent" else Confidence.REPORTED
        return self.ledger.source(10.0, ProcessInfo(pid, 7, 1000, **info), name, confidence)

    def apply(self, source: Source | None, *events: Any, time: float = 10.0) -> None:
        for event in events:
            self.ledger.apply(time, source, event)

    def snapshot(self, **keywords: Any) -> Any:
        snapshot = take_snapshot(self.ledger, time="2026-01-01T00:00:00.000Z", host="box", **keywords)
        assert problems(snapshot, schema.Snapshot) == []
        assert json.loads(json.dumps(snapshot)) == snapshot, "plain data"
        return snapshot


def busy() -> Account:
    account = Account()
    source = account.source(command="python model.py")
    account.apply(
        source,
        DeviceOpened(0, ChipInfo("777", "0000:01:00.0", 3, Arch.BLACKHOLE, "p150a", False,
                                 BOARDS["p150"]._replace(live=True, l1_small_size=32768, trace_size=4 * MIB))),
        Allocated(0, Kind.DRAM, 0x1000, 8 * MIB, extra=Extra(reserved=9 * MIB)),
        Allocated(0, Kind.TRACE, 0x8000000, MIB, extra=Extra(reserved=2 * MIB)),
        Allocated(0, Kind.DRAM, 0x2000000, MIB, extra=Extra(reserved=MIB)),
        Freed(0, Kind.DRAM, 0x2000000),
        Allocated(0, Kind.L1, 0x150000, 2 * MIB, extra=Extra(reserved=3 * MIB)),
        Allocated(0, Kind.L1_SMALL, 0x170000, 1024, extra=Extra(reserved=2048)),
        Allocated(0, Kind.HOST, 0x100, 4096),
        Allocated(0, Kind.CB, 0x20000, 110 * 2048, 1, 0, Extra(cores=GRID)),
        Allocated(0, Kind.CB, 0x20000, 110 * 4096, 2, 0, Extra(cores=GRID)),
        Allocated(0, Kind.DFB, 0x30000, 110 * 1024, 1, 0, Extra(cores=GRID)),
        Allocated(0, Kind.SCRATCHPAD, 0x40000, 110 * 16, 1, 0, Extra(cores=GRID)),
        Allocated(0, Kind.KERNEL, 1, 22 * 1024 * 110, 1),
        Allocated(0, Kind.FABRIC_KERNEL, 2, 917504),
        Allocated(0, Kind.DISPATCH_KERNEL, 3, 94208),
        Allocated(0, Kind.FIRMWARE, 0x10, 30000),
        ProgramRun(0, 1, GRID),
    )  # fmt: skip
    return account


def test_empty() -> None:
    snapshot = Account().snapshot()
    assert snapshot == {
        "schema": "ttmem.snapshot/1",
        "time": "2026-01-01T00:00:00.000Z",
        "host": "box",
        "server": None,
        "sources": [],
        "driver": None,
        "chips": [],
        "processes": [],
        "sums": None,
        "anomalies": anomalies(),
        "notes": [],
    }


def test_server_and_sources_are_passed_on() -> None:
    server = {"pid": 1, "since": "then", "events": 5, "version": "0", "clients": 2, "lost_to_readers": 0}
    sources = [{"name": "sysfs", "state": "ok", "detail": None}]
    snapshot = Account().snapshot(server=server, sources=sources)
    assert snapshot["server"] == server
    assert snapshot["sources"] == sources


def test_everything_known() -> None:
    (chip,) = busy().snapshot()["chips"]
    assert {key: chip[key] for key in ("chip", "pci", "kmd", "arch", "board", "remote", "identity")} == {
        "chip": "777",
        "pci": "0000:01:00.0",
        "kmd": 3,
        "arch": "blackhole",
        "board": "p150a",
        "remote": False,
        "identity": "known",
    }
    memory = chip["memory"]
    dram, l1 = memory["dram"], memory["l1"]
    assert (dram["used"], dram["reserved"], dram["peak"]) == (9 * MIB, 11 * MIB, 10 * MIB)
    assert (dram["capacity"], dram["capacity_basis"], dram["banks"]) == (8 * 4278190080, "live", 8)
    assert dram["trace"] == {"used": MIB, "reserved": 2 * MIB, "region": 8 * 4 * MIB}
    parts = {
        "buffers": 2 * MIB,
        "scratchpad": 110 * 16,
        "kernels": 22 * 1024 * 110,
        "firmware": 30000,
    }
    assert {key: l1[key] for key in parts} == parts
    region = 110 * 32768
    assert l1["small"] == {"used": 1024, "reserved": 2048, "region": region, "peak": 1024, "peak_at_most": None}
    assert l1["cb"] == {"held": 110 * 6144, "resident": 110 * 2048}
    assert l1["dfb"] == {"held": 110 * 1024, "resident": 110 * 1024}
    assert l1["used"] == sum(parts.values()) + 1024 + 110 * 6144 + 110 * 1024
    assert l1["peak"] == parts["buffers"] + 1024, "of what allocators give out"
    assert l1["reserved"] == 3 * MIB + 2048
    assert (l1["capacity"], l1["capacity_basis"], l1["banks"]) == (110 * 1572864, "live", 110)
    assert l1["ring"]["size"] == 70656
    assert memory["system"] == {"fabric_kernels": 917504, "dispatch_kernels": 94208}
    assert memory["host"] == {"used": 4096}
    assert memory["missing"] == []
    total = dram["used"] + l1["used"] + 917504 + 94208 + 4096
    assert memory["confidence"] == {"exact": total, "reported": 0, "estimated": 0}


def leaves(value: Any, path: str = "") -> dict[str, Any]:
    if isinstance(value, dict):
        return {k: v for key, item in value.items() for k, v in leaves(item, f"{path}.{key}").items()}
    return {path: value}


def test_a_chip_nobody_has_reported_on_is_unknown_not_empty() -> None:
    account = Account()
    account.apply(None, ChipFound(ChipInfo("0000:01:00.0", "0000:01:00.0", 0)))
    (chip,) = account.snapshot()["chips"]
    memory = chip["memory"]
    assert memory.pop("missing") == [kind.label for kind in KINDS]
    assert memory.pop("unseen") == []
    assert memory.pop("uncertain") == []
    assert memory.pop("confidence") == {"exact": 0, "reported": 0, "estimated": 0}
    assert memory["reporter"].pop("basis") == "MemoryReporter unavailable"
    assert {path: value for path, value in leaves(memory).items() if value is not None} == {}


def test_a_source_knows_only_its_kinds() -> None:
    """A legacy client cannot see dataflow buffers; their absence is not zero."""
    account = Account()
    account.apply(account.source(name="legacy"), Allocated(0, Kind.DRAM, 0x1000, 64))
    (chip,) = account.snapshot()["chips"]
    memory = chip["memory"]
    assert memory["missing"] == ["dfb", "scratchpad", "firmware"]
    assert memory["l1"]["dfb"] == {"held": None, "resident": None}
    assert memory["l1"]["scratchpad"] is None
    assert memory["l1"]["used"] == 0
    assert memory["l1"]["cb"] == {"held": 0, "resident": None}
    assert memory["dram"]["reserved"] is None
    assert memory["dram"]["capacity"] is None
    assert memory["confidence"] == {"exact": 0, "reported": 64, "estimated": 0}
    assert (chip["chip"], chip["identity"]) == ("assumed:0", "assumed")


def test_reserved_is_unknown_if_it_is_of_one_allocation() -> None:
    account = busy()
    account.apply(account.source(), Allocated(0, Kind.DRAM, 0x3000000, 64))
    (chip,) = account.snapshot()["chips"]
    assert chip["memory"]["dram"]["reserved"] is None
    assert chip["memory"]["dram"]["trace"]["reserved"] == 2 * MIB


def test_figures_from_the_table_say_so() -> None:
    account = Account()
    account.apply(None, ChipFound(ChipInfo("0000:01:00.0", kmd=0, arch=Arch.WORMHOLE_B0, board="n300")))
    memory = account.snapshot()["chips"][0]["memory"]
    assert (memory["l1"]["capacity"], memory["l1"]["capacity_basis"]) == (64 * 1499136, "table")
    assert (memory["dram"]["capacity"], memory["dram"]["capacity_basis"]) == (12 << 30, "table")
    assert memory["l1"]["small"]["region"] is None
    assert memory["dram"]["trace"]["region"] is None


def test_an_assumed_chip_stands_for_the_machines() -> None:
    account = Account()
    account.apply(None, *(ChipFound(ChipInfo(f"0000:0{n}:00.0", kmd=n, board="n150")) for n in (0, 1)))
    account.apply(account.source(name="legacy"), Allocated(1, Kind.DRAM, 0x1000, 64))
    chips = account.snapshot()["chips"]
    assert [(chip["chip"], chip["kmd"], chip["identity"]) for chip in chips] == [
        ("0000:00:00.0", 0, "known"),
        ("assumed:1", 1, "assumed"),
    ]


def test_processes() -> None:
    account = busy()
    foreign = account.ledger.source(11.0, ProcessInfo(0, connection=5), "legacy", Confidence.REPORTED)
    account.apply(foreign, Allocated(1, Kind.L1, 0x1000, 64), Freed(1, None, 0x9999))
    one, two = account.snapshot(user_of=lambda user_id: f"user{user_id}")["processes"]
    assert (one["pid"], one["start"], one["user_id"], one["user"], one["command"], one["state"]) == (
        42, 7, 1000, "user1000", "python model.py", "tracked",
    )  # fmt: skip
    (share,) = one["chips"]
    assert (share["chip"], share["metal_id"], share["dram"], share["peak_dram"]) == ("777", 0, 9 * MIB, 10 * MIB)
    assert sum(share["kinds"].values()) == share["dram"] + share["l1"] + share["host"] + share["system"]
    assert (two["pid"], two["start"], two["user_id"], two["user"]) == (None, None, None, None)
    assert two["anomalies"]["unknown_free"] == 1
    assert one["anomalies"]["unknown_free"] == 0


def test_an_exited_process_shows_what_it_held() -> None:
    account = busy()
    account.apply(account.source(), ProcessExited(), time=20.0)
    snapshot = account.snapshot()
    (process,) = snapshot["processes"]
    assert (process["state"], process["exited"]) == ("exited", 20.0)
    assert process["chips"][0]["dram"] == 9 * MIB
    memory = snapshot["chips"][0]["memory"]
    assert memory["dram"]["used"] == memory["l1"]["used"] == 0
    assert memory["dram"]["peak"] == 10 * MIB
    assert memory["confidence"] == {"exact": 0, "reported": 0, "estimated": 0}


@pytest.mark.parametrize("allowed", [True, False])
def test_command_lines_are_for_those_who_may_see_them(allowed: bool) -> None:
    asked = []

    def may_see(user_id: int | None) -> bool:
        asked.append(user_id)
        return allowed

    (process,) = busy().snapshot(may_see=may_see)["processes"]
    assert process["command"] == ("python model.py" if allowed else None)
    assert asked == [1000]


def test_peaks_name_the_largest() -> None:
    account = busy()
    account.apply(account.source(), Freed(0, Kind.DRAM, 0x1000))
    found = {peak.get("pool") or peak["kind"]: peak for peak in peaks(account.ledger) if "pool" in peak}
    assert set(found) == {"dram", "l1", "host", "system", "program"}
    assert found["dram"]["per_chip"] == 10 * MIB
    assert [allocation["size"] for allocation in found["dram"]["largest"]] == [8 * MIB, MIB, MIB]
    assert found["dram"]["chips"] == ["777"]


def test_a_moment_stays_what_it_was() -> None:
    """The snapshot is made later, after other events: its chips and processes must still add up."""
    account = busy()
    first, second = account.source(), account.source(43, "client", command="python other.py")
    account.apply(second, Allocated(0, Kind.DRAM, 0x1000, MIB), Failed(0, "no room", tag="ttnn.add"))
    moment, before = Moment(account.ledger), account.snapshot()
    elsewhere = ChipInfo("778", "0000:02:00.0", 4, Arch.BLACKHOLE, "p150a", False, BOARDS["p150"])
    for event in (
        Allocated(0, Kind.L1, 0x140000, MIB),
        Allocated(1, Kind.DRAM, 0x1000, MIB),
        Freed(0, Kind.DRAM, 0x1000),
        Freed(0, Kind.DRAM, 0x5555),
        Claimed(7),
        Failed(0, "no room either"),
        Sees(0, "blind"),
        Uncertain("replaced", 3),
        PeaksReset(),
        ProgramRun(0, 2, GRID),
        DeviceOpened(0, elsewhere),
        DeviceClosed(0),
        ProcessExited(),
    ):
        account.apply(first, event, time=20.0)
        later = account.snapshot()
        assert later != before, event
        assert moment.snapshot(time=before["time"], host="box") == before, event
    account.apply(second, ProcessExited())
    assert moment.snapshot(time=before["time"], host="box") == before
