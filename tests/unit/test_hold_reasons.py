# SPDX-License-Identifier: Apache-2.0
"""Why an allocation may still be held, for every kind and flag."""

from __future__ import annotations

import pytest

from ttmem.account.ledger import Ledger
from ttmem.analyze.hold_reasons import Cause, cause_of
from ttmem.model.core_sets import core_id
from ttmem.model.events import Allocated, Extra
from ttmem.model.geometry import BOARDS
from ttmem.model.identity import ProcessInfo
from ttmem.model.kinds import KINDS, Confidence, Kind

BY_KIND = {
    Kind.DRAM: Cause.HELD,
    Kind.L1: Cause.HELD,
    Kind.HOST: Cause.HELD,
    Kind.L1_SMALL: Cause.LIKELY_PROGRAM_CACHE,
    Kind.TRACE: Cause.TRACE,
    Kind.CB: Cause.PROGRAM_CACHE,
    Kind.DFB: Cause.PROGRAM_CACHE,
    Kind.SCRATCHPAD: Cause.PROGRAM_CACHE,
    Kind.KERNEL: Cause.PROGRAM_CACHE,
    Kind.FABRIC_KERNEL: Cause.SYSTEM,
    Kind.DISPATCH_KERNEL: Cause.SYSTEM,
    Kind.FIRMWARE: Cause.SYSTEM,
}


def cause(kind: Kind, address: int = 0x1000, program: int = 0, extra: Extra | None = None) -> Cause:
    ledger = Ledger()
    source = ledger.source(0.0, ProcessInfo(1, 1), "legacy", Confidence.REPORTED)
    ledger.apply(0.0, source, Allocated(0, kind, address, 64, program, 0, extra))
    (allocation,) = ledger.allocations()
    return cause_of(allocation)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("program", [0, 7])
def test_the_kind_tells(kind: Kind, program: int) -> None:
    assert cause(kind, program=program) is BY_KIND[kind]


@pytest.mark.parametrize("kind", KINDS)
def test_what_the_runtime_took_for_itself_is_its_own_whatever_it_is(kind: Kind) -> None:
    assert cause(kind, extra=Extra(system=True)) is Cause.SYSTEM


def test_kernel_binaries_in_dram_are_the_program_caches() -> None:
    assert cause(Kind.DRAM, extra=Extra(binary=True)) is Cause.PROGRAM_CACHE
    assert cause(Kind.DRAM, extra=Extra(kept=True)) is Cause.LIKELY_PROGRAM_CACHE
    assert cause(Kind.DRAM, extra=Extra(tag="ttnn.add", reserved=128)) is Cause.HELD


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        (64, Cause.SYSTEM),  # launch messages
        (BOARDS["n150"].map_end - 64, Cause.SYSTEM),  # firmware
        (BOARDS["n150"].map_end, Cause.SYSTEM),  # the kernel ring
        (BOARDS["n150"].l1_base - 64, Cause.SYSTEM),
        (BOARDS["n150"].l1_base, Cause.HELD),  # data
    ],
)
def test_writes_to_one_core_are_the_runtimes_below_the_l1_that_is_given_out(address: int, expected: Cause) -> None:
    assert cause(Kind.L1, core_id(1, 2, address)) is expected
