// SPDX-License-Identifier: Apache-2.0
/** Draws the boxes of a flame graph on a canvas. */
import type { PageColours } from "./canvas";
import { TextFitter } from "./canvas";
import type { Colour } from "./colours";
import { css, diverging, fileColours, hash, inkOn, mix, opColours, parseColour } from "./colours";
import type { FlameBoxes, FlameSums, FlameTree } from "./flame_layout";
import { FlameType } from "./flame_layout";
import { fileOf, frameLabel } from "./flame_search";

export const ROW_PIXELS = 19;
const TEXT_PIXELS = 24; // narrower boxes have no text
const FONT_PIXELS = 11.5;

export type FlameColouring = "op" | "file" | "change";

/** What is drawn; boxes and sums belong to the tree. */
export interface FlamePicture {
  tree: FlameTree;
  sums: FlameSums;
  boxes: FlameBoxes;
  ops: Int32Array; // name of the operation that has most of each node
  focus: number; // node that is zoomed to
  hit: Uint8Array | null; // nodes of a search
  colouring: FlameColouring;
  brief: (value: number) => string; // writes the sum of a box
}

/** The colour of a node. Frames are paler than operations, so that the operations stand out. */
export function nodeColour(picture: FlamePicture, node: number, colours: PageColours): Colour {
  const { tree, sums, ops, colouring } = picture;
  const panel = parseColour(colours.panel);
  const neutral = mix(panel, parseColour(colours.soft), 0.22);
  const type = tree.type[node] as FlameType;
  if (colouring === "change") {
    return sums.weight[node] > 0 ? diverging(sums.net[node] / sums.weight[node], colours.theme) : neutral;
  }
  if (type === FlameType.Root || type === FlameType.Rest) return neutral;
  const name = tree.names[tree.name[node]];
  if (colouring === "file") {
    if (type === FlameType.Ttnn) return mix(panel, parseColour(colours.soft), 0.32);
    if (type !== FlameType.Frame) return neutral;
    const base = fileColours.of(fileOf(name), colours.theme);
    return mix(base, panel, (hash(name) % 5) * 0.07); // frames of one file differ a little
  }
  if (ops[node] < 0) return neutral;
  const base = opColours.of(tree.names[ops[node]], colours.theme);
  return type === FlameType.Op || type === FlameType.Detail ? base : mix(base, panel, 0.38);
}

let fitter: { font: string; texts: TextFitter } | null = null;

export function paintFlame(context: CanvasRenderingContext2D, picture: FlamePicture, colours: PageColours): void {
  const { tree, boxes, hit, focus } = picture;
  const font = `${FONT_PIXELS}px ${colours.sans}`;
  context.font = font;
  context.textBaseline = "middle";
  if (fitter?.font !== font) fitter = { font, texts: new TextFitter((text) => context.measureText(text).width) };
  const panel = parseColour(colours.panel);
  const narrow = css(mix(panel, parseColour(colours.soft), 0.3));
  const memory = new Map<number, Colour>();
  const focusDepth = tree.depth[focus];
  for (let box = 0; box < boxes.count; box++) {
    const node = boxes.node[box];
    const x = boxes.x[box];
    const y = boxes.row[box] * ROW_PIXELS;
    const gap = boxes.width[box] > 3 ? 1 : boxes.width[box] > 1.5 ? 0.5 : 0;
    const width = boxes.width[box] - gap;
    if (boxes.merged[box] > 0) {
      context.fillStyle = narrow;
      context.fillRect(x, y, width, ROW_PIXELS - 1);
      continue;
    }
    let colour = memory.get(node);
    if (colour === undefined) memory.set(node, (colour = nodeColour(picture, node, colours)));
    const above = boxes.row[box] < focusDepth; // callers of the frame that is zoomed to
    const dim = hit !== null && !hit[node];
    if (above || dim) colour = mix(colour, panel, dim ? 0.75 : 0.55);
    context.fillStyle = css(colour);
    context.fillRect(x, y, width, ROW_PIXELS - 1);
    if (hit?.[node]) {
      context.fillStyle = colours.accent;
      context.fillRect(x, y + ROW_PIXELS - 3, width, 2);
    }
    if (width < TEXT_PIXELS) continue;
    const label = frameLabel(tree.names[tree.name[node]], tree.type[node]);
    const shown = fitter.texts.fit(label, width - 8);
    if (shown === "") continue;
    const ink = above || dim ? colours.soft : css(inkOn(colour));
    const middle = y + (ROW_PIXELS - 1) / 2 + 0.5;
    context.fillStyle = ink;
    context.fillText(shown, x + 4, middle);
    if (shown !== label) continue;
    const sum = picture.brief(picture.sums.net[node]);
    const place = width - fitter.texts.width(sum) - 6;
    if (place < fitter.texts.width(label) + 24) continue;
    context.globalAlpha = 0.65;
    context.fillText(sum, x + place, middle);
    context.globalAlpha = 1;
  }
}

/** A frame around a box: the focus of the keyboard, or the pointer. */
export function outlineBox(context: CanvasRenderingContext2D, boxes: FlameBoxes, box: number, colour: string): void {
  context.strokeStyle = colour;
  context.lineWidth = 1.5;
  const width = Math.max(2, boxes.width[box] - 1);
  context.strokeRect(boxes.x[box] + 0.75, boxes.row[box] * ROW_PIXELS + 0.75, width - 0.5, ROW_PIXELS - 2.5);
}
