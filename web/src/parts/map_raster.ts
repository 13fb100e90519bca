// SPDX-License-Identifier: Apache-2.0
/**
 * Draws the rectangles of an address map into pixels. Canvas calls would take too long for 40,000 of them.
 *
 * Lives of buffers do not overlap, so filling costs about as many steps as there are pixels. A rectangle that is
 * thinner than a pixel does not fill it: what such rectangles cover is added up in differences along their long side,
 * a few steps for each rectangle, and blended into the pixels once for each line. The same is done for rows that a
 * rectangle covers in part, so that neighbours together fill the row between them.
 */
import type { Colour } from "./colours";
import { mix } from "./colours";
import type { MapReach, MapRectangles, MapView } from "./map_layout";

export interface RasterInput {
  rects: MapRectangles;
  colours: Uint32Array; // of each rectangle
  view: MapView;
  background: Colour;
  /** What allocations without a rectangle cover, 0 to 255 in cells, column by column from the lowest address. */
  coverage: { used: Uint8Array; columns: number; rows: number; whole: MapView; colour: Colour } | null;
}

const LEAST_ALPHA = 0.22; // something that is used never looks free
const SNAP = 0.02; // parts of a row that are not worth a shade
const EDGE = 0.22; // how much darker the edges of rectangles are

/** Fills `pixels`, a picture of RGBA values of that width and height, top row first. */
export function drawMap(pixels: Uint32Array, width: number, height: number, input: RasterInput): void {
  const { rects, colours, view, background } = input;
  pixels.fill(opaque(background));
  if (input.coverage) drawCoverage(pixels, width, height, view, background, input.coverage);
  const scaleX = width / (view.until - view.from);
  const scaleY = height / (view.high - view.low);
  const rows = new Thin(height, width, 2 * rects.count);
  const columns = new Thin(width, height, rects.count);
  const { begin, end, address, size } = rects;
  for (let i = 0; i < rects.count; i++) {
    if (end[i] < view.from || begin[i] > view.until) continue;
    const low = address[i];
    if (low >= view.high || low + size[i] <= view.low) continue;
    const left = Math.max(0, (begin[i] - view.from) * scaleX);
    const right = Math.min(width, (end[i] - view.from) * scaleX);
    const top = Math.max(0, (view.high - low - size[i]) * scaleY);
    const bottom = Math.min(height, (view.high - low) * scaleY);
    if (bottom - top < 1) rows.add(top, left, right, bottom - top, colours[i]);
    else if (right - left < 1) columns.add(left, top, bottom, right - left, colours[i]);
    else {
      const [from, until] = [Math.round(left), Math.round(right)];
      const [first, last] = [Math.ceil(top - SNAP), Math.floor(bottom + SNAP)]; // rows that are filled
      if (last > first) fill(pixels, width, from, until, first, last, colours[i]);
      if (first - top > SNAP) rows.add(top, from, until, first - top, colours[i]);
      if (bottom - last > SNAP) rows.add(last, from, until, bottom - last, colours[i]);
    }
  }
  rows.blend(pixels, width, 1);
  columns.blend(pixels, 1, width);
}

function fill(pixels: Uint32Array, width: number, left: number, right: number, top: number, bottom: number, c: Colour) {
  const colour = opaque(c);
  const edged = right - left > 3 && bottom - top > 3;
  const edge = edged ? opaque(mix(c, 0x000000, EDGE)) : colour;
  for (let y = top; y < bottom; y++) {
    const start = y * width + left;
    pixels.fill(edged && y === bottom - 1 ? edge : colour, start, y * width + right);
    if (edged) pixels[start] = edge;
  }
}

/** Rectangles that are thinner than a pixel, in lines of pixels: rows or columns of the picture. */
class Thin {
  private count = 0;
  private readonly line: Int32Array;
  private readonly from: Int32Array;
  private readonly until: Int32Array;
  private readonly part: Float64Array;
  private readonly colour: Uint32Array;

  constructor(
    private readonly lines: number,
    private readonly length: number,
    capacity: number,
  ) {
    this.line = new Int32Array(capacity);
    this.from = new Int32Array(capacity);
    this.until = new Int32Array(capacity);
    this.part = new Float64Array(capacity);
    this.colour = new Uint32Array(capacity);
  }

  add(place: number, from: number, until: number, part: number, colour: Colour): void {
    const i = this.count++;
    const first = Math.min(this.length - 1, Math.floor(from));
    this.line[i] = Math.min(this.lines - 1, Math.floor(place));
    this.from[i] = first;
    this.until[i] = Math.min(this.length, Math.max(first + 1, Math.round(until)));
    this.part[i] = Math.max(part, 1e-4) * Math.min(1, Math.max(until - from, 1e-2));
    this.colour[i] = colour;
  }

  /** Blends what was added into a picture: pixel p of a line is at `line * lineStep + p * step`. */
  blend(pixels: Uint32Array, lineStep: number, step: number): void {
    const count = this.count;
    if (count === 0) return;
    const starts = new Uint32Array(this.lines + 1);
    for (let i = 0; i < count; i++) starts[this.line[i] + 1]++;
    for (let line = 0; line < this.lines; line++) starts[line + 1] += starts[line];
    const next = starts.slice();
    const order = new Uint32Array(count);
    for (let i = 0; i < count; i++) order[next[this.line[i]]++] = i;
    const sums = new Float64Array(4 * (this.length + 1)); // part, and red, green, blue times part
    for (let line = 0; line < this.lines; line++) {
      if (starts[line] === starts[line + 1]) continue;
      let first = this.length;
      let last = 0;
      for (let at = starts[line]; at < starts[line + 1]; at++) {
        const i = order[at];
        first = Math.min(first, this.from[i]);
        last = Math.max(last, this.until[i]);
        change(sums, this.from[i], this.part[i], this.colour[i]);
        change(sums, this.until[i], -this.part[i], this.colour[i]);
      }
      let [part, red, green, blue] = [0, 0, 0, 0];
      let below = -1; // a pixel, and what it became: most neighbours are alike
      let blended = 0;
      for (let p = first, at = line * lineStep + first * step; p < last; p++, at += step) {
        const sum = 4 * p;
        if (sums[sum] !== 0 || sums[sum + 1] !== 0 || sums[sum + 2] !== 0 || sums[sum + 3] !== 0) {
          part += sums[sum];
          red += sums[sum + 1];
          green += sums[sum + 2];
          blue += sums[sum + 3];
          below = -1;
        }
        if (part <= 1e-9) continue;
        if (pixels[at] !== below) {
          below = pixels[at];
          blended = over(below, red / part, green / part, blue / part, Math.min(1, Math.max(LEAST_ALPHA, part)));
        }
        pixels[at] = blended;
      }
      sums.fill(0, 4 * first, 4 * (last + 1));
    }
  }
}

function change(sums: Float64Array, at: number, part: number, colour: Colour): void {
  sums[4 * at] += part;
  sums[4 * at + 1] += part * (colour >> 16);
  sums[4 * at + 2] += part * ((colour >> 8) & 255);
  sums[4 * at + 3] += part * (colour & 255);
}

/** A pixel of a picture (blue, green, red from the top byte down) under a colour. */
function over(pixel: number, red: number, green: number, blue: number, alpha: number): number {
  const rest = 1 - alpha;
  const r = Math.min(255, Math.max(0, (pixel & 255) * rest + red * alpha)) | 0;
  const g = Math.min(255, Math.max(0, ((pixel >> 8) & 255) * rest + green * alpha)) | 0;
  const b = Math.min(255, Math.max(0, ((pixel >> 16) & 255) * rest + blue * alpha)) | 0;
  return (0xff000000 | (b << 16) | (g << 8) | r) >>> 0;
}

/** A colour as a pixel of a picture, on a machine with the low byte first. */
export function opaque(colour: Colour): number {
  return (0xff000000 | ((colour & 255) << 16) | (colour & 0xff00) | (colour >> 16)) >>> 0;
}

function drawCoverage(
  pixels: Uint32Array,
  width: number,
  height: number,
  view: MapView,
  background: Colour,
  coverage: NonNullable<RasterInput["coverage"]>,
): void {
  const { used, columns, rows, whole, colour } = coverage;
  const shades = Uint32Array.from({ length: 256 }, (_, part) =>
    opaque(part === 0 ? background : mix(background, colour, Math.max(LEAST_ALPHA, part / 255))),
  );
  const columnOf = new Uint32Array(width);
  for (let x = 0; x < width; x++) {
    const ns = view.from + ((x + 0.5) / width) * (view.until - view.from);
    columnOf[x] = rows * cell((ns - whole.from) / (whole.until - whole.from), columns);
  }
  for (let y = 0; y < height; y++) {
    const address = view.high - ((y + 0.5) / height) * (view.high - view.low);
    const row = cell((address - whole.low) / (whole.high - whole.low), rows);
    const start = y * width;
    for (let x = 0; x < width; x++) pixels[start + x] = shades[used[columnOf[x] + row]];
  }
}

function cell(part: number, count: number): number {
  return Math.min(count - 1, Math.max(0, Math.floor(part * count)));
}

/** The highest address that programs reach in each column of pixels; NaN where there is none. */
export function reachColumns(reach: MapReach, view: MapView, width: number): Float64Array {
  const tops = new Float64Array(width).fill(NaN);
  const scale = width / (view.until - view.from);
  for (let i = 0; i < reach.count; i++) {
    if (reach.end[i] < view.from || reach.begin[i] > view.until) continue;
    const first = Math.max(0, Math.floor((reach.begin[i] - view.from) * scale));
    const last = Math.min(width, Math.max(first + 1, Math.ceil((reach.end[i] - view.from) * scale)));
    for (let x = first; x < last; x++) if (!(tops[x] >= reach.top[i])) tops[x] = reach.top[i];
  }
  return tops;
}
