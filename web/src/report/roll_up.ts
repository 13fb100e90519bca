// SPDX-License-Identifier: Apache-2.0
/** Sums of call sites by one of their properties, and the choice of call sites by filters. */
import type { SiteAmounts } from "../data/window_sums";
import type { Report, ReportSite } from "../documents";
import type { By, SiteFilter } from "./state";

export interface SumRow {
  key: string;
  known: boolean; // the property is known
  bytes: number;
  count: number;
  change: number; // of live bytes, over the window
  allocated: number;
  freed: number;
  made: number;
  ended: number;
  sites: number;
  kinds: Set<number>;
}

/** The text of a property of a call site. */
export function siteText(report: Report, site: ReportSite, by: By): string {
  if (by === "kind") return report.kinds[site.kind];
  if (site.other > 0) return `${site.other} other call sites`;
  const number = site[by];
  return number < 0 ? "not known" : report.strings[number];
}

/** A row for each value of the property, of the call sites in the mask. Rows without anything are left out. */
export function rollUpBy(report: Report, by: By, amounts: SiteAmounts, mask: Uint8Array): SumRow[] {
  const rows = new Map<string, SumRow>();
  report.sites.forEach((site, i) => {
    if (
      !mask[i] ||
      (amounts.bytes[i] === 0 && amounts.made[i] === 0 && amounts.ended[i] === 0 && amounts.before[i] === 0)
    ) {
      return;
    }
    const key = siteText(report, site, by);
    let row = rows.get(key);
    if (row === undefined) {
      const known = by === "kind" || (site.other === 0 && site[by] >= 0);
      row = {
        key,
        known,
        bytes: 0,
        count: 0,
        change: 0,
        allocated: 0,
        freed: 0,
        made: 0,
        ended: 0,
        sites: 0,
        kinds: new Set(),
      };
      rows.set(key, row);
    }
    row.bytes += amounts.bytes[i];
    row.count += amounts.count[i];
    row.change += amounts.bytes[i] - amounts.before[i];
    row.allocated += amounts.allocated[i];
    row.freed += amounts.freed[i];
    row.made += amounts.made[i];
    row.ended += amounts.ended[i];
    row.sites += Math.max(1, site.other);
    row.kinds.add(site.kind);
  });
  return [...rows.values()].sort((a, b) => b.bytes - a.bytes);
}

/** 1 for each call site of the pool that passes the filters. */
export function siteMask(report: Report, pool: string | null, only: SiteFilter | null, search: string): Uint8Array {
  const kinds = pool === null ? null : new Set(report.pools[pool] ?? []);
  const wanted = search.trim().toLowerCase();
  const hits = wanted === "" ? null : report.strings.map((text) => text.toLowerCase().includes(wanted));
  const stackHits = hits === null ? null : stacksWith(report, hits);
  return Uint8Array.from(report.sites, (site) => {
    if (kinds !== null && !kinds.has(site.kind)) return 0;
    if (only !== null && siteText(report, site, only.by) !== only.key) return 0;
    if (hits === null || stackHits === null) return 1;
    const own = [site.op, site.shape, site.line, site.part].some((number) => number >= 0 && hits[number]);
    return own || (site.stack >= 0 && stackHits[site.stack] === 1) || report.kinds[site.kind].includes(wanted) ? 1 : 0;
  });
}

/** 1 for each node of the stacks that has a frame with a hit in it or above it. */
function stacksWith(report: Report, hits: boolean[]): Uint8Array {
  const { parent, name } = report.stacks;
  const found = new Uint8Array(parent.length);
  for (let node = 0; node < parent.length; node++) {
    if (hits[name[node]] || (parent[node] >= 0 && found[parent[node]])) found[node] = 1;
  }
  return found;
}

/** A value for each call site, 0 where the mask is not set. */
export function masked(values: Float64Array, mask: Uint8Array): Float64Array {
  return values.map((value, i) => (mask[i] ? value : 0));
}
