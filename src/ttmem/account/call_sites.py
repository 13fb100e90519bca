# SPDX-License-Identifier: Apache-2.0
"""What made an allocation: the operation, the Python stack, and the user's own line in it."""

from __future__ import annotations

import re
from functools import lru_cache

from ttmem.account.allocations import Allocation, Part
from ttmem.model.kinds import KERNEL_KINDS

# ttnn itself, installed or in a checkout of tt-metal; whose line called it is what people want to know.
_NOT_THEIRS = re.compile(r"(?:^|/)(?:site|dist)-packages/ttnn/|/ttnn/ttnn/|^<frozen ")
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


def operation_of(allocation: Allocation) -> str | None:
    """The operation that made it: of a part of a program, whose tag may be its own name, that of the program."""
    if isinstance(allocation, Part) and (allocation.origin.tag is not None or allocation.kind in KERNEL_KINDS):
        return allocation.origin.tag
    return allocation.extra.tag if allocation.extra is not None else None


def stack_of(allocation: Allocation) -> str | None:
    if allocation.extra is not None and allocation.extra.stack is not None:
        return allocation.extra.stack
    return allocation.origin.stack if isinstance(allocation, Part) else None
