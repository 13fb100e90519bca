# SPDX-License-Identifier: Apache-2.0
"""Python stacks as ttnn records them, in the account's format."""

from __future__ import annotations

import re
from collections.abc import Iterable

_FRAME = re.compile(r'^\s*File "([^"\n]+)", line (\d+)(?:, in ([^\n]+))?', re.MULTILINE)


def stack_of(trace: str | Iterable[str] | None) -> str | None:
    """The frames of a stack, the innermost first, as ttnn has them; None if there are none.

    >>> stack_of('  File "llama/model.py", line 41, in forward\\n    x = ttnn.add(a, b)\\n')
    'llama/model.py:41 forward'
    """
    text = trace if isinstance(trace, str) else "\n".join(map(str, trace or ()))
    frames = (f"{file}:{line} {function}".rstrip() for file, line, function in _FRAME.findall(text))
    return "\n".join(frames) or None


def message_of(error: str) -> str:
    """The error message without the C++ stack that follows."""
    return error.partition("\nbacktrace:")[0]
