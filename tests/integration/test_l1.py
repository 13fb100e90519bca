# SPDX-License-Identifier: Apache-2.0
"""The physical L1 of every core: compared with ttnn, through the server's API, and in `ttmem l1`."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.agents import Collector, watched
from tests.mock.program import Program
from tests.sims import program, workload
from tests.support import PATIENCE, ROOT, Server, wait_until
from ttmem import AllocationClient
from ttmem.l1.core_map import CoreMapBuilder, L1Map, parted
from ttmem.l1.core_segments import Segment, has_data, segments
from ttmem.model.core_sets import CoreRange, cores_of, mask_of
from ttmem.model.geometry import BOARDS
from ttmem.model.identity import ChipInfo
from ttmem.model.kinds import Kind
from ttmem.wire.api_client import ApiError

Json = dict[str, Any]
GRID = mask_of([CoreRange(0, 0, 7, 7)])
N150 = BOARDS["n150"]._replace(live=True)
CLASH = re.compile(
    r"buffers in program \d+ clash with L1 buffers on core range \[(\d+)-(\d+) - (\d+)-(\d+)\]\. "
    r"L1 buffer allocated at (\d+) and static (?:circular|dataflow) buffer region ends at (\d+)"
)


# -- compared with ttnn -----------------------------------------------------------------------------------------------


class Oracle:
    """Compares the map of a chip with ttnn's own data in a record."""

    def __init__(self, collector: Collector, running: Program) -> None:
        self._collector = collector
        self._chip = str(running.chip_ids[0])
        self.seen: Counter[str] = Counter()

    def map(self) -> L1Map:
        self._collector.drain()
        chip = self._collector.ledger.chips[self._chip]
        assert chip.geometry is not None
        survey = CoreMapBuilder(chip, chip.geometry)
        for allocation in self._collector.ledger.allocations():
            survey.add(allocation)
        for _ in survey.finish():
            pass
        return survey.map

    def compare(self, record: Json) -> None:
        found = self.map()
        maps = {(core.x, core.y): [*segments(found, core)] for core in found.cores}
        assert not found.unplaced
        assert not found.overlaps
        ranges = map(parted, found.buffers)
        taken = sorted((int(found.allocations[number].kind), start, end - start) for start, end, number in ranges)
        assert taken == [tuple(block) for block in record["blocks"]]
        lowest = min((start for kind, start, _ in taken if kind == Kind.L1), default=found.geometry.l1_size)
        assert found.floor == lowest
        self._pages(found, maps, record["pages"])
        if record["placed"]:
            self._circular_buffers(maps, record["placed"])

    def _pages(self, found: L1Map, maps: dict[tuple[int, int], list[Segment]], pages: list[list[int]]) -> None:
        """Each page of a buffer is in a segment of that buffer on that core, and data segments contain pages."""
        with_data = set()
        for kind, address, x, y, start, end in pages:
            (segment,) = [segment for segment in maps[x, y] if segment.start <= start < segment.end]
            assert end <= segment.end
            assert [(int(allocation.kind), allocation.address) for allocation in segment.allocations] == [
                (kind, address)
            ]
            with_data.add((address, x, y))
            self.seen["pages"] += 1
        for allocation in (found.allocations[parted(one)[2]] for one in found.buffers) if pages else ():
            for core in found.cores:
                told = has_data(allocation, core, found.geometry.cores)
                if allocation.kind is Kind.L1 and told is not None:  # ttnn lists no pages of L1_SMALL
                    assert told == ((allocation.address, core.x, core.y) in with_data)
                    self.seen["data"] += 1

    def _circular_buffers(self, maps: dict[tuple[int, int], list[Segment]], placed: list[Any]) -> None:
        theirs: dict[tuple[int, int], set[tuple[int, int]]] = {}
        for address, size, ranges, shared in placed:
            for x, y in cores_of(mask_of(CoreRange(*one) for one in ranges)):
                ranges_here = theirs.setdefault((x, y), set())
                if not shared:
                    ranges_here.add((address, address + size))
        for core, expected in theirs.items():
            ours = {(segment.start, segment.end) for segment in maps[core] if segment.kind == "cb"}
            assert ours == expected, core
            self.seen["circular buffers"] += len(ours)

    def foresee(self) -> tuple[int, dict[tuple[int, int], int]]:
        """Before a cached program runs again: the floor, and the end of the program on each core."""
        found = self.map()
        return found.floor, {(core.x, core.y): core.worst.end for core in found.cores if core.worst is not None}


@pytest.mark.parametrize(("board", "seed", "python"), [("n150", 21, "3.10"), ("p150", 22, "3.12")])
def test_every_core_is_as_ttnn_says(board: str, seed: int, python: str, folder: Path) -> None:
    refusals = 0
    with watched(python, "ttnn_cores", board, folder, "--seed", str(seed), "--steps", "60") as (collector, running):
        oracle = Oracle(collector, running)
        for record in running.records():
            oracle.compare(record)
            if record["what"].endswith(" cached"):
                floor, ends = oracle.foresee()
            elif record["what"].endswith(" refused"):
                said = CLASH.search(record["error"])
                assert said is not None, record["error"]
                left, top, right, low, lowest, end = map(int, said.groups())
                assert lowest == floor
                assert {ends[core] for core in cores_of(mask_of([CoreRange(left, top, right, low)]))} == {end}
                found = oracle.map().core(left, top)
                assert found is not None
                assert found.worst is not None
                assert found.worst.headroom == lowest - end < 0
                refusals += 1
            else:
                assert record["error"] is None
    assert refusals == 5
    assert min(oracle.seen[what] for what in ("pages", "data", "circular buffers")) > 0


# -- through the server -----------------------------------------------------------------------------------------------


@pytest.fixture
def client(server: Server) -> Iterator[AllocationClient]:
    client = AllocationClient(enabled=True, socket_path=server.path)
    client.report_device_open(device_id=0, chip=ChipInfo("77", board="n150", geometry=N150))
    yield client
    client.close(0)


def a_program(client: AllocationClient, ident: int, tiles: int) -> None:
    client.report_cb_allocation(device_id=0, size=tiles * 2048 * 64, cb_id=105824, program=ident, cores=GRID)


def test_the_route(server: Server, client: AllocationClient) -> None:
    client.report_allocation(
        device_id=0, size=64 * 4096, buffer_type="l1", buffer_id=1400000, reserved=64 * 4096, tag="weights"
    )
    a_program(client, 5, 24)
    a_program(client, 6, 48)
    client.report_program_run(device_id=0, program=5, cores=GRID)
    assert client.flush(PATIENCE)
    found = server.get("/cores?chip=77")
    end = 105824 + 24 * 2048
    assert (found["grid"], len(found["cores"]), found["core"]) == ({"x": 8, "y": 8}, 64, None)
    assert (found["dispatch"][0], len(found["dispatch"]), found["harvested"]) == ({"x": 0, "y": 8}, 8, 8)
    assert (found["floor"]["address"], found["floor"]["owner"]["tag"]) == (1400000, "weights")
    assert found["used"] == 64 * (end + 4096)
    core = found["cores"][9]
    assert (core["x"], core["y"], core["used"], core["headroom"]) == (1, 1, end + 4096, 1400000 - end)
    assert found["programs"][core["program"]]["program"] == 5
    assert found["programs"][core["worst"]["program"]]["program"] == 6
    assert core["worst"]["headroom"] == 1400000 - 105824 - 48 * 2048
    detail = server.get("/cores?chip=77&core=1,1")["core"]
    kinds = [segment["kind"] for segment in detail["segments"]]
    assert kinds == ["firmware", "ring", "cb", "free", "l1", "free"]
    owner = detail["segments"][4]["owners"][0]
    assert (owner["pid"], owner["tag"], owner["size"]) == (os.getpid(), "weights", 64 * 4096)
    assert detail["top"]["program"] == 5


def test_the_snapshot_knows_it_and_says_how_old_it_is(server: Server, client: AllocationClient) -> None:
    client.report_allocation(device_id=0, size=64 * 4096, buffer_type="l1", buffer_id=1400000, reserved=64 * 4096)
    assert client.flush(PATIENCE)
    expected = {"used": 64 * (105824 + 4096), "max_core": 105824 + 4096, "headroom_min": 1400000 - 105824}

    def settled() -> bool:
        now = server.chip("77")["l1"]["physical"]
        return now["age_s"] == 0.0 and {key: now[key] for key in expected} == expected

    wait_until(settled, "the numbers of the physical L1")
    client.report_deallocation(device_id=0, buffer_id=1400000, buffer_type="l1")
    assert client.flush(PATIENCE)
    now = server.chip("77")["l1"]["physical"]
    assert now["age_s"] > 0 or now["used"] == 64 * 105824
    expected = {"used": 64 * 105824, "max_core": 105824, "headroom_min": 1499136 - 105824}
    wait_until(settled, "the numbers after a free")


@pytest.mark.parametrize(
    ("path", "answer"),
    [
        ("/cores", "chip is missing"),
        ("/cores?chip=1", "no tracked process has used chip '1'"),
        ("/cores?chip=77&core=8,0", "there is no core 8,0; the grid of this chip is 8 x 8"),
        ("/cores?chip=77&core=1", "core is X,Y"),
        ("/cores?chip=77&core=-1,2", "core is X,Y"),
        ("/cores?chip=77&core=1,2,3", "core is X,Y"),
        ("/cores?chip=77&row=1", "unknown parameter 'row'"),
    ],
)
def test_a_bad_question_gets_a_clear_answer(path: str, answer: str, server: Server, client: AllocationClient) -> None:
    assert client.flush(PATIENCE)
    with pytest.raises(ApiError, match=re.escape(answer)):
        server.get(path)


def test_a_chip_of_unknown_size(server: Server) -> None:
    client = AllocationClient(enabled=True, socket_path=server.path)
    client.report_allocation(device_id=0, size=10, buffer_type="l1", buffer_id=1400000)
    assert client.flush(PATIENCE)
    found = server.get("/cores?chip=assumed:0")
    assert (found["grid"], found["cores"]) == (None, [])
    assert "board" in found["why"]
    done = ttmem(server)
    assert "the size of its L1 is not known" in done.stdout
    client.close()


def test_sub_meshes_that_lie_on_each_other_are_reported(server: Server, folder: Path) -> None:
    """Mesh and submesh give out the same addresses: counted once physically, with a warning."""
    overlapped = 0
    with program(server, "sim_submesh", "t3k", folder) as running:
        for step in running.steps():
            for chip_id in step.chips:
                found = server.get(f"/cores?chip={chip_id}")
                size = found["l1"]["size"]
                assert all(core["used"] + core["free"] == size for core in found["cores"])
                taken = sum(
                    sum(core.get(kind, 0) for kind in ("l1", "l1_small"))
                    for core in step.chips[chip_id]["cores"].values()
                )
                lock_step = sum(core["used"] + core["overlap"] for core in found["cores"])
                parts = sum((core["end"] or found["l1"]["base"]) for core in found["cores"])
                assert lock_step >= taken
                assert lock_step <= taken + parts
                if found["overlaps"]:
                    overlapped += 1
                    assert "overlap" in found["warnings"][0]
    assert overlapped


# -- on the screen ----------------------------------------------------------------------------------------------------


def ttmem(server: Server, *arguments: str, columns: int = 100) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ttmem", "l1", "--socket", server.api, *arguments],
        env={**os.environ, "COLUMNS": str(columns), "LC_ALL": "C.UTF-8"},
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def test_the_command(server: Server, folder: Path) -> None:
    with workload(server, "clash", "p150", folder) as running:
        running.step_to("launched with blocks of 24 tiles")
        text = ttmem(server).stdout
        found = json.loads(ttmem(server, "--json", "--chip", "sim-p150-0").stdout)
        assert found["schema"] == "ttmem.cores/1"
        floor, end = found["floor"]["address"], found["cores"][0]["end"]
        assert f"lowest L1 buffer at {floor:#x}: L1 buffer of 114.9 MiB, activation" in text
        assert f"circular buffers end at {end:#x}: program" in text
        assert "matmul_24" in text
        assert f"({floor - end:,} B)" in text
        core = ttmem(server, "-d", "sim-p150-0", "--core", "3,2")
        assert re.search(rf"{floor:#x} +{found['l1']['size']:#x} .*L1 buffer +activation", core.stdout)
        for columns in (60, 61, 80, 200):
            plain = ttmem(server, "--core", "0,0", "--ascii", columns=columns).stdout
            assert plain.isascii()
            assert max(map(len, plain.splitlines())) <= columns
        for arguments, code, said in (
            (("-d", "sim-p150-9"), 1, "there is no chip 'sim-p150-9'"),
            (("--core", "40,1"), 1, "there is no core 40,1"),
            (("--core", "a"), 2, "'a' is not X,Y in logical coordinates"),
            (("--core", "1,-1"), 2, "'1,-1' is not X,Y"),
            (("--at", "5"), 2, "--at needs --file"),
            (("--bad",), 2, "unknown option or argument: --bad"),
        ):
            done = ttmem(server, *arguments)
            assert (done.returncode, said in done.stderr, done.stdout) == (code, True, "")
    server.stop()
    assert "start one with `ttmem serve" in ttmem(server).stderr
