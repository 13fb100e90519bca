// SPDX-License-Identifier: Apache-2.0
/**
 * Puts two recordings on one axis. Phases of the same name are at the same place: between two places that are known of
 * both, the axis is as long as the longer of the two recordings takes there, and the other is stretched.
 */
import type { ReportPhase } from "../documents";

export type Side = "old" | "new";

/** A time of both recordings that is the same place. */
export type Anchor = readonly [old: number, new: number];

interface Stretch {
  begin: number; // on the axis
  length: number;
  old: number; // time of the recording at the start
  oldLength: number;
  new: number;
  newLength: number;
}

export class Alignment {
  readonly length: number;
  private readonly stretches: Stretch[] = [];

  constructor(
    anchors: readonly Anchor[],
    private readonly lengths: Record<Side, number>,
    private readonly stretched: boolean,
  ) {
    let [a, b, at] = [0, 0, 0];
    for (const [old, next] of [...anchors, [lengths.old, lengths.new] as const]) {
      if (old < a || next < b) continue; // phases of several processes may overlap: the order of the first ones counts
      const length = Math.max(old - a, next - b);
      if (length > 0) {
        this.stretches.push({ begin: at, length, old: a, oldLength: old - a, new: b, newLength: next - b });
      }
      [a, b, at] = [old, next, at + length];
    }
    this.length = Math.max(1, at);
  }

  /** The time of a recording at a place of the axis. Null where it has nothing beside the other one. */
  time(side: Side, place: number): number | null {
    if (!this.stretched) return place <= this.lengths[side] ? place : null;
    const found = this.stretchAt(place);
    if (found === undefined) return 0;
    const length = found[`${side}Length`];
    if (length === 0) return null;
    return found[side] + (length * (Math.min(place, found.begin + found.length) - found.begin)) / found.length;
  }

  /** As `time`; where the recording has nothing, the time that it stands at. */
  timeOrBefore(side: Side, place: number): number {
    return this.time(side, place) ?? (this.stretched ? (this.stretchAt(place)?.[side] ?? 0) : this.lengths[side]);
  }

  /** The place of a time of a recording: the first, if there are several. */
  place(side: Side, time: number): number {
    if (!this.stretched) return time;
    for (const one of this.stretches) {
      const length = one[`${side}Length`];
      if (length > 0 && time <= one[side] + length) return one.begin + (one.length * Math.max(0, time - one[side])) / length;
    }
    return this.length;
  }

  private stretchAt(place: number): Stretch | undefined {
    let low = 0;
    let high = this.stretches.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.stretches[middle].begin <= place) low = middle;
      else high = middle - 1;
    }
    return this.stretches[low];
  }
}

/** Both recordings begin together, and neither is stretched. */
export function byTime(old: number, next: number): Alignment {
  return new Alignment([], { old, new: next }, false);
}

/** Aligned at the start and the end of each outermost phase that both have, in the same order. */
export function byPhase(old: readonly ReportPhase[], next: readonly ReportPhase[], lengths: Record<Side, number>): Alignment {
  const anchors = matchedPhases(old, next).flatMap(([a, b]): Anchor[] => [
    [a.from_ns, b.from_ns],
    ...(a.until_ns === null || b.until_ns === null ? [] : [[a.until_ns, b.until_ns] as const]),
  ]);
  return new Alignment(anchors, lengths, true);
}

const MOST_PHASES = 1500; // of one recording: the table below has a cell for each pair

/** Pairs of outermost phases with the same name: as many as possible without changing the order. */
export function matchedPhases(old: readonly ReportPhase[], next: readonly ReportPhase[]): [ReportPhase, ReportPhase][] {
  const outermost = (phases: readonly ReportPhase[]) =>
    phases.filter((phase) => phase.depth === 0).sort((a, b) => a.from_ns - b.from_ns).slice(0, MOST_PHASES);
  const [a, b] = [outermost(old), outermost(next)];
  const wide = b.length + 1;
  const longest = new Uint16Array((a.length + 1) * wide); // from each pair of places to the end
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      longest[i * wide + j] =
        a[i].name === b[j].name
          ? longest[(i + 1) * wide + j + 1] + 1
          : Math.max(longest[(i + 1) * wide + j], longest[i * wide + j + 1]);
    }
  }
  const pairs: [ReportPhase, ReportPhase][] = [];
  for (let i = 0, j = 0; i < a.length && j < b.length; ) {
    if (a[i].name === b[j].name) pairs.push([a[i++], b[j++]]);
    else if (longest[(i + 1) * wide + j] >= longest[i * wide + j + 1]) i++;
    else j++;
  }
  return pairs;
}
