# SPDX-License-Identifier: Apache-2.0
"""A ttnn program that asks ttmem for its own memory and names phases, with the meter that `--meter` chooses.

A record has what ttmem answered by kind, ttnn's own account, what the tensors add up to, and the phases that ended.
`settle` is for a meter that sees frees only when it looks.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import ttnn
from ttnn_bench import Reporter, account, close_board, open_board, parser

import ttmem

DRAM, L1 = ttnn.DRAM_MEMORY_CONFIG, ttnn.L1_MEMORY_CONFIG
KINDS = ("dram", "l1", "l1_small", "trace", "dram_pool", "l1_pool")


class Scene:
    """Tensors by name, and what they were asked to be."""

    def __init__(self, report: Reporter, device: Any, settle: Callable[[], None]) -> None:
        self._report = report
        self._device = device
        self._settle = settle
        self.held: dict[str, tuple[Any, str, int]] = {}
        self.ended: list[dict[str, Any]] = []

    def new(self, name: str, memory: Any, side: int) -> None:
        """Of side x side numbers of two bytes on each chip."""
        tensor = ttnn.empty([1, 1, side, side], ttnn.bfloat16, ttnn.TILE_LAYOUT, self._device, memory)
        self.held[name] = (tensor, "dram" if memory is DRAM else "l1", 2 * side * side)

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        self._settle()
        with ttmem.phase(name) as phase:
            yield
            self._settle()
        self._over(phase)

    def _over(self, phase: ttmem.phase) -> None:
        figures = {
            kind: [phase.begin(kind), phase.peak(kind), phase.end(kind), phase.begin(kind, 0), phase.peak(kind, 0)]
            for kind in KINDS
        }
        self.ended.append({"name": phase.name, "meter": phase.meter, "figures": figures})

    def tell(self, what: str) -> None:
        self._settle()
        chips = list(self._device.get_device_ids())
        said = {
            kind: [
                [
                    *(ttmem.memory_allocated(device, kind), ttmem.memory_reserved(device, kind)),
                    *(ttmem.max_memory_allocated(device, kind), ttmem.max_memory_reserved(device, kind)),
                ]
                for device in (*chips, None)
            ]
            for kind in KINDS
        }
        held = {kind: sum(size for _, k, size in self.held.values() if k == kind) for kind in ("dram", "l1")}
        self._report(
            what=what, said=said, held=held, ended=self.ended, summary=ttmem.memory_summary(), **account(self._device)
        )
        self.ended = []


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--meter", choices=("agent", "instrument", "reporter"), required=True)
    chosen = options.parse_args()
    report = Reporter(chosen.report_fd, chosen.ack_fd)
    with contextlib.ExitStack() as stack:
        settle: Callable[[], None] = lambda: None  # noqa: E731
        if chosen.meter == "instrument":
            settle = stack.enter_context(ttmem.instrument()).poll
        device = open_board(chosen)
        if chosen.meter == "reporter":
            stack.enter_context(ttmem.MemoryReporter([device]))
        scene = Scene(report, device, settle)
        scene.tell("open")
        with scene.phase("load"):
            scene.new("weights", DRAM, 256)
            scene.new("cache", L1, 96)
        scene.tell("loaded")
        with scene.phase("decode"):
            scene.new("first", DRAM, 512)
            scene.new("second", DRAM, 128)
            del scene.held["first"]
            with scene.phase("attention"):
                scene.new("scores", L1, 160)
                scene.new("more", L1, 64)
                del scene.held["scores"]
            del scene.held["second"], scene.held["more"]
        scene.tell("decoded")
        ttmem.reset_peak_memory_stats()
        scene.tell("reset")
        scene.held["result"] = (ttnn.matmul(*[scene.held["weights"][0]] * 2), "dram", 2 * 256 * 256)
        scene.tell("computed")
        scene.held.clear()
        device.clear_program_cache()
        scene.tell("cleared")
        close_board(chosen, device)


if __name__ == "__main__":
    main()
