// SPDX-License-Identifier: Apache-2.0
/** Names of pools and panels, as docs/glossary.md has them, and of what was recorded. */
import type { Report } from "../documents";
import { plural } from "../parts/format";

const POOLS: Record<string, string> = {
  dram: "DRAM",
  l1_buffers: "L1 buffers",
  programs: "Cached programs",
  host: "Host memory",
  system: "The runtime's own",
};
const PANELS: Record<string, string> = {
  dram: "DRAM per chip",
  l1: "L1 per chip",
  programs: "Cached programs per chip",
  events: "Events per second",
  host: "Host memory",
};

export function poolWords(pool: string): string {
  return POOLS[pool] ?? pool;
}

/** What a sum of a pool means, where it is not simply memory in use. */
export function poolNote(pool: string): string | null {
  return pool === "programs" ? "Cached programs take turns in L1: their sum is more than they use at one time." : null;
}

export function panelWords(panel: string): string {
  return PANELS[panel] ?? panel;
}

/** What was recorded. Events of other sources are not records of an agent. */
export function dataWords({ records, launches, events }: Report): string {
  if (records === 0 && events > 0) return plural(events, "event");
  const others = events > 0 ? `, ${plural(events, "other event")}` : "";
  return `${plural(records, "record")}, ${plural(launches, "launch", "launches")}${others}`;
}

export { kindWords } from "../parts/kind_words";
