// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import type { FlameSource } from "../src/parts/flame_layout";
import { boxAt, buildFlameTree, dominantOps, layoutFlame, rollUp } from "../src/parts/flame_layout";
import { pathTo } from "../src/parts/flame_search";
import { SOURCE, VALUES } from "./flame_sample";

function paths(source: FlameSource, inverted: boolean, folded: boolean): string[] {
  const tree = buildFlameTree(source, inverted, folded);
  return [...tree.leaf].map((leaf) =>
    pathTo(tree, leaf)
      .map((node) => tree.names[tree.name[node]])
      .join(" > "),
  );
}

describe("the tree", () => {
  it("has the stack, then the operation, then the shape; a site without stack is below its operation", () => {
    expect(paths(SOURCE, false, true)).toEqual([
      "all > /m/run.py:9 main > /m/model.py:20 forward > ttnn > ttnn.add > [1, 32] bfloat16",
      "all > /m/run.py:9 main > /m/model.py:20 forward > ttnn.matmul",
      "all > /m/run.py:12 main > ttnn.matmul",
      "all > ttnn.add > /m/run.py:12 main",
      "all > 3 other call sites, DRAM",
    ]);
  });

  it("names parts of programs by their kind", () => {
    const part = { kind: 1, op: 4, shape: -1, line: -1, stack: -1, part: 4, other: 0 };
    const sites = [part, { ...part, kind: 2, part: 5 }];
    expect(paths({ ...SOURCE, sites }, false, true)).toEqual([
      "all > ttnn.add > CB",
      "all > ttnn.add > kernel ttnn.matmul",
    ]);
  });

  it("shows each frame of ttnn if they are not folded", () => {
    expect(paths(SOURCE, false, false)[0]).toContain("> /ttnn/a.py:1 decorate > /ttnn/b.py:2 call > ttnn.add");
  });

  it("has operations on top when it is inverted, merged by name", () => {
    expect(paths(SOURCE, true, true)).toEqual([
      "all > ttnn.add > ttnn > /m/model.py:20 forward > /m/run.py:9 main",
      "all > ttnn.matmul > /m/model.py:20 forward > /m/run.py:9 main",
      "all > ttnn.matmul > /m/run.py:12 main",
      "all > ttnn.add > /m/run.py:12 main",
      "all > 3 other call sites, DRAM",
    ]);
  });

  it("numbers a parent before its children", () => {
    const tree = buildFlameTree(SOURCE);
    for (let node = 1; node < tree.count; node++) expect(tree.parent[node]).toBeLessThan(node);
  });
});

describe("sums", () => {
  const tree = buildFlameTree(SOURCE);

  it("add the values of call sites up to the root", () => {
    const { net, weight } = rollUp(tree, VALUES);
    expect(net[0]).toBe(200);
    expect(weight).toBe(net);
    const [, main, forward] = pathTo(tree, tree.leaf[1]);
    expect([net[main], net[forward]]).toEqual([140, 140]);
  });

  it("keep the sign apart from the size of a change", () => {
    const { net, weight } = rollUp(tree, [100, -40, 0, 0, -5]);
    expect([net[0], weight[0]]).toEqual([55, 145]);
    const forward = pathTo(tree, tree.leaf[1])[2];
    expect([net[forward], weight[forward]]).toEqual([60, 140]);
  });

  it("give a frame the operation that has most of it", () => {
    const ops = dominantOps(tree, rollUp(tree, VALUES).weight);
    const [, main] = pathTo(tree, tree.leaf[0]);
    expect(tree.names[ops[main]]).toBe("ttnn.add");
    const other = dominantOps(tree, rollUp(tree, [1, 40, 10, 30, 20]).weight);
    expect(tree.names[other[main]]).toBe("ttnn.matmul");
  });
});

describe("boxes", () => {
  const tree = buildFlameTree(SOURCE);
  const { weight } = rollUp(tree, VALUES);

  it("fill the width in proportion, the largest first", () => {
    const boxes = layoutFlame(tree, weight, 0, 1000);
    const first = [...boxes.row.keys()].filter((box) => boxes.row[box] === 1);
    expect(first.map((box) => [boxes.x[box], boxes.width[box]])).toEqual([
      [0, 700],
      [700, 150],
      [850, 100],
      [950, 50],
    ]);
    expect(boxes.rows).toBe(6);
  });

  it("never overlap in a row, and stay in the box above", () => {
    const boxes = layoutFlame(tree, weight, 0, 777, "name");
    for (let a = 0; a < boxes.count; a++) {
      for (let b = 0; b < a; b++) {
        if (boxes.row[a] !== boxes.row[b]) continue;
        const apart =
          boxes.x[a] >= boxes.x[b] + boxes.width[b] - 1e-9 || boxes.x[b] >= boxes.x[a] + boxes.width[a] - 1e-9;
        expect(apart).toBe(true);
      }
    }
  });

  it("merge frames that are narrower than a pixel, and keep their sum", () => {
    const boxes = layoutFlame(tree, weight, 0, 16);
    const merged = [...boxes.merged.keys()].filter((box) => boxes.merged[box] > 0);
    expect(merged).toHaveLength(1);
    expect(boxes.merged[merged[0]]).toBe(1);
    expect(boxes.mergedWeight[merged[0]]).toBe(10);
  });

  it("show the callers of a frame that is zoomed to in the whole width", () => {
    const focus = tree.leaf[0];
    const boxes = layoutFlame(tree, weight, focus, 500);
    expect([...boxes.width].every((width) => width === 500)).toBe(true);
    expect(boxes.count).toBe(6);
  });

  it("are empty for nothing, without a division by zero", () => {
    const boxes = layoutFlame(tree, new Float64Array(tree.count), 0, 500);
    expect([boxes.count, boxes.rows]).toEqual([1, 1]);
  });

  it("are found at a place", () => {
    const boxes = layoutFlame(tree, weight, 0, 1000);
    expect(tree.names[tree.name[boxes.node[boxAt(boxes, 720, 1)]]]).toBe("ttnn.add");
    expect(boxAt(boxes, 720, 9)).toBe(-1);
  });
});
