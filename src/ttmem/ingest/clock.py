# SPDX-License-Identifier: Apache-2.0
"""The server's clock: wall-clock seconds that never decrease."""

from __future__ import annotations

import time
from datetime import datetime, timezone


class Clock:
    """Wall-clock time at the start, advanced by the monotonic clock. Setting the system clock reorders nothing."""

    def __init__(self) -> None:
        self._offset = time.time() - time.monotonic()

    def now(self) -> float:
        return time.monotonic() + self._offset


def rfc3339(seconds: float, digits: int = 3) -> str:
    """Format a time for people and for JSON.

    A snapshot uses six digits, so that `replay --at` with its time finds the same events.

    >>> rfc3339(0)
    '1970-01-01T00:00:00.000Z'
    """
    moment = datetime.fromtimestamp(seconds, timezone.utc)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond:06d}"[:digits] + "Z"
