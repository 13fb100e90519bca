# SPDX-License-Identifier: Apache-2.0
"""Writes the recording of an imported file, and its summary as a document, schema "ttmem.import/1"."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ttmem.account.entities import Chip
from ttmem.account.ledger import Ledger
from ttmem.account.totals import Total
from ttmem.imports.to_events import EventTranslation, step_at
from ttmem.model.identity import ProcessInfo
from ttmem.model.kinds import KINDS, POOL_OF, Kind
from ttmem.model.stack_frames import line_of
from ttmem.recording.event_recording import EventRecordingWriter
from ttmem.wire.client_decode import decode
from ttmem.wire.client_encode import encode

if TYPE_CHECKING:
    from ttmem.model import schema

SCHEMA: Final = "ttmem.import/1"
SOURCE = "capture"


def write(translation: EventTranslation, out: Path, name: str) -> tuple[Ledger, int]:
    """Write all events and apply them; returns the account and their number. The file is complete or does not exist."""
    ledger = Ledger()
    process = ProcessInfo(pid=0, name=name, connection=1)
    source = ledger.source(translation.began, process, SOURCE, translation.confidence)
    count = 0
    handle, scratch = tempfile.mkstemp(prefix=f".{out.name}.", dir=out.parent)  # readable for its owner only
    try:
        with open(handle, "wb", buffering=0) as file:
            recording = EventRecordingWriter(file, {"start": translation.began, "imported": name})
            for time, event in translation.events():
                count += 1
                decode(encode(event))  # do not write what a reader would reject
                recording.write(time, source, event)
                ledger.apply(time, source, event)
            recording.finish()
        os.replace(scratch, out)
    except BaseException:
        os.unlink(scratch)
        raise
    return ledger, count


def summary(translation: EventTranslation, ledger: Ledger, events: int, file: str, output: str) -> schema.Import:
    """What was read and written, the peaks of each chip, and what the file does not contain."""
    recording = translation.recording
    return {
        "schema": SCHEMA,
        "form": recording.form,
        "ttnn": recording.version,
        "virtual": recording.virtual,
        "confidence": translation.confidence.label,
        "completeness": None,
        "nodes": recording.nodes,
        "operations": recording.operations,
        "events": events,
        "programs": translation.programs,
        "cached_runs": recording.cached,
        "failures": translation.failures,
        "began": recording.began,
        "clock": "durations" if recording.timed else "counted",
        "unsized": translation.unsized,
        "lacks": translation.lacks(),
        "anomalies": dict(ledger.anomalies),
        "chips": [_chip(translation, chip) for chip in ledger.chips.values()],
        "file": file,
        "output": output,
    }


def _chip(translation: EventTranslation, chip: Chip) -> schema.ImportChip:
    geometry = chip.geometry
    numbers = {holding.number_on(chip) for holding in chip.holdings}
    return {
        "chip": chip.id,
        "device": min(numbers, default=None),
        "board": chip.info.board,
        "geometry": None if geometry is None else "live" if geometry.live else "table",
        "kinds": {
            kind.label: _kind(translation, kind, total) for kind, total in zip(KINDS, chip.kinds) if total.peak.value
        },
    }


def _kind(translation: EventTranslation, kind: Kind, total: Total) -> schema.ImportKind:
    after = (total.peak.time or 0.0) - translation.began
    step = step_at(translation.recording, after)
    return {
        "pool": POOL_OF[kind].label,
        "used": total.used,
        "reserved": total.reserved_bytes if total.known or not total.count else None,
        "allocations": total.count,
        "peak": total.peak.value,
        "peak_after_s": round(after, 6),
        "peak_operation": step and step.operation,
        "peak_line": step and line_of(step.stack),
    }
