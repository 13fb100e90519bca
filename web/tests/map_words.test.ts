// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import type { ReportSite } from "../src/documents";
import { opColours, sequential } from "../src/parts/colours";
import { bankAt, mapReach, mapRectangles } from "../src/parts/map_layout";
import {
  agePart,
  bankWords,
  legendOf,
  opOf,
  placeWords,
  rectangleColours,
  rectangleWords,
} from "../src/parts/map_words";

const LENGTH_NS = 2e9;
const MAP = { base: 0, size: 0x1000, main_base: 0, main_size: 0x1000, columns: 1, rows: 1, banks: 12, pool: "dram" };

function site(part: Partial<ReportSite>): ReportSite {
  return { kind: 0, op: -1, shape: -1, line: -1, stack: -1, part: -1, other: 0, ...part };
}

const NAMES = {
  strings: ["ttnn.add", "ttnn.mul", "[32, 32] bfloat16", "model.py:7 f"],
  sites: [site({ op: 0, shape: 2, line: 3 }), site({ op: 1 }), site({ other: 5 }), site({})],
  kinds: ["dram"],
};
const RECTS = mapRectangles(
  {
    begin: Float64Array.of(0, 1e9, 1e9),
    end: Float64Array.of(-1, 1.5e9, 1.5e9),
    address: Float64Array.of(0x800, 0x400, 0xf00),
    size: Float64Array.of(0x400, 0x80, 0x10),
    site: Uint32Array.of(0, 1, 2),
    row: Float64Array.of(1, 2, 3),
  },
  LENGTH_NS,
);

describe("a rectangle", () => {
  it("is named by operation, tensor, line, address, size in each bank, and life", () => {
    const { title, rows } = rectangleWords(RECTS, 0, NAMES, MAP);
    expect(title).toBe("ttnn.add");
    expect(Object.fromEntries(rows)).toEqual({
      tensor: "[32, 32] bfloat16",
      line: "model.py:7 f",
      address: "0x800 to 0xc00",
      size: "1 KiB in each of 12 banks",
      life: "2 s, from 0.000 s, never freed",
    });
    expect(Object.fromEntries(rectangleWords(RECTS, 1, NAMES, MAP).rows).life).toBe(
      "500 ms, from 1.000 s, freed at 1.500 s",
    );
  });

  it("of an unknown operation says so", () => {
    expect(opOf(NAMES, 3)).toBe("DRAM, operation not known");
    expect(opOf(NAMES, 2)).toBe("other call sites, DRAM");
    expect(opOf(NAMES, 99)).toBe("not known");
  });

  it("has the colour of its operation or its life, and is dimmed if it is not meant", () => {
    const by = (how: "op" | "age", only: Set<number> | null) =>
      rectangleColours(RECTS, NAMES, how, LENGTH_NS, "light", only, 0xffffff);
    expect(by("op", null)[0]).toBe(opColours.of("ttnn.add", "light"));
    expect(by("age", null)[0]).toBe(sequential(1, "light"));
    const only = by("op", new Set([0]));
    expect(only[0]).toBe(by("op", null)[0]);
    expect(only[1]).not.toBe(by("op", null)[1]);
  });

  it("has a life between short and the whole run", () => {
    expect([agePart(1, 1e9), agePart(1e9, 1e9)]).toEqual([0, 1]);
    expect(agePart(1e7, 1e9)).toBeGreaterThan(agePart(1e6, 1e9));
    expect(agePart(5, 5)).toBe(0);
  });
});

describe("the legend", () => {
  it("has the names with the most bytes times time first, and counts the rest", () => {
    expect(legendOf(RECTS, NAMES, "op", "light").map((entry) => entry.label)).toEqual([
      "ttnn.add",
      "ttnn.mul",
      "other call sites, DRAM",
    ]);
    const lines = legendOf(
      RECTS,
      { ...NAMES, strings: [...NAMES.strings.slice(0, 3), "/srv/model.py:7 f"] },
      "line",
      "light",
    );
    expect(lines[0]).toMatchObject({ label: "model.py:7 f", title: "/srv/model.py:7 f" });
    const short = legendOf(RECTS, NAMES, "op", "light", 1);
    expect(short[1]).toMatchObject({ label: "2 more", others: true });
  });
});

describe("a place without a rectangle", () => {
  const reach = mapReach(
    { begin: Float64Array.of(0), end: Float64Array.of(-1), top: Float64Array.of(0x200), site: Uint32Array.of(1) },
    LENGTH_NS,
  );
  const bank = bankAt(MAP, RECTS, reach, null, 1.2e9, LENGTH_NS);

  it("is a program with its headroom", () => {
    const words = placeWords(bank, reach, NAMES, { ns: 1.2e9, address: 0x100 });
    expect(words?.title).toBe("program of ttnn.mul");
    expect(Object.fromEntries(words?.rows ?? [])).toMatchObject({ "reaches up to": "0x200", headroom: "512 B" });
  });

  it("is a free block with its size, and the headroom of the program below it", () => {
    const words = placeWords(bank, reach, NAMES, { ns: 1.2e9, address: 0x300 });
    expect(words?.title).toBe("free");
    expect(Object.fromEntries(words?.rows ?? [])).toMatchObject({
      "free block": "0x0 to 0x400",
      size: "1 KiB in each bank",
      headroom: "512 B above the program of ttnn.mul",
    });
  });

  it("is nothing inside a buffer", () => {
    expect(placeWords(bank, reach, NAMES, { ns: 1.2e9, address: 0x801 })).toBeNull();
  });

  it("is described with limits where allocations without a rectangle are", () => {
    const rough = bankAt(MAP, RECTS, null, Uint8Array.of(7), 1.2e9, LENGTH_NS);
    expect(bankWords(bank, reach, 1.2e9)).toContain("; headroom above the programs 512 B");
    expect(bankWords(rough, null, 1.2e9)).toBe(
      "At 1.200 s in each bank: buffers at least 1.1 KiB, free at most 2.9 KiB in 4 blocks, largest at most 1.0 KiB",
    );
  });
});
