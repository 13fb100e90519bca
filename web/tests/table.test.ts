// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import type { TableColumn } from "../src/parts/table";
import { asTsv, nextSort, sortRows } from "../src/parts/table";

type Row = { name: string; size: number | null };
const columns: TableColumn<Row>[] = [
  { key: "name", label: "Name", value: (row) => row.name },
  { key: "size", label: "Size", value: (row) => row.size, right: true },
];
const rows: Row[] = [
  { name: "b", size: 2 },
  { name: "a\tx\ny", size: null },
  { name: "c", size: 30 },
];

describe("tables", () => {
  it("sort by a column; what is not known comes last in both directions", () => {
    expect(sortRows(rows, columns, "size").map((row) => row.size)).toEqual([2, 30, null]);
    expect(sortRows(rows, columns, "-size").map((row) => row.size)).toEqual([30, 2, null]);
    expect(sortRows(rows, columns, "name").map((row) => row.name[0])).toEqual(["a", "b", "c"]);
    expect(sortRows(rows, columns, "")).toEqual(rows);
  });
  it("sort numbers from the largest, texts from the first, then the other way", () => {
    expect(nextSort("", "size", columns)).toBe("-size");
    expect(nextSort("-size", "size", columns)).toBe("size");
    expect(nextSort("-size", "name", columns)).toBe("name");
    expect(nextSort("name", "name", columns)).toBe("-name");
  });
  it("are copied with tabs between values, and none inside of them", () => {
    expect(asTsv(rows, columns)).toBe("Name\tSize\nb\t2\na x y\t\nc\t30");
  });
});
