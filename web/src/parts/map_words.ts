// SPDX-License-Identifier: Apache-2.0
/** Colours and words of an address map: what a rectangle, a program or a free place is. */
import type { ReportMap } from "../documents";
import type { Colour } from "./colours";
import { lineColours, mix, opColours, sequential } from "./colours";
import { address, duration, exact, human, moment, plural } from "./format";
import type { SiteNames } from "./kind_words";
import { kindWords, operationOf } from "./kind_words";
import type { BankAtMoment, MapReach, MapRectangles } from "./map_layout";
import type { Theme } from "./theme";

export type MapColouring = "op" | "age" | "line";

export type MapNames = SiteNames;

/** One entry of the legend. */
export interface LegendEntry {
  label: string;
  title: string; // the whole name
  colour: Colour;
  others?: boolean;
}

const UNKNOWN = "not known";
const FOLDERS = /^\S*\/(?=[^/\s]+:\d+)/; // in front of "model.py:20 main"
const SHORT_LIFE_NS = 1e4;
const DIMMED = 0.8;

export function textOf(names: MapNames, index: number, unknown = UNKNOWN): string {
  return index < 0 ? unknown : (names.strings[index] ?? unknown);
}

export function opOf(names: MapNames, site: number): string {
  const found = names.sites[site];
  if (!found) return UNKNOWN;
  return found.other > 0 ? `other call sites, ${kindWords(names.kinds[found.kind])}` : operationOf(names, found);
}

/** How long a life is on a logarithmic scale, 0 for short ones, 1 for the whole recording. */
export function agePart(life: number, lengthNs: number): number {
  const span = Math.log(Math.max(lengthNs, 2 * SHORT_LIFE_NS) / SHORT_LIFE_NS);
  return Math.min(1, Math.max(0, Math.log(Math.max(life, SHORT_LIFE_NS) / SHORT_LIFE_NS) / span));
}

/** The colour of each rectangle. Rectangles of other call sites than `highlighted` are dimmed. */
export function rectangleColours(
  rects: MapRectangles,
  names: MapNames,
  colouring: MapColouring,
  lengthNs: number,
  theme: Theme,
  highlighted: ReadonlySet<number> | null,
  background: Colour,
): Uint32Array {
  const bySite = new Map<number, Colour>();
  const colours = new Uint32Array(rects.count);
  for (let i = 0; i < rects.count; i++) {
    const site = rects.site[i];
    let colour = bySite.get(site);
    if (colour === undefined) {
      if (colouring === "op") colour = opColours.of(opOf(names, site), theme);
      else colour = lineColours.of(textOf(names, names.sites[site]?.line ?? -1), theme);
      bySite.set(site, colour);
    }
    if (colouring === "age") colour = sequential(agePart(rects.end[i] - rects.begin[i], lengthNs), theme);
    colours[i] = highlighted && !highlighted.has(site) ? mix(colour, background, DIMMED) : colour;
  }
  return colours;
}

/** The names with the most bytes times time, and how many others there are. */
export function legendOf(
  rects: MapRectangles,
  names: MapNames,
  colouring: "op" | "line",
  theme: Theme,
  most = 8,
): LegendEntry[] {
  const areas = new Map<string, number>();
  const bySite = new Map<number, number>();
  for (let i = 0; i < rects.count; i++) {
    const area = (rects.end[i] - rects.begin[i]) * rects.size[i];
    bySite.set(rects.site[i], (bySite.get(rects.site[i]) ?? 0) + area);
  }
  for (const [site, area] of bySite) {
    const name = colouring === "op" ? opOf(names, site) : textOf(names, names.sites[site]?.line ?? -1);
    areas.set(name, (areas.get(name) ?? 0) + area);
  }
  const order = [...areas].sort((a, b) => b[1] - a[1]).map(([name]) => name);
  const colours = colouring === "op" ? opColours : lineColours;
  const shown: LegendEntry[] = order.slice(0, most).map((title) => {
    return { label: title.replace(FOLDERS, ""), title, colour: colours.of(title, theme) };
  });
  if (order.length > most) {
    const rest = order.slice(most);
    shown.push({ label: `${rest.length} more`, title: rest.slice(0, 40).join("\n"), colour: 0, others: true });
  }
  return shown;
}

export function rectangleWords(
  rects: MapRectangles,
  index: number,
  names: MapNames,
  map: Pick<ReportMap, "banks" | "pool">,
): { title: string; rows: [string, string][] } {
  const site = names.sites[rects.site[index]];
  const [begin, end, low, size] = [rects.begin[index], rects.end[index], rects.address[index], rects.size[index]];
  const rows: [string, string][] = [];
  if (site && site.shape >= 0) rows.push(["tensor", textOf(names, site.shape)]);
  if (site && site.line >= 0) rows.push(["line", textOf(names, site.line)]);
  rows.push(["address", `${address(low)} to ${address(low + size)}`]);
  rows.push(["size", `${exact(size)} in each of ${plural(map.banks, "bank")}`]);
  const until = rects.live[index] ? "never freed" : `freed at ${moment(end)}`;
  rows.push(["life", `${duration(end - begin)}, from ${moment(begin)}, ${until}`]);
  return { title: opOf(names, rects.site[index]), rows };
}

/** What is at a place without a rectangle: a program, or a free block. */
export function placeWords(
  bank: BankAtMoment,
  reach: MapReach | null,
  names: MapNames,
  at: { ns: number; address: number },
): { title: string; rows: [string, string][] } | null {
  const time: [string, string] = ["at", `${moment(at.ns)}, ${address(Math.max(0, Math.round(at.address)))}`];
  const program = bank.reach;
  const top = reach && program !== null ? reach.top[program] : null;
  if (reach && program !== null && top !== null) {
    const rows: [string, string][] = [time, ["reaches up to", address(top)]];
    if (bank.lowest !== null) rows.push(["headroom", headroomWords(bank.lowest - top)]);
    if (at.address < top) return { title: `program of ${opOf(names, reach.site[program])}`, rows };
  }
  const block = bank.free.find((one) => at.address >= one.low && at.address < one.high);
  if (!block) return null;
  const rows: [string, string][] = [
    time,
    ["free block", `${address(block.low)} to ${address(block.high)}`],
    ["size", `${bank.complete ? "" : "at most "}${exact(block.high - block.low)} in each bank`],
  ];
  if (reach && program !== null && top !== null && block.high === bank.lowest) {
    rows.push(["headroom", `${exact(block.high - top)} above the program of ${opOf(names, reach.site[program])}`]);
  }
  return { title: "free", rows };
}

export function headroomWords(bytes: number): string {
  return bytes < 0 ? `clash by ${human(-bytes)}` : human(bytes);
}

/** One sentence about the bank at a moment: as the allocator counts it, and the headroom above programs. */
export function bankWords(bank: BankAtMoment, reach: MapReach | null, ns: number): string {
  const free = bank.free.reduce((sum, block) => sum + block.high - block.low, 0);
  const limit = bank.complete ? "" : "at most ";
  const largest = bank.largest ? `, largest ${limit}${human(bank.largest.high - bank.largest.low)}` : "";
  const blocks = bank.free.length > 0 ? ` in ${plural(bank.free.length, "block")}${largest}` : "";
  const used = `${bank.complete ? "" : "at least "}${human(bank.used)}`;
  const program = reach && bank.reach !== null && bank.lowest !== null ? bank.lowest - reach.top[bank.reach] : null;
  const headroom = program === null ? "" : `; headroom above the programs ${limit}${headroomWords(program)}`;
  return `At ${moment(ns)} in each bank: buffers ${used}, free ${limit}${human(free)}${blocks}${headroom}`;
}
