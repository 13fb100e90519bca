// SPDX-License-Identifier: Apache-2.0
/** The allocations of a report: which rows pass the filters, in which order. Rows are numbers; columns are arrays. */
import type { Columns } from "../data/columns";
import type { Report } from "../documents";

export const CHOSEN = { largest: 1, longest: 2, neverFreed: 4, atPeak: 8, freedLate: 16 } as const;

export interface AllocationFilter {
  scope: "live" | "made" | "all"; // live at the end of the window, made in the window, all
  from: number;
  until: number;
  group: number;
  mask: Uint8Array; // call sites
  least: number; // bytes
  life: "any" | "short" | "long"; // below 1 % of the run, or above half of it
  flag: 0 | 4 | 16;
}

export type AllocationKey = "id" | "begin" | "life" | "address" | "size" | "kind" | "ended_by" | "site" | "program";

/** How long an allocation lived; to the end of the recording if it was not freed. */
export function lifeOf(columns: Columns, row: number, length: number): number {
  return (columns.end[row] < 0 ? length : columns.end[row]) - columns.begin[row];
}

/** All rows, sorted. This is done once for each key. */
export function sortedRows(columns: Columns, report: Report, key: AllocationKey, descending: boolean): Uint32Array {
  const count = columns.id.length;
  const order = Uint32Array.from({ length: count }, (_, i) => i);
  const values =
    key === "life"
      ? Float64Array.from({ length: count }, (_, i) => lifeOf(columns, i, report.length_ns))
      : key === "site"
        ? Float64Array.from(columns.site, lineRanks(report))
        : columns[key];
  const sign = descending ? -1 : 1;
  return order.sort((a, b) => sign * (values[a] - values[b]) || a - b);
}

/** The place of each call site's line and operation in alphabetical order. */
function lineRanks(report: Report): (site: number) => number {
  const words = report.sites.map((site) =>
    [site.line, site.op].map((i) => (i < 0 ? "\uffff" : report.strings[i])).join(" "),
  );
  const ranks = new Map([...new Set(words)].sort().map((text, i) => [text, i]));
  return (site) => (site < words.length ? (ranks.get(words[site]) ?? 0) : -1);
}

export function filterRows(order: Uint32Array, columns: Columns, filter: AllocationFilter, length: number): number[] {
  const { begin, end, size, site, groups, chosen } = columns;
  const member = filter.group < 32 ? 2 ** filter.group : 0; // a bit for each of the first 32 groups
  const kept: number[] = [];
  for (const row of order) {
    if ((groups[row] & member) === 0 || !filter.mask[site[row]] || size[row] < filter.least) continue;
    if (filter.flag !== 0 && (chosen[row] & filter.flag) === 0) continue;
    const ends = end[row] < 0 ? Infinity : end[row];
    if (filter.scope === "live" && !(begin[row] <= filter.until && ends > filter.until)) continue;
    if (filter.scope === "made" && !(begin[row] > filter.from && begin[row] <= filter.until)) continue;
    if (filter.life !== "any") {
      const life = Math.min(ends, length) - begin[row];
      if (filter.life === "short" ? life > length / 100 : life < length / 2) continue;
    }
    kept.push(row);
  }
  return kept;
}
