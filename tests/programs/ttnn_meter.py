# SPDX-License-Identifier: Apache-2.0
"""Programs that read the agent's meters from inside, and report them beside ttnn's account and their own.

A record has `readings`: [device, gauge, used, reserved, peak, reserved peak] each. `scene` chooses what happens.
"""

from __future__ import annotations

import argparse
import os
import random
import threading
from collections.abc import Callable, Mapping
from typing import Any

import ttnn
from ttnn_bench import Reporter, account, close_board, open_board, parser
from ttnn_random import Program

from ttmem.collect.agent_meter import AgentMeter
from ttmem.collect.meters import Reading

THREADS, EACH = 4, 25
DRAM, L1 = ttnn.DRAM_MEMORY_CONFIG, ttnn.L1_MEMORY_CONFIG
Readings = Mapping[tuple[int | None, str], Reading]


def rows(readings: Readings) -> list[list[Any]]:
    return [[*key, *reading] for key, reading in readings.items()]


def new(device: Any, memory: Any, side: int) -> Any:
    """Of side x side numbers of two bytes on each chip."""
    return ttnn.empty([1, 1, side, side], ttnn.bfloat16, ttnn.TILE_LAYOUT, device, memory)


def random_(report: Reporter, meter: AgentMeter, options: argparse.Namespace) -> None:
    """Everything ttnn can do, in small steps; now and then the peaks are reset."""
    device = open_board(options)
    program = Program(device, options.seed, threads=THREADS, trace_region_size=0)
    dice = random.Random(options.seed)
    for _ in range(options.steps):
        what, error = program.run()
        reset = dice.random() < 0.2
        readings = meter.read_and_reset() if reset else meter.read()
        report(what=what, error=error, reset=reset, readings=rows(readings), **account(device))
    readings = meter.read()
    meter.reset_peaks()
    report(what="reset", error=None, reset=True, readings=rows(readings), **account(device))
    program.live.clear()
    device.clear_program_cache()
    report(what="cleared", error=None, reset=False, readings=rows(meter.read()), **account(device))
    close_board(options, device)
    report(what="closed", error=None, reset=False, readings=rows(meter.read()))


def threads(report: Reporter, meter: AgentMeter, options: argparse.Namespace) -> None:
    """Many threads hold their tensors at the same time, at which no thread reads the meters."""
    device = open_board(options)
    report(what="before", readings=rows(meter.read_and_reset()))
    together = threading.Barrier(THREADS)

    def work() -> None:
        held = [new(device, memory, 32 * (1 + i % 3)) for i in range(EACH) for memory in (DRAM, L1)]
        together.wait()
        held.clear()

    workers = [threading.Thread(target=work) for _ in range(THREADS)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    held = sum(2 * (32 * (1 + i % 3)) ** 2 for i in range(EACH)) * THREADS
    report(what="after", held=held, readings=rows(meter.read()), **account(device))
    close_board(options, device)


def reopened(report: Reporter, meter: AgentMeter, options: argparse.Namespace) -> None:
    report(what="nothing yet", available=meter.available(), readings=rows(meter.read()))
    for turn in range(3):
        device = open_board(options)
        kept = [new(device, DRAM, 64), new(device, L1, 96)]
        kept.append(ttnn.relu(kept[0]))
        report(what=f"open {turn}", readings=rows(meter.read()), **account(device))
        close_board(options, device)
        report(what=f"closed {turn}", readings=rows(meter.read()))
        del kept
        report(what=f"forgotten {turn}", readings=rows(meter.read()))


def phases(report: Reporter, meter: AgentMeter, options: argparse.Namespace) -> None:
    """One begins before there is a device, one lies inside it, one ends when the device is gone."""
    report(what="outer began", readings=rows(meter.phase_began(1, "outer \N{SNOWMAN}", 0)))
    device = open_board(options)
    kept = new(device, DRAM, 64)
    passing = new(device, DRAM, 128)
    del passing
    report(what="inner began", readings=rows(meter.phase_began(2, "inner", 1)))
    passing = new(device, DRAM, 32)
    del passing
    report(what="inner ended", readings=rows(meter.phase_ended(2)))
    del kept
    close_board(options, device)
    report(what="outer ended", readings=rows(meter.phase_ended(1)))


def fork(report: Reporter, meter: AgentMeter, options: argparse.Namespace) -> None:
    """The child begins with nothing, in the phase that its parent was in."""
    device = open_board(options)
    kept = [new(device, DRAM, 64), new(device, L1, 64)]
    meter.phase_began(7, "around", 0)
    report(what="before", pid=os.getpid(), readings=rows(meter.read()))
    child = os.fork()
    if child == 0:
        code = 1
        try:
            report(what="child idle", pid=os.getpid(), available=meter.available(), readings=rows(meter.read()))
            own = new(device, L1, 128)
            del kept[0]
            report(what="child", pid=os.getpid(), readings=rows(meter.read()))
            del own
            report(what="child let go", pid=os.getpid(), readings=rows(meter.phase_ended(7)))
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    report(what="after", pid=os.getpid(), status=status, readings=rows(meter.read()))
    meter.phase_ended(7)
    close_board(options, device)


SCENES: dict[str, Callable[[Reporter, AgentMeter, argparse.Namespace], None]] = {
    function.__name__.rstrip("_"): function for function in (random_, threads, reopened, phases, fork)
}


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--scene", choices=SCENES, required=True)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--steps", type=int, default=100)
    chosen = options.parse_args()
    SCENES[chosen.scene](Reporter(chosen.report_fd, chosen.ack_fd), AgentMeter(), chosen)


if __name__ == "__main__":
    main()
