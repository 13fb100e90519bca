# SPDX-License-Identifier: Apache-2.0
"""One process of a simulated workload, which runs step by step under the control of its parent.

After each step it waits until the server has applied its reports, prints a line of JSON about the step, and waits for a
line on its standard input. At the end of the input it closes its devices and exits. ``--truth`` adds what the devices
really hold.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from ttmem import sim
from ttmem.collect.memory_reporter import MemoryReporter
from ttmem.sim import device as devices
from ttmem.sim import truth
from ttmem.sim.workloads import HELD, WorkerPart, find

_FLUSH_SECONDS = 30.0
_LAST_SECONDS = 2.0  # limited, because the parent may have stopped the server


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m ttmem.demo.worker", description=__doc__)
    parser.add_argument("workload")
    parser.add_argument("--devices", default="n150")
    parser.add_argument("--part", type=int, default=0)
    parser.add_argument("--parts", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--truth", action="store_true")
    args = parser.parse_args(argv)
    steps = find(args.workload)(WorkerPart(args.devices, args.part, args.parts), args.rounds)
    client = devices.default_tracker().client
    for did in steps:
        MemoryReporter(devices.opened(), client=client, view=sim.get_memory_view).publish()
        line: dict[str, object] = {"did": did, "held": did == HELD, "applied": client.flush(_FLUSH_SECONDS)}
        line["launches"] = sum(device.launches for device in devices.opened())
        if args.truth:
            line["truth"] = {chip_id: held.json() for chip_id, held in truth.held(devices.opened()).items()}
        print(json.dumps(line), flush=True)
        if not sys.stdin.readline():
            steps.close()
            break
    client.flush(_LAST_SECONDS)
    return 0


if __name__ == "__main__":
    sys.exit(main())
