# SPDX-License-Identifier: Apache-2.0
"""Processes that write records with the agent's own code, without ttnn, at a rate that a test or a benchmark sets.

Their program is benchmarks/programs/ring_load.cpp. Each has one chip, allocates and frees buffers on it, and reports
what it holds and held at most: the figures that an account of its ring must have.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.support import ROOT, Server, not_none

_SOURCE = ROOT / "benchmarks" / "programs" / "ring_load.cpp"
_NATIVE = ROOT / "native" / "src"
_PARTS = ("clock", "connect", "meshes", "metering", "store")  # of the agent


class Written(NamedTuple):
    """What a writer reports."""

    records: int
    dram: int
    l1: int
    peak_dram: int
    peak_l1: int

    def has_bytes_of(self, row: dict[str, Any]) -> bool:
        """Are these the bytes of its process in a snapshot?"""
        (share,) = row["chips"]
        return bool((share["dram"], share["l1"]) == (self.dram, self.l1))

    def has_peaks_of(self, row: dict[str, Any]) -> bool:
        (share,) = row["chips"]
        return bool((share["peak_dram"], share["peak_l1"]) == (self.peak_dram, self.peak_l1))


class RingWriter:
    """One process with one ring, which hands it to the server when it starts."""

    def __init__(self, program: Path, chip_id: int, server: Server, burst_us: int | None = None) -> None:
        """``burst_us`` is the time from one burst of records to the next; the program has a default."""
        self.chip = str(chip_id)
        command = [str(program), self.chip, *([] if burst_us is None else [str(burst_us)])]
        env = {**os.environ, "TTMEM_SOCKET": server.path}
        self.process = subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.answer()

    def say(self, rate: int) -> None:
        """Write so many records per second from now on; `answer` then has what was true before."""
        stdin = not_none(self.process.stdin)
        stdin.write(f"{rate}\n")
        stdin.flush()

    def answer(self) -> Written:
        line = not_none(self.process.stdout).readline()
        assert line, f"the writer ended with {self.process.wait()}"
        return Written(*map(int, line.split()))

    def row(self, snapshot: dict[str, Any]) -> dict[str, Any] | None:
        """Its process in a snapshot."""
        return next((row for row in snapshot["processes"] if row["pid"] == self.process.pid), None)

    def is_read(self, snapshot: dict[str, Any]) -> bool:
        """Is nothing of its ring left to read?"""
        row = self.row(snapshot)
        return row is not None and not any(source["shed"] or source["unread"] for source in row["sources"])

    def end(self) -> None:
        self.process.communicate()


def build(folder: Path) -> Path:
    """Compile the program."""
    program = folder / "ring_load"
    sources = [_SOURCE, *(_NATIVE / f"{name}.cpp" for name in _PARTS)]
    flags = ["-std=c++17", "-O2", "-Wall", f"-iquote{_NATIVE}"]
    subprocess.run(["g++", *flags, "-o", program, *sources, "-lpthread"], check=True)
    return program


@contextmanager
def ring_writers(
    program: Path, server: Server, chip_ids: Sequence[int], burst_us: int | None = None
) -> Iterator[list[RingWriter]]:
    """A writer for each of these chips; several may share a chip."""
    with ExitStack() as stack:
        writers = []
        for chip_id in chip_ids:
            writers.append(RingWriter(program, chip_id, server, burst_us))
            stack.callback(writers[-1].end)
        yield writers
