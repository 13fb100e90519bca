// SPDX-License-Identifier: Apache-2.0
/** What the flame graph finds: frames by a text, neighbours by a key, and words for a frame. */
import type { FlameBoxes, FlameTree } from "./flame_layout";
import { FlameType } from "./flame_layout";

export interface FlameFound {
  hit: Uint8Array; // 1 for each node whose name has the text
  frames: number;
  sum: number; // of the outermost hits, so nothing counts twice
}

/** Frames whose name contains a text, without regard to case. */
export function searchFlame(tree: FlameTree, net: Float64Array, text: string): FlameFound {
  const wanted = text.trim().toLowerCase();
  const names = tree.names.map((name) => wanted !== "" && name.toLowerCase().includes(wanted));
  const hit = new Uint8Array(tree.count);
  const inside = new Uint8Array(tree.count);
  let frames = 0;
  let sum = 0;
  for (let node = 1; node < tree.count; node++) {
    const above = inside[tree.parent[node]];
    if (names[tree.name[node]]) {
      hit[node] = 1;
      frames++;
      if (!above) sum += net[node];
    }
    inside[node] = above | hit[node];
  }
  return { hit, frames, sum };
}

export type FlameKey = "ArrowUp" | "ArrowDown" | "ArrowLeft" | "ArrowRight" | "Home" | "End";

/** The box that a key leads to from a box: up to the caller, down to the widest callee, or sideways in the row. */
export function neighbour(boxes: FlameBoxes, tree: FlameTree, from: number, key: FlameKey): number {
  const row = boxes.row[from];
  let best = from;
  for (let box = 0; box < boxes.count; box++) {
    if (boxes.merged[box] > 0) continue;
    const x = boxes.x[box];
    switch (key) {
      case "ArrowUp":
        if (boxes.node[box] === tree.parent[boxes.node[from]]) return box;
        break;
      case "ArrowDown":
        if (tree.parent[boxes.node[box]] === boxes.node[from] && boxes.row[box] === row + 1) {
          if (best === from || boxes.width[box] > boxes.width[best]) best = box;
        }
        break;
      case "ArrowLeft":
        if (boxes.row[box] === row && x < boxes.x[from] && (best === from || x > boxes.x[best])) best = box;
        break;
      case "ArrowRight":
        if (boxes.row[box] === row && x > boxes.x[from] && (best === from || x < boxes.x[best])) best = box;
        break;
      case "Home":
        if (boxes.row[box] === row && x < boxes.x[best]) best = box;
        break;
      case "End":
        if (boxes.row[box] === row && x > boxes.x[best]) best = box;
        break;
    }
  }
  return best;
}

/** A node and its callers, the root first. */
export function pathTo(tree: FlameTree, node: number): number[] {
  const path: number[] = [];
  for (let at = node; at >= 0; at = tree.parent[at]) path.push(at);
  return path.reverse();
}

/** The node with the same names on its path in another tree, or as deep as that tree has it. */
export function sameNode(from: FlameTree, node: number, to: FlameTree): number {
  let at = 0;
  for (const step of pathTo(from, node).slice(1)) {
    const name = from.names[from.name[step]];
    let found = -1;
    for (let i = to.firstChild[at]; i < to.firstChild[at + 1]; i++) {
      const child = to.children[i];
      if (to.type[child] === from.type[step] && to.names[to.name[child]] === name) found = child;
    }
    if (found < 0) return at;
    at = found;
  }
  return at;
}

/** The call sites in a node. */
export function sitesOf(tree: FlameTree, node: number): number[] {
  const inside = new Uint8Array(tree.count);
  inside[node] = 1;
  for (let at = node + 1; at < tree.count; at++) inside[at] = inside[tree.parent[at]];
  const sites: number[] = [];
  for (let site = 0; site < tree.leaf.length; site++) if (inside[tree.leaf[site]]) sites.push(site);
  return sites;
}

const FRAME = /^(.*):(\d+) (.+)$/;

/** The file of a frame such as "/srv/llama/model.py:20 main", or an empty text. */
export function fileOf(name: string): string {
  return FRAME.exec(name)?.[1] ?? "";
}

/** A short label for a box: the function first, because a box may be narrow. */
export function frameLabel(name: string, type: FlameType): string {
  const parts = type === FlameType.Frame || type === FlameType.Ttnn ? FRAME.exec(name) : null;
  if (parts === null) return name;
  const file = parts[1].slice(parts[1].lastIndexOf("/") + 1);
  return `${parts[3]}  ${file}:${parts[2]}`;
}

const TYPE_WORDS: Record<number, string> = {
  [FlameType.Root]: "everything",
  [FlameType.Frame]: "line of the program",
  [FlameType.Ttnn]: "inside ttnn",
  [FlameType.Op]: "operation",
  [FlameType.Detail]: "shape or part",
  [FlameType.Rest]: "call sites without an entry of their own",
};

export function typeWords(type: FlameType): string {
  return TYPE_WORDS[type];
}
