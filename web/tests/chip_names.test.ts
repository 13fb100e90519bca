// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { chipList } from "../src/live/chip_names";

test("ranges of chips are written together", () => {
  expect(chipList([3, 0, 1, 2, 7])).toBe("0-3, 7");
  expect(chipList([0, 1])).toBe("0, 1");
  expect(chipList([])).toBe("");
});
