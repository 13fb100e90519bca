// SPDX-License-Identifier: Apache-2.0
/** Where the ticks of an axis are: round numbers of seconds, powers of two of bytes, round counts. */
import { compact, short } from "./format";

export type Unit = "bytes" | "per_second" | "count";

/** Ticks between two times in ns, at most one per `pixels` of the width. */
export function timeTicks(from: number, until: number, width: number, pixels = 110): { ticks: number[]; step: number } {
  const step = timeStep(((until - from) * pixels) / Math.max(1, width));
  const ticks: number[] = [];
  for (let at = Math.ceil(from / step) * step; at <= until; at += step) ticks.push(at);
  return { ticks, step };
}

function timeStep(least: number): number {
  const seconds = [15, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 43200, 86400].map((s) => s * 1e9);
  if (least <= 10e9) return roundStep(Math.max(1, least));
  return seconds.find((step) => step >= least) ?? Math.ceil(least / 86400e9) * 86400e9;
}

/** 1, 2 or 5 times a power of ten, at least `least`. */
function roundStep(least: number): number {
  const power = 10 ** Math.floor(Math.log10(least));
  return power * ([1, 2, 5, 10].find((factor) => factor * power >= least * 0.999999) ?? 10);
}

/** Ticks from 0 to the highest value. */
export function valueTicks(highest: number, unit: Unit, most: number): number[] {
  if (!(highest > 0)) return [0];
  const least = highest / Math.max(1, most);
  const step = unit === "bytes" ? 2 ** Math.ceil(Math.log2(Math.max(1, least))) : roundStep(Math.max(1, least));
  const ticks: number[] = [];
  for (let at = 0; at <= highest * 1.0001; at += step) ticks.push(at);
  return ticks;
}

export function valueText(value: number, unit: Unit): string {
  if (unit === "bytes") return short(value);
  return unit === "per_second" ? `${compact(value)}/s` : compact(value);
}
