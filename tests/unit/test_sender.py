# SPDX-License-Identifier: Apache-2.0
"""The queue between a workload and the thread that sends."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from ttmem.account.events import Allocated, Freed
from ttmem.account.kinds import Confidence, Kind
from ttmem.collect import sender
from ttmem.wire import native

LIMIT, THREADS, ROUNDS = 4096, 3, 20_000


def test_those_who_outrun_the_thread_do_its_work(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nobody waits, and still the queue does not grow without end."""
    monkeypatch.setattr(sender, "_QUEUE_HELP", LIMIT)
    one = sender.Sender([str(tmp_path / "nobody.sock")], native.hello("client", Confidence.REPORTED))
    longest = [0] * THREADS

    def work(number: int) -> None:
        for turn in range(ROUNDS):
            address = (number << 32) + 64 * (turn % 10) + 64
            one.put(Allocated(0, Kind.DRAM, address, 64))
            one.put(Freed(0, Kind.DRAM, address))
            longest[number] = max(longest[number], len(one._queue))

    workers = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert LIMIT <= max(longest) < 2 * LIMIT
    one.close()
