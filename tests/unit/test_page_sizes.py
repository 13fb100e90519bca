# SPDX-License-Identifier: Apache-2.0
"""Pages of tensors, from the words that the agent writes for shape, type and layout."""

from __future__ import annotations

import pytest

from ttmem.analyze.page_sizes import page_of, smallest_page


@pytest.mark.parametrize(
    ("shape", "interleaved", "page"),
    [
        ("[32, 32] bfloat16 tile", True, 2048),
        ("[32, 32] bfloat16 tile", False, 2048),
        ("[1, 1, 64, 64] bfloat8_b tile", True, 1088),
        ("[32, 32] float32 tile", True, 4096),
        ("[4, 200001] bfloat16 row_major", True, 400_002),
        ("[7] uint32 row_major", True, 28),
        ("[4, 64] bfloat16 row_major", False, None),  # a row of a shard may be shorter
        ("[] bfloat16 row_major", True, None),
        ("[4, 64] fp8_e4m3 tile", True, None),
        ("[4, 64] bfloat16", True, None),
        ("", True, None),
        (None, True, None),
    ],
)
def test_pages(shape: str | None, interleaved: bool, page: int | None) -> None:
    assert page_of(shape, interleaved) == page


def test_a_page_that_is_not_known_is_a_tile() -> None:
    assert smallest_page(None, True, 1 << 20) == 2048
    assert smallest_page(None, True, 272) == 272  # nothing smaller than this was requested
    assert smallest_page("[32, 32] float32 tile", True, 1 << 20) == 4096
