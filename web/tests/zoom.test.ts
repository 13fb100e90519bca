// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { clampView, showing, zoomed } from "../src/report/zoom";

const LENGTH = 1e9;

describe("the part that is shown", () => {
  it("stays within the recording", () => {
    expect(clampView(-5e8, 0, LENGTH)).toEqual([0, 5e8]);
    expect(clampView(9e8, 12e8, LENGTH)).toEqual([7e8, 1e9]);
    expect(clampView(0, 2e9, LENGTH)).toBeNull();
  });
  it("keeps the time under the pointer in its place", () => {
    const view = zoomed(0, LENGTH, 25e7, 0.5, LENGTH);
    expect(view).toEqual([125e6, 625e6]);
    expect(zoomed(view![0], view![1], 25e7, 2, LENGTH)).toBeNull();
  });
  it("has at least a microsecond", () => {
    expect(zoomed(0, 2000, 1000, 1e-6, LENGTH)).toEqual([500, 1500]);
  });
  it("moves to what was chosen only if that is outside", () => {
    expect(showing([0, 100_000], 10, 50, LENGTH)).toEqual([0, 100_000]);
    expect(showing([0, 100_000], 5e8, 5e8, LENGTH)).toEqual([499_950_000, 500_050_000]);
    expect(showing(null, 5, 6, LENGTH)).toBeNull();
  });
});
