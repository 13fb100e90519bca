# SPDX-License-Identifier: Apache-2.0
"""Builds the document "ttmem.stats/1" from a recording."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from ttmem.account.uncertainty import added
from ttmem.ingest.clock import rfc3339
from ttmem.recording.recording_file import Recording
from ttmem.statistics import fragmentation_over_time as fragmentation
from ttmem.statistics.ages import freed_late, lives
from ttmem.statistics.allocation_counts import by_kind, size_histograms
from ttmem.statistics.causes import tops
from ttmem.statistics.host_beside import host_memory
from ttmem.statistics.phase_runs import phase_runs
from ttmem.statistics.program_growth import growth, kernel_ring
from ttmem.statistics.temporary import temporary
from ttmem.statistics.window import BEFORE_ALL, Window

if TYPE_CHECKING:
    from collections.abc import Callable

    from ttmem.account.ledger import Ledger
    from ttmem.model.schema import Stats

SCHEMA: Final = "ttmem.stats/1"


def window_of(recording: Recording, after: float | None, until: float, chips: frozenset[str] | None) -> Window:
    """``after`` is None for everything from the start; ``chips`` is None for all."""
    table = recording.lifetimes().allocations
    selected = [chip for chip in table.all_chips if chips is None or chip in chips]
    return Window(table, BEFORE_ALL if after is None else table.at(after), table.at(until), tuple(selected))


def stats_of(
    recording: Recording,
    window: Window,
    ledger: Ledger,
    *,
    top: int,
    is_failure: Callable[[str], bool],
    evaluated: list[fragmentation.Evaluated] | None = None,
) -> Stats:
    """``ledger`` is the account at the end of the recording; ``is_failure`` says if a message is about memory.

    ``evaluated`` is the fragmentation of this window, if it is known already.
    """
    found, table = recording.lifetimes(), window.table
    runs, short_lived = phase_runs(recording, window), temporary(table)
    failures = [one.time for one in recording.failures() if is_failure(getattr(one.event, "text", ""))]
    if evaluated is None:
        evaluated = fragmentation.evaluate(window, np.array([table.at(time) for time in failures], np.int64), runs)
    ring_sizes = {chip.id: chip.geometry.ring_size for chip in ledger.chips.values() if chip.geometry is not None}
    present = np.flatnonzero(np.bincount(table.source[window.present], minlength=1))
    command = recording.facts.get("command")
    return {
        "schema": SCHEMA,
        "command": " ".join(map(str, command)) if isinstance(command, list) else command and str(command),
        "begin": rfc3339(recording.begin, 6),
        "length_s": window.seconds(table.length),
        "from_s": window.seconds(window.after),
        "until_s": window.seconds(window.until),
        "chips": list(window.chips),
        "other_chips": len(table.all_chips) - len(window.chips),
        "processes": len({table.sources[place].info for place in present.tolist()}),
        "records": found.records,
        "events": found.events,
        "launches": found.launches,
        "lost": sum(last - first + 1 for _, first, last in recording.gaps),
        "failures": sum(window.after < table.at(time) <= window.until for time in failures),
        "uncertain": added((*ledger.processes.values(), *ledger.departed)),
        "kinds": by_kind(window, short_lived),
        "sizes": size_histograms(window),
        "tops": tops(window, short_lived, top),
        "lives": lives(window),
        "freed_late": freed_late(window, top),
        "fragmentation": fragmentation.summary(window, evaluated),
        "phases": fragmentation.by_phase(window, evaluated, runs),
        "programs": growth(window, found.programs),
        "kernel_ring": kernel_ring(window, found.programs, ring_sizes),
        "host": host_memory(window, recording.samples()),
        "problems": list(recording.problems),
    }
