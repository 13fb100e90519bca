# SPDX-License-Identifier: Apache-2.0
"""Builds the agent and the programs of native/tests when a Python test first needs them."""

from __future__ import annotations

import fcntl
import functools
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
CACHE = ROOT / ".cache" / "native" / "tests"
VARIANTS = ("plain", "address", "thread")


class Build:
    """The built files, with or without a sanitizer."""

    def __init__(self, variant: str) -> None:
        assert variant in VARIANTS
        self.variant = variant
        self.folder = CACHE / variant
        self.agent = self.folder / "libttmem_agent.so"

    def program(self, name: str) -> str:
        return str(self.folder / "tests" / name)

    def fake(self, name: str = "metal") -> str:
        """A replacement for libtt_metal.so; see native/tests/CMakeLists.txt for the names."""
        return str(self.folder / "tests" / name / "libtt_metal.so")

    @property
    def runtime(self) -> str | None:
        """The sanitizer's library, which must be preloaded first."""
        if self.variant == "plain":
            return None
        name = {"address": "libasan.so", "thread": "libtsan.so"}[self.variant]
        found = subprocess.run(["g++", f"-print-file-name={name}"], check=True, capture_output=True, text=True)
        return str(Path(found.stdout.strip()).resolve())


@functools.cache
def build(variant: str = "plain") -> Build:
    """Compile what is out of date; a lock separates concurrent test runs."""
    made = Build(variant)
    made.folder.mkdir(parents=True, exist_ok=True)
    with open(made.folder / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        sanitize = "" if variant == "plain" else variant
        for command in (
            ["cmake", "-S", str(ROOT / "native"), "-B", str(made.folder), "-DTTMEM_NATIVE_TESTS=ON",
             f"-DTTMEM_SANITIZE={sanitize}", "-DTTMEM_WERROR=ON"],
            ["cmake", "--build", str(made.folder), "--parallel", "2"],
        ):  # fmt: skip
            ran = subprocess.run(command, capture_output=True, text=True)
            assert ran.returncode == 0, f"{' '.join(command)}\n{ran.stdout}\n{ran.stderr}"
    return made
