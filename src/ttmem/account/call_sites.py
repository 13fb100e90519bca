# SPDX-License-Identifier: Apache-2.0
"""What made a thing: its operation, the Python stack, and which line of that is the user's own."""

from __future__ import annotations

import re
from functools import lru_cache

from ttmem.account.allocations import Part, Thing
from ttmem.model.kinds import KERNEL_KINDS

# ttnn itself, installed or in a checkout of tt-metal; whose line called it is what people want to know.
_NOT_THEIRS = re.compile(r"(?:^|/)(?:site|dist)-packages/ttnn/|/ttnn/ttnn/|^<frozen ")
_FRAME = re.compile(r"(.*)(:\d+ .*)", re.DOTALL)  # a path may have spaces
_KEPT = 65_536


@lru_cache(maxsize=_KEPT)  # few stacks, many things
def line_of(stack: str | None) -> str | None:
    """The innermost frame that is not ttnn's own; if all are, the innermost.

    >>> line_of("site-packages/ttnn/decorators.py:7 call\\nllama/model.py:42 forward\\nllama/main.py:3 main")
    'llama/model.py:42 forward'
    """
    if not stack:
        return None
    frames = stack.split("\n")
    return next((frame for frame in frames if not _NOT_THEIRS.search(frame)), frames[0])


@lru_cache(maxsize=_KEPT)
def short(line: str | None) -> str | None:
    """A line without most of its path, for screens.

    >>> short("src/models/llama/model.py:42 forward")
    'llama/model.py:42 forward'
    """
    if line is None:
        return None
    frame = _FRAME.fullmatch(line)
    return line if frame is None else "/".join(frame[1].split("/")[-2:]) + frame[2]


def operation_of(thing: Thing) -> str | None:
    """The operation that made it: of a part of a program, whose tag may be its own name, that of the program."""
    if isinstance(thing, Part) and (thing.origin.tag is not None or thing.kind in KERNEL_KINDS):
        return thing.origin.tag
    return thing.extra.tag if thing.extra is not None else None


def stack_of(thing: Thing) -> str | None:
    if thing.extra is not None and thing.extra.stack is not None:
        return thing.extra.stack
    return thing.origin.stack if isinstance(thing, Part) else None
