// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import type { Breakdown, BreakdownRow } from "../src/documents";
import { liveFlame } from "../src/live/live_flame";

function row(more: Partial<BreakdownRow>): BreakdownRow {
  return { bytes: 0, per_chip: 0, chips: 1, count: 1, reserved: null, other_chips: 0, largest: 0, kinds: { dram: 1 }, ...more };
}

function breakdown(by: string, rows: BreakdownRow[]): Breakdown {
  const pool = { pool: "dram", bytes: 0, per_chip: 0, chips: 1, count: 0, reserved: null, other_chips: 0, groups: rows.length, rows };
  return { schema: "ttmem.breakdown/1", by, pools: [pool] };
}

const OPS = breakdown("op", [row({ op: "ttnn.add", bytes: 64, count: 2 }), row({ op: null, bytes: 8 })]);

test("stacks share their outer frames, and what has none is a row of its own", () => {
  const stacks = breakdown("stack", [
    row({ stack: "model.py:5 layer\nmain.py:1 main", bytes: 100, count: 3 }),
    row({ stack: "site-packages/ttnn/core.py:9 f\nmodel.py:7 head\nmain.py:1 main", bytes: 50 }),
    row({ stack: null, bytes: 25 }),
  ]);
  const flame = liveFlame(stacks, OPS, "dram", "bytes");
  expect(flame.stacks.parent).toEqual([-1, 0, 0, 2]);
  expect(flame.stacks.type).toEqual(["frame", "frame", "frame", "ttnn"]);
  expect([...flame.values]).toEqual([100, 50, 25]);
  expect(flame.sites.map((site) => site.stack)).toEqual([1, 3, -1]);
  expect([...liveFlame(stacks, OPS, "dram", "count").values]).toEqual([3, 1, 1]);
});

test("without stacks, it is by operation", () => {
  const flame = liveFlame(breakdown("stack", [row({ stack: null, bytes: 72, count: 3 })]), OPS, "dram", "bytes");
  expect(flame.stacks.parent).toEqual([]);
  expect(flame.sites.map((site) => flame.strings[site.op])).toEqual(["ttnn.add", "operation not known"]);
  expect([...flame.values]).toEqual([64, 8]);
  expect(liveFlame(null, null, "dram", "bytes").sites).toEqual([]);
});
