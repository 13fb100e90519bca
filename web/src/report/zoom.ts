// SPDX-License-Identifier: Apache-2.0
/** Which part of the time is shown. */

const LEAST_NS = 1000;

/** A part within the recording; null if it is all of it. */
export function clampView(from: number, until: number, length: number): readonly [number, number] | null {
  const span = Math.max(Math.min(until - from, length), Math.min(LEAST_NS, length));
  const begin = Math.max(0, Math.min(from, length - span));
  return span >= length ? null : [Math.round(begin), Math.round(begin + span)];
}

/** The view after a zoom by a factor (below 1: in) that keeps a time in its place. */
export function zoomed(
  from: number,
  until: number,
  at: number,
  factor: number,
  length: number,
): readonly [number, number] | null {
  const span = Math.max(LEAST_NS, (until - from) * factor);
  const begin = at - ((at - from) / (until - from)) * span;
  return clampView(begin, begin + span, length);
}

/** Moves the view so that a time range is in it; the view stays as it is if it is. */
export function showing(
  view: readonly [number, number] | null,
  from: number,
  until: number,
  length: number,
): readonly [number, number] | null {
  if (view === null || (view[0] <= from && until <= view[1])) return view;
  const span = Math.max(view[1] - view[0], (until - from) * 1.2);
  const middle = (from + until) / 2;
  return clampView(middle - span / 2, middle + span / 2, length);
}
