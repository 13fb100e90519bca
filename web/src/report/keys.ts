// SPDX-License-Identifier: Apache-2.0
/** What keys do on a report, outside of parts that use keys themselves. */
import { toggleTheme } from "../parts/theme";
import type { ReportState } from "./state";
import { isWindow, mainPool } from "./state";
import { markTimes } from "./timeline_data";
import type { View } from "./view";
import { showing, zoomed } from "./zoom";

export const KEYS: readonly (readonly [keys: string, what: string])[] = [
  ["← →", "step to the edge before or after"],
  ["Shift ← →", "extend or shrink the window by an edge"],
  ["+ -", "zoom the timeline in or out"],
  ["p", "next peak"],
  ["f", "next failed allocation"],
  ["z", "zoom to the window"],
  ["Escape", "whole run"],
  ["g", "next chip group"],
  ["o", "next pool"],
  ["/", "filter call sites"],
  ["Backspace", "remove the filters"],
  ["d", "light or dark"],
  ["?", "this list"],
];

/** The change that a key makes, or null if it means nothing here. */
export function keyChange(key: string, shift: boolean, view: View): Partial<ReportState> | null {
  const { state, report } = view;
  const [from, until] = state.view ?? [0, report.length_ns];
  const to = (begin: number, end = begin) => ({
    from: begin,
    until: end,
    view: showing(state.view, begin, end, report.length_ns),
  });
  switch (key) {
    case "ArrowLeft":
    case "ArrowRight":
      return step(view, key === "ArrowLeft" ? -1 : 1, shift);
    case "+":
    case "=":
      return { view: zoomed(from, until, middle(view, from, until), 0.5, report.length_ns) };
    case "-":
      return { view: zoomed(from, until, middle(view, from, until), 2, report.length_ns) };
    case "p":
      return nextOf(markTimes(report, state.group, "peak"), view, to);
    case "f":
      return nextOf(markTimes(report, state.group, "failure"), view, to);
    case "z":
      return view.window ? { view: [view.from, view.until] } : null;
    case "Escape":
      return { from: 0, until: report.length_ns, view: null };
    case "g":
      return nextGroup(view);
    case "o": {
      const pools = view.group.pools.filter((pool) => pool.peak > 0).map((pool) => pool.pool);
      return { pool: pools[(pools.indexOf(state.pool) + 1) % Math.max(1, pools.length)] ?? state.pool };
    }
    case "Backspace":
      return { only: null, search: "" };
    case "d":
      toggleTheme();
      return {};
  }
  return null;
}

/** Zooming keeps the chosen moment in its place if it is visible. */
function middle(view: View, from: number, until: number): number {
  const chosen = (view.from + view.until) / 2;
  return chosen >= from && chosen <= until ? chosen : (from + until) / 2;
}

function step(view: View, by: number, shift: boolean): Partial<ReportState> | null {
  const { sums, edges, state, report } = view;
  if (sums === null) return null;
  const last = sums.edges.length - 1;
  const at = (edge: number) => sums.edges[Math.min(last, Math.max(0, edge))];
  const [from, until] = shift
    ? [at(edges[0]), at(Math.max(edges[0], edges[1] + by))]
    : [at((by < 0 ? edges[0] : edges[1]) + by), -1];
  const end = shift ? until : from;
  return { from, until: end, view: showing(state.view, from, end, report.length_ns) };
}

function nextOf(times: number[], view: View, to: (time: number) => Partial<ReportState>): Partial<ReportState> | null {
  if (times.length === 0) return null;
  const current = isWindow(view.state) ? -1 : view.state.from;
  return to(times.find((time) => time > current) ?? times[0]);
}

function nextGroup({ report, state }: View): Partial<ReportState> {
  const group = (state.group + 1) % Math.max(1, report.groups.length);
  const pools = report.groups[group].pools;
  const pool = pools.some((one) => one.pool === state.pool)
    ? state.pool
    : (mainPool(report.groups[group])?.pool ?? state.pool);
  return { group, pool };
}
