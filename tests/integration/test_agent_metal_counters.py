# SPDX-License-Identifier: Apache-2.0
"""Cases in which ttnn's shared-memory counters are wrong, compared with the agent.

Each test has both figures. If a later ttnn corrects a counter, the test fails and names the change.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.mock.program import Program
from tests.mock.wheel import statistics, wheel
from tests.support import Server, wait_until
from ttmem.agent import require

_TOTALS = struct.Struct("<5Q")  # DRAM, L1, L1_SMALL, TRACE, CB
_TOTALS_AT, _SLOTS_AT, _SLOTS = 48, 856, 64
_SLOT = struct.Struct("<i4x6Q64s")
_VERSIONS = (2, 3, 4)
CB = 3 * 4096 * 64  # what ttnn.add holds on n150: three buffers of two tiles on every core


class Stock(NamedTuple):
    """ttnn's counters of one chip."""

    l1: int
    cb: int
    pids: set[int]


def stock(program: Program) -> Stock:
    """Read them as any other process would."""
    content = statistics(program.board, program.chip_id_seed)[0].read_bytes()
    (version,) = struct.unpack_from("<I", content)
    assert version in _VERSIONS, f"the counters have a new layout: version {version}"
    _, l1, _, _, cb = _TOTALS.unpack_from(content, _TOTALS_AT)
    slots = (_SLOT.unpack_from(content, _SLOTS_AT + slot * _SLOT.size) for slot in range(_SLOTS))
    return Stock(l1, cb, {slot[0] for slot in slots if slot[0] > 0})


def changed(what: str) -> str:
    return f"a fact about ttnn has changed: {what}"


class Bench:
    """A server, and programs under the agent on the same chip."""

    def __init__(self, server: Server, folder: Path, python: str) -> None:
        self._server = server
        self._folder = folder
        self._python = python
        self._programs: list[Program] = []

    def start(self, *acts: str) -> Program:
        own = self._folder / str(len(self._programs))
        own.mkdir()
        program = Program(
            *(wheel(self._python), "ttnn_shm", "n150", own, "--acts", ",".join(acts)),
            environment={"LD_PRELOAD": str(require()), "TTMEM_SOCKET": self._server.path},
            chip_id_seed=self._programs[0].chip_id_seed if self._programs else None,
        )
        self._programs.append(program)
        return program

    def stop(self) -> None:
        for program in self._programs:
            program.__exit__(None, None, None)

    def l1(self) -> dict[str, Any]:
        l1: dict[str, Any] = self._server.chip(str(self._programs[0].chip_ids[0]))["l1"]
        return l1

    def says(self, true: Callable[[dict[str, Any]], bool], what: str) -> None:
        """The server reads its agents on request, for a few milliseconds: ask again if that was too short."""
        try:
            wait_until(lambda: true(self.l1()), what)
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.l1()}") from None

    def left_by(self, program: Program) -> int:
        """What a dead process held in L1 when it died."""
        process = self._server.process_of(program.pid)
        assert process is not None
        assert process["state"] == "exited"
        return sum(chip["l1"] for chip in process["chips"])


@pytest.fixture
def bench(server: Server, folder: Path) -> Any:
    bench = Bench(server, folder, "3.12")
    yield bench
    bench.stop()


def test_another_thread(bench: Bench) -> None:
    program = bench.start("allocate", "allocate_on_a_thread", "free_what_the_thread_allocated")
    records = program.records()
    size = next(records)["size"]
    assert stock(program).l1 == size
    bench.says(lambda l1: l1["buffers"] == size, "one buffer")
    assert next(records)["act"] == "allocate_on_a_thread"
    assert stock(program).l1 == size, changed("an allocation on another thread is counted")
    bench.says(lambda l1: l1["buffers"] == 2 * size, "two buffers")
    assert next(records)["act"] == "free_what_the_thread_allocated"
    assert stock(program).l1 == 0, changed("what another thread allocated is not subtracted when it is freed")
    bench.says(lambda l1: l1["buffers"] == size, "one buffer again")
    for record in records:
        assert record["act"] == "close"
        bench.says(lambda l1: l1["used"] == 0, "nothing")


def test_dataflow_buffers(bench: Bench) -> None:
    program = bench.start("allocate", "run_a_program_with_dataflow_buffers")
    records = program.records()
    next(records)
    assert next(records)["act"] == "run_a_program_with_dataflow_buffers"
    assert stock(program).cb == 0, changed("dataflow buffers are counted")
    bench.says(lambda l1: l1["dfb"] == {"held": 2 * 4096 * 64, "resident": 2 * 4096 * 64}, "two buffers on each core")
    assert bench.l1()["cb"]["held"] == 0


def test_circular_buffers_of_two_processes(bench: Bench) -> None:
    acts = ("allocate", "run_a_program_with_circular_buffers")
    first = bench.start(*acts)
    first_records = first.records()
    next(first_records)
    next(first_records)
    assert stock(first).cb == CB
    second = bench.start(*acts)
    second_records = second.records()
    next(second_records)
    next(second_records)
    assert stock(first).cb == CB, changed("circular buffers of several processes are added up")
    bench.says(lambda l1: l1["cb"]["held"] == 2 * CB, "circular buffers of both")
    for record in second_records:
        assert record["act"] == "close"
    assert stock(first).cb == 0, changed("circular buffers of the others outlive a process")
    bench.says(lambda l1: l1["cb"]["held"] == CB, "circular buffers of the first")
    bench.says(lambda l1: l1["buffers"] == 2 * 262144, "its tensor and its result")


def test_a_killed_process(bench: Bench) -> None:
    program = bench.start("allocate", "run_a_program_with_circular_buffers")
    records = program.records()
    size = next(records)["size"]
    next(records)
    bench.says(lambda l1: l1["buffers"] == 2 * size, "a tensor and a result")
    used = bench.l1()["used"]
    program.process.kill()
    program.process.wait()
    bench.says(lambda l1: l1["used"] == 0 and l1["cb"]["held"] == 0, "nothing")
    assert bench.left_by(program) == used > 2 * size
    after = stock(program)
    assert program.pid in after.pids, changed("a killed process is taken off the list")
    assert (after.l1, after.cb) == (2 * size, CB), changed("what a killed process held is subtracted")
    # The next process does not correct the counters, and is not misled by them here.
    other = bench.start("allocate")
    next(other.records())
    assert stock(program).l1 == 3 * size, changed("what a killed process held is subtracted by the next one")
    bench.says(lambda l1: l1["buffers"] == size, "the new one's buffer alone")
