# SPDX-License-Identifier: Apache-2.0
"""Kinds of memory: their codes, pools, families, and the sources that see them."""

from __future__ import annotations

import pytest

from ttmem.model.kinds import (
    BUFFER_KINDS,
    FAMILY_OF,
    KERNEL_KINDS,
    KIND_BY_LABEL,
    KINDS,
    POOL_OF,
    Confidence,
    Kind,
    Pool,
    covers,
)


def test_buffer_codes_are_those_of_the_runtime() -> None:
    """tt-metal's BufferType: 2 is system memory and 3 is small L1, although comments in clients differ."""
    assert [kind.name for kind in BUFFER_KINDS] == ["DRAM", "L1", "HOST", "L1_SMALL", "TRACE"]
    assert [int(kind) for kind in BUFFER_KINDS] == [0, 1, 2, 3, 4]


def test_kernel_kinds_are_in_wire_order() -> None:
    assert KERNEL_KINDS == (Kind.KERNEL, Kind.FABRIC_KERNEL, Kind.DISPATCH_KERNEL)


def test_kinds_can_index_a_list() -> None:
    assert [int(kind) for kind in KINDS] == list(range(len(KINDS)))
    assert len(POOL_OF) == len(FAMILY_OF) == len(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_labels(kind: Kind) -> None:
    assert kind.label == kind.label.lower()
    assert KIND_BY_LABEL[kind.label] is kind


def test_every_kind_has_the_right_pool() -> None:
    pools = {pool: {kind for kind in KINDS if POOL_OF[kind] is pool} for pool in Pool}
    assert pools == {
        Pool.DRAM: {Kind.DRAM, Kind.TRACE},
        Pool.HOST: {Kind.HOST},
        Pool.SYSTEM: {Kind.FABRIC_KERNEL, Kind.DISPATCH_KERNEL},
        Pool.L1: {Kind.L1, Kind.L1_SMALL},
        Pool.PROGRAM: {Kind.CB, Kind.DFB, Kind.SCRATCHPAD, Kind.KERNEL, Kind.FIRMWARE},
    }
    assert [pool.label for pool in Pool] == ["dram", "l1", "host", "system", "program"]


def test_an_unload_finds_a_kernel_of_any_type() -> None:
    assert len({FAMILY_OF[kind] for kind in KERNEL_KINDS}) == 1
    others = [kind for kind in KINDS if kind not in KERNEL_KINDS]
    assert [FAMILY_OF[kind] for kind in others] == [int(kind) for kind in others]


def test_the_stronger_witness_is_larger() -> None:
    assert Confidence.ESTIMATED < Confidence.REPORTED < Confidence.EXACT
    assert [c.label for c in Confidence] == ["estimated", "reported", "exact"]


def test_coverage() -> None:
    wire = set(BUFFER_KINDS) | {Kind.CB} | set(KERNEL_KINDS)
    assert covers("legacy") == covers("client") == covers("somebody else") == wire
    assert covers("agent") == set(KINDS)
    assert covers("sim") == set(KINDS) - {Kind.HOST}
    assert covers("instrument") == set(KINDS) - {Kind.HOST, Kind.FIRMWARE, *KERNEL_KINDS}
    assert covers("l1_tracker") == {Kind.CB, Kind.KERNEL}
    assert covers("reporter") == set()
