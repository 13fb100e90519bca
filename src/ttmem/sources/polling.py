# SPDX-License-Identifier: Apache-2.0
"""Runs many small reads in rounds; a read that hangs does not delay the others.

Reading a chip during a reset sleeps in the kernel and cannot be interrupted; so does reading a process whose memory is
locked. Such a read is left in its own thread, and the other reads continue.
"""

from __future__ import annotations

import _thread
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any


class Outcome:
    """The outcome of one job in one round: it returned ``value``, or it raised ``error``, or it ``hangs``.

    ``age`` is in seconds: 0 for a result of this round, more for the late result of a job that hung before. For a job
    that hangs, it is the time since its start.
    """

    __slots__ = ("age", "error", "hangs", "value")

    def __init__(self, value: Any = None, error: BaseException | None = None, age: float = 0.0, hangs: bool = False):
        self.value = value
        self.error = error
        self.age = age
        self.hangs = hangs


class Rounds:
    """Runs one job for each key and returns soon, whatever the jobs do.

    >>> rounds = Rounds(patience=0.5)
    >>> outcomes = rounds.run({"a": lambda: 6 * 7, "b": lambda: 1 // 0})
    >>> outcomes["a"].value, outcomes["b"].error
    (42, ZeroDivisionError('integer division or modulo by zero'))

    There is an outcome for every key, in the order given. A job hangs if it has not returned ``patience`` seconds after
    it began. Its key is then not started again until that job has returned; meanwhile each round reports at once that
    it hangs. The late result is the outcome of the next round. So there are never more threads than keys, plus one. A
    round takes as long as its jobs, and never longer than twice the patience.

    The jobs of a round run one after another in a thread other than the caller's, so they need no locks against each
    other unless one hangs. Objects that a hanging job uses must not be used by others until it has returned. Give each
    job its own objects and let it return its result. Use a Rounds object from one thread at a time.
    """

    def __init__(self, patience: float) -> None:
        self.patience = patience
        self._begun: dict[Any, _Job] = {}

    def run(self, jobs: Mapping[Any, Callable[[], Any]]) -> dict[Any, Outcome]:
        start = time.monotonic()
        for key in [key for key, job in self._begun.items() if job.ended is not None and key not in jobs]:
            del self._begun[key]
        fresh = {key: _Job(call) for key, call in jobs.items() if key not in self._begun}
        # Stored before waiting: after an interrupt, no job can be started twice.
        self._begun.update(fresh)
        if fresh:
            self._work(list(fresh.values()))
        return {key: self._outcome(key, start) for key in jobs}

    def _work(self, fresh: list[_Job]) -> None:
        waiting = fresh[::-1]
        _start(waiting)
        if fresh[-1].done.acquire(timeout=self.patience):
            return  # one worker runs them in order, so all are done
        # One hangs, or all are slow. Each job that has not begun gets its own thread, so that none waits for another.
        for _ in fresh:
            if job := _next(waiting):
                _start([job])
        for job in fresh:
            if job.ended is None:
                now = time.monotonic()
                job.done.acquire(timeout=max(0.0, (job.began or now) + self.patience - now))

    def _outcome(self, key: Any, start: float) -> Outcome:
        job = self._begun[key]
        if job.ended is None:
            now = time.monotonic()
            return Outcome(age=now - (job.began or now), hangs=True)
        del self._begun[key]
        return Outcome(job.value, job.error, max(0.0, start - job.ended))


class _Job:
    """A call and, once ``ended`` is set, its result."""

    __slots__ = ("began", "call", "done", "ended", "error", "value")

    def __init__(self, call: Callable[[], Any]) -> None:
        self.call = call
        self.value: Any = None
        self.error: BaseException | None = None
        self.began: float | None = None
        self.ended: float | None = None
        self.done = _thread.allocate_lock()
        self.done.acquire()

    def end(self, value: Any, error: BaseException | None) -> None:
        self.value, self.error = value, error
        self.ended = time.monotonic()
        self.done.release()


def _next(waiting: list[_Job]) -> _Job | None:
    """The next job. Two threads may call this; they never get the same job."""
    try:
        return waiting.pop()
    except IndexError:
        return None


def _start(waiting: list[_Job]) -> None:
    """Start a worker for these jobs, the last one first. A daemon thread does not delay the exit of the interpreter."""
    try:
        _thread.start_new_thread(_worker, (waiting,))
    except RuntimeError as error:  # no more threads allowed: no result is better than a caller that hangs
        while job := _next(waiting):
            job.end(None, error)


def _worker(waiting: list[_Job]) -> None:
    while job := _next(waiting):
        job.began = time.monotonic()
        try:
            value = job.call()
        except BaseException as error:
            job.end(None, error)
        else:
            job.end(value, None)
