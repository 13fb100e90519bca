# SPDX-License-Identifier: Apache-2.0
"""Peaks and phases after records were lost: compared with what really was held, record by record."""

from __future__ import annotations

import random
from collections import defaultdict
from contextlib import ExitStack, closing

import pytest

from tests.metered_agent import PHASES, MeteredAgent
from tests.scripted_agent import SLOTS, Reader
from ttmem.account.entities import Source
from ttmem.account.totals import Total
from ttmem.model.events import PeaksReset
from ttmem.model.kinds import KINDS, POOL_OF, Kind, Pool

CHIPS = (555, 777)
Corner = tuple[object, ...]  # of the truth: who (None: everyone), which chip, which kind or pool
_USED_KINDS = (Kind.DRAM, Kind.L1, Kind.L1_SMALL)


class Truth:
    """What processes hold on chips, and how high that was: since the start, since a reset, in open phases."""

    def __init__(self) -> None:
        self.used: dict[Corner, int] = defaultdict(int)
        self.peak: dict[Corner, int] = defaultdict(int)
        self.recent: dict[Corner, int] = defaultdict(int)
        self.phases: dict[tuple[int, int], dict[Corner, int]] = {}

    def change(self, pid: int, chips: list[int], kind: Kind, size: int) -> None:
        for chip in chips:
            for who in (pid, None):
                for what in (kind, POOL_OF[kind]):
                    corner = who, chip, type(what), what
                    used = self.used[corner] = self.used[corner] + size
                    self.peak[corner] = max(self.peak[corner], used)
                    self.recent[corner] = max(self.recent[corner], used)
                    for (owner, _), peaks in self.phases.items():
                        if owner == who:
                            peaks[corner] = max(peaks[corner], used)

    def reset(self) -> None:
        self.recent = defaultdict(int, self.used)

    def begin(self, pid: int, ident: int) -> None:
        mine = {corner: used for corner, used in self.used.items() if corner[0] == pid}
        self.phases[pid, ident] = defaultdict(int, mine)


def totals(reader: Reader, sources: dict[int, Source]) -> dict[Corner, Total]:
    found: dict[Corner, Total] = {}
    for chip_id, chip in reader.ledger.chips.items():
        for kind in KINDS:
            found[None, int(chip_id), Kind, kind] = chip.kinds[kind]
        for pool in Pool:
            found[None, int(chip_id), Pool, pool] = chip.pools[pool]
    for pid, source in sources.items():
        for chip_id, share in source.process.shares.items():
            for pool in Pool:
                found[pid, int(chip_id), Pool, pool] = share.pools[pool]
        for (number, kind), total in source.totals.items():
            found[pid, int(source.process.numbers[number].id), Kind, kind] = total
    return found


def compare(reader: Reader, sources: dict[int, Source], truth: Truth, shared: bool) -> int:
    """Everything the account says must be true. Returns how many peaks are not exact."""
    inexact = 0
    found = totals(reader, sources)
    for corner, peak in truth.peak.items():
        total = found[corner]
        assert total.used == truth.used[corner], corner
        for known, real in ((total.peak, peak), (total.recent, truth.recent[corner])):
            assert known.value <= real <= known.at_most, (corner, known.value, real, known.at_most)
            inexact += known.at_most > known.value
        if corner[0] is not None or not shared:
            assert total.peak.value == total.peak.at_most == peak, corner
    for (pid, ident), peaks in truth.phases.items():
        process = sources[pid].process
        phase = process.phases.open[sources[pid], ident]
        assert phase.complete
        rows: dict[Corner, int] = {
            (pid, int(row["chip"]), Pool if "pool" in row else Kind, row.get("pool") or row.get("kind")): row["peak"]
            for row in process.phases.rows(phase)
        }
        for (_, chip, sort, what), real in peaks.items():
            assert rows.get((pid, chip, sort, label_of(what)), 0) == real, (ident, chip, what)
    return inexact


def label_of(what: object) -> str:
    assert isinstance(what, (Kind, Pool))
    return what.label


def act(agent: MeteredAgent, pid: int, truth: Truth, dice: random.Random, idents: list[int]) -> None:
    choice = dice.random()
    if choice < 0.05 and len(agent.open_phases) < PHASES:
        idents.append(len(idents) + 1)
        agent.begin_phase(idents[-1], dice.choice(("prefill", "decode")), dice.choice([0, *agent.open_phases]))
        truth.begin(pid, idents[-1])
        return
    if choice < 0.1 and agent.open_phases:
        ident = agent.open_phases[-1]
        agent.end_phase(ident)
        del truth.phases[pid, ident]
        return
    slot = dice.randrange(12)
    if slot in agent.live:
        record = agent.live[slot]
        mesh, kind, size = record.mesh, Kind(record.kind), -record.size
        agent.give_back(slot)
    else:
        mesh, kind, size = dice.randrange(3), dice.choice(_USED_KINDS), dice.randrange(1, 1000)
        agent.take(slot, size, kind, mesh)
    truth.change(pid, [CHIPS[index] for index in agent.members[mesh]], kind, size)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("processes", [1, 2])
def test_peaks_are_true_whatever_was_lost(seed: int, processes: int) -> None:
    dice = random.Random(seed)
    truth, reader = Truth(), Reader()
    lost = 0
    with ExitStack() as stack:
        agents = {pid: stack.enter_context(closing(MeteredAgent(CHIPS))) for pid in range(1, processes + 1)}
        stack.callback(reader.rings.close)
        sources = {pid: reader.adopt(agent, pid) for pid, agent in agents.items()}
        idents: dict[int, list[int]] = {pid: [] for pid in agents}
        reader.follow()
        for _ in range(40):
            for _ in range(dice.choice((3, SLOTS - 4, SLOTS + 4, 3 * SLOTS, 6 * SLOTS))):
                pid = dice.choice(list(agents))
                clock = max(agent.clock for agent in agents.values())
                agents[pid].clock = clock  # one clock, so that records of two rings have an order
                act(agents[pid], pid, truth, dice, idents[pid])
            reader.follow()
            compare(reader, sources, truth, shared=processes > 1)
            if dice.random() < 0.2:
                reader.sink.apply(reader.sink.now(), None, PeaksReset())
                truth.reset()
        lost = reader.rings.counts()[1]
    assert lost > 10 * SLOTS
    assert reader.warnings == []


def test_a_device_that_is_another_chip_after_the_loss() -> None:
    """The chip that the process left raises its peaks again."""
    reader = Reader()
    with ExitStack() as stack:
        stack.callback(reader.rings.close)
        lossy, other = (stack.enter_context(closing(MeteredAgent((555,)))) for _ in range(2))
        for pid, agent in enumerate((lossy, other), 1):
            reader.adopt(agent, pid)
        lossy.take(0, 100, Kind.DRAM, 0)
        other.take(0, 10, Kind.DRAM, 0)
        reader.follow()
        lossy.give_back(0)
        for index in (0, 1):
            lossy.chip(0, 888, 0)
            lossy.mesh(index, [0])
            lossy.put_mesh(index, opened=lossy.head + 1)
            lossy.opened(index)
        for _ in range(2 * SLOTS):
            lossy.take(0, 50, Kind.DRAM, 0)
            lossy.give_back(0)
        reader.follow()
        for _ in range(3):
            other.give_back(0)
            other.take(0, 500, Kind.DRAM, 0)
        reader.follow()
        left = reader.ledger.chips["555"].kinds[Kind.DRAM]
        assert (left.used, left.gaps) == (500, frozenset())
        assert left.peak.value == 500
        assert reader.warnings == []
