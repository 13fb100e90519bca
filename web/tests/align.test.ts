// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import type { ReportPhase } from "../src/documents";
import { Alignment, byPhase, byTime, matchedPhases } from "../src/diff/align";

function phase(name: string, from: number, until: number | null, depth = 0): ReportPhase {
  return { name, pid: 1, depth, from_ns: from, until_ns: until, groups: [0] };
}

describe("two recordings on one axis", () => {
  const old = [phase("load", 10, 20), phase("decode", 20, 30), phase("decode", 30, 40)];
  const next = [phase("load", 10, 40), phase("warm up", 40, 50), phase("decode", 50, 55), phase("decode", 55, 70)];

  test("phases are matched by name, in their order", () => {
    const names = matchedPhases(old, next).map(([a, b]) => [a.from_ns, b.from_ns]);
    expect(names).toEqual([[10, 10], [20, 50], [30, 55]]);
  });

  test("inner phases are not anchors", () => {
    expect(matchedPhases([phase("a", 0, 5), phase("b", 1, 2, 1)], [phase("b", 0, 1)])).toEqual([]);
  });

  test("a phase begins and ends at the same place in both", () => {
    const both = byPhase(old, next, { old: 50, new: 80 });
    expect(both.place("old", 20)).toBe(40);
    expect(both.place("new", 40)).toBe(40);
    expect(both.time("old", 25)).toBe(15); // the middle of load
    expect(both.time("new", 25)).toBe(25);
    expect(both.place("old", 30)).toBe(60); // after 10 of warm up, and 10 of a decode that took 5 in new
    expect(both.place("new", 55)).toBe(60);
    expect(both.length).toBe(85);
  });

  test("a recording has nothing where the other one has a phase of its own", () => {
    const both = byPhase(old, next, { old: 50, new: 80 });
    expect(both.time("old", 45)).toBeNull();
    expect(both.timeOrBefore("old", 45)).toBe(20);
    expect(both.time("new", 45)).toBe(45);
  });

  test("by time, the shorter one ends earlier", () => {
    const both = byTime(50, 80);
    expect(both.length).toBe(80);
    expect(both.time("old", 60)).toBeNull();
    expect(both.time("new", 60)).toBe(60);
    expect(both.place("old", 12)).toBe(12);
  });

  test("places and times are inverse where a recording has something", () => {
    const both = byPhase(old, next, { old: 50, new: 80 });
    for (const time of [0, 3, 10, 17, 25, 39, 50]) expect(both.time("old", both.place("old", time))).toBeCloseTo(time);
    for (const time of [0, 30, 45, 52, 60, 80]) expect(both.time("new", both.place("new", time))).toBeCloseTo(time);
  });

  test("anchors that go backwards are ignored", () => {
    const both = new Alignment([[10, 10], [5, 20], [20, 30]], { old: 40, new: 40 }, true);
    expect(both.place("old", 20)).toBe(both.place("new", 30));
  });

  test("empty recordings have an axis", () => {
    expect(byPhase([], [], { old: 0, new: 0 }).length).toBe(1);
    expect(byPhase([], [], { old: 0, new: 0 }).time("old", 0)).toBe(0);
  });
});
