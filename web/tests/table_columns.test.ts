// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import type { VNode } from "preact";
import { asTsv, type TableColumn } from "../src/parts/table";
import {
  addressColumn,
  bytesColumn,
  countColumn,
  durationColumn,
  kindColumn,
  lineColumn,
  momentColumn,
  numberColumn,
  peakColumn,
  secondsColumn,
} from "../src/parts/table_columns";

/** What a cell copies, and what it shows; elements as their properties. */
function cell<Row>(column: TableColumn<Row>, row: Row) {
  const shown = column.render?.(row);
  return [column.value(row), typeof shown === "object" ? (shown as VNode).props : shown];
}

describe("columns", () => {
  it("of numbers are on the right, and explain themselves if they have a title", () => {
    const column = numberColumn("size", "Size", (row: number) => row, String, "in one bank");
    expect(column).toMatchObject({ key: "size", label: "Size", right: true, title: "in one bank" });
    expect(cell(column, 2048)).toEqual([2048, "2048"]);
  });
  it("of bytes have all bytes in the tool tip", () => {
    const column = bytesColumn("size", "Size", (row: number | null) => row);
    expect(cell(column, 79200)).toEqual([79200, { title: "79,200 B", children: "77.3 KiB" }]);
    expect(cell(column, null)).toEqual([null, { title: "not known", children: "-" }]);
  });
  it("of peaks mark a lower limit", () => {
    const column = peakColumn("peak", "Peak", (row: (number | null)[]) => row[0], (row) => row[1]);
    expect(cell(column, [79200, null])).toEqual([79200, { title: "79,200 B", children: "77.3 KiB" }]);
    const title = "≥ 79,200 B, at most 81,920 B; records were lost";
    expect(cell(column, [79200, 81920])).toEqual([79200, { title, children: "≥ 77.3 KiB" }]);
    expect(cell(column, [null, null])).toEqual([null, { title: "not known", children: "-" }]);
    expect(asTsv([[1, null], [2, 3], [null, null]], [column])).toBe("Peak\n1\n≥ 2\n");
  });
  it("of counts separate thousands", () => {
    const column = countColumn("count", "Count", (row: number | null) => row);
    expect(cell(column, 12345)).toEqual([12345, "12,345"]);
    expect(cell(column, null)).toEqual([null, "-"]);
  });
  it("of times are copied in seconds", () => {
    expect(cell(secondsColumn("life", "Life", (row: number | null) => row), 0.25)).toEqual([0.25, "250 ms"]);
    expect(cell(secondsColumn("life", "Life", (row: number | null) => row), null)).toEqual([null, "-"]);
    expect(cell(durationColumn("life", "Life", (row: number) => row), 25e7)).toEqual([0.25, "250 ms"]);
    expect(cell(momentColumn("at", "At", (row: number) => row, 1e6), 25e7)).toEqual([0.25, "0.250 s"]);
  });
  it("of kinds have the words of the glossary", () => expect(cell(kindColumn(), { kind: "cb" })).toEqual(["cb", "CB"]));
  it("of source lines leave folders to the tool tip", () => {
    const line = "/srv/llama/model.py:20 main";
    expect(cell(lineColumn(), { line })).toEqual([line, { class: "path", title: line, children: "model.py:20 main" }]);
    expect(cell(lineColumn(), { line: null })).toEqual([null, { class: "path", title: "", children: "" }]);
  });
  it("of addresses are sorted as numbers, and copied as they are shown", () => {
    const column = addressColumn("Address", (row: number) => row);
    expect(cell(column, 4096)).toEqual([4096, { children: "0x1000" }]);
    expect(asTsv([0x9, 0x10], [column])).toBe("Address\n0x9\n0x10");
  });
});
