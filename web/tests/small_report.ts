// SPDX-License-Identifier: Apache-2.0
/** A report that is small enough to compute its numbers by hand. */
import type { Report, ReportGroup, ReportPool, ReportSite } from "../src/documents";

export const STRINGS = [
  "/srv/m.py:1 main",
  "/srv/m.py:9 layer",
  "ttnn.add",
  "ttnn.matmul",
  "[32, 32]",
  "CB 0",
  "ttnn/core.py:5 call",
];

const site = (kind: number, op: number, line: number, stack: number, more: Partial<ReportSite> = {}): ReportSite => ({
  kind,
  op,
  line,
  stack,
  shape: -1,
  part: -1,
  other: 0,
  ...more,
});

const pool = (name: string, peak: number, capacity: number | null, peak_ns: number | null): ReportPool => ({
  pool: name,
  peak,
  capacity,
  peak_ns,
  at_peak: [],
  rest: 0,
  end: 0,
  peak_at_most: null,
  smallest_largest_free: null,
  banks: null,
});

export const GROUP: ReportGroup = {
  name: "chip 0",
  chips: ["0"],
  chip_names: ["chip 0"],
  shown_chip: "0",
  differences: [],
  pools: [
    pool("dram", 100, 1000, 40),
    pool("l1_buffers", 90, 100, 60),
    pool("programs", 5, null, 60),
    pool("host", 0, null, null),
  ],
  series: [],
  timeline: "t",
  levels: [],
  windows: "w",
  maps: [],
};

export function smallReport(change: Partial<Report> = {}): Report {
  return {
    length_ns: 100,
    kinds: ["dram", "l1", "host", "l1_small", "trace", "cb"],
    pools: { dram: [0, 4], l1_buffers: [1, 3], programs: [5], host: [2] },
    strings: STRINGS,
    stacks: { parent: [-1, 0, 1], name: [0, 1, 6], type: ["frame", "frame", "ttnn"] },
    sites: [
      site(0, 2, 0, 0),
      site(0, 3, 1, 1, { shape: 4 }),
      site(1, 2, 1, 2),
      site(5, 3, 1, 1, { part: 5 }),
      site(0, -1, -1, -1, { other: 12 }),
    ],
    groups: [GROUP, { ...GROUP, name: "chip 1" }],
    marks: [],
    phases: [],
    moments: [],
    explained: [],
    allocations: { section: "a", rows: 3, total: 50, ends: [] },
    sections: {},
    ...change,
  } as unknown as Report;
}
