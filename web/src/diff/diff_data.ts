// SPDX-License-Identifier: Apache-2.0
/** Values of two recordings on one axis and for the same call sites. */
import type { Columns } from "../data/columns";
import type { SiteAmounts, WindowSums } from "../data/window_sums";
import { lowerBound } from "../data/window_sums";
import type { DiffReport, DiffReportSide, ReportGroup, ReportSite } from "../documents";
import type { Alignment, Side } from "./align";

export const BUCKETS = 1200;

export interface Band {
  low: Float64Array; // -1: not known
  high: Float64Array;
}

/** A series of a timeline, in buckets of the common axis. */
export function resampled(columns: Columns, series: string, length: number, side: Side, alignment: Alignment): Band {
  const low = columns[`${series}.low`];
  const high = columns[`${series}.high`];
  const band = unknownBand();
  if (low === undefined || high === undefined || high.length === 0) return band;
  const count = high.length;
  const step = alignment.length / BUCKETS;
  for (let i = 0; i < BUCKETS; i++) {
    if (alignment.time(side, (i + 0.5) * step) === null) continue;
    const from = (alignment.timeOrBefore(side, i * step) / length) * count;
    const until = (alignment.timeOrBefore(side, (i + 1) * step) / length) * count;
    const first = Math.min(count - 1, Math.floor(from));
    const last = Math.min(count - 1, Math.max(first, Math.ceil(until) - 1));
    let [lowest, highest] = [-1, -1];
    for (let at = first; at <= last; at++) {
      if (high[at] < 0) continue;
      highest = Math.max(highest, high[at]);
      lowest = lowest < 0 ? low[at] : Math.min(lowest, low[at]);
    }
    band.low[i] = lowest;
    band.high[i] = highest;
  }
  return band;
}

/** The history of a selection of call sites, in buckets of the common axis. Its edges are where the values are known. */
export function history(sums: WindowSums, mask: ArrayLike<number>, side: Side, alignment: Alignment): Band {
  const values = sums.history(mask);
  const band = unknownBand();
  const step = alignment.length / BUCKETS;
  const edgeAt = (time: number) => Math.max(0, lowerBound(sums.edges, time + 1) - 1);
  for (let i = 0; i < BUCKETS; i++) {
    if (alignment.time(side, (i + 0.5) * step) === null) continue;
    const first = edgeAt(alignment.timeOrBefore(side, i * step));
    const last = Math.max(first, edgeAt(alignment.timeOrBefore(side, (i + 1) * step)));
    const part = values.subarray(first, last + 1);
    band.low[i] = part.reduce((least, value) => Math.min(least, value), Infinity);
    band.high[i] = part.reduce((most, value) => Math.max(most, value), 0);
  }
  return band;
}

function unknownBand(): Band {
  return { low: new Float64Array(BUCKETS).fill(-1), high: new Float64Array(BUCKETS).fill(-1) };
}

/** Chip groups of both recordings: those of the same name, the others in their order. */
export function pairedGroups(diff: DiffReport): { name: string; old: ReportGroup | null; new: ReportGroup | null }[] {
  const left = [...diff.old.groups];
  const take = (found: ReportGroup | undefined) => (found === undefined ? null : left.splice(left.indexOf(found), 1)[0]);
  const same = diff.new.groups.map((group) => ({ group, old: take(left.find((one) => one.name === group.name)) }));
  const pairs = same.map(({ group, old }) => {
    const other = old ?? take(left[0]);
    return { name: other === null || other.name === group.name ? group.name : `${other.name} → ${group.name}`, old: other, new: group as ReportGroup | null };
  });
  return [...pairs, ...left.map((group) => ({ name: group.name, old: group, new: null }))];
}

/** Values of a recording's own call sites, for the call sites of both. */
export function merged(own: ArrayLike<number>, side: DiffReportSide, count: number): Float64Array {
  const sums = new Float64Array(count);
  for (let site = 0; site < side.sites.length; site++) sums[side.sites[site]] += own[site] ?? 0;
  return sums;
}

/** The mask of the common call sites, for the numbers of one recording. */
export function ownMask(mask: Uint8Array, side: DiffReportSide): Uint8Array {
  return Uint8Array.from(side.sites, (site) => mask[site]);
}

export type Measure = "live" | "count" | "allocated";

/** One value for each call site of both recordings. */
export function measured(amounts: SiteAmounts | null, measure: Measure, side: DiffReportSide, count: number): Float64Array {
  if (amounts === null) return new Float64Array(count);
  const own = measure === "live" ? amounts.bytes : measure === "count" ? amounts.count : amounts.allocated;
  return merged(own, side, count);
}

export interface ChangeRow {
  key: string;
  known: boolean;
  old: number;
  new: number;
  sites: number[];
}

/** Sums of both recordings by line, operation or shape. Rows that are nothing in both are left out. */
export function changesBy(
  diff: DiffReport,
  by: "line" | "op" | "shape",
  old: Float64Array,
  next: Float64Array,
  mask: Uint8Array,
): ChangeRow[] {
  const rows = new Map<string, ChangeRow>();
  diff.sites.forEach((site: ReportSite, i) => {
    if (!mask[i] || (old[i] === 0 && next[i] === 0)) return;
    const known = site.other === 0 && site[by] >= 0;
    const key = known ? diff.strings[site[by]] : site.other > 0 ? "other call sites" : "not known";
    let row = rows.get(key);
    if (row === undefined) rows.set(key, (row = { key, known, old: 0, new: 0, sites: [] }));
    row.old += old[i];
    row.new += next[i];
    row.sites.push(i);
  });
  return [...rows.values()];
}
