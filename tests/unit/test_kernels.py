# SPDX-License-Identifier: Apache-2.0
"""Groups of cores with the same kernels, their use of the kernel ring, and ttnn's table when the ring is too small."""

from __future__ import annotations

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from ttmem.model.core_sets import CoreRange, cores_of, mask_of
from ttmem.sim.errors import RingTooSmall
from ttmem.sim.kernels import (
    PROCESSORS,
    Kernel,
    RingUse,
    check_ring,
    compute_kernel,
    data_movement_kernel,
    groups_of,
    ring_use,
)

LAW = settings(max_examples=100, phases=[Phase.explicit, Phase.generate, Phase.shrink])
GRID, LEFT, RIGHT = CoreRange(0, 0, 7, 7), CoreRange(0, 0, 3, 7), CoreRange(4, 0, 7, 7)

SPAN = st.tuples(st.integers(0, 3), st.integers(0, 3)).map(sorted)
RECTANGLES = st.tuples(SPAN, SPAN).map(lambda spans: CoreRange(spans[0][0], spans[1][0], spans[0][1], spans[1][1]))
KERNELS = st.builds(
    data_movement_kernel, st.sampled_from("abc"), st.integers(1, 9000), args=st.integers(0, 9)
) | st.builds(
    compute_kernel, st.sampled_from("abc"), st.tuples(*[st.integers(1, 9000)] * 3), common_args=st.integers(0, 9)
)
PLACED = st.lists(st.tuples(KERNELS, st.lists(RECTANGLES, min_size=1, max_size=2)), max_size=5)


@LAW
@given(PLACED)
def test_groups_part_the_cores(placed: list[tuple[Kernel, list[CoreRange]]]) -> None:
    """Each core is in one group, with exactly the kernels that were put on it, in their order. No group is empty, and
    no two groups have the same kernels from the same calls.
    """
    groups = groups_of(placed)
    assert (
        sum(group.cores.bit_count() for group in groups)
        == mask_of(one for _, ranges in placed for one in ranges).bit_count()
    )
    for group in groups:
        assert group.cores
        for x, y in cores_of(group.cores):
            here = mask_of([CoreRange(x, y, x, y)])
            assert group.kernels == tuple(kernel for kernel, ranges in placed if mask_of(ranges) & here)
        assert group.size == sum(kernel.size for kernel in group.kernels)


@LAW
@given(PLACED, st.dictionaries(st.integers(0, 31), RECTANGLES.map(lambda one: mask_of([one])), max_size=5))
def test_the_ring_holds_what_any_core_needs(placed: list[tuple[Kernel, list[CoreRange]]], cbs: dict[int, int]) -> None:
    use = ring_use(groups_of(placed), semaphores=3, cbs=cbs, dfbs=2)
    on_cores: dict[tuple[int, int], list[Kernel]] = {}
    for kernel, ranges in placed:
        for core in cores_of(mask_of(ranges)):
            on_cores.setdefault(core, []).append(kernel)
    texts = [
        sum((size + 15) // 16 * 16 for kernel in kernels for _, size in kernel.binaries)
        for kernels in on_cores.values()
    ]
    indexes = [index for index, mask in cbs.items() for core in cores_of(mask) if core in on_cores]
    assert use.kernel_text == max(texts, default=0)
    assert use.circular_buffers == 16 * (max(indexes, default=-1) + 1)
    assert (use.semaphores, use.dataflow_buffers) == (48, 32)
    assert use.total == sum(use)
    assert all(part % 16 == 0 for part in use)


def test_runtime_arguments_of_a_group_are_rounded_together_and_common_ones_each() -> None:
    reader, writer = (data_movement_kernel(name, 100, args=1, common_args=1) for name in ("reader", "writer"))
    assert ring_use(groups_of([(reader, [GRID]), (writer, [GRID])])).runtime_args == 16 + 2 * 16
    assert ring_use(groups_of([(reader, [LEFT]), (writer, [RIGHT])])).runtime_args == 16 + 16


def test_the_groups_that_need_most_may_be_different_ones() -> None:
    many = data_movement_kernel("many", 100, args=40)
    common = data_movement_kernel("common", 100, common_args=9)
    assert ring_use(groups_of([(many, [LEFT]), (common, [RIGHT])])).runtime_args == 160 + 48


def test_a_circular_buffer_on_cores_without_kernels_has_no_configuration() -> None:
    groups = groups_of([(data_movement_kernel("reader", 100), [LEFT])])
    assert ring_use(groups, cbs={2: mask_of([LEFT]), 20: mask_of([RIGHT])}).circular_buffers == 3 * 16


def test_kernels_of_both_sorts() -> None:
    assert data_movement_kernel("reader", 100, "ncrisc") == Kernel("reader", (("ncrisc", 100),))
    compute = compute_kernel("mm", (1, 2, 3))
    assert [processor for processor, _ in compute.binaries] == list(PROCESSORS[2:])
    assert compute.size == 6


def test_a_ring_that_is_just_large_enough() -> None:
    groups = groups_of([(data_movement_kernel("reader", 100), [LEFT])])
    check_ring(ring_use(groups), 112, groups)
    with pytest.raises(
        RingTooSmall, match=r"^Program size \(112\) too large for kernel config buffer \(96\) on TENSIX"
    ):
        check_ring(ring_use(groups), 96, groups)


def test_ttnns_table() -> None:
    """The exact text of ttnn 0.81.1 for such a program on an n150 with a ring of 32 bytes."""
    groups = groups_of(
        [
            (data_movement_kernel("reader", 2228, "ncrisc", args=5, common_args=1), [CoreRange(0, 0, 3, 3)]),
            (compute_kernel("reader", (5080, 4864, 4068)), [CoreRange(0, 0, 1, 1), CoreRange(5, 5, 6, 6)]),
        ]
    )
    cbs = {
        0: mask_of([CoreRange(0, 0, 3, 3), CoreRange(0, 5, 1, 6)]),
        1: mask_of([CoreRange(2, 2, 5, 5)]),
        3: mask_of([CoreRange(0, 0, 3, 3)]),
    }
    use = ring_use(groups, cbs=cbs)
    assert use == RingUse(48, 0, 64, 0, 16272)
    with pytest.raises(RingTooSmall) as error:
        check_ring(use, 32, groups)
    assert str(error.value) == (
        "Program size (16384) too large for kernel config buffer (32) on TENSIX, 16352 B over:\n"
        "  runtime args                 48 B\n"
        "  semaphores                   0 B\n"
        "  circular buffers             64 B\n"
        "  dataflow buffers             0 B\n"
        "  kernel text                  16272 B\n"
        "    brisc                      0 B\n"
        "    ncrisc                     2228 B\n"
        "    trisc0                     5080 B\n"
        "    trisc1                     4864 B\n"
        "    trisc2                     4068 B\n"
        "    text-sizing group, cores   {[0-0 - 1-1]}\n"
        "    text-sizing group, kernels reader"
    )


def test_the_table_names_kernels_by_processor_and_cores_by_column() -> None:
    groups = groups_of(
        [
            (compute_kernel("compute", (1, 1, 1)), [CoreRange(4, 0, 5, 0), CoreRange(0, 1, 1, 2)]),
            (data_movement_kernel("reader", 1, "ncrisc"), [GRID]),
            (data_movement_kernel("writer", 1, "brisc"), [GRID]),
        ]
    )
    with pytest.raises(RingTooSmall) as error:
        check_ring(ring_use(groups), 0, groups)
    assert str(error.value).splitlines()[-2:] == [
        "    text-sizing group, cores   {[0-1 - 1-2], [4-0 - 5-0]}",
        "    text-sizing group, kernels writer, reader, compute",
    ]
