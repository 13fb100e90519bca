# SPDX-License-Identifier: Apache-2.0
"""`ttmem dump --reports`: on files that ttnn writes while it runs, with a server, without one, and on damaged files."""

from __future__ import annotations

import json
import os
import shutil
import socket
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.mock.program import Program
from tests.mock.wheel import in_turn, wheel
from tests.runs import Ran, ttmem
from tests.support import PATIENCE, ROOT, Server, wait_until
from ttmem import AllocationClient
from ttmem.agent import require

SAMPLES = ROOT / "tests" / "data" / "memory_reports"
AMOUNTS = ("total", "allocated", "free", "largest_free")


@pytest.fixture
def nobody(folder: Path) -> str:
    return str(folder / "nobody.api.sock")


def dump(reports: Path | str, api: str, *options: str) -> Ran:
    return ttmem("dump", "--reports", str(reports), "--socket", api, *options)


def data(ran: Ran) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(ran.out)
    return found


def check(memory: dict[str, Any], view: dict[str, Any]) -> None:
    """A kind in a report, compared with ttnn.get_memory_view at the same moment."""
    assert memory["banks"] == (view["banks"] or None)
    assert memory["per_bank"] == {name: view[name] for name in AMOUNTS}
    if view["banks"]:
        assert memory["all_banks"] == {name: view[name] * view["banks"] for name in AMOUNTS}
    blocks = [[block["ident"], block["address"], block["size"], block["allocated"]] for block in memory["blocks"]]
    assert sorted(blocks) == sorted(view["blocks"])


@pytest.mark.parametrize(("board", "python"), in_turn(("n150", "n300")))
def test_what_ttnn_writes_is_what_its_memory_view_says(board: str, python: str, folder: Path, nobody: str) -> None:
    reports = folder / "logs" / "generated" / "reports"
    seen: dict[str, dict[str, Any]] = {}
    with Program(wheel(python), "ttnn_reports", board, folder) as program:
        for record in program.records():
            seen[record["prefix"]] = record["views"]
            found = {report["prefix"]: report for report in data(dump(reports, nobody, "--json"))["reports"]}
            (state,) = found[record["prefix"]]["states"]
            for kind, view in record["views"].items():
                check(state["memory"][kind], view)
    # Some reports of programs are only written when ttnn ends; those of the moments stay the same.
    ran = dump(reports, nobody, "--json")
    assert (ran.code, ran.err) == (0, "")
    found = {report["prefix"]: report for report in data(ran)["reports"]}
    assert set(found) == {"program_", *seen} == {"program_", "empty_", "full_", "holes_", ""}
    for prefix, views in seen.items():
        (state,) = found[prefix]["states"]
        for kind, view in views.items():
            check(state["memory"][kind], view)
    programs = found["program_"]["states"]
    assert len(programs) >= 2
    assert all(isinstance(state["program"], int) for state in programs)
    # The first program was compiled after its result was allocated, and nothing has changed since the holes.
    before, after = (seen[prefix]["l1"]["allocated"] for prefix in ("holes_", ""))
    assert before < programs[0]["memory"]["l1"]["per_bank"]["allocated"] <= after
    fragmented = found["holes_"]["states"][0]["memory"]["l1"]
    assert fragmented["fragmentation"] > 0.01
    assert found["empty_"]["states"][0]["memory"]["l1"]["fragmentation"] == 0


def test_without_a_server_is_no_error(nobody: str) -> None:
    ran = dump(SAMPLES, nobody)
    assert (ran.code, ran.err) == (0, "")
    text = ran.out.decode()
    assert "  l1       each of 64       1.3 MiB    32.0 KiB" in text
    assert "These reports contain buffers only." in text
    assert f"Completeness is not known: no ttmem server answers on {nobody.replace('.api', '')}" in text


@pytest.fixture
def client(server: Server) -> Iterator[AllocationClient]:
    client = AllocationClient(enabled=True, socket_path=server.path)
    yield client
    client.close(0)


def test_completeness_beside_a_server(server: Server, client: AllocationClient) -> None:
    assert (
        "Completeness is not known: the server tracks no process with a chip now."
        in dump(SAMPLES, server.api).out.decode()
    )
    client.report_allocation(device_id=0, size=1000, buffer_type="dram", buffer_id=4096, reserved=12 * 176128)
    client.report_allocation(device_id=0, size=1000, buffer_type="trace", buffer_id=8192, reserved=4096)
    client.report_allocation(device_id=0, size=1000, buffer_type="l1", buffer_id=4096, reserved=16 * 32768)
    client.report_cb_allocation(device_id=0, size=5000, cb_id=4096)
    assert client.flush(PATIENCE)
    found = data(dump(SAMPLES, server.api, "--json"))
    assert found["incomparable"] is None
    assert found["reports"][0]["completeness"] == {
        "dram": {"tracked": 12 * 176128, "reported": 12 * 176128, "share": 1.0},
        "l1": {"tracked": 16 * 32768, "reported": 64 * 32768, "share": 0.25},
        "l1_small": {"tracked": 0, "reported": 0, "share": 1.0},
    }
    assert (
        "completeness: dram 100 % (2.0 MiB tracked), l1 25 % (512.0 KiB tracked)"
        in dump(SAMPLES, server.api).out.decode()
    )


def test_the_agent_tracks_all_that_ttnn_reports(folder: Path, server: Server) -> None:
    environment = {"LD_PRELOAD": str(require()), "TTMEM_SOCKET": server.path}
    reports = folder / "logs" / "generated" / "reports"

    def shares(prefix: str) -> list[float | None]:
        found = {report["prefix"]: report for report in data(dump(reports, server.api, "--json"))["reports"]}
        return [kind["share"] for kind in found[prefix]["completeness"].values()]

    def tracked(prefix: str) -> bool:
        return shares(prefix) == [1.0, 1.0, 1.0]

    allocated = {}
    with Program(wheel("3.12"), "ttnn_reports", "n150", folder, environment=environment) as program:
        for record in program.records():
            prefix = record["prefix"]
            allocated[prefix] = record["views"]["l1"]["allocated"]
            if prefix != "empty_":  # nothing was allocated yet, so nothing is tracked
                wait_until(partial(tracked, prefix), "the server's account")
            if prefix == "holes_":
                assert shares("full_")[1] == allocated["holes_"] / allocated["full_"] < 1
    assert len(allocated) == 4


def test_what_answers_may_be_no_server(folder: Path) -> None:
    path = str(folder / "odd.api.sock")
    with socket.socket(socket.AF_UNIX) as odd:
        odd.bind(path)
        odd.listen()
        ran = dump(SAMPLES, path, "--json")  # it never answers
    assert ran.code == 0
    assert "does not answer within" in data(ran)["incomparable"]


def test_spoilt_files_are_named_and_the_others_shown(folder: Path, nobody: str) -> None:
    reports = folder / "reports"
    shutil.copytree(SAMPLES, reports)
    spoilt = reports / "after_memory_usage_summary.csv"
    spoilt.write_bytes(bytes(range(256)) * 50)
    (reports / "program_l1_usage_summary.csv").write_text("")
    ran = dump(reports, nobody)
    assert ran.code == 1
    assert len(ran.err.splitlines()) == 2
    assert f"ttmem dump: {spoilt}: line 1: expected ', Total Allocatable Size (B)" in ran.err
    assert "Traceback" not in ran.err
    assert ran.out.decode().count("  l1       each of 64 ") == 1
    as_data = dump(reports, nobody, "--json")
    assert as_data.code == 1
    assert [f"ttmem dump: {problem}" for problem in data(as_data)["problems"]] == as_data.err.splitlines()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: None, "No such file or directory"),
        (lambda path: path.write_text(""), "Not a directory"),
        (lambda path: path.mkdir(), "no memory reports in"),
    ],
)
def test_no_reports_at_all(make: Any, words: str, folder: Path, nobody: str) -> None:
    make(folder / "reports")
    ran = dump(folder / "reports", nobody)
    assert (ran.code, ran.out) == (1, b"")
    assert words in ran.err
    assert len(ran.err.splitlines()) == 1


def test_reports_or_kernels_not_both(nobody: str) -> None:
    assert dump(SAMPLES, nobody, "--kernels").code == 2


def test_a_folder_whose_name_is_no_text(folder: Path, nobody: str) -> None:
    reports = os.fsencode(folder) + b"/\xff"
    os.mkdir(reports)
    shutil.copyfile(os.fsencode(SAMPLES / "l1_usage_summary.csv"), reports + b"/l1_usage_summary.csv")
    ran = dump(os.fsdecode(reports), nobody)
    assert (ran.code, ran.err) == (0, "")
    assert "\\xff\n" in ran.out.decode()
