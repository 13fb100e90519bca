# SPDX-License-Identifier: Apache-2.0
"""Time for the server: wall-clock seconds that never step back."""

from __future__ import annotations

import time
from datetime import datetime, timezone


class Clock:
    """Wall time at the start, carried on by the monotonic clock: setting the system clock reorders nothing."""

    def __init__(self) -> None:
        self._offset = time.time() - time.monotonic()

    def now(self) -> float:
        return time.monotonic() + self._offset


def rfc3339(seconds: float, digits: int = 3) -> str:
    """A time stamp for people and JSON. A snapshot's has six digits: `replay --at` of it must find the same events.

    >>> rfc3339(0)
    '1970-01-01T00:00:00.000Z'
    """
    moment = datetime.fromtimestamp(seconds, timezone.utc)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond:06d}"[:digits] + "Z"
