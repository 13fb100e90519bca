# SPDX-License-Identifier: Apache-2.0
"""The server's machine data: telemetry, holders and tt-metal's counters, in one snapshot with the account."""

from __future__ import annotations

import asyncio
import errno
import os
import re
import select
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests import machines, snapshots
from tests.counters import content, mapping, slot
from tests.mock.program import Program
from tests.mock.wheel import PYTHONS, statistics, wheel
from tests.support import LegacyClient, Server, wait_until
from tests.unit.test_processes import Screen
from ttmem.account.ledger import Ledger
from ttmem.account.state import Limits
from ttmem.agent import require
from ttmem.documents import unknown_rows as blank
from ttmem.model.events import Allocated, DeviceOpened
from ttmem.model.identity import ChipInfo, ProcessInfo
from ttmem.model.kinds import Confidence, Kind
from ttmem.model.units import human
from ttmem.server import current_snapshot
from ttmem.server import machine_poller as poller
from ttmem.show.smi_screen import render
from ttmem.sources import machine as machine_module
from ttmem.sources.machine import Machine
from ttmem.sources.process_lookup import start_and_state

Json = Any  # a document made by hand, or a part of one
Serve = Callable[..., Server]
Legacy = Callable[..., LegacyClient]


def row(server: Server, **wanted: Any) -> Json | None:
    """The chip that has these facts."""
    chips: list[Json] = server.snapshot()["chips"]
    return next((chip for chip in chips if all(chip[name] == value for name, value in wanted.items())), None)


def test_what_a_tracked_process_uses_of_the_host(serve: Serve, legacy: Legacy, folder: Path) -> None:
    """Its files are in the real /proc, independent of those of the driver."""
    server = serve("--machine", str(machines.n150(folder / "machine").root))
    client = legacy(server)
    client.say("alloc 0 4096 0 1000")

    def used() -> Json | None:
        found = [one for one in server.snapshot()["processes"] if one["pid"] == client.pid]
        return found[0] if found and found[0]["cpu_percent"] is not None else None

    process = wait_until(used, "two looks at the process")
    resident = next(
        int(line.split()[1]) * 1024
        for line in Path(f"/proc/{client.pid}/status").read_text().splitlines()
        if line.startswith("VmRSS")
    )
    assert process["rss"] == pytest.approx(resident, rel=0.5)
    assert 0 <= process["cpu_percent"] <= 100
    client.process.kill()
    client.process.wait()
    gone = wait_until(
        lambda: next((one for one in server.snapshot()["processes"] if one["state"] == "exited"), None), "its end"
    )
    assert (gone["cpu_percent"], gone["rss"]) == (None, None)


def test_the_machine_is_in_the_snapshot_and_followed(serve: Serve, folder: Path) -> None:
    machine = machines.t3k(folder / "machine")
    machine.process(4711, command="python model.py", user_id=1234, holds=[0, 2])
    server = serve("--machine", str(machine.root))
    snapshot = server.snapshot()
    assert [chip["pci"] for chip in snapshot["chips"]] == [f"0000:0{n}:00.0" for n in (1, 2, 3, 4)]
    assert snapshot["driver"] == {"version": "2.10.0", "loaded": True}
    assert [(source["name"], source["state"]) for source in snapshot["sources"]] == [
        ("server", "ok"), ("sysfs", "ok"), ("processes", "ok"), ("shm", "absent"),
    ]  # fmt: skip
    (process,) = snapshot["processes"]
    assert (process["pid"], process["state"]) == (4711, "untracked")
    assert process["holds"] == ["0000:01:00.0", "0000:03:00.0"]
    assert server.get("/processes?state=untracked")["processes"] == [process]

    machine.set(1, temp1_input=70500)
    wait_until(lambda: row(server, kmd=1)["telemetry"]["temperature_c"] == 70.5, "the warmer chip")  # type: ignore[index]
    machine.remove(3)
    gone = wait_until(
        lambda: (chip := row(server, kmd=3)) and chip["telemetry"]["state"] == "gone" and chip, "the loss"
    )
    assert gone["telemetry"]["age_s"] > 0
    assert any(note["chip"] == gone["chip"] and note["what"] == "chip-state" for note in server.snapshot()["notes"])
    machine.end(4711)
    wait_until(lambda: server.snapshot()["processes"] == [], "the end of the process")


def test_a_chip_that_hangs_stops_nobody(serve: Serve, folder: Path) -> None:
    machine = machines.n150(folder / "machine")
    machine.chip(1, "n150")
    machine.hang(1, "tt_aiclk")
    server = serve("--machine", str(machine.root))
    for temperature in (33000, 34000):
        machine.set(0, temp1_input=temperature)

        def both(now: float = temperature / 1000) -> bool:
            one, two = (chip["telemetry"] for chip in server.snapshot()["chips"])
            return bool(one["temperature_c"] == now and two["state"] == "hangs")

        wait_until(both, "the one that hangs beside the other one")
    server.stop()
    assert server.process.returncode == 0, "and it does not keep the server from ending"


def test_telemetry_for_prometheus(serve: Serve, folder: Path) -> None:
    machine = machines.dead_chip(folder / "machine")
    server = serve("--machine", str(machine.root))
    page = dict(line.rsplit(" ", 1) for line in server.text("/metrics").splitlines() if not line.startswith("#"))
    well, dead = '{chip="0000:01:00.0"}', '{chip="0000:02:00.0"}'
    assert float(page[f"ttmem_temperature_celsius{well}"]) == 51.187
    assert float(page[f"ttmem_power_watts{well}"]) == 18.0
    assert float(page['ttmem_clock_hertz{chip="0000:01:00.0",clock="ai"}']) == 1e9
    assert float(page['ttmem_chip_state{chip="0000:02:00.0",state="off the bus"}']) == 1.0
    assert f"ttmem_temperature_celsius{dead}" not in page
    assert float(page[f"ttmem_untracked_processes{well}"]) == 0.0


def test_a_server_that_is_not_to_look(serve: Serve) -> None:
    server = serve("--no-machine")
    assert [source["name"] for source in server.snapshot()["sources"]] == ["server"]


def test_the_slot_of_a_process_tells_which_chip_its_device_0_is(serve: Serve, folder: Path, legacy: Legacy) -> None:
    machine = machines.n150(folder / "machine")
    server = serve("--machine", str(machine.root))
    client = legacy(server)
    client.say("alloc 0 4096 0 0x1000")
    client.sync()
    assert row(server, chip="assumed:0")
    born = start_and_state(client.pid)
    assert born is not None
    started = machines.BOOTED + born[0] / machines.TICKS
    file = machine.shm_file(880077, content(slot(client.pid, 4096, updated=started + 9), number=0))
    machine.process(client.pid, name="legacy", start=born[0], holds=[0], maps=mapping(file))
    wait_until(lambda: row(server, chip="assumed:0") is None, "the chip's real name")
    known = row(server, chip="880077")
    assert known is not None
    assert known["memory"]["dram"]["used"] == 4096, "once, not from both"
    # What it holds counts after two samples with the same result.
    assert wait_until(lambda: row(server, chip="880077", joined_by="holder"), "its place")["pci"] == "0000:01:00.0"
    process = server.process_of(client.pid)
    assert process is not None
    assert (process["state"], process["chips"][0]["metal_id"]) == ("tracked", 0)


class Runs:
    """Real ttnn programs on one mock chip, with or without the agent."""

    def __init__(self, server: Server, folder: Path) -> None:
        self._server, self._folder = server, folder
        self.programs: list[Program] = []

    def start(self, *acts: str, agent: bool) -> Program:
        own = self._folder / str(len(self.programs))
        own.mkdir()
        program = Program(
            *(wheel(PYTHONS[0]), "ttnn_shm", "n150", own, "--acts", ",".join(acts)),
            environment={"LD_PRELOAD": str(require()), "TTMEM_SOCKET": self._server.path} if agent else {},
            chip_id_seed=self.programs[0].chip_id_seed if self.programs else None,
        )
        self.programs.append(program)
        return program

    @property
    def chip_id(self) -> str:
        return str(self.programs[0].chip_ids[0])


@pytest.fixture
def server(serve: Serve) -> Server:
    """A server that reads this machine, where ttnn leaves its counters."""
    return serve("--machine", "/")


@pytest.fixture
def runs(server: Server, folder: Path) -> Iterator[Runs]:
    found = Runs(server, folder)
    yield found
    for program in found.programs:
        program.__exit__(None, None, None)


def test_stock_ttnn_is_counted_by_its_own_counters_and_not_when_killed(server: Server, runs: Runs) -> None:
    program = runs.start("allocate", agent=False)
    size = next(program.records())["size"]
    chip = wait_until(lambda: row(server, chip=runs.chip_id), "the chip")
    wait_until(lambda: server.chip(runs.chip_id)["l1"]["buffers"] == size, "its bytes")
    process = server.process_of(program.pid)
    assert process is not None
    assert (process["state"], process["chips"][0]["source"]) == ("untracked", "shm")
    assert process["chips"][0]["kinds"]["l1"] == size
    assert chip["memory"]["confidence"]["exact"] == 0
    assert "dfb" in chip["memory"]["missing"]

    os.kill(program.pid, signal.SIGKILL)
    program.process.wait()

    file = statistics("n150", program.chip_id_seed)[0]
    wait_until(lambda: row(server, chip=runs.chip_id) is None, "its end: a mock chip is known from its counters alone")
    assert server.process_of(program.pid) is None
    assert file.exists()
    (note,) = [n for n in server.snapshot()["notes"] if n["what"] == "shm-stale" and n["chip"] is None]
    assert "of tt-metal belong" in note["text"], "one note for all such files"


def test_the_agent_is_believed_and_the_difference_said(server: Server, runs: Runs) -> None:
    program = runs.start("allocate", "allocate_on_a_thread", agent=True)
    records = program.records()
    size = next(records)["size"]
    wait_until(lambda: (server.process_of(program.pid) or {}).get("state") == "tracked", "the agent")
    wait_until(lambda: server.process_of(program.pid)["chips"][0]["shm"], "the counters")  # type: ignore[index]
    assert not [note for note in server.snapshot()["notes"] if note["what"] == "shm-differs"]

    next(records)
    note = wait_until(
        lambda: next((note for note in server.snapshot()["notes"] if note["what"] == "shm-differs"), None), "the note"
    )
    assert (note["pid"], note["chip"]) == (program.pid, runs.chip_id)
    share = server.process_of(program.pid)["chips"][0]  # type: ignore[index]
    assert (share["kinds"]["l1"], share["shm"]["l1"]) == (2 * size, size), "the counters miss the other thread"
    assert server.chip(runs.chip_id)["l1"]["buffers"] == 2 * size


def looks(server: Server, chip_id: str, count: int) -> Iterator[Json]:
    """Snapshots over this many samples of a chip whose counters change all the time."""
    seen: set[float] = set()

    def snapshot() -> Json:
        found = server.snapshot()
        chip = next((chip for chip in found["chips"] if chip["chip"] == chip_id), None)
        if chip is not None and chip["shm"] is not None:
            seen.add(chip["shm"]["updated"])
        # Other tests may run programs at the same time; the machine has one /dev/shm.
        here = [process for process in found["processes"] if chip_id in (share["chip"] for share in process["chips"])]
        return {**found, "processes": here}

    while len(seen) < count:
        yield snapshot()


def test_of_a_process_that_allocates_all_the_time_no_difference_is_said(server: Server, runs: Runs) -> None:
    """Counters and account are read one after the other, so they differ in some samples. This is not an error."""
    program = runs.start("come_and_go", agent=True)
    next(program.records())
    wait_until(lambda: (server.process_of(program.pid) or {}).get("state") == "tracked", "the agent")
    differed = False
    for snapshot in looks(server, runs.chip_id, 12):
        (process,) = [process for process in snapshot["processes"] if process["pid"] == program.pid]
        differed |= any(share["shm"] and share["kinds"].get("l1") != share["shm"]["l1"] for share in process["chips"])
        said = " ".join([*Screen(snapshot).rows(), render(snapshot)])
        assert "own counters say" not in said, said
    assert differed, "or the test shows nothing"


def test_a_difference_that_lasts_is_said_of_a_busy_process_too(server: Server, runs: Runs) -> None:
    program = runs.start("allocate_on_a_thread", "come_and_go", agent=True)
    records = program.records()
    size = next(records)["size"]
    next(records)
    for snapshot in looks(server, runs.chip_id, 100):
        if notes := [note for note in snapshot["notes"] if note["what"] == "shm-differs"]:
            break
    (note,) = notes
    assert (note["pid"], note["chip"]) == (program.pid, runs.chip_id)
    told = re.search(r"l1 (\S+ \S+) where (\S+ \S+) is tracked", note["text"])
    assert told is not None
    assert told.groups() in {(human(0), human(size)), (human(size), human(2 * size))}
    assert f"Note: {note['text']}"[:100] in " ".join(" ".join(Screen(snapshot).rows()).split())


def test_a_tracked_and_an_untracked_process_on_one_chip(server: Server, runs: Runs) -> None:
    tracked = runs.start("allocate", agent=True)
    size = next(tracked.records())["size"]
    untracked = runs.start("allocate", agent=False)
    next(untracked.records())
    wait_until(lambda: server.chip(runs.chip_id)["l1"]["buffers"] == 2 * size, "both")
    confidence = server.chip(runs.chip_id)["confidence"]
    assert confidence["reported"] >= size
    assert confidence["exact"] >= size
    states = {p["pid"]: p["state"] for p in server.snapshot()["processes"]}
    assert (states[tracked.pid], states[untracked.pid]) == ("tracked", "untracked")


def test_in_reset(folder: Path) -> None:
    """No plain file fails with ENODATA, so this one tests the source alone."""
    machine = machines.in_reset(folder)
    assert errno.ENODATA in machine.failing.values()
    with machines.failing_reads(machine):
        look = Machine(str(folder)).look()
    assert [chip["telemetry"]["state"] for chip in look["chips"]] == ["ok", "in reset"]


# -- difficul


class Beside:
    """A poller in this process, which samples often, and its warnings."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch, ledger: Ledger | None = None) -> None:
        monkeypatch.setattr(poller, "_PERIOD_SECONDS", 0.01)
        monkeypatch.setattr(current_snapshot, "_LATE_SECONDS", 0.5)
        self.warned: list[str] = []
        self.emitted: list[Any] = []
        self.current = current_snapshot.CurrentSnapshot(
            lambda user_id: lambda: blank.snapshot("now", "here"), machine=True, warn=self.warned.append
        )
        self.poller = poller.MachinePoller(
            str(root), ledger or Ledger(), lambda source, event: self.emitted.append(event), self.current
        )

    def run(self, *steps: Callable[[], Any]) -> None:
        """Wait for each of these conditions, one after the other, during sampling."""
        asyncio.run(self._run(steps))

    async def _run(self, steps: tuple[Callable[[], Any], ...]) -> None:
        await self.poller.start()
        try:
            for step in steps:
                await asyncio.to_thread(wait_until, step)
        finally:
            self.poller.stop()

    def states(self) -> dict[str, str]:
        snapshot = self.current.merged(0)()
        return {source["name"]: source["state"] for source in snapshot["sources"]}


WELL = {"sysfs": "ok", "processes": "ok", "shm": "absent"}
LATE = dict.fromkeys(WELL, "late")


@pytest.mark.parametrize("part", ["_telemetry", "_holders", "_counters"])
def test_whatever_fails_it_goes_on_and_says_so(part: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    beside = Beside(machines.n150(folder).root, monkeypatch)
    broken = getattr(beside.poller._machine, part)
    real = broken.look

    def fail(*arguments: Any) -> None:
        raise RuntimeError("the disk is on fire")

    def breaks() -> bool:
        broken.look = fail
        return True

    def heals() -> bool:
        broken.look = real
        return True

    beside.run(
        *(lambda: beside.states() == WELL, breaks, lambda: beside.states() == LATE),
        *(lambda: beside.warned, heals, lambda: beside.states() == WELL),
    )
    assert beside.warned == ["cannot read the machine: RuntimeError: the disk is on fire"], "once"


def test_a_first_look_that_fails_is_said(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    beside = Beside(machines.n150(folder).root, monkeypatch)
    monkeypatch.setattr(beside.poller._machine, "look", lambda: 1 // 0)
    beside.run(lambda: beside.states() == LATE and "ZeroDivision" in beside.warned[0])


@pytest.mark.parametrize("part", ["_resolve", "_chips_seen", "_emit"])
def test_what_fails_after_a_look_does_not_end_it(part: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    beside = Beside(machines.n150(folder).root, monkeypatch)
    looks: list[int] = []
    monkeypatch.setattr(beside.poller, part, lambda *arguments: looks.append(1 // 0))
    real = beside.poller._take

    def take(*arguments: Any) -> None:
        looks.append(1)
        real(*arguments)

    monkeypatch.setattr(beside.poller, "_take", take)
    beside.run(lambda: len(looks) > 3, lambda: beside.states() == WELL)
    assert len(beside.warned) <= 1


def test_a_chip_is_named_once_though_the_account_is_full(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger(Limits(chips=1))
    source = ledger.source(0.0, ProcessInfo(7, 100), "legacy", Confidence.REPORTED)
    ledger.apply(0.0, source, Allocated(0, Kind.DRAM, 1, 4096))
    beside = Beside(folder, monkeypatch, ledger)
    for _ in range(5):
        beside.poller._resolve(snapshots.machine(shm=[snapshots.counters(77, snapshots.slot(7, 4096))]))
    assert beside.emitted == [DeviceOpened(0, ChipInfo("77"))]


def test_a_snapshot_does_not_hold_up_the_server(serve: Serve, folder: Path) -> None:
    """Merging the data of a large machine takes a while: other requests are answered meanwhile."""
    machine = machines.galaxy(folder / "machine")
    pids = range(60_000, 60_064)
    paths = [machine.shm_file(880_000 + n, content(*[slot(pid, 5) for pid in pids], number=n)) for n in range(32)]
    for pid in pids:
        machine.process(pid, holds=range(32), maps="".join(map(mapping, paths)))
    server = serve("--machine", str(machine.root), "--quiet")
    assert {chip["memory"]["dram"]["used"] for chip in server.snapshot()["chips"]} >= {5 * 64}

    def overtaken() -> bool:
        """Whether a request after the one for a snapshot is answered before it."""
        with socket.socket(socket.AF_UNIX) as asking:
            asking.connect(server.api)
            asking.sendall(b"GET /snapshot HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
            server.get("/health")
            first = not select.select([asking], [], [], 0)[0]
            while asking.recv(1 << 20):
                pass
        return first

    # Not each time: the client may not be scheduled until the snapshot is made.
    assert any(overtaken() for _ in range(50)), "somebody was answered while a snapshot was made"


def test_numbers_dealt_out_anew(serve: Serve, folder: Path) -> None:
    """After a reset of both cards they come back in another order: each keeps its address and its telemetry."""
    machine = machines.n150(folder / "machine")
    machine.chip(1, "n150", temp1_input=70000)
    server = serve("--machine", str(machine.root))
    hot = row(server, kmd=1)
    assert hot is not None
    machine.remove(0)
    machine.remove(1)
    machine.chip(0, "n150", pci="0000:02:00.0", temp1_input=70000)
    machine.chip(1, "n150", pci="0000:01:00.0")
    machine.process(4711, holds=[0])
    moved = wait_until(lambda: row(server, pci="0000:02:00.0", kmd=0), "the new number")
    assert (moved["chip"], moved["telemetry"]["temperature_c"]) == (hot["chip"], 70.0)
    assert wait_until(lambda: server.process_of(4711), "its holder")["holds"] == [hot["chip"]]
    assert len(server.snapshot()["chips"]) == 2


def test_what_somebody_holds_counts_once_it_stays(folder: Path) -> None:
    """Chips are opened and closed one by one, and the kernel may be late."""
    laid = machines.n150(folder)
    laid.chip(1, "n150")
    laid.process(50, holds=[0, 1])
    seen = Machine(str(folder))
    settled = [{p["pid"]: p["settled"] for p in seen.look()["processes"]}]
    laid.process(51, holds=[0])
    settled += [{p["pid"]: p["settled"] for p in seen.look()["processes"]} for _ in range(2)]
    laid.holder(1, 51)
    settled += [{p["pid"]: p["settled"] for p in seen.look()["processes"]} for _ in range(2)]
    seen.close()
    both = {50: True, 51: True}
    assert settled == [{50: True}, {50: True, 51: False}, both, {50: True, 51: False}, both]


def test_everybodys_open_files_are_not_looked_through_each_time(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes long, and an old driver has no other way."""
    laid = machines.old_driver(folder)
    times = iter([0.0, 4.9, 5.0])
    monkeypatch.setattr(machine_module, "time", SimpleNamespace(monotonic=lambda: next(times)))
    seen = Machine(str(folder))
    found = [len(seen.look()["processes"])]
    laid.process(50, holds=[0])
    found += [len(seen.look()["processes"]) for _ in range(2)]
    seen.close()
    assert found == [0, 0, 1]


def test_a_chip_that_is_gone_leaves_no_doubt_who_holds_the_others(folder: Path) -> None:
    laid = machines.n150(folder)
    laid.chip(1, "n150")
    laid.process(50, holds=[0])
    seen = Machine(str(folder))
    seen.look()
    laid.remove(1)
    look = seen.look()
    seen.close()
    assert [chip["telemetry"]["state"] for chip in look["chips"]] == ["ok", "gone"]
    assert {source["name"]: source["state"] for source in look["sources"]} == WELL
