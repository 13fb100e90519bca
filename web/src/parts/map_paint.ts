// SPDX-License-Identifier: Apache-2.0
/** Paints an address map: the picture of the rectangles, programs, axes, and what is chosen. */
import type { CanvasSize, PageColours } from "./canvas";
import { css, kindColour, mix, parseColour } from "./colours";
import { address, moment } from "./format";
import type { MapReach, MapRectangles, MapView } from "./map_layout";
import { addressTicks, timeTicks } from "./map_layout";
import type { RasterInput } from "./map_raster";
import { drawMap, reachColumns } from "./map_raster";

/** The plot inside a canvas, in CSS pixels. */
export interface Plot {
  left: number;
  top: number;
  width: number;
  height: number;
}

/** A failed allocation. With addresses, it is where two things would have been at the same place. */
export interface MapClash {
  time_ns: number;
  low: number | null;
  high: number | null;
  text: string;
}

const LEFT_PIXELS = 84;
const BOTTOM_PIXELS = 24;
const TOP_PIXELS = 6;
export const BANK_PIXELS = 128; // the bank at the moment, right of the plot
const HATCH_PIXELS = 6;

export function plotOf(width: number, height: number, withBank: boolean): Plot {
  const right = withBank ? BANK_PIXELS : 10;
  return {
    left: LEFT_PIXELS,
    top: TOP_PIXELS,
    width: Math.max(10, width - LEFT_PIXELS - right),
    height: Math.max(10, height - TOP_PIXELS - BOTTOM_PIXELS),
  };
}

export function xOf(view: MapView, plot: Plot, ns: number): number {
  return plot.left + ((ns - view.from) / (view.until - view.from)) * plot.width;
}

export function yOf(view: MapView, plot: Plot, at: number): number {
  return plot.top + ((view.high - at) / (view.high - view.low)) * plot.height;
}

/** The time and address at a place of the canvas. */
export function placeAt(view: MapView, plot: Plot, x: number, y: number): { ns: number; address: number } {
  return {
    ns: view.from + ((x - plot.left) / plot.width) * (view.until - view.from),
    address: view.high - ((y - plot.top) / plot.height) * (view.high - view.low),
  };
}

export function paintMap(
  context: CanvasRenderingContext2D,
  size: CanvasSize,
  plot: Plot,
  input: RasterInput,
  reach: MapReach | null,
  colours: PageColours,
): void {
  const width = Math.round(plot.width * size.ratio);
  const height = Math.round(plot.height * size.ratio);
  const image = context.createImageData(width, height);
  drawMap(new Uint32Array(image.data.buffer), width, height, input);
  context.putImageData(image, Math.round(plot.left * size.ratio), Math.round(plot.top * size.ratio));
  if (reach) paintReach(context, plot, input.view, reach, colours);
  paintAxes(context, plot, input.view, colours);
}

function paintReach(
  context: CanvasRenderingContext2D,
  plot: Plot,
  view: MapView,
  reach: MapReach,
  colours: PageColours,
): void {
  const tops = reachColumns(reach, view, Math.ceil(plot.width));
  context.save();
  context.beginPath();
  context.rect(plot.left, plot.top, plot.width, plot.height);
  context.clip();
  const line = new Path2D();
  const bottom = plot.top + plot.height;
  context.fillStyle = hatch(context, colours);
  for (let x = 0; x < tops.length;) {
    let end = x + 1;
    while (end < tops.length && (tops[end] === tops[x] || (Number.isNaN(tops[end]) && Number.isNaN(tops[x])))) end++;
    if (!Number.isNaN(tops[x])) {
      const y = yOf(view, plot, tops[x]);
      context.fillRect(plot.left + x, y, end - x, bottom - y);
      line.moveTo(plot.left + x, y);
      line.lineTo(plot.left + end, y);
    }
    x = end;
  }
  context.strokeStyle = css(mix(kindColour("kernel", colours.theme), parseColour(colours.text), 0.15));
  context.lineWidth = 1.5;
  context.stroke(line);
  context.restore();
}

/** Stripes for programs: they are no buffers, and take turns. The legend has the same in the style sheet. */
export function hatch(context: CanvasRenderingContext2D, colours: PageColours): CanvasPattern | string {
  const colour = kindColour("kernel", colours.theme);
  const tile = document.createElement("canvas");
  const ratio = Math.max(1, Math.round(context.getTransform().a));
  tile.width = tile.height = HATCH_PIXELS * ratio;
  const pen = tile.getContext("2d");
  if (!pen) return css(colour);
  pen.scale(ratio, ratio);
  pen.fillStyle = css(mix(parseColour(colours.panel), colour, 0.16));
  pen.fillRect(0, 0, HATCH_PIXELS, HATCH_PIXELS);
  pen.strokeStyle = css(mix(parseColour(colours.panel), colour, 0.5));
  pen.lineWidth = 1;
  pen.beginPath();
  for (const shift of [-HATCH_PIXELS, 0, HATCH_PIXELS]) {
    pen.moveTo(shift - 1, HATCH_PIXELS + 1);
    pen.lineTo(shift + HATCH_PIXELS + 1, -1);
  }
  pen.stroke();
  const pattern = context.createPattern(tile, "repeat");
  pattern?.setTransform(new DOMMatrix().scale(1 / ratio));
  return pattern ?? css(colour);
}

function paintAxes(context: CanvasRenderingContext2D, plot: Plot, view: MapView, colours: PageColours): void {
  context.font = `11px ${colours.sans}`;
  context.lineWidth = 1;
  const bottom = plot.top + plot.height;
  const places = addressTicks(view.low, view.high, plot.height / 34);
  context.textAlign = "right";
  context.textBaseline = "middle";
  for (const at of places.ticks) {
    const y = yOf(view, plot, at);
    context.fillStyle = colours.soft;
    const label = Math.min(bottom - 5, Math.max(plot.top + 5, y));
    context.fillText(address(at), plot.left - 8, label);
    tick(context, plot.left - 4, y, plot.left, y, colours.strong);
    context.globalAlpha = 0.35;
    tick(context, plot.left, y, plot.left + plot.width, y, colours.faint);
    context.globalAlpha = 1;
  }
  context.textBaseline = "alphabetic";
  const times = timeTicks(view.from, view.until, plot.width / 110);
  for (const ns of times.ticks) {
    const x = xOf(view, plot, ns);
    const text = moment(ns, times.step);
    const half = context.measureText(text).width / 2;
    context.fillStyle = colours.soft;
    context.textAlign = "center";
    context.fillText(text, Math.min(plot.left + plot.width - half, Math.max(plot.left + half, x)), bottom + 16);
    tick(context, x, bottom, x, bottom + 4, colours.strong);
  }
  context.strokeStyle = colours.strong;
  context.strokeRect(plot.left - 0.5, plot.top - 0.5, plot.width + 1, plot.height + 1);
}

function tick(context: CanvasRenderingContext2D, x1: number, y1: number, x2: number, y2: number, colour: string): void {
  context.strokeStyle = colour;
  context.beginPath();
  context.moveTo(Math.round(x1 - 0.5) + 0.5, Math.round(y1 - 0.5) + 0.5);
  context.lineTo(Math.round(x2 - 0.5) + 0.5, Math.round(y2 - 0.5) + 0.5);
  context.stroke();
}

/** What is chosen or pointed at, drawn over the map. */
export interface MapMarks {
  view: MapView;
  momentNs: number | null;
  window: readonly [number, number] | null;
  clashes: readonly MapClash[];
  rects: MapRectangles;
  hovered: number; // index of a rectangle, or -1
  selected: number;
  frame: readonly [number, number, number, number] | null; // x, y, x, y of a part that is being chosen
}

export function paintMarks(context: CanvasRenderingContext2D, plot: Plot, marks: MapMarks, colours: PageColours): void {
  const { view, window, momentNs, rects } = marks;
  context.save();
  context.beginPath();
  context.rect(plot.left, plot.top, plot.width, plot.height);
  context.clip();
  const bottom = plot.top + plot.height;
  if (window) {
    const [from, until] = [xOf(view, plot, window[0]), xOf(view, plot, window[1])];
    context.globalAlpha = 0.13;
    context.fillStyle = colours.accent;
    context.fillRect(from, plot.top, until - from, plot.height);
    context.globalAlpha = 1;
    for (const x of [from, until]) tick(context, x, plot.top, x, bottom, colours.accent);
  }
  for (const clash of marks.clashes) paintClash(context, plot, view, clash, colours);
  if (momentNs !== null) {
    const x = xOf(view, plot, momentNs);
    context.lineWidth = 3;
    tick(context, x, plot.top, x, bottom, colours.panel);
    context.lineWidth = 1;
    tick(context, x, plot.top, x, bottom, colours.accent);
  }
  for (const [index, colour, width] of [
    [marks.hovered, colours.text, 1.25],
    [marks.selected, colours.accent, 2.5],
  ] as const) {
    if (index < 0) continue;
    const left = xOf(view, plot, rects.begin[index]);
    const top = yOf(view, plot, rects.address[index] + rects.size[index]);
    const wide = Math.max(3, xOf(view, plot, rects.end[index]) - left);
    const high = Math.max(3, yOf(view, plot, rects.address[index]) - top);
    context.strokeStyle = colour;
    context.lineWidth = width;
    context.strokeRect(left - 0.5, top - 0.5, wide + 1, high + 1);
  }
  if (marks.frame) {
    const [x1, y1, x2, y2] = marks.frame;
    context.strokeStyle = colours.accent;
    context.lineWidth = 1;
    context.setLineDash([4, 3]);
    context.strokeRect(x1, y1, x2 - x1, y2 - y1);
  }
  context.restore();
}

function paintClash(
  context: CanvasRenderingContext2D,
  plot: Plot,
  view: MapView,
  clash: MapClash,
  colours: PageColours,
): void {
  const x = xOf(view, plot, clash.time_ns);
  context.setLineDash([5, 3]);
  context.lineWidth = 1;
  tick(context, x, plot.top, x, plot.top + plot.height, colours.bad);
  context.setLineDash([]);
  context.fillStyle = colours.bad;
  context.beginPath();
  context.moveTo(x - 5, plot.top);
  context.lineTo(x + 5, plot.top);
  context.lineTo(x, plot.top + 8);
  context.fill();
  if (clash.low === null || clash.high === null) return;
  const top = yOf(view, plot, clash.high);
  const high = Math.max(3, yOf(view, plot, clash.low) - top);
  context.globalAlpha = 0.85;
  context.fillRect(x - 7, top, 14, high);
  context.globalAlpha = 1;
  context.strokeStyle = colours.panel;
  context.strokeRect(x - 7.5, top - 0.5, 15, high + 1);
}
