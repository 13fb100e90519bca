# SPDX-License-Identifier: Apache-2.0
"""`ttmem.memory_allocated` and phases inside real ttnn programs, compared with ttnn, with each of the meters."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.mock.program import Program
from tests.mock.wheel import ROOT, wheel
from tests.support import Server, wait_until
from ttmem.agent import require

METERS = {"agent": "agent", "instrument": "client", "reporter": "reporter"}
DRAM, L1 = "dram", "l1"
NOW, RESERVED, PEAK, RESERVED_PEAK = range(4)
# Temporary allocations of the program: the tensors that are live at the peak of each phase.
TILES = {side: 2 * side * side for side in (64, 96, 128, 160, 256, 512)}
LOADED = {DRAM: TILES[256], L1: TILES[96]}
AT_MOST = {
    "load": LOADED,
    "decode": {DRAM: TILES[256] + TILES[512] + TILES[128], L1: TILES[96] + TILES[160] + TILES[64]},
    "attention": {DRAM: TILES[256] + TILES[128], L1: TILES[96] + TILES[160] + TILES[64]},
}
PATHS = {"load": "load", "decode": "decode", "attention": "decode/attention"}


def run(meter: str, board: str, folder: Path, server: Server, python: str = "3.12") -> Program:
    environment = {"TTMEM_SOCKET": server.path, "PYTHONPATH": str(ROOT / "src")}
    if meter == "agent":
        environment["LD_PRELOAD"] = str(require())
    return Program(wheel(python), "ttnn_memory", board, folder, "--meter", meter, environment=environment)


def reserved(record: dict[str, Any], kind: str) -> int:
    view = record["views"][kind.upper()]
    return int(view["banks"] * view["allocated_per_bank"])


def check_now(record: dict[str, Any]) -> None:
    """The bytes reserved by the allocator, on each chip and on all, equal ttnn's own numbers."""
    chips = record["chips"]
    for kind in ("dram", "l1", "l1_small", "trace"):
        each = [row[RESERVED] for row in record["said"][kind]]
        assert (record["what"], kind, each) == (
            record["what"], kind, [reserved(record, kind)] * len(chips) + [reserved(record, kind) * len(chips)],
        )  # fmt: skip
    for pool, kinds in (("dram_pool", ("dram", "trace")), ("l1_pool", ("l1", "l1_small"))):
        for row, parts in zip(record["said"][pool], zip(*(record["said"][kind] for kind in kinds))):
            assert row[RESERVED] == sum(part[RESERVED] for part in parts)


@pytest.mark.parametrize(
    ("meter", "board", "python"),
    [
        ("agent", "n150", "3.10"),
        ("instrument", "n150", "3.10"),
        ("agent", "t3k", "3.12"),
        ("instrument", "n300", "3.12"),
    ],
)
def test_a_meter_that_sees_every_allocation(meter: str, board: str, python: str, folder: Path, server: Server) -> None:
    ended: dict[str, dict[str, Any]] = {}
    with run(meter, board, folder, server, python) as program:
        for record in program.records():
            check_now(record)
            count = len(record["chips"])
            if record["what"] == "open":
                base = {kind: record["said"][kind] for kind in (DRAM, L1)}
                begin = {kind: base[kind][0][NOW] for kind in base}
            for kind in (DRAM, L1):
                for row, first in zip(record["said"][kind][:count], base[kind]):
                    assert row[NOW] - first[NOW] == record["held"][kind]
                    assert row[PEAK] >= row[NOW]
                    assert row[RESERVED_PEAK] >= row[RESERVED]
            if record["what"] == "reset":
                for rows in record["said"].values():
                    assert all((row[PEAK], row[RESERVED_PEAK]) == (row[NOW], row[RESERVED]) for row in rows)
            if record["what"] == "decoded":
                for kind in (DRAM, L1):
                    most = record["said"][kind][0][PEAK]
                    assert most == begin[kind] + AT_MOST["decode"][kind], "what phases saw is in the maximum, too"
            for one in record["ended"]:
                ended[one["name"]] = one
                assert one["meter"] == METERS[meter]
                for kind in (DRAM, L1):
                    began, peak, _, began_on_0, peak_on_0 = one["figures"][kind]
                    assert (began, peak) == (began_on_0 * count, peak_on_0 * count), "the chips do the same"
                    assert peak_on_0 == begin[kind] + AT_MOST[one["name"]][kind]
                    began_with = {"load": {DRAM: 0, L1: 0}, "decode": LOADED}.get(one["name"])
                    if began_with is not None:
                        assert began_on_0 == begin[kind] + began_with[kind]
            if record["what"] == "cleared":
                check_server(server, program.pid, ended)
        assert ended.keys() == AT_MOST.keys()
        assert f"by the {METERS[meter]}; peaks are exact" in record["summary"]


def check_server(server: Server, pid: int, ended: dict[str, dict[str, Any]]) -> None:
    """The server applied the same events: it has the same values for each phase on the first chip."""

    def known() -> dict[str, Any] | None:
        (found,) = server.get(f"/phases?pid={pid}")["processes"]
        paths = {entry["path"]: entry for entry in found["ended"]}
        return paths if paths.keys() == set(PATHS.values()) else None

    paths = wait_until(known, "all phases with the server")
    for name, path in PATHS.items():
        assert (paths[path]["runs"], paths[path]["partial"]) == (1, 0)
        for kind in (DRAM, L1):
            (row,) = (r for r in paths[path]["rows"] if r.get("kind") == kind and r.get("device") == 0)
            *_, began, peak = ended[name]["figures"][kind]
            assert (path, kind, row["last"]["begin"], row["last"]["peak"]) == (path, kind, began, peak)


@pytest.mark.parametrize("board", ["n150", "n300"])
def test_a_reporter_knows_what_it_sees(board: str, folder: Path, server: Server) -> None:
    """Allocated bytes are correct at every request; only peaks at the time of a sample are known."""
    with run("reporter", board, folder, server) as program:
        for record in program.records():
            check_now(record)
            for kind in (DRAM, L1):
                for row in record["said"][kind]:
                    assert row[NOW] == row[RESERVED]
                    assert row[PEAK] >= row[NOW]
            for one in record["ended"]:
                assert one["meter"] == "reporter"
                assert one["figures"][DRAM][0] is not None
            if record["what"] == "loaded":
                taken = reserved(record, "l1")
                chip = wait_until(partial(published, server, taken), "the views of the moment with the server")
                assert chip["reporter"]["inferred"] == taken, "nothing else tracks this program"
                assert chip["completeness"] == 0.0
        assert "by the reporter; peaks are only as sampled" in record["summary"]
        (found,) = server.get(f"/phases?pid={program.pid}")["processes"]
        assert {entry["path"] for entry in found["ended"]} == set(PATHS.values())


def published(server: Server, total: int) -> dict[str, Any] | None:
    for chip in server.snapshot()["chips"]:
        memory: dict[str, Any] = chip["memory"]
        if memory["reporter"]["total"] == total:
            return memory
    return None
