# SPDX-License-Identifier: Apache-2.0
"""When to end a run that would not end by itself: `--until SECONDS`, `--until phase:NAME`, `--until ops:N`."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from ttmem.run.session import Session


class Until(NamedTuple):
    """One condition; exactly one field is not None."""

    seconds: float | None = None
    phase: str | None = None
    ops: int | None = None

    def __repr__(self) -> str:
        return f"Until({', '.join(f'{name}={value!r}' for name, value in self._asdict().items() if value is not None)})"

    @property
    def text(self) -> str:
        if self.seconds is not None:
            return f"{self.seconds:g} s"
        return f"phase {self.phase}" if self.phase is not None else f"{self.ops:,} launched programs"

    def condition(self, session: Session) -> Callable[[], bool]:
        """A function that returns whether the run is to end now."""
        if self.seconds is not None:
            deadline = time.monotonic() + self.seconds
            return lambda: time.monotonic() > deadline
        if self.phase is not None:
            return lambda: _phase_ended(session, str(self.phase))
        return lambda: False  # libttmem_fit.so counts launches and ends the process


def parse_until(text: str) -> Until:
    """The condition that an option names.

    >>> parse_until("90"), parse_until("phase:prefill"), parse_until("ops:1000")
    (Until(seconds=90.0), Until(phase='prefill'), Until(ops=1000))
    """
    kind, _, value = text.partition(":")
    if kind == "phase" and value:
        return Until(phase=value)
    if kind == "ops" and value.isdigit() and int(value):
        return Until(ops=int(value))
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 1e6:
        raise ValueError(f"{text!r} is no end of a run; write a number of seconds, phase:NAME or ops:NUMBER")
    return Until(seconds=seconds)


def _phase_ended(session: Session, name: str) -> bool:
    processes = (*session.ledger.processes.values(), *session.ledger.departed)
    return any(f"/{path}".endswith(f"/{name}") for process in processes for path in process.phases.ended)
