# SPDX-License-Identifier: Apache-2.0
"""Detects which kind of file ttnn wrote (graph capture, report or report database) and reads it."""

from __future__ import annotations

import json
from collections import deque
from io import TextIOWrapper
from pathlib import Path
from typing import Any

from ttmem.imports.database import read_database
from ttmem.imports.graph import Call, GraphCapture, NotACapture
from ttmem.imports.jsonstream import JsonError, JsonStream
from ttmem.imports.stacks import stack_of
from ttmem.recording.blocks import FILE_MAGIC

_SQLITE = b"SQLite format 3\0"
_SIDECARS = (".python_io.json", ".tensor_lifetime.json", ".comparison_records.json")
_REPORT_VERSION = 1  # version of the report


def find(path: Path) -> Path:
    """The file itself, or the file to read in a folder."""
    if not path.is_dir():
        return path
    reports = sorted(
        one for one in path.glob("*.json") if not one.name.endswith(_SIDECARS) and one.name != "config.json"
    )
    databases = sorted(path.glob("*.sqlite"))
    # A database lacks what happened between operations, so the report it was made from is better.
    for found in (reports, databases):
        if len(found) == 1:
            return found[0]
        if found:
            names = ", ".join(one.name for one in found[:8])
            raise NotACapture(
                f"a folder with {len(found)} of them: {names}{' ...' if len(found) > 8 else ''}; name one"
            )
    raise NotACapture("a folder without a report (*.json) or a report database (*.sqlite)")


def read(path: Path, rank: int | None = None) -> GraphCapture:
    """The contents of a file."""
    with open(path, "rb") as file:
        head = file.peek(16)[:16]  # peek, not read: it may be a pipe
        if head == _SQLITE:
            return read_database(path, rank)
        if head.startswith(FILE_MAGIC):
            raise NotACapture("this is already a ttmem recording; `ttmem replay` shows it")
        if rank is not None:
            raise NotACapture("--rank is for databases; a report or capture is of one rank")
        try:
            with TextIOWrapper(file, "utf-8") as text:
                return _json(JsonStream(text), path)
        except JsonError as error:
            raise NotACapture(str(error)) from None


def _json(stream: JsonStream, path: Path) -> GraphCapture:
    begin = stream.opens()
    if begin == "[":
        recording = GraphCapture("graph capture")
        recording.add(stream.entries())
    elif begin == "{":
        recording = _report(stream, path)
    else:
        raise NotACapture("neither JSON of ttnn nor an SQLite database" if begin else "the file is empty")
    stream.end()
    return recording


def _report(stream: JsonStream, path: Path) -> GraphCapture:
    recording = GraphCapture("graph report")
    recording.calls = _calls(path.with_suffix(".python_io.json"))
    seen = set()
    for key in stream.names():
        seen.add(key)
        if key == "graph" and stream.opens() == "[":
            recording.add(stream.entries())
        elif key == "per_operation_buffers" and stream.opens() == "{":
            _listings(stream, recording)
            recording.complete = True
        elif key == "devices":
            recording.devices = [row for row in stream.value() or () if isinstance(row, dict)]
        elif key == "metadata":
            _about(recording, stream.value())
        elif key == "cluster_descriptor":
            recording.descriptor = str(stream.value())
        elif key == "version":
            version = stream.value()
            if version != _REPORT_VERSION:
                raise NotACapture(f"a report of version {version}; this ttmem reads version {_REPORT_VERSION}")
        else:
            stream.skip()
    if "graph" not in seen:
        has = f"its keys are {', '.join(sorted(seen)[:8])}" if seen else "it is empty"
        raise NotACapture(f"not a report of ttnn: a JSON object without a graph; {has}")
    return recording


def _about(recording: GraphCapture, metadata: Any) -> None:
    if isinstance(metadata, dict):
        recording.version = str(metadata["version"]) if "version" in metadata else None
        stamp = metadata.get("capture_timestamp_ns")  # time of the beginning
        recording.began = stamp / 1e9 if isinstance(stamp, int) else None


def _listings(stream: JsonStream, recording: GraphCapture) -> None:
    for number in stream.names():
        for entry in stream.entries():
            try:
                place = (int(entry[name]) for name in ("device_id", "buffer_type", "address", "max_size_per_bank"))
                recording.listed(int(number), *place)
            except (KeyError, ValueError, TypeError, IndexError) as error:
                raise NotACapture(
                    f"the buffers after operation {number} do not have ttnn's format: {error!r}"
                ) from None


def _calls(sidecar: Path) -> dict[str, deque[Call]]:
    """The Python call and the outcome of each operation, in order, if ttnn wrote them next to the report."""
    found: dict[str, deque[Call]] = {}
    try:
        for record in json.loads(sidecar.read_text()):
            message = (record.get("error") or {}).get("message")
            call = Call(stack_of(record.get("python_stack_trace")), None if message is None else str(message))
            found.setdefault(str(record["name"]), deque()).append(call)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return {}
    return found
