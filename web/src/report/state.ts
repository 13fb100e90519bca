// SPDX-License-Identifier: Apache-2.0
/** What the reader chose: chip group, moment or window, pool, filters. It is kept in the hash of the page's address. */
import type { Report, ReportGroup, ReportPool } from "../documents";

export type By = "line" | "op" | "shape" | "part" | "kind";
export const BY: readonly By[] = ["line", "op", "shape", "part", "kind"];

/** Call sites that have this text for a property; for a kind, the label. */
export interface SiteFilter {
  by: By;
  key: string;
}

export interface ReportState {
  group: number;
  from: number; // ns, as chosen; the page snaps it to an edge
  until: number; // the same for a moment
  view: readonly [number, number] | null; // part of the timeline that is shown; null: all of it
  pool: string;
  by: By | "program"; // what the table of origins sums by
  search: string;
  only: SiteFilter | null;
  failure: number; // which explanation is shown
  picked: number | null; // number of an allocation
}

export function initialState(report: Report): ReportState {
  const failure = report.marks.find((mark) => mark.type === "failure");
  const group = failure !== undefined && failure.group >= 0 ? failure.group : 0;
  const pool = mainPool(report.groups[group]);
  const moment = failure?.time_ns ?? pool?.peak_ns ?? report.length_ns;
  return {
    group,
    from: moment,
    until: moment,
    view: null,
    pool: pool?.pool ?? "dram",
    by: "line",
    search: "",
    only: null,
    failure: 0,
    picked: null,
  };
}

/** The pool that is closest to its capacity; without capacities, the first in which there was something. */
export function mainPool(group: ReportGroup | undefined): ReportPool | undefined {
  const used = (group?.pools ?? []).filter((pool) => pool.peak > 0);
  const share = (pool: ReportPool) => (pool.capacity ? pool.peak / pool.capacity : 0);
  return used.sort((a, b) => share(b) - share(a))[0] ?? group?.pools[0];
}

export function isWindow(state: Pick<ReportState, "from" | "until">): boolean {
  return state.from !== state.until;
}

/** The part of the hash after "#". Only what differs from the initial state is written. */
export function toHash(state: ReportState, initial: ReportState): string {
  const parts = new URLSearchParams();
  if (state.group !== initial.group) parts.set("group", String(state.group));
  if (state.from !== initial.from || state.until !== initial.until) {
    parts.set("at", isWindow(state) ? `${state.from}-${state.until}` : String(state.from));
  }
  if (state.view !== null) parts.set("view", state.view.map(Math.round).join("-"));
  if (state.pool !== initial.pool) parts.set("pool", state.pool);
  if (state.by !== initial.by) parts.set("by", state.by);
  if (state.search !== "") parts.set("search", state.search);
  if (state.only !== null) parts.set(`only.${state.only.by}`, state.only.key);
  if (state.failure !== 0) parts.set("failure", String(state.failure));
  if (state.picked !== null) parts.set("allocation", String(state.picked));
  return parts.toString();
}

/** The state of a hash. Values that this report cannot have are ignored. */
export function fromHash(hash: string, report: Report, initial: ReportState): ReportState {
  const parts = new URLSearchParams(hash.replace(/^#/, ""));
  const state = { ...initial };
  const group = wholeNumber(parts.get("group"), report.groups.length - 1);
  if (group !== null) state.group = group;
  const at = times(parts.get("at"), report.length_ns);
  if (at !== null) [state.from, state.until] = at;
  const view = times(parts.get("view"), report.length_ns);
  if (view !== null && view[0] < view[1]) state.view = view;
  const pool = parts.get("pool");
  if (pool !== null && pool in report.pools) state.pool = pool;
  const by = parts.get("by");
  if (BY.includes(by as By) || by === "program") state.by = by as ReportState["by"];
  state.search = parts.get("search") ?? "";
  for (const property of BY) {
    const key = parts.get(`only.${property}`);
    if (key !== null) state.only = { by: property, key };
  }
  const failure = wholeNumber(parts.get("failure"), report.explained.length - 1);
  if (failure !== null) state.failure = failure;
  state.picked = wholeNumber(parts.get("allocation"), report.allocations.total) ?? initial.picked;
  return state;
}

function wholeNumber(text: string | null, largest: number): number | null {
  if (text === null || !/^\d+$/.test(text)) return null;
  const value = Number(text);
  return value <= largest ? value : null;
}

function times(text: string | null, largest: number): readonly [number, number] | null {
  const match = /^(\d+)(?:-(\d+))?$/.exec(text ?? "");
  if (match === null) return null;
  const from = Number(match[1]);
  const until = match[2] === undefined ? from : Number(match[2]);
  return from <= until && until <= largest ? [from, until] : null;
}
