# SPDX-License-Identifier: Apache-2.0
"""The line of a Python stack that called an operation, in few words."""

from __future__ import annotations

import re

_FRAME = re.compile(r'File "([^"]+)", line (\d+)')
_LONGEST = 80


def innermost(trace: str) -> str | None:
    """The first frame of a stack as ttnn keeps it, which is the innermost; None if it is long or not there.

    >>> innermost('  File "/home/you/model.py", line 41, in forward\\\\n    x = ttnn.add(a, b)')
    'model.py:41'
    """
    frame = _FRAME.search(trace)
    text = None if frame is None else f"{frame[1].rpartition('/')[2]}:{frame[2]}"
    return text if text is None or len(text) <= _LONGEST else None
