// SPDX-License-Identifier: Apache-2.0
/** The panels of a timeline: which series they have, at the level of detail that fits what is shown. */
import type { Columns } from "../data/columns";
import type { Report, ReportGroup, ReportLevel, ReportSeries } from "../documents";
import type { ChartData } from "../parts/chart";
import type { Colour } from "../parts/colours";
import { css, kindColour, oklch } from "../parts/colours";
import type { Theme } from "../parts/theme";

export interface Panel {
  name: string;
  series: ReportSeries[];
  unit: ReportSeries["unit"];
  capacity: number | null;
}

/** Series of one panel share an axis. Panels keep the order in which they occur. */
export function panelsOf(group: ReportGroup): Panel[] {
  const panels = new Map<string, Panel>();
  for (const series of group.series) {
    // Free blocks of DRAM and of L1 differ too much for one axis.
    const key = series.panel === "free" ? series.name : series.panel;
    const panel = panels.get(key);
    if (panel === undefined) {
      panels.set(key, { name: key, series: [series], unit: series.unit, capacity: series.capacity });
    } else {
      panel.series.push(series);
      panel.capacity ??= series.capacity;
    }
  }
  return [...panels.values()];
}

/** The level with most detail that has all of what is shown, or null for the whole timeline. */
export function levelFor(group: ReportGroup, from: number, until: number): ReportLevel | null {
  const fitting = group.levels.filter((level) => level.from_ns <= from && until <= level.until_ns);
  fitting.sort((a, b) => a.until_ns - a.from_ns - (b.until_ns - b.from_ns));
  return fitting[0] ?? null;
}

/** Buckets that divide the time from `begin` to `end` equally. */
export function chartData(panel: Panel, columns: Columns, begin: number, end: number, theme: Theme): ChartData {
  const lines = panel.series.map((series, i) => ({
    label: series.label,
    colour: css(seriesColour(series, i, theme)),
    low: columns[`${series.name}.low`] ?? [],
    high: columns[`${series.name}.high`] ?? [],
    fill: panel.series.length === 1 || i === 0,
  }));
  const count = lines[0]?.high.length ?? 0;
  const times = Float64Array.from({ length: count }, (_, i) => begin + ((end - begin) * i) / count);
  return { times, end, lines };
}

const SERIES_KINDS: Record<string, string> = {
  dram: "dram",
  l1_buffers: "l1",
  circular_buffers: "cb",
  programs: "cb",
  kernels: "kernel",
  host_resident: "host",
  largest_free_dram: "dram",
  largest_free_l1: "l1",
};

/** The colour of the kind that a series is named after; others get calm colours. */
export function seriesColour(series: ReportSeries, place: number, theme: Theme): Colour {
  const kind = SERIES_KINDS[series.name];
  return kind === undefined ? oklch(theme === "light" ? 0.58 : 0.7, 0.05, 240 + 150 * place) : kindColour(kind, theme);
}

/** The bucket at a time, or -1. */
export function bucketAt(data: ChartData, time: number): number {
  const count = data.times.length;
  if (count === 0 || time < data.times[0] || time > data.end) return -1;
  return Math.min(count - 1, Math.floor(((time - data.times[0]) / (data.end - data.times[0])) * count));
}

/** Peaks of a group, for the dots in its panels: pool, time and exact value. */
export function peaksOf(group: ReportGroup): { pool: string; time: number; value: number }[] {
  return group.pools.flatMap((pool) =>
    pool.peak_ns === null || pool.peak === 0 ? [] : [{ pool: pool.pool, time: pool.peak_ns, value: pool.peak }],
  );
}

/** Times to step through with a key: exact moments of the report of one type, ascending. */
export function markTimes(report: Report, group: number, type: "failure" | "peak"): number[] {
  const marks = report.marks.filter((mark) => mark.type === type && (mark.group === group || mark.group < 0));
  const times = marks.map((mark) => mark.time_ns);
  if (type === "peak") times.push(...peaksOf(report.groups[group]).map((peak) => peak.time));
  return [...new Set(times)].sort((a, b) => a - b);
}
