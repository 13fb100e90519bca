// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import {
  contrast,
  css,
  diverging,
  hash,
  heat,
  inkOn,
  kindColour,
  mix,
  NameColours,
  oklch,
  parseColour,
  sequential,
} from "../src/parts/colours";
import type { Theme } from "../src/parts/theme";

const THEMES: Theme[] = ["light", "dark"];
const KINDS = ["dram", "trace", "l1", "l1_small", "cb", "dfb", "scratchpad", "kernel", "firmware", "host", "clash"];
const NAMES = Array.from({ length: 24 }, (_, i) => `ttnn.operation_${i}`);

describe("colours", () => {
  it("are made from OKLCH", () => {
    expect(oklch(1, 0, 0)).toBe(0xffffff);
    expect(oklch(0, 0, 0)).toBe(0x000000);
    expect(css(oklch(0.628, 0.2577, 29.23))).toBe("#ff0000");
  });

  it("are read as a style sheet writes them", () => {
    expect(["#fff", "#14171c", "rgb(1, 2, 3)", " #ABCDEF "].map(parseColour)).toEqual([
      0xffffff, 0x14171c, 0x010203, 0xabcdef,
    ]);
  });

  it("mix", () => {
    expect(mix(0x000000, 0xff8000, 0.5)).toBe(0x804000);
    expect(mix(0x123456, 0xffffff, 0)).toBe(0x123456);
  });

  it("carry readable text in both themes", () => {
    for (const theme of THEMES) {
      const names = new NameColours();
      const all = [
        ...KINDS.map((kind) => kindColour(kind, theme)),
        ...NAMES.map((name) => names.of(name, theme)),
        ...[0, 0.25, 0.5, 0.75, 1].flatMap((part) => [heat(part, theme), diverging(2 * part - 1, theme)]),
      ];
      for (const colour of all) expect(contrast(colour, inkOn(colour)), `${theme} ${css(colour)}`).toBeGreaterThan(4.4);
    }
  });
});

describe("names", () => {
  it("have a colour that depends on the name alone, as long as it is free", () => {
    expect(new NameColours().of("ttnn.add", "light")).toBe(new NameColours().of("ttnn.add", "light"));
    expect(hash("ttnn.add")).toBe(hash("ttnn.add"));
    expect(hash("ttnn.add")).not.toBe(hash("ttnn.mul"));
  });

  it("have different colours up to 24, and still one after that", () => {
    const names = new NameColours();
    const colours = NAMES.map((name) => names.of(name, "light"));
    expect(new Set(colours).size).toBe(24);
    expect(names.of("one more", "light")).toBeGreaterThan(0);
    expect(names.of(NAMES[5], "light")).toBe(colours[5]);
  });

  it("that are fixed have the same colours in any order of drawing, and leave those of others alone", () => {
    const drawn = (order: string[]) => {
      const names = new NameColours();
      names.fix(NAMES);
      const colours = new Map(order.map((name) => [name, names.of(name, "light")]));
      return [...NAMES, "a program", "another"].map((name) => colours.get(name));
    };
    const all = [...NAMES, "a program", "another"];
    expect(drawn([...all].reverse())).toEqual(drawn(all));
    expect(new Set(drawn(all).slice(0, 24)).size).toBe(24);
  });

  it("that come first are far from each other", () => {
    const names = new NameColours();
    const first = NAMES.slice(0, 4).map((name) => names.of(name, "light"));
    for (const one of first) for (const two of first) if (one !== two) expect(distance(one, two)).toBeGreaterThan(40);
  });
});

describe("scales", () => {
  it("are clipped at their ends", () => {
    for (const theme of THEMES) {
      expect(heat(7, theme)).toBe(heat(1, theme));
      expect(sequential(-1, theme)).toBe(sequential(0, theme));
      expect(diverging(-5, theme)).toBe(diverging(-1, theme));
    }
  });

  it("of a change show growth and decrease differently, and nothing as neutral", () => {
    expect(diverging(1, "light") >> 16).toBeGreaterThan(diverging(1, "light") & 255);
    expect(diverging(-1, "light") >> 16).toBeLessThan(diverging(-1, "light") & 255);
    expect(distance(diverging(0, "light"), 0xeeeeee)).toBeLessThan(24);
  });
});

function distance(one: number, two: number): number {
  const part = (colour: number, shift: number) => (colour >> shift) & 255;
  return Math.hypot(...[16, 8, 0].map((shift) => part(one, shift) - part(two, shift)));
}
