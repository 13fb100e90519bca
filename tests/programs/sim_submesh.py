# SPDX-License-Identifier: Apache-2.0
"""Simulated T3K with two submeshes that hand out the same addresses as the mesh.

Driven as `python -m ttmem.demo.worker --truth` is.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

from ttmem import sim
from ttmem.sim import device as devices
from ttmem.sim import truth
from ttmem.sim.workloads.operations import matmul

PATIENCE = 120.0


def buffer(device: sim.AnyDevice, kind: sim.Kind, tag: str) -> sim.Buffer:
    return sim.create_buffer(sim.InterleavedBufferConfig(device, 1 << 20, 2048, kind), tag=tag)


def dataflow(borrowed: sim.Buffer) -> sim.SimProgram:
    """Dataflow buffers, one of them in the memory of a tensor, and a scratchpad; kernels on two groups of cores."""
    program = sim.SimProgram("dataflow")
    rows, core = [sim.CoreRange(0, 0, 7, 1)], [sim.CoreRange(3, 1, 3, 1)]
    program.add_dataflow_buffer(rows, 4096)
    program.add_dataflow_buffer(core, 1000)
    program.add_dataflow_buffer(rows, 2048, borrowed=borrowed)
    program.add_scratchpad(core, 512)
    program.add_kernel(sim.data_movement_kernel("reader", 3000), rows)
    program.add_kernel(sim.compute_kernel("compute", (500, 600, 700)), core)
    return program


def steps() -> Iterator[str]:
    with sim.create_mesh_device("t3k", system_dram=14 << 20) as mesh:
        whole = [buffer(mesh, kind, "whole") for kind in (sim.Kind.DRAM, sim.Kind.L1)]
        yield "mesh"
        left, right = mesh.create_submesh((2, 2)), mesh.create_submesh((2, 2), (0, 2))
        yield "submeshes"
        mine = [buffer(left, kind, "left") for kind in (sim.Kind.DRAM, sim.Kind.DRAM, sim.Kind.L1)]
        yield "left"
        others = [buffer(right, kind, "right") for kind in (sim.Kind.DRAM, sim.Kind.DRAM, sim.Kind.L1)]
        yield "right"
        mesh.run("matmul", lambda: matmul("matmul", mesh.grid))
        left.run("dataflow", lambda: dataflow(mine[2]))
        right.run("matmul", lambda: matmul("matmul", right.grid))
        yield "programs"
        left.close()
        yield "left closed"
        others[0].deallocate()
        yield "one of right freed"
        right.close()
        yield "right closed"
        whole[0].deallocate()
        yield "one of the mesh freed"


def main() -> None:
    client = devices.default_tracker().client
    for did in steps():
        line = {
            "did": did,
            "held": False,
            "applied": client.flush(PATIENCE),
            "truth": {chip_id: held.json() for chip_id, held in truth.held(devices.opened()).items()},
        }
        print(json.dumps(line), flush=True)
        sys.stdin.readline()
    client.flush(PATIENCE)


if __name__ == "__main__":
    main()
