# SPDX-License-Identifier: Apache-2.0
"""Writes a page with invented data of a known shape, to look at the front end and to measure it without a recording.

    python web/tests/sample_report.py OUT.html [--sites N] [--edges N]
"""

from __future__ import annotations

import argparse
import array
import base64
import json
import random
import zlib
from pathlib import Path
from typing import Any

WEB = Path(__file__).parents[1]
CODES = {"u8": "B", "u16": "H", "u32": "I", "i64": "q"}
GIB, MIB, KIB = 1 << 30, 1 << 20, 1 << 10
LENGTH = 42_500_000_000
KINDS = ["dram", "l1", "host", "l1_small", "trace", "cb", "dfb", "scratchpad", "kernel"]
OPS = ["ttnn::matmul", "ttnn::softmax", "ttnn::layer_norm", "ttnn::from_torch", "ttnn::add", "ttnn::concat",
       "ttnn::to_layout", "ttnn::transformer::sdpa", "ttnn::embedding", "ttnn::typecast"]  # fmt: skip


class Sections:
    def __init__(self) -> None:
        self.index: dict[str, Any] = {}
        self.texts: dict[str, str] = {}

    def add(self, name: str, **columns: tuple[str, list[int], bool]) -> str:
        data, listed = b"", []
        for column, (kind, values, delta) in columns.items():
            stored = [b - a for a, b in zip([0, *values], values)] if delta else values
            bits = 8 * array.array(CODES[kind]).itemsize
            if kind != "i64":
                stored = [value % (1 << bits) for value in stored]
            raw = array.array(CODES[kind], stored).tobytes()
            data += b"".join(raw[plane :: bits // 8] for plane in range(bits // 8))
            listed.append({"name": column, "type": kind, "count": len(values), "delta": delta})
        return self._put(name, data, listed)

    def document(self, name: str, document: object) -> str:
        return self._put(name, json.dumps(document).encode(), None)

    def _put(self, name: str, data: bytes, columns: list[Any] | None) -> str:
        packed = zlib.compress(data, 6)
        self.index[name] = {"bytes": len(packed), "columns": columns}
        self.texts[name] = base64.b64encode(packed).decode()
        return name


class Strings(list[str]):
    def number(self, text: str) -> int:
        if text not in self:
            self.append(text)
        return self.index(text)


def build(site_count: int, edge_count: int) -> tuple[dict[str, Any], dict[str, str]]:
    chance = random.Random(7)
    sections, strings = Sections(), Strings()
    stacks: dict[str, list[Any]] = {"parent": [], "name": [], "type": []}
    nodes: dict[tuple[int, str], int] = {}

    def node(parent: int, name: str, kind: str = "frame") -> int:
        if (parent, name) not in nodes:
            nodes[parent, name] = len(stacks["parent"])
            for key, value in (("parent", parent), ("name", strings.number(name)), ("type", kind)):
                stacks[key].append(value)
        return nodes[parent, name]

    sites, rows = [], []
    for number in range(site_count):
        layer, op = number % 32, OPS[number % len(OPS)]
        line = f"/home/dev/llama/model/attention.py:{80 + number % 61} forward"
        outer = node(-1, "/home/dev/llama/demo.py:112 main")
        step = node(outer, "/home/dev/llama/generate.py:40 decode" if number % 3 else "/home/dev/llama/load.py:18 load")
        stack = node(node(step, f"/home/dev/llama/model/decoder.py:{30 + layer} layer_{layer}"), line)
        stack = node(stack, "/opt/ttnn/ttnn/decorators.py:588 __call__", "ttnn")
        kind = (0, 0, 1, 5, 8, 1, 3)[number % 7]
        size = chance.choice([4 * MIB, 24 * MIB, 96 * MIB]) if kind == 0 else chance.choice([32, 128, 512]) * KIB
        shape = f"[1, {layer + 1}, {32 << number % 4}, 4096]"
        sites.append({"kind": kind, "op": strings.number(op), "shape": strings.number(shape),
                      "line": strings.number(line), "stack": stack,
                      "part": strings.number(f"CB {number % 8}") if kind == 5 else -1, "other": 0})  # fmt: skip
        rows.append((kind, size))
    edges = sorted({0, LENGTH, 30_000_000_000, *(chance.randrange(LENGTH) for _ in range(edge_count - 3))})
    allocated, freed, made, ended = [], [], [], []
    live = [[0] * len(edges) for _ in KINDS]
    allocations: list[tuple[int, ...]] = []
    for site, (kind, size) in enumerate(rows):
        a = f = m = e = 0
        held: list[tuple[int, int, int]] = []
        weights = kind == 0 and site % 3 == 0
        for i, time in enumerate(edges):
            if weights and i == 3 + site % 40 or not weights and chance.random() < 0.06 and i > 40:
                address = 0x20000 + (site * 37 % 900) * (size // 12 + 4096)
                held.append((time, address, len(allocations)))
                allocations.append((len(allocations) + 1, time, -1, address, size, size, 0, kind, 1, 1, site, 0))
                a, m = a + size, m + 1
            if not weights and held and (len(held) > 2 or chance.random() < 0.2) and site != 5:
                row = held.pop(0)[2]
                allocations[row] = (*allocations[row][:2], time, *allocations[row][3:6], 1, *allocations[row][7:])
                f, e = f + size, e + 1
            allocated.append(a), freed.append(f), made.append(m), ended.append(e)
            live[kind][i] += a - f
    pools = {"dram": [0, 4], "l1_buffers": [1, 3], "programs": [5, 6, 7, 8], "host": [2]}
    windows = sections.add(
        "windows/0", time=("i64", edges, True), site=("u32", list(range(site_count)), True),
        allocated=("i64", allocated, True), freed=("i64", freed, True),
        made=("u32", made, True), ended=("u32", ended, True),
    )  # fmt: skip

    def at(values: list[int], time: float) -> int:
        low, high = 0, len(edges) - 1
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if edges[middle] <= time else (low, middle - 1)
        return values[low]

    sums = {pool: [sum(live[kind][i] for kind in kinds) for i in range(len(edges))] for pool, kinds in pools.items()}
    series, columns = [], {}
    for name, label, panel, unit, capacity, value in (
        ("dram", "DRAM", "dram", "bytes", 12 * GIB, sums["dram"]),
        ("l1", "L1 buffers", "l1", "bytes", 64 * MIB, sums["l1_buffers"]),
        ("cb", "circular buffers", "l1", "bytes", 64 * MIB, live[5]),
        ("kernels", "kernels", "l1", "bytes", 64 * MIB, live[8]),
        ("largest_free", "largest free, one bank", "largest_free", "bytes", None, [GIB - v // 12 for v in sums["dram"]]),
        ("events", "events", "events", "per_second", None, [200 + 37 * (i % 11) for i in range(len(edges))]),
        ("host", "resident memory", "host", "bytes", None, [3 * GIB + i * MIB for i in range(len(edges))]),
    ):
        series.append({"name": name, "label": label, "unit": unit, "panel": panel, "capacity": capacity,
                       "confidence": "exact"})  # fmt: skip
        last = [at(value, LENGTH * (i + 1) / 2048) for i in range(2048)]
        columns[f"{name}.last"] = ("i64", last, True)
        columns[f"{name}.low"] = ("i64", [min(pair) for pair in zip([last[0], *last], last)], True)
        columns[f"{name}.high"] = ("i64", [max(pair) for pair in zip([last[0], *last], last)], True)
    group_pools = []
    for pool, values in sums.items():
        peak = max(values)
        where = values.index(peak)
        shares = sorted(
            ({"site": s, "count": made[s * len(edges) + where] - ended[s * len(edges) + where],
              "bytes": allocated[s * len(edges) + where] - freed[s * len(edges) + where]}
             for s in range(site_count) if rows[s][0] in pools[pool]), key=lambda share: -share["bytes"])  # fmt: skip
        group_pools.append(
            {"pool": pool, "capacity": {"dram": 12 * GIB, "l1_buffers": 64 * MIB}.get(pool), "peak": peak,
             "peak_ns": edges[where] if peak else None, "at_peak": shares[:12],
             "rest": sum(share["bytes"] for share in shares[12:]), "end": values[-1],
             "smallest_largest_free": 310 * MIB if pool == "dram" else None, "banks": 12 if pool == "dram" else None}
        )  # fmt: skip
    maps = []
    for pool, label, kind, size in (("dram", "DRAM, one bank", 0, GIB), ("l1_buffers", "L1, one bank", 1, 1464 * KIB)):
        chosen = [row for row in allocations if row[7] == kind]
        maps.append({"pool": pool, "label": label, "base": 0, "size": size, "banks": 12, "total": len(chosen),
                     "rectangles": sections.add(
                         f"rectangles/{pool}", begin=("i64", [r[1] for r in chosen], True),
                         end=("i64", [r[2] for r in chosen], True), address=("i64", [r[3] % size for r in chosen], True),
                         size=("i64", [max(1, r[4] // 12) for r in chosen], True),
                         site=("u32", [r[10] for r in chosen], True), row=("i64", [r[0] for r in chosen], True)),
                     "coverage": None, "columns": 0, "rows": 0, "reach": None})  # fmt: skip
    names = ("id", "begin", "end", "address", "size", "counted", "ended_by", "kind", "chosen", "groups", "site", "program")
    types = ("i64",) * 6 + ("u8",) * 3 + ("u32", "u32", "u32")
    flags = [4 if row[2] < 0 else 1 for row in allocations]
    allocations = [(*row[:8], flag, *row[9:]) for row, flag in zip(allocations, flags)]
    section = sections.add("allocations", **{
        name: (types[i], [row[i] for row in allocations], True) for i, name in enumerate(names)})  # fmt: skip
    group = {"name": "chips 0-7", "chips": [f"0x{i:x}" for i in range(8)], "chip_names": [f"chip {i}" for i in range(8)],
             "shown_chip": "0x0", "differences": ["chip 3 runs fabric kernels that the others do not"],
             "pools": group_pools, "series": series, "timeline": sections.add("timeline/0", **columns), "levels": [],
             "windows": windows, "maps": maps}  # fmt: skip
    phases = [{"name": "load", "pid": 1, "depth": 0, "from_ns": 0, "until_ns": 9_000_000_000, "groups": [0]}]
    for step in range(12):
        begin = 9_500_000_000 + step * 2_700_000_000
        phases.append({"name": f"decode {step}", "pid": 1, "depth": 0, "from_ns": begin,
                       "until_ns": begin + 2_500_000_000, "groups": [0]})  # fmt: skip
        phases.append({"name": "attention", "pid": 1, "depth": 1, "from_ns": begin + 200_000_000,
                       "until_ns": begin + 1_500_000_000, "groups": [0]})  # fmt: skip
    marks = [{"type": "failure", "time_ns": 30_000_000_000, "text": "Out of memory: DRAM", "group": 0, "explained": None,
              "count": 1}]  # fmt: skip
    marks += [{"type": "compile", "time_ns": 8_000_000_000 + 150_000_000 * i, "text": "ttnn::matmul compiled", "group": 0,
               "explained": None, "count": 2} for i in range(12)]  # fmt: skip
    marks.append({"type": "mark", "time_ns": 20_000_000_000, "text": "warm-up done", "group": -1, "explained": None,
                  "count": 1})  # fmt: skip
    report = {
        "schema": "ttmem.report/1", "ttmem": "0.0", "made": "2026-11-17T12:00:00Z", "title": "python demo.py --batch 32",
        "confidential": False,
        "facts": [{"label": "command", "value": "python demo.py --batch 32"}, {"label": "host", "value": "bench-04"},
                  {"label": "board", "value": "4 x n300 (8 chips)"}, {"label": "ttnn", "value": "0.62.0"},
                  {"label": "exit code", "value": "1"}],
        "begin": "2026-11-17T11:58:00Z", "begin_s": 1.0, "length_ns": LENGTH, "records": 412_345, "events": 398_000,
        "launches": 51_000,
        "verdict": {"status": "out_of_memory", "lines": [
            "An allocation of 96 MiB in DRAM failed after 30.0 s: 310 MiB were free in 12 banks, in pieces too small.",
            "The weights of load.py:18 hold most of DRAM at that moment; ttnn::concat in attention.py:85 asked."]},
        "losses": {"lost": 1200, "gaps": [{"pid": 1, "from_ns": 11_000_000_000, "until_ns": 11_200_000_000,
                                           "records": 1200}], "uncertain": [], "problems": [], "finished": True},
        "notes": ["The table of allocations has the largest and longest-lived ones only."],
        "kinds": KINDS, "pools": pools, "strings": list(strings), "stacks": stacks, "sites": sites, "groups": [group],
        "phases": phases, "marks": marks, "moments": [],
        "allocations": {"section": section, "rows": len(allocations), "total": len(allocations) + 40_000,
                        "ends": ["live", "freed", "program destroyed", "device closed", "process exited", "unknown"]},
        "explained": [], "leaks": None, "sizing": None,
        "stats": {"kinds": [], "sizes": [], "tops": [], "lives": [], "freed_late": {"groups": 0, "count": 0, "rows": []},
                  "fragmentation": [], "phases": [], "programs": {"start": 0, "compiled": 12, "destroyed": 0, "live": 12,
                  "tenths": []}, "kernel_ring": None, "host": None, "uncertain": [], "problems": []},
        "sections": sections.index,
    }  # fmt: skip
    return report, sections.texts


def write(out: Path, report: dict[str, Any], texts: dict[str, str]) -> None:
    page = json.dumps({"page": "report", "report": report}).replace("<", "\\u003c")
    parts = [f'<script type="text/plain" data-section="{name}">{text}</script>' for name, text in texts.items()]
    out.write_text(
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>sample</title>'
        f"<style>{(WEB / 'dist/app.css').read_text()}</style></head><body><div id='ttmem-app'></div>"
        f'<script type="application/json" id="ttmem-page">{page}</script>{"".join(parts)}'
        f"<script>{(WEB / 'dist/app.js').read_text()}</script></body></html>"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--sites", type=int, default=120)
    parser.add_argument("--edges", type=int, default=500)
    chosen = parser.parse_args()
    write(chosen.out, *build(chosen.sites, chosen.edges))
