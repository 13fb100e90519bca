# SPDX-License-Identifier: Apache-2.0
"""What a record of a cached operation on a mesh costs a server, from an agent's ring into the account.

The ring is written by this program: allocate an output, run the programs, free it, over and over.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import Any

from tests.ring_memory import RingMemory

from ttmem.account.ledger import Ledger
from ttmem.ingest.rings import Rings
from ttmem.ingest.sink import Sink
from ttmem.ingest.sockets import TURN_SECONDS
from ttmem.model.identity import ProcessInfo
from ttmem.model.kinds import Confidence, Kind
from ttmem.wire.agent_ring import PROGRAM_FRAME, RAN, RingEvent

_LIVE = 1000
_OUTPUT, _FIRST_FRAME = _LIVE, 2000  # slots of the live table
_PARTS = (Kind.CB, Kind.KERNEL, Kind.FABRIC_KERNEL)
_WORKLOADS = 2  # that are launched in turn
_OPERATIONS = 2000  # of a block
_RECORDS = 3  # of an operation
RECORDS = _RECORDS * _OPERATIONS  # of a block
_SLOTS = 1 << 13
_BLOCKS = 4  # in a round
_PEER: Any = 1


class _Loop:
    """The memory of an agent with one mesh, and a reader of it."""

    def __init__(self, count: int, per_chip: bool) -> None:
        self.memory = RingMemory(slots=_SLOTS, table=4096, meshes=count + 1, chips=count)
        self._cores = self.memory.blob(b"\xff" * 8)
        self.memory.plain(chips=range(count), chip_ids=77000)
        ledger = Ledger()
        self._rings = Rings(Sink(ledger, now=time.monotonic))
        source = ledger.source(0.0, ProcessInfo(1, 1), "agent", Confidence.EXACT)
        self._rings.adopt(_PEER, source, os.dup(self.memory.fd))
        # With fabric and collective operations each chip has programs of its own; otherwise there is one for all.
        meshes = [self._part(chip) for chip in range(count)] if per_chip and count > 1 else [0]
        self._launches = [self._workload(number, meshes) for number in range(_WORKLOADS)]
        for slot in range(_LIVE):
            self.memory.append(RingEvent.ALLOCATED, slot, **self._buffer(slot))
        self._read()
        self.operations(1)
        assert self._rings.counts() == (self.memory.get("head"), 0)
        assert not ledger.anomalies
        assert sum(len(holding.programs) for holding in source.holdings.values()) == _WORKLOADS * len(meshes)

    def operations(self, looks: int) -> float:
        """CPU of a record, if they are read in so many looks."""
        return sum(self._some(_OPERATIONS // looks) for _ in range(looks)) / RECORDS

    def _some(self, count: int) -> float:
        for number in range(count):
            buffer = self._buffer(_LIVE + number)
            self.memory.append(RingEvent.ALLOCATED, _OUTPUT, **buffer)
            self.memory.append(RingEvent.RUN, time=_now(), **self._launches[number % _WORKLOADS])
            self.memory.append(RingEvent.FREED, _OUTPUT, **buffer)
        return self._read()

    def _read(self) -> float:
        began = time.process_time()
        while self._rings.follow(time.monotonic() + TURN_SECONDS):
            pass
        return time.process_time() - began

    def _part(self, chip: int) -> int:
        """A mesh of one chip within the mesh of all."""
        mesh = chip + 1
        self.memory.put_mesh(
            mesh, [{"banks": 12, "unit": 32}] * 5, turn=2, state=1, mesh_id=mesh, parent=0,
            chips=self.memory.chip_list([chip]), chip_count=1, arch=2,
        )  # fmt: skip
        self.memory.append(RingEvent.OPENED, mesh=mesh, time=_now())
        return mesh

    def _workload(self, number: int, meshes: list[int]) -> dict[str, int]:
        """A workload with a program on each of these meshes; returns what a launch of it says."""
        first = number * len(meshes)
        for index, mesh in enumerate(meshes):
            program, slot = 1 + first + index, _FIRST_FRAME + (first + index) * (1 + len(_PARTS))
            self.memory.append(
                RingEvent.PROGRAM, slot, time=_now(), kind=PROGRAM_FRAME, program=program, per_bank=1 + first,
                size=512, cores=self._cores, flags=RAN, mesh=mesh,
            )  # fmt: skip
            for part, kind in enumerate(_PARTS, 1):
                self.memory.append(
                    RingEvent.ALLOCATED, slot + part, time=_now(), kind=kind, program=program, size=4096,
                    address=4096 * part, cores=self._cores, mesh=mesh,
                )  # fmt: skip
        return {"program": 1 + first, "per_bank": 1 + first, "slot": _FIRST_FRAME + first * (1 + len(_PARTS))}

    def _buffer(self, number: int) -> dict[str, int]:
        return {
            "kind": Kind.L1 if number % 2 else Kind.DRAM, "size": 4096, "per_bank": 512, "layout": 0, "time": _now(),
            "address": (1 << 20) + 4096 * number,
        }  # fmt: skip


def _now() -> int:
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


def measure(chips: tuple[int, ...], rounds: int, looks: int) -> list[tuple[int, bool, list[float]]]:
    """For each number of chips, without and with programs of each chip, seconds of CPU of a record in each block.

    The records of a block are read in so many looks.
    """
    command = [sys.executable, "-m", "benchmarks.mesh_rings", ",".join(map(str, chips)), str(rounds), str(looks)]
    answer = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found: list[tuple[int, bool, list[float]]] = [tuple(row) for row in json.loads(answer.stdout)]
    return found


def _main(chips: list[int], rounds: int, looks: int) -> None:
    loops = {(count, per_chip): _Loop(count, per_chip) for count in chips for per_chip in (False, True)}
    found: list[tuple[int, bool, list[float]]] = [(count, per_chip, []) for count, per_chip in loops]
    for _ in range(rounds * _BLOCKS):
        for (_, _, times), loop in zip(found, loops.values(), strict=True):
            times.append(loop.operations(looks))
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    _main([int(text) for text in sys.argv[1].split(",")], int(sys.argv[2]), int(sys.argv[3]))
