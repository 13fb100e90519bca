// SPDX-License-Identifier: Apache-2.0
/**
 * The tree and the boxes of a flame graph, drawn as an icicle: callers on top, what they call below.
 *
 * The tree depends on call sites only. Values change at every brush, so sums and boxes are made in typed arrays:
 * nodes are numbered from the root, a parent before its children, and one loop backwards adds all values up.
 */
import type { ReportSite, ReportStacks } from "../documents";
import { kindWords, operationOf } from "./kind_words";

export enum FlameType {
  Root,
  Frame, // a line of the program
  Ttnn, // a frame of ttnn, or several that are folded into one
  Op, // an operation
  Detail, // the shape of a tensor, or a part of a program
  Rest, // call sites that have no entry of their own
}

export interface FlameSource {
  strings: readonly string[];
  stacks: ReportStacks;
  sites: readonly ReportSite[];
  kinds: readonly string[]; // by number
}

export interface FlameTree {
  count: number;
  names: string[]; // different names; `name` has indices
  name: Int32Array;
  type: Uint8Array;
  parent: Int32Array; // -1 for the root, which is node 0
  depth: Uint16Array;
  op: Int32Array; // name of the operation that a node is, or is below of; -1 for frames above operations
  children: Int32Array; // of all nodes, one after the other
  firstChild: Int32Array; // those of node n are from firstChild[n] up to firstChild[n + 1]
  leaf: Int32Array; // node of each call site
}

/** Net sums, and sums of sizes without their sign. They are the same array if no value is negative. */
export interface FlameSums {
  net: Float64Array;
  weight: Float64Array;
}

/** Boxes to draw. `merged` is 0 for a frame, else so many frames that are too narrow; `node` is then their parent. */
export interface FlameBoxes {
  count: number;
  rows: number;
  node: Int32Array;
  row: Uint16Array;
  x: Float64Array;
  width: Float64Array;
  merged: Uint32Array;
  mergedWeight: Float64Array;
}

class Builder {
  readonly names: string[] = [];
  readonly name: number[] = [];
  readonly type: number[] = [];
  readonly parent: number[] = [];
  private readonly nameNumbers = new Map<string, number>();
  private readonly nodes = new Map<number, number>();

  /** The child of a node, made if there is none of that name and type. */
  node(parent: number, text: string, type: FlameType): number {
    let name = this.nameNumbers.get(text);
    if (name === undefined) {
      name = this.names.push(text) - 1;
      this.nameNumbers.set(text, name);
    }
    const key = (parent + 1) * 2 ** 26 + name * 8 + type;
    let node = this.nodes.get(key);
    if (node === undefined) {
      node = this.name.push(name) - 1;
      this.type.push(type);
      this.parent.push(parent);
      this.nodes.set(key, node);
    }
    return node;
  }
}

/**
 * The tree of call sites. Inverted, operations are on top and their callers below, merged by name. Folded, adjacent
 * frames of ttnn are one node.
 */
export function buildFlameTree(source: FlameSource, inverted = false, folded = true): FlameTree {
  const { strings, stacks, sites, kinds } = source;
  const builder = new Builder();
  const root = builder.node(-1, "all", FlameType.Root);
  const known = new Int32Array(stacks.parent.length).fill(-1);

  const below = (node: number, frame: number): number => {
    if (stacks.type[frame] !== "ttnn") return builder.node(node, strings[stacks.name[frame]], FlameType.Frame);
    if (!folded) return builder.node(node, strings[stacks.name[frame]], FlameType.Ttnn);
    return builder.type[node] === FlameType.Ttnn ? node : builder.node(node, "ttnn", FlameType.Ttnn);
  };
  const frameNode = (frame: number): number => {
    const path: number[] = [];
    for (let at = frame; at >= 0 && known[at] < 0; at = stacks.parent[at]) path.push(at);
    for (let at = path.pop(); at !== undefined; at = path.pop()) {
      known[at] = below(stacks.parent[at] < 0 ? root : known[stacks.parent[at]], at);
    }
    return known[frame];
  };
  const leafOf = (site: ReportSite): number => {
    if (site.other > 0) {
      const label = `${site.other} other call sites, ${kindWords(kinds[site.kind])}`;
      return builder.node(root, label, FlameType.Rest);
    }
    const op = operationOf(source, site);
    if (inverted) {
      let node = builder.node(root, op, FlameType.Op);
      for (let at = site.stack; at >= 0; at = stacks.parent[at]) node = below(node, at);
      return site.stack < 0 && site.line >= 0 ? builder.node(node, strings[site.line], FlameType.Frame) : node;
    }
    let node = builder.node(site.stack < 0 ? root : frameNode(site.stack), op, FlameType.Op);
    if (site.stack < 0 && site.line >= 0) node = builder.node(node, strings[site.line], FlameType.Frame);
    if (site.part >= 0)
      return builder.node(node, partLabel(kinds[site.kind], strings[site.part], op), FlameType.Detail);
    return site.shape < 0 ? node : builder.node(node, strings[site.shape], FlameType.Detail);
  };

  const leaf = Int32Array.from(sites, leafOf);
  return finished(builder, leaf);
}

/** A part of a program: its kind, and its own name unless that is the name of the operation. */
function partLabel(kind: string, part: string, op: string): string {
  return part === op ? kindWords(kind) : `${kindWords(kind)} ${part}`;
}

function finished(builder: Builder, leaf: Int32Array): FlameTree {
  const count = builder.name.length;
  const parent = Int32Array.from(builder.parent);
  const name = Int32Array.from(builder.name);
  const type = Uint8Array.from(builder.type);
  const depth = new Uint16Array(count);
  const op = new Int32Array(count).fill(-1);
  const firstChild = new Int32Array(count + 1);
  for (let node = 1; node < count; node++) {
    depth[node] = depth[parent[node]] + 1;
    firstChild[parent[node] + 1]++;
    op[node] = type[node] === FlameType.Op || type[node] === FlameType.Rest ? name[node] : op[parent[node]];
  }
  for (let node = 0; node < count; node++) firstChild[node + 1] += firstChild[node];
  const next = firstChild.slice();
  const children = new Int32Array(Math.max(0, count - 1));
  for (let node = 1; node < count; node++) children[next[parent[node]]++] = node;
  return { count, names: builder.names, name, type, parent, depth, op, children, firstChild, leaf };
}

/** The sums of all nodes, from a value for each call site. */
export function rollUp(tree: FlameTree, values: ArrayLike<number>): FlameSums {
  const net = new Float64Array(tree.count);
  let negative = false;
  for (let site = 0; site < tree.leaf.length; site++) {
    net[tree.leaf[site]] += values[site];
    negative ||= values[site] < 0;
  }
  const weight = negative ? new Float64Array(tree.count) : net;
  if (negative) for (let site = 0; site < tree.leaf.length; site++) weight[tree.leaf[site]] += Math.abs(values[site]);
  for (let node = tree.count - 1; node > 0; node--) {
    net[tree.parent[node]] += net[node];
    if (negative) weight[tree.parent[node]] += weight[node];
  }
  return { net, weight };
}

/** For each node, the name of the operation that has most of it. */
export function dominantOps(tree: FlameTree, weight: Float64Array): Int32Array {
  const op = tree.op.slice();
  const most = new Float64Array(tree.count);
  for (let node = tree.count - 1; node > 0; node--) {
    const parent = tree.parent[node];
    if (tree.op[parent] < 0 && op[node] >= 0 && weight[node] > most[parent]) {
      most[parent] = weight[node];
      op[parent] = op[node];
    }
  }
  return op;
}

/** The boxes of a node that is zoomed to, with its callers above it, in a width in pixels. */
export function layoutFlame(
  tree: FlameTree,
  weight: Float64Array,
  focus: number,
  width: number,
  order: "size" | "name" = "size",
  least = 1,
): FlameBoxes {
  const node: number[] = [];
  const row: number[] = [];
  const x: number[] = [];
  const wide: number[] = [];
  const merged: number[] = [];
  const mergedWeight: number[] = [];
  const put = (at: number, line: number, from: number, size: number, count = 0, sum = 0) => {
    node.push(at);
    row.push(line);
    x.push(from);
    wide.push(size);
    merged.push(count);
    mergedWeight.push(sum);
  };
  for (let at = tree.parent[focus]; at >= 0; at = tree.parent[at]) put(at, tree.depth[at], 0, width);
  put(focus, tree.depth[focus], 0, width);
  let rows = tree.depth[focus] + 1;
  const scale = weight[focus] > 0 ? width / weight[focus] : 0;
  for (let next = node.length - 1; next < node.length && scale > 0; next++) {
    const at = node[next];
    if (merged[next] > 0) continue;
    const children = [...tree.children.subarray(tree.firstChild[at], tree.firstChild[at + 1])].filter(
      (child) => weight[child] > 0,
    );
    if (order === "name") children.sort((a, b) => (tree.names[tree.name[a]] < tree.names[tree.name[b]] ? -1 : 1));
    else children.sort((a, b) => weight[b] - weight[a] || a - b);
    const line = row[next] + 1;
    let from = x[next];
    let narrow = 0;
    let sum = 0;
    const flush = () => {
      if (sum * scale >= least / 2) put(at, line, from - sum * scale, sum * scale, narrow, sum);
      narrow = sum = 0;
    };
    for (const child of children) {
      const size = weight[child] * scale;
      if (size < least) {
        narrow++;
        sum += weight[child];
      } else {
        flush();
        put(child, line, from, size);
      }
      from += size;
    }
    flush();
    if (node.length > next + 1) rows = Math.max(rows, row[node.length - 1] + 1);
  }
  return {
    count: node.length,
    rows,
    node: Int32Array.from(node),
    row: Uint16Array.from(row),
    x: Float64Array.from(x),
    width: Float64Array.from(wide),
    merged: Uint32Array.from(merged),
    mergedWeight: Float64Array.from(mergedWeight),
  };
}

/** The box at a place, or -1. */
export function boxAt(boxes: FlameBoxes, x: number, row: number): number {
  for (let box = 0; box < boxes.count; box++) {
    if (boxes.row[box] === row && x >= boxes.x[box] && x < boxes.x[box] + boxes.width[box]) return box;
  }
  return -1;
}
