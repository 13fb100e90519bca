# SPDX-License-Identifier: Apache-2.0
"""The past of an account, saved and put into another one: limits of peaks that are not exact, and what frees change."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from ttmem.account.entities import Source
from ttmem.account.ledger import Ledger
from ttmem.account.saved_history import restore, saved
from ttmem.account.totals import Total
from ttmem.documents.peaks import peaks
from ttmem.documents.run_document import _chips as run_chips
from ttmem.model.events import (
    Allocated,
    CaughtUp,
    DeviceOpened,
    Extra,
    Freed,
    GapBegan,
    MissedHigh,
    PeaksReset,
    ProcessExited,
)
from ttmem.model.identity import ChipInfo, ProcessInfo
from ttmem.model.kinds import Confidence, Kind

DRAM, L1 = Kind.DRAM, Kind.L1
CHIP = ChipInfo("555")
TIME = 20.0


class Account:
    """Processes that use one chip."""

    def __init__(self, *pids: int) -> None:
        self.ledger = Ledger()
        self.time = 0.0
        for pid in pids:
            self.apply(pid, DeviceOpened(0, CHIP))

    def source(self, pid: int) -> Source:
        return self.ledger.source(self.time, ProcessInfo(pid, 1), "agent", Confidence.EXACT)

    def apply(self, pid: int, *events: Any) -> None:
        for event in events:
            self.ledger.apply(self.time, self.source(pid), event)
            self.time += 1.0

    def reset(self) -> None:
        self.ledger.apply(self.time, None, PeaksReset())

    def lose(self, pid: int, *highs: MissedHigh) -> None:
        self.apply(pid, GapBegan(), CaughtUp(self.time, highs, (), 0, False))


def high(among: int, since_reset: tuple[int, int], ever: int, reserved: int = 0) -> tuple[MissedHigh, ...]:
    return tuple(MissedHigh((0,), gauge, among, among, *since_reset, ever, reserved) for gauge in ("dram", "dram_pool"))


def hold(made: Account, pid: int, number: int, size: int) -> None:
    made.apply(pid, Allocated(0, DRAM, 0x1000 * number, size, extra=Extra(size), ident=number))


def give_back(made: Account, pid: int, number: int) -> None:
    made.apply(pid, Freed(0, DRAM, 0x1000 * number, ident=number))


def restored(made: Account, live: Callable[[Account], None]) -> Account:
    """Another account in which the same is live, with the past of this one."""
    other = Account(1, 2)
    live(other)
    restore(other.ledger, json.loads(json.dumps(saved(made.ledger))), TIME)
    return other


def figures(ledger: Ledger) -> dict[tuple[object, ...], tuple[object, ...]]:
    """The peaks of all totals, with their limits."""
    totals: dict[tuple[object, ...], Total] = {}
    for chip in ledger.chips.values():
        totals.update({(chip.id, "kind", kind): total for kind, total in enumerate(chip.kinds)})
        totals.update({(chip.id, "pool", pool): total for pool, total in enumerate(chip.pools)})
    for process in (*ledger.processes.values(), *ledger.departed):
        for share in process.shares.values():
            totals.update({(process.info.pid, pool): total for pool, total in enumerate(share.pools)})
        for source in process.sources.values():
            totals.update({(process.info.pid, *corner): total for corner, total in source.totals.items()})
    return {
        place: (
            total.peak.value, total.peak.limit, total.recent.value, total.recent.limit, total.reserved_peak,
            total.reserved_bound,
        )
        for place, total in totals.items()
    }  # fmt: skip


def runs(ledger: Ledger) -> list[Any]:
    return [{pool: chip[pool] for pool in ("dram", "l1", "kinds")} for chip in run_chips(ledger, [])]


def of_two(reset: bool) -> Account:
    """Both hold something; records of the first are lost."""
    made = Account(1, 2)
    hold(made, 1, 1, 100)
    hold(made, 2, 2, 30)
    if reset:
        made.apply(1, GapBegan())
        made.reset()
        made.apply(1, CaughtUp(made.time, high(9000, (100, 500), 9000, 9500), (), 0, False))
    else:
        made.lose(1, *high(9000, (0, 0), 9000, 9500))
    return made


@pytest.mark.parametrize("reset", [False, True])
def test_limits_of_peaks(reset: bool) -> None:
    made = of_two(reset)

    def live(other: Account) -> None:
        hold(other, 1, 1, 100)
        hold(other, 2, 2, 30)

    other = restored(made, live)
    total = other.ledger.chips[CHIP.id].kinds[DRAM]
    assert (total.peak.value, total.peak.limit) == (9000, 9030)
    assert (total.reserved_peak, total.reserved_peak_exact) == (9500, False)
    assert (total.recent.limit is None) == (made.ledger.chips[CHIP.id].kinds[DRAM].recent.limit is None)
    assert figures(other.ledger) == figures(made.ledger)
    assert runs(other.ledger) == runs(made.ledger)
    assert saved(other.ledger) == saved(made.ledger)


def test_limits_after_a_process_exited() -> None:
    """Those of the process that exited are saved as well."""
    made = of_two(reset=True)
    made.apply(1, ProcessExited())

    def live(other: Account) -> None:
        hold(other, 2, 2, 30)
        other.apply(1, ProcessExited())

    other = restored(made, live)
    total = other.ledger.chips[CHIP.id].kinds[DRAM]
    assert total.peak.limit is not None
    assert not total.reserved_peak_exact
    assert figures(other.ledger) == figures(made.ledger)
    assert runs(other.ledger) == runs(made.ledger)
    everyone = (*other.ledger.processes.values(), *other.ledger.departed)
    (gone,) = [process for process in everyone if process.exited is not None]
    (total,) = gone.sources["agent"].totals.values()
    assert total.recent.limit == 500
    assert (total.used, total.reserved, total.count) == (100, 100, 1)


def test_what_a_device_held_on_another_chip_is_no_lower_limit_after_a_history() -> None:
    """The device of process 2 turned out to be the chip of process 1 before the history; the loss is after it."""
    made = Account(1, 2)
    made.apply(2, DeviceOpened(0, ChipInfo("777")))
    hold(made, 1, 1, 10)
    hold(made, 2, 1, 500)
    give_back(made, 2, 1)
    hold(made, 2, 2, 20)
    made.apply(2, DeviceOpened(0, CHIP))

    def live(other: Account) -> None:
        hold(other, 1, 1, 10)
        hold(other, 2, 2, 20)

    other = restored(made, live)
    assert saved(other.ledger) == saved(made.ledger)
    for account in (made, other):
        account.lose(1, *high(10, (0, 0), 10))
        assert account.ledger.chips[CHIP.id].kinds[DRAM].peak.bounds == (30, 510)


@pytest.mark.parametrize(
    "highs",
    [high(800, (0, 0), 1000), high(900, (950, 1000), 1000), ()],
    ids=["lower", "limits since the reset", "none"],
)
def test_what_is_freed_later_was_part_of_the_peak(highs: tuple[MissedHigh, ...]) -> None:
    """Also if the peak since the reset was reached among lost records, where nothing is known of what was live."""
    made = Account(1, 2)
    hold(made, 1, 1, 700)
    hold(made, 1, 2, 300)
    give_back(made, 1, 2)
    if highs and highs[0].reset_at_most:
        made.apply(1, GapBegan())
        made.reset()
        made.apply(1, CaughtUp(made.time, highs, (), 0, False))
    else:
        made.reset()
        made.lose(1, *highs)
    other = restored(made, lambda other: hold(other, 1, 1, 700))
    for account, then in ((made, [700, 300]), (other, [700])):  # what was freed before is not saved
        for _ in range(2):
            rows = [row for row in peaks(account.ledger) if row.get("kind") == "dram"]
            assert [(row["per_chip"], [item["size"] for item in row["largest"]]) for row in rows] == [(1000, then)]
            if account.source(1).process.count:
                give_back(account, 1, 1)
