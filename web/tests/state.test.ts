// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import type { ReportMark } from "../src/documents";
import { fromHash, initialState, toHash } from "../src/report/state";
import { smallReport } from "./small_report";

const report = smallReport();
const initial = initialState(report);

describe("the first choice", () => {
  it("is the peak of the pool that is closest to its capacity", () => {
    expect([initial.pool, initial.from, initial.until, initial.group]).toEqual(["l1_buffers", 60, 60, 0]);
  });
  it("is the failed allocation if there was one, on its chips", () => {
    const mark: ReportMark = { type: "failure", time_ns: 33, text: "", group: 1, explained: null, count: 1 };
    const state = initialState(smallReport({ marks: [mark] }));
    expect([state.from, state.until, state.group]).toEqual([33, 33, 1]);
  });
  it("is the end of a recording without chips", () => {
    expect(initialState(smallReport({ groups: [] })).from).toBe(100);
  });
});

describe("the hash", () => {
  it("is empty for the first choice", () => expect(toHash(initial, initial)).toBe(""));
  it("keeps everything that was chosen", () => {
    const state = {
      ...initial,
      group: 1,
      from: 10,
      until: 30,
      view: [5, 50] as const,
      pool: "dram",
      by: "op" as const,
      search: "a=b&c#",
      only: { by: "line" as const, key: "/srv/m.py:9 layer" },
      picked: 7,
    };
    expect(fromHash(`#${toHash(state, initial)}`, report, initial)).toEqual(state);
  });
  it.each([
    "#at=30-10",
    "#at=101",
    "#at=x",
    "#group=2",
    "#pool=none",
    "#by=colour",
    "#view=5-5",
    "#failure=0",
    "#allocation=51",
    "#at=-1",
  ])("ignores what this report cannot have: %s", (hash) => expect(fromHash(hash, report, initial)).toEqual(initial));
});
