// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { mapReach, mapRectangles } from "../src/parts/map_layout";
import { drawMap, opaque, reachColumns } from "../src/parts/map_raster";

const VIEW = { from: 0, until: 100, low: 0, high: 100 };
const WHITE = 0xffffff;

/** Each rectangle is begin, end, address, size. */
function rectangles(...all: [number, number, number, number][]) {
  const column = (at: number) => Float64Array.from(all, (one) => one[at]);
  return mapRectangles(
    {
      begin: column(0),
      end: column(1),
      address: column(2),
      size: column(3),
      site: new Uint32Array(all.length),
      row: new Float64Array(all.length),
    },
    100,
  );
}

function drawn(rects: ReturnType<typeof rectangles>, size = 100, view = VIEW, colours?: number[]): Uint32Array {
  const pixels = new Uint32Array(size * size);
  drawMap(pixels, size, size, {
    rects,
    colours: Uint32Array.from(colours ?? new Array(rects.count).fill(0xff0000)),
    view,
    background: WHITE,
    coverage: null,
  });
  return pixels;
}

const red = (pixel: number) => pixel & 255;
const green = (pixel: number) => (pixel >> 8) & 255;

describe("the picture of a map", () => {
  it("has a rectangle where its times and addresses are, with address 0 at the bottom", () => {
    const pixels = drawn(rectangles([10, 20, 0, 10]));
    const at = (x: number, y: number) => pixels[y * 100 + x];
    expect(at(15, 95)).toBe(opaque(0xff0000));
    expect(at(15, 89)).toBe(opaque(WHITE));
    expect(at(9, 95)).toBe(opaque(WHITE));
    expect(at(20, 95)).toBe(opaque(WHITE));
    expect(at(10, 95)).not.toBe(opaque(0xff0000)); // its edge is darker
  });

  it("shows only what is in view", () => {
    const pixels = drawn(rectangles([0, 100, 0, 50], [0, 10, 50, 50]), 50, {
      from: 50,
      until: 100,
      low: 0,
      high: 50,
    });
    expect(new Set(pixels.slice(0, 49 * 50).filter((_, i) => i % 50 !== 0))).toEqual(new Set([opaque(0xff0000)]));
  });

  it("shows a life that is shorter than a pixel paler than one that fills it, and never as free", () => {
    const pixels = drawn(rectangles([10.2, 10.3, 0, 50], [20.1, 20.9, 0, 50]));
    const [thin, wide] = [pixels[80 * 100 + 10], pixels[80 * 100 + 20]];
    expect(green(thin)).toBeGreaterThan(green(wide));
    expect(green(thin)).toBeLessThan(210);
    expect(pixels[80 * 100 + 11]).toBe(opaque(WHITE));
  });

  it("shows no gap between neighbours that meet inside a row, with a thin one between them", () => {
    const pixels = drawn(rectangles([0, 100, 0, 30.4], [0, 100, 30.4, 0.3], [0, 100, 30.7, 69.3]));
    for (let y = 0; y < 100; y++) expect(green(pixels[y * 100 + 50]), `row ${y}`).toBeLessThan(10);
  });

  it("shades a row that is covered in part", () => {
    const pixels = drawn(rectangles([0, 100, 0, 30.5]));
    expect(green(pixels[69 * 100 + 50])).toBeGreaterThan(100);
    expect(green(pixels[69 * 100 + 50])).toBeLessThan(150);
    expect(pixels[68 * 100 + 50]).toBe(opaque(WHITE));
  });

  it("starts a new run where the colour changes within a line", () => {
    const pixels = drawn(rectangles([0, 50, 10, 0.5], [50, 100, 10, 0.9]), 100, VIEW, [0xff0000, 0x0000ff]);
    const [left, right] = [pixels[89 * 100 + 20], pixels[89 * 100 + 70]];
    expect(red(left)).toBe(255);
    expect(red(right)).toBeLessThan(60);
    expect((right >> 16) & 255).toBe(255);
  });

  it("adds thin rectangles up, with their mean colour", () => {
    const many = Array.from({ length: 10 }, (_, i): [number, number, number, number] => [0, 100, 10 + i / 10, 0.1]);
    const pixels = drawn(
      rectangles(...many),
      100,
      VIEW,
      many.map((_, i) => (i % 2 ? 0xff0000 : 0x0000ff)),
    );
    const pixel = pixels[89 * 100 + 50];
    expect(green(pixel)).toBeLessThan(30); // filled
    expect(Math.abs(red(pixel) - ((pixel >> 16) & 255))).toBeLessThan(60); // half red, half blue
  });

  it("keeps thin rectangles at the edges inside the picture", () => {
    expect(() => drawn(rectangles([99.99, 100, 0, 100], [0, 100, 99.999, 0.001], [0, 0, 0, 0.001]))).not.toThrow();
  });

  it("shows what allocations without a rectangle cover", () => {
    const pixels = new Uint32Array(100 * 100);
    drawMap(pixels, 100, 100, {
      rects: rectangles(),
      colours: new Uint32Array(),
      view: VIEW,
      background: WHITE,
      coverage: { used: Uint8Array.of(255, 0, 0, 1), columns: 2, rows: 2, whole: VIEW, colour: 0x000000 },
    });
    expect(pixels[75 * 100 + 25]).toBe(opaque(0x000000)); // first column, lower row
    expect(pixels[25 * 100 + 25]).toBe(opaque(WHITE));
    expect(red(pixels[25 * 100 + 75])).toBeLessThan(210); // hardly used, but visible
  });
});

describe("what programs reach", () => {
  it("is the highest address in each column", () => {
    const reach = mapReach(
      {
        begin: Float64Array.of(0, 40.5, 40.7),
        end: Float64Array.of(50, 40.6, 40.8),
        top: Float64Array.of(30, 60, 20),
        site: Uint32Array.of(0, 1, 2),
      },
      100,
    );
    const tops = reachColumns(reach, VIEW, 100);
    expect([tops[0], tops[40], tops[41], tops[49]]).toEqual([30, 60, 30, 30]);
    expect(tops[50]).toBeNaN();
  });
});
