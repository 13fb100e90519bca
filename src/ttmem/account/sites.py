# SPDX-License-Identifier: Apache-2.0
"""Where in Python a thing was made: the frames of its stack, and which of them is the user's own line."""

from __future__ import annotations

import re
from functools import lru_cache

# ttnn itself, installed or in a checkout of tt-metal; whose line called it is what people want to know.
_NOT_THEIRS = re.compile(r"/(?:site|dist)-packages/ttnn/|/ttnn/ttnn/|^<frozen ")
_KEPT = 65_536


@lru_cache(maxsize=_KEPT)  # few stacks, many things
def line_of(stack: str | None) -> str | None:
    """The innermost frame that is not ttnn's own; if all are, the innermost.

    >>> line_of("/venv/site-packages/ttnn/decorators.py:7 call\\n/home/me/model.py:42 forward\\n/home/me/a.py:3 main")
    '/home/me/model.py:42 forward'
    """
    if not stack:
        return None
    frames = stack.split("\n")
    return next((frame for frame in frames if not _NOT_THEIRS.search(frame)), frames[0])


@lru_cache(maxsize=_KEPT)
def short(line: str | None) -> str | None:
    """A line without most of its path, for screens.

    >>> short("/home/me/models/llama/model.py:42 forward")
    'llama/model.py:42 forward'
    """
    if line is None:
        return None
    place, _, function = line.partition(" ")
    return "/".join(place.split("/")[-2:]) + (f" {function}" if function else "")
