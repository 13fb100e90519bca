# SPDX-License-Identifier: Apache-2.0
"""Reads the sections of a page without numpy, and compares a report with the account of its recording."""

from __future__ import annotations

import json
import random
import struct
import zlib
from typing import Any

from tests.schema_conformance import problems
from ttmem.model import page_schema
from ttmem.model.kinds import BREAKDOWN_POOLS, BreakdownPool, Kind, Pool
from ttmem.pages.report_document import MadeReport
from ttmem.recording.allocation_table import NEVER
from ttmem.recording.recording_file import Recording

_CODES = {"u8": "B", "u16": "H", "u32": "I", "i64": "q"}
_ROUNDING_NS = 600  # of a wall time
_POOLS = {"dram": Pool.DRAM, "l1_buffers": Pool.L1, "host": Pool.HOST}


def decoded(payload: bytes, described: Any) -> dict[str, list[int]]:
    """The columns of a section, as the schema describes the format."""
    raw, at = zlib.decompress(payload), 0
    found = {}
    for column in described["columns"]:
        width, count = struct.calcsize(f"<{_CODES[column['type']]}"), column["count"]
        rows = bytearray(width * count)
        for plane in range(width):
            rows[plane::width] = raw[at + plane * count : at + (plane + 1) * count]
        at += width * count
        values = list(struct.unpack(f"<{count}{_CODES[column['type']]}", rows))
        if column["delta"]:
            limit = None if column["type"] == "i64" else 1 << 8 * width
            for place in range(1, count):
                values[place] += values[place - 1]
                if limit is not None:
                    values[place] %= limit
        found[column["name"]] = values
    assert at == len(raw)
    return found


class Read:
    """A report as a page reads it: from JSON and compressed bytes."""

    def __init__(self, made: MadeReport) -> None:
        self.document: Any = json.loads(json.dumps(made.document))
        self._sections = made.sections
        assert problems(self.document, page_schema.Report) == []
        assert set(self.document["sections"]) == set(made.sections)
        assert all(len(made.sections[name]) == one["bytes"] for name, one in self.document["sections"].items())

    def columns(self, name: str) -> dict[str, list[int]]:
        return decoded(self._sections[name], self.document["sections"][name])

    def json(self, name: str) -> Any:
        return json.loads(zlib.decompress(self._sections[name]))

    def live(self, group: Any, place: int) -> dict[int, tuple[int, int]]:
        """Bytes and number of what is live at an edge, by site."""
        windows = self.columns(group["windows"])
        edges = len(windows["time"])
        return {
            site: (
                windows["allocated"][row * edges + place] - windows["freed"][row * edges + place],
                windows["made"][row * edges + place] - windows["ended"][row * edges + place],
            )
            for row, site in enumerate(windows["site"])
        }


def check_report(recording: Recording, made: MadeReport, *, moments: int = 5) -> Read:
    """Every number of a report is that of the account, at its end and at some moments."""
    read = Read(made)
    ledger = recording.at(from_start=True).ledger
    shown = [chip for group in read.document["groups"] for chip in group["chips"]]
    assert sorted(shown) == sorted(ledger.chips)
    for group in read.document["groups"]:
        _check_peaks(group, ledger)
        _check_timeline(read, group)
        if group["windows"] is not None:
            _check_windows(read, group, recording, moments)
            for one in group["maps"]:
                _check_map(read, group, one, recording)
    _check_allocations(read, recording)
    return read


def _check_peaks(group: Any, ledger: Any) -> None:
    for chip_id in group["chips"]:
        pools = ledger.chips[chip_id].pools
        for row in group["pools"]:
            if row["pool"] in _POOLS:
                assert row["peak"] == pools[_POOLS[row["pool"]]].peak.value, (chip_id, row["pool"])
    for row in group["pools"]:
        assert sum(share["bytes"] for share in row["at_peak"]) + row["rest"] == row["peak"]


def _check_timeline(read: Read, group: Any) -> None:
    columns = read.columns(group["timeline"])
    lengths = {len(values) for values in columns.values()}
    assert len(lengths) <= 1
    for one in group["series"]:
        low, high, last = (columns[f"{one['name']}.{what}"] for what in ("low", "high", "last"))
        assert all(a <= c <= b for a, b, c in zip(low, high, last)), one["name"]
    for row in group["pools"]:
        if row["pool"] in ("dram", "l1_buffers"):
            assert max(columns[f"{row['pool']}.high"]) <= row["peak"]
            if row["rest"] == 0 and row["at_peak"]:  # reached between two events of one time otherwise
                assert max(columns[f"{row['pool']}.high"]) == row["peak"]
    for level in group["levels"]:
        finer = read.columns(level["section"])
        for name, values in finer.items():
            if name.endswith(".high") and group["series"] and not name.startswith(("events", "host_", "largest")):
                assert max(values) <= max(columns[name])


def _check_windows(read: Read, group: Any, recording: Recording, moments: int) -> None:
    """What is live at an edge is what the account has at that time, kind by kind."""
    windows = read.columns(group["windows"])
    times = windows["time"]
    assert times[0] == -1
    assert times == sorted(set(times))
    table = recording.lifetimes().allocations
    chance, compared, ends = random.Random(7), 0, (table.begin, table.end)
    for place in sorted(chance.sample(range(len(times)), min(moments, len(times)))):
        live = read.live(group, place)
        assert all(size >= 0 and count >= 0 for size, count in live.values())
        by_kind: dict[int, int] = {}
        for site, (size, _) in live.items():
            kind = read.document["sites"][site]["kind"]
            by_kind[kind] = by_kind.get(kind, 0) + size
        # A wall time is less precise than the table, so compare where nothing happens shortly after.
        if any(((column > times[place]) & (column <= times[place] + _ROUNDING_NS)).any() for column in ends):
            continue
        time = table.start + (times[place] + _ROUNDING_NS // 2) * 1e-9
        account = recording.at(time).ledger.chips.get(group["shown_chip"])
        compared += 1
        for kind in Kind:
            expected = 0 if account is None else account.kinds[kind].used
            assert by_kind.get(kind, 0) == expected, (times[place], kind.label)
    assert compared


def _check_map(read: Read, group: Any, one: Any, recording: Recording) -> None:
    table = recording.lifetimes().allocations
    found = read.columns(one["rectangles"])
    kinds = BREAKDOWN_POOLS[BreakdownPool[one["pool"].upper()]]
    assert len(found["row"]) <= one["total"]
    for place, row in enumerate(found["row"]):
        assert int(table.address[row]) == found["address"][place]
        assert max(0, int(table.begin[row])) == found["begin"][place]
        assert (-1 if table.end[row] == NEVER else int(table.end[row])) == found["end"][place]
        assert Kind(int(table.kind[row])) in kinds
        if table.per_bank[row] > 0:
            assert int(table.per_bank[row]) == found["size"][place]
        assert one["base"] <= found["address"][place] < one["base"] + one["size"]
    if one["coverage"] is not None:
        used = read.columns(one["coverage"])["used"]
        assert len(used) == one["columns"] * one["rows"]
        assert any(used)


def _check_allocations(read: Read, recording: Recording) -> None:
    table = recording.lifetimes().allocations
    listed = read.document["allocations"]
    columns = read.columns(listed["section"])
    assert listed["rows"] == len(columns["id"])
    assert listed["total"] == len(table)
    for place, row in enumerate(columns["id"]):
        assert columns["size"][place] == int(table.size[row])
        assert columns["counted"][place] == int(table.counted[row])
        assert columns["kind"][place] == int(table.kind[row])
        site = read.document["sites"][columns["site"][place]]
        assert site["kind"] == columns["kind"][place]
        if not site["other"] and site["op"] >= 0:
            assert read.document["strings"][site["op"]] == table.sites[int(table.site[row])].op
