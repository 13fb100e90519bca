// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import type { CoreDetail, CoreRow, Cores, SegmentOwner, SegmentRow } from "../src/documents";
import { coreLook, headroomClass } from "../src/parts/core_grid";
import {
  clashes,
  detailOf,
  gridNotes,
  gridSize,
  headroomText,
  lastProgram,
  ownerText,
  segmentGroups,
  segmentText,
  tinySize,
  unplacedText,
  worstCore,
} from "../src/parts/core_words";

const KIB = 1024;

function core(part: Partial<CoreRow>): CoreRow {
  const none = { used: 100 * KIB, free: 0, unknown: 0, largest_free: 0, overlap: 0, headroom: 50 * KIB, end: null };
  return { x: 0, y: 0, program: null, worst: null, ...none, ...part };
}

function cores(part: Partial<Cores>): Cores {
  return {
    schema: "ttmem.cores/1",
    chip: "77",
    why: null,
    age_s: 0,
    basis: "live",
    grid: { x: 2, y: 2 },
    dispatch: [],
    harvested: 0,
    l1: { size: 1000 * KIB, map_end: 0, base: 100 * KIB, small_start: 1000 * KIB },
    used: 0,
    max_core: 0,
    headroom_min: 0,
    floor: { address: null, owner: null },
    overlaps: [],
    unplaced: [],
    warnings: [],
    programs: [],
    cores: [core({})],
    core: null,
    ...part,
  };
}

function owner(part: Partial<SegmentOwner>): SegmentOwner {
  const none = {
    pid: 42,
    name: "python",
    kind: "l1",
    address: 0,
    size: 0,
    tag: null,
    program: null,
    operation: null,
  };
  return { ...none, allocator: null, source: "agent", data: true, ...part };
}

function segment(start: number, end: number, kind: string, owners: SegmentOwner[] = []): SegmentRow {
  return { start, end, kind, owners, inside: [] };
}

describe("words", () => {
  it("of an owner are those of ttmem l1", () => {
    expect(ownerText(owner({ operation: "ttnn::add", program: 7 }))).toBe("program 7 ttnn::add, pid 42 python");
    expect(ownerText(owner({ tag: "weights", pid: null, name: null }))).toBe("weights, pid -");
  });

  it("of a segment say overlaps, reserved places and what is inside", () => {
    const both = segment(0, 9, "l1", [owner({ tag: "a" }), owner({ tag: "b", data: false })]);
    both.inside = [owner({ tag: "c_0" })];
    expect(segmentText(both)).toBe(
      "Overlap: a, pid 42 python; b, pid 42 python (reserved in lock step, no data here); in it c_0, pid 42 python",
    );
    const unknown = segment(0, 9, "unknown", [owner({ tag: "a" }), owner({ tag: "b" })]);
    expect(segmentText(unknown)).not.toContain("Overlap");
  });

  it("of headroom distinguish unknown, enough and a clash", () => {
    expect([headroomText(null), headroomText(2048), headroomText(-2048)]).toEqual([
      "not known",
      "2.0 KiB",
      "clash by 2.0 KiB",
    ]);
  });

  it("of the last program distinguish none from not known", () => {
    const program = {
      pid: 1,
      name: null,
      device: 0,
      program: 3,
      metal_id: null,
      operation: "ttnn.add",
      ring: null,
    };
    expect(lastProgram(cores({ programs: [program] }), core({ program: 0 }))).toBe("program 3 ttnn.add, pid 1");
    expect(lastProgram(cores({}), core({}))).toBe("none");
    expect(lastProgram(cores({}), core({ headroom: null }))).toBe("not known");
  });

  it("under the grid explain its signs", () => {
    const found = cores({ dispatch: [{ x: 0, y: 2 }], harvested: 8, cores: [core({ headroom: -1, unknown: 5 })] });
    expect(gridNotes(found)).toEqual([
      "! overlap or clash",
      "? not all is known",
      "D reserved for dispatch",
      "8 cores switched off (harvested)",
    ]);
    expect(unplacedText(found)).toBeNull();
    expect(unplacedText(cores({ unplaced: [{ why: "no address", allocations: 1, bytes: 5 }] }))).toBe(
      "1 allocation is not in the map: no address",
    );
  });

  it("in cells are short", () => {
    expect([0, 640, 33_440, 1 << 20, 1_393_312].map(tinySize)).toEqual(["0", "640", "33K", "1.0M", "1.3M"]);
  });
});

describe("cores", () => {
  it("with the least headroom: the fullest of several", () => {
    const found = cores({
      cores: [core({ x: 0 }), core({ x: 1, used: 200 * KIB }), core({ x: 2, headroom: null })],
    });
    expect(worstCore(found)?.x).toBe(1);
    const tight = [core({ x: 0 }), core({ x: 1, headroom: 9 }), core({ x: 2, headroom: 700 })];
    expect(worstCore(cores({ cores: tight }))?.x).toBe(1);
    expect(worstCore(cores({ cores: [core({ headroom: null })] }))).toBeNull();
  });

  it("clash if something overlaps or the headroom is negative", () => {
    expect([clashes(core({})), clashes(core({ overlap: 1 })), clashes(core({ headroom: -1 }))]).toEqual([
      false,
      true,
      true,
    ]);
  });

  it("make a grid with the cores for dispatch", () => {
    expect(gridSize(cores({ dispatch: [{ x: 1, y: 5 }] }))).toEqual({ columns: 2, rows: 6 });
  });

  it("that are alike share a map, which gets the coordinates of the core", () => {
    const detail = { x: 0, y: 0, top: null, segments: [], listed_to: null, kernels: [] } satisfies CoreDetail;
    const alike = [
      {
        at: [
          [0, 0],
          [3, 4],
        ],
        detail: detail as unknown as Record<string, unknown>,
      },
    ];
    expect(detailOf(alike as never, 3, 4)).toMatchObject({ x: 3, y: 4 });
    expect(detailOf(alike as never, 1, 1)).toBeNull();
  });

  it("look different by use, headroom and program, and never show an unknown value as 0", () => {
    const found = cores({});
    const look = (one: CoreRow, by: "used" | "headroom" | "program") => coreLook(found, one, by, "light", 0xeeeeee);
    expect(look(core({}), "used")).toMatchObject({ first: "10%", second: "50K" });
    expect(look(core({ headroom: null }), "headroom")).toMatchObject({ colour: 0xeeeeee, first: "-" });
    expect(look(core({ used: null }), "used").first).toBe("-");
    expect(look(core({ headroom: -5 }), "headroom").first).toBe("clash!");
    expect(look(core({}), "program").first).toBe("-");
  });

  it("have the limits of the dashboard for warnings", () => {
    const limits = [10 * KIB, 50 * KIB, 500 * KIB, null].map((bytes) => headroomClass(cores({}), bytes));
    expect(limits).toEqual(["headroom-bad", "headroom-warn", "headroom-good", "headroom-unknown"]);
  });
});

describe("segments", () => {
  const a = owner({ tag: "a" });
  const list = [segment(0, 4, "l1", [a]), segment(4, 8, "l1", [a]), segment(8, 9, "free"), segment(9, 12, "l1", [a])];

  it("that are adjacent and alike are one row", () => {
    const rows = segmentGroups(list, true).map(({ start, end, count }) => [start, end, count]);
    expect(rows).toEqual([
      [0, 8, 2],
      [8, 9, 1],
      [9, 12, 1],
    ]);
  });

  it("are all listed on request", () => {
    expect(segmentGroups(list, false)).toHaveLength(4);
  });
});
