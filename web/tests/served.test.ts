// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { rangeOf, ServedReport } from "../src/data/served";
import type { Report, ReportGroup } from "../src/documents";

test("a range contains what is shown, and stays the same for small movements", () => {
  const length = 1e12;
  for (const [from, until] of [[0, 10], [5e9, 6e9], [123_456_789, 123_456_999], [9.99e11, 1e12]]) {
    const range = rangeOf(from, until, length);
    expect(range).not.toBe(null);
    expect(range!.from).toBeLessThanOrEqual(from);
    expect(range!.until).toBeGreaterThanOrEqual(until);
    expect(Number.isInteger(range!.from) && Number.isInteger(range!.until)).toBe(true);
  }
  expect(rangeOf(5e9, 6e9, length)).toEqual(rangeOf(5.1e9, 6.1e9, length));
  expect(rangeOf(0, 4e11, length)).toBe(null);
});

test("a range and a moment are added once, with names that the server understands", () => {
  const columns = [{ name: "dram.low", type: "i64" as const, count: 4096, delta: true }];
  const group = { timeline: "group/0/timeline", levels: [] } as unknown as ReportGroup;
  const report = { groups: [group], length_ns: 1e12, moments: [], sections: { "group/0/timeline": { bytes: 1, columns } } } as unknown as Report;
  const served = new ServedReport(report);
  served.addRange(group, 100, 101);
  served.addRange(group, 100, 101);
  expect(group.levels).toEqual([{ from_ns: 100, until_ns: 102, section: "range/0/100/102/2" }]);
  expect(report.sections["range/0/100/102/2"].columns?.[0].count).toBe(2);
  served.addMoment(0, 77.2);
  served.addMoment(0, 77);
  expect(report.moments).toEqual([{ time_ns: 77, words: "at the chosen moment", group: 0, cores: "moment/0/77" }]);
});
