# SPDX-License-Identifier: Apache-2.0
"""Runs the repeated tasks of the server. A task that fails is reported once, and tried again the next time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ttmem.model.schema import PartRow

_MAX_REPORTS = 64  # different failures of one task that are reported; the texts may contain any values


class GuardedTask:
    """One task: whether it succeeds, and since when it does not."""

    __slots__ = ("detail", "failures", "name", "reported", "since", "state")

    def __init__(self, name: str) -> None:
        self.name = name
        self.state = "ok"  # or failing, or waiting
        self.detail: str | None = None
        self.since: float | None = None  # when it left the state "ok"
        self.failures = 0
        self.reported: set[str] = set()

    def json(self) -> PartRow:
        return {
            "name": self.name,
            "state": self.state,
            "detail": self.detail,
            "since": self.since,
            "failures": self.failures,
        }


class Guard:
    """Runs tasks, so that a failure of one does not stop the others.

    >>> guard = Guard(warn=print, now=lambda: 7.0)
    >>> for _ in range(2):
    ...     guard.run("history", lambda: 1 // 0)
    history failed: ZeroDivisionError: integer division or modulo by zero; it is tried again
    >>> guard.json()[0]["state"]
    'failing'
    """

    def __init__(self, warn: Callable[[str], None], now: Callable[[], float]) -> None:
        self._warn = warn
        self._now = now
        self._parts: dict[str, GuardedTask] = {}

    def run(self, name: str, work: Callable[[], object]) -> None:
        """Run a task. A task that cannot finish now returns a text with what it waits for."""
        try:
            waits_for = work()
        except Exception as error:
            self.failed(name, error)
            return
        if isinstance(waits_for, str):
            self.waiting(name, waits_for)
        else:
            self.well(name)

    def failed(self, name: str, error: BaseException) -> None:
        """Note a failure. Each different failure is reported once."""
        part = self._part(name)
        part.failures += 1
        kind = f"{type(error).__name__}: {error}"
        self._set(part, "failing", kind)
        if kind not in part.reported and len(part.reported) < _MAX_REPORTS:
            part.reported.add(kind)
            self._warn(f"{name} failed: {kind}; it is tried again")

    def waiting(self, name: str, detail: str) -> None:
        """Note that a task has more work than time."""
        self._set(self._part(name), "waiting", detail)

    def well(self, name: str) -> None:
        part = self._part(name)
        if part.state == "failing":
            self._warn(f"{name} works again")
        part.state, part.detail, part.since = "ok", None, None

    @property
    def all_well(self) -> bool:
        return all(part.state == "ok" for part in self._parts.values())

    def json(self) -> list[PartRow]:
        return [part.json() for part in self._parts.values()]

    def _part(self, name: str) -> GuardedTask:
        part = self._parts.get(name)
        if part is None:
            part = self._parts[name] = GuardedTask(name)
        return part

    def _set(self, part: GuardedTask, state: str, detail: str) -> None:
        if part.state != state:
            part.since = self._now()
        part.state, part.detail = state, detail
