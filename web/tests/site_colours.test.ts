// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { fileColours, lineColours, NameColours, opColours } from "../src/parts/colours";
import { buildFlameTree, FlameType } from "../src/parts/flame_layout";
import { opOf } from "../src/parts/map_words";
import { baseName, phaseColours } from "../src/parts/phase_colours";
import { fixColours } from "../src/parts/site_colours";
import type { ReportSite } from "../src/documents";
import { smallReport } from "./small_report";

/** As many operations, lines and files as there are colours, so that nearly each of them evades another. */
const NUMBERS = Array.from({ length: 24 }, (_, i) => i);
const STRINGS = [
  ...NUMBERS.map((i) => `ttnn.operation_${i}`),
  ...NUMBERS.map((i) => `/srv/part_${i}.py:${i} f`),
];
const REPORT = smallReport({
  strings: STRINGS,
  stacks: { parent: NUMBERS.map(() => -1), name: NUMBERS.map((i) => 24 + i), type: NUMBERS.map(() => "frame") },
  sites: NUMBERS.map((i): ReportSite => ({ kind: 0, op: i, line: 24 + i, stack: i, shape: -1, part: -1, other: 0 })),
});

describe("the colours of a document", () => {
  const load = (order: number[]) => {
    fixColours(REPORT);
    const drawn = order.map((i) => [
      i,
      opColours.of(STRINGS[i], "light"),
      lineColours.of(STRINGS[24 + i], "light"),
      fileColours.of(`/srv/part_${i}.py`, "light"),
    ]);
    return drawn.sort((a, b) => a[0] - b[0]);
  };

  it("are the same whatever is drawn first", () => {
    const first = load(NUMBERS);
    expect(load([...NUMBERS].reverse())).toEqual(first);
    for (const of of [1, 2, 3]) expect(new Set(first.map((row) => row[of])).size).toBe(24);
  });

  it("are those that the first names like best", () => {
    const alone = new NameColours();
    expect(load(NUMBERS)[0][1]).toBe(alone.of(STRINGS[0], "light"));
  });
});

it("an operation that is not known has one name in the flame graph and in the map", () => {
  const report = smallReport({ sites: [{ kind: 0, op: -1, line: -1, stack: -1, shape: -1, part: -1, other: 0 }] });
  const tree = buildFlameTree(report);
  const op = tree.type.indexOf(FlameType.Op);
  expect(tree.names[tree.name[op]]).toBe(opOf(report, 0));
});

it("phases have the colours of their order in the document, and those with a number have one colour", () => {
  const names = [...NUMBERS.map((i) => `phase ${i} of a run`), "decode 1", "decode 2"];
  const drawn = (order: string[]) => {
    const colours = phaseColours(names.map((name) => ({ name })));
    return new Map(order.map((name) => [name, colours.of(baseName({ name }), "dark")]));
  };
  const [first, second] = [drawn(names), drawn([...names].reverse())];
  for (const name of names) expect(second.get(name)).toBe(first.get(name));
  expect(first.get("decode 1")).toBe(first.get("decode 2"));
});
