# SPDX-License-Identifier: Apache-2.0
"""All runs behind one answer: each machine, each combination of values, and the search for the largest that fits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ttmem.fit.fit_document import board_row, kv_row
from ttmem.fit.kept_results import KeptResults
from ttmem.fit.mock_environment import Machine
from ttmem.fit.mock_run import RunOptions, mock_run
from ttmem.fit.varied import Varied, combinations, most_runs, search, with_values

if TYPE_CHECKING:
    from ttmem.model import schema


class Answers(NamedTuple):
    """Every run, and the borders that were searched."""

    runs: list[schema.FitBoard]
    borders: list[schema.FitBorder]


class Asker:
    """Runs the command where that has not been done yet.

    ``progress`` gets the share that is done and a line before each run. The share is an
    estimate: a search takes between two runs and ``most_runs``.
    """

    def __init__(
        self,
        command: Sequence[str],
        env: Mapping[str, str],
        options: RunOptions,
        kept: KeptResults,
        progress: Callable[[float, str], None],
    ) -> None:
        self._command, self._env, self._options = command, env, options
        self._kept, self._progress = kept, progress
        self.runs: list[schema.FitBoard] = []
        self._part = (0.0, 1.0, 1)
        self._runs_before = 0

    def begin(self, number: int, of: int, most: int) -> None:
        """A search or a single run begins, of so many; it takes ``most`` runs at most."""
        self._part, self._runs_before = (number / of, 1 / of, most), len(self.runs)

    def ask(self, machine: Machine, values: Mapping[str, int]) -> schema.FitBoard:
        command = with_values(self._command, values)
        key = self._kept.key(command, machine, self._options)
        row = self._kept.get(key)
        if row is None:
            shown = " ".join([machine.name, *(f"{name}={value}" for name, value in values.items())])
            start, length, most = self._part
            share = start + length * min(1.0, (len(self.runs) - self._runs_before) / most)
            self._progress(share, f"run {len(self.runs) + 1}: {shown}")
            run = mock_run(command, machine, self._env, self._options)
            row = board_row(run, values, self._options)
            self._kept.put(key, row)
        row["kv"] = kv_row(row["dram"], row["unknown"], self._options.bytes_per_token)
        row["board"], row["values"] = machine.name, {name: str(value) for name, value in values.items()}
        self.runs.append(row)
        return row


def answers(asker: Asker, machines: Sequence[Machine], varied: Sequence[Varied]) -> Answers:
    """Run on each machine; with a range, search the largest value for each combination of the others."""
    searched = next((one for one in varied if one.searched), None)
    borders: list[schema.FitBorder] = []
    parts = [(machine, values) for machine in machines for values in combinations(varied)]
    for number, (machine, values) in enumerate(parts):
        asker.begin(number, len(parts), 1 if searched is None else most_runs(len(searched.values)))
        if searched is None:
            asker.ask(machine, values)
        else:
            borders.append(_border(asker, machine, values, searched))
    return Answers(asker.runs, borders)


def _border(asker: Asker, machine: Machine, values: Mapping[str, int], searched: Varied) -> schema.FitBorder:
    verdicts: dict[int, str] = {}

    def fits(value: int) -> bool:
        row = asker.ask(machine, {**values, searched.name: value})
        verdicts[value] = row["verdict"]
        return row["verdict"] == "fits"

    found = search(searched.values, fits)
    return {
        "board": machine.name,
        "values": {name: str(value) for name, value in values.items()},
        "name": searched.name,
        "largest": found.largest,
        "next": found.next_value,
        "next_verdict": None if found.next_value is None else verdicts[found.next_value],
        "tried": list(found.tried),
        "fits_again": list(found.fits_again),
    }
