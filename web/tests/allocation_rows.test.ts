// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import type { AllocationFilter } from "../src/report/allocation_rows";
import { CHOSEN, filterRows, lifeOf, sortedRows } from "../src/report/allocation_rows";
import { smallReport } from "./small_report";

const columns = {
  id: Float64Array.of(1, 2, 3, 4),
  begin: Float64Array.of(0, 10, 50, 50),
  end: Float64Array.of(-1, 50, 51, 90),
  address: Float64Array.of(8, 16, -1, 0),
  size: Float64Array.of(100, 2000, 30, 4),
  chosen: Uint8Array.of(4, 1, 0, 16),
  groups: Uint32Array.of(1, 3, 1, 0x80000000),
  site: Uint32Array.of(0, 1, 2, 0),
  kind: Uint8Array.of(0, 0, 1, 0),
  ended_by: Uint8Array.of(0, 1, 1, 2),
  program: Uint32Array.of(0, 0, 0, 0),
};
const base: AllocationFilter = {
  scope: "all",
  from: 0,
  until: 0,
  group: 0,
  mask: Uint8Array.of(1, 1, 1, 1, 1),
  least: 0,
  life: "any",
  flag: 0,
};
const order = Uint32Array.of(0, 1, 2, 3);
const kept = (change: Partial<AllocationFilter>) => filterRows(order, columns, { ...base, ...change }, 100);

describe("allocations", () => {
  it.each([
    ["of a chip group", { group: 1 }, [1]],
    ["of the last chip group with a bit", { group: 31 }, [3]],
    ["of a chip group without a bit", { group: 32 }, []],
    ["that live at a moment: made by then, not freed by then", { scope: "live", from: 50, until: 50 }, [0, 2]],
    ["made in a window", { scope: "made", from: 0, until: 50 }, [1, 2]],
    ["of some call sites", { mask: Uint8Array.of(0, 1, 0, 0, 0) }, [1]],
    ["of some size", { least: 100 }, [0, 1]],
    ["never freed", { flag: CHOSEN.neverFreed }, [0]],
    ["freed late", { flag: CHOSEN.freedLate, group: 31 }, [3]],
    ["that lived short", { life: "short" }, [2]],
    ["that lived long", { life: "long" }, [0]],
  ] as const)("%s", (_name, change, expected) => expect(kept(change as Partial<AllocationFilter>)).toEqual(expected));

  it("live to the end if they were not freed", () => {
    expect([0, 1, 2, 3].map((row) => lifeOf(columns, row, 100))).toEqual([100, 40, 1, 40]);
  });
  it("are sorted by any column", () => {
    const report = smallReport();
    expect([...sortedRows(columns, report, "size", true)]).toEqual([1, 0, 2, 3]);
    expect([...sortedRows(columns, report, "life", false)]).toEqual([2, 1, 3, 0]);
    expect([...sortedRows(columns, report, "site", false)]).toEqual([0, 3, 2, 1]);
  });
});
