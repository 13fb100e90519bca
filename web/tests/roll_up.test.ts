// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import type { SiteAmounts } from "../src/data/window_sums";
import { masked, rollUpBy, siteMask } from "../src/report/roll_up";
import { smallReport } from "./small_report";

const report = smallReport();
const none = new Float64Array(5);
const amounts: SiteAmounts = {
  bytes: Float64Array.of(10, 20, 40, 80, 160),
  count: Float64Array.of(1, 2, 3, 4, 5),
  before: Float64Array.of(0, 25, 40, 80, 0),
  allocated: Float64Array.of(10, 5, 0, 0, 160),
  freed: Float64Array.of(0, 10, 0, 0, 0),
  made: none,
  ended: none,
};
const all = siteMask(report, null, null, "");

describe("rollUpBy", () => {
  it("adds up call sites of one line, most bytes first", () => {
    const rows = rollUpBy(report, "line", amounts, all);
    expect(rows.map((row) => [row.key, row.bytes, row.count, row.change, row.sites, row.known])).toEqual([
      ["12 other call sites", 160, 5, 160, 12, false],
      ["/srv/m.py:9 layer", 140, 9, -5, 3, true],
      ["/srv/m.py:1 main", 10, 1, 10, 1, true],
    ]);
  });
  it("has the same total for every property", () => {
    for (const by of ["line", "op", "shape", "part", "kind"] as const) {
      expect(rollUpBy(report, by, amounts, all).reduce((sum, row) => sum + row.bytes, 0)).toBe(310);
    }
  });
  it("leaves out call sites that had nothing in the window", () => {
    const empty = { ...amounts, bytes: Float64Array.of(0, 0, 0, 0, 1), before: none, allocated: none, freed: none };
    expect(rollUpBy(report, "op", empty, all).map((row) => row.key)).toEqual(["12 other call sites"]);
  });
});

describe("siteMask", () => {
  it.each([
    ["dram", null, "", [1, 1, 0, 0, 1]],
    [null, { by: "line", key: "/srv/m.py:9 layer" }, "", [0, 1, 1, 1, 0]],
    [null, { by: "kind", key: "l1" }, "", [0, 0, 1, 0, 0]],
    [null, null, "MATMUL", [0, 1, 0, 1, 0]],
    [null, null, "m.py:1 ", [1, 1, 1, 1, 0]], // a caller
    [null, null, "core.py", [0, 0, 1, 0, 0]],
    ["dram", { by: "op", key: "ttnn.matmul" }, "[32", [0, 1, 0, 0, 0]],
  ] as const)("of pool %s, only %o, with the text %j", (pool, only, search, expected) => {
    expect([...siteMask(report, pool, only, search)]).toEqual(expected);
  });
  it("leaves values of other call sites out", () => {
    expect([...masked(amounts.bytes, Uint8Array.of(1, 0, 0, 0, 1))]).toEqual([10, 0, 0, 0, 160]);
  });
});
