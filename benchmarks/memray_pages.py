# SPDX-License-Identifier: Apache-2.0
"""memray as a reference: what it costs to trace a program, and to write its flame graph.

memray is not needed. It is used if it is installed next to ttmem or if its command is on PATH.
"""

from __future__ import annotations

import importlib.util
import resource
import shutil
import subprocess
import sys
from pathlib import Path

_PROGRAM = Path(__file__).parent / "programs" / "mallocs.py"
NOT_INSTALLED = "memray is not installed"


def memray_python() -> str | None:
    """The interpreter that has memray."""
    if importlib.util.find_spec("memray") is not None:
        return sys.executable
    command = shutil.which("memray")
    if command is None:
        return None
    python = Path(command).with_name("python3")
    return str(python) if python.exists() else None


def plain_run(python: str, events: int) -> float:
    """Seconds of CPU of the program that allocates and frees so often."""
    return _cpu_seconds([python, str(_PROGRAM), str(events)])


def traced_run(python: str, events: int, path: Path) -> float:
    """The same while memray writes its events to a file."""
    return _cpu_seconds([python, "-m", "memray", "run", "-q", "-f", "-o", str(path), str(_PROGRAM), str(events)])


def flame_graph(python: str, recording: Path, page: Path, *options: str) -> float:
    """Seconds of CPU to write the page of memray's events. The page needs no network, as those of ttmem."""
    command = [python, "-m", "memray", "flamegraph", "--no-web", "-f", *options, "-o", str(page), str(recording)]
    return _cpu_seconds(command)


def _cpu_seconds(command: list[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
