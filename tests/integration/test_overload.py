# SPDX-License-Identifier: Apache-2.0
"""Two processes write more records than a server can read, and one writes few: none has wrong figures in the end.

The writers run the agent's own code. They report what they hold and held at most, and the server must have the same.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from tests import ring_writers
from tests.ring_writers import RingWriter, Written
from tests.support import Server, not_none, wait_until

FAST, SLOW = 500_000, 500  # records per second; a ring has room for 65,536
LOAD_SECONDS = 4.0
ANSWER_SECONDS = 5.0
CHIP_ID, SMALL_CHIP_ID = 77000, 77009
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
    """Bytes and peaks of a process; of a peak that is not known, both limits."""
    (share,) = row["chips"]
    for pool in POOLS:
        assert share[pool] == getattr(written, pool), pool
        check_peak(share[f"peak_{pool}"], share[f"peak_{pool}_at_most"], getattr(written, f"peak_{pool}"))


def check_peak(value: int, at_most: int | None, true: int) -> None:
    if at_most is None:
        assert value == true
    else:
        assert value <= true <= at_most


def check_chip(snapshot: dict[str, Any], chip_id: int, reports: list[Written]) -> None:
    """A chip has what its processes have. What they had together at most is known to lie between two limits."""
    (memory,) = [chip["memory"] for chip in snapshot["chips"] if chip["chip"] == str(chip_id)]
    for pool in POOLS:
        figures = memory[pool]
        assert figures["used"] == sum(getattr(report, pool) for report in reports), pool
        highs = [getattr(report, f"peak_{pool}") for report in reports]
        assert max(highs) <= figures["peak"] <= (figures["peak_at_most"] or figures["peak"]) <= sum(highs), pool


@pytest.mark.alone
@pytest.mark.parametrize("shared", [False, True], ids=["chips of their own", "one chip"])
def test_nothing_is_wrong_after_more_records_than_can_be_read(shared: bool, server: Server, ring_load: Path) -> None:
    """The fast ones have chips of their own or share one; the small one always has its own chip."""
    chips = (CHIP_ID, CHIP_ID if shared else CHIP_ID + 1, SMALL_CHIP_ID)
    with ring_writers.ring_writers(ring_load, server, chips) as writers:
        *fast, small = writers
        watch = Watch(server, writers)
        wait_until(watch.known, "an account of all writers")
        for writer in writers:
            writer.say(SLOW if writer is small else FAST)
            writer.answer()
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
    assert any(dropped[:-1])
    assert watch.shed <= set(fast)
    assert watch.slowest < ANSWER_SECONDS
    for chip in set(chips):
        check_chip(snapshot, chip, [report for report, own in zip(reports, chips, strict=True) if own == chip])
