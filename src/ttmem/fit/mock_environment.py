# SPDX-License-Identifier: Apache-2.0
"""The environment of one run on mock devices: a scratch folder, variables, and what is removed afterwards."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from ttmem import agent
from ttmem.fit.cluster_file import ClusterFile
from ttmem.fit.mock_boards import MockBoard, descriptor
from ttmem.fit.ttnn_root import Ttnn, link_root
from ttmem.run.environment import checked_path

_SHARED_MEMORY = Path("/dev/shm")
# Settings that are for real devices, or that this module sets.
_DROPPED = (
    "TT_VISIBLE_DEVICES",
    "TT_METAL_VISIBLE_DEVICES",
    "TT_METAL_SIMULATOR",
    "TTMEM_FIT_SKIP_VALIDATION",
    "TTMEM_FIT_FAKE_WEIGHTS",
)
# Without these, older versions do not run on mock devices: the first that runs without, the variable, its value.
_SETTINGS = (
    ((0, 75), "TT_METAL_SLOW_DISPATCH_MODE", "1"),  # no command queues
    ((0, 68), "TT_METAL_INSPECTOR", "0"),
)
_DISPATCHES_ON_ETHERNET = frozenset({"n300"})


def settings_for(version: str | None) -> dict[str, str]:
    """The variables that a version of ttnn needs on mock devices.

    >>> settings_for("0.72.0"), settings_for("0.81.1")
    ({'TT_METAL_SLOW_DISPATCH_MODE': '1'}, {})
    """
    number = tuple(int(part) for part in re.findall(r"\d+", version or "")[:3])
    return {name: value for before, name, value in _SETTINGS if number and number < before}


class Machine(NamedTuple):
    """A machine that a command is run on: one of ours, or one that is described by a file."""

    name: str
    source: MockBoard | ClusterFile

    @property
    def chips(self) -> tuple[int, ...]:
        return tuple(self.source.chips)

    @property
    def ethernet_dispatch(self) -> bool:
        if isinstance(self.source, ClusterFile):
            return bool(self.source.board_types & _DISPATCHES_ON_ETHERNET)
        return self.source.kind.ethernet_dispatch

    def described(self, chip_ids: Mapping[int, int]) -> str:
        if isinstance(self.source, ClusterFile):
            return self.source.with_ids(chip_ids)
        return descriptor(self.source, chip_ids)


class MockEnvironment:
    """A scratch folder with all that a run on mock devices writes; it is removed at the end.

    ``variables`` are the variables of the run. ``chip_ids`` are the unique ids of its chips, which no other run has:
    ttnn names files in /dev/shm after them.
    """

    def __init__(
        self,
        machine: Machine,
        ttnn: Ttnn,
        env: Mapping[str, str],
        real_kernels: bool = False,
        fake_weights: bool = False,
    ) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="ttmem-fit-"))
        try:
            self.chip_ids = {chip: secrets.randbits(63) for chip in machine.chips}
            self._report = self._folder / "report"
            link_root(ttnn, self._folder / "root", real_kernels)
            described = self._folder / "cluster.yaml"
            described.write_text(machine.described(self.chip_ids))
            self.variables = {**self._variables(machine, env, described, real_kernels), **settings_for(ttnn.version)}
            if fake_weights:
                self.variables["TTMEM_FIT_FAKE_WEIGHTS"] = "1"
        except BaseException:
            self.close()
            raise

    def _variables(
        self, machine: Machine, env: Mapping[str, str], described: Path, real_kernels: bool
    ) -> dict[str, str]:
        folder = self._folder
        library = checked_path(agent.require_file(agent.FIT_LIBRARY))
        others = [path for path in env.get("LD_PRELOAD", "").replace(" ", ":").split(":") if path]
        found = {name: value for name, value in env.items() if name not in _DROPPED}
        found |= {
            "TT_METAL_RUNTIME_ROOT": str(folder / "root"),
            "TT_METAL_MOCK_CLUSTER_DESC_PATH": str(described),
            "TT_METAL_CACHE": str(folder / "cache"),
            "TT_METAL_LOGS_PATH": str(folder / "logs"),
            "TMPDIR": str(folder / "tmp"),  # MPI leaves a folder in it
            "TTMEM_FIT_REPORT": str(self._report),
            "TTMEM_FIT_PARENT": str(os.getpid()),
            "TTMEM_SOCKET": str(folder / "no-server.sock"),  # a server shows real devices only
            "LD_PRELOAD": ":".join([*others, library]),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        for name in ("logs", "tmp"):
            (folder / name).mkdir()
        if not real_kernels:
            found["TTMEM_SMALL_KERNELS"] = "1"
        if machine.ethernet_dispatch:
            found["TTMEM_FIT_SKIP_VALIDATION"] = "1"
        found.setdefault("TT_LOGGER_LEVEL", "error")
        found.setdefault("LOGURU_LEVEL", "INFO")  # of ttnn's Python part
        found.setdefault("OMPI_MCA_btl", "self")  # otherwise each process leaves 16 MiB in /dev/shm
        return found

    def reported(self) -> list[tuple[str, int]]:
        """What libttmem_fit.so reported: a word and a number, in the order of time."""
        try:
            lines = self._report.read_text().splitlines()
        except OSError:
            return []
        words = [line.split() for line in lines]
        return [(line[1], int(line[2])) for line in words if len(line) == 3 and line[2].isdigit()]

    def __enter__(self) -> MockEnvironment:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
        for chip_id in getattr(self, "chip_ids", {}).values():
            try:
                os.unlink(_SHARED_MEMORY / f"tt_device_{chip_id}_memory")
            except OSError:
                pass
