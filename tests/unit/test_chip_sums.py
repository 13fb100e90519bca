# SPDX-License-Identifier: Apache-2.0
"""Sums over the chips of meshes, and the chips on which allocations count."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from ttmem.account.ledger import Ledger
from ttmem.analyze.chip_sums import ChipSums, CountedChips
from ttmem.model.events import Allocated, ResyncBegin
from ttmem.model.identity import ProcessInfo
from ttmem.model.kinds import Confidence, Kind

MESHES = st.lists(st.integers(0, 5), min_size=1, max_size=6, unique=True).map(tuple)


@given(st.lists(st.tuples(MESHES, st.integers(0, 99))), st.integers(0, 9))
def test_the_sums_are_those_of_each_chip(added: list[tuple[tuple[int, ...], int]], cut: int) -> None:
    """Whether they are added one by one or merged."""
    sums, more = ChipSums[int](), ChipSums[int]()
    for number, (chips, size) in enumerate(added):
        (sums if number < cut else more).add(chips, size)
    sums.merge(more)
    naive = Counter[int]()
    for chips, size in added:
        for chip in chips:
            naive[chip] += size
    total = {"bytes": sum(naive.values()), "per_chip": max(naive.values(), default=0), "chips": len(naive)}
    assert sums.counted() == {"count": len(added), **total}
    assert (sums.bytes, sums.by_chip()) == (total["bytes"], dict(naive))


def test_where_a_stronger_source_reports_an_allocation_does_not_count() -> None:
    ledger = Ledger()
    info = ProcessInfo(1, 1)
    weak = ledger.source(0.0, info, "client", Confidence.REPORTED)
    strong = ledger.source(0.0, info, "agent", Confidence.EXACT)
    ledger.apply(1.0, weak, Allocated((0, 1, 2), Kind.DRAM, 0x1000, 64))
    (item,) = ledger.allocations()
    everywhere, first = CountedChips(), CountedChips(lambda holding: holding.chips[:2])
    assert [chip.id for chip in everywhere.of(item).chips] == ["assumed:0", "assumed:1", "assumed:2"]
    ledger.apply(2.0, strong, Allocated(0, Kind.DRAM, 0x1000, 64))
    assert [chip.id for chip in everywhere.of(item).chips] == ["assumed:1", "assumed:2"], "not as it was before"
    found = first.of(item)
    assert ([chip.id for chip in found.chips], [chip.id for chip in found.others]) == (["assumed:1"], ["assumed:2"])


def test_what_a_resync_reports_does_not_count_before_its_end() -> None:
    ledger = Ledger()
    source = ledger.source(0.0, ProcessInfo(1, 1), "client", Confidence.REPORTED)
    ledger.apply(1.0, source, ResyncBegin(1))
    ledger.apply(1.0, source, Allocated((0, 1), Kind.DRAM, 0x1000, 64))
    (item,) = ledger.allocations()
    assert CountedChips().of(item) == ((), ())
