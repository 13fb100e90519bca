// SPDX-License-Identifier: Apache-2.0
/** Five call sites for the tests of the flame graph. */
import type { ReportSite, ReportStacks } from "../src/documents";
import type { FlameSource } from "../src/parts/flame_layout";

export const STRINGS = [
  "/m/run.py:9 main",
  "/m/model.py:20 forward",
  "/ttnn/a.py:1 decorate",
  "/ttnn/b.py:2 call",
  "ttnn.add",
  "ttnn.matmul",
  "[1, 32] bfloat16",
  "/m/run.py:12 main",
];

function site(part: Partial<ReportSite>): ReportSite {
  return { kind: 0, op: -1, shape: -1, line: -1, stack: -1, part: -1, other: 0, ...part };
}

const STACKS: ReportStacks = {
  parent: [-1, 0, 1, 2, -1],
  name: [0, 1, 2, 3, 7],
  type: ["frame", "frame", "ttnn", "ttnn", "frame"],
};

export const SOURCE: FlameSource = {
  strings: STRINGS,
  stacks: STACKS,
  kinds: ["dram", "cb", "kernel"],
  sites: [
    site({ op: 4, stack: 3, shape: 6 }),
    site({ op: 5, stack: 1 }),
    site({ op: 5, stack: 4 }),
    site({ op: 4, line: 7 }),
    site({ other: 3 }),
  ],
};
export const VALUES = [100, 40, 10, 30, 20];
