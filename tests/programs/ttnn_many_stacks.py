# SPDX-License-Identifier: Apache-2.0
"""Calls an operation from more different places than the agent can store, and prints how much memory it uses then.

A place is a path through a function of many lines that calls itself, so the stacks are many and the code is one;
with --codes each place has code of its own instead. The last tensor is kept.
"""

from __future__ import annotations

import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ttnn
from ttnn_bench import Reporter, close_board, open_board, parser

LINES = 64


def memory() -> int:
    """Bytes of this process that are in use, without files."""
    fields = dict(line.split(":") for line in Path("/proc/self/status").read_text().splitlines())
    return sum(int(fields[name].split()[0]) * 1024 for name in ("RssAnon", "RssShmem"))


def maze(operation: Callable[[], Any]) -> Callable[[int, int], Any]:
    """``maze(f)(path, turns)`` calls f by a stack that only this path has."""
    lines = [f"        if path % {LINES} == {n}: return walk(path // {LINES}, turns - 1)" for n in range(LINES)]
    source = "\n".join(["def walk(path, turns):", "    if turns:", *lines, "    return operation()"])
    names: dict[str, Any] = {"operation": operation}
    exec(compile(source, "/maze.py", "exec"), names)
    walk: Callable[[int, int], Any] = names["walk"]
    return walk


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--stacks", type=int, required=True)
    options.add_argument("--codes", action="store_true")
    chosen = options.parse_args()
    report = Reporter(chosen.report_fd, chosen.ack_fd)
    device = open_board(chosen)
    make = {"dtype": ttnn.bfloat16, "layout": ttnn.TILE_LAYOUT, "device": device}
    walk = maze(lambda: ttnn.empty([32, 32], **make))
    for path in range(1000):
        walk(0, path % 3)
    report(what="begin", memory=memory())
    kept: Any = None
    for path in range(chosen.stacks):
        if chosen.codes:
            kept = eval(
                compile("ttnn.empty([32, 32], **make)", f"/code/{path}.py", "eval"), {"ttnn": ttnn, "make": make}
            )
        else:
            kept = walk(path, 3)
        if path % 10_000 == 0:
            report(what="on the way", memory=memory())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    report(what="end", memory=memory(), peak=peak, address=kept.buffer_address())
    del kept
    close_board(chosen, device)


if __name__ == "__main__":
    main()
