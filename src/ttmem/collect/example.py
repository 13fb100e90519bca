# SPDX-License-Identifier: Apache-2.0
"""A short scripted workload for the demo, reporting through the real client."""

from __future__ import annotations

import sys

from ttmem.account.geometry import BOARDS, Arch
from ttmem.account.grid import CoreRange, mask_of
from ttmem.account.identity import ChipInfo
from ttmem.collect.client import AllocationClient

_MIB = 1 << 20
_KIB = 1 << 10


def _open(client: AllocationClient, uid: str, board: str) -> None:
    geometry = BOARDS[board]._replace(live=True)
    client.report_device_open(device_id=0, chip=ChipInfo(uid, arch=Arch(geometry.arch), board=board, geometry=geometry))
    client.report_kernel_load(device_id=0, size=57344 * 16, kernel_id=1, kernel_type=1, tag="fabric router")
    client.report_kernel_load(device_id=0, size=47104 * 2, kernel_id=2, kernel_type=2, tag="dispatch")


def _program(client: AllocationClient, ident: int, cores: int, tiles: int, name: str) -> None:
    """A program with three circular buffers and a compute and a data-movement kernel on some cores."""
    count = cores.bit_count()
    for index in range(3):
        client.report_cb_allocation(
            device_id=0, size=tiles * 2048 * count, cb_id=105824 + index * tiles * 2048, program=ident, cores=cores,
            tag=f"{name} c_{index}",
        )  # fmt: skip
    client.report_kernel_load(device_id=0, size=22 * _KIB * count, kernel_id=ident << 8, program=ident, tag=name)
    client.report_program_run(device_id=0, program=ident, cores=cores)


def llama(client: AllocationClient) -> None:
    _open(client, "17716556166399396846", "p150")
    for layer in range(32):
        for index, size in enumerate((218 * _MIB, 96 * _MIB, 24 * _MIB)):
            address = 0x40000 + (layer * 4 + index) * 0x1000000
            client.report_allocation(
                device_id=0, size=size, buffer_type="dram", buffer_id=address, tag=f"layers.{layer}.weight.{index}"
            )
    grid = mask_of([CoreRange(0, 0, 10, 9)])
    for ident, name in enumerate(("rms_norm", "matmul_qkv", "sdpa_decode", "matmul_ff1"), start=10):
        _program(client, ident, grid, 24, name)
    for step in range(200):  # activations come and go; the peak is remembered
        for index in range(3):
            client.report_allocation(
                device_id=0, size=(2 + index) * _MIB, buffer_type="l1", buffer_id=1400000 - index * 70000,
                tag=f"activation {step}",
            )  # fmt: skip
        for index in range(2):
            client.report_deallocation(device_id=0, buffer_id=1400000 - index * 70000)
        client.report_deallocation(device_id=0, buffer_id=1400000 - 2 * 70000)
    client.report_allocation(device_id=0, size=40 * _MIB, buffer_type="trace", buffer_id=0xF0000000, tag="decode trace")
    client.report_allocation(device_id=0, size=8 * _MIB, buffer_type="l1", buffer_id=1300000, tag="kv cache shard")


def resnet(client: AllocationClient) -> None:
    _open(client, "4294967301", "n150")
    for layer in range(53):
        client.report_allocation(
            device_id=0, size=512 * _KIB * (1 + layer % 4), buffer_type="dram", buffer_id=0x200000 + layer * 0x400000,
            tag=f"conv{layer}.weight",
        )  # fmt: skip
    grid = mask_of([CoreRange(0, 0, 7, 7)])
    _program(client, 1, grid, 16, "conv2d")
    _program(client, 2, grid, 8, "maxpool")
    client.report_allocation(device_id=0, size=32 * _KIB, buffer_type="l1_small", buffer_id=1490000, tag="halo config")
    client.report_allocation(device_id=0, size=12 * _MIB, buffer_type="l1", buffer_id=1200000, tag="input")


def main(name: str) -> None:
    client = AllocationClient()
    {"llama": llama, "resnet": resnet}[name](client)
    applied = client.flush(10.0)
    print("ready" if applied else "no server", flush=True)
    sys.stdin.read()  # hold everything until the demo ends


if __name__ == "__main__":
    main(sys.argv[1])
