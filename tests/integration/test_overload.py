# SPDX-License-Identifier: Apache-2.0
"""Two processes write more records than a server can read, and one writes few: none has wrong figures in the end.

The writers run the agent's own code. They report what they hold and held at most, and the server must have the same.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests import ring_writers
from tests.ring_writers import RingWriter, Written
from tests.support import Server, not_none, wait_until

RING = 65_536  # records
FAST, SLOW = 500_000, 500  # records per second
MISSED_RINGS = 4  # what each of the fast ones writes at least while the server is stopped
LOAD_SECONDS = 4.0
ANSWER_SECONDS = 5.0
CHIPS = {
    "chips of their own": (77000, 77001, 77009),
    "two on one chip": (77000, 77000, 77009),
    "one chip": (77000,) * 3,
}
POOLS = ("dram", "l1")


@pytest.fixture(scope="module")
def ring_load(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return ring_writers.build(tmp_path_factory.mktemp("ring_load"))


class Watch:
    """Asks for snapshots, and notes how long they take and which writers are shed."""

    def __init__(self, server: Server, writers: list[RingWriter]) -> None:
        self._server = server
        self._writers = writers
        self.slowest = 0.0
        self.shed: set[RingWriter] = set()

    def rows(self) -> list[dict[str, Any]]:
        asked = time.monotonic()
        snapshot = self._server.snapshot()
        self.slowest = max(self.slowest, time.monotonic() - asked)
        rows = [not_none(writer.row(snapshot)) for writer in self._writers]
        self.shed |= {writer for writer, row in zip(self._writers, rows, strict=True) if source(row)["shed"]}
        return rows

    def known(self) -> bool:
        snapshot = self._server.snapshot()
        return all(writer.row(snapshot) for writer in self._writers)


def source(row: dict[str, Any]) -> dict[str, Any]:
    (found,) = row["sources"]
    return dict(found)


def check(row: dict[str, Any], written: Written) -> None:
    """Bytes and peaks of a process since its start, which are exact whatever was lost (rule 17)."""
    (share,) = row["chips"]
    for pool in POOLS:
        assert share[pool] == getattr(written, pool), pool
        assert share[f"peak_{pool}"] == getattr(written, f"peak_{pool}"), pool
        assert share[f"peak_{pool}_at_most"] is None, pool


def stop_until_rings_are_overwritten(server: Server, fast: list[RingWriter]) -> None:
    """A server that is stopped reads and sheds nothing. So each of the fast ones loses records, on any machine."""

    def written() -> list[int]:
        time.sleep(0.1)  # after a line, a writer waits for its next burst
        for writer in fast:
            writer.say(FAST)
        return [writer.answer().records for writer in fast]

    os.kill(server.process.pid, signal.SIGSTOP)
    try:
        goals = [records + (MISSED_RINGS + 1) * RING for records in written()]
        wait_until(lambda: all(now > goal for now, goal in zip(written(), goals, strict=True)), "rings of records")
    finally:
        os.kill(server.process.pid, signal.SIGCONT)


def check_chip(snapshot: dict[str, Any], chip_id: int, reports: list[Written]) -> None:
    """A chip has what its processes have. What they had together at most is known to lie between two limits."""
    (memory,) = [chip["memory"] for chip in snapshot["chips"] if chip["chip"] == str(chip_id)]
    for pool in POOLS:
        figures = memory[pool]
        assert figures["used"] == sum(getattr(report, pool) for report in reports), pool
        highs = [getattr(report, f"peak_{pool}") for report in reports]
        assert max(highs) <= figures["peak"] <= (figures["peak_at_most"] or figures["peak"]) <= sum(highs), pool


@pytest.mark.alone
@pytest.mark.parametrize("chips", CHIPS.values(), ids=CHIPS)
def test_nothing_is_wrong_after_more_records_than_can_be_read(
    chips: tuple[int, ...], server: Server, ring_load: Path
) -> None:
    """The fast ones have chips of their own or share one; the small one has its own chip, or the same one."""
    with ring_writers.ring_writers(ring_load, server, chips) as writers:
        *fast, small = writers
        watch = Watch(server, writers)
        wait_until(watch.known, "an account of all writers")
        for writer in writers:
            writer.say(SLOW if writer is small else FAST)
            writer.answer()
        stop_until_rings_are_overwritten(server, fast)
        end = time.monotonic() + LOAD_SECONDS
        wait_until(lambda: watch.rows() and time.monotonic() > end and watch.shed, "the end of the load")

        small.say(0)
        written = small.answer()
        assert written.records > LOAD_SECONDS * SLOW / 2
        wait_until(
            lambda: written.has_bytes_of(watch.rows()[-1]), "the account of the small one, while the others write"
        )
        for writer in fast:
            writer.say(0)
        reports = [*(writer.answer() for writer in fast), written]

        wait_until(lambda: all(writer.is_read(server.snapshot()) for writer in writers), "the end of all rings")
        snapshot = server.snapshot()
    rows = [not_none(writer.row(snapshot)) for writer in writers]
    for row, report in zip(rows, reports, strict=True):
        check(row, report)
    dropped = [row["anomalies"]["dropped"] for row in rows]
    assert dropped[-1] == 0
    assert min(dropped[:-1]) > MISSED_RINGS * RING
    assert watch.shed <= set(fast)
    assert watch.slowest < ANSWER_SECONDS
    for chip in set(chips):
        check_chip(snapshot, chip, [report for report, own in zip(reports, chips, strict=True) if own == chip])
