# SPDX-License-Identifier: Apache-2.0
"""The plain picture, letter by letter."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ttmem.account.events import (
    Allocated,
    ChipFound,
    DeviceOpened,
    Event,
    Extra,
    Freed,
    ProcessExited,
    ProgramRun,
    Viewed,
)
from ttmem.account.geometry import BOARDS, Arch
from ttmem.account.grid import CoreRange, mask_of
from ttmem.account.identity import ChipInfo, ProcessInfo
from ttmem.account.kinds import KINDS, Confidence, Kind
from ttmem.account.ledger import Ledger
from ttmem.account.parties import Source
from ttmem.account.snapshot import snapshot
from ttmem.show.smi import render

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
GRID = mask_of([CoreRange(0, 0, 10, 9)])
SERVER = {"pid": 99, "since": "then", "events": 12345678, "version": "1.2.3"}


class Account:
    def __init__(self) -> None:
        self.ledger = Ledger()

    def process(self, pid: int, source: str = "agent", **info: Any) -> Source:
        confidence = Confidence.EXACT if source == "agent" else Confidence.REPORTED
        return self.ledger.source(0.0, ProcessInfo(pid, 1, **info), source, confidence)

    def apply(self, source: Source | None, *events: Event, time: float = 0.0) -> None:
        for event in events:
            self.ledger.apply(time, source, event)

    def text(self, server: Any = SERVER, colour: bool = False, **keywords: Any) -> str:
        picture = snapshot(self.ledger, time="2026-01-02T03:04:05.678Z", host="box", server=server, **keywords)
        return render(picture, colour)


def opened(board: str, uid: str, device: int = 0) -> DeviceOpened:
    geometry = BOARDS[board]._replace(live=True)
    return DeviceOpened(device, ChipInfo(uid, kmd=0, arch=geometry.arch, board=board, geometry=geometry))


PICTURE = """\
ttmem 1.2.3  box  2026-01-02T03:04:05.678Z  server pid 99, 12,345,678 events
════════════════════════════════════════════════════════════════════════════════════════════════════════════
CHIP                 BOARD              DRAM / SIZE                                        L1 / SIZE
17716556166399396846 p150           24.0 GiB / 31.9 GiB  ███████████████░░░░░  75%   65.4 MiB / 165.0 MiB  40%
0000:41:00.0         n300                  - / 12.0 GiB                          -          - / 91.5 MiB     -
0000:c1:00.0         -                     - / -                                 -          - / -            -
assumed:5            -               3.0 MiB / -                                 -        0 B / -            -

17716556166399396846
  L1 buffers                 8.0 MiB
  L1 small                  32.0 KiB
  circular buffers          55.0 MiB   55.0 MiB resident
  kernels                    2.4 MiB
  L1 total                  65.4 MiB   peak 67.4 MiB
  fabric kernels           896.0 KiB   on ethernet cores, outside the grid
  dispatch kernels          92.0 KiB   on dispatch cores, outside the grid
  trace                     40.0 MiB
  DRAM total                24.0 GiB   peak 24.0 GiB
  host memory                4.0 KiB
  24.1 GiB exact

0000:41:00.0
  L1 total                         -   peak -, size from the board's table
  DRAM total                       -   peak -, size from the board's table
  nothing reported; not known: dram, l1, host, l1_small, trace, cb, dfb, scratchpad, kernel, fabric_kernel, dispatch_kernel, firmware

0000:c1:00.0
  L1 total                         -   peak -, size of the chip not known
  DRAM total                       -   peak -, size of the chip not known
  nothing reported; not known: dram, l1, host, l1_small, trace, cb, dfb, scratchpad, kernel, fabric_kernel, dispatch_kernel, firmware

assumed:5  (which chip this is, is assumed from the device number)
  L1 total                       0 B   peak 0 B, size of the chip not known
  DRAM total                 3.0 MiB   peak 3.0 MiB, size of the chip not known
  3.0 MiB reported; not known: dfb, scratchpad, firmware

     PID USER       NAME             STATE    CHIP                       DRAM         L1  PEAK DRAM    PEAK L1
    4242 maria      python3          tracked  17716556166399396846   24.0 GiB   65.4 MiB   24.0 GiB   65.4 MiB
      17 -          -                tracked  assumed:5               3.0 MiB        0 B    3.0 MiB        0 B
      23 root       a name that is t exited   17716556166399396846        0 B    2.0 MiB        0 B    2.0 MiB
         (an exited process shows what it still held when it went)

Anomalies: unknown_free 1
Hint: "assumed:N" is some process's device N; a client that names its chip makes it certain.
"""  # noqa: E501


def machine() -> Account:
    account = Account()
    account.apply(
        None,
        ChipFound(ChipInfo("0000:41:00.0", "0000:41:00.0", 1, Arch.WORMHOLE_B0, "n300", False)),
        ChipFound(ChipInfo("0000:c1:00.0", "0000:c1:00.0", 2)),
    )
    model = account.process(4242, uid=1000, name="python3")
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
    dead = account.process(23, uid=0, name="a name that is too long")
    account.apply(dead, opened("p150", "17716556166399396846"), Allocated(0, Kind.L1, 0x100000, 2 * MIB))
    account.apply(dead, ProcessExited(), time=50.0)
    return account


def test_the_whole_picture() -> None:
    assert machine().text(user_of={1000: "maria", 0: "root"}.get) == PICTURE.rstrip("\n")


def test_what_a_memory_reporter_says() -> None:
    """The lines are there only if somebody published, and say what the difference is."""
    account = Account()
    assert "MemoryReporter" not in machine().text()
    model = account.process(1, "client")
    # 95.2 MiB in 64 banks, of which 1.5 MiB are tracked.
    account.apply(model, opened("n150", "chip"), Allocated(0, Kind.L1, 4096, 3 * MIB // 2))
    account.apply(model, Viewed(0, 1, Kind.L1, 64, 1464 * KIB, 952 * MIB // 640, 0))
    text = account.text()
    assert (
        """
  L1 (allocator-tracked)             1.5 MiB
  L1 (total from MemoryReporter)    95.2 MiB
  → CB + kernels (inferred)         93.7 MiB   what is not tracked: a stock reporter counts buffers only
"""
        in text
    )


def test_nobody_and_nothing() -> None:
    assert Account().text().splitlines()[2:] == [
        "No chip is known yet: none in sysfs, and no process has reported one.",
        "",
        "No process has reported anything.",
        "",
        "Anomalies: none",
        "Hint: `ttmem run -- COMMAND` tracks a program that uses ttnn; TT_ALLOC_TRACKING_ENABLED=1 a patched one.",
    ]


def test_without_a_server_the_sources_are_named() -> None:
    sources = [{"name": "sysfs", "state": "2 chips"}, {"name": "shm", "state": "absent"}]
    assert Account().text(None, sources=sources).splitlines()[0] == (
        "ttmem  box  2026-01-02T03:04:05.678Z  sysfs 2 chips, shm absent"
    )
    assert Account().text(None).splitlines()[0].endswith("  no source")


def chip_row(account: Account) -> str:
    return account.text().splitlines()[3]


def crowded() -> Account:
    """Programs that share L1 in time: their circular buffers add up to more than there is."""
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
    shared = "   of all cached programs, which share L1 in time; 110.0 MiB resident"
    assert f"circular buffers         230.0 MiB{shared}" in crowded().text()
    assert chip_row(crowded()).endswith(" 67%"), "of 165 MiB, 110 are in use at once"


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
    used, size = amounts(row)[0]
    percentages = [int(text) for text in re.findall(r"(\d+)%", row)]
    assert percentages[0] == round(100 * used / size)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    st.lists(
        st.tuples(st.sampled_from(KINDS), st.integers(1, 90 * GIB), st.none() | st.integers(1, 90 * GIB)), max_size=8
    ),
    st.booleans(),
    st.booleans(),
)
def test_nothing_is_above_100_percent(things: list[tuple[Kind, int, int | None]], run: bool, colour: bool) -> None:
    account = Account()
    model = account.process(1)
    account.apply(model, opened("n150", "chip"))
    for index, (kind, size, reserved) in enumerate(things, start=1):
        account.apply(model, Allocated(0, kind, index * 4096, size, index % 3, 0, Extra(reserved, cores=GRID)))
    if run:
        account.apply(model, ProgramRun(0, 1, GRID))
    text = account.text(colour=colour)
    assert all(int(share) <= 100 for share in re.findall(r"(\d+)%", text))
    assert all(len(bar) == 20 for bar in re.findall("[█░]+", text))


@pytest.mark.parametrize("board", ["n150", None])
def test_unknown_is_a_dash(board: str | None) -> None:
    account = Account()
    account.apply(None, ChipFound(ChipInfo("chip", kmd=0, board=board)))
    row = chip_row(account)
    sizes = ["12.0 GiB", "91.5 MiB"] if board else ["-", "-"]
    assert row.split() == ["chip", board or "-", "-", "/", *sizes[0].split(), "-", "-", "/", *sizes[1].split(), "-"]
    assert "0 B" not in account.text()


def test_zero_is_not_unknown() -> None:
    account = Account()
    account.apply(account.process(1), opened("n150", "chip"), Allocated(0, Kind.L1, 4096, 64), Freed(0, Kind.L1, 4096))
    row = chip_row(account)
    assert row.count("0 B /") == 2
    assert row.count(" 0%") == 2


@pytest.mark.parametrize(("gib", "colour"), [(1, 32), (8, 32), (9, 33), (10, 33), (11, 31), (12, 31)])
def test_colours_warn(gib: int, colour: int) -> None:
    account = Account()
    account.apply(account.process(1), opened("n150", "chip"), Allocated(0, Kind.DRAM, 4096, gib * GIB))
    assert f"\x1b[{colour}m█" in account.text(colour=True)
    assert "\x1b" not in account.text()


def test_only_a_few_of_the_exited_are_shown() -> None:
    account = Account()
    for pid in range(1, 10):
        source = account.process(pid)
        account.apply(source, Allocated(0, Kind.DRAM, 4096, 64))
        account.apply(source, ProcessExited(), time=float(pid))
    lines = account.text().splitlines()
    assert [line.split()[0] for line in lines if " exited   " in line] == ["9", "8", "7", "6", "5"]
    assert "         and 4 more that exited" in lines


def test_a_process_on_two_chips_and_one_without_a_pid() -> None:
    account = Account()
    account.apply(account.process(7), Allocated(0, Kind.DRAM, 4096, MIB), Allocated(1, Kind.L1, 4096, KIB))
    foreign = account.ledger.source(0.0, ProcessInfo(0, connection=3), "legacy", Confidence.REPORTED)
    account.apply(foreign, Allocated(1, Kind.DRAM, 4096, 2 * MIB))
    account.process(8)
    lines = account.text().splitlines()
    start = next(i for i, line in enumerate(lines) if "PEAK DRAM" in line)
    assert [line.split()[0] for line in lines[start + 1 : start + 5]] == ["7", "assumed:1", "?", "8"]
    assert lines[start + 4].split() == ["8", "-", "-", "tracked", "-"]
