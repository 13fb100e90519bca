# SPDX-License-Identifier: Apache-2.0
"""Explains the failed allocations of a recording for a report, as `ttmem explain FILE` does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ttmem.account.entities import Process
from ttmem.analyze.failure_context import verdict_at
from ttmem.analyze.failure_messages import parse
from ttmem.documents import explanation
from ttmem.model.events import Failed
from ttmem.recording.recording_file import Happened, Recording

if TYPE_CHECKING:
    from ttmem.model.schema import RunFailure

MOST_EXPLAINED = 8


def is_failure(message: str) -> bool:
    """Is the message of an exception about memory?"""
    return parse(message) is not None


def failures_of(recording: Recording) -> list[Happened]:
    """The failed allocations, in order."""
    return [one for one in recording.failures() if isinstance(one.event, Failed) and is_failure(one.event.text)]


def explain(recording: Recording, failures: list[Happened]) -> dict[Happened, RunFailure]:
    """The last failures with different texts, explained with the account at that time."""
    wanted: dict[str, Happened] = {}
    for one in reversed(failures):
        assert isinstance(one.event, Failed)
        wanted.setdefault(one.event.text, one)
        if len(wanted) == MOST_EXPLAINED:
            break
    found = {}
    for one in sorted(wanted.values(), key=lambda one: one.time):
        explained = _explained(recording, one)
        if explained is not None:
            found[one] = explained
    return found


def _explained(recording: Recording, failure: Happened) -> RunFailure | None:
    found: list[RunFailure] = []
    assert isinstance(failure.event, Failed)
    text = failure.event.text

    def look(time: float, process: Process, event: Failed) -> None:
        verdict = verdict_at(event, process) if event.text == text else None
        if verdict is not None:
            found.append({
                "time": time, "pid": process.info.pid, "text": event.text, "operation": event.tag,
                "stack": event.stack.split("\n") if event.stack else None, "verdict": explanation.verdict(verdict),
            })  # fmt: skip

    recording.at(failure.time, failure_observer=look)
    return found[-1] if found else None
