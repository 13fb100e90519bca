# SPDX-License-Identifier: Apache-2.0
"""Times every callback of an asyncio loop in CPU time of its thread, so that other load does not count."""

from __future__ import annotations

import asyncio
import time
from asyncio.events import Handle
from collections.abc import Callable


class LoopWatch:
    """The longest callback and the CPU of all of them, until a condition is true or the end of the ``with``."""

    def __init__(self, until: Callable[[], bool] = lambda: False) -> None:
        """``until`` is looked at after each callback; `reached` is then set."""
        self.longest = self.total = 0.0
        self.reached = asyncio.Event()
        self._until = until

    def __enter__(self) -> LoopWatch:
        self._run = run = Handle._run

        def timed(handle: Handle) -> None:
            began = time.thread_time()
            run(handle)
            if not self.reached.is_set():
                took = time.thread_time() - began
                self.longest = max(self.longest, took)
                self.total += took
                if self._until():
                    self.reached.set()

        Handle._run = timed  # type: ignore[assignment, method-assign]
        return self

    def __exit__(self, *_: object) -> None:
        Handle._run = self._run  # type: ignore[method-assign]
