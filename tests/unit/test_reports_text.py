# SPDX-License-Identifier: Apache-2.0
"""Memory reports as text, letter by letter, and what may be said of them beside a server's account."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.schema_conformance import problems
from ttmem.account.ledger import Ledger
from ttmem.documents.metal_reports import completeness, document, tracked
from ttmem.documents.snapshot import take_snapshot
from ttmem.model import schema
from ttmem.model.events import Allocated, DeviceOpened, Event, Extra, Freed, ProcessExited
from ttmem.model.identity import ChipInfo, ProcessInfo
from ttmem.model.kinds import Confidence, Kind
from ttmem.show.reports_text import render
from ttmem.sources.memory_reports import DETAILED, L1_SUMMARY, SUMMARY, read

SAMPLES = Path(__file__).parent.parent / "data" / "memory_reports"
WRITTEN = 1_700_000_000.0
BANKS = {Kind.DRAM: 12, Kind.L1: 64, Kind.L1_SMALL: 64}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for path in SAMPLES.iterdir():
        if not path.name.startswith("after_"):
            shutil.copyfile(path, tmp_path / path.name)
            os.utime(tmp_path / path.name, (WRITTEN, WRITTEN))
    return tmp_path


def shown(folder: Path, snapshot: Any = None, now: float = WRITTEN + 7200, why: str = "nobody answers") -> str:
    text = render(document(read(str(folder)), str(folder), now, snapshot, why))
    return text.replace(str(folder), "FOLDER")


PICTURE = """\
Memory reports in FOLDER

(no prefix)  3 files, written 2 h ago
  KIND     BANKS              TOTAL   ALLOCATED        FREE  LARGEST FREE  FRAGMENTED
  dram     each of 12    1022.7 MiB   172.0 KiB  1022.5 MiB    1022.5 MiB        0.0%
           all 12          12.0 GiB     2.0 MiB    12.0 GiB      12.0 GiB
  l1       each of 64       1.3 MiB    32.0 KiB     1.3 MiB       1.2 MiB        2.5%
           all 64          83.0 MiB     2.0 MiB    81.0 MiB      79.0 MiB
  l1_small each of 64      32.0 KiB         0 B    32.0 KiB      32.0 KiB        0.0%
           all 64           2.0 MiB         0 B     2.0 MiB       2.0 MiB
  dram: 1 used block, 1 free; in each bank, from its allocator's base: 172.0 KiB at 0x0
  l1: 1 used block, 2 free; in each bank, from its allocator's base: 32.0 KiB at 0x13c2a0
  l1_small: 0 used blocks, 1 free

program_  3 files, written 2 h ago
  PROGRAM     DRAM ALLOCATED    L1 ALLOCATED    L1_SMALL   L1 LARGEST FREE
  0                  2.0 MiB         4.0 MiB         0 B           1.2 MiB
  2                  4.0 MiB         4.0 MiB         0 B           1.2 MiB
  4                  6.0 MiB         4.0 MiB         0 B           1.2 MiB
  allocated: when the program was compiled, in all banks; largest free: in each bank

These reports contain buffers only. Not in them: host, trace, cb, dfb, scratchpad, kernel, fabric_kernel, \
dispatch_kernel, firmware.
Completeness is not known: nobody answers."""


def test_the_whole_text(folder: Path) -> None:
    assert shown(folder) == PICTURE


def test_the_document_is_data(folder: Path) -> None:
    data = json.loads(json.dumps(document(read(str(folder)), "reports", WRITTEN + 0.5, None, "nobody answers")))
    assert problems(data, schema.MemoryReports) == []
    assert (data["time"], data["folder"], data["incomparable"]) == (
        "2023-11-14T22:13:20.500Z",
        "reports",
        "nobody answers",
    )
    plain, programs = data["reports"]
    assert plain["files"][0] == {"name": SUMMARY, "modified": "2023-11-14T22:13:20.000Z", "age_s": 0.5}
    l1 = plain["states"][0]["memory"]["l1"]
    assert l1["banks"] == 64
    assert l1["per_bank"] == {"total": 1360544, "allocated": 32768, "free": 1327776, "largest_free": 1295008}
    assert l1["all_banks"]["largest_free"] == plain["states"][0]["l1_space"]["times_banks"] == 64 * 1295008
    assert l1["fragmentation"] == pytest.approx(32768 / 1327776)
    assert l1["blocks"][1] == {
        "ident": 1, "address": 1295008, "size": 32768, "previous": 2, "next": 0, "allocated": True,
    }  # fmt: skip
    assert plain["completeness"]["l1"] == {"tracked": None, "reported": 2097152, "share": None}
    assert [state["program"] for state in programs["states"]] == [0, 2, 4]
    assert programs["completeness"] is None


def test_what_is_not_known_is_a_dash_or_said(folder: Path) -> None:
    for path in folder.glob("program_*"):
        path.unlink()
    (folder / DETAILED).unlink()
    text = shown(folder)
    assert "  l1       each of ?        1.3 MiB    32.0 KiB     1.3 MiB       1.2 MiB        2.5%\n  l1_small" in text
    assert "  l1: its blocks are not known" in text
    shutil.copyfile(SAMPLES / DETAILED, folder / DETAILED)
    (folder / SUMMARY).unlink()
    text = shown(folder)
    assert "  l1       all ?           83.0 MiB     2.0 MiB    81.0 MiB             -           -\n" in text
    (folder / DETAILED).unlink()
    assert "  l1: the largest free block has 1.2 MiB in each bank, 79.0 MiB in all" in shown(folder)
    (folder / L1_SUMMARY).write_text("")
    assert "1 file, written " in shown(folder)
    assert "  nothing in it could be read" in shown(folder)
    (folder / L1_SUMMARY).unlink()
    (folder / SUMMARY).mkdir()
    assert "(no prefix)  no file could be opened" in shown(folder)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(-5, "0 s"), (0, "0 s"), (119, "119 s"), (120, "2 min"), (7199, "120 min"), (7200, "2 h"), (259200, "3 days")],
)
def test_ages(seconds: float, words: str, folder: Path) -> None:
    assert f"3 files, written {words} ago" in shown(folder, now=WRITTEN + seconds)


def test_files_of_different_ages(folder: Path) -> None:
    os.utime(folder / SUMMARY, (WRITTEN - 7200, WRITTEN - 7200))
    assert "(no prefix)  3 files, written 2 h to 4 h ago" in shown(folder)


def test_only_the_largest_blocks_and_last_programs(tmp_path: Path) -> None:
    header, *rows = (SAMPLES / f"program_{SUMMARY}").read_text().splitlines()
    lines = [line for number in range(50) for line in (f"{number}{rows[3][1:]}", rows[4], rows[5])]
    (tmp_path / f"program_{SUMMARY}").write_text("\n".join([header, *lines, ""]))
    text = shown(tmp_path).splitlines()
    assert [line.split()[0] for line in text if line.startswith("  ") and line.split()[0].isdigit()] == [
        str(number) for number in range(30, 50)
    ]
    assert "  and 30 before; --json has them all" in text

    (tmp_path / f"program_{SUMMARY}").unlink()
    head, _, tail = (SAMPLES / DETAILED).read_text().partition(" " * 11 + "0      1327776        32768")
    sizes = [100, 700, 300, 600, 200, 500, 400]
    chain = [f"{i} {i * 1000} {size} {i - 1} {i + 1 if i < 6 else 'none'} yes" for i, size in enumerate(sizes)]
    table = "\n".join(chain).replace(" -1 ", " none ")
    (tmp_path / DETAILED).write_text(f"{head}{table}\n,L1_SMALL{tail.partition(',L1_SMALL')[2]}")
    assert (
        "l1: 7 used blocks, 0 free; in each bank, from its allocator's base: "
        "700 B at 0x3e8, 600 B at 0xbb8, 500 B at 0x1388, 400 B at 0x1770, 300 B at 0x7d0, ...\n"
    ) in shown(tmp_path)


class Server:
    """An account, and the snapshot of it."""

    def __init__(self) -> None:
        self.ledger = Ledger()

    def tells(self, pid: int, *events: Event) -> Server:
        source = self.ledger.source(0.0, ProcessInfo(pid, 1), "agent", Confidence.EXACT)
        for event in events:
            self.ledger.apply(0.0, source, event)
        return self

    @property
    def snapshot(self) -> Any:
        return take_snapshot(self.ledger, time="then", host="box")


def opened(device: int) -> DeviceOpened:
    return DeviceOpened(device, ChipInfo(f"chip{device}", kmd=device, board="n150"))


def taken(kind: Kind, per_bank: int | None, device: int = 0, address: int = 4096, size: int = 1000) -> Allocated:
    reserved = None if per_bank is None else per_bank * BANKS.get(kind, 12)
    return Allocated(device, kind, address, size, extra=Extra(reserved=reserved))


def test_all_that_was_reported_is_tracked(folder: Path) -> None:
    server = Server().tells(
        1,
        opened(0),
        taken(Kind.DRAM, 176128),
        taken(Kind.TRACE, 1 << 20, address=1 << 20),
        taken(Kind.L1, 32768),
        taken(Kind.L1_SMALL, 1024, address=1 << 20),
        Allocated(0, Kind.CB, 7, 999999, 3),
        Freed(0, Kind.L1_SMALL, 1 << 20),
    )
    assert tracked(server.snapshot) == ({Kind.DRAM: 12 * 176128, Kind.L1: 64 * 32768, Kind.L1_SMALL: 0}, None)
    assert (
        "  completeness: dram 100 % (2.0 MiB tracked), l1 100 % (2.0 MiB tracked), l1_small 100 % (0 B tracked); "
        "what the server tracks now, by what the report says\n"
    ) in shown(folder, server.snapshot)
    assert "Completeness is not known" not in shown(folder, server.snapshot)


def test_half_of_it_and_more_than_all(folder: Path) -> None:
    server = Server().tells(1, opened(0), taken(Kind.DRAM, 176128 // 2), taken(Kind.L1, 65536))
    data = document(read(str(folder)), "", WRITTEN, server.snapshot)["reports"][0]["completeness"]
    assert data["dram"] == {"tracked": 6 * 176128, "reported": 12 * 176128, "share": 0.5}  # type: ignore[index]
    assert data["l1"]["share"] == 2.0  # type: ignore[index]
    server.tells(1, taken(Kind.L1_SMALL, 64, address=1 << 20))
    assert "l1_small - (4.0 KiB tracked)" in shown(folder, server.snapshot)


def test_what_is_reserved_must_be_known(folder: Path) -> None:
    server = Server().tells(1, opened(0), taken(Kind.DRAM, None), taken(Kind.L1, 32768))
    assert tracked(server.snapshot)[0] == {Kind.DRAM: None, Kind.L1: 64 * 32768, Kind.L1_SMALL: 0}
    assert "dram - (- tracked), l1 100 %" in shown(folder, server.snapshot)


def test_chips_in_lock_step_are_as_good_as_one() -> None:
    server = Server()
    for device in (0, 1):
        server.tells(1, opened(device), taken(Kind.DRAM, 176128, device), taken(Kind.L1, 32768, device))
    assert tracked(server.snapshot) == ({Kind.DRAM: 12 * 176128, Kind.L1: 64 * 32768, Kind.L1_SMALL: 0}, None)
    server.tells(1, taken(Kind.L1, 32, 1, address=1 << 20))
    assert tracked(server.snapshot) == (
        {},
        "the server tracks chips with different amounts, and a report does not name its chip",
    )


def test_one_report_cannot_be_of_two_processes(folder: Path) -> None:
    server = Server().tells(1, opened(0), taken(Kind.L1, 32768)).tells(2, opened(0), taken(Kind.L1, 32768))
    assert tracked(server.snapshot)[0] == {}
    assert shown(folder, server.snapshot).endswith(
        "Completeness is not known: several processes hold memory of one chip, and a report does not name its process."
    )


def test_who_has_exited_holds_nothing() -> None:
    server = Server().tells(1, opened(0), taken(Kind.L1, 32768)).tells(2, opened(0), taken(Kind.L1, 32768))
    server.tells(2, ProcessExited())
    assert tracked(server.snapshot) == ({Kind.DRAM: 0, Kind.L1: 64 * 32768, Kind.L1_SMALL: 0}, None)


def test_a_server_that_tracks_nothing(folder: Path) -> None:
    assert shown(folder, Server().snapshot).endswith(
        "Completeness is not known: the server tracks no process with a chip now."
    )


@pytest.mark.parametrize(
    ("ours", "theirs", "share"), [(1, 2, 0.5), (0, 2, 0.0), (0, 0, 1.0), (1, 0, None), (None, 2, None), (2, None, None)]
)
def test_completeness(ours: int | None, theirs: int | None, share: float | None) -> None:
    assert completeness(ours, theirs) == share
