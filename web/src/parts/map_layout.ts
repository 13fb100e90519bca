// SPDX-License-Identifier: Apache-2.0
/** Where things are in an address map: the visible part, what is at a place, what is free at a moment, and the axes. */
import type { Columns } from "../data/columns";
import type { ReportMap } from "../documents";

/** Lives of buffers in one bank. `live` is 1 for those that nobody freed; their `end` is the end of the recording. */
export interface MapRectangles {
  count: number;
  begin: Float64Array;
  end: Float64Array;
  address: Float64Array;
  size: Float64Array;
  site: Uint32Array;
  row: Float64Array; // number of the allocation
  live: Uint8Array;
}

/** Up to which address programs reached, over time. */
export interface MapReach {
  count: number;
  begin: Float64Array;
  end: Float64Array;
  top: Float64Array;
  site: Uint32Array;
}

/** The visible part of a map. */
export interface MapView {
  from: number; // ns
  until: number;
  low: number; // addresses
  high: number;
}

export interface FreeBlock {
  low: number;
  high: number;
}

/** The bank at a moment. `complete` is false if allocations without a rectangle were there: less may be free. */
export interface BankAtMoment {
  used: number;
  free: FreeBlock[];
  largest: FreeBlock | null;
  lowest: number | null; // address of the lowest buffer
  reach: number | null; // index of the program that reaches highest
  complete: boolean;
}

const LEAST_NS = 1000;
const LEAST_BYTES = 512;

export function mapRectangles(columns: Columns, lengthNs: number): MapRectangles {
  const end = Float64Array.from(columns.end);
  const live = new Uint8Array(end.length);
  for (let i = 0; i < end.length; i++) {
    if (end[i] >= 0) continue;
    end[i] = lengthNs;
    live[i] = 1;
  }
  return {
    count: end.length,
    begin: Float64Array.from(columns.begin),
    end,
    address: Float64Array.from(columns.address),
    size: Float64Array.from(columns.size),
    site: Uint32Array.from(columns.site),
    row: Float64Array.from(columns.row),
    live,
  };
}

export function mapReach(columns: Columns, lengthNs: number): MapReach {
  const end = Float64Array.from(columns.end, (ns) => (ns < 0 ? lengthNs : ns));
  return {
    count: end.length,
    begin: Float64Array.from(columns.begin),
    end,
    top: Float64Array.from(columns.top),
    site: Uint32Array.from(columns.site),
  };
}

/** Everything: the whole recording and the whole bank. */
export function wholeView(map: Pick<ReportMap, "base" | "size">, lengthNs: number): MapView {
  return { from: 0, until: Math.max(lengthNs, LEAST_NS), low: map.base, high: map.base + map.size };
}

/** The view after a zoom about a place. A factor above 1 shows less. */
export function zoomView(
  view: MapView,
  whole: MapView,
  at: { ns: number; address: number },
  timeFactor: number,
  addressFactor: number,
): MapView {
  const time = zoomRange(view.from, view.until, at.ns, timeFactor, whole.from, whole.until, LEAST_NS);
  const place = zoomRange(view.low, view.high, at.address, addressFactor, whole.low, whole.high, LEAST_BYTES);
  return { from: time[0], until: time[1], low: place[0], high: place[1] };
}

function zoomRange(low: number, high: number, at: number, factor: number, least: number, most: number, span: number) {
  const wanted = Math.min(most - least, Math.max(span, (high - low) / factor));
  const start = at - ((at - low) / (high - low)) * wanted;
  const first = Math.min(Math.max(least, start), most - wanted);
  return [first, first + wanted] as const;
}

/** The view after a move by parts of its own size: 0.5 is half a view to the right, or up. */
export function panView(view: MapView, whole: MapView, time: number, address: number): MapView {
  const ns = limited((view.until - view.from) * time, whole.from - view.from, whole.until - view.until);
  const bytes = limited((view.high - view.low) * address, whole.low - view.low, whole.high - view.high);
  return { from: view.from + ns, until: view.until + ns, low: view.low + bytes, high: view.high + bytes };
}

function limited(value: number, low: number, high: number): number {
  return Math.min(high, Math.max(low, value));
}

/** The view of the same time with the addresses that are used in it, or null if they fill most of the view already. */
export function usedView(view: MapView, whole: MapView, rects: MapRectangles, reach: MapReach | null): MapView | null {
  let low = Infinity;
  let high = -Infinity;
  for (let i = 0; i < rects.count; i++) {
    if (rects.end[i] < view.from || rects.begin[i] > view.until) continue;
    low = Math.min(low, rects.address[i]);
    high = Math.max(high, rects.address[i] + rects.size[i]);
  }
  for (let i = 0; reach && i < reach.count; i++) {
    if (reach.end[i] >= view.from && reach.begin[i] <= view.until) {
      low = Math.min(low, whole.low);
      high = Math.max(high, reach.top[i]);
    }
  }
  const margin = (high - low) * 0.04;
  const found = { ...view, low: Math.max(whole.low, low - margin), high: Math.min(whole.high, high + margin) };
  const span = found.high - found.low;
  return span >= LEAST_BYTES && span < 0.8 * (view.high - view.low) ? found : null;
}

/** The rectangle at a place, or -1. Of several within the tolerance, the smallest is meant. */
export function rectangleAt(rects: MapRectangles, ns: number, address: number, slackNs = 0, slackBytes = 0): number {
  let found = -1;
  let least = Infinity;
  const { begin, end, address: low, size } = rects;
  for (let i = 0; i < rects.count; i++) {
    if (ns < begin[i] - slackNs || ns > end[i] + slackNs) continue;
    if (address < low[i] - slackBytes || address >= low[i] + size[i] + slackBytes) continue;
    const inside = ns >= begin[i] && ns <= end[i] && address >= low[i] && address < low[i] + size[i];
    const area = (end[i] - begin[i] + 1) * size[i] * (inside ? 1 : 1e6); // one that is hit comes first
    if (area < least) {
      least = area;
      found = i;
    }
  }
  return found;
}

/** Rectangles that are there at a moment, lowest address first. */
export function liveAt(rects: MapRectangles, ns: number): number[] {
  const found: number[] = [];
  for (let i = 0; i < rects.count; i++) {
    if (rects.begin[i] <= ns && (ns < rects.end[i] || (rects.live[i] && ns <= rects.end[i]))) found.push(i);
  }
  return found.sort((a, b) => rects.address[a] - rects.address[b]);
}

/** The index of the program that reaches highest at a moment, or null. */
export function reachAt(reach: MapReach | null, ns: number): number | null {
  let found: number | null = null;
  for (let i = 0; reach && i < reach.count; i++) {
    if (reach.begin[i] <= ns && ns < reach.end[i] && (found === null || reach.top[i] > reach.top[found])) found = i;
  }
  return found;
}

/**
 * What is used and free in the bank at a moment, as the allocator counts it: it gives out addresses that programs use,
 * too. `reach` says up to where the program goes that reaches highest. L1_SMALL and the region of traces do not count.
 */
export function bankAt(
  map: Pick<ReportMap, "main_base" | "main_size" | "columns" | "rows">,
  rects: MapRectangles,
  reach: MapReach | null,
  coverage: Uint8Array | null,
  ns: number,
  lengthNs: number,
): BankAtMoment {
  const top = map.main_base + map.main_size;
  const program = reachAt(reach, ns);
  let at = map.main_base;
  let used = 0;
  let lowest: number | null = null;
  const free: FreeBlock[] = [];
  for (const i of liveAt(rects, ns)) {
    const low = rects.address[i];
    const high = low + rects.size[i];
    if (low >= top || high <= map.main_base) continue; // L1_SMALL, or a trace
    lowest ??= low;
    if (low > at) free.push({ low: at, high: low });
    used += Math.max(0, high - Math.max(at, low));
    at = Math.max(at, high);
  }
  if (at < top) free.push({ low: at, high: top });
  let largest: FreeBlock | null = null;
  for (const block of free) if (!largest || block.high - block.low > largest.high - largest.low) largest = block;
  return { used, free, largest, lowest, reach: program, complete: !coveredAt(map, coverage, ns, lengthNs) };
}

/** Whether allocations without a rectangle were there at a moment. */
function coveredAt(
  map: Pick<ReportMap, "columns" | "rows">,
  coverage: Uint8Array | null,
  ns: number,
  lengthNs: number,
): boolean {
  if (!coverage || lengthNs <= 0) return false;
  const column = Math.min(map.columns - 1, Math.floor((ns / lengthNs) * map.columns));
  for (let row = 0; row < map.rows; row++) if (coverage[column * map.rows + row] > 0) return true;
  return false;
}

/** Addresses of lines across the map, multiples of a power of two. */
export function addressTicks(low: number, high: number, most: number): { step: number; ticks: number[] } {
  let step = 1;
  while ((high - low) / step > Math.max(1, most)) step *= 2;
  const ticks: number[] = [];
  for (let at = Math.ceil(low / step) * step; at <= high; at += step) ticks.push(at);
  return { step, ticks };
}

/** Times of lines down the map, multiples of 1, 2 or 5 times a power of ten. */
export function timeTicks(from: number, until: number, most: number): { step: number; ticks: number[] } {
  const least = (until - from) / Math.max(1, most);
  const power = 10 ** Math.floor(Math.log10(Math.max(1, least)));
  const step = ([1, 2, 5, 10].find((factor) => factor * power >= least) ?? 10) * power;
  const ticks: number[] = [];
  for (let at = Math.ceil(from / step) * step; at <= until; at += step) ticks.push(at);
  return { step, ticks };
}
