# SPDX-License-Identifier: Apache-2.0
"""A process with the real ttnn that is refused memory on request, and the account of its agent at that moment."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.agents import Collector, one_by_one, watched
from tests.mock.program import Program
from ttmem.account.allocations import Allocation
from ttmem.account.entities import Source
from ttmem.analyze import verdict_types as v
from ttmem.analyze.failure_context import verdict_at
from ttmem.analyze.failure_messages import parse
from ttmem.analyze.process_layout import Block
from ttmem.analyze.verdict_types import Advice, Verdict
from ttmem.model.events import Event, Failed
from ttmem.recording.event_recording import EventRecordingWriter
from ttmem.wire.agent_ring import RingEvent

UNIT = 32  # of a bank of Wormhole


class Stage:
    """A ttnn process that executes commands of the test, and its account, updated event by event."""

    def __init__(self, collector: Collector, program: Program, folder: Path) -> None:
        self._collector = collector
        self._program = program
        self._command = folder / "command.json"
        self._records = program.records()
        self.journal: EventRecordingWriter | None = None
        self.told = False  # whether the agent itself reported the last exception of ttnn
        next(self._records)

    def do(self, act: str, **more: Any) -> Any:
        """A command that must succeed."""
        record = self._act(act, more)
        assert record["error"] is None, record["error"]
        self.fold()
        return record["result"]

    def refused(self, act: str, **more: Any) -> Verdict:
        """A command that must fail. Returns the verdict."""
        record = self._act(act, more)
        assert record["error"] is not None, "it was not refused"
        verdict = self.fold(record["error"])
        assert verdict is not None
        assert verdict.failure == parse(record["error"])
        return verdict

    def fails(self, act: str, **more: Any) -> bool:
        record = self._act(act, more)
        self.fold()
        return record["error"] is not None

    def _act(self, act: str, more: dict[str, Any]) -> Any:
        self._command.write_text(json.dumps({"act": act, **more}))
        return next(self._records)

    def fold(self, error: str | None = None) -> Verdict | None:
        """Apply the agent's records. Returns the verdict at the record of an exception of ttnn.

        Not every exception passes a hook of the agent. Without a record, it was thrown before anything was freed.
        """
        self._collector._accept()
        agent = self._collector.agents[self._program.pid]
        process = agent.source.process
        verdict: Verdict | None = None
        fallback: Verdict | None = None
        self.told = False

        def observed(time: float, source: Source | None, event: Event, allocation: Allocation | None) -> None:
            nonlocal verdict
            if isinstance(event, Failed):
                verdict = verdict_at(event, process)
                self.told = True
            if self.journal is not None:
                self.journal.write(time, source, event)

        agent.fold._sink.add_observer(observed)
        for record in one_by_one(agent.fold):
            if error is not None and fallback is None and record.event in (RingEvent.FREED, RingEvent.DESTROYED):
                fallback = verdict_at(Failed(0, error), process)
        agent.fold._sink.remove_observer(observed)
        assert not agent.fold.unread
        if verdict is None and error is not None:
            verdict = fallback or verdict_at(Failed(0, error), process)
        return verdict

    def live(self, kind: str) -> list[int]:
        """The addresses of all buffers of a kind, from the account."""
        holdings = self._collector.agents[self._program.pid].source.holdings.values()
        return [
            allocation.address
            for one in holdings
            for allocation in one.buffers.values()
            if allocation.kind.name == kind
        ]

    def end(self) -> None:
        self._command.write_text("null")
        for _ in self._records:
            raise AssertionError("it went on")


@contextlib.contextmanager
def staged(folder: Path, board: str = "n150", python: str = "3.12") -> Iterator[Stage]:
    with watched(python, "ttnn_explain", board, folder) as (collector, program):
        stage = Stage(collector, program, folder)
        yield stage
        stage.end()


def advice(verdict: Verdict, what: str) -> Advice:
    (found,) = [one for one in verdict.advice if one.what == what]
    return found


def has(verdict: Verdict, what: str) -> bool:
    return any(one.what == what for one in verdict.advice)


def held(verdict: Verdict) -> list[Block]:
    """The buffers of all groups, if they are few."""
    blocks = [block for group in verdict.holders for block in group.blocks]
    assert len(blocks) == verdict.held
    return blocks


def free(stage: Stage, found: Advice) -> None:
    assert found.blocks
    stage.do("free", kind=found.blocks[0].kind.name, addresses=[block.address for block in found.blocks])


def the_largest_fits_and_no_more(stage: Stage, verdict: Verdict, **more: Any) -> None:
    largest = advice(verdict, v.SMALLER).value
    assert largest is not None
    assert stage.fails("new", per_bank=largest + UNIT, **more)
    address = stage.do("new", per_bank=largest, **more)
    stage.do("free", kind=more["kind"], addresses=[address])
