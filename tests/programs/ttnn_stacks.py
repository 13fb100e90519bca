# SPDX-License-Identifier: Apache-2.0
"""Makes buffers from every kind of Python code and notes, at each call, what Python itself says of the place.

Each line is a scene: what was made in it, and is still there, with the operation as it was called, the frames of
Python's own stack (innermost first), the tensor's shape and its address. ttnn's own frames are not among them.
"""

from __future__ import annotations

import asyncio
import functools
import gc
import importlib.util
import os
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import ttnn
from ttnn_bench import Reporter, close_board, first_line, open_board, parser

RECURSION = 40
THREADS = 6
CALLS = 12
# A module whose names are no ASCII, and which is imported from a long path as well.
MODULE = """
def größe(note, make):
    note("ttnn.zeros", make(3))
    return [note("ttnn.zeros", make(4)) for 数 in range(1)]
class Modèle:
    def прямо(self, note, make): note("ttnn.zeros", make(5))
"""


def frames_from(frame: FrameType | None) -> list[tuple[str, int, str]]:
    found = []
    while frame is not None:
        found.append((frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name))
        frame = frame.f_back
    return found


class Scenes:
    """What all scenes need: a device, and a way to make tensors no two of which share a shape."""

    def __init__(self, device: Any) -> None:
        self.device = device
        self.kept: list[Any] = []
        self.noted: list[dict[str, Any]] = []
        self.lock = threading.Lock()
        self.first = self.make(1)
        self.second = self.make(2)

    def make(self, tiles: int, **more: Any) -> Any:
        return ttnn.zeros([1, 32 * tiles], dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=self.device, **more)

    def note(self, operation: str | None, tensor: Any, shaped: bool = True) -> Any:
        """Belongs on the line of the call: its frame's line is the call's. ``shaped``: the agent can know the shape."""
        frames = frames_from(sys._getframe(1))
        if operation == "ttnn.zeros":  # called by make(), which is a frame too; its line is the same each time
            frames = [(__file__, self.make.__code__.co_firstlineno + 1, "make"), *frames]
        return self.keep(operation, tensor, frames, shaped)

    def keep(self, operation: str | None, tensor: Any, frames: list[tuple[str, int, str]], shaped: bool = True) -> Any:
        with self.lock:
            self.kept.append(tensor)
            self.noted.append(
                {
                    "operation": operation,
                    "frames": frames,
                    "shape": list(tensor.shape) if shaped else None,
                    "dtype": tensor.dtype.name.lower(),
                    "layout": tensor.layout.name.lower(),
                    "address": tensor.buffer_address(),
                    "kind": tensor.memory_config().buffer_type.name.lower(),
                }
            )
        return tensor

    # -- functions of all kinds ------------------------------------------------------------------------------------

    def calls(self) -> None:
        note, a, b = self.note, self.first, self.second

        def nested(depth: int) -> None:
            def inner() -> None:
                note("ttnn.relu", ttnn.relu(a)) if depth == 0 else nested(depth - 1)

            inner()

        note("ttnn.add", ttnn.add(a, a))
        note("ttnn.add", a + a)
        nested(2)
        (lambda: note("ttnn.gelu", ttnn.gelu(b)))()
        [note("ttnn.exp", ttnn.exp(x)) for x in (a, b)]
        {i: note("ttnn.exp", ttnn.exp(x)) for i, x in enumerate((a, b))}
        sorted((a, b), key=lambda x: note("ttnn.sqrt", ttnn.sqrt(x)).buffer_address())
        for made in self.generated():
            note("ttnn.neg", ttnn.neg(made))
        self.deeper(RECURSION)
        Called(self)(a)
        decorated(self, a)
        asyncio.run(self.waiting())
        note("ttnn.relu", functools.partial(ttnn.relu, a)())
        note("ttnn.add", ttnn.add(a, a, memory_config=ttnn.L1_MEMORY_CONFIG))
        exec(compile('note("ttnn.relu", ttnn.relu(a))', "<made up>", "exec"), {**globals(), "note": note, "a": a})

    def generated(self) -> Iterator[Any]:
        for tensor in (self.first, self.second):
            yield self.note("ttnn.square", ttnn.square(tensor))

    def deeper(self, left: int) -> None:
        self.deeper(left - 1) if left else self.note("ttnn.sin", ttnn.sin(self.first))

    async def waiting(self) -> None:
        async def one(tensor: Any) -> None:
            await asyncio.sleep(0)
            self.note("ttnn.cos", ttnn.cos(tensor))
            await asyncio.sleep(0)
            self.note("ttnn.tan", ttnn.tan(tensor))

        await asyncio.gather(one(self.first), one(self.second))

    # -- where files lie, and what they are called -----------------------------------------------------------------

    def files(self, folder: Path) -> None:
        long = folder.joinpath(*("lång" * 25 for _ in range(5)))
        no_text = os.fsdecode(b"caf\xe9.py")
        for place, name in (
            (folder, "modül_ñ.py"),
            (folder / "with space", "two words.py"),
            (folder, no_text),
            *((long, "l" * length + ".py") for length in range(1, 5)),
        ):
            place.mkdir(parents=True, exist_ok=True)
            (place / name).write_text(MODULE, encoding="utf-8")
            spec = importlib.util.spec_from_file_location("module", place / name)
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            module.größe(self.note, self.make)
            module.Modèle().прямо(self.note, self.make)

    # -- ttnn's own ways -------------------------------------------------------------------------------------------

    def ways(self) -> None:
        note, a = self.note, self.first
        host = ttnn.from_device(a)
        note(None, host.to(self.device), shaped=False)  # a method of the tensor: no operation
        note("ttnn.to_device", ttnn.to_device(host, self.device))
        note(None, ttnn.Tensor([1.0] * 1024, [1, 1, 32, 32], ttnn.bfloat16, ttnn.TILE_LAYOUT, self.device), False)
        note(None, ttnn.relu.function(a), shaped=False)  # the binding itself
        note("ttnn.full", ttnn.full([3, 32], 2.0, dtype=ttnn.float32, layout=ttnn.ROW_MAJOR_LAYOUT, device=self.device))
        note("ttnn.to_layout", ttnn.to_layout(self.second, ttnn.ROW_MAJOR_LAYOUT))
        note("ttnn.to_memory_config", ttnn.to_memory_config(a, ttnn.L1_MEMORY_CONFIG))
        note("ttnn.typecast", ttnn.typecast(a, ttnn.bfloat8_b))
        wide = ttnn.zeros([1, 1, 32, 64], dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=self.device)
        for part in (frames := frames_from(sys._getframe())) and ttnn.split(wide, 32, 3):
            self.keep("ttnn.split", part, frames)
        for part in (frames := frames_from(sys._getframe())) and ttnn.sort(wide):
            self.keep("ttnn.sort", part, frames)
        note("ttnn.max", ttnn.max(wide, dim=3))
        into = note("ttnn.zeros", self.make(7))
        note("ttnn.relu", ttnn.relu(self.make(8)))
        ttnn.add_(into, into)  # in place: `into` stays what zeros made
        ttnn.relu(self.make(9))  # dropped at once
        mistakes: tuple[Callable[[], Any], ...] = (
            lambda: ttnn.matmul(a, None),
            lambda: ttnn.matmul(self.make(1), self.make(2)),
        )
        for wrong in mistakes:
            try:
                wrong()
            except Exception:
                pass
        note("ttnn.relu", ttnn.relu(self.make(10)))

    # -- without a Python caller -----------------------------------------------------------------------------------

    def uncalled(self) -> None:
        class Dying:
            def __del__(dying) -> None:
                self.note("ttnn.log", ttnn.log(self.first))

        dying = Dying()
        del dying
        cycle = Dying()
        cycle.itself = cycle  # type: ignore[attr-defined]
        del cycle
        gc.collect()
        seen: list[Any] = []

        def collecting(phase: str, info: dict[str, int]) -> None:
            if phase == "stop" and not seen:
                seen.append(phase)
                self.note("ttnn.floor", ttnn.floor(self.first))

        gc.callbacks.append(collecting)
        gc.collect()
        gc.callbacks.remove(collecting)
        assert seen

    # -- threads ---------------------------------------------------------------------------------------------------

    def threads(self) -> None:
        start = threading.Barrier(THREADS)

        def even(tensor: Any) -> None:
            start.wait()
            for _ in range(CALLS):
                self.note("ttnn.relu", ttnn.relu(tensor))

        def odd(tensor: Any) -> None:
            start.wait()
            for _ in range(CALLS):
                self.note("ttnn.neg", ttnn.neg(tensor))
                even_deeper(tensor)

        def even_deeper(tensor: Any) -> None:
            self.note("ttnn.abs", ttnn.abs(tensor))

        inputs = [self.make(20 + number) for number in range(THREADS)]
        for tensor in inputs:  # in older wheels two threads must not meet in a program that is not loaded yet
            [operation(tensor) for operation in (ttnn.relu, ttnn.neg, ttnn.abs)]
        threads = [threading.Thread(target=odd if i % 2 else even, args=(x,)) for i, x in enumerate(inputs)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    # -- programs --------------------------------------------------------------------------------------------------

    def compiled(self, turn: int) -> None:
        """One call that compiles; all of its program's parts are of this line, also of what finds it in the cache."""
        if turn == 0:
            self.note("ttnn.matmul", ttnn.matmul(self.square(), self.square()))
        elif turn == 1:
            self.note("ttnn.softmax", ttnn.softmax(self.square(), dim=-1))

    def square(self) -> Any:
        if not hasattr(self, "_square"):
            side = {"dtype": ttnn.bfloat16, "layout": ttnn.TILE_LAYOUT, "device": self.device}
            self._square = ttnn.zeros([96, 96], **side)
        return self._square


class Called:
    """An object that is called."""

    def __init__(self, scenes: Scenes) -> None:
        self.scenes = scenes

    def __call__(self, tensor: Any) -> None:
        self.scenes.note("ttnn.relu", ttnn.relu(tensor))


def decorator(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*arguments: Any) -> Any:
        return function(*arguments)

    return wrapper


@decorator
@decorator
def decorated(scenes: Scenes, tensor: Any) -> None:
    scenes.note("ttnn.relu", ttnn.relu(tensor))


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--folder", type=Path, required=True)
    chosen = options.parse_args()
    report = Reporter(chosen.report_fd, chosen.ack_fd)
    device = open_board(chosen)
    scenes = Scenes(device)
    scenes.square()
    report(scene="open", noted=[], programs=False)
    every: list[tuple[str, Callable[[], None]]] = [
        ("matmul", lambda: scenes.compiled(0)),
        ("softmax", lambda: scenes.compiled(1)),
        ("calls", scenes.calls),
        ("files", lambda: scenes.files(chosen.folder)),
        ("ways", scenes.ways),
        ("uncalled", scenes.uncalled),
        ("threads", scenes.threads),
    ]
    for name, scene in every:
        scenes.noted.clear()
        try:
            scene()
        except Exception as error:
            print(name, first_line(error))
            raise
        report(scene=name, noted=scenes.noted, programs=name in ("matmul", "softmax"), collecting=gc.isenabled())
    scenes.kept.clear()
    close_board(chosen, device)
    report(scene="close", noted=[], programs=False)


if __name__ == "__main__":
    main()
