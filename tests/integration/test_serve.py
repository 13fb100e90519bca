# SPDX-License-Identifier: Apache-2.0
"""The server as its operator sees it: log lines, signals, recordings, the machine it runs on."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support import PATIENCE, LegacyClient, Server, not_none, wait_until

Serve = Callable[..., Server]
Legacy = Callable[..., LegacyClient]


def _lines(server: Server, count: int) -> list[str]:
    """The log, once it has that many lines."""
    lines: list[str] = wait_until(
        lambda: len(t := server.log.read_text().splitlines()) >= count and t, f"{count} lines"
    )
    return lines


def test_log_lines_in_their_newest_form(serve: Serve, legacy: Legacy) -> None:
    server = serve()
    client = legacy(server)
    client.say("alloc 0 16777216 1 0x1a0000", "alloc 0 16777216 1 0x1a0000", "free 0 0x1a0000", "free 0 0x1a0000")
    client.say("free 0 0x77", "cb_alloc 2 208896 5", "cb_free 2 0 5", "alloc 1 64 2 0x40")
    client.say("kernel_load 0 917504 1 9", "kernel_load 0 94208 2 10", "kernel_unload 0 0 9")
    pid = client.pid
    assert _lines(server, 11) == [
        f"✓ [PID {pid}] Allocated 16777216 bytes of L1 on device 0 (buffer_id=0x1a0000)",
        f"✓ [PID {pid}] Allocated 16777216 bytes of L1 on device 0 (buffer_id=0x1a0000, ref_count=2)",
        f"✗ [PID {pid}] Freed buffer 0x1a0000 on device 0 (16777216 bytes, ref_count=1 remaining)",
        f"✗ [PID {pid}] Freed buffer 0x1a0000 on device 0 (16777216 bytes, FINAL)",
        f"⚠ [PID {pid}] Deallocation for unknown buffer 0x77 on device 0 (allocated before tracking started)",
        "✓ [CB_ALLOC] Device 2: +0.199219 MB (Total: 0.199219 MB)",
        "✗ [CB_FREE] Device 2: -0.199219 MB (Total: 0 MB)",
        f"✓ [PID {pid}] Allocated 64 bytes of SYSTEM_MEMORY on device 1 (buffer_id=0x40)",
        "✓ [KERNEL_LOAD] Fabric kernel on Device 0: +0.875 MB (Total: 0.875 MB)",
        "✓ [KERNEL_LOAD] Dispatch kernel on Device 0: +0.0898438 MB (Total: 0.964844 MB)",
        "✗ [KERNEL_UNLOAD] Fabric kernel on Device 0: -0.875 MB (Total: 0.0898438 MB)",
    ]
    client.kill()
    assert f"   ✓ Removed 1 buffers (6.10352e-05 MB) from PID {pid}" in _lines(server, 14)


def test_json_lines(serve: Serve, legacy: Legacy) -> None:
    server = serve("--log-format", "json")
    client = legacy(server)
    client.say("alloc 0 4096 1 0x1000", "alloc -5 1 0 1")
    line = json.loads(_lines(server, 1)[0])
    assert (line["event"], line["kind"], line["pid"], line["id"]) == ("allocated", "l1", client.pid, 0x1000)
    warning = wait_until(lambda: "device_id -5" in (t := server.err.read_text()) and t, "the warning")
    assert any(json.loads(w)["event"] == "warning" for w in warning.splitlines() if w.startswith("{"))


@pytest.mark.parametrize("options", [(), ("--stats",), ("--stats", "--quiet")])
def test_statistics_at_the_end_only_if_asked_for(options: tuple[str, ...], serve: Serve, legacy: Legacy) -> None:
    server = serve(*options)
    client = legacy(server)
    client.say("alloc 0 4096 1 0x1000")
    assert client.query(0)["l1"] == 4096
    assert server.stop() == 0
    log = server.log.read_text()
    assert ("Current Statistics:" in log) is ("--stats" in options)
    assert ("    L1: 4096 bytes (4 KB)" in log) is ("--stats" in options)


def test_a_server_that_is_asked_while_it_ends_says_nothing_about_it(serve: Serve) -> None:
    server = serve("--quiet", "--machine", "/")
    answered = threading.Event()

    def ask() -> None:
        """Keep several requests in flight until the connection ends."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            sock.connect(server.api)
            try:
                while True:
                    sock.sendall(20 * b"GET /snapshot HTTP/1.1\r\nHost: ttmem\r\n\r\n")
                    if not sock.recv(1 << 16):
                        return
                    answered.set()
            except OSError:
                return

    askers = [threading.Thread(target=ask) for _ in range(8)]
    for asker in askers:
        asker.start()
    assert answered.wait(PATIENCE)
    assert server.stop() == 0
    for asker in askers:
        asker.join(PATIENCE)
    assert server.err.read_text().splitlines() == [f"ttmem: serving {server.path}, API {server.api}"]


def test_a_flood_is_summarised_with_a_count(serve: Serve, legacy: Legacy) -> None:
    server = serve()
    client = legacy(server)
    client.say("burst 100000 0 4096 0 0x100000 64")
    assert client.query(0)["dram"] == 100_000 * 4096
    wait_until(lambda: "more events, not shown" in server.log.read_text(), "the summary")

    def accounted() -> int:
        lines = server.log.read_text().splitlines()
        shown = sum("Allocated" in line for line in lines)
        return shown + sum(int(line.split()[1]) for line in lines if "more events, not shown" in line)

    wait_until(lambda: accounted() == 100_000, "an account of every line")


def test_nobody_reading_the_log_stops_nothing(folder: Path, legacy: Legacy) -> None:
    reader, writer = os.pipe()
    server = Server(folder, wait=False)
    server.stop(signal.SIGKILL)
    server.process = subprocess.Popen(server.command, stdout=writer, stderr=subprocess.DEVNULL)
    os.close(writer)
    wait_until(server._up, "the start")
    client = legacy(server)
    client.say("burst 20000 0 4096 0 0x100000 64")  # far more than a pipe holds
    assert client.query(0)["dram"] == 20_000 * 4096
    os.close(reader)  # now even writing fails
    client.say("burst 20000 1 4096 0 0x100000 64")
    assert client.query(1)["dram"] == 20_000 * 4096
    assert server.stop() == 0


def test_sigusr1_prints_what_remains_and_sighup_is_harmless(serve: Serve, legacy: Legacy) -> None:
    server = serve("--quiet")
    client = legacy(server)
    client.say(
        "burst 143 0 2097152 1 0x100000 64", "alloc 0 32768 1 0x0005000300008000", "alloc 0 1000 1 0x0005000300010000"
    )
    client.say("cb_alloc 0 4096 0x19d60", "kernel_load 0 57344 1 9", "alloc 3 512 0 0x40")
    client.query(0)
    server.kill(signal.SIGHUP)
    server.kill(signal.SIGUSR1)
    text = wait_until(lambda: "complete." in (t := server.log.read_text()) and t, "the dump")
    for line in (
        "Total tracked allocations: 148", "Device 0:", "  L1: 143 buffers, 286 MB total",
        "  FIRMWARE: 1 buffers, 0.03125 MB total",
        f"    - Buffer 0x5000300008000: 32 KB (PID {client.pid}, ref_count=1) core (5,3) at 0x8000: firmware",
        f"    - Buffer 0x5000300010000: 0.976562 KB (PID {client.pid}, ref_count=1) core (5,3) at 0x10000: kernel",
        "    - large buffers (1 MiB and more): 143, 286 MB", "    - small buffers: 1, 0.03125 MB",
        "  CB: 1 circular buffers, 0.00390625 MB total", "  FABRIC_KERNEL: 1 kernels, 0.0546875 MB total", "Device 3:",
        "Total remaining buffers: 145",
    ):  # fmt: skip
        assert line in text.splitlines(), (line, text)
    assert server.text("/dump?format=text").splitlines()[:4] == text.splitlines()[1:5]
    assert server.process.poll() is None


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_end_is_clean_and_ends_with_statistics(serve: Serve, legacy: Legacy, number: int) -> None:
    server = serve("--stats")
    client = legacy(server)
    client.say("alloc 0 4096 0 0x1000")
    client.query(0)
    assert server.stop(number) == 0
    text = server.log.read_text()
    assert "📊 Current Statistics:" in text
    assert "    DRAM: 4096 bytes (4 KB)" in text
    assert "Active allocations: 1" in text
    assert "Traceback" not in server.err.read_text()


def _comparable(snapshot: dict[str, Any]) -> dict[str, Any]:
    """Without the numbers of the physical map, which a server computes from time to time, and a replay at its end."""
    for chip in snapshot["chips"]:
        del chip["memory"]["l1"]["physical"]
    return {key: snapshot[key] for key in ("schema", "chips", "processes", "anomalies")}


def _replay(path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ttmem", "replay", str(path), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_a_recording_folds_to_the_same_picture(serve: Serve, legacy: Legacy, folder: Path) -> None:
    from ttmem import AllocationClient
    from ttmem.model.identity import ChipInfo

    record = folder / "events.ttmem"
    server = serve("--quiet", "--record", str(record))
    client, victim = legacy(server), legacy(server, size=72)
    own = AllocationClient(enabled=True, socket_path=server.path)
    own.report_device_open(device_id=0, chip=ChipInfo("99", board="p150"))
    for other in (client, victim):
        other.say("burst 2000 0 4096 0 0x100000 4096", "free 0 0x100000", "free 0 0x100000", "cb_alloc 1 64 3")
        other.say("kernel_load 1 4096 2 77", "raw ff00ff", "alloc 0 100 1 0x5000300010000")
        other.query(0)
    own.report_allocation(device_id=0, size=77, buffer_type="l1", buffer_id=5, tag="héllo", reserved=128)
    assert own.flush(PATIENCE)
    halfway = server.snapshot()
    victim.kill()
    wait_until(lambda: not_none(server.process_of(victim.pid))["state"] == "exited", "the death")
    server.get("/peaks/reset", "POST")
    snapshot = server.snapshot()
    server.stop()
    for process in snapshot["processes"]:  # knowledge of the reader, not of the account
        process["user"] = None
    replayed = _replay(record, "--json", "--at", "end")
    assert replayed.returncode == 0, replayed.stderr
    assert _comparable(json.loads(replayed.stdout)) == _comparable(snapshot)
    earlier = json.loads(_replay(record, "--json", "--at", halfway["time"]).stdout)
    assert _comparable(earlier)["chips"] == _comparable(halfway)["chips"]
    assert "p150" in _replay(record, "--at", "end").stdout
    own.close(0)


def test_a_recording_cut_off_by_kill_9(serve: Serve, legacy: Legacy, folder: Path) -> None:
    record = folder / "events.ttmem"
    server = serve("--quiet", "--record", str(record))
    client = legacy(server)
    client.say("burst 30000 0 4096 0 0x100000 64")
    client.query(0)

    def has_events() -> bool:
        found = _replay(record, "--json", "--at", "end")
        return found.returncode == 0 and bool(json.loads(found.stdout)["chips"])

    wait_until(has_events, "the first events in the file")
    server.stop(signal.SIGKILL)
    whole = _replay(record, "--json")
    assert whole.returncode == 0
    used = json.loads(whole.stdout)["chips"][0]["memory"]["dram"]["used"]
    assert 0 < used <= 30_000 * 4096
    assert used % 4096 == 0
    with open(record, "r+b") as file:
        file.truncate(os.path.getsize(record) - 3)
    cut = _replay(record, "--json")
    assert cut.returncode == 0
    assert "at its end are not a complete block; what is readable is shown" in cut.stderr


def test_device_metadata_without_opening_a_device(folder: Path, serve: Serve, legacy: Legacy) -> None:
    """A machine in a folder: two boards in sysfs, whose device files must not be opened."""
    for number, (board, device) in enumerate((("n150", "0x401e"), ("p150a", "0xb140"))):
        pci = folder / f"sys/devices/pci0000:00/0000:0{number + 1}:00.0"
        pci.mkdir(parents=True)
        (pci / "device").write_text(device + "\n")
        entry = folder / f"sys/class/tenstorrent/tenstorrent!{number}"
        entry.mkdir(parents=True)
        (entry / "tt_card_type").write_text(board + "\n")
        (entry / "device").symlink_to(pci)
    for extra, totals in (([], (64 * 1499136, 110 * 1572864)), (["--noc-capacity"], (120 * 1499136, 204 * 1572864))):
        server = serve("--machine", str(folder), "--quiet", *extra)
        client = legacy(server)
        assert client.info(-1)["num_devices"] == 2
        first, second = client.info(0), client.info(1)
        assert (first["arch_type"], second["arch_type"]) == (2, 3)
        assert (first["total_l1_size"], second["total_l1_size"]) == totals
        assert (first["total_dram_size"], second["num_dram_channels"]) == (12 << 30, 8)
        assert second["dram_size_per_channel"] == 4278190080
        client.say("alloc 1 4096 0 0x1000")
        client.query(1)
        chips = {chip["chip"]: chip for chip in server.snapshot()["chips"]}
        assert chips["assumed:1"]["pci"] == "0000:02:00.0"
        assert chips["assumed:1"]["memory"]["dram"]["capacity"] == 8 * 4278190080
        assert chips["0000:01:00.0"]["memory"]["dram"]["used"] is None  # not reported: unknown, not 0
        assert len(chips) == 2
        client.kill()
        server.stop()


def test_descriptor_limit_is_raised(serve: Serve) -> None:
    import resource

    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    server = serve("--quiet", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard)))
    socks = [server.connect() for _ in range(200)]
    try:
        wait_until(lambda: server.get("/health")["clients"] == 200, "200 clients")
    finally:
        for sock in socks:
            sock.close()


def test_out_of_descriptors_clients_wait_and_nothing_breaks(serve: Serve) -> None:
    import resource

    server = serve("--quiet", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40)))
    socks: list[socket.socket] = [server.connect() for _ in range(60)]
    wait_until(lambda: "cannot accept more clients" in server.err.read_text(), "the shortage")
    for sock in socks:
        sock.close()
    wait_until(lambda: server._up() and server.get("/health")["clients"] == 0, "recovery")
    assert "Traceback" not in server.err.read_text()
