# SPDX-License-Identifier: Apache-2.0
"""Sizes from a ProgramDescriptor; with ttnn's own in tests/integration/test_instrument.py."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ttmem.collect.program_descriptor import descriptor_sizes, report_descriptor
from ttmem.model.core_sets import CoreRange, mask_of
from ttmem.model.kinds import Kind

BASE = 105824


class ReaderConfigDescriptor:
    pass


def ranges(*rectangles: tuple[int, int, int, int]) -> Any:
    """A CoreRangeSet as ttnn has it."""

    def corner(x: int, y: int) -> Any:
        return SimpleNamespace(x=x, y=y)

    found = [SimpleNamespace(start=corner(x0, y0), end=corner(x1, y1)) for x0, y0, x1, y1 in rectangles]
    return SimpleNamespace(ranges=lambda: found)


def cb(size: int, cores: Any, *indices: int, address: int | None = None, offset: int = 0, remote: bool = False) -> Any:
    return SimpleNamespace(
        total_size=size,
        core_ranges=cores,
        format_descriptors=[SimpleNamespace(buffer_index=index) for index in indices],
        remote_format_descriptors=[SimpleNamespace(buffer_index=31)] if remote else [],
        has_buffer=lambda: address is not None,
        buffer_address=lambda: address,
        address_offset=offset,
        has_global_circular_buffer=lambda: remote,
    )


WIDE, NARROW, APART = ranges((0, 0, 1, 1), (4, 4, 4, 5)), ranges((1, 1, 1, 1)), ranges((7, 7, 7, 7))
KERNEL = SimpleNamespace(kernel_source="reader.cpp", config=ReaderConfigDescriptor(), core_ranges=WIDE)
PROGRAM = SimpleNamespace(
    kernels=[KERNEL],
    cbs=[
        cb(4096, WIDE, 0),
        cb(65536, ranges((0, 0, 3, 0)), 7, address=1394688, offset=64),
        cb(100, NARROW, 1, 2),
        cb(2048, NARROW, 3),
        cb(512, APART, 3),
        cb(8192, WIDE, 4, remote=True),
    ],
)
WIDE_MASK = mask_of([CoreRange(0, 0, 1, 1), CoreRange(4, 4, 4, 5)])
ONE = mask_of([CoreRange(1, 1, 1, 1)])


def test_sizes() -> None:
    sizes = descriptor_sizes(PROGRAM)
    assert [buffer.indices for buffer in sizes.circular_buffers] == [(0,), (7,), (1, 2), (3,), (3,), (4, 31)]
    assert [buffer.total for buffer in sizes.circular_buffers] == [6 * 4096, 4 * 65536, 100, 2048, 512, 6 * 8192]
    assert [buffer.address for buffer in sizes.circular_buffers if buffer.shared] == [1394688 + 64, None]
    assert sizes.circular_buffers[0].cores == WIDE_MASK
    assert sizes.total == 6 * 4096 + 100 + 2048 + 512
    assert sizes.fullest_core == 4096 + 100 + 2048
    assert sizes.kernels == [("reader.cpp", "reader", WIDE_MASK)]


def test_an_empty_program() -> None:
    sizes = descriptor_sizes(SimpleNamespace(kernels=[], cbs=[]))
    assert (sizes.total, sizes.fullest_core, sizes.placed(BASE, 32)) == (0, 0, [])


def test_something_else() -> None:
    with pytest.raises(TypeError, match=r"expected a ttnn\.ProgramDescriptor.* not 'nothing'"):
        descriptor_sizes("nothing")


def test_places_are_one_above_the_other_on_each_core() -> None:
    placed = descriptor_sizes(PROGRAM).placed(BASE, 32)
    assert [(part.kind, part.address, part.size) for part in placed] == [
        (Kind.CB, BASE, 4096),
        (Kind.CB, BASE + 4096, 100),
        (Kind.CB, BASE + 4096 + 128, 2048),
        (Kind.CB, BASE, 512),
    ]


def test_a_report() -> None:
    told: list[tuple[Any, ...]] = []
    client: Any = SimpleNamespace(
        report_program_compiled=lambda **v: told.append((v["device_id"], v["program"], v["tag"])),
        report_cb_allocation=lambda **v: told.append((v["device_id"], v["program"], v["cb_id"], v["size"], v["cores"])),
    )
    assert report_descriptor(PROGRAM, client=client, device=2, program=8, base=BASE, unit=32, tag="mine").total
    assert told[0] == (2, 8, "mine")
    assert told[1:3] == [(2, 8, BASE, 6 * 4096, WIDE_MASK), (2, 8, BASE + 4096, 100, ONE)]
    assert len(told) == 5
