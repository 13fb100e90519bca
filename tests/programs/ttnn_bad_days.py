# SPDX-License-Identifier: Apache-2.0
"""Difficult conditions of a workload: it forks, floods, runs out of descriptors, or cannot create memory files.

A record has ttnn's own account of the moment; `day` chooses what happens.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import struct
import time
from collections.abc import Callable
from typing import Any

import ttnn
from ttnn_bench import L1_SMALL_SIZE, Reporter, account, parser

DRAM, L1 = ttnn.DRAM_MEMORY_CONFIG, ttnn.L1_MEMORY_CONFIG
MEMFD_CREATE = {"x86_64": 319, "aarch64": 279}


def new(device: Any, memory: Any = DRAM, rows: int = 64) -> Any:
    return ttnn.empty([1, 1, rows, 64], ttnn.bfloat16, ttnn.TILE_LAYOUT, device, memory)


def open_one() -> Any:
    return ttnn.open_device(device_id=0, l1_small_size=L1_SMALL_SIZE)


def fork(report: Steps, cycles: int) -> None:
    """The child allocates on what it inherited; the parent frees and allocates while the child lives."""
    device = open_one()
    kept = [new(device, memory, rows) for memory in (DRAM, L1) for rows in (64, 128, 256)]
    kept.append(ttnn.relu(kept[0]))
    report(what="before", pid=os.getpid(), **account(device))
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            own = [new(device, memory, 512) for memory in (DRAM, L1, L1)]
            del own[-1], kept[0]  # one of its own, one it inherited
            report(what="child", pid=os.getpid(), **account(device))
        os._exit(0)
    os.waitpid(child, 0)
    report(what="child gone", pid=os.getpid(), **account(device))
    kept = kept[::2]
    kept.append(new(device, L1, 512))
    report(what="after", pid=os.getpid(), **account(device))
    ttnn.close_device(device)


def idle_fork(report: Steps, cycles: int) -> None:
    """A child that has everything its parent has and uses none of it, as data loaders are."""
    device = open_one()
    kept = new(device)
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            report(what="idle", pid=os.getpid())
        os._exit(0)
    os.waitpid(child, 0)
    del kept
    ttnn.close_device(device)


def flood(report: Steps, cycles: int) -> None:
    """More records than a ring holds, while the test stops all readers; earlier allocations are freed after it."""
    device = open_one()
    kept = [new(device, memory, rows) for memory in (DRAM, L1) for rows in (64, 128, 256)]
    kept.append(ttnn.relu(kept[0]))
    report(what="before", pid=os.getpid(), **account(device))
    kept = [*kept[1::2], new(device, DRAM, 1024)]
    began = time.perf_counter()
    for _ in range(cycles):
        new(device)
    took = time.perf_counter() - began
    kept += [ttnn.add(kept[0], kept[0]), new(device, L1, 512)]
    if report.in_step:  # a time is not the same twice
        report(what="flooded", pid=os.getpid(), took=took, **account(device))
    kept.pop()
    report(what="after", pid=os.getpid(), **account(device))
    ttnn.close_device(device)


def descriptors(report: Steps, cycles: int) -> None:
    """None is left when the agent wants its memory file: so in a forked child, which wants one of its own."""
    device = open_one()
    inherited = new(device, DRAM, 64)
    report(what="before", pid=os.getpid(), **account(device))
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            hogs = exhaust()
            kept = [new(device, memory, rows) for memory in (DRAM, L1) for rows in (96, 192)]
            kept.append(ttnn.empty([1, 1, 32, 32], ttnn.bfloat16, ttnn.TILE_LAYOUT, device, L1))
            report(what="exhausted", pid=os.getpid(), **account(device))
            for fd in hogs:
                os.close(fd)
            report(what="free again", pid=os.getpid(), **account(device))
            del kept[1]
            kept.append(new(device, L1, 32))
            report(what="more", pid=os.getpid(), **account(device))
        os._exit(0)
    os.waitpid(child, 0)
    del inherited
    ttnn.close_device(device)


def exhaust() -> list[int]:
    """Every descriptor there is."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    hogs = []
    with contextlib.suppress(OSError):
        while True:
            hogs.append(os.open("/dev/null", os.O_RDONLY))
    return hogs


def no_memfd(report: Steps, cycles: int) -> None:
    """As in a sandbox: memfd_create is answered with EPERM."""
    forbid_memfd()
    device = open_one()
    kept = [new(device, memory) for memory in (DRAM, L1)]
    kept.append(ttnn.relu(kept[0]))
    report(what="kept", pid=os.getpid(), **account(device))
    ttnn.close_device(device)


def forbid_memfd() -> None:
    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))

    load, equal, answer = 0x20, 0x15, 0x06
    number, eperm, allow = MEMFD_CREATE[os.uname().machine], 0x00050001, 0x7FFF0000
    steps = ((load, 0, 0, 0), (equal, 0, 1, number), (answer, 0, 0, eperm), (answer, 0, 0, allow))
    code = ctypes.create_string_buffer(b"".join(struct.pack("<HBBI", *step) for step in steps))
    program = Program(len(steps), ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    no_new_privileges, set_seccomp, filtered = 38, 22, 2
    if libc.prctl(no_new_privileges, 1, 0, 0, 0) or libc.prctl(set_seccomp, filtered, ctypes.byref(program), 0, 0):
        raise OSError(ctypes.get_errno(), "seccomp")
    try:
        os.close(os.memfd_create("x"))
    except PermissionError:
        return
    raise AssertionError("memfd_create still works")


DAYS: dict[str, Callable[[Steps, int], None]] = {
    function.__name__: function for function in (fork, idle_fork, flood, descriptors, no_memfd)
}


class Steps(Reporter):
    """A reporter that knows whether the test reads its records one by one."""

    def __init__(self, report_fd: int | None, ack_fd: int | None) -> None:
        super().__init__(report_fd, ack_fd)
        self.in_step = ack_fd is not None

    def __call__(self, **record: Any) -> None:
        if not self.in_step:
            record.pop("pid", None)
        super().__call__(**record)


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--day", choices=DAYS, required=True)
    options.add_argument("--cycles", type=int, default=100)
    chosen = options.parse_args()
    DAYS[chosen.day](Steps(chosen.report_fd, chosen.ack_fd), chosen.cycles)


if __name__ == "__main__":
    main()
