// SPDX-License-Identifier: Apache-2.0
/**
 * The flame graph of what is live now, from breakdowns of the API. The breakdown by stack has no operations, so below a
 * stack are the kinds of its allocations. What has no stack comes from the breakdown by operation.
 */
import type { Breakdown, BreakdownRow, ReportSite, ReportStacks } from "../documents";

export interface LiveFlame {
  strings: string[];
  stacks: ReportStacks;
  sites: ReportSite[];
  kinds: string[];
  values: Float64Array;
  counts: Float64Array;
}

const TTNN = /((?:^|\/)(?:site|dist)-packages\/ttnn\/|\/ttnn\/ttnn\/)|^<frozen /; // as model/stack_frames.py

class Builder {
  readonly strings: string[] = [];
  readonly stacks: ReportStacks = { parent: [], name: [], type: [] };
  private readonly numbers = new Map<string, number>();
  private readonly nodes = new Map<string, number>();

  text(value: string): number {
    let number = this.numbers.get(value);
    if (number === undefined) this.numbers.set(value, (number = this.strings.push(value) - 1));
    return number;
  }

  /** The node of a stack whose frames are listed with the innermost first. */
  stack(text: string): number {
    let parent = -1;
    for (const frame of text.split("\n").reverse()) {
      const name = this.text(frame);
      const key = `${parent} ${name}`;
      let node = this.nodes.get(key);
      if (node === undefined) {
        node = this.stacks.parent.push(parent) - 1;
        this.stacks.name.push(name);
        this.stacks.type.push(TTNN.test(frame) ? "ttnn" : "frame");
        this.nodes.set(key, node);
      }
      parent = node;
    }
    return parent;
  }
}

/** Values are bytes on all requested chips, or counts of allocations: only these add up over groups on different chips. */
export function liveFlame(stacks: Breakdown | null, ops: Breakdown | null, pool: string, unit: "bytes" | "count"): LiveFlame {
  const builder = new Builder();
  const rows = poolRows(stacks, pool);
  const known = rows.filter((row) => row.stack != null);
  const sites: ReportSite[] = [];
  const bytes: number[] = [];
  const counts: number[] = [];
  const add = (row: BreakdownRow, op: number, stack: number, size: number) => {
    sites.push({ kind: 0, op, shape: -1, line: -1, stack, part: -1, other: 0 });
    bytes.push(size);
    counts.push(row.count);
  };
  if (known.length === 0) {
    for (const row of poolRows(ops, pool)) add(row, builder.text(row.op ?? "operation not known"), -1, row.bytes);
  } else {
    for (const row of known) {
      const stack = builder.stack(row.stack ?? "");
      add(row, builder.text(Object.keys(row.kinds).join(", ")), stack, row.bytes);
    }
    const rest = rows.filter((row) => row.stack == null);
    for (const row of rest) add(row, builder.text("without a call stack"), -1, row.bytes);
  }
  const values = Float64Array.from(unit === "bytes" ? bytes : counts);
  return { strings: builder.strings, stacks: builder.stacks, sites, kinds: [pool], values, counts: Float64Array.from(counts) };
}

function poolRows(document: Breakdown | null, pool: string): BreakdownRow[] {
  return document?.pools.find((one) => one.pool === pool)?.rows ?? [];
}
