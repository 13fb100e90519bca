// SPDX-License-Identifier: Apache-2.0
/** Cached programs with the sums of their parts, from the allocations that the report lists. */
import type { Columns } from "../data/columns";
import type { Report } from "../documents";

export interface ProgramRow {
  program: number;
  op: string;
  line: string;
  bytes: number; // of its parts that are live
  parts: number;
  kinds: Map<number, number>; // bytes by kind
}

/** Programs that have a live part among these rows. */
export function programRows(report: Report, columns: Columns, rows: readonly number[]): ProgramRow[] {
  const programs = new Map<number, ProgramRow>();
  const text = (number: number | undefined) => (number === undefined || number < 0 ? "" : report.strings[number]);
  for (const row of rows) {
    const number = columns.program[row];
    if (number === 0) continue;
    let program = programs.get(number);
    if (program === undefined) {
      const site = report.sites[columns.site[row]];
      program = { program: number, op: text(site?.op), line: text(site?.line), bytes: 0, parts: 0, kinds: new Map() };
      programs.set(number, program);
    }
    program.bytes += columns.counted[row];
    program.parts += 1;
    program.kinds.set(columns.kind[row], (program.kinds.get(columns.kind[row]) ?? 0) + columns.counted[row]);
  }
  return [...programs.values()].sort((a, b) => b.bytes - a.bytes);
}
