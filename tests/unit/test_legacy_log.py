# SPDX-License-Identifier: Apache-2.0
"""The lines that other tools parse, word for word, and a log that never blocks."""

from __future__ import annotations

import fcntl
import json
import os
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ttmem.account.entities import Source
from ttmem.account.ledger import Ledger
from ttmem.ingest import legacy_log
from ttmem.ingest.legacy_lines import STYLES
from ttmem.ingest.legacy_log import LegacyLog
from ttmem.model.events import Allocated, Event, Freed, Mark, ProcessExited, ProgramRun
from ttmem.model.identity import ProcessInfo
from ttmem.model.kinds import Confidence, Kind

PATIENCE = 30.0
PID = 4242


class Bench:
    """A ledger and a log that writes to a file."""

    def __init__(self, file: Path, **options: Any) -> None:
        self.file = file
        self.fd = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self.log = LegacyLog(fd=self.fd, **options)
        self.ledger = Ledger()
        self.source = self.add_source("legacy", Confidence.REPORTED)

    def add_source(self, name: str, confidence: Confidence, pid: int = PID) -> Source:
        return self.ledger.source(0.0, ProcessInfo(pid, 7), name, confidence)

    def do(self, *events: Event, source: Source | None = None) -> None:
        for event in events:
            where = source or self.source
            self.log.note(0.0, where, event, self.ledger.apply(0.0, where, event))

    def exit(self) -> None:
        self.do(ProcessExited())

    def text(self) -> str:
        self.log.close(PATIENCE)
        return self.file.read_text()

    def lines(self) -> list[str]:
        text = self.text()
        assert not text or text.endswith("\n")
        return text.splitlines()


@pytest.fixture
def bench(folder: Path) -> Iterator[Callable[..., Bench]]:
    benches: list[Bench] = []

    def make(**options: Any) -> Bench:
        benches.append(Bench(folder / f"log{len(benches)}", **options))
        return benches[-1]

    yield make
    for one in benches:
        one.log.close(PATIENCE)
        os.close(one.fd)


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (Kind.DRAM, "DRAM"),
        (Kind.L1, "L1"),
        (Kind.HOST, "SYSTEM_MEMORY"),
        (Kind.L1_SMALL, "L1_SMALL"),
        (Kind.TRACE, "TRACE"),
    ],
)
def test_buffers(bench: Callable[..., Bench], style: str, kind: Kind, name: str) -> None:
    b = bench(style=style)
    here = Allocated(3, kind, 0xA0000, 4096)
    gone = Freed(3, None, 0xA0000)
    b.do(here, here, gone, gone, gone)
    ident = "655360" if style == "decimal" else "0xa0000"
    assert b.lines() == [
        f"✓ [PID 4242] Allocated 4096 bytes of {name} on device 3 (buffer_id={ident})",
        f"✓ [PID 4242] Allocated 4096 bytes of {name} on device 3 (buffer_id={ident}, ref_count=2)",
        f"✗ [PID 4242] Freed buffer {ident} on device 3 (4096 bytes, ref_count=1 remaining)",
        f"✗ [PID 4242] Freed buffer {ident} on device 3 (4096 bytes, FINAL)",
        f"⚠ [PID 4242] Deallocation for unknown buffer {ident} on device 3 (allocated before tracking started)",
    ]


@pytest.mark.parametrize("style", STYLES)
def test_circular_buffers(bench: Callable[..., Bench], style: str) -> None:
    b = bench(style=style)
    b.do(
        Allocated(1, Kind.CB, 0x1A000, 208896),
        Allocated(1, Kind.CB, 0x2A000, 1048576),
        Freed(1, Kind.CB, 0x1A000),
        Freed(1, Kind.CB, 0x2A000),
    )
    if style == "bytes":
        assert b.lines() == [
            "✓ [CB] Device 1: +208896 bytes",
            "✓ [CB] Device 1: +1048576 bytes",
            "✗ [CB] Device 1: -208896 bytes",
            "✗ [CB] Device 1: -1048576 bytes",
        ]
    else:
        assert b.lines() == [
            "✓ [CB_ALLOC] Device 1: +0.199219 MB (Total: 0.199219 MB)",
            "✓ [CB_ALLOC] Device 1: +1 MB (Total: 1.19922 MB)",
            "✗ [CB_FREE] Device 1: -0.199219 MB (Total: 1 MB)",
            "✗ [CB_FREE] Device 1: -1 MB (Total: 0 MB)",
        ]


@pytest.mark.parametrize("style", STYLES)
def test_kernels(bench: Callable[..., Bench], style: str) -> None:
    b = bench(style=style)
    b.do(
        Allocated(0, Kind.FABRIC_KERNEL, 1, 917504),
        Allocated(0, Kind.DISPATCH_KERNEL, 2, 94208),
        Allocated(0, Kind.KERNEL, 3, 8192000),
        Freed(0, Kind.KERNEL, 2),  # an unload does not include the type, but the account has it
    )
    if style == "bytes":
        assert b.lines() == [
            "✓ [KERN] Device 0: +917504 bytes",
            "✓ [KERN] Device 0: +94208 bytes",
            "✓ [KERN] Device 0: +8192000 bytes",
            "✗ [KERN] Device 0: -94208 bytes",
        ]
        return
    names = ["", "", "", ""] if style == "untyped" else ["Fabric", "Dispatch", "Application", "Dispatch"]
    fabric, dispatch, application, unloaded = (f"{name} kernel on Device 0" if name else "Device 0" for name in names)
    assert b.lines() == [
        f"✓ [KERNEL_LOAD] {fabric}: +0.875 MB (Total: 0.875 MB)",
        f"✓ [KERNEL_LOAD] {dispatch}: +0.0898438 MB (Total: 0.964844 MB)",
        f"✓ [KERNEL_LOAD] {application}: +7.8125 MB (Total: 8.77734 MB)",
        f"✗ [KERNEL_UNLOAD] {unloaded}: -0.0898438 MB (Total: 8.6875 MB)",
    ]


def test_a_per_core_write_is_logged_as_it_came(bench: Callable[..., Bench]) -> None:
    b = bench()
    b.do(Allocated(0, Kind.L1, 0x00050003000A0000, 1024), Allocated(0, Kind.L1, 0x0005000300000040, 512))
    assert b.lines() == [
        "✓ [PID 4242] Allocated 1024 bytes of L1 on device 0 (buffer_id=0x50003000a0000)",
        "✓ [PID 4242] Allocated 512 bytes of L1 on device 0 (buffer_id=0x5000300000040)",
    ]


def test_events_without_a_line(bench: Callable[..., Bench]) -> None:
    b = bench()
    b.do(Mark("here"), ProgramRun(0, 1, 1), Allocated(0, Kind.DRAM, 1, 0), Allocated(-1, Kind.DRAM, 1, 64))
    assert b.lines() == []


def test_cleanup(bench: Callable[..., Bench]) -> None:
    b = bench()
    b.do(
        Allocated(0, Kind.DRAM, 0x1000, 1048576),
        Allocated(1, Kind.L1, 0x2000, 524288),
        Allocated(0, Kind.CB, 0x3000, 208896),
        Allocated(0, Kind.KERNEL, 1, 917504),
        Allocated(0, Kind.FABRIC_KERNEL, 2, 1048576),
    )
    b.exit()
    text = "\n".join(b.lines()[5:])
    for line in (
        r"PID 4242 is dead, removing its buffers",
        r"Removed 2 buffers \(1\.5 MB\) from PID 4242",
        r"Removed 1 CBs \(0\.199219 MB\) from PID 4242",
        r"Removed 2 kernels \(1\.875 MB\) from PID 4242",
    ):
        assert len(re.findall(line, text)) == 1, line


def test_cleanup_opens_with_its_header(bench: Callable[..., Bench]) -> None:
    """The block of the proof of concept begins with "dead processes detected"."""
    b = bench()
    b.do(Allocated(0, Kind.DRAM, 0x1000, 1048576))
    b.exit()
    assert "dead processes detected" in b.lines()[1].lower()


def test_cleanup_is_silent_about_who_held_nothing(bench: Callable[..., Bench]) -> None:
    b = bench()
    b.do(Allocated(0, Kind.DRAM, 0x1000, 64), Freed(0, None, 0x1000))
    b.exit()
    assert len(b.lines()) == 2


def test_cleanup_counts_what_two_sources_saw_once(bench: Callable[..., Bench]) -> None:
    """Rule 12: of two sources of one process, the one with the higher confidence counts, and the other is set aside."""
    b = bench()
    agent = b.add_source("agent", Confidence.EXACT)
    b.do(Allocated(0, Kind.DRAM, 0x1000, 1048576))
    b.do(Allocated(0, Kind.DRAM, 0x1000, 1048576), source=agent)
    b.exit()
    assert "Removed 1 buffers (1 MB) from PID 4242" in b.text()


def test_json(bench: Callable[..., Bench]) -> None:
    b = bench(as_json=True)
    b.do(
        Allocated(3, Kind.L1_SMALL, 0xA0000, 4096),
        Freed(3, None, 0xA0000),
        Freed(3, None, 0xB0000),
        Allocated(0, Kind.CB, 0x1000, 2048),
        Allocated(0, Kind.FABRIC_KERNEL, 9, 1024),
    )
    b.exit()
    b.log.say(1.5, "two\nlines ✓")
    found = [json.loads(line) for line in b.lines()]
    when = {"time": "1970-01-01T00:00:00.000Z"}
    assert found == [
        {**when, "event": "allocated", "pid": PID, "size": 4096, "kind": "l1_small", "device": 3, "id": 0xA0000,
         "refs": 1},
        {**when, "event": "freed", "pid": PID, "size": 4096, "device": 3, "id": 0xA0000, "refs": 0},
        {**when, "event": "unknown", "pid": PID, "device": 3, "id": 0xB0000},
        {**when, "event": "cb", "came": True, "device": 0, "size": 2048, "total": 2048},
        {**when, "event": "kernel", "came": True, "kind": "fabric_kernel", "device": 0, "size": 1024, "total": 1024},
        {**when, "event": "cleanup", "pid": PID, "buffers": 0, "bytes": 0, "cbs": 1, "cb_bytes": 2048, "kernels": 1,
         "kernel_bytes": 1024},
        {"time": "1970-01-01T00:00:01.500Z", "event": "text", "text": "two\nlines ✓"},
    ]  # fmt: skip


def test_quiet_says_only_what_was_asked_for(bench: Callable[..., Bench]) -> None:
    b = bench(quiet=True)
    b.do(Allocated(0, Kind.DRAM, 0x1000, 64))
    b.exit()
    b.log.tick(100.0)
    b.log.say(100.0, "the dump")
    assert b.lines() == ["the dump"]


# -- limits ------------------------------------------------------------------------------------------------------


def allocations(count: int, first: int = 0) -> list[Event]:
    return [Allocated(0, Kind.DRAM, 0x1000 * (first + n + 1), 64) for n in range(count)]


LEFT_OUT = re.compile(r"^… (\d+) more events, not shown")


def shown_and_left_out(lines: list[str]) -> tuple[int, int]:
    counts = [int(match[1]) for match in map(LEFT_OUT.match, lines) if match]
    return len(lines) - len(counts), sum(counts)


def test_above_the_limit_lines_are_left_out_and_counted(
    bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(legacy_log, "LINES_PER_SECOND", 5)
    b = bench()
    b.log.tick(10.0)
    b.do(*allocations(8))
    b.log.tick(10.9)  # still the same second
    b.do(*allocations(2, 100))
    b.log.tick(11.0)
    b.do(*allocations(1, 200))
    b.log.tick(12.0)
    lines = b.lines()
    assert len(lines) == 7
    assert lines[5] == "… 5 more events, not shown (the log is limited to 5 lines a second)"
    assert lines[6].startswith("✓ [PID 4242] Allocated")
    assert b.log.left_out == 0


def test_only_lines_count_as_left_out(bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch) -> None:
    """An event that has no line is not missing one."""
    monkeypatch.setattr(legacy_log, "LINES_PER_SECOND", 1)
    b = bench()
    b.log.tick(10.0)
    b.do(*allocations(3), Mark("here"), ProgramRun(0, 1, 1), Allocated(0, Kind.DRAM, 1, 0))
    b.log.tick(11.0)
    assert shown_and_left_out(b.lines()) == (1, 2)


def test_a_dump_is_not_subject_to_the_limit(bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(legacy_log, "LINES_PER_SECOND", 1)
    b = bench()
    b.do(*allocations(3))
    b.log.say(0.0, "the dump")
    assert b.lines()[-1] == "the dump"


class Narrow:
    """A log into a small pipe that is not read until the test asks for it."""

    def __init__(self, *, blocking: bool) -> None:
        self.out, self.fd = os.pipe()
        fcntl.fcntl(self.fd, fcntl.F_SETPIPE_SZ, 4096)
        os.set_blocking(self.fd, blocking)
        self.log = LegacyLog(fd=self.fd)
        self.ledger = Ledger()
        self.source = self.ledger.source(0.0, ProcessInfo(PID, 7), "legacy", Confidence.REPORTED)
        self.noted = 0
        self.data: list[bytes] = []
        self.reader = threading.Thread(target=self._read, daemon=True)

    def note(self, time: float, count: int) -> None:
        for event in allocations(count, self.noted):
            self.log.note(time, self.source, event, self.ledger.apply(time, self.source, event))
        self.noted += count

    def _read(self) -> None:
        while piece := os.read(self.out, 65536):
            self.data.append(piece)

    def lines(self) -> list[str]:
        """Let the reader read to the end."""
        self.reader.start()
        self.log.drain(PATIENCE)
        self.log.tick(1e9)
        self.log.close(PATIENCE)
        os.close(self.fd)
        self.reader.join(PATIENCE)
        assert not self.reader.is_alive()
        os.close(self.out)
        return b"".join(self.data).decode().splitlines()


def test_a_blocked_pipe_never_blocks_a_note() -> None:
    narrow = Narrow(blocking=True)

    def work() -> None:
        for second in range(1, 4):
            narrow.log.tick(float(second))
            narrow.note(float(second), 12_000)
            narrow.log.say(float(second), "asked for")

    worker = threading.Thread(target=work, daemon=True)
    worker.start()
    worker.join(PATIENCE)
    assert not worker.is_alive(), "the server's loop would stand still here"
    assert narrow.ledger.live_count() == 36_000
    assert len(narrow.lines()) < 36_000, "nor is everything kept for later"


def test_after_a_blockage_the_losses_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the pipe is read again, shown lines and left out lines add up to all lines."""
    monkeypatch.setattr(legacy_log, "LINES_PER_SECOND", 100)
    narrow = Narrow(blocking=True)
    for second in range(1, 31):
        narrow.log.tick(float(second))
        narrow.note(float(second), 150)
    shown, left_out = shown_and_left_out(narrow.lines())
    assert 0 < shown < 4500
    assert shown + left_out == 4500


def test_a_pipe_that_does_not_block_loses_nothing_uncounted() -> None:
    """A shell or a supervisor may give us such a descriptor; a full one is not a closed one."""
    narrow = Narrow(blocking=False)
    narrow.note(1.0, 400)
    lines = narrow.lines()
    assert all(line.startswith(("✓", "…")) and line.endswith(")") for line in lines), "no line is cut"
    shown, left_out = shown_and_left_out(lines)
    assert shown + left_out == 400


def test_a_closed_pipe_ends_the_log_and_nothing_else() -> None:
    narrow = Narrow(blocking=True)
    os.close(narrow.out)
    narrow.note(1.0, 100)
    narrow.log.drain(PATIENCE)
    narrow.note(2.0, 100)
    narrow.log.close(PATIENCE)
    os.close(narrow.fd)
    assert narrow.ledger.live_count() == 200


def test_a_log_that_was_never_used_has_no_thread() -> None:
    before = threading.active_count()
    log = LegacyLog(fd=1)
    log.tick(1.0)
    assert threading.active_count() == before
    log.drain(0.0)
    log.close()
