# SPDX-License-Identifier: Apache-2.0
"""Sentences that more than one screen says. Light: it is on the way of every start of `ttmem smi`."""

from __future__ import annotations


def anomaly_line(counts: dict[str, int]) -> str:
    """What went wrong, in one line."""
    found = [f"{name} {count}" for name, count in counts.items() if count]
    return "Anomalies: " + (", ".join(found) if found else "none")
