# SPDX-License-Identifier: Apache-2.0
"""Reads ttnn's report database, db.sqlite, in any version of its schema that has the necessary tables."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ttmem.imports.graph import Call, GraphCapture, NotACapture
from ttmem.imports.stacks import stack_of

NEWEST_MAJOR_VERSION = 3  # major version of the schema
_WRITER_SECONDS = 2.0  # for a writer to finish


def read_database(path: Path, rank: int | None = None) -> GraphCapture:
    """The contents of a database for one rank."""
    try:
        connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, timeout=_WRITER_SECONDS)
        try:
            connection.row_factory = sqlite3.Row
            return _Database(connection).read(rank, path)
        finally:
            connection.close()
    except sqlite3.Error as error:
        hint = "; is ttnn still writing it?" if "locked" in str(error) else ""
        raise NotACapture(f"SQLite cannot read it: {error}{hint}") from None
    except NotACapture:
        raise
    except (TypeError, ValueError, OverflowError) as error:
        raise NotACapture(f"an entry of its tables does not have ttnn's format: {error}") from None


class _Database:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._db = connection
        names = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        self._columns = {
            name: {row["name"] for row in connection.execute(f'PRAGMA table_info("{name}")')} for name in names
        }
        self._rank: int | None = None

    def read(self, rank: int | None, path: Path) -> GraphCapture:
        about = {str(row["key"]): str(row["value"]) for row in self._rows("report_metadata", ("key", "value"))}
        schema = about.get("schema_version")
        named = f"schema {schema}" if schema else "a schema without a number, as before 0.67"
        major = (schema or "0").partition(".")[0]
        if not major.isdecimal() or int(major) > NEWEST_MAJOR_VERSION:
            raise NotACapture(f"a report database of {named}; this ttmem reads schemas up to {NEWEST_MAJOR_VERSION}")
        if not ("operation_id" in self._columns.get("buffers", ()) or "captured_graph" in self._columns):
            raise NotACapture(f"{named}, but neither table buffers nor captured_graph: not a report database of ttnn")
        self._choose(rank)
        recording = GraphCapture(f"report database, {named}")
        recording.version = about.get("version")
        recording.renumbered = True
        stamp = about.get("capture_timestamp_ns", "")
        recording.began = int(stamp) / 1e9 if stamp.isdecimal() else None
        recording.devices = [dict(row) for row in self._rows("devices", ("device_id",))]
        beside = path.with_name("cluster_descriptor.yaml")
        if beside.exists():
            recording.descriptor = beside.read_text(errors="replace")
        self._listings(recording)
        self._operations(recording)
        return recording

    def _choose(self, rank: int | None) -> None:
        ranks = sorted({int(row["rank"]) for row in self._rows("operations", ("operation_id", "rank"))})
        if rank is None and len(ranks) > 1:
            raise NotACapture(f"it contains ranks {', '.join(map(str, ranks))}; choose one with --rank")
        if rank is not None and ranks and rank not in ranks:
            raise NotACapture(f"there is no rank {rank} in it; it contains {', '.join(map(str, ranks))}")
        self._rank = rank if ranks else None

    def _listings(self, recording: GraphCapture) -> None:
        wanted = ("operation_id", "device_id", "buffer_type", "address", "max_size_per_bank")
        for row in self._rows("buffers", wanted):
            try:
                recording.listed(*map(int, row))
            except (TypeError, ValueError, IndexError):
                raise NotACapture(f"an entry of table buffers is invalid: {tuple(row)}") from None

    def _operations(self, recording: GraphCapture) -> None:
        """The graph of each operation; without a graph, only begin and end of the operation."""
        rows = self._rows("operations", ("operation_id", "name", "duration"), "operation_id")
        durations = {int(row["operation_id"]): (str(row["name"]), row["duration"]) for row in rows}
        calls = self._calls()
        captured = Counter(int(row["operation_id"]) for row in self._rows("captured_graph", ("operation_id",)))
        if any(times > 1 for times in captured.values()):
            raise NotACapture(
                "it contains operations several times: more than one report was imported into it; import each of them "
                "into a folder of its own with ttnn.graph.import_report"
            )
        with_text = self._rows("captured_graph", ("operation_id", "captured_graph"), "operation_id")
        for number in sorted(durations.keys() | captured.keys()):
            if number not in captured:
                recording.add(_bare(*durations[number]), number, calls.get(number, Call()))
                continue
            row = next(with_text)
            try:
                nodes = json.loads(row["captured_graph"])
            except (ValueError, TypeError, RecursionError) as error:
                raise NotACapture(f"the graph of operation {number} is incomplete: {error}") from None
            if not isinstance(nodes, list):
                raise NotACapture(f"the graph of operation {number} is not a list of nodes")
            recording.add(nodes, number, calls.get(number, Call()))

    def _calls(self) -> dict[int, Call]:
        """The stack of each operation, and its error if it failed."""
        found = {
            int(row["operation_id"]): Call(stack_of(str(row["stack_trace"])))
            for row in self._rows("stack_traces", ("operation_id", "stack_trace"))
        }
        for row in self._rows("errors", ("operation_id", "error_message", "stack_trace")):
            number, stack = int(row["operation_id"]), stack_of(str(row["stack_trace"]))
            known = found.get(number, Call())
            found[number] = Call(known.stack or stack, known.error or str(row["error_message"]))
        return found

    def _rows(self, table: str, wanted: tuple[str, ...], order: str | None = None) -> Iterator[sqlite3.Row]:
        """The rows of the chosen rank; none if the table or a column is missing."""
        columns = self._columns.get(table, set())
        if not columns.issuperset(wanted):
            return iter(())
        chosen = ", ".join(f'"{name}"' for name in wanted) if table != "devices" else "*"
        ranked = self._rank is not None and "rank" in columns
        query = f'SELECT {chosen} FROM "{table}"' + (" WHERE rank = ?" if ranked else "")
        query += f' ORDER BY "{order}"' if order else ""
        return iter(self._db.execute(query, (self._rank,) if ranked else ()))


def _bare(name: str, seconds: Any) -> list[dict[str, Any]]:
    """A minimal graph for an operation without one."""
    took = {} if not isinstance(seconds, (int, float)) else {"duration_ns": int(seconds * 1e9)}
    params = {"name": name}
    return [{"node_type": "function_start", "params": params}, {"node_type": "function_end", "params": params, **took}]
