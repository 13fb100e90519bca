# SPDX-License-Identifier: Apache-2.0
"""Which frame of a stack is the user's own line."""

from __future__ import annotations

import pytest

from ttmem.model.stack_frames import line_of

MINE = "/home/me/model.py:42 forward"
ABOVE = "/home/me/main.py:7 <module>"


@pytest.mark.parametrize(
    "own",
    [
        "/venv/lib/python3.12/site-packages/ttnn/decorators.py:1245 __call__",
        "/usr/lib/python3/dist-packages/ttnn/operations/core.py:9 from_torch",
        "/src/tt-metal/ttnn/ttnn/decorators.py:1245 __call__",
        "<frozen importlib._bootstrap>:241 _call_with_frames_removed",
        "…thon3.12/site-packages/ttnn/decorators.py:1245 __call__",  # a long path, of which the end was kept
    ],
)
def test_frames_of_ttnn_itself_are_passed_over(own: str) -> None:
    assert line_of("\n".join([own, MINE, ABOVE])) == MINE
    assert line_of("\n".join([own, own, MINE])) == MINE
    assert line_of("\n".join([own, ABOVE, own, MINE])) == ABOVE, "the innermost, also if ttnn was called before"


@pytest.mark.parametrize(
    "theirs",
    [
        "/home/me/ttnn/model.py:3 forward",
        "/src/tt-metal/models/demos/llama/model.py:3 forward",
        "/src/tt-metal/tests/ttnn/unit_tests/test_add.py:3 test_add",
        "/venv/lib/python3.12/site-packages/ttnn_helpers/make.py:3 make",
        "<string>:1 <module>",
    ],
)
def test_what_only_looks_like_ttnn_is_the_users(theirs: str) -> None:
    assert line_of(f"{theirs}\n{ABOVE}") == theirs


def test_without_a_line_of_the_users_the_innermost_is_told() -> None:
    inner, outer = "/v/site-packages/ttnn/a.py:1 f", "/v/site-packages/ttnn/b.py:2 g"
    assert line_of(f"{inner}\n{outer}") == inner
    assert line_of(None) is None
    assert line_of("") is None
