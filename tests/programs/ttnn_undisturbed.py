# SPDX-License-Identifier: Apache-2.0
"""Prints everything that tracking could disturb: references, collections, tracing, lifetimes.

With --fork a child does the same after its parent; with --exit the process ends with that code. What is printed is
the same each time. References to code are printed last and separately, because stored stacks keep the code alive.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
import weakref
from collections import Counter
from types import FrameType
from typing import Any

import ttnn
from ttnn_bench import close_board, first_line, open_board, parser


class Watched:
    """Something of which one can tell when it goes."""


def references(device: Any) -> Any:
    """The references to what a call sees, before and after it."""
    make = {"dtype": ttnn.bfloat16, "layout": ttnn.TILE_LAYOUT, "device": device}
    own, frame = Watched(), sys._getframe()
    tensor = ttnn.zeros([32, 64], **make)
    before = [sys.getrefcount(allocation) for allocation in (own, frame, tensor, make, device, references, ttnn.relu)]
    several = ttnn.split(ttnn.zeros([1, 1, 32, 64], **make), 32, 3)
    result = ttnn.relu(tensor)
    both = ttnn.add(tensor, result)
    counts = [sys.getrefcount(allocation) for allocation in (own, frame, tensor, make, device, references, ttnn.relu)]
    print("references", before == counts, counts, [sys.getrefcount(t) for t in (result, both, several, several[0])])
    del frame
    return weakref.ref(own)


def collections(device: Any) -> None:
    """Is collecting on where it was, and off where it was?"""
    states: list[bool | str] = []
    for wanted in (True, False):
        (gc.enable if wanted else gc.disable)()
        tensor = ttnn.zeros([32, 32], dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)
        states.append(gc.isenabled())
        ttnn.relu(tensor)
        states.append(gc.isenabled())
        try:
            ttnn.matmul(tensor, None)
        except Exception as error:
            states.append(type(error).__name__)
        states.append(gc.isenabled())
    gc.enable()
    print("collections", states, gc.get_threshold(), gc.get_freeze_count())


def tracing(device: Any) -> None:
    """What profilers and tracers see."""
    tensor = ttnn.zeros([32, 32], dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)
    seen: Counter[tuple[str, str]] = Counter()

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        seen[event, frame.f_code.co_name] += 1

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        seen["trace " + event, f"{frame.f_code.co_name}:{frame.f_lineno}"] += 1
        return trace

    sys.setprofile(profile)
    ttnn.relu(tensor)
    sys.setprofile(None)
    sys.settrace(trace)
    ttnn.relu(tensor)
    sys.settrace(None)
    print("tracing", sorted(seen.items()))


def errors(device: Any) -> None:
    """An exception on its way through frames whose tensors it lets go."""

    def failing() -> None:
        tensor = ttnn.zeros([32, 32], dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)
        made = [ttnn.relu(tensor) for _ in range(3)]
        raise KeyError(len(made))

    for wrong in (failing, lambda: ttnn.matmul(ttnn.zeros([32, 32], device=device), None)):
        try:
            wrong()
        except Exception as error:
            print("error", first_line(error)[:60], error.__context__, sys.exc_info()[1] is error)
    print("error after", sys.exc_info())


def threads(device: Any) -> None:
    tensor = ttnn.zeros([32, 32], dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)
    done: list[int] = []

    def work() -> None:
        for _ in range(20):
            ttnn.relu(tensor)
        done.append(1)

    several = [threading.Thread(target=work) for _ in range(4)]
    for thread in several:
        thread.start()
    for thread in several:
        thread.join()
    print("threads", len(done), threading.active_count(), sys.getrefcount(tensor))


def everything(device: Any, who: str) -> None:
    print(who)
    print("gone", references(device)() is None, "again", references(device)() is None)
    collections(device)
    tracing(device)
    errors(device)
    threads(device)
    sys.stdout.flush()


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--fork", action="store_true")
    options.add_argument("--exit", type=int, default=0)
    options.add_argument("--unclosed", action="store_true")
    chosen = options.parse_args()
    device = open_board(chosen)
    everything(device, "parent")
    if chosen.fork:
        child = os.fork()
        if child == 0:
            everything(device, "child")
            os._exit(0)
        print("child", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        everything(device, "parent again")
    if not chosen.unclosed:
        close_board(chosen, device)
    print("code", sys.getrefcount(references.__code__), sys.getrefcount(main.__code__))
    sys.exit(chosen.exit)


if __name__ == "__main__":
    main()
