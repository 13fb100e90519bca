// SPDX-License-Identifier: Apache-2.0
/** An allocation on a mesh of chips 0 to 3, 1 KiB on each, in the tables of the live page. */
import { expect, test } from "vitest";
import type { AllocationRow, BreakdownRow, Snapshot } from "../src/documents";
import { allocationColumns, breakdownColumns } from "../src/live/allocations_view";
import { chipNames } from "../src/live/chip_names";
import { asTsv, type TableColumn } from "../src/parts/table";

const CHIPS = ["a", "b", "c", "d", "e"];
const SNAPSHOT = {
  time: "2026-01-01T00:00:10Z",
  chips: CHIPS.map((chip, kmd) => ({ chip, kmd })),
} as unknown as Snapshot;
const COLUMNS = allocationColumns({ names: chipNames(SNAPSHOT), snapshot: SNAPSHOT });

function allocation(chips: string[], otherChips: string[]): AllocationRow {
  const row = { pid: 7, chips, other_chips: otherChips, devices: [0, 1, 2, 3], kind: "dram", id: "0x1000" };
  const more = { address: 0x1000, size: 1024, reserved: 2048, refs: 1, operation: "ttnn.add", tag: null, shape: "[32, 32]" };
  return { ...row, ...more, line: null, stack: null, since: 1767225605 } as unknown as AllocationRow;
}

function breakdown(more: Partial<BreakdownRow>): BreakdownRow {
  const whole = { op: "ttnn.add", bytes: 4096, per_chip: 1024, chips: 4, count: 1, reserved: 8192, other_chips: 0 };
  return { ...whole, largest: 1024, kinds: { dram: 4096 }, ...more };
}

/** The texts that rows copy, under these columns. */
function texts<Row>(rows: Row[], columns: TableColumn<Row>[], ...keys: string[]): string[] {
  const chosen = keys.map((key) => {
    const column = columns.find((one) => one.key === key);
    if (column === undefined) throw new Error(`no column ${key}`);
    return column;
  });
  return asTsv(rows, chosen).trimEnd().split("\n");
}

test("an allocation on several chips is one row, with all its chips and its size on one", () => {
  expect(texts([allocation(CHIPS.slice(0, 4), [])], COLUMNS, "size", "operation", "chips")).toEqual([
    "size per chip\toperation or tag\tchips",
    "1024\tttnn.add\t0-3",
  ]);
});

test("with a chosen chip, the row has the other chips of the allocation too", () => {
  expect(texts([allocation(["c"], ["a", "b", "d"])], COLUMNS, "size", "chips")).toEqual(["size per chip\tchips", "1024\t0-3"]);
  expect(texts([allocation(["e"], [])], COLUMNS, "size", "chips")).toEqual(["size per chip\tchips", "1024\t4"]);
});

test("groups have bytes per chip and on all chips; with a chosen chip, both are those on it", () => {
  const keys = ["op", "per_chip", "count", "largest", "chips", "bytes"];
  const onOne = breakdown({ bytes: 1024, chips: 1, other_chips: 3, kinds: { dram: 1024 } });
  expect(texts([breakdown({})], breakdownColumns("op", 16384), ...keys)).toEqual([
    "operation\tper chip\tallocations\tlargest\tchips\ton all chips",
    "ttnn.add\t1024\t1\t1024\t4\t4096",
  ]);
  expect(texts([onOne], breakdownColumns("op", 4096), ...keys)[1]).toBe("ttnn.add\t1024\t1\t1024\t1\t1024");
  const share = breakdownColumns("op", 16384).find((one) => one.key === "share");
  expect(share?.render?.(breakdown({}))).toBe("25 %");
});
