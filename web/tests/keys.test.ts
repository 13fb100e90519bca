// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { Sections } from "../src/data/columns";
import { WindowSums } from "../src/data/window_sums";
import { keyChange } from "../src/report/keys";
import { initialState } from "../src/report/state";
import type { View } from "../src/report/view";
import { smallReport } from "./small_report";

const report = smallReport({
  marks: [20, 80].map((time_ns) => ({ type: "failure", time_ns, text: "", group: 0, explained: null, count: 1 })),
});
const sums = new WindowSums(
  {
    time: Float64Array.of(0, 20, 40, 60, 80, 100),
    site: new Uint32Array(),
    allocated: new Float64Array(),
    freed: new Float64Array(),
    made: new Uint32Array(),
    ended: new Uint32Array(),
  },
  5,
);

function view(from: number, until = from): View {
  const edges = sums.snap(from, until);
  return {
    report,
    sections: new Sections({}, () => Promise.reject(new Error("none"))),
    state: { ...initialState(report), from, until },
    change: () => undefined,
    group: report.groups[0],
    sums,
    noSums: null,
    edges,
    from: sums.edges[edges[0]],
    until: sums.edges[edges[1]],
    window: from !== until,
    amounts: null,
    mask: new Uint8Array(5),
  };
}
const pressed = (key: string, from: number, until = from, shift = false) => keyChange(key, shift, view(from, until));

describe("keys", () => {
  it("arrows step from edge to edge, and stop at the ends", () => {
    expect(pressed("ArrowRight", 40)).toMatchObject({ from: 60, until: 60 });
    expect(pressed("ArrowLeft", 40)).toMatchObject({ from: 20, until: 20 });
    expect(pressed("ArrowRight", 100)).toMatchObject({ from: 100, until: 100 });
    expect(pressed("ArrowLeft", 40, 80)).toMatchObject({ from: 20, until: 20 });
  });
  it("arrows with Shift extend and shrink the window", () => {
    expect(pressed("ArrowRight", 40, 40, true)).toMatchObject({ from: 40, until: 60 });
    expect(pressed("ArrowLeft", 40, 60, true)).toMatchObject({ from: 40, until: 40 });
    expect(pressed("ArrowRight", 40, 100, true)).toMatchObject({ from: 40, until: 100 });
  });
  it("f and p go to the next failure and the next peak, then to the first again", () => {
    expect(pressed("f", 0)).toMatchObject({ from: 20, until: 20 });
    expect(pressed("f", 20)).toMatchObject({ from: 80, until: 80 });
    expect(pressed("f", 80)).toMatchObject({ from: 20, until: 20 });
    expect(pressed("p", 40)).toMatchObject({ from: 60, until: 60 });
  });
  it("Escape chooses the whole run, z shows the window", () => {
    expect(pressed("Escape", 40)).toEqual({ from: 0, until: 100, view: null });
    expect(pressed("z", 20, 60)).toEqual({ view: [20, 60] });
    expect(pressed("z", 20)).toBeNull();
  });
  it("g and o go to the next chip group and pool", () => {
    expect(pressed("g", 40)).toEqual({ group: 1, pool: "l1_buffers" });
    expect(pressed("o", 40)).toEqual({ pool: "programs" });
  });
  it("other keys mean nothing", () => expect(pressed("q", 40)).toBeNull());
});
