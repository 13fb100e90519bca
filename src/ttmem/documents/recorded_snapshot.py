# SPDX-License-Identifier: Apache-2.0
"""The snapshot of a recording at a moment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ttmem.account.ledger import Ledger
from ttmem.documents.snapshot import take_snapshot
from ttmem.ingest.clock import rfc3339
from ttmem.l1.core_map import numbers
from ttmem.recording.recording_file import Recording

if TYPE_CHECKING:
    from ttmem.model.schema import Snapshot


def recorded_snapshot(recording: Recording, ledger: Ledger, time: float) -> Snapshot:
    """The snapshot of the account of a recording at a moment; ``time`` is that of the last event."""
    state = "ok" if recording.finished and not recording.problems else "cut off"
    lost = sum(last - first + 1 for _, first, last in recording.gaps)
    detail = f"{lost} records were lost" if lost else None
    return take_snapshot(
        ledger,
        time=rfc3339(time, 6),
        host=str(recording.facts.get("host") or "replay"),
        sources=[{"name": "recording", "state": state, "detail": detail}],
        physical=numbers,
    )
