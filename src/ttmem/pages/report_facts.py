# SPDX-License-Identifier: Apache-2.0
"""What a report says about the run itself, and about what the recording lacks."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ttmem.account.ledger import Ledger
from ttmem.account.uncertainty import added
from ttmem.ingest.clock import rfc3339
from ttmem.model.uncertain_reasons import meanings_text
from ttmem.recording.blocks import BlockType
from ttmem.recording.recording_file import Recording

if TYPE_CHECKING:
    from ttmem.model.page_schema import ReportFact, ReportGap, ReportLosses
    from ttmem.model.schema import SizingRow

_MOST_PROCESSES = 8
_COMMIT_DIGITS = 12


def facts(recording: Recording, ledger: Ledger, boards: Iterable[str], *, confidential: bool) -> list[ReportFact]:
    """Facts as text. A confidential report leaves out command, folder, commit, host and names of processes."""
    known = recording.facts
    command = known.get("command")
    commit, code = known.get("commit"), known.get("exit_code")
    length = recording.end - recording.begin
    private: list[tuple[str, str | None]] = [
        ("command", shlex.join(map(str, command)) if isinstance(command, list) else command and str(command)),
        ("folder", known.get("folder")),
        ("commit", commit and str(commit)[:_COMMIT_DIGITS]),
        ("host", known.get("host")),
    ]
    processes = [*ledger.departed, *ledger.processes.values()]
    shown = [f"{one.info.pid or 'no pid'}" + ("" if confidential or not one.info.name else f" {one.info.name}")
             for one in processes[:_MOST_PROCESSES]]  # fmt: skip
    more = len(processes) - len(shown)
    sources = {source.name for process in processes for source in process.sources.values()}
    found = [
        *([] if confidential else private),
        ("exit code", None if code is None else str(code)),
        ("chips", ", ".join(boards) or None),
        ("start", rfc3339(recording.begin, 3) if recording.begin else None),
        ("length", f"{length:.3f} s"),
        ("processes", ", ".join([*shown, *([f"and {more} more"] if more else [])]) or None),
        ("reported by", ", ".join(sorted(sources)) or None),
        ("recorded with", known.get("ttmem") and f"ttmem {known['ttmem']}"),
    ]
    return [{"label": label, "value": str(value)} for label, value in found if value]


def sizing(recording: Recording) -> list[SizingRow] | None:
    """The advice on sizes that `ttmem run` adds to its recording; None if there is none, or if it is invalid."""
    found = recording.facts.get("sizing")
    if not isinstance(found, list):
        return None
    try:
        return [
            {
                "pid": int(row["pid"]),
                "chips": [str(chip) for chip in row["chips"]],
                "lines": [
                    {
                        "what": str(line["what"]),
                        "text": str(line["text"]),
                        "value": None if line["value"] is None else int(line["value"]),
                        "basis": str(line["basis"]),
                    }
                    for line in row["lines"]
                ],
            }
            for row in found
        ]
    except (KeyError, TypeError, ValueError):
        return None


def losses(recording: Recording, ledger: Ledger) -> ReportLosses:
    uncertain = added((*ledger.processes.values(), *ledger.departed))
    troubles = {source.trouble for process in (*ledger.processes.values(), *ledger.departed)
                for source in process.sources.values() if source.trouble}  # fmt: skip
    return {
        "lost": sum(last - first + 1 for _, first, last in recording.gaps),
        "gaps": _gaps(recording),
        "uncertain": [*(meanings_text([one]) for one in uncertain), *sorted(troubles)],
        "problems": list(recording.problems),
        "finished": recording.finished,
    }


def _gaps(recording: Recording) -> list[ReportGap]:
    """Each gap, from the last time that is known before it to the first one after it."""
    found: list[ReportGap] = []

    def after_begin(time: float) -> int:
        return max(0, round((time - recording.begin) * 1e9))

    for process in recording.processes.values():
        before = recording.begin
        open_gap: ReportGap | None = None
        for placed in process.blocks:
            block = placed.block
            if block.type == BlockType.GAP:
                open_gap = {"pid": process.source.info.pid, "from_ns": after_begin(before), "until_ns": 0,
                            "records": block.last - block.number + 1}  # fmt: skip
                found.append(open_gap)
            elif block.time:
                if open_gap is not None:
                    open_gap["until_ns"] = max(open_gap["from_ns"], after_begin(block.time))
                    open_gap = None
                before = max(before, block.time)
        if open_gap is not None:
            open_gap["until_ns"] = after_begin(recording.end)
    return found
