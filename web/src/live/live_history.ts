// SPDX-License-Identifier: Apache-2.0
/**
 * Values of the last hour, one for each second and series, from the server's history and from snapshots.
 *
 * A second without a value stays unknown, so that a restart of the server or a laptop that slept is a gap in charts.
 */
import type { ChipRow, History, Snapshot } from "../documents";

export const SERIES = ["dram_taken", "l1_at_once", "temperature_c", "power_w", "aiclk_mhz"] as const;
export type SeriesName = (typeof SERIES)[number];
const SECONDS = 3600;
export const UNKNOWN = -1;

/** Rings of one series: slot = second modulo the length. */
class Ring {
  readonly second = new Float64Array(SECONDS).fill(UNKNOWN);
  readonly last = new Float64Array(SECONDS);
  readonly high = new Float64Array(SECONDS);

  put(second: number, last: number, high: number): void {
    const slot = second % SECONDS;
    const same = this.second[slot] === second;
    if (!same && this.second[slot] > second) return; // older than what is kept
    this.second[slot] = second;
    this.last[slot] = last;
    this.high[slot] = same ? Math.max(this.high[slot], high) : high;
  }
}

export interface Stretch {
  last: Float64Array; // UNKNOWN where there is no value
  high: Float64Array;
}

export class LiveHistory {
  private readonly rings = new Map<string, Ring>();
  /** The chips of the last snapshot that had any: their charts stay when the server is gone. */
  chips: readonly ChipRow[] = [];

  /** Values of a chip for seconds from `since` up to and including `until`. */
  read(chip: string, series: SeriesName, since: number, until: number): Stretch | null {
    const ring = this.rings.get(`${chip} ${series}`);
    if (ring === undefined) return null;
    const count = Math.max(0, until - since + 1);
    const last = new Float64Array(count).fill(UNKNOWN);
    const high = new Float64Array(count).fill(UNKNOWN);
    for (let i = 0; i < count; i++) {
      const slot = (since + i) % SECONDS;
      if (ring.second[slot] !== since + i) continue;
      last[i] = ring.last[slot];
      high[i] = ring.high[slot];
    }
    return { last, high };
  }

  /** The server's history. Its chips of telemetry are PCI addresses. */
  fill(history: History, chips: readonly ChipRow[]): void {
    if (history.step !== 1) return;
    const ids = new Map<string, string>();
    for (const chip of chips) for (const name of namesOf(chip)) ids.set(name, chip.chip);
    for (const series of history.series) {
      if (!(SERIES as readonly string[]).includes(series.kind)) continue;
      const ring = this.ring(ids.get(series.chip) ?? series.chip, series.kind as SeriesName);
      series.time.forEach((time, i) => ring.put(time, series.last[i], series.max[i]));
    }
  }

  /** The values of a snapshot, for its second. */
  add(snapshot: Snapshot): void {
    const second = Math.floor(Date.parse(snapshot.time) / 1000);
    if (!Number.isFinite(second)) return;
    if (snapshot.chips.length > 0) this.chips = snapshot.chips;
    for (const chip of snapshot.chips) {
      const { dram, l1 } = chip.memory;
      this.put(chip.chip, "dram_taken", second, dram.reserved ?? dram.used);
      this.put(chip.chip, "l1_at_once", second, l1.at_once);
      const telemetry = chip.telemetry;
      if (telemetry === null || telemetry.state !== "ok") continue;
      this.put(chip.chip, "temperature_c", second, telemetry.temperature_c);
      this.put(chip.chip, "power_w", second, telemetry.power_w);
      this.put(chip.chip, "aiclk_mhz", second, telemetry.aiclk_mhz);
    }
  }

  private put(chip: string, series: SeriesName, second: number, value: number | null): void {
    if (value !== null) this.ring(chip, series).put(second, value, value);
  }

  private ring(chip: string, series: SeriesName): Ring {
    const key = `${chip} ${series}`;
    let ring = this.rings.get(key);
    if (ring === undefined) this.rings.set(key, (ring = new Ring()));
    return ring;
  }
}

/** The names under which the history has a chip. */
function namesOf(chip: ChipRow): string[] {
  const names = [chip.chip];
  if (chip.pci !== null) names.push(chip.pci);
  if (chip.kmd !== null) names.push(`kmd:${chip.kmd}`);
  return names;
}

/** The lowest and the highest value of several chips, second by second. */
export function envelope(stretches: readonly (Stretch | null)[], count: number): { low: Float64Array; high: Float64Array } {
  const low = new Float64Array(count).fill(UNKNOWN);
  const high = new Float64Array(count).fill(UNKNOWN);
  for (const stretch of stretches) {
    if (stretch === null) continue;
    for (let i = 0; i < count; i++) {
      if (stretch.last[i] < 0) continue;
      low[i] = low[i] < 0 ? stretch.last[i] : Math.min(low[i], stretch.last[i]);
      high[i] = Math.max(high[i], stretch.high[i]);
    }
  }
  return { low, high };
}
