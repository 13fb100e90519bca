# SPDX-License-Identifier: Apache-2.0
"""Everything that the machine itself shows, read in one round: chips, telemetry, processes, counters."""

from __future__ import annotations

import os
import time

from ttmem.sources.device_holders import Holders
from ttmem.sources.host_usage import HostUsage
from ttmem.sources.metal_counters import Counters
from ttmem.sources.telemetry import Telemetry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ttmem.model.machine_rows import DriverChip, HoldersLook, MachineLook
    from ttmem.model.schema import SourceState


_SCAN_SECONDS = 5.0  # between two scans of all open files, for an old driver without lists


class Machine:
    """Reads the machine repeatedly; ``root`` is the folder of a machine that a test created."""

    def __init__(self, root: str = "/", patience: float = 0.5) -> None:
        self._root = root
        self._telemetry = Telemetry(root, patience)
        self._holders = Holders(root, patience)
        self._counters = Counters(root, patience)
        self._usage = HostUsage(root)
        self._found: HoldersLook | None = None
        self._when = 0.0

    def look(self) -> MachineLook:
        """The current state. Never raises; a read that hangs is abandoned after a moment."""
        chips = self._telemetry.look()
        held = [chip["kmd"] for chip in chips["chips"] if self._can_be_held(chip)]
        holders = self._held([kmd for kmd in held if kmd is not None])
        counters = self._counters.look(holders["processes"])
        pids = {holder["pid"] for holder in holders["processes"]}
        pids |= {slot["process"] for file in counters["files"] for slot in file["slots"] if slot["process"]}
        if not chips["chips"]:
            holders["why"] = None  # the missing driver is already reported
        return {
            "driver": chips["driver"],
            "sources": [
                {"name": "sysfs", "state": chips["state"], "detail": chips["why"]},
                {"name": "processes", "state": holders["state"], "detail": holders["why"]},
                {"name": "shm", "state": counters["state"], "detail": counters["why"]},
            ],
            "chips": chips["chips"],
            "processes": holders["processes"],
            "foreign": holders["foreign"],
            "shm": counters["files"],
            "usage": self._usage.look(pids),
        }

    def recount(self, seen: MachineLook) -> MachineLook:
        """The same state with the current values of tt-metal's counters."""
        counters = self._counters.look(seen["processes"])
        source: SourceState = {"name": "shm", "state": counters["state"], "detail": counters["why"]}
        sources = [source if one["name"] == "shm" else one for one in seen["sources"]]
        return {**seen, "sources": sources, "shm": counters["files"]}

    def _held(self, numbers: list[int]) -> HoldersLook:
        """The holders of the chips. Scanning all open files is slow, so it is not done each time."""
        now = time.monotonic()
        before = self._found
        if before is None or before["via"] != "descriptors" or now - self._when >= _SCAN_SECONDS:
            self._found, self._when = self._holders.look(numbers), now
            held = {} if before is None else {(one["pid"], one["start"]): one["holds"] for one in before["processes"]}
            for process in self._found["processes"]:
                # A process opens and closes its chips one by one, so only an unchanged set of chips is meaningful.
                process["settled"] = before is None or held.get((process["pid"], process["start"])) == process["holds"]
        assert self._found is not None
        return {**self._found}

    def _can_be_held(self, chip: DriverChip) -> bool:
        """Whether a process can hold the chip: not if it is gone, unless the driver still lists its holders."""
        if chip["telemetry"]["state"] != "gone":
            return True
        return os.path.exists(os.path.join(self._root, f"proc/driver/tenstorrent/{chip['kmd']}/pids"))

    def close(self) -> None:
        self._telemetry.close()
