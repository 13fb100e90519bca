# SPDX-License-Identifier: Apache-2.0
"""Text forms that more than one screen uses. Few imports: every start of `ttmem smi` loads this module."""

from __future__ import annotations

import re
from functools import lru_cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_FRAME = re.compile(r"(.*)(:\d+ .*)", re.DOTALL)  # a path may have spaces
_KEPT_LINES = 65_536


def anomaly_line(counts: Mapping[str, object]) -> str:
    """The anomalies that occurred, in one line."""
    found = [f"{name} {count}" for name, count in counts.items() if count]
    return "Anomalies: " + (", ".join(found) if found else "none")


@lru_cache(maxsize=_KEPT_LINES)  # few lines, many allocations
def short_line(line: str | None) -> str | None:
    """A line of Python without most of its path.

    >>> short_line("src/models/llama/model.py:42 forward")
    'llama/model.py:42 forward'
    """
    if line is None:
        return None
    frame = _FRAME.fullmatch(line)
    return line if frame is None else "/".join(frame[1].split("/")[-2:]) + frame[2]
