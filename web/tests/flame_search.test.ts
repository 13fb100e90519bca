// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { boxAt, buildFlameTree, FlameType, layoutFlame, rollUp } from "../src/parts/flame_layout";
import { fileOf, frameLabel, neighbour, pathTo, sameNode, searchFlame, sitesOf } from "../src/parts/flame_search";
import { SOURCE, STRINGS, VALUES } from "./flame_sample";

describe("frames", () => {
  const tree = buildFlameTree(SOURCE);
  const { net, weight } = rollUp(tree, VALUES);

  it("are reached by keys", () => {
    const boxes = layoutFlame(tree, weight, 0, 1000);
    const down = neighbour(boxes, tree, boxAt(boxes, 5, 0), "ArrowDown");
    expect(tree.names[tree.name[boxes.node[down]]]).toBe("/m/run.py:9 main");
    const right = neighbour(boxes, tree, down, "ArrowRight");
    expect(boxes.x[right]).toBe(700);
    expect(neighbour(boxes, tree, right, "ArrowLeft")).toBe(down);
    expect(neighbour(boxes, tree, right, "ArrowUp")).toBe(boxAt(boxes, 5, 0));
    expect(boxes.x[neighbour(boxes, tree, down, "End")]).toBe(950);
    expect(neighbour(boxes, tree, down, "ArrowLeft")).toBe(down);
  });

  it("of a search are summed without counting a frame in a frame twice", () => {
    const found = searchFlame(tree, net, "MODEL.py");
    expect([found.frames, found.sum]).toEqual([1, 140]);
    expect(searchFlame(tree, net, "main").sum).toBe(180);
    expect(searchFlame(tree, net, "py").sum).toBe(180);
    expect(searchFlame(tree, net, " ").frames).toBe(0);
  });
});

describe("words and places", () => {
  it("put the function first, because boxes are narrow", () => {
    expect(frameLabel(STRINGS[1], FlameType.Frame)).toBe("forward  model.py:20");
    expect(frameLabel("ttnn.add", FlameType.Op)).toBe("ttnn.add");
    expect(frameLabel("odd: name", FlameType.Frame)).toBe("odd: name");
    expect([fileOf(STRINGS[1]), fileOf("ttnn.add")]).toEqual(["/m/model.py", ""]);
  });

  it("find the same frame in another tree, or the deepest caller that it has", () => {
    const folded = buildFlameTree(SOURCE, false, true);
    const all = buildFlameTree(SOURCE, false, false);
    expect(sameNode(folded, folded.leaf[1], all)).toBe(all.leaf[1]);
    expect(sameNode(folded, folded.leaf[0], all)).toBe(pathTo(all, all.leaf[0])[2]);
  });

  it("give the call sites of a frame", () => {
    const tree = buildFlameTree(SOURCE);
    expect(sitesOf(tree, pathTo(tree, tree.leaf[0])[1])).toEqual([0, 1]);
    expect(sitesOf(tree, 0)).toEqual([0, 1, 2, 3, 4]);
  });
});
