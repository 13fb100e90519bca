// SPDX-License-Identifier: Apache-2.0
/** Peaks on the pages: those that are only lower limits are marked. */
import { expect, test, vi } from "vitest";
import type { VNode } from "preact";
import type { ChipShare, EndedPhase, ProcessRow, StatsKindRow } from "../src/documents";
import { Meter } from "../src/live/meter";
import { peakLimit } from "../src/live/process_table";
import { phasePeak } from "../src/live/processes_view";
import { kindColumns } from "../src/report/statistics";

function processOf(...chips: Partial<ChipShare>[]): ProcessRow {
  return { chips } as unknown as ProcessRow;
}

test("the highest peak of several chips is exact if no other can have been higher", () => {
  const exact = { peak_dram: 300, peak_dram_at_most: null };
  expect(peakLimit(processOf(exact))).toBe(null);
  expect(peakLimit(processOf(exact, { peak_dram: 100, peak_dram_at_most: 200 }))).toBe(null);
  expect(peakLimit(processOf(exact, { peak_dram: 100, peak_dram_at_most: 400 }))).toBe(400);
  expect(peakLimit(processOf({ peak_dram: null, peak_dram_at_most: null }))).toBe(null);
  expect(peakLimit(processOf({ peak_dram: 5 }))).toBe(null); // an older server does not report limits
});

test("a bar names the limits of its peak", () => {
  vi.stubGlobal("document", { documentElement: { dataset: { theme: "dark" } } });
  const title = (peakAtMost: number | null) =>
    (Meter({ label: "DRAM", parts: [], used: 1, capacity: 9, peak: 3, peakAtMost }) as VNode<{ title: string }>).props.title;
  expect(title(null)).toBe("DRAM: 1 B of 9 B, peak 3 B");
  expect(title(4)).toBe("DRAM: 1 B of 9 B, peak ≥ 3 B, at most 4 B; records were lost");
});

test("phases that were not observed completely have lower limits", () => {
  const phase = (partial: number) => ({ partial, rows: [{ pool: "dram", peak: 1024 }] }) as unknown as EndedPhase;
  const column = phasePeak("dram", "peak DRAM");
  expect(column.render?.(phase(0))).toBe("1 KiB");
  expect((column.render?.(phase(1)) as VNode).props.children).toBe("≥ 1 KiB");
  expect(phasePeak("l1", "peak L1").render?.(phase(1))).toBe("-");
});

test("statistics of a recording that lost records have lower limits", () => {
  const row = { peak: { per_chip: 1024 } } as unknown as StatsKindRow;
  const shown = (lost: boolean) => {
    const column = kindColumns(lost).find((one) => one.key === "peak");
    return (column?.render?.(row) as VNode).props.children;
  };
  expect([shown(false), shown(true)]).toEqual(["1 KiB", "≥ 1 KiB"]);
});
