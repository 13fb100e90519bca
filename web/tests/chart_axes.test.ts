// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { timeTicks, valueText, valueTicks } from "../src/parts/chart_axes";

describe("axes", () => {
  it("have ticks at round times, no closer than asked", () => {
    expect(timeTicks(0, 10e9, 1100)).toEqual({
      ticks: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10].map((s) => s * 1e9),
      step: 1e9,
    });
    expect(timeTicks(1.5e9, 4e9, 330).step).toBe(1e9);
    expect(timeTicks(0, 600e9, 1100).step).toBe(60e9);
    expect(timeTicks(0, 3e5, 1100).step).toBe(5e4);
  });
  it("have powers of two of bytes and round counts", () => {
    expect(valueTicks(1000 << 20, "bytes", 4)).toEqual([0, 256 << 20, 512 << 20, 768 << 20]);
    expect(valueTicks(930, "count", 4)).toEqual([0, 500]);
    expect(valueTicks(0, "bytes", 4)).toEqual([0]);
  });
  it("name the unit", () => {
    expect([valueText(1 << 30, "bytes"), valueText(12_000, "per_second"), valueText(7, "count")]).toEqual([
      "1 GiB",
      "12 k/s",
      "7",
    ]);
  });
});
