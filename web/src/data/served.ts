// SPDX-License-Identifier: Apache-2.0
/**
 * A report that `ttmem web` serves: sections are asked for one by one, and parts of the recording in more detail when
 * they are shown. These are entries that are added to the report, with names from which the server makes the section.
 */
import type { Report, ReportGroup } from "../documents";

const BUCKETS = 2048;

export async function servedSection(name: string): Promise<Uint8Array<ArrayBuffer>> {
  const path = name.split("/").map(encodeURIComponent).join("/");
  let response: Response;
  try {
    response = await fetch(`section/${path}`, { credentials: "same-origin" });
  } catch {
    throw new Error("ttmem web does not answer: it ended, or the connection to its machine is broken");
  }
  if (response.ok) return new Uint8Array(await response.arrayBuffer());
  const body = (await response.json().catch(() => null)) as { error?: string } | null;
  throw new Error(body?.error ?? `the answer has status ${response.status}`);
}

/** Details on request. */
export class ServedReport {
  private readonly added = new Set<string>();

  constructor(private readonly report: Report) {}

  /** Adds a level of detail for what is shown, unless the timeline already has so many buckets there. */
  addRange(group: ReportGroup, from: number, until: number): void {
    const { report } = this;
    const timeline = report.sections[group.timeline];
    const range = rangeOf(from, until, report.length_ns);
    if (range === null || timeline?.columns == null) return;
    const count = Math.min(BUCKETS, range.until - range.from);
    const section = `range/${report.groups.indexOf(group)}/${range.from}/${range.until}/${count}`;
    if (this.added.has(section)) return;
    this.added.add(section);
    report.sections[section] = { bytes: 0, columns: timeline.columns.map((column) => ({ ...column, count })) };
    group.levels.push({ from_ns: range.from, until_ns: range.until, section });
  }

  /** Adds the maps of the cores at an exact moment, instead of those that were added last. */
  addMoment(group: number, time: number): void {
    const { report } = this;
    const time_ns = Math.round(time);
    const others = report.moments.filter((one) => !one.cores.startsWith("moment/"));
    if (!others.some((one) => one.group === group && one.time_ns === time_ns)) {
      const section = `moment/${group}/${time_ns}`;
      report.sections[section] = { bytes: 0, columns: null };
      others.push({ time_ns, words: "at the chosen moment", group, cores: section });
    }
    report.moments = others;
  }
}

/**
 * A range that contains what is shown, twice as long or more, and the same one for small movements of the view. Null if
 * the buckets of the whole timeline are as fine.
 */
export function rangeOf(from: number, until: number, length: number): { from: number; until: number } | null {
  const width = 2 ** Math.ceil(Math.log2(2 * Math.max(1, until - from)));
  if (width >= length / 2) return null;
  const begin = Math.floor(from / (width / 2)) * (width / 2);
  return { from: Math.max(0, begin), until: Math.min(length, begin + width) };
}
