# SPDX-License-Identifier: Apache-2.0
"""The HTTP API on its socket, and the metrics page on TCP."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests import machines
from tests.schema_conformance import problems
from tests.support import PATIENCE, ROOT, LegacyClient, Server, answered, api_over, not_none, wait_until
from ttmem.account.ledger import Ledger
from ttmem.account.phases import phases_json
from ttmem.ingest import time_slices as slices
from ttmem.ingest.clock import Clock
from ttmem.model import schema
from ttmem.model.events import Allocated, Extra, PhaseBegan, PhaseEnded, ProcessExited
from ttmem.model.identity import ProcessInfo
from ttmem.model.kinds import KINDS, Confidence, Kind
from ttmem.server import routes_history as past
from ttmem.server.history import History
from ttmem.wire.api_client import ApiError

Legacy = Callable[..., LegacyClient]
MIB = 1 << 20


@pytest.fixture
def busy(server: Server, legacy: Legacy) -> LegacyClient:
    """A client that holds allocations of most kinds on two devices."""
    client = legacy(server)
    client.say("burst 50 0 4096 0 0x100000 4096", f"alloc 0 {8 * MIB} 1 0x200000", f"alloc 1 {2 * MIB} 0 0x100000")
    client.say("cb_alloc 0 2048 7", "kernel_load 0 57344 1 9", f"alloc 1 {3 * MIB} 4 0x900000", "free 1 0x900000")
    client.query(0)
    return client


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("ttmem")
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(30)
        self.sock.connect(self._path)


def test_keep_alive_head_and_wrong_requests(server: Server, busy: LegacyClient) -> None:
    connection = UnixConnection(server.api)
    for method, path, status in (
        ("GET", "/health", 200), ("HEAD", "/snapshot", 200), ("GET", "/nothing", 404), ("DELETE", "/snapshot", 405),
        ("GET", "/allocations?kind=cheese", 400), ("GET", "/allocations?limit=-1", 400),
        ("GET", "/allocations?chips=0", 400),
        ("GET", "/history?step=7", 400), ("GET", "/processes/99999999", 404), ("GET", "/dump?format=xml", 400),
        ("POST", "/peaks/reset", 200), ("GET", "/peaks?since=never", 400), ("GET", "/snapshot", 200),
    ):  # fmt: skip
        connection.request(method, path)
        answer = connection.getresponse()
        body = answer.read()
        assert answer.status == status, (path, body)
        if status >= 400:
            assert set(json.loads(body)) == {"error"}
    connection.close()
    assert "Traceback" not in server.err.read_text()


ANSWERS: dict[str, Any] = {
    "GET /health": schema.Health,
    "GET /snapshot": schema.Snapshot,
    "GET /processes": schema.Processes,
    "GET /processes/{pid}": schema.Processes,
    "GET /headroom": schema.Headroom,
    "GET /cores": schema.Cores,
    "GET /allocations": schema.Allocations,
    "GET /breakdown": schema.Breakdown,
    "GET /dump": schema.Dump,
    "GET /leaks": schema.Leaks,
    "GET /peaks": schema.Peaks,
    "POST /peaks/reset": schema.PeaksReset,
    "GET /phases": schema.Phases,
    "GET /history": schema.History,
}
NOT_JSON = {"GET /metrics", "GET /events"}


def test_every_answer_in_json_conforms_to_its_schema(server: Server, busy: LegacyClient) -> None:
    routes = {f"{route.method} {route.path}" for route in api_over(Ledger(), {}).routes}
    assert ANSWERS.keys() == routes - NOT_JSON
    for route, wanted in ANSWERS.items():
        method, path = route.replace("{pid}", str(busy.pid)).replace("/cores", "/cores?chip=assumed:0").split()
        assert problems(server.get(path, method), wanted) == [], route


def test_allocations_are_filtered_sorted_and_paged(server: Server, busy: LegacyClient) -> None:
    everything = server.get("/allocations?limit=1000")
    assert everything["matched"] == len(everything["allocations"]) == 54
    assert [t["size"] for t in everything["allocations"]] == sorted(
        (t["size"] for t in everything["allocations"]), reverse=True
    )
    assert server.get("/allocations?kind=dram")["matched"] == 51
    assert server.get("/allocations?kind=dram&device=1")["pools"] == {
        "dram": {"bytes": 2 * MIB, "per_chip": 2 * MIB, "chips": 1}
    }
    assert server.get(f"/allocations?min_size={MIB}")["matched"] == 2
    assert server.get(f"/allocations?pid={busy.pid}&kind=cb")["allocations"][0]["id"] == "0x7"
    assert server.get("/allocations?pid=1")["matched"] == 0
    oldest = server.get("/allocations?sort=oldest&limit=1")["allocations"][0]
    assert oldest["address"] == 0x100000
    pages = [server.get(f"/allocations?sort=newest&limit=20&offset={start}")["allocations"] for start in (0, 20, 40)]
    ids = [(*t["devices"], t["kind"], t["id"]) for page in pages for t in page]
    assert len(ids) == len(set(ids)) == 54
    by_kind = {kind: server.get(f"/allocations?kind={kind}")["matched"] for kind in ("dram", "cb", "dram,cb")}
    assert by_kind["dram,cb"] == by_kind["dram"] + by_kind["cb"] > by_kind["dram"]
    assert server.get(f"/allocations?pid=1,{busy.pid}")["matched"] == 54


def test_a_dump_is_filtered_and_lists_the_largest(server: Server, busy: LegacyClient) -> None:
    dump = server.get("/dump?kind=dram&limit=3")
    assert {entry["kind"] for group in dump["groups"] for entry in group["kinds"]} == {"dram"}
    for group in dump["groups"]:
        (entry,) = group["kinds"]
        assert len(entry["allocations"]) == min(3, entry["count"])
        sizes = [row["size"] for row in entry["allocations"]]
        listed = server.get(f"/allocations?kind=dram&device={group['devices'][0]}&limit=3")["allocations"]
        assert sizes == [row["size"] for row in listed]
    assert dump["total"] == server.get("/allocations?kind=dram")["matched"]
    assert [group["chips"] for group in server.get("/dump?chip=assumed:1")["groups"]] == [["assumed:1"]]
    assert server.get(f"/dump?pid={busy.pid}")["total"] == server.get("/dump")["total"]
    boxes = server.text("/dump?format=text&kind=cb&chip=assumed:0")
    assert "REMAINING ALLOCATED BUFFERS" in boxes
    assert "  CB: " in boxes
    assert "  DRAM: " not in boxes
    for query, words in (
        ("pid=1", "no process 1 has reported to the server"), ("chip=nope", "there is no chip 'nope'"),
        ("kind=dram,nope", "kind is one of dram, l1,"), ("pid=x", "pid must be a whole number"),
    ):  # fmt: skip
        with pytest.raises(ApiError, match=re.escape(words)):
            server.get(f"/dump?{query}")


def test_the_row_of_a_breakdown_leads_to_its_allocations() -> None:
    asked = Asked()
    source = asked.ledger.source(0.0, ProcessInfo(7, 1, user_id=0), "agent", Confidence.EXACT)
    for number in range(12):
        line, tag, shape = (f"/me/model.py:{number % 3} f", f"op {number % 2}", None if number % 4 else "[32] tile")
        kind = (Kind.DRAM, Kind.L1, Kind.HOST)[number % 3]
        extra = Extra(tag=tag if number else None, shape=shape, stack=line)
        asked.ledger.apply(0.0, source, Allocated(0, kind, (number + 1) << 12, 100 + number, extra=extra))
    for by in ("op", "line", "shape", "program", "kind"):
        for pool in asked.get("/breakdown", by=by)["pools"]:
            for row in pool["rows"]:
                found = asked.get("/allocations", **{"kind": ",".join(row["kinds"]), by: row[by] or ""})
                assert found["matched"] == row["count"], (by, row)
                sums = {name: row[name] for name in ("bytes", "per_chip", "chips")}
                assert found["pools"] == {pool["pool"]: sums}, (by, row)


def test_an_allocation_on_a_mesh_is_one_row_and_can_be_asked_for_on_one_chip() -> None:
    """Rows, counts and pages are allocations, whatever the number of chips; sums are labelled."""
    asked = Asked()
    source = asked.ledger.source(0.0, ProcessInfo(7, 1, user_id=0), "agent", Confidence.EXACT)
    mesh = tuple(range(32))
    for number in range(1, 41):
        extra = Extra(tag=f"op {number % 2}")
        asked.ledger.apply(0.0, source, Allocated(mesh, Kind.DRAM, number << 12, 100 * number, extra=extra))
    asked.ledger.apply(0.0, source, Allocated(5, Kind.DRAM, 99 << 12, 7, extra=Extra(tag="alone")))
    chips = [f"assumed:{number}" for number in mesh]
    everything = asked.get("/allocations", limit="10000")
    assert (everything["matched"], len(everything["allocations"])) == (41, 41)
    each = sum(100 * number for number in range(1, 41))
    assert everything["pools"] == {"dram": {"bytes": 32 * each + 7, "per_chip": each + 7, "chips": 32}}
    first, last = everything["allocations"][0], everything["allocations"][-1]
    assert (first["size"], first["chips"], first["other_chips"], first["devices"]) == (4000, chips, [], [*mesh])
    assert (last["size"], last["chips"]) == (7, ["assumed:5"])
    pages = [asked.get("/allocations", limit="10", offset=str(at))["allocations"] for at in range(0, 50, 10)]
    assert [row for page in pages for row in page] == everything["allocations"]

    one = asked.get("/allocations", chip="assumed:5", limit="10000")
    assert (one["matched"], one["pools"]) == (41, {"dram": {"bytes": each + 7, "per_chip": each + 7, "chips": 1}})
    others = [chip for chip in chips if chip != "assumed:5"]
    assert {tuple(row["chips"]) for row in one["allocations"]} == {("assumed:5",)}
    assert [row["other_chips"] for row in one["allocations"]] == [*[others] * 40, []]
    assert asked.get("/allocations", device="3", limit="1")["allocations"][0]["devices"] == [3]
    two = asked.get("/allocations", chip="assumed:1,assumed:5")
    assert (two["matched"], two["pools"]["dram"]["bytes"]) == (41, 2 * each + 7)

    (pool,) = asked.get("/breakdown", by="op", chip="assumed:5")["pools"]
    assert (pool["count"], pool["bytes"], pool["chips"], pool["other_chips"]) == (41, each + 7, 1, 31)
    (pool,) = asked.get("/breakdown", by="op")["pools"]
    assert (pool["count"], pool["bytes"], pool["per_chip"], pool["chips"]) == (41, 32 * each + 7, each + 7, 32)
    for row in pool["rows"]:
        assert asked.get("/allocations", op=row["op"])["matched"] == row["count"]
    assert [len(row["chips"]) for row in asked.get("/peaks")["peaks"] if row.get("kind") == "dram"] == [31, 1]


def test_peaks_name_what_was_live(server: Server, busy: LegacyClient, legacy: Legacy) -> None:
    peaks = {(*p["chips"], p.get("pool")): p for p in server.get("/peaks")["peaks"]}
    dram = peaks["assumed:1", "dram"]
    assert dram["per_chip"] == 5 * MIB  # trace lies in DRAM
    assert [(t["kind"], t["size"]) for t in dram["largest"]] == [("trace", 3 * MIB), ("dram", 2 * MIB)]
    own = {(*p["chips"], p.get("pool") or p["devices"][0]): p for p in server.get(f"/peaks?pid={busy.pid}")["peaks"]}
    assert own["assumed:1", "dram"]["per_chip"] == 5 * MIB
    other = legacy(server)
    other.say(f"alloc 1 {9 * MIB} 0 0x100000")
    other.query(1)
    other.kill()
    wait_until(lambda: not_none(server.process_of(other.pid))["state"] == "exited", "the death")
    dead = [p for p in server.get(f"/peaks?pid={other.pid}")["peaks"] if p.get("pool") == "dram"]
    assert [(p["per_chip"], [t["size"] for t in p["largest"]]) for p in dead] == [(9 * MIB, [9 * MIB])]
    chip = next(p for p in server.get("/peaks")["peaks"] if (p["chips"], p.get("pool")) == (["assumed:1"], "dram"))
    assert [t["size"] for t in chip["largest"]] == [9 * MIB, 2 * MIB]  # at that moment; one of them is dead by now
    server.get("/peaks/reset", "POST")
    recent = {(*p["chips"], p.get("pool")): p for p in server.get("/peaks?since=reset")["peaks"]}
    assert recent["assumed:1", "dram"]["per_chip"] == 2 * MIB


def test_history_keeps_the_highest_of_each_second(server: Server, busy: LegacyClient) -> None:
    def trace() -> list[dict[str, Any]]:
        return [s for s in server.get("/history?kind=trace")["series"] if s["max"]]

    series = wait_until(trace, "a sample")[0]
    assert max(series["max"]) == 3 * MIB  # it lived for microseconds
    assert series["last"][-1] == 0
    assert abs(series["time"][-1] - time.time()) < PATIENCE
    assert server.get("/history?step=10&chip=assumed:0&kind=l1")["series"][0]["last"][-1] == 8 * MIB


def test_events_are_streamed_and_slow_readers_lose(server: Server, legacy: Legacy) -> None:
    client = legacy(server)
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(30)
        sock.connect(server.api)
        sock.sendall(b"GET /events HTTP/1.1\r\nHost: x\r\n\r\n")
        stream = sock.makefile("rb")
        while not stream.readline().startswith(b": ttmem"):
            pass
        client.say("alloc 0 4096 1 0x1000", "free 0 0x1000")
        seen: list[Any] = []
        while len(seen) < 2:
            line = stream.readline()
            if line.startswith(b"data: "):
                seen.append(json.loads(line[6:]))
        assert [(e["event"], e["kind"], e["size"], e["pid"]) for e in seen] == [
            ("Allocated", "l1", 4096, client.pid), ("Freed", "l1", 4096, client.pid),
        ]  # fmt: skip
        client.say("burst 60000 0 4096 0 0x100000 64")  # the stream has no reader now
        client.query(0)
        lost = 0
        while not lost:
            line = stream.readline()
            if line.startswith(b"event: lost"):
                lost = json.loads(stream.readline()[6:])["count"]
        assert lost > 0
    assert server.snapshot()["server"]["lost_to_readers"] >= lost
    wait_until(lambda: client.query(0)["dram"] == 60000 * 4096, "the account, which lost nothing")


def test_metrics_are_what_prometheus_reads(serve: Callable[..., Server], legacy: Legacy) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = serve("--quiet", "--metrics", str(port))
    client = legacy(server)
    client.say(f"alloc 0 {MIB} 0 0x1000", "free 0 0x2000")
    client.query(0)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", "/metrics")
    page = connection.getresponse().read().decode()
    values = {
        (s.name, tuple(sorted(s.labels.items()))): s.value
        for f in text_string_to_metric_families(page)
        for s in f.samples
    }
    where = (("chip", "assumed:0"), ("kind", "dram"))
    assert values["ttmem_used_bytes", where] == MIB
    assert values["ttmem_peak_bytes", where] == MIB
    assert values["ttmem_anomalies_total", (("name", "unknown_free"),)] == 1
    assert not any("pid" in dict(labels) for _, labels in values)
    connection.request("GET", "/metrics?pids=1")
    assert f'pid="{client.pid}"' in connection.getresponse().read().decode()
    connection.request("GET", "/snapshot")
    answer = connection.getresponse()
    assert (answer.status, b"only /metrics" in answer.read()) == (404, True)
    connection.close()
    listening = [line.split()[1] for line in Path("/proc/net/tcp").read_text().splitlines() if " 0A " in line]
    assert [where for where in listening if where.endswith(f":{port:04X}")] == [f"0100007F:{port:04X}"]  # loopback only


def test_a_port_that_is_taken_is_reported(serve: Callable[..., Server]) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        server = serve("--metrics", str(other.getsockname()[1]), wait=False)
        assert server.process.wait(30) == 1
    assert "cannot serve metrics on 127.0.0.1" in server.err.read_text()
    assert not os.path.exists(server.path)


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to act as another user")
def test_other_users_command_lines_and_tags_are_private(serve: Callable[..., Server], folder: Path) -> None:
    import grp

    from ttmem import AllocationClient

    machine = machines.n150(folder / "machine")
    machine.process(71234, name="train", command="train --token secret", user_id=1234, holds=[0])
    machine.process(71235, name="mine", command="mine --token own", user_id=65534, holds=[0])
    server = serve("--quiet", "--group", grp.getgrgid(os.getgid()).gr_name, "--machine", str(machine.root))
    client = AllocationClient(enabled=True, socket_path=server.path)
    client.report_allocation(device_id=0, size=4096, buffer_type="dram", buffer_id=1, tag="secret")
    assert client.flush(PATIENCE)
    assert not_none(server.process_of(os.getpid()))["command"]
    os.chmod(folder, 0o711)
    script = (
        "import os, socket, sys, json; from ttmem.wire.api_client import get; import encodings.ascii;"
        "os.setgroups([]); os.setgid(int(sys.argv[2])); os.setuid(65534);"
        "[print(get(p, socket_path=sys.argv[1]).decode()) for p in sys.argv[3:]]"
    )
    untracked = {p["pid"]: p["command"] for p in server.snapshot()["processes"] if p["state"] == "untracked"}
    assert untracked == {71234: "train --token secret", 71235: "mine --token own"}
    paths = ["/snapshot", "/processes", "/metrics?pids=1", "/allocations", "/dump", "/peaks"]
    command = [sys.executable, "-c", script, server.api, str(os.getgid()), *paths]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert answer.returncode == 0, answer.stderr
    snapshot = json.loads(answer.stdout.splitlines()[0])
    assert next(p for p in snapshot["processes"] if p["pid"] == os.getpid())["command"] is None
    shown = {p["pid"]: (p["name"], p["command"]) for p in snapshot["processes"] if p["state"] == "untracked"}
    assert shown == {71234: ("train", None), 71235: ("mine", "mine --token own")}
    assert '"size":4096' in answer.stdout
    assert "secret" not in answer.stdout
    client.close()


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to act as another user")
def test_a_user_resets_peaks_only_if_there_are_no_others(serve: Callable[..., Server], folder: Path) -> None:
    import grp

    from ttmem import AllocationClient

    server = serve("--quiet", "--group", grp.getgrgid(os.getgid()).gr_name)
    os.chmod(folder, 0o711)
    script = (
        "import os, socket, sys; import encodings.ascii, encodings.idna;"
        "os.setgroups([]); os.setgid(int(sys.argv[2])); os.setuid(65534);"
        "sock = socket.socket(socket.AF_UNIX); sock.connect(sys.argv[1]);"
        "sock.sendall(b'POST /peaks/reset HTTP/1.1\\r\\nHost: t\\r\\nConnection: close\\r\\n\\r\\n');"
        "print(sock.makefile().read())"
    )

    def reset() -> str:
        command = [sys.executable, "-c", script, server.api, str(os.getgid())]
        answer = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert answer.returncode == 0, answer.stderr
        return answer.stdout

    assert reset().startswith("HTTP/1.1 200")
    client = AllocationClient(enabled=True, socket_path=server.path)
    client.report_allocation(device_id=0, size=4096, buffer_type="dram", buffer_id=1)
    assert client.flush(PATIENCE)
    refused = reset()
    assert refused.startswith("HTTP/1.1 403")
    assert "only root and the user who runs the server may reset them" in refused
    client.close()


class Asked:
    """A server's routes over an account of the test, and the number of pauses while it answered."""

    def __init__(self) -> None:
        self.ledger = Ledger()
        about = {"pid": 1, "since": 0.0, "version": "", "clients": 0}
        self.history = History()
        self.api = api_over(self.ledger, about, history=self.history)
        self.turns = 0

    def get(self, path: str, **query: str) -> Any:
        async def answer() -> Any:
            others = asyncio.create_task(self._others())
            answer = await answered(self.api, path, query)
            others.cancel()
            return answer

        return asyncio.run(answer())

    async def _others(self) -> None:
        while True:
            self.turns += 1
            await asyncio.sleep(0)


def test_phases_are_gathered_without_holding_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked()
    for pid in (1, 2):
        source = asked.ledger.source(0.0, ProcessInfo(pid, 1), "client", Confidence.REPORTED)
        for device in range(40):
            for kind in KINDS:
                asked.ledger.apply(0.0, source, Allocated(device, kind, (kind + 1) << 12, 64))
        for ident in range(1, 6):
            asked.ledger.apply(0.0, source, PhaseBegan(ident, f"phase {ident}"))
            if ident > 2:
                asked.ledger.apply(0.0, source, PhaseEnded(ident))
    found = asked.get("/phases")
    expected = [phases_json(process) for process in asked.ledger.processes.values()]
    assert found == {"schema": "ttmem.phases/1", "processes": expected}
    rows = sum(len(entry["rows"]) for p in found["processes"] for entry in (*p["open"], *p["ended"]))
    assert rows == 2 * 5 * 40 * 17
    assert asked.turns >= rows // 500
    monkeypatch.setattr(past, "_MOST_ROWS", 40 * 17 + 1)
    less = asked.get("/phases")
    assert [process["left_out"] for process in less["processes"]] == [3, 5]
    assert less["processes"][0]["open"] == found["processes"][0]["open"]
    assert [less["processes"][1][state] for state in ("open", "ended")] == [[], []]


def test_the_dead_are_looked_through_without_holding_the_loop() -> None:
    asked = Asked()
    for pid in range(1, 31):
        source = asked.ledger.source(0.0, ProcessInfo(pid, 1), "client", Confidence.REPORTED)
        asked.ledger.apply(0.0, source, Allocated(0, Kind.DRAM, 0x1000, pid))
        asked.ledger.apply(0.0, source, ProcessExited())
    found = asked.get("/leaks")
    sizes = [(dead["pid"], dead["pools"]["dram"]["bytes"]) for dead in found["dead_process"]]
    assert sizes == [(pid, pid) for pid in range(30, 0, -1)]
    assert asked.turns >= 30


def test_many_allocations_are_put_in_order_without_holding_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked()
    source = asked.ledger.source(0.0, ProcessInfo(1, 1), "client", Confidence.REPORTED)
    sizes = [number * 7919 % 5003 + 1 for number in range(8000)]
    for number, size in enumerate(sizes):
        asked.ledger.apply(0.0, source, Allocated(0, Kind.DRAM, (number + 1) << 12, size))
    monkeypatch.setattr(slices, "_TURN_SECONDS", 0.0)  # a pause after each step in which other work can run
    found = asked.get("/allocations", limit="5000", offset="2000")
    assert (found["matched"], found["pools"]) == (
        8000,
        {"dram": {"bytes": sum(sizes), "per_chip": sum(sizes), "chips": 1}},
    )
    assert [allocation["size"] for allocation in found["allocations"]] == sorted(sizes, reverse=True)[2000:7000]
    assert asked.turns >= 7000 + 5000, "each was put in order and described on its own"
    assert [t["size"] for t in asked.get("/allocations", sort="oldest", limit="10000")["allocations"]] == sizes


def test_a_long_past_is_told_without_holding_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked()
    monkeypatch.setattr(slices, "_TURN_SECONDS", 0.0)  # a pause after each step
    now = Clock().now() // 10 * 10
    names = [(f"chip{chip}", kind) for chip in range(20) for kind in ("cb", "dram", "l1")]
    for second in range(60):
        asked.history.fine.put(now - 60 + second, dict.fromkeys(names, (second, second + 5)))
    found = asked.get("/history", until=str(now))
    assert (found["step"], found["until"], found["left_out"]) == (1, now, 0)
    assert [(one["chip"], one["kind"]) for one in found["series"]] == sorted(names)
    for one in found["series"]:
        assert one["time"] == [now - 60 + second for second in range(60)]
        assert (one["last"], one["max"]) == ([*range(60)], [*range(5, 65)])
    assert asked.turns >= len(names), "each series was made on its own"
    chosen = asked.get("/history", until=str(now), chip="chip7", kind="l1")["series"]
    assert chosen == [one for one in found["series"] if (one["chip"], one["kind"]) == ("chip7", "l1")]
    assert asked.get("/history", chip="nobody")["series"] == []


def test_the_api_page_describes_every_route_and_parameter() -> None:
    routes = api_over(Ledger(), {}).routes
    page = (ROOT / "docs" / "api.md").read_text()
    documented = {
        match[1]: set(re.findall(r"^\| `(\w+)` \|", match[2], re.MULTILINE))
        for match in re.finditer(r"^### ((?:GET|POST) \S+)$(.*?)(?=^##|\Z)", page, re.MULTILINE | re.DOTALL)
    }
    assert documented == {f"{route.method} {route.path}": set(route.parameters) for route in routes}


def test_a_client_of_the_api_gets_clear_errors(server: Server, folder: Path) -> None:
    with pytest.raises(ApiError, match="there is no /nothing"):
        server.get("/nothing")
    server.stop()
    with pytest.raises(ApiError, match="start one with `ttmem serve"):
        server.get("/snapshot")
