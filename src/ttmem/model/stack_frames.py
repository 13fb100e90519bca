# SPDX-License-Identifier: Apache-2.0
"""The frames of a Python stack: the user's own line, and runs of frames that are not the user's folded into one line.

A frame is the text "file:line function". A stack has a line for each frame, the innermost first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import groupby

# Frames that are not the user's: of ttnn itself, installed or in a checkout of tt-metal, and of Python's own modules.
_NOT_THEIRS = re.compile(r"((?:^|/)(?:site|dist)-packages/ttnn/|/ttnn/ttnn/)|^<frozen ")
_KEPT_STACKS = 65_536


@lru_cache(maxsize=_KEPT_STACKS)  # few stacks, many allocations
def line_of(stack: str | None) -> str | None:
    """The innermost frame that is not ttnn's own; if all are, the innermost.

    >>> line_of("site-packages/ttnn/decorators.py:7 call\\nllama/model.py:42 forward\\nllama/main.py:3 main")
    'llama/model.py:42 forward'
    """
    if not stack:
        return None
    frames = stack.split("\n")
    return next((frame for frame in frames if not _NOT_THEIRS.search(frame)), frames[0])


@lru_cache(maxsize=_KEPT_STACKS)
def caller_of(stack: str | None) -> str | None:
    """The frame that called the user's own line, if that is the user's own as well.

    >>> caller_of("site-packages/ttnn/decorators.py:7 call\\nmodel.py:5 make\\nmodel.py:9 load\\nmodel.py:20 main")
    'model.py:9 load'
    """
    frames = users_frames(stack)
    return frames[1] if len(frames) > 1 else None


def users_frames(stack: str | None) -> list[str]:
    """The frames of a stack that are the user's own."""
    return [frame for frame in stack.split("\n") if not _NOT_THEIRS.search(frame)] if stack else []


def folded(frames: Iterable[str]) -> list[str]:
    """The frames of a stack, with one line for each run of frames that are not the user's.

    >>> folded(["site-packages/ttnn/a.py:1 f", "site-packages/ttnn/b.py:2 g", "model.py:3 run", "<frozen runpy>:9 h"])
    ['... 2 frames in ttnn', 'model.py:3 run', '... 1 frame in Python itself']
    """
    lines: list[str] = []
    for owner, run in groupby(frames, _owner):
        found = list(run)
        lines += found if owner is None else [f"... {len(found)} frame{'s' * (len(found) > 1)} in {owner}"]
    return lines


def _owner(frame: str) -> str | None:
    """Whose code a frame is in; None for the user's."""
    found = _NOT_THEIRS.search(frame)
    return None if found is None else "ttnn" if found[1] else "Python itself"
