// SPDX-License-Identifier: Apache-2.0
/**
 * Sums over call sites at the edges of a recording. What was live at an edge, and what was allocated and freed between
 * two edges, are differences of two columns, so any moment and any window cost the same.
 */
import type { Columns } from "./columns";

/** One value for each call site of the report; 0 for those that a group does not have. */
export interface SiteAmounts {
  bytes: Float64Array; // live at the end of the window
  count: Float64Array;
  before: Float64Array; // bytes live at its begin
  allocated: Float64Array; // bytes, in the window
  freed: Float64Array;
  made: Float64Array; // allocations, in the window
  ended: Float64Array;
}

/** Indices of two edges; the same twice for a moment. */
export type EdgeRange = readonly [from: number, until: number];

export class WindowSums {
  readonly edges: ArrayLike<number>;
  private readonly site: ArrayLike<number>;
  private readonly allocated: ArrayLike<number>;
  private readonly freed: ArrayLike<number>;
  private readonly made: ArrayLike<number>;
  private readonly ended: ArrayLike<number>;

  constructor(
    columns: Columns,
    private readonly sites: number,
  ) {
    this.edges = Float64Array.from(columns.time, (time) => Math.max(0, time)); // the first is -1: before everything
    this.site = columns.site;
    this.allocated = columns.allocated;
    this.freed = columns.freed;
    this.made = columns.made;
    this.ended = columns.ended;
    if (this.allocated.length !== this.edges.length * this.site.length) {
      throw new Error(`${this.allocated.length} sums for ${this.site.length} call sites at ${this.edges.length} edges`);
    }
  }

  amounts([from, until]: EdgeRange): SiteAmounts {
    const column = () => new Float64Array(this.sites);
    const sums: SiteAmounts = {
      bytes: column(),
      count: column(),
      before: column(),
      allocated: column(),
      freed: column(),
      made: column(),
      ended: column(),
    };
    const edges = this.edges.length;
    for (let row = 0; row < this.site.length; row++) {
      const site = this.site[row];
      const a = row * edges + from;
      const b = row * edges + until;
      sums.bytes[site] = this.allocated[b] - this.freed[b];
      sums.count[site] = this.made[b] - this.ended[b];
      sums.before[site] = this.allocated[a] - this.freed[a];
      sums.allocated[site] = this.allocated[b] - this.allocated[a];
      sums.freed[site] = this.freed[b] - this.freed[a];
      sums.made[site] = this.made[b] - this.made[a];
      sums.ended[site] = this.ended[b] - this.ended[a];
    }
    return sums;
  }

  /** Bytes that were live at each edge, over the call sites that are set in the mask: the history of a selection. */
  history(mask: ArrayLike<number>): Float64Array {
    const edges = this.edges.length;
    const sum = new Float64Array(edges);
    for (let row = 0; row < this.site.length; row++) {
      if (!mask[this.site[row]]) continue;
      const start = row * edges;
      for (let i = 0; i < edges; i++) sum[i] += this.allocated[start + i] - this.freed[start + i];
    }
    return sum;
  }

  /** The edge at a time, or the one that is nearest to it. */
  nearest(time: number): number {
    const after = lowerBound(this.edges, time);
    if (after === 0) return 0;
    if (after === this.edges.length) return this.edges.length - 1;
    return time - this.edges[after - 1] < this.edges[after] - time ? after - 1 : after;
  }

  /** Both ends snapped; a window has at least one step, if there are two edges. */
  snap(from: number, until: number): EdgeRange {
    const a = this.nearest(from);
    if (from === until) return [a, a];
    const b = this.nearest(until);
    if (a !== b) return a < b ? [a, b] : [b, a];
    return b + 1 < this.edges.length ? [a, b + 1] : [Math.max(0, a - 1), b];
  }
}

/** The first index whose value is at least `value`. */
export function lowerBound(sorted: ArrayLike<number>, value: number): number {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low;
}
