# SPDX-License-Identifier: Apache-2.0
"""Sizes by phase, and the tightest program where no buffer is in L1."""

from __future__ import annotations

from ttmem.fit.bank_use import BankUse
from ttmem.fit.fit_listener import FitSizes

DRAM, L1, L1_SMALL = 0, 1, 3


def test_a_phase_has_what_was_in_use_while_it_was_open() -> None:
    now: list[str] = []
    sizes = FitSizes(None, None, True, 0, open_phases=lambda: now)
    sizes.banks[DRAM] = BankUse(0, 1000)
    sizes.took(DRAM, 0, 300, 0)
    sizes.took(DRAM, 300, 200, 0)
    now[:] = ["load", "load/attention"]
    sizes.gave_back(DRAM, 300)  # it began when 500 were in use
    now[:] = ["load"]
    sizes.took(DRAM, 300, 400, 0)
    now.clear()
    sizes.took(DRAM, 700, 200, 0)
    found = {path: (phase.peak, phase.least_largest) for path, phase in sizes.phases.items()}
    assert found == {"load": (700, 300), "load/attention": (500, 500)}
    assert (sizes.banks[DRAM].peak, sizes.banks[DRAM].least_largest) == (900, 100)


def test_without_l1_buffers_the_end_of_l1_limits_a_program() -> None:
    sizes = FitSizes(None, None, True, l1_end=1000)
    sizes.compiled(1, 0, 11)
    sizes.compiled(2, 0, 12)
    sizes.placed(1, 600)
    sizes.placed(2, 400)
    for program in (1, 2, 3):
        sizes.ran(program)
    assert sizes.room_below_end == (400, 11)
    assert sizes.least is None
    sizes.took(L1, 700, 64, 13)
    sizes.ran(2)
    assert sizes.least is not None
    assert sizes.least.room == 300
    sizes.took_per_core()
    sizes.placed(2, 990)
    sizes.ran(2)
    assert sizes.room_below_end == (400, 11), "L1 differs between cores"


def test_l1_and_l1_small_are_added_up() -> None:
    sizes = FitSizes(None, None, True, l1_end=1000)
    sizes.took(L1, 700, 64, 0)
    sizes.took(L1_SMALL, 990, 10, 0)
    sizes.took(L1, 700, 64, 0)  # reported again
    sizes.gave_back(L1, 700)
    sizes.took(L1, 600, 50, 0)
    assert sizes.l1_reserved_peak == 74
    sizes.took_per_core()
    sizes.took(L1, 100, 64, 0)
    assert sizes.l1_reserved_peak is None, "L1 differs between cores"
