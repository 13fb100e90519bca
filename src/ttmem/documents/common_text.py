# SPDX-License-Identifier: Apache-2.0
"""Sentences that more than one screen says. Light: it is on the way of every start of `ttmem smi`."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


def anomaly_line(counts: Mapping[str, object]) -> str:
    """What went wrong, in one line."""
    found = [f"{name} {count}" for name, count in counts.items() if count]
    return "Anomalies: " + (", ".join(found) if found else "none")
