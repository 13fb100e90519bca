# SPDX-License-Identifier: Apache-2.0
"""One snapshot from the account and the sample of the machine."""

from __future__ import annotations

import copy
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from tests.snapshots import KINDS, Account, counters, driver_chip, holder, machine, slot, unreadable
from tests.support import not_none
from ttmem.documents import unknown_rows as blank
from ttmem.documents.merge import _add_to_share, merge
from ttmem.model import schema
from ttmem.model.events import Allocated, ChipFound, DeviceOpened, Extra, ProcessExited, Sees
from ttmem.model.geometry import BOARDS, Arch
from ttmem.model.identity import ChipInfo, ProcessInfo
from ttmem.model.kinds import KINDS as ALL_KINDS
from ttmem.model.kinds import Confidence, Kind
from ttmem.model.machine_rows import MachineLook

MIB = 1 << 20
FIRST, SECOND = "0000:01:00.0", "0000:02:00.0"


def nothing() -> schema.Snapshot:
    return blank.snapshot("now", "box")


def by_chip(snapshot: schema.Snapshot) -> dict[str, schema.ChipRow]:
    rows = {chip["chip"]: chip for chip in snapshot["chips"]}
    assert len(rows) == len(snapshot["chips"]), "a chip has one row"
    return rows


def by_pid(snapshot: schema.Snapshot) -> dict[int | None, schema.ProcessRow]:
    return {process["pid"]: process for process in snapshot["processes"]}


def notes(snapshot: schema.Snapshot) -> list[str]:
    return [note["what"] for note in snapshot["notes"]]


def test_what_living_processes_use_of_the_host() -> None:
    account = Account()
    account.tracked(7, "77", dram=MIB)
    (tracked,) = account.snapshot()["processes"]
    assert (tracked["cpu_percent"], tracked["rss"]) == (None, None)
    look = machine(driver_chip(0), processes=[holder(8, 0)])
    start = not_none(tracked["start"])
    look["usage"] = {
        7: {"start": start, "cpu_percent": 104.5, "rss": 3 * MIB},
        8: {"start": not_none(look["processes"][0]["start"]), "cpu_percent": None, "rss": 5 * MIB},
        9: {"start": 1, "cpu_percent": 1.0, "rss": MIB},
    }
    found = by_pid(merge(account.snapshot(), look))
    assert {pid: (row["cpu_percent"], row["rss"]) for pid, row in found.items()} == {
        7: (104.5, 3 * MIB), 8: (None, 5 * MIB),
    }  # fmt: skip
    look["usage"][7]["start"] = start + 1
    assert by_pid(merge(account.snapshot(), look))[7]["rss"] is None, "that is another process"


# -- chips


def test_a_machine_that_shows_nothing_changes_nothing() -> None:
    account = Account()
    account.tracked(7, "77", dram=MIB)
    snapshot = account.snapshot()
    before = copy.deepcopy(snapshot)
    merged = merge(snapshot, machine())
    (chip,) = before["chips"]
    assert merged == {
        **before,
        "driver": {"version": "2.10.0", "loaded": False},
        "sources": machine()["sources"],
        "chips": [{**chip, "held": True}],
        "sums": merged["sums"],
    }
    assert snapshot == before


def test_without_a_server_chips_come_from_the_driver() -> None:
    merged = merge(nothing(), machine(driver_chip(1, "p150a", arch="blackhole"), driver_chip(0)))
    first, second = merged["chips"]
    assert (first["chip"], first["kmd"], first["pci"], first["board"], first["remote"]) == (
        FIRST,
        0,
        FIRST,
        "n150",
        False,
    )
    assert not_none(first["telemetry"])["temperature_c"] == 51.0
    assert first["memory"]["dram"]["used"] is None, "nobody has said what is in use"
    assert second["memory"]["dram"]["capacity"] == BOARDS["p150"].dram_capacity
    assert second["memory"]["l1"]["capacity_basis"] == "table"
    assert (second["serial"], second["firmware"]) == ("000000000000AB01", {"bundle": "18.10.0.0"})


def test_the_servers_chip_of_the_driver_is_the_drivers_chip() -> None:
    account = Account()
    account.apply(None, ChipFound(ChipInfo(FIRST, FIRST, 0, Arch.WORMHOLE_B0, "n150", False)))
    merged = merge(account.snapshot(), machine(driver_chip(0)))
    (chip,) = merged["chips"]
    assert not_none(chip["telemetry"])["aiclk_mhz"] == 1000


def test_a_chip_with_a_unique_id_and_its_place_are_one_row() -> None:
    account = Account()
    account.apply(None, ChipFound(ChipInfo(FIRST, FIRST, 0, Arch.WORMHOLE_B0, "n150", False)))
    account.tracked(7, "77", dram=MIB)
    merged = merge(account.snapshot(), machine(driver_chip(0), processes=[holder(7, 0)]))
    (chip,) = merged["chips"]
    assert (chip["chip"], chip["unique_id"], chip["pci"], chip["kmd"]) == ("77", "77", FIRST, 0)
    assert chip["joined_by"] == "holder"
    assert chip["memory"]["dram"]["used"] == MIB
    assert not_none(chip["telemetry"])["power_w"] == 18.0
    assert by_pid(merged)[7]["holds"] == ["77"]


def test_the_join_is_remembered_when_the_process_has_ended() -> None:
    account = Account()
    account.tracked(7, "77", dram=MIB)
    before: Any = {}
    merge(account.snapshot(), machine(driver_chip(0), processes=[holder(7, 0)]), before=before)
    merged = merge(account.snapshot(), machine(driver_chip(0)), before=before)
    assert [chip["pci"] for chip in merged["chips"]] == [FIRST]
    assert [chip["pci"] for chip in merge(account.snapshot(), machine(driver_chip(0)))["chips"]] == [FIRST, None]


def test_a_remote_chip_is_listed_beside_its_local_one() -> None:
    account = Account()
    account.tracked(7, "77", device=0, dram=MIB)
    account.tracked(7, "78", device=1, dram=2 * MIB, remote=True)
    merged = merge(account.snapshot(), machine(driver_chip(0, "n300"), processes=[holder(7, 0)]))
    local, remote = merged["chips"]
    assert (local["chip"], local["pci"], local["joined_by"]) == ("77", FIRST, "holder")
    assert (remote["chip"], remote["pci"], remote["kmd"], remote["telemetry"]) == ("78", None, None, None)
    assert remote["remote"] is True


def test_remote_chips_that_tt_umd_has_found() -> None:
    far = {**driver_chip(0, pci=None), "kmd": None, "unique_id": "78", "remote": True}
    merged = merge(nothing(), machine(driver_chip(0), far, {**far, "unique_id": "79"}))
    assert [(row["chip"], row["kmd"], row["remote"]) for row in merged["chips"]] == [
        (FIRST, 0, False),
        ("78", None, True),
        ("79", None, True),
    ]
    account = Account()
    account.tracked(7, "78", device=1, dram=MIB, remote=True)
    account.tracked(7, "55", device=2)
    rows = by_chip(merge(account.snapshot(), machine(driver_chip(0), far)))
    assert set(rows) == {FIRST, "55", "78"}
    assert rows["55"]["telemetry"] is None
    assert (not_none(rows["78"]["telemetry"])["power_w"], rows["78"]["memory"]["dram"]["used"]) == (18.0, MIB)


def test_only_a_device_number_stands_for_the_chip_of_that_number() -> None:
    account = Account()
    account.apply(None, ChipFound(ChipInfo(FIRST, FIRST, 0, Arch.WORMHOLE_B0, "n150", False)))
    account.apply(account.source(7, "legacy"), Allocated(0, Kind.DRAM, 1, MIB))
    (chip,) = merge(account.snapshot(), machine(driver_chip(0)))["chips"]
    assert (chip["chip"], chip["identity"], chip["kmd"]) == ("assumed:0", "assumed", 0)
    assert chip["telemetry"] is not None


def test_a_chip_that_nobody_holds_is_idle() -> None:
    look = machine(driver_chip(0), driver_chip(1), driver_chip(2), processes=[holder(9, 0)], foreign={1: 1})
    assert [chip["held"] for chip in merge(nothing(), look)["chips"]] == [True, True, False]
    look["sources"][1]["state"] = "incomplete"
    assert [chip["held"] for chip in merge(nothing(), look)["chips"]] == [True, True, None]


# -- tt-metal's counters


def test_without_a_server_the_counters_of_living_processes_are_the_use() -> None:
    file = counters(
        77, slot(7, 3 * MIB, 2 * MIB, 1000, 500, 4000), slot(8, 9 * MIB, state="dead", name="old"), metal_id=0
    )
    merged = merge(nothing(), machine(driver_chip(0), processes=[holder(7, 0)], shm=[file]))
    (chip,) = merged["chips"]
    memory = chip["memory"]
    assert (chip["chip"], chip["unique_id"], chip["joined_by"]) == (FIRST, "77", "holder")
    assert memory["dram"]["used"] == 3 * MIB + 500
    assert memory["dram"]["trace"]["used"] == 500
    assert memory["l1"]["used"] == memory["l1"]["at_once"] == 2 * MIB + 5000
    assert (memory["l1"]["buffers"], memory["l1"]["small"]["used"]) == (2 * MIB, 1000)
    assert memory["l1"]["cb"] == {"held": 4000, "resident": None}
    assert memory["dram"]["reserved"] is None
    assert memory["dram"]["peak"] is None
    assert memory["confidence"] == {"exact": 0, "reported": 5 * MIB + 5500, "estimated": 0}
    assert memory["missing"] == [kind.label for kind in ALL_KINDS if kind.label not in KINDS]
    assert memory["unseen"] == [{"pid": 7, "missing": memory["missing"]}]
    living, dead = by_pid(merged)[7], by_pid(merged)[8]
    assert (living["state"], living["chips"][0]["dram"], living["chips"][0]["source"]) == (
        "untracked",
        3 * MIB + 500,
        "shm",
    )
    assert living["chips"][0]["metal_id"] == 0
    assert (dead["state"], dead["name"]) == ("stale", "old")
    assert dead["chips"][0]["dram"] is None, "it is not in use"
    assert not_none(dead["chips"][0]["shm"])["dram"] == 9 * MIB
    assert not_none(not_none(chip["shm"])["stale"])["dram"] == 9 * MIB
    assert notes(merged) == ["shm-stale"]


def left(chip_id: int, pid: int, size: int = MIB, **more: Any) -> Any:
    """Counters that contain only bytes of dead processes."""
    return counters(chip_id, {**slot(pid, size, size, state="dead"), **more})


def test_counters_of_the_dead_alone_make_no_rows() -> None:
    """A machine on which many jobs were killed, or many mock chips were used."""
    files = [left(1000 + number, number) for number in range(1, 112)]
    for account in (nothing(), Account().snapshot()):
        merged = merge(account, machine(driver_chip(0), shm=files))
        assert [chip["kmd"] for chip in merged["chips"]] == [0]
        assert merged["processes"] == []
        (note,) = merged["notes"]
        assert (note["what"], note["chip"], note["pid"]) == ("shm-stale", None, None)
        assert note["text"] == (
            "111 counter files of tt-metal belong to processes that are gone, on chips that are not known otherwise: "
            "111.0 MiB of DRAM, 111.0 MiB of L1, not in use. When no job runs, delete with "
            "`rm /dev/shm/tt_device_*_memory`"
        )


def test_one_such_file_is_named() -> None:
    (note,) = merge(nothing(), machine(shm=[left(77, 7)]))["notes"]
    assert note["text"].startswith("1 counter file of tt-metal belongs to processes that are gone, on a chip that is ")
    assert note["text"].endswith("When no job runs, delete with `rm /dev/shm/tt_device_77_memory`")


def test_nobody_is_told_to_remove_what_may_be_in_use() -> None:
    """From inside a container, its owner is not visible."""
    files = [left(77, 7), left(78, 8, unsure=True)]
    merged = merge(nothing(), machine(shm=files))
    assert (merged["chips"], merged["processes"]) == ([], [])
    (note,) = merged["notes"]
    assert "to processes that are gone or not visible from here, on chips" in note["text"]
    assert note["text"].endswith("2.0 MiB of L1, not counted")
    assert "rm " not in note["text"]


def test_a_chip_that_a_living_process_uses_keeps_the_dead_beside_it() -> None:
    files = [counters(77, slot(7, MIB), slot(9, 5, state="dead")), left(78, 8)]
    merged = merge(nothing(), machine(shm=files))
    assert [chip["chip"] for chip in merged["chips"]] == ["77"]
    assert {pid: row["state"] for pid, row in by_pid(merged).items()} == {7: "untracked", 9: "stale"}
    assert notes(merged) == ["shm-stale", "shm-stale"]


def test_a_tracked_process_is_believed_and_an_untracked_one_added() -> None:
    account = Account()
    account.tracked(7, "77", dram=4 * MIB)
    file = counters(77, slot(7, 3 * MIB, 0, 0, 0, 700), slot(8, MIB))
    merged = merge(account.snapshot(), machine(driver_chip(0), processes=[holder(8, 0)], shm=[file]))
    chip = by_chip(merged)["77"]
    assert chip["memory"]["dram"]["used"] == 5 * MIB
    assert chip["memory"]["confidence"] == {"exact": 4 * MIB, "reported": MIB, "estimated": 0}
    assert chip["memory"]["dram"]["peak"] is None, "of both together it is not known"
    mine, other = by_pid(merged)[7], by_pid(merged)[8]
    assert (mine["state"], mine["chips"][0]["dram"], not_none(mine["chips"][0]["shm"])["dram"]) == (
        "tracked",
        4 * MIB,
        3 * MIB,
    )
    assert (other["state"], other["chips"][0]["dram"]) == ("untracked", MIB)
    assert "shm-differs" not in notes(merged), "it may be a matter of a moment"


def test_the_number_in_a_file_is_that_of_the_last_to_attach() -> None:
    for slots, number in (
        ([slot(7, 1)], 3),
        ([slot(7, 1), slot(8, 1)], None),
        ([slot(7, 1), slot(8, 1, state="dead")], 3),
    ):
        merged = merge(nothing(), machine(shm=[counters(77, *slots, metal_id=3)]))
        assert by_pid(merged)[7]["chips"][0]["metal_id"] == number


def test_a_lasting_difference_is_said() -> None:
    account = Account()
    account.tracked(7, "77", dram=4 * MIB)
    look = machine(driver_chip(0), shm=[counters(77, slot(7, 3 * MIB))])
    merged = merge(account.snapshot(), look, differing={(7, "77"): {"dram": (4 * MIB, 3 * MIB)}})
    (note,) = [note for note in merged["notes"] if note["what"] == "shm-differs"]
    assert (note["pid"], note["chip"]) == (7, "77")
    assert "3.0 MiB" in note["text"]
    assert "4.0 MiB" in note["text"]


def test_what_a_weak_source_cannot_see_is_taken_from_the_counters() -> None:
    account = Account()
    source = account.source(7, "l1_tracker")
    account.apply(source, Allocated(0, Kind.CB, 1, 4096, 5))
    file = counters(0, slot(7, MIB, 0, 0, 0, 9999), metal_id=0)
    (chip,) = merge(account.snapshot(), machine(shm=[file]))["chips"]
    assert chip["chip"] == "assumed:0", "the file has no unique id in its name, only the device's number"
    assert chip["memory"]["dram"]["used"] == MIB
    assert chip["memory"]["l1"]["cb"]["held"] == 4096, "tracked"


def test_a_process_that_the_server_saw_die_is_not_listed_twice() -> None:
    account = Account()
    account.tracked(7, "77", dram=MIB)
    source = account.source(7)
    account.apply(source, ProcessExited())
    merged = merge(account.snapshot(), machine(shm=[counters(77, slot(7, MIB, state="dead"))]))
    (process,) = merged["processes"]
    assert (process["state"], not_none(process["chips"][0]["shm"])["dram"]) == ("exited", MIB)
    assert by_chip(merged)["77"]["memory"]["dram"]["used"] == 0


def test_an_idle_file_makes_no_chip() -> None:
    assert merge(nothing(), machine(shm=[counters(77)]))["chips"] == []
    lost = merge(nothing(), machine(shm=[counters(77, lost=5)]))
    assert lost["chips"] == []
    assert "processes that are gone or found no slot, on a chip" in lost["notes"][0]["text"]
    assert "5 B of DRAM, not counted. When no job runs, delete with `rm " in lost["notes"][0]["text"]
    assert [c["chip"] for c in merge(nothing(), machine(shm=[counters(77, slot(7))]))["chips"]] == ["77"]


def test_the_remote_chip_of_an_n300_that_only_its_counters_tell_of() -> None:
    files = [counters(78, slot(7, MIB), metal_id=1), counters(77, slot(7, MIB), metal_id=0)]
    merged = merge(nothing(), machine(driver_chip(0, "n300"), processes=[holder(7, 0)], shm=files))
    local, remote = merged["chips"]
    assert (local["unique_id"], local["joined_by"], local["remote"]) == ("77", "order", False)
    assert (remote["chip"], remote["board"], remote["remote"]) == ("78", "n300", True)
    assert remote["memory"]["dram"]["capacity"] == BOARDS["n300"].dram_capacity
    assert remote["telemetry"] is None


def test_two_processes_that_hold_the_same_chips_number_them_alike() -> None:
    files = [counters(77 + number, slot(7, MIB), slot(8, MIB), metal_id=number) for number in range(2)]
    chips = driver_chip(0, "n300"), driver_chip(1, "n300")
    merged = merge(nothing(), machine(chips[0], processes=[holder(7, 0), holder(8, 0)], shm=files))
    assert [(row["unique_id"], row["joined_by"]) for row in merged["chips"]] == [("77", "order"), ("78", None)]
    assert notes(merged) == []
    for other in (holder(8, 1), holder(9, 0)):  # the pid may be that of the other process
        merged = merge(nothing(), machine(*chips, processes=[holder(7, 0), other], shm=files))
        assert {row["joined_by"] for row in merged["chips"]} == {None}


def test_what_is_counted_on_a_chip_without_a_place_is_not_called_unreported() -> None:
    files = [counters(77 + number, slot(7, MIB), slot(8, MIB), metal_id=number) for number in range(2)]
    chips = driver_chip(0, "n300"), driver_chip(1, "n300")
    look = machine(*chips, processes=[holder(7, 0), holder(9, 1)], shm=files)
    texts = [note["text"] for note in merge(nothing(), look)["notes"]]
    assert texts == [
        "pid 7 holds chip 0 open; whether that is chip 77, chip 78, on which it is counted, is not known",
        "pid 9 holds chip 1 open, and no source reports its memory there",
    ]


def test_a_file_of_somebody_else_is_unreadable_not_absent() -> None:
    merged = merge(nothing(), machine(driver_chip(0, asic_id=f"{77:X}"), shm=[unreadable(77)]))
    (chip,) = merged["chips"]
    assert (not_none(chip["shm"])["state"], chip["memory"]["dram"]["used"]) == ("unreadable", None)
    assert notes(merged) == ["shm-unreadable"]


def test_bytes_of_counters_have_no_peak() -> None:
    account = Account()
    account.tracked(7, "77", l1=MIB)
    snapshot = account.snapshot()
    share = snapshot["processes"][0]["chips"][0]
    share["peak_dram_at_most"] = share["peak_l1_at_most"] = 5 * MIB
    for kind in ("dram", "l1"):
        _add_to_share(share, kind, MIB)
    assert (share["peak_dram"], share["peak_dram_at_most"]) == (None, None)
    assert (share["peak_l1"], share["peak_l1_at_most"]) == (None, None)


# -- processes


def test_who_holds_a_chip_and_says_nothing() -> None:
    merged = merge(nothing(), machine(driver_chip(0), driver_chip(1), processes=[holder(9, 0, 1)], foreign={1: 2}))
    rows = merged["processes"]
    assert [(row["pid"], row["state"], row["holds"]) for row in rows] == [
        (9, "untracked", [FIRST, SECOND]),
        (None, "untracked", [SECOND]),
    ]
    assert (rows[0]["user"], rows[0]["command"], rows[0]["chips"]) == ("ann", "python model.py", [])
    first, second = merged["chips"]
    assert first["memory"]["unseen"] == [{"pid": 9, "missing": list(blank.KINDS)}]
    assert [one["pid"] for one in second["memory"]["unseen"]] == [9, None]
    assert notes(merged) == ["untracked"] * 2


def test_a_reused_pid_is_another_process() -> None:
    account = Account()
    account.tracked(7, "77", dram=MIB)
    merged = merge(account.snapshot(), machine(driver_chip(0), processes=[holder(7, 0, start=999)]))
    assert [(row["start"], row["state"]) for row in merged["processes"]] == [(100, "tracked"), (999, "untracked")]


def test_who_reports_from_outside_our_pid_namespace_is_who_holds_the_chip_there() -> None:
    account = Account()
    source = account.ledger.source(0.0, ProcessInfo(0, None, 1000, connection=3), "agent", Confidence.EXACT)
    account.apply(source, DeviceOpened(0, ChipInfo("77")), Allocated(0, Kind.DRAM, 1, MIB))
    chips = driver_chip(0, asic_id=f"{77:016X}"), driver_chip(1)
    merged = merge(account.snapshot(), machine(*chips, foreign={0: 2, 1: 1}))
    assert [(row["state"], row["holds"]) for row in merged["processes"]] == [
        ("tracked", ["77"]), ("untracked", [SECOND]),
    ]  # fmt: skip
    assert [note["chip"] for note in merged["notes"] if note["what"] == "untracked"] == [SECOND]


def test_counters_of_who_cannot_be_seen_are_not_called_left_over() -> None:
    """From inside a container, processes outside are not visible, but the file may be shared."""
    unsure = {**slot(8, MIB, state="dead"), "unsure": True}
    (note,) = merge(nothing(), machine(shm=[counters(77, unsure)]))["notes"]
    assert "not visible" in note["text"]
    assert "rm " not in note["text"]


def test_counters_with_no_slot_left_are_not_called_left_over() -> None:
    """One more process is only in the totals, and alive."""
    full = counters(77, *(slot(pid, MIB) for pid in range(100, 164)))
    full["why"] = "all 64 slots are taken: further processes are counted only in the totals"
    merged = merge(nothing(), machine(shm=[full]))
    assert notes(merged) == ["shm-doubt"]
    full["stale"]["dram"], full["slots"][0] = MIB, slot(100, MIB, state="dead")
    assert notes(merge(nothing(), machine(shm=[full]))) == ["shm-stale", "shm-doubt"]


def test_a_total_beyond_all_slots_need_not_be_of_the_dead() -> None:
    (note,) = merge(nothing(), machine(shm=[counters(77, slot(7, MIB), lost=MIB)]))["notes"]
    assert "of processes that are gone, or that have no slot in them: not counted" in note["text"]


def test_a_process_that_has_nothing_of_a_kind_leaves_the_rest_known() -> None:
    account = Account()
    account.tracked(7, "77")
    account.apply(
        account.source(7),
        Allocated(0, Kind.L1, 0x100000, 2 * MIB, extra=Extra(4 * MIB)),
        Allocated(0, Kind.DRAM, 0x100000, 2 * MIB, extra=Extra(4 * MIB)),
    )
    look = machine(driver_chip(0), shm=[counters(77, slot(8, MIB))])
    memory = by_chip(merge(account.snapshot(), look))["77"]["memory"]
    assert (memory["dram"]["used"], memory["dram"]["reserved"]) == (3 * MIB, None), "of the other MiB it is not known"
    assert (memory["l1"]["used"], memory["l1"]["reserved"], memory["l1"]["at_once"]) == (2 * MIB, 4 * MIB, 4 * MIB)
    look = machine(driver_chip(0), shm=[counters(77, slot(8, 0, MIB))])
    memory = by_chip(merge(account.snapshot(), look))["77"]["memory"]
    assert (memory["l1"]["reserved"], memory["l1"]["at_once"]) == (None, 5 * MIB)
    assert (memory["l1"]["at_once_parts"]["l1"], memory["l1"]["buffers"]) == (5 * MIB, 3 * MIB)


def test_command_lines_are_for_those_who_may_see_them() -> None:
    look = machine(driver_chip(0), processes=[holder(9, 0, user_id=5)])
    (row,) = merge(nothing(), look, may_see=lambda user_id: user_id != 5)["processes"]
    assert (row["name"], row["command"]) == ("python", None)


def test_who_died_since_the_machine_was_looked_at_uses_nothing() -> None:
    """The account is current; the last sample of the machine is up to a second old."""
    account = Account()
    account.tracked(7, "77", dram=MIB)
    look = machine(driver_chip(0), processes=[holder(7, 0)], shm=[counters(77, slot(7, MIB))])
    before: Any = {}
    merge(account.snapshot(), look, before=before)
    account.apply(account.source(7), ProcessExited())
    merged = merge(account.snapshot(), look, before=before)
    (process,) = merged["processes"]
    assert (process["state"], process["holds"], not_none(process["chips"][0]["shm"])["dram"]) == ("exited", [], MIB)
    assert by_chip(merged)["77"]["memory"]["dram"]["used"] == 0
    (again,) = [p for p in merge(account.snapshot(), machine(driver_chip(0), processes=[holder(7, 0, start=101)]))[
        "processes"] if p["state"] == "untracked"]  # fmt: skip
    assert again["start"] == 101, "another process of that number"


def test_a_slot_that_several_share_is_not_counted_beside_what_one_of_them_reports() -> None:
    """In two containers each has pid 17: tt-metal has one slot for both."""
    shared = {**slot(17, 5 * MIB), "process": None, "start": None, "user_id": None, "shared": [7, 8]}
    account = Account()
    look = machine(driver_chip(0), processes=[holder(7, 0), holder(8, 0)], shm=[counters(77, shared)])
    (chip,) = [c for c in merge(account.snapshot(), look)["chips"] if c["memory"]["dram"]["used"] is not None]
    assert chip["memory"]["dram"]["used"] == 5 * MIB, "nobody reports: it is all that is known"
    account.tracked(7, "77", dram=4 * MIB)
    merged = merge(account.snapshot(), look)
    assert by_chip(merged)["77"]["memory"]["dram"]["used"] == 4 * MIB
    assert {"pid": 8, "missing": list(blank.KINDS)} in by_chip(merged)["77"]["memory"]["unseen"]


def test_two_slots_that_several_share() -> None:
    one, two = ({**slot(n, MIB), "process": None, "start": None, "shared": [n + 100, n + 200]} for n in (1, 2))
    merged = merge(nothing(), machine(shm=[counters(77, one, two)]))
    assert [share["kinds"]["dram"] for p in merged["processes"] for share in p["chips"]] == [MIB, MIB]
    assert by_chip(merged)["77"]["memory"]["dram"]["used"] == 2 * MIB


def test_numbers_that_the_driver_deals_out_anew() -> None:
    """After a reset, the chips may be in a different order; the account has the numbers of its start."""
    account = Account()
    for kmd, place in enumerate((FIRST, SECOND)):
        account.apply(None, ChipFound(ChipInfo(place, place, kmd, Arch.WORMHOLE_B0, "n150", False)))
    hot, cold = driver_chip(0, pci=SECOND), driver_chip(1, pci=FIRST)
    hot["telemetry"]["temperature_c"] = 70.0
    merged = merge(account.snapshot(), machine(hot, cold, processes=[holder(9, 0)]))
    rows = by_chip(merged)
    assert {chip_id: row["kmd"] for chip_id, row in rows.items()} == {FIRST: 1, SECOND: 0}
    assert not_none(rows[SECOND]["telemetry"])["temperature_c"] == 70.0
    assert by_pid(merged)[9]["holds"] == [SECOND]


def test_a_chip_that_is_gone_has_not_the_telemetry_of_who_has_its_number_now() -> None:
    account = Account()
    account.apply(None, ChipFound(ChipInfo(FIRST, FIRST, 0, Arch.WORMHOLE_B0, "n150", False)))
    rows = by_chip(merge(account.snapshot(), machine(driver_chip(0, pci=SECOND))))
    assert (rows[FIRST]["telemetry"], rows[FIRST]["kmd"]) == (None, None)
    assert (not_none(rows[SECOND]["telemetry"])["power_w"], rows[SECOND]["kmd"]) == (18.0, 0)


def test_a_chip_that_never_said_its_address_goes_by_its_number() -> None:
    account = Account()
    account.apply(None, ChipFound(ChipInfo(FIRST, FIRST, 0, Arch.WORMHOLE_B0, "n150", False)))
    (row,) = merge(account.snapshot(), machine(driver_chip(0, pci=None)))["chips"]
    assert (row["chip"], not_none(row["telemetry"])["power_w"]) == (FIRST, 18.0)


def test_a_holder_of_the_same_number_is_another_process() -> None:
    account = Account()
    account.tracked(7, "77", dram=MIB)
    rows = by_chip(merge(account.snapshot(), machine(driver_chip(0), processes=[holder(7, 0, start=999)])))
    assert (rows["77"]["pci"], rows[FIRST]["unique_id"]) == (None, None)


def test_who_is_closing_its_chips_shows_nothing() -> None:
    account = Account()
    account.tracked(7, "77", dram=MIB)
    leaving = {**holder(7, 1), "settled": False}
    rows = by_chip(merge(account.snapshot(), machine(driver_chip(0), driver_chip(1), processes=[leaving])))
    assert rows["77"]["joined_by"] is None


def test_a_chip_with_two_names_and_a_file_of_each() -> None:
    """Its unique id is different before its Ethernet links are trained."""
    chip = driver_chip(0, asic_id=f"{77:016X}", serial=f"{78:016X}")
    for files in ([counters(77, slot(7, MIB)), counters(78, slot(7, 1))], [counters(77, slot(7, MIB)), counters(78)]):
        merged = merge(nothing(), machine(chip, shm=files))
        (row,) = merged["chips"]
        (share,) = by_pid(merged)[7]["chips"]
        total = sum(file["live"]["dram"] for file in files)
        assert (row["memory"]["dram"]["used"], share["dram"], share["kinds"]["dram"]) == (total, total, total)
    assert not_none(not_none(row["shm"])["live"])["dram"] == MIB, "not that of the file that nobody writes"


def test_what_a_source_reports_beyond_its_word_is_not_counted_twice() -> None:
    account = Account()
    account.apply(account.source(7, "l1_tracker"), Allocated(0, Kind.DRAM, 1, MIB))
    (chip,) = merge(account.snapshot(), machine(shm=[counters(0, slot(7, MIB), metal_id=0)]))["chips"]
    assert chip["memory"]["dram"]["used"] == MIB


def test_a_source_in_trouble_leaves_to_the_counters_what_it_cannot_see() -> None:
    account = Account()
    account.tracked(7, "77", dram=MIB)
    account.apply(account.source(7), Sees(1 << Kind.DRAM, "no hook for circular buffers"))
    account.ledger.chips["77"].covered = frozenset({Kind.DRAM})
    chip = by_chip(merge(account.snapshot(), machine(shm=[counters(77, slot(7, 5, 6, 0, 0, 4096))])))["77"]
    assert (chip["memory"]["dram"]["used"], chip["memory"]["l1"]["cb"]["held"]) == (MIB, 4096)


# -- laws

sizes = st.tuples(*[st.integers(0, 1 << 40)] * 5)
pids = st.integers(2, 9)


@st.composite
def worlds(draw: st.DrawFn) -> tuple[Account, MachineLook]:
    account = Account()
    chip_ids = ["70", "71", "72"]
    for pid in draw(st.sets(pids, max_size=4)):
        for number, chip_id in enumerate(
            draw(st.lists(st.sampled_from(chip_ids), unique=True, min_size=1, max_size=3))
        ):
            account.tracked(pid, chip_id, device=number, dram=draw(st.integers(0, MIB)), l1=draw(st.integers(0, MIB)))
    chips = [driver_chip(kmd) for kmd in range(draw(st.integers(0, 3)))]
    holders = [holder(pid, *draw(st.sets(st.integers(0, 2), min_size=1))) for pid in draw(st.sets(pids, max_size=4))]
    files = []
    for chip_id in draw(st.sets(st.sampled_from([*chip_ids, "0", "73"]))):
        states = st.sampled_from(["live", "live", "dead", "reused", "garbage"])
        slots = [slot(pid, *draw(sizes), state=draw(states)) for pid in draw(st.sets(pids, max_size=4))]
        slots += [
            {**slot(17, *draw(sizes)), "process": None, "start": None, "shared": sorted(sharers)}
            for sharers in draw(st.lists(st.sets(pids, min_size=2, max_size=3), max_size=2))
        ]
        files.append(counters(chip_id, *slots, metal_id=draw(st.integers(0, 3))))
    for pid in draw(st.sets(pids, max_size=2)):
        source = account.source(pid, draw(st.sampled_from(["legacy", "l1_tracker", "client"])))
        account.apply(
            source, Allocated(draw(st.integers(0, 2)), draw(st.sampled_from([Kind.DRAM, Kind.CB])), 1, MIB, 5)
        )
    for pid in draw(st.sets(pids, max_size=2)):
        if any(process.info.pid == pid for process in account.ledger.processes.values()):
            account.apply(account.source(pid), ProcessExited())
    return account, machine(*chips, processes=holders, shm=files, foreign=draw(st.sampled_from([{}, {0: 1}])))


@given(worlds())
def test_laws(world: tuple[Account, MachineLook]) -> None:
    account, look = world
    snapshot = account.snapshot()
    before = copy.deepcopy((snapshot, look))
    merged = merge(snapshot, look)
    assert (snapshot, look) == before, "it changes nothing it is given"
    rows = by_chip(merged)
    assert {row["kmd"] for row in merged["chips"] if row["kmd"] is not None} == {c["kmd"] for c in look["chips"]}
    for process in snapshot["processes"]:
        gone = {share["chip"] for share in process["chips"]} - set(rows)
        assert not gone or process["state"] == "exited"
        assert all(chip_id.startswith("assumed:") for chip_id in gone)
    for chip_id, row in rows.items():
        shares = [
            share
            for process in merged["processes"]
            if process["state"] in ("tracked", "untracked")
            for share in process["chips"]
            if share["chip"] == chip_id
        ]
        for pool in ("dram", "l1"):
            assert (row["memory"][pool]["used"] or 0) == sum(share[pool] or 0 for share in shares)
        assert sum(cast(dict[str, int], row["memory"]["confidence"]).values()) == sum(
            sum(share["kinds"].values()) for share in shares
        )
