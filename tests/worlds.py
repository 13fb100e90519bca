# SPDX-License-Identifier: Apache-2.0
"""Machines of 0, 1, 4 and 32 chips with minutes of a workload on them, and the server that was told of it.

    World(4).picture  # a snapshot
    World(4).get("/cores?chip=880001")

The server is the real one, its routes over a real account, without sockets and at a time that stands still.
"""

from __future__ import annotations

import asyncio
import json
import math
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from tests import snapshots
from tests.support import StoppedClock, answered, api_over
from ttmem.account.entities import Source
from ttmem.account.ledger import Ledger
from ttmem.documents import unknown_rows as blank
from ttmem.documents.merge import merge
from ttmem.model.core_sets import CoreRange, mask_of
from ttmem.model.events import (
    Allocated,
    DeviceOpened,
    Event,
    Extra,
    Freed,
    Mark,
    PhaseBegan,
    PhaseEnded,
    ProcessExited,
    ProgramCompiled,
    ProgramRun,
)
from ttmem.model.geometry import BOARDS, Geometry
from ttmem.model.identity import ChipInfo, ProcessInfo
from ttmem.model.kinds import Confidence, Kind
from ttmem.server.event_stream import event_json
from ttmem.server.history import History

Json = Any
CHIPS = (0, 1, 4, 32)
NOW, TIME = 1_767_323_045.0, "2026-01-02T03:04:05.678901Z"
BOOTED = NOW - 23_045.0
KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
_LAST = 320  # seconds that the server has seen
_BOARDS = {1: "p150", 4: "n150", 32: "galaxy-wormhole"}
_SERVE = "python -m serve --model llama-3.1-8b --batch 32"
_STACK = "model.py:88 forward\nmodel.py:12 main"


class World:
    """A machine, its workload over some minutes, and the server that was told of it."""

    def __init__(self, chips: int) -> None:
        self.chips = chips
        self.ledger, self.history = Ledger(), History()
        self._events: list[Json] = []
        self._answers: dict[str, Json] = {}
        if not chips:
            why = "no ttmem server answers on /run/ttmem/ttmem.sock; start one with `ttmem serve`"
            sources: Json = [{"name": "server", "state": "not running", "detail": why}]
            self.snapshot = merge({**blank.snapshot(TIME, "box"), "sources": sources}, _no_driver())
            return
        self._seen = [self._chip(number) for number in range(chips)]
        self._live()
        about = {"pid": 99, "since": NOW - 4000, "version": "1.2.3", "clients": 2}
        self._api = api_over(self.ledger, about, history=self.history, clock=StoppedClock(NOW))
        self.snapshot = merge(self._account(), self._machine())

    def get(self, path: str) -> Json:
        """What the server says."""
        if path == "/events":
            return {"events": self._events[-500:], "lost": 0, "since": 0.0}
        if path not in self._answers:
            asked = urlsplit(path)
            self._answers[path] = asyncio.run(answered(self._api, asked.path, dict(parse_qsl(asked.query))))
        return self._answers[path]

    def _account(self) -> Json:
        """The snapshot, when the numbers of the physical L1 of all chips are there."""

        async def ask() -> Json:
            while True:
                snapshot: Json = await answered(self._api, "/snapshot", {})
                if all(chip["memory"]["l1"]["physical"]["used"] is not None for chip in snapshot["chips"]):
                    return snapshot

        snapshot = asyncio.run(ask())
        for process in snapshot["processes"]:
            process["user"] = {0: "root", 1000: "ann", 1001: "bob"}[process["user_id"]]
        return {**snapshot, "host": "box"}

    # -- the machine ---------------------------------------------------------------------------------------------

    def _chip(self, number: int, second: float = _LAST) -> Json:
        """As the driver shows it; the third is hot, and the fourth says nothing for a while."""
        board = _BOARDS[self.chips]
        heat = 51.0 + 9 * math.sin(second / 60 + number) + 9 * (number == 2)
        seen: Json = {
            "temperature_c": round(heat, 3),
            "power_w": round(heat * 0.6),
            "aiclk_mhz": 1000 if heat > 49 else 500,
        }
        if number == 3:
            seen |= {"state": "in reset", "age_s": 12.0, "alive": None}
        chip = snapshots.driver_chip(number, board, arch=_geometry(board).arch.label)
        return {**chip, "telemetry": {**snapshots.WELL, **seen}}

    def _machine(self) -> Json:
        """The workload, somebody whom nobody tracks, and counters that a dead process left."""
        last = self.chips - 1
        holders = [
            {**snapshots.holder(4711, *range(self.chips), start=2_240_000), "command": _SERVE},
            {**snapshots.holder(5003, last, start=1_200_000, user_id=1001, name="train"), "user": "bob"},
        ]
        shm = [snapshots.counters(_chip_id(last), snapshots.slot(77, 5 * GIB, 2 * MIB, state="dead"))]
        return snapshots.machine(*self._seen, processes=holders, shm=shm)

    # -- the workload --------------------------------------------------------------------------------------------

    def _apply(self, second: float, source: Source, *events: Event) -> None:
        time = NOW - _LAST + second
        for event in events:
            allocation = self.ledger.apply(time, source, event)
            self._events.append(json.loads(json.dumps(event_json(time, source, event, allocation))))

    def _live(self) -> None:
        board = _BOARDS[self.chips]
        geometry = _geometry(board)
        owners = ProcessInfo(4711, 2_240_000, 1000, "python", _SERVE), ProcessInfo(4802, 2_250_000, 1001, "bench")
        model = self.ledger.source(NOW - _LAST, owners[0], "agent", Confidence.EXACT)
        other = self.ledger.source(NOW - _LAST, owners[1], "client", Confidence.REPORTED)
        dead = self.ledger.source(NOW - _LAST, ProcessInfo(4242, 2_200_000, 0, "warmup"), "agent", Confidence.EXACT)
        for number in range(self.chips):
            info = ChipInfo(
                _chip_id(number), f"0000:{number + 1:02x}:00.0", number, geometry.arch, board, False, geometry
            )
            self._apply(0, model, DeviceOpened(number, info), *_weights(number, geometry.cores))
            if number == 0:
                self._apply(0, other, DeviceOpened(0, info), Allocated(0, Kind.DRAM, 0x9000_0000, 700 * MIB))
                self._apply(1, dead, DeviceOpened(0, info), Allocated(0, Kind.DRAM, 0xA000_0000, 64 * MIB))
                self._apply(9, dead, ProcessExited())
        self._apply(10, model, PhaseBegan(1, "prefill"), PhaseBegan(2, "attention", 1))
        for second in range(_LAST):
            if second == 120:
                self._apply(second, model, PhaseEnded(2), PhaseEnded(1), Mark("first token"), PhaseBegan(3, "decode"))
            for number in range(self.chips):
                self._apply(second, model, *_step(number, second, geometry.cores, geometry.grid_x, geometry.grid_y))
            if not 150 <= second < 190:  # the server was stopped
                seen = [self._chip(number, second) for number in range(self.chips)]
                self.history.sample(NOW - _LAST + second, self.ledger, seen)


def _geometry(board: str) -> Geometry:
    return BOARDS[board]._replace(live=True, l1_small_size=32 * KIB, trace_size=96 * MIB)


def _chip_id(number: int) -> str:
    return str(880001 + number)


def _no_driver() -> Json:
    sources = [{"name": name, "state": "absent", "detail": None} for name in ("sysfs", "processes", "shm")]
    return {**snapshots.machine(), "driver": {"version": None, "loaded": False}, "sources": sources}


def _weights(number: int, cores: int) -> list[Event]:
    """What the model has on each chip from the start."""
    out: list[Event] = []
    for layer in range(24):
        shape = "[1, 1, 4096, 14336] bfloat8_b tile"
        extra = Extra(112 * MIB, tag=f"layers.{layer}.mlp.w1", shape=shape, stack=_STACK)
        out.append(
            Allocated(number, Kind.DRAM, 0x1000_0000 + layer * 0x800_0000, 112 * MIB - layer * 4096, extra=extra)
        )
    out.append(Allocated(number, Kind.DRAM, 0x8000, 2 * GIB, extra=Extra(2 * GIB, tag="层.注意力.缓存")))
    out.append(Allocated(number, Kind.TRACE, 0xF000_0000, 40 * MIB, extra=Extra(40 * MIB, tag="decode trace")))
    out.append(Allocated(number, Kind.L1, 1_300_000, 96 * KIB * cores, extra=Extra(96 * KIB * cores, tag="kv_cache")))
    out.append(Allocated(number, Kind.L1_SMALL, 1_498_000, 1024 * cores, extra=Extra(1024 * cores, tag="halo")))
    out.append(Allocated(number, Kind.HOST, 0x100, 16 * MIB))
    return out


def _step(number: int, second: int, cores: int, across: int, down: int) -> list[Event]:
    """Programs are made in the first seconds and run in turn; activations come and go, in DRAM and in L1."""
    grid, upper = mask_of([CoreRange(0, 0, across - 1, down - 1)]), mask_of([CoreRange(0, 0, across - 1, down // 2)])
    programs = (
        (1, "ttnn::softmax", 64, grid),
        (2, "ttnn::matmul", 128 + 16 * (number % 3), upper),
        (3, "ttnn::conv2d", 860, grid),
    )
    out: list[Event] = []
    if second == 2:
        for ident, tag, kib, where in programs:
            out.append(ProgramCompiled(number, ident, 9000, 10 + ident, tag))
            for place, size in ((0, kib * KIB), (1, 16 * KIB)):
                at = 112_000 + place * kib * KIB
                extra = Extra(cores=where, tag=f"c_{place}")
                out.append(Allocated(number, Kind.CB, at, size * where.bit_count(), ident, extra=extra))
            extra = Extra(cores=where, tag="reader")
            out.append(Allocated(number, Kind.KERNEL, ident, 6000 * where.bit_count(), ident, extra=extra))
    if second > 2:
        run = programs[second % 2]
        out.append(ProgramRun(number, run[0], run[3]))
    held, had = _activation(number, second), _activation(number, second - 1) if second else 0
    if held != had:
        for kind, at, unit, name in (
            (Kind.DRAM, 0x2_0000_0000, 32 * MIB, "logits"),
            (Kind.L1, 1_150_000, KIB * cores, "activation"),
        ):
            if had:
                out.append(Freed(number, kind, at))
            if held:
                out.append(
                    Allocated(
                        number, kind, at, held * unit, extra=Extra(held * unit, tag=f"{name}.{second}", stack=_STACK)
                    )
                )
    return out


def _activation(number: int, second: int) -> int:
    """Goes up in steps and falls back to nothing."""
    return 16 * ((second // 8 + number) % 8)
