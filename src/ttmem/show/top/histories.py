# SPDX-License-Identifier: Apache-2.0
"""What the server remembers of chips, asked for once and taken into the dashboard's own past."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

if TYPE_CHECKING:
    from ttmem.show.top.model import Model

Json = dict[str, Any]

_LONGEST_FINE = 3600  # seconds; so much the server has second by second


class Histories:
    """A server is asked once for each chip and window: large answers, and what follows is seen by ourselves."""

    def __init__(self) -> None:
        self._asked: dict[tuple[str, str, int], int] = {}  # server, chip, step: the window that was taken in
        self._asking: dict[tuple[str, str, int], str] = {}  # paths; they are not to change until there is an answer

    def wants(self, model: Model, chips: list[Json], window: int) -> list[str]:
        """The next few answers that are missing; those that are there are taken in."""
        found = (model.picture or {}).get("server")
        if not found or model.paused:
            return []
        server, newest = str(found.get("since")), model.past.newest
        step, most = (1, 8) if window <= _LONGEST_FINE else (10, 2)
        out: list[str] = []
        for chip in chips:
            # Telemetry is under the PCI address there.
            for name in dict.fromkeys((chip["uid"], chip["pci"] or chip["uid"])):
                path = f"/history?step={step}&since={newest - window:.0f}&chip={quote(name, safe=':')}"
                path = self._asking.setdefault((server, name, window), path)
                answer = model.answers.pop(path, None)
                if answer is not None:
                    self._asked[server, name, step] = window
                    if answer.data is not None:
                        ahead = newest + answer.time - model.now - answer.data["until"]
                        model.past.fill(chip["uid"], answer.data, ahead if abs(ahead) > 2 else 0.0)
                elif self._asked.get((server, name, step), 0) < window:
                    out.append(path)
                    if len(out) == most:
                        return out
        return out
