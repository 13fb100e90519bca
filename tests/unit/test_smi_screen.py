# SPDX-License-Identifier: Apache-2.0
"""The screen of a plain snapshot, character by character."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests import snapshots
from ttmem.account.entities import Source
from ttmem.account.ledger import Ledger
from ttmem.documents import unknown_rows as blank
from ttmem.documents.merge import merge
from ttmem.documents.snapshot import take_snapshot
from ttmem.model.core_sets import CoreRange, mask_of
from ttmem.model.events import (
    Allocated,
    ChipFound,
    DeviceOpened,
    Event,
    Extra,
    Freed,
    ProcessExited,
    ProgramRun,
    Sees,
    Viewed,
)
from ttmem.model.geometry import BOARDS, Arch
from ttmem.model.identity import ChipInfo, ProcessInfo
from ttmem.model.kinds import Confidence, Kind
from ttmem.model.schema import ServerRow
from ttmem.show.smi_screen import render
from ttmem.show.text import Style

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
GRID = mask_of([CoreRange(0, 0, 10, 9)])
SERVER: ServerRow = {
    "pid": 99, "since": "then", "events": 12345678, "version": "1.2.3", "clients": 1, "lost_to_readers": 0,
}  # fmt: skip


class Account:
    def __init__(self) -> None:
        self.ledger = Ledger()

    def process(self, pid: int, source: str = "agent", **info: Any) -> Source:
        confidence = Confidence.EXACT if source == "agent" else Confidence.REPORTED
        return self.ledger.source(0.0, ProcessInfo(pid, 1, **info), source, confidence)

    def apply(self, source: Source | None, *events: Event, time: float = 0.0) -> None:
        for event in events:
            self.ledger.apply(time, source, event)

    def text(self, server: Any = SERVER, style: Style | None = None, numbers: Any = None, **keywords: Any) -> str:
        snapshot: Any = take_snapshot(
            self.ledger, time="2026-01-02T03:04:05.678Z", host="box", server=server, **keywords
        )
        return render(snapshot, style, numbers=numbers)


def opened(board: str, chip_id: str, device: int = 0) -> DeviceOpened:
    geometry = BOARDS[board]._replace(live=True)
    return DeviceOpened(device, ChipInfo(chip_id, kmd=0, arch=geometry.arch, board=board, geometry=geometry))


def machine() -> Account:
    account = Account()
    account.apply(
        None,
        ChipFound(ChipInfo("0000:41:00.0", "0000:41:00.0", 1, Arch.WORMHOLE_B0, "n300", False)),
        ChipFound(ChipInfo("0000:c1:00.0", "0000:c1:00.0", 2)),
    )
    model = account.process(4242, user_id=1000, name="python3")
    account.apply(
        model,
        opened("p150", "17716556166399396846"),
        Allocated(0, Kind.DRAM, 0x1000, 24 * GIB),
        Allocated(0, Kind.TRACE, 0xF0000000, 40 * MIB),
        Allocated(0, Kind.L1, 0x150000, 8 * MIB),
        Allocated(0, Kind.L1, 0x130000, 4 * MIB),
        Freed(0, Kind.L1, 0x130000),
        Allocated(0, Kind.L1_SMALL, 0x170000, 32 * KIB),
        Allocated(0, Kind.CB, 0x20000, 55 * MIB, 1, 0, Extra(cores=GRID)),
        Allocated(0, Kind.KERNEL, 1, 22 * KIB * 110, 1),
        Allocated(0, Kind.FABRIC_KERNEL, 2, 917504),
        Allocated(0, Kind.DISPATCH_KERNEL, 3, 94208),
        Allocated(0, Kind.HOST, 0x100, 4096),
        ProgramRun(0, 1, GRID),
    )
    old = account.process(17, "legacy")
    account.apply(old, Allocated(5, Kind.DRAM, 0x1000, 3 * MIB), Freed(5, None, 0x9999))
    dead = account.process(23, user_id=0, name="a name that is too long")
    account.apply(dead, opened("p150", "17716556166399396846"), Allocated(0, Kind.L1, 0x100000, 2 * MIB))
    account.apply(dead, ProcessExited(), time=50.0)
    return account


def section(text: str, title: str) -> list[str]:
    """The lines from the one with this start to the next empty one."""
    lines = text.splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith(title))
    rest = lines[start:]
    return rest[: rest.index("")] if "" in rest else rest


def test_what_a_memory_reporter_says() -> None:
    """The lines are shown only if a process published views, and they state the meaning of the difference."""
    account = Account()
    assert "MemoryReporter" not in machine().text()
    model = account.process(1, "client")
    # 95.2 MiB in 64 banks, of which 1.5 MiB are tracked. The chip has 91.5 MiB: the excess has no bar.
    account.apply(model, opened("n150", "chip"), Allocated(0, Kind.L1, 4096, 3 * MIB // 2))
    account.apply(model, Viewed(0, 1, Kind.L1, 64, 1464 * KIB, 952 * MIB // 640, 0))
    text = account.text()
    found = [line.split() for line in section(text, "n150 chip 0 (id chip)") if line.startswith("  L1 ")]
    assert [line[:2] for line in found] == [
        ["L1", word] for word in ("buffers", "total", "tracked", "reported", "inferred")
    ]
    assert " ".join(found[2][3:]) == "1.5 MiB / 91.5 MiB 2% allocator-tracked"
    assert " ".join(found[3][2:]) == "95.2 MiB total from MemoryReporter"
    words = " ".join(" ".join(section(text, "n150 chip")).split())
    assert "93.7 MiB CB + kernels (inferred): what is not tracked" in words


def test_nobody_and_nothing() -> None:
    assert Account().text().splitlines()[2:] == [
        "No chip is known: no process has reported one.",
        "",
        "No process uses a chip, and none has reported anything.",
        "",
        "Anomalies: none",
        "Hint: `ttmem run -- COMMAND` tracks a program that uses ttnn; TT_ALLOC_TRACKING_ENABLED=1 a patched",
        "  one.",
        "Hint: `ttmem doctor` finds out what is missing.",
    ]


@pytest.mark.parametrize(
    ("driver", "why"),
    [
        (None, "no process has reported one."),
        ({"loaded": True, "version": "2.3.0"}, "the driver shows none, and no process has reported one."),
        ({"loaded": False, "version": None}, "the driver is not loaded, and no process has reported one."),
    ],
)
def test_why_no_chip_is_known(driver: Any, why: str) -> None:
    snapshot: Any = take_snapshot(Ledger(), time="", host="box", server=SERVER)
    assert f"No chip is known: {why}" in render({**snapshot, "driver": driver}).splitlines()  # type: ignore[typeddict-item]


def test_without_a_server_the_sources_are_named() -> None:
    sources = [
        {"name": "sysfs", "state": "ok", "detail": None},
        {"name": "shm", "state": "absent", "detail": "there is no such file"},
    ]
    lines = Account().text(None, sources=sources).splitlines()
    assert lines[1] == "Sources: driver files ok, tt-metal's counters absent"
    assert "Note: tt-metal's counters absent: there is no such file" in lines
    assert not any(line.startswith("Anomalies") for line in lines), "nobody counted any"


def chip_row(account: Account) -> str:
    """With sizes in whole units, so that they can be parsed."""
    return section(account.text(style=Style(160)), "CHIP")[1]


def crowded() -> Account:
    """Programs that use L1 in turn: their circular buffers add up to more than there is."""
    account = Account()
    account.apply(
        account.process(1),
        opened("p150", "chip"),
        Allocated(0, Kind.CB, 0x20000, 120 * MIB, 1, 0, Extra(cores=GRID)),
        Allocated(0, Kind.CB, 0x20000, 110 * MIB, 2, 0, Extra(cores=GRID)),
        ProgramRun(0, 2, GRID),
    )
    return account


def test_shared_in_time_is_said() -> None:
    breakdown = " ".join(" ".join(section(crowded().text(), "p150 chip ")).split())
    assert "110.0 MiB / 165.0 MiB 67% in L1 now, 230.0 MiB in all cached programs" in breakdown
    assert "110.0 MiB / 165.0 MiB 67% 230.0 MiB with all cached programs" in breakdown
    assert amounts(chip_row(crowded()))[1] == (110.0 * MIB, 165.0 * MIB), "of 165 MiB, 110 are in use at once"
    rows = section(crowded().text(), "PID")
    assert "230.0 MiB*" in rows[1], "a process's L1 is marked if it is more than is in use"
    assert rows[2].startswith("  * includes all cached programs")


SIZE = r"([\d.]+) (B|KiB|MiB|GiB)"
UNITS = {"B": 1, "KiB": KIB, "MiB": MIB, "GiB": GIB}


def amounts(row: str) -> list[tuple[float, float]]:
    """The (used, size) pairs of a chip's row."""
    found = re.findall(rf"{SIZE} / {SIZE}", row)
    return [(float(a) * UNITS[b], float(c) * UNITS[d]) for a, b, c, d in found]


def test_no_amount_in_a_row_passes_its_size() -> None:
    used, size = amounts(chip_row(crowded()))[-1]
    assert used <= size, "of what is shared in time, a row with a size shows what is there at once"


def test_a_row_shows_the_amount_its_percentage_is_of() -> None:
    account = Account()
    account.apply(
        account.process(1),
        opened("p150", "chip"),
        Allocated(0, Kind.DRAM, 0x1000, 8 * GIB, extra=Extra(reserved=16 * GIB)),
    )
    row = chip_row(account)
    assert "for 8.0 GiB requested" in account.text()
    used, size = amounts(row)[0]
    percentages = [int(text) for text in re.findall(r"(\d+)%", row)]
    assert percentages[0] == round(100 * used / size)


def test_a_peak_is_not_below_what_is_there_now_without_a_word() -> None:
    """The peak of requested bytes may be less than the bytes that the allocator reserves now."""
    account = Account()
    account.apply(
        account.process(1),
        opened("p150", "chip"),
        Allocated(0, Kind.L1, 0x100000, 2 * MIB, extra=Extra(8 * MIB)),
        Allocated(0, Kind.CB, 0x20000, MIB, 1, 0, Extra(cores=GRID)),
        Allocated(0, Kind.CB, 0x20000, MIB, 2, 0, Extra(cores=GRID)),
        ProgramRun(0, 2, GRID),
    )
    assert "10.0 MiB with all cached programs" in account.text()
    assert "peak 8.0 MiB" in account.text()


def test_the_peak_of_buffers_says_that_it_has_l1_small_in_it() -> None:
    account = Account()
    model = account.process(1)
    account.apply(model, opened("p150", "chip"), Allocated(0, Kind.L1, 0x100000, 2 * MIB, extra=Extra(3 * MIB)))
    assert "for 2.0 MiB requested, peak 3.0 MiB, " in account.text(style=Style(160))
    account.apply(model, Allocated(0, Kind.L1_SMALL, 0x170000, MIB, extra=Extra(MIB)))
    assert "for 2.0 MiB requested, peak 4.0 MiB with L1_SMALL, " in account.text(style=Style(160))


@pytest.mark.parametrize(("kind", "title"), [(Kind.L1, "L1 total .* 0%  L1 buffer"), (Kind.DRAM, "DRAM total .* 0% ")])
def test_a_peak_is_shown_though_all_buffers_are_gone(kind: Kind, title: str) -> None:
    """It is the same as while they were there: that of reserved bytes. Of L1, it is named as that of the buffers."""
    account = Account()
    model = account.process(1)
    account.apply(model, opened("p150", "chip"), Allocated(0, kind, 0x100000, 2 * MIB, extra=Extra(3 * MIB)))
    assert "peak 3.0 MiB" in account.text()
    account.apply(model, Freed(0, kind, 0x100000))
    assert re.search(rf"{title} peak 3\.0 MiB", account.text())


def test_what_the_dead_held_is_not_marked_as_taking_turns() -> None:
    """They held it once. That less of the chip is in use now does not mean that it was never held at the same time."""
    account = Account()
    dead = account.process(1)
    account.apply(dead, opened("n150", "77"), Allocated(0, Kind.L1, 4096, 2 * MIB), ProcessExited())
    snapshot: Any = take_snapshot(account.ledger, time="", host="box", server=SERVER)
    file = snapshots.counters(77, snapshots.slot(8, 0, MIB, state="dead"))
    merged: Any = merge(snapshot, snapshots.machine(shm=[file]))
    rows = section(render(merged), "PID")
    assert [row.split()[3] for row in rows[1:3]] == ["stale", "exited"]
    assert "*" not in "".join(rows)


def test_who_reported_what() -> None:
    """Bytes that only tt-metal counts are not mixed with those that a client reported."""
    account = Account()
    account.apply(account.process(1, "client"), opened("n150", "77"), Allocated(0, Kind.DRAM, 4096, 3 * GIB))
    snapshot: Any = take_snapshot(account.ledger, time="", host="box", server=SERVER)
    slots = [snapshots.slot(100 + number, MIB) for number in range(5)]
    merged: Any = merge(snapshot, snapshots.machine(shm=[snapshots.counters(77, *slots)]))
    text = " ".join(render(merged).split())
    assert "99% reported, <1% reported by tt-metal's own counters;" in text
    assert text.count("of pid 10") == 3
    assert "; nor all of 2 more " in text


def test_counters_that_say_nothing_are_not_taken_for_all() -> None:
    look = snapshots.machine(shm=[snapshots.counters(77, snapshots.slot(8))])
    merged: Any = merge(take_snapshot(Ledger(), time="", host="box", server=SERVER), look)
    text = render(merged)
    assert "  nothing by tt-metal's own counters, which miss other threads; not known: host memory," in text
    assert "nothing allocated" not in text


def test_more_than_a_chip_has_is_said_in_words() -> None:
    account = Account()
    account.apply(account.process(1), opened("n150", "chip"), Allocated(0, Kind.DRAM, 4096, 13 * GIB))
    assert amounts(chip_row(account))[0] == (12.0 * GIB, 12.0 * GIB)
    assert "! n150 chip 0: 13.0 GiB of DRAM are accounted for, and it has 12.0 GiB" in account.text()


@pytest.mark.parametrize("board", ["n150", None])
def test_unknown_is_a_dash(board: str | None) -> None:
    account = Account()
    account.apply(None, ChipFound(ChipInfo("chip", kmd=0, board=board)))
    row = chip_row(account)
    sizes = ["12.0 GiB", "91.5 MiB"] if board else ["-", "-"]
    name = ["0", "chip", board, "wormhole_b0"] if board else ["0", "chip"]
    assert row.split() == [*name, "-", "-", "/", *sizes[0].split(), "-", "-", "/", *sizes[1].split()]
    assert "0 B" not in account.text()


def test_zero_is_not_unknown() -> None:
    account = Account()
    account.apply(account.process(1), opened("n150", "chip"), Allocated(0, Kind.L1, 4096, 64), Freed(0, Kind.L1, 4096))
    row = chip_row(account)
    assert row.count(" 0 B /") == 2
    assert row.count(" 0%") == 2


@pytest.mark.parametrize(("gib", "colour"), [(1, 32), (8, 32), (9, 33), (10, 33), (11, 31), (12, 31)])
def test_colours_warn(gib: int, colour: int) -> None:
    account = Account()
    account.apply(account.process(1), opened("n150", "chip"), Allocated(0, Kind.DRAM, 4096, gib * GIB))
    assert f"\x1b[{colour}m█" in account.text(style=Style(colour=True))
    assert "\x1b" not in account.text()


def test_only_a_few_of_the_exited_are_shown() -> None:
    account = Account()
    for pid in range(1, 10):
        source = account.process(pid)
        account.apply(source, Allocated(0, Kind.DRAM, 4096, 64))
        account.apply(source, ProcessExited(), time=float(pid))
    lines = account.text().splitlines()
    assert [line.split()[0] for line in lines if " exited " in line and "0 B" in line] == ["9", "8", "7", "6", "5"]
    assert "  and 4 more that exited" in lines


def test_a_process_on_two_chips_and_one_without_a_pid() -> None:
    account = Account()
    account.apply(account.process(7), Allocated(0, Kind.DRAM, 4096, MIB), Allocated(1, Kind.L1, 4096, KIB))
    foreign = account.ledger.source(0.0, ProcessInfo(0, connection=3), "legacy", Confidence.REPORTED)
    account.apply(foreign, Allocated(1, Kind.DRAM, 4096, 2 * MIB))
    account.process(8)
    rows = section(account.text(), "PID")[1:]
    assert [row.split()[0] for row in rows] == ["7", "assumed:1", "?", "8"]
    assert rows[-1].split() == ["8", "-", "-", "tracked", *["-"] * 5]


def test_equal_amounts_on_many_chips_are_one_row() -> None:
    account = Account()
    model = account.process(7)
    for number in range(32):
        geometry = BOARDS["n150"]._replace(live=True)
        account.apply(model, DeviceOpened(number, ChipInfo(f"{number + 100}", kmd=number, geometry=geometry)))
        account.apply(model, Allocated(number, Kind.DRAM, 4096, 2 * GIB if number == 5 else GIB))
    rows = section(account.text(), "PID")[1:]
    assert [row.split()[4:6] for row in rows[:1]] + [row.split()[:1] for row in rows[1:]] == [
        ["0-4,6-31", "each"],
        ["5"],
    ]
    assert "chips 0-4,6-31: the same on each of 31 chips" in account.text()


def remote(*ends: int) -> Account:
    """A process with the same amount on each chip whose id ends with one of these, and another, unused chip."""
    account = Account()
    model = account.process(7)
    for number, end in enumerate(ends):
        account.apply(model, DeviceOpened(number, ChipInfo(f"{10**14 + end}", geometry=BOARDS["n300"])))
        account.apply(model, Allocated(number, Kind.DRAM, 4096, GIB))
    account.apply(None, ChipFound(ChipInfo(f"{10**14 + 5}")))
    return account


@pytest.mark.parametrize(
    ("ends", "said"),
    [
        ((1, 2, 3), "each of …00000000001, …00000000002, …00000000003"),
        ((1, 2, 3, 4), "each of …00000000001 to …00000000004"),
        ((1, 2, 3, 6), "each of …00000000001 and 3 more"),
    ],
)
def test_of_many_chips_without_a_number_only_neighbours_are_a_range(ends: tuple[int, ...], said: str) -> None:
    assert said in section(remote(*ends).text(style=Style(160), numbers={}), "PID")[1]


def test_each_is_not_what_is_cut_off() -> None:
    row = section(remote(1, 2, 3, 4).text(style=Style(60), numbers={}), "PID")[1]
    assert re.search(r"tracked each of …0+… ", row), row


def test_of_many_different_amounts_the_largest_are_shown_and_the_others_summed() -> None:
    account = Account()
    model = account.process(7)
    for number in range(32):
        geometry = BOARDS["n150"]._replace(live=True)
        account.apply(model, DeviceOpened(number, ChipInfo(f"{number + 100}", kmd=number, geometry=geometry)))
        account.apply(model, Allocated(number, Kind.DRAM, 4096, (number + 1) * 256 * MIB))
    text = account.text()
    rows = section(text, "PID")[1:]
    assert [row.split()[0] for row in rows[1:-1]] == [str(number) for number in range(26, 32)]
    assert rows[-1].split()[:5] == ["25", "more,", "sum", f"{sum(range(1, 26)) / 4:.1f}", "GiB"]
    titles = [line for line in text.splitlines() if line.startswith("chip ")]
    assert [title.split()[1] for title in titles] == ["28", "29", "30", "31"], "the fullest"
    assert "28 chips with less in use are not shown here" in text
    snapshot: Any = take_snapshot(account.ledger, time="", host="box", server=SERVER)
    assert len(re.findall(r"^chip \d+ \(id 1\d\d\)$", render(snapshot, in_full=True), re.MULTILINE)) == 32, "as with -d"


def test_chips_of_which_a_process_tells_nothing_are_in_no_sum() -> None:
    snapshot: Any = take_snapshot(Ledger(), time="", host="box", server=SERVER)
    snapshot["chips"] = [{**blank.chip(f"u{number}"), "kmd": number} for number in range(32)]
    shares = [{**blank.share(f"u{number}"), "dram": (number + 1) * GIB, "l1": MIB} for number in range(9)]
    holds = [chip["chip"] for chip in snapshot["chips"]]
    snapshot["processes"] = [{**blank.process(7, "untracked"), "holds": holds, "chips": shares}]
    rows = [row.split() for row in section(render(snapshot), "PID")[1:]]
    assert rows[-2] == ["2", "more,", "sum", "3.0", "GiB", "2.0", "MiB"]
    assert rows[-1] == ["9-31", "each", "-", "-"]


def test_what_all_workers_of_a_job_cannot_see_is_said_once() -> None:
    account = Account()
    for pid in range(11, 17):
        account.apply(account.process(pid), opened("n150", "chip"), Sees(1, "no dataflow buffers"))
    account.apply(account.process(17), opened("n150", "chip"), Sees(1, "no kernels"))
    lines = [line for line in account.text().splitlines() if line.startswith("pid ")]
    assert lines == ["pid 11, 12, 13, 14 and 2 more: no dataflow buffers", "pid 17: no kernels"]
