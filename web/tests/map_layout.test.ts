// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import {
  addressTicks,
  bankAt,
  liveAt,
  mapReach,
  mapRectangles,
  panView,
  rectangleAt,
  timeTicks,
  usedView,
  wholeView,
  zoomView,
} from "../src/parts/map_layout";

const MAP = { base: 0x1000, size: 0x1000, main_base: 0x1000, main_size: 0x1000, columns: 4, rows: 2 };
const LENGTH_NS = 1_000_000;
const RECTS = mapRectangles(
  {
    begin: Float64Array.of(0, 100_000, 200_000),
    end: Float64Array.of(-1, 500_000, 900_000),
    address: Float64Array.of(0x1f00, 0x1c00, 0x1800),
    size: Float64Array.of(0x100, 0x200, 0x100),
    site: Uint32Array.of(1, 2, 3),
    row: Float64Array.of(10, 11, 12),
  },
  LENGTH_NS,
);
const REACH = mapReach(
  {
    begin: Float64Array.of(150_000, 300_000),
    end: Float64Array.of(300_000, -1),
    top: Float64Array.of(0x1400, 0x1700),
    site: Uint32Array.of(4, 5),
  },
  LENGTH_NS,
);

describe("rectangles", () => {
  it("that were not freed last until the end, and are marked", () => {
    expect([...RECTS.end]).toEqual([LENGTH_NS, 500_000, 900_000]);
    expect([...RECTS.live]).toEqual([1, 0, 0]);
    expect(REACH.end[1]).toBe(LENGTH_NS);
  });

  it("are found at a place, and beside it only within the tolerance", () => {
    expect(rectangleAt(RECTS, 300_000, 0x1c10)).toBe(1);
    expect(rectangleAt(RECTS, 300_000, 0x1e00)).toBe(-1);
    expect(rectangleAt(RECTS, 300_000, 0x1e00, 0, 0x10)).toBe(1);
    expect(rectangleAt(RECTS, 950_000, 0x1810)).toBe(-1);
  });

  it("at a moment are those that are not freed yet, by address", () => {
    expect(liveAt(RECTS, 300_000)).toEqual([2, 1, 0]);
    expect(liveAt(RECTS, 500_000)).toEqual([2, 0]);
    expect(liveAt(RECTS, LENGTH_NS)).toEqual([0]);
  });
});

describe("a bank at a moment", () => {
  it("is free below and between buffers, also where programs are", () => {
    const bank = bankAt(MAP, RECTS, REACH, null, 300_000, LENGTH_NS);
    expect(bank.free).toEqual([
      { low: 0x1000, high: 0x1800 },
      { low: 0x1900, high: 0x1c00 },
      { low: 0x1e00, high: 0x1f00 },
    ]);
    expect(bank.largest).toEqual({ low: 0x1000, high: 0x1800 });
    expect([bank.used, bank.lowest, bank.reach]).toEqual([0x400, 0x1800, 1]);
  });

  it("has the program that reaches highest, of several at a time", () => {
    const both = mapReach(
      {
        begin: Float64Array.of(0, 0, 0),
        end: Float64Array.of(-1, -1, 10),
        top: Float64Array.of(0x1400, 0x1500, 0x1900),
        site: Uint32Array.of(0, 1, 2),
      },
      LENGTH_NS,
    );
    expect(bankAt(MAP, RECTS, both, null, 300_000, LENGTH_NS).reach).toBe(1);
  });

  it("counts all of a buffer into which a program reaches", () => {
    const clash = mapReach(
      {
        begin: Float64Array.of(0),
        end: Float64Array.of(-1),
        top: Float64Array.of(0x1880),
        site: Uint32Array.of(0),
      },
      LENGTH_NS,
    );
    const bank = bankAt(MAP, RECTS, clash, null, 300_000, LENGTH_NS);
    expect(bank.free[0]).toEqual({ low: 0x1000, high: 0x1800 });
    expect(bank.used).toBe(0x400);
  });

  it("has no empty blocks between neighbours, and counts overlapping buffers once", () => {
    const rects = mapRectangles(
      {
        begin: Float64Array.of(0, 0, 0),
        end: Float64Array.of(-1, -1, -1),
        address: Float64Array.of(0x1000, 0x1100, 0x1400),
        size: Float64Array.of(0x400, 0x100, 0x100),
        site: new Uint32Array(3),
        row: new Float64Array(3),
      },
      LENGTH_NS,
    );
    const bank = bankAt(MAP, rects, null, null, 5, LENGTH_NS);
    expect(bank.free).toEqual([{ low: 0x1500, high: 0x2000 }]);
    expect(bank.used).toBe(0x500);
  });

  it("does not count the region of L1_SMALL or of traces", () => {
    const bank = bankAt({ ...MAP, main_size: 0xd00 }, RECTS, null, null, 300_000, LENGTH_NS);
    expect(bank.free).toEqual([{ low: 0x1000, high: 0x1800 }, { low: 0x1900, high: 0x1c00 }]);
    expect(bank.used).toBe(0x300); // the buffers below 0x1d00
  });

  it("without anything is one block", () => {
    const empty = mapRectangles(
      {
        begin: new Float64Array(),
        end: new Float64Array(),
        address: new Float64Array(),
        size: new Float64Array(),
        site: new Uint32Array(),
        row: new Float64Array(),
      },
      LENGTH_NS,
    );
    const bank = bankAt(MAP, empty, null, null, 5, LENGTH_NS);
    expect(bank.largest).toEqual({ low: 0x1000, high: 0x2000 });
    expect([bank.lowest, bank.reach, bank.complete]).toEqual([null, null, true]);
  });

  it("is not complete where allocations without a rectangle were", () => {
    const coverage = Uint8Array.of(0, 0, 0, 9, 0, 0, 0, 0); // column 1, row 1
    expect(bankAt(MAP, RECTS, null, coverage, 300_000, LENGTH_NS).complete).toBe(false);
    expect(bankAt(MAP, RECTS, null, coverage, 600_000, LENGTH_NS).complete).toBe(true);
  });
});

describe("a view", () => {
  const whole = wholeView(MAP, LENGTH_NS);

  it("zooms about a place that stays where it is", () => {
    const view = zoomView(whole, whole, { ns: 250_000, address: 0x1c00 }, 2, 4);
    expect([view.from, view.until]).toEqual([125_000, 625_000]);
    expect((0x1c00 - view.low) / (view.high - view.low)).toBeCloseTo(0.75);
    expect(view.high - view.low).toBe(0x400);
  });

  it("can show used addresses only, with those that programs reach", () => {
    const early = { ...whole, until: 50_000 };
    expect(usedView(early, whole, RECTS, null)).toBeNull(); // 0x100 bytes are less than a view may have
    const part = usedView(whole, whole, RECTS, null);
    expect([part?.low, part?.high]).toEqual([0x1800 - 0.04 * 0x800, 0x2000]);
    expect(usedView(whole, whole, RECTS, REACH)).toBeNull(); // programs and buffers together need all of it
  });

  it("never leaves the recording or the bank, and never becomes empty", () => {
    expect(zoomView(whole, whole, { ns: 0, address: 0x1000 }, 0.1, 0.1)).toEqual(whole);
    const close = zoomView(whole, whole, { ns: LENGTH_NS, address: 0x2000 }, 1e12, 1e12);
    expect([close.until - close.from, close.high - close.low]).toEqual([1000, 512]);
    expect([close.until, close.high]).toEqual([LENGTH_NS, 0x2000]);
    const wider = zoomView(close, whole, { ns: close.from, address: close.low }, 0.5, 0.5);
    expect([wider.from, wider.until, wider.high]).toEqual([LENGTH_NS - 2000, LENGTH_NS, 0x2000]);
    expect(panView(close, whole, 5, 5)).toEqual(close);
    expect(panView(close, whole, -0.5, -0.5).from).toBe(close.from - 500);
  });
});

describe("axes", () => {
  it("have addresses at multiples of a power of two", () => {
    const { step, ticks } = addressTicks(0x1234, 0x9000, 8);
    expect(step).toBe(0x1000);
    expect(ticks[0]).toBe(0x2000);
    expect(ticks.length).toBeLessThanOrEqual(9);
  });

  it("have times at round numbers", () => {
    expect(timeTicks(0, 1_000_000, 5)).toEqual({
      step: 200_000,
      ticks: [0, 200_000, 400_000, 600_000, 800_000, 1e6],
    });
    expect(timeTicks(37, 99, 6).ticks).toEqual([40, 60, 80]);
  });
});
