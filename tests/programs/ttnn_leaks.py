# SPDX-License-Identifier: Apache-2.0
"""A program with steps that keeps memory in many ways, some of which are leaks. Each way has a shape of its own.

What leaks: `leak_every_step`, `leak_in_thread`, `leak_late`, `leak_seldom`. Everything else is meant to stay, or goes.
"""

from __future__ import annotations

import argparse
import contextlib
import threading
from collections import deque
from contextlib import AbstractContextManager
from typing import Any

import ttnn

LEAKS = {"leak_every_step": 2.0, "leak_in_thread": 1.0, "leak_late": 1.0, "leak_seldom": 0.25}  # how many per step


class Model:
    """Everything that a step does."""

    def __init__(self, device: Any) -> None:
        self.device = device
        self.kept: list[Any] = []
        self.list: list[Any] = []
        self.window: deque[Any] = deque(maxlen=8)
        self.weights = [self.weight(layer) for layer in range(12)]
        self.cache = self.kv_cache()

    def make(self, tiles: int) -> Any:
        return ttnn.zeros([1, 32 * tiles], dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=self.device)

    def weight(self, layer: int) -> Any:
        return self.make(20 + layer)

    def kv_cache(self) -> Any:
        return self.make(40)

    def leak_every_step(self) -> None:
        self.kept.append(self.make(1))
        self.kept.append(self.make(1))

    def leak_in_thread(self) -> None:
        self.kept.append(self.make(2))

    def leak_late(self) -> None:
        self.kept.append(self.make(3))

    def leak_seldom(self) -> None:
        self.kept.append(self.make(4))

    def warm_up(self) -> None:
        self.kept.append(self.make(5))

    def fill_list(self) -> None:
        self.list.append(self.make(6))

    def slide_window(self) -> None:
        self.window.append(self.make(7))

    def step(self, number: int, steps: int) -> None:
        hidden = ttnn.add(self.weights[0], self.weights[0])  # cached after the first time
        self.leak_every_step()
        thread = threading.Thread(target=self.leak_in_thread)
        thread.start()
        thread.join()
        if number >= steps * 2 // 3:
            self.leak_late()
        if number % 4 == 0:
            self.leak_seldom()
        if number < steps // 4:
            self.warm_up()
        if number % 20 == 19:
            self.list.clear()
        else:
            self.fill_list()
        self.slide_window()
        hidden.deallocate()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--phases", action="store_true", help="mark the steps")
    parser.add_argument("--sound", action="store_true", help="without the leaks")
    arguments = parser.parse_args()
    device = ttnn.open_device(device_id=0)
    model = Model(device)
    if arguments.sound:
        for name in LEAKS:
            setattr(model, name, lambda: None)
    for number in range(arguments.steps):
        with phase(arguments.phases):
            model.step(number, arguments.steps)
    ttnn.close_device(device)


def phase(wanted: bool) -> AbstractContextManager[Any]:
    if not wanted:
        return contextlib.nullcontext()
    import ttmem

    return ttmem.phase("step")


if __name__ == "__main__":
    main()
