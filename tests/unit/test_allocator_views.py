# SPDX-License-Identifier: Apache-2.0
"""Allocators' own figures and tracked figures: those of a MemoryReporter, and the completeness of the account."""

from __future__ import annotations

import pytest

from ttmem.account.ledger import Ledger
from ttmem.account.state import Limits
from ttmem.documents.snapshot import take_snapshot
from ttmem.model.events import Allocated, Audited, DeviceClosed, Event, Extra, ResyncBegin, ResyncEnd, Viewed
from ttmem.model.identity import ProcessInfo
from ttmem.model.kinds import Confidence, Kind
from ttmem.model.schema import MemoryRow

MB = 1_000_000
BANKS = 64


def view(total: int, kind: Kind = Kind.L1, allocator: int = 1, free: int = 0) -> Viewed:
    assert total % BANKS == 0
    return Viewed(0, allocator, kind, BANKS, 1 << 20, total // BANKS, free)


def buffer(size: int, reserved: int | None = None, kind: Kind = Kind.L1) -> Allocated:
    return Allocated(0, kind, 0x1000, size, extra=None if reserved is None else Extra(reserved))


class Machine:
    def __init__(self, limits: Limits = Limits()) -> None:
        self.ledger = Ledger(limits)

    def tell(self, *events: Event, source: str = "client", pid: int = 1) -> Machine:
        teller = self.ledger.source(0.0, ProcessInfo(pid, 1), source, Confidence.REPORTED)
        for event in events:
            self.ledger.apply(0.0, teller, event)
        return self

    @property
    def memory(self) -> MemoryRow:
        (chip,) = take_snapshot(self.ledger, time="", host="")["chips"]
        return chip["memory"]

    def figures(self) -> tuple[int | None, int | None, int | None]:
        reporter = self.memory["reporter"]
        return reporter["total"], reporter["tracked"], reporter["inferred"]


@pytest.mark.parametrize(
    ("total", "tracked", "inferred"),
    [
        (952 * MB // 10, 15 * MB // 10, 937 * MB // 10),  # a large model
        (52 * MB // 10, 0, 52 * MB // 10),  # an idle device
        (MB, 2 * MB, 0),  # never negative
        (0, 0, 0),
    ],
)
def test_what_is_not_tracked_is_the_difference(total: int, tracked: int, inferred: int) -> None:
    machine = Machine().tell(view(total), source="reporter")
    if tracked:
        machine.tell(buffer(tracked))
    assert machine.figures() == (total, tracked, inferred)
    assert machine.memory["reporter"]["basis"] == (
        "reporter total minus tracked buffers; on stock ttnn this is what was not tracked, "
        "not circular buffers or kernels"
    )  # fmt: skip


def test_without_a_reporter() -> None:
    machine = Machine().tell(buffer(MB))
    assert machine.figures() == (None, None, None)
    assert machine.memory["reporter"]["basis"] == "MemoryReporter unavailable"


def test_like_is_compared_with_like() -> None:
    """The reporter counts reserved bytes, so the tracked bytes are also the reserved ones, if known."""
    assert Machine().tell(buffer(1000, 6400), view(6400)).figures() == (6400, 6400, 0)


def test_allocators_add_up_and_kinds_do_not() -> None:
    machine = Machine().tell(view(6400), view(1280, allocator=2), view(64 * MB, Kind.DRAM), view(64, Kind.L1_SMALL))
    assert machine.figures() == (7680, 0, 7680)


def test_the_newest_view_counts() -> None:
    assert Machine().tell(view(6400), view(640)).figures()[0] == 640


@pytest.mark.parametrize("end", [DeviceClosed(0), Viewed(0, 1, Kind.L1, 0, 0, 0, 0)])
def test_a_view_that_is_taken_back(end: Event) -> None:
    machine = Machine().tell(view(6400), end)
    assert machine.memory["reporter"]["basis"] == "MemoryReporter unavailable"
    assert machine.memory["completeness"] is None


def test_the_tightest_allocator_says_what_fits() -> None:
    machine = Machine().tell(view(0, free=900), view(0, allocator=2, free=500), view(0, Kind.DRAM, free=7000))
    assert (machine.memory["l1"]["largest_free"], machine.memory["dram"]["largest_free"]) == (500, 7000)


def test_completeness_is_that_of_the_moment() -> None:
    machine = Machine().tell(buffer(3000, 3200), view(6400))
    assert machine.memory["completeness"] == 0.5
    machine.tell(Allocated(0, Kind.L1_SMALL, 0x5000, 64), Allocated(0, Kind.L1, 0x2000, 3000, extra=Extra(3200)))
    assert machine.memory["completeness"] == 0.5, "nobody has looked since"
    machine.tell(view(6400))
    assert machine.memory["completeness"] == 1.0


def test_what_is_tracked_and_not_there_is_as_wrong() -> None:
    assert Machine().tell(buffer(6400, 6400), view(1600)).memory["completeness"] == 0.25


def test_another_source_of_the_process_is_what_is_compared() -> None:
    machine = Machine().tell(buffer(3200, 3200)).tell(view(6400), source="reporter")
    assert machine.memory["completeness"] == 0.5
    machine.tell(Allocated(0, Kind.L1, 0x9000, 3200, extra=Extra(3200)), pid=2)
    machine.tell(view(6400), source="reporter")
    assert machine.memory["completeness"] == 0.5, "what other processes hold is not in this allocator"


def test_what_is_inferred_is_of_those_who_report() -> None:
    """A process without a reporter has its own allocators: its tracked bytes do not explain those of others."""
    machine = Machine().tell(buffer(3200, 3200), view(6400)).tell(buffer(3200, 3200), pid=2)
    assert machine.figures() == (6400, 3200, 3200)


def test_a_view_that_comes_before_what_it_speaks_of_counts() -> None:
    machine = Machine().tell(ResyncBegin(1), buffer(6400, 6400)._replace(refs=1), view(6400), ResyncEnd(1))
    assert machine.memory["completeness"] == 1.0


def test_what_is_not_known_to_be_taken_cannot_be_compared() -> None:
    assert Machine().tell(buffer(3200), view(6400)).memory["completeness"] is None


def test_an_audit_knows_better() -> None:
    audit = Audited(0, 1, (0, 50), (0, 50), (0, 0), (8, BANKS))
    machine = Machine().tell(audit, source="agent").tell(view(6400), source="reporter")
    assert machine.memory["completeness"] == 1.0


def test_views_have_a_cap() -> None:
    machine = Machine(Limits(views=2)).tell(*(view(64, allocator=number) for number in range(5)))
    assert machine.figures()[0] == 128


def test_a_view_of_no_device_is_rejected() -> None:
    machine = Machine().tell(Viewed(-1, 0, Kind.L1, 1, 1, 1, 1))
    assert machine.ledger.anomalies["rejected"] == 1
    assert not machine.ledger.chips
