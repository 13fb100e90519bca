// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { chosenPart, viewAfterKey } from "../src/parts/map_gestures";
import { placeAt, plotOf, xOf, yOf } from "../src/parts/map_paint";

const WHOLE = { from: 0, until: 1e9, low: 0, high: 1 << 20 };
const PART = { from: 4e8, until: 6e8, low: 0x40000, high: 0x80000 };
const MIDDLE = { ns: 5e8, address: 0x60000 };

describe("keys", () => {
  it("move by a tenth of the view", () => {
    expect(viewAfterKey("ArrowRight", PART, WHOLE, MIDDLE)).toEqual({ ...PART, from: 4.2e8, until: 6.2e8 });
    expect(viewAfterKey("ArrowUp", PART, WHOLE, MIDDLE)?.low).toBeCloseTo(0x40000 + 0x4000 * 1.6);
  });

  it("zoom in time or in addresses, and back to everything", () => {
    const closer = viewAfterKey("+", PART, WHOLE, MIDDLE);
    expect(closer).toMatchObject({ low: PART.low, high: PART.high });
    expect((closer?.until ?? 0) - (closer?.from ?? 0)).toBeCloseTo(2e8 / 1.5);
    expect(viewAfterKey("*", PART, WHOLE, MIDDLE)).toMatchObject({ from: PART.from, until: PART.until });
    expect(viewAfterKey("0", PART, WHOLE, MIDDLE)).toBe(WHOLE);
  });

  it("of other kinds do not move the map", () => {
    expect(viewAfterKey("Enter", PART, WHOLE, MIDDLE)).toBeNull();
  });
});

describe("a part that is chosen with the pointer", () => {
  it("is the same from all corners", () => {
    const [one, two] = [
      { ns: 1e8, address: 0x20000 },
      { ns: 3e8, address: 0x10000 },
    ];
    const part = { from: 1e8, until: 3e8, low: 0x10000, high: 0x20000 };
    expect(chosenPart(one, two, WHOLE)).toEqual(part);
    expect(chosenPart(two, one, WHOLE)).toEqual(part);
  });
});

describe("places", () => {
  it("of times and addresses are found back", () => {
    const plot = plotOf(1000, 300, true);
    const place = placeAt(PART, plot, xOf(PART, plot, 4.5e8), yOf(PART, plot, 0x50000));
    expect(place.ns).toBeCloseTo(4.5e8, 0);
    expect(place.address).toBeCloseTo(0x50000, 3);
    expect(yOf(PART, plot, PART.high)).toBe(plot.top);
  });
});
