// SPDX-License-Identifier: Apache-2.0
/** Words and numbers about the L1 of cores, from the document "ttmem.cores/1": the same words as `ttmem l1` prints. */
import type { CoreDetail, CoreProgram, CoreRow, Cores, CoresAlike, OwnerRow, SegmentRow } from "../documents";
import { human, plural } from "./format";

/** Names of the kinds of segments. */
export const SEGMENT_WORDS: Record<string, string> = {
  firmware: "firmware",
  ring: "kernel ring",
  cb: "circular buffer",
  dfb: "dataflow buffer",
  scratchpad: "scratchpad",
  l1: "L1 buffer",
  l1_small: "L1_SMALL",
  free: "free",
  small_free: "free, L1_SMALL only",
  unknown: "not known",
};

/** The owner of an allocation: its name, program and process. */
export function ownerText(owner: OwnerRow): string {
  const program = owner.program === null ? null : programName(owner.program, owner.operation);
  return [owner.tag, program, processText(owner.pid, owner.name)].filter(Boolean).join(", ");
}

export function programText(program: CoreProgram | null): string {
  if (program === null) return "-";
  return `${programName(program.program, program.operation)}, ${processText(program.pid, program.name)}`;
}

function programName(number: number, operation: string | null): string {
  return operation ? `program ${number} ${operation}` : `program ${number}`;
}

function processText(pid: number | null, name: string | null): string {
  return `pid ${pid ?? "-"} ${name ?? ""}`.trim();
}

/** Whether several allocations are at the same addresses. */
export function overlaps(segment: SegmentRow): boolean {
  return segment.kind !== "unknown" && segment.owners.length > 1;
}

/** The contents of a segment: its owners, and the circular buffers inside them. */
export function segmentText(segment: SegmentRow): string {
  const owners = segment.owners.map((owner) =>
    owner.data === false ? `${ownerText(owner)} (reserved in lock step, no data here)` : ownerText(owner),
  );
  const inside = segment.inside.map((owner) => `in it ${ownerText(owner)}`);
  return (overlaps(segment) ? "Overlap: " : "") + [...owners, ...inside].join("; ");
}

export function programOf(cores: Cores, index: number | null): CoreProgram | null {
  return index === null ? null : (cores.programs[index] ?? null);
}

/** The program that ran last on a core. */
export function lastProgram(cores: Cores, core: CoreRow): string {
  const program = programOf(cores, core.program);
  if (program) return programText(program);
  return core.headroom === null ? "not known" : "none";
}

/** The core with the least headroom, the fullest of several; null if no headroom is known. */
export function worstCore(cores: Cores): CoreRow | null {
  let worst: CoreRow | null = null;
  for (const core of cores.cores) {
    if (core.headroom === null) continue;
    if (
      worst === null ||
      core.headroom < worst.headroom! ||
      (core.headroom === worst.headroom && (core.used ?? 0) > (worst.used ?? 0))
    )
      worst = core;
  }
  return worst;
}

/** Whether allocations overlap on a core, or its program reaches above the lowest L1 buffer. */
export function clashes(core: CoreRow): boolean {
  return Boolean(core.overlap) || (core.headroom !== null && core.headroom < 0);
}

/** The limit of programs: the lowest L1 buffer, or the end of L1. */
export function floorText(cores: Cores): string {
  const owner = cores.floor.owner;
  return owner === null ? "the end of L1" : `L1 buffer of ${human(owner.size)}, ${ownerText(owner)}`;
}

export function headroomText(headroom: number | null): string {
  if (headroom === null) return "not known";
  return headroom < 0 ? `clash by ${human(-headroom)}` : human(headroom);
}

/** A size for a narrow cell: "640", "33K", "1.2M". */
export function tinySize(bytes: number): string {
  if (bytes < 1000) return String(bytes);
  const kib = bytes / 1024;
  if (kib < 999.5) return `${kib < 9.95 ? Number(kib.toFixed(1)) : Math.round(kib)}K`;
  const mib = kib / 1024;
  return `${mib < 99.5 ? mib.toFixed(1) : Math.round(mib)}M`;
}

/** Adjacent segments with the same kind and owners, as one row. */
export interface SegmentGroup {
  start: number;
  end: number;
  kind: string;
  text: string;
  overlap: boolean;
  first: number; // index of the lowest segment
  count: number;
}

/** The segments of a core, lowest first. If `join` is set, adjacent ones that are alike are one row. */
export function segmentGroups(segments: readonly SegmentRow[], join: boolean): SegmentGroup[] {
  const groups: SegmentGroup[] = [];
  segments.forEach((segment, index) => {
    const text = segmentText(segment);
    const last = groups[groups.length - 1];
    if (join && last && last.kind === segment.kind && last.text === text) {
      last.end = segment.end;
      last.count++;
      return;
    }
    const { start, end, kind } = segment;
    groups.push({ start, end, kind, text, overlap: overlaps(segment), first: index, count: 1 });
  });
  return groups;
}

/** Notes under the grid: cores that are switched off or reserved, unknown parts, where sizes come from. */
export function gridNotes(cores: Cores): string[] {
  const notes: string[] = [];
  if (cores.cores.some(clashes)) notes.push("! overlap or clash");
  if (cores.cores.some((core) => core.unknown)) notes.push("? not all is known");
  if (cores.dispatch.length > 0) notes.push("D reserved for dispatch");
  if (cores.harvested) notes.push(`${plural(cores.harvested, "core")} switched off (harvested)`);
  if (cores.basis !== "live") notes.push("sizes from the table of boards");
  return notes;
}

/** Allocations that have no place in the map. */
export function unplacedText(cores: Cores): string | null {
  const count = cores.unplaced.reduce((sum, one) => sum + one.allocations, 0);
  if (count === 0) return null;
  const why = cores.unplaced.map((one) => one.why).join("; ");
  return `${plural(count, "allocation")} ${count === 1 ? "is" : "are"} not in the map: ${why}`;
}

/** The map of a core out of those that are alike. */
export function detailOf(details: readonly CoresAlike[], x: number, y: number): CoreDetail | null {
  const found = details.find((one) => one.at.some((core) => core[0] === x && core[1] === y));
  return found ? { ...(found.detail as unknown as CoreDetail), x, y } : null;
}

/** The number of columns and rows of the grid, with cores for dispatch. */
export function gridSize(cores: Cores): { columns: number; rows: number } {
  const places = [...cores.cores, ...cores.dispatch];
  return {
    columns: Math.max(cores.grid?.x ?? 0, ...places.map((core) => core.x + 1)),
    rows: Math.max(cores.grid?.y ?? 0, ...places.map((core) => core.y + 1)),
  };
}
