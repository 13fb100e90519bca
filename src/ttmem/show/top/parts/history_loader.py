# SPDX-License-Identifier: Apache-2.0
"""Loads the server's history of chips into the dashboard's own."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

if TYPE_CHECKING:
    from ttmem.model.schema import ChipRow
    from ttmem.show.top.dashboard_state import Answer, Model

_FINE_SECONDS = 3600  # the server has a sample of each second for this long
_REFRESH_SECONDS = 20.0  # between two requests for peaks that were too short for our own samples
_OVERLAP_SECONDS = 2.0  # requested again, because the last second was incomplete


class HistoryLoader:
    """Requests the history once for each chip and window: the answers are large, and we sample the rest ourselves.

    Only the server has peaks between two of our samples, so the last few seconds are requested now and then.
    """

    def __init__(self) -> None:
        self._asked: dict[tuple[str, str, int], int] = {}  # server, chip, step: the loaded window
        self._asking: dict[tuple[str, str, int], str] = {}  # paths; they must not change until there is an answer
        self._answered: dict[tuple[str, str], float] = {}  # server, chip: when, by our clock

    def wants(self, model: Model, chips: list[ChipRow], window: int) -> list[str]:
        """The paths of the next missing answers; available answers are loaded."""
        found = None if model.snapshot is None else model.snapshot.get("server")
        if not found or model.paused:
            return []
        server, newest = str(found.get("since")), model.past.newest
        step, most = (1, 8) if window <= _FINE_SECONDS else (10, 2)
        out: list[str] = []
        for chip in chips:
            # The server stores telemetry by PCI address.
            for name in dict.fromkeys((chip["chip"], chip["pci"] or chip["chip"])):
                path = self._asking.setdefault((server, name, window), _path(step, newest - window, name))
                answer = model.answers.pop(path, None)
                if answer is not None:
                    self._asked[server, name, step] = window
                    self._take(model, chip, server, name, answer)
                elif self._asked.get((server, name, step), 0) < window:
                    out.append(path)
                elif name == chip["chip"] and newest - self._answered[server, name] >= _REFRESH_SECONDS:
                    path = _path(1, self._answered[server, name] - _OVERLAP_SECONDS, name)
                    answer = model.answers.pop(path, None)
                    if answer is None:
                        out.append(path)
                    else:
                        self._take(model, chip, server, name, answer)
                if len(out) == most:
                    return out
        return out

    def _take(self, model: Model, chip: ChipRow, server: str, name: str, answer: Answer) -> None:
        newest = model.past.newest
        self._answered[server, name] = newest
        if answer.data is not None:
            ahead = newest + answer.time - model.now - answer.data["until"]
            model.past.fill(chip["chip"], answer.data, ahead if abs(ahead) > 2 else 0.0)


def _path(step: int, since: float, name: str) -> str:
    return f"/history?step={step}&since={since:.0f}&chip={quote(name, safe=':')}"
