# SPDX-License-Identifier: Apache-2.0
"""Explains a recorded failure with the account of the moment at which it happened."""

from __future__ import annotations

from ttmem.account.entities import Process
from ttmem.analyze.failure_messages import parse
from ttmem.analyze.process_layout import layout_of
from ttmem.analyze.verdict_types import Verdict
from ttmem.analyze.verdicts import verdict_on
from ttmem.model.events import Failed
from ttmem.model.stack_frames import line_of


def verdict_at(event: Failed, process: Process) -> Verdict | None:
    """The verdict on a failure of a process whose account stands where it stood then; None if its text is not known.

    The chips of a mesh are in lock step, so the first one tells. If it is not known which device it was, the one is
    taken whose account agrees with the message best.
    """
    failure = parse(event.text)
    if failure is None:
        return None
    named = process.numbers.get(event.device) if event.device is not None else None
    chips = [named] if named is not None else list(dict.fromkeys(process.numbers.values()))
    layouts = [layout_of(chip, process) for chip in chips]
    line = line_of(event.stack)
    found = [verdict_on(failure, layout, event.tag, line) for layout in layouts or [None]]
    return min(found, key=lambda verdict: len(verdict.unknown))
