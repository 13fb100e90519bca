# SPDX-License-Identifier: Apache-2.0
"""Allocates to a known peak, frees half of it, keeps some, and ends in the requested way.

A record has ttnn's own account: `peak` when most was allocated, `kept` when it is about to end.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

import ttnn
from ttnn_bench import L1_SMALL_SIZE, Reporter, account, parser

DRAM, L1 = ttnn.DRAM_MEMORY_CONFIG, ttnn.L1_MEMORY_CONFIG
ALIVE: list[Any] = []  # until the interpreter itself is gone


def new(device: Any, memory: Any, rows: int = 64) -> Any:
    return ttnn.zeros(
        [1, 1, rows, 64], dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device, memory_config=memory
    )


def open_one() -> Any:
    return ttnn.open_device(device_id=0, l1_small_size=L1_SMALL_SIZE)


def work(report: Reporter, device: Any) -> None:
    """To the peak and down again; what is kept is in ALIVE."""
    ALIVE.extend(new(device, memory, rows) for memory, rows in ((DRAM, 512), (L1, 128), (L1, 64)))
    ALIVE.append(ttnn.relu(ALIVE[0]))
    more = [new(device, memory, 32 * number) for number in range(1, 9) for memory in (DRAM, L1)]
    report(what="peak", **account(device))
    del more[:8]
    ALIVE.append(ttnn.add(ALIVE[1], ALIVE[1]))  # a program that is not there at the peak
    del more
    report(what="kept", **account(device))


def close(report: Reporter, device: Any) -> None:
    ttnn.close_device(device)


def freed(report: Reporter, device: Any) -> None:
    """Nothing is left but the program cache."""
    ALIVE.clear()
    report(what="kept", **account(device))
    ttnn.close_device(device)


def cleared(report: Reporter, device: Any) -> None:
    """Nothing is left at all."""
    ALIVE.clear()
    device.clear_program_cache()
    report(what="kept", **account(device))
    ttnn.close_device(device)


def leave(report: Reporter, device: Any) -> None:
    """The end of the program, with the device open."""
    ALIVE.append(device)


def system_exit(report: Reporter, device: Any) -> None:
    ALIVE.append(device)
    sys.exit(7)


def exception(report: Reporter, device: Any) -> None:
    ALIVE.append(device)
    raise ValueError("meant")


def os_exit(report: Reporter, device: Any) -> None:
    sys.stdout.flush()
    os._exit(0)


def kill(report: Reporter, device: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def abort(report: Reporter, device: Any) -> None:
    os.abort()


def segfault(report: Reporter, device: Any) -> None:
    signal.signal(signal.SIGSEGV, signal.SIG_DFL)  # MPI's handler would print a page
    ctypes.string_at(0)


def reopen(report: Reporter, device: Any) -> None:
    """Closed with tensors alive, opened again, and other tensors are alive when it closes for good."""
    ttnn.close_device(device)
    ALIVE.clear()
    again = open_one()
    ALIVE.extend(new(again, memory, 96) for memory in (DRAM, DRAM, L1))
    report(what="kept", **account(again))
    ttnn.close_device(again)


def reopen_clean(report: Reporter, device: Any) -> None:
    """Closed with tensors alive, and once more with none."""
    ttnn.close_device(device)
    ALIVE.clear()
    again = open_one()
    report(what="kept", **account(again))
    ttnn.close_device(again)


def thread(report: Reporter, device: Any) -> None:
    """A daemon thread goes on allocating until the interpreter stops it."""
    ALIVE.append(device)
    busy = threading.Event()

    def endless() -> None:
        while True:
            new(device, DRAM, 1024)
            busy.set()

    threading.Thread(target=endless, daemon=True).start()
    busy.wait()


ENDINGS: dict[str, Callable[[Reporter, Any], None]] = {
    function.__name__: function
    for function in (
        *(close, freed, cleared, leave, system_exit, exception, os_exit, kill, abort, segfault),
        *(reopen, reopen_clean, thread),
    )
}


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--ending", choices=ENDINGS, default="close")
    chosen = options.parse_args()
    report = Reporter(chosen.report_fd, chosen.ack_fd)
    device = open_one()
    work(report, device)
    ENDINGS[chosen.ending](report, device)


if __name__ == "__main__":
    main()
