# SPDX-License-Identifier: Apache-2.0
"""Executes the commands of a test: allocates and frees buffers of any size, runs operations, reopens the device.

After each report it reads what to do next from the file command.json in its folder. A report has ttnn's error, if there
was one, and the address of a buffer that was made.
"""

from __future__ import annotations

import json
import sys
import types
from pathlib import Path
from typing import Any

import ttnn
from ttnn_bench import Reporter, parser

ELEMENT = 4
KERNEL = "void kernel_main() {}\n"


def cores(width: int, height: int) -> Any:
    return ttnn.CoreRangeSet({ttnn.CoreRange(ttnn.CoreCoord(0, 0), ttnn.CoreCoord(width - 1, height - 1))})


class Workload:
    """The device, and what was made on it."""

    def __init__(self) -> None:
        self.device: Any = None
        self.live: dict[tuple[str, int], Any] = {}
        self.inputs: list[Any] = []

    def open(self, ring: int = 0, **sizes: int) -> None:
        if ring:
            sizes["worker_l1_size"] = ttnn._ttnn.device.get_max_worker_l1_unreserved_size() - ring
        self.device = ttnn.open_device(device_id=0, **sizes)

    def close(self) -> None:
        self.live.clear()
        self.inputs.clear()
        ttnn.close_device(self.device)
        self.device = None

    def new(self, kind: str, per_bank: int, width: int = 0, height: int = 0) -> int:
        """A buffer of that many bytes in each bank; with a width sharded over so many cores, else interleaved."""
        where = getattr(ttnn.BufferType, kind)
        shards = layout = None
        if width:
            count, layout = width * height, ttnn.TensorMemoryLayout.HEIGHT_SHARDED
            shards = ttnn.ShardSpec(cores(width, height), [1, per_bank // ELEMENT], ttnn.ShardOrientation.ROW_MAJOR)
        else:
            count, layout = ttnn.get_memory_view(self.device, where).num_banks, ttnn.TensorMemoryLayout.INTERLEAVED
        spec = ttnn.TensorSpec(
            ttnn.Shape([count, per_bank // ELEMENT]), ttnn.uint32, ttnn.ROW_MAJOR_LAYOUT, layout, shards,
            buffer_type=where,
        )  # fmt: skip
        tensor = ttnn.allocate_tensor_on_device(spec, self.device)
        address = int(tensor.buffer_address())
        self.live[kind, address] = tensor
        return address

    def ring(self, cores: int, size: int) -> None:
        """A global circular buffer from the first core to the others, which is freed again."""
        coords = [ttnn.CoreCoord(number % 8, number // 8) for number in range(cores)]
        receivers = ttnn.CoreRangeSet([ttnn.CoreRange(coord, coord) for coord in coords[1:]])
        ttnn.create_global_circular_buffer(self.device, [(coords[0], receivers)], size)

    def free(self, kind: str, addresses: list[int]) -> None:
        for address in addresses:
            del self.live[kind, address]

    def clear(self) -> None:
        self.device.clear_program_cache()

    def run(self, name: str, **more: Any) -> None:
        getattr(self, f"_{name}")(**more)

    def _zeros(self, *shape: int, layout: Any = ttnn.TILE_LAYOUT, memory: Any = ttnn.DRAM_MEMORY_CONFIG) -> Any:
        return ttnn.zeros(list(shape), dtype=ttnn.bfloat16, layout=layout, device=self.device, memory_config=memory)

    def _add(self) -> None:
        a = self._zeros(1, 1, 256, 512)
        ttnn.add(a, a)

    def _add_of_other_shapes(self) -> None:
        ttnn.add(self._zeros(1, 1, 64, 64), self._zeros(1, 1, 96, 96))

    def _softmax(self) -> None:
        ttnn.softmax(self._zeros(1, 1, 1024, 1024), dim=-1)

    def _slice(self, width: int) -> None:
        """Rows without their first element, which keeps ttnn from cutting them into chunks."""
        rows = self._zeros(1, 1, 4, width + 1, layout=ttnn.ROW_MAJOR_LAYOUT)
        ttnn.slice(rows, [0, 0, 0, 1], [1, 1, 4, width + 1])

    def _concat(self, width: int) -> None:
        rows = self._zeros(1, 1, 2, width, layout=ttnn.ROW_MAJOR_LAYOUT)
        ttnn.concat([rows, rows], dim=2)

    def _layer_norm(self, width: int) -> None:
        ttnn.layer_norm(self._zeros(1, 1, 32, width))

    def _conv2d(self, channels: int = 32, size: int = 16) -> None:
        image = self._zeros(1, 1, size * size, channels, layout=ttnn.ROW_MAJOR_LAYOUT)
        weights = ttnn.zeros([channels, channels, 3, 3], dtype=ttnn.bfloat16, layout=ttnn.ROW_MAJOR_LAYOUT)
        ttnn.conv2d(
            input_tensor=image, weight_tensor=weights, device=self.device, in_channels=channels, out_channels=channels,
            batch_size=1, input_height=size, input_width=size, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1),
        )  # fmt: skip

    def _circular(self, sizes: list[int], width: int = 8, height: int = 8) -> None:
        """A program with circular buffers of these sizes and nothing else."""
        Path("empty.cpp").write_text(KERNEL)
        where = cores(width, height)
        buffers = [
            ttnn.CBDescriptor(
                total_size=size, core_ranges=where,
                format_descriptors=[
                    ttnn.CBFormatDescriptor(buffer_index=index, data_format=ttnn.bfloat16, page_size=size)
                ],
            )
            for index, size in enumerate(sizes)
        ]  # fmt: skip
        kernel = ttnn.KernelDescriptor(
            kernel_source="empty.cpp", core_ranges=where, compile_time_args=[], runtime_args=[],
            config=ttnn.ReaderConfigDescriptor(),
        )  # fmt: skip
        if not self.inputs:
            self.inputs = [self._zeros(32, 32), self._zeros(32, 32)]
        ttnn.generic_op(self.inputs, ttnn.ProgramDescriptor(kernels=[kernel], semaphores=[], cbs=buffers))


def main() -> None:
    options = parser(__doc__).parse_args()
    # ttnn looks for torch's tensors; the wheel does not bring torch, and after `import ttnn` nothing else wants it.
    sys.modules.setdefault("torch", types.SimpleNamespace(Tensor=type("Tensor", (), {})))  # type: ignore[arg-type]
    report = Reporter(options.report_fd, options.ack_fd)
    workload = Workload()
    report(error=None, result=None)
    while (command := json.loads(Path("command.json").read_text())) is not None:
        error = result = None
        try:
            result = getattr(workload, command.pop("act"))(**command)
        except RuntimeError as problem:
            error = str(problem)
        report(error=error, result=result)
    if workload.device is not None:
        workload.close()


if __name__ == "__main__":
    main()
