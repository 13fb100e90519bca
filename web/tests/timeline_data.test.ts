// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import type { ReportSeries } from "../src/documents";
import { bucketAt, chartData, levelFor, markTimes, panelsOf } from "../src/report/timeline_data";
import { GROUP, smallReport } from "./small_report";

const series = (name: string, panel: string): ReportSeries => ({
  name,
  label: name,
  unit: "bytes",
  panel,
  capacity: null,
  confidence: "exact",
});
const group = {
  ...GROUP,
  series: [
    series("dram", "dram"),
    series("l1_buffers", "l1"),
    series("kernels", "l1"),
    series("largest_free_dram", "free"),
    series("largest_free_l1", "free"),
  ],
  levels: [
    { from_ns: 10, until_ns: 50, section: "wide" },
    { from_ns: 20, until_ns: 30, section: "narrow" },
  ],
};

describe("the timeline", () => {
  it("has a panel for series of one axis; free blocks have one each", () => {
    expect(panelsOf(group).map((panel) => [panel.name, panel.series.length])).toEqual([
      ["dram", 1],
      ["l1", 2],
      ["largest_free_dram", 1],
      ["largest_free_l1", 1],
    ]);
  });
  it("takes the level with most detail that has all of what is shown", () => {
    expect(levelFor(group, 22, 28)?.section).toBe("narrow");
    expect(levelFor(group, 15, 28)?.section).toBe("wide");
    expect(levelFor(group, 5, 28)).toBeNull();
  });
  it("divides the time equally into buckets", () => {
    const columns = { "dram.low": Float64Array.of(0, 1, 2, 3), "dram.high": Float64Array.of(0, 5, 6, 7) };
    const data = chartData(panelsOf(group)[0], columns, 100, 140, "light");
    expect([...data.times]).toEqual([100, 110, 120, 130]);
    expect([99, 100, 119.9, 140, 141].map((time) => bucketAt(data, time))).toEqual([-1, 0, 1, 3, -1]);
  });
  it("steps through peaks of all pools", () => {
    expect(markTimes(smallReport(), 0, "peak")).toEqual([40, 60]);
  });
});
