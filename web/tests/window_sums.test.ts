// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { lowerBound, WindowSums } from "../src/data/window_sums";

// Two call sites (numbers 3 and 1 of the report) at four edges.
const columns = {
  time: Float64Array.of(0, 10, 20, 100),
  site: Uint32Array.of(3, 1),
  allocated: Float64Array.of(5, 5, 25, 25, 0, 7, 7, 14),
  freed: Float64Array.of(0, 5, 5, 25, 0, 0, 7, 7),
  made: Uint32Array.of(1, 1, 3, 3, 0, 1, 1, 2),
  ended: Uint32Array.of(0, 1, 1, 3, 0, 0, 1, 1),
};
const sums = new WindowSums(columns, 4);

describe("WindowSums", () => {
  it("a moment has what was live", () => {
    const { bytes, count, allocated } = sums.amounts([2, 2]);
    expect([...bytes]).toEqual([0, 0, 0, 20]);
    expect([...count]).toEqual([0, 0, 0, 2]);
    expect([...allocated]).toEqual([0, 0, 0, 0]);
  });
  it("a window has what was live at its ends, and what was allocated and freed in it", () => {
    const window = sums.amounts([1, 3]);
    expect([...window.before]).toEqual([0, 7, 0, 0]);
    expect([...window.bytes]).toEqual([0, 7, 0, 0]);
    expect([...window.allocated]).toEqual([0, 7, 0, 20]);
    expect([...window.freed]).toEqual([0, 7, 0, 20]);
    expect([...window.made]).toEqual([0, 1, 0, 2]);
    expect([...window.ended]).toEqual([0, 1, 0, 2]);
  });
  it("live is allocated less freed at every edge", () => {
    for (let edge = 0; edge < 4; edge++) {
      const whole = sums.amounts([0, edge]);
      whole.bytes.forEach((bytes, i) => expect(bytes - whole.before[i]).toBe(whole.allocated[i] - whole.freed[i]));
    }
  });
  it("has the history of a selection", () => {
    expect([...sums.history([0, 0, 0, 1])]).toEqual([5, 0, 20, 0]);
    expect([...sums.history([1, 1, 1, 1])]).toEqual([5, 7, 20, 7]);
  });
  it("snaps a moment to the nearest edge", () => {
    expect([-5, 4, 6, 15, 59, 61, 1000].map((time) => sums.nearest(time))).toEqual([0, 0, 1, 2, 2, 3, 3]);
    expect(sums.snap(12, 12)).toEqual([1, 1]);
  });
  it("a window has at least one step, and its begin first", () => {
    expect(sums.snap(8, 22)).toEqual([1, 2]);
    expect(sums.snap(11, 12)).toEqual([1, 2]);
    expect(sums.snap(98, 99)).toEqual([2, 3]);
    expect(sums.snap(0, 1000)).toEqual([0, 3]);
  });
  it("rejects columns that do not fit together", () => {
    expect(() => new WindowSums({ ...columns, allocated: Float64Array.of(1) }, 4)).toThrow("1 sums for 2 call sites");
  });
  it("finds the first value that is not below", () => {
    expect([0, 5, 10, 101].map((value) => lowerBound(columns.time, value))).toEqual([0, 1, 1, 4]);
  });
});
