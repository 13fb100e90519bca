# SPDX-License-Identifier: Apache-2.0
"""Writes a recording that has only events, such as an imported one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, BinaryIO

from ttmem.account.entities import Source
from ttmem.model.events import Event
from ttmem.recording.blocks import BlockType, BlockWriter
from ttmem.recording.event_entries import EventEncoder

_BLOCK_BYTES = 1 << 20


class EventRecordingWriter:
    """Appends events to a new recording."""

    def __init__(self, file: BinaryIO, facts: Mapping[str, Any] | None = None) -> None:
        """``file`` is empty and not buffered."""
        self._blocks = BlockWriter(file)
        self._events = EventEncoder()
        self._written = 0
        self._blocks.write(BlockType.FACTS, json.dumps(dict(facts or {})).encode())

    def write(self, time: float, source: Source | None, event: Event) -> None:
        self._events.add(time, source, event)
        if self._events.size > _BLOCK_BYTES:
            self.flush()

    def flush(self) -> None:
        entries, flags = self._events.take()
        if entries:
            first, self._written = self._written + 1, self._events.events
            self._blocks.write(
                BlockType.EVENTS, entries, number=first, last=self._written, time=self._events.time, flags=flags
            )

    def finish(self) -> None:
        """Write the rest and the index."""
        self.flush()
        self._blocks.finish()
