# SPDX-License-Identifier: Apache-2.0
"""One look at everything the machine itself shows: chips and their telemetry, who holds them, tt-metal's counters."""

from __future__ import annotations

import time

from ttmem.sources.holders import Holders
from ttmem.sources.shm import Counters
from ttmem.sources.telemetry import Telemetry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Json = dict[str, Any]


_SCAN_SECONDS = 5.0  # between two looks through everybody's open files, where an old driver has no list


class Machine:
    """Looks again and again; ``root`` is another folder for a machine that a test has laid out."""

    def __init__(self, root: str = "/", patience: float = 0.5) -> None:
        self._telemetry = Telemetry(root, patience)
        self._holders = Holders(root, patience)
        self._counters = Counters(root, patience)
        self._found: Json | None = None
        self._when = 0.0

    def look(self) -> Json:
        """What there is now. It never raises, and what hangs is left behind after a moment."""
        chips = self._telemetry.look()
        holders = self._held([chip["kmd"] for chip in chips["chips"]])
        counters = self._counters.look(holders["processes"])
        if not chips["chips"]:
            holders["why"] = None  # that there is nothing to hold is said already
        sources = (("sysfs", chips), ("processes", holders), ("shm", counters))
        return {
            "driver": chips["driver"],
            "sources": [{"name": name, "state": part["state"], "detail": part["why"]} for name, part in sources],
            "chips": chips["chips"],
            "processes": holders["processes"],
            "foreign": holders["foreign"],
            "shm": counters["files"],
        }

    def _held(self, numbers: list[int]) -> Json:
        """Who holds the chips. To look through everybody's open files takes long, so that is not done each time."""
        now = time.monotonic()
        if self._found is None or self._found["via"] != "descriptors" or now - self._when >= _SCAN_SECONDS:
            self._found, self._when = self._holders.look(numbers), now
        return {**self._found}

    def close(self) -> None:
        self._telemetry.close()
