// SPDX-License-Identifier: Apache-2.0
/**
 * A table that is sorted by its headers, copied as text with tabs, and used with keys: arrows move from row to row,
 * Enter chooses a row. Long tables show their first rows and a button for more.
 */
import type { ComponentChildren } from "preact";
import { useMemo, useState } from "preact/hooks";
import { CopyButton } from "./copy_button";
import { grouped } from "./format";

export interface TableColumn<Row> {
  key: string;
  label: string;
  title?: string; // what the column means, as a tool tip
  /** Sorts by it, and copies it: sizes as bytes, unknown as null. */
  value: (row: Row) => string | number | null;
  copied?: (row: Row) => string; // instead of the value
  render?: (row: Row) => ComponentChildren;
  right?: boolean; // numbers
  wide?: boolean; // takes the room that is left
}

export interface TableProps<Row> {
  label: string; // for screen readers
  columns: TableColumn<Row>[];
  rows: readonly Row[];
  id: (row: Row) => string | number;
  /** First sorted by this column; "-" before the name for descending. */
  sort?: string;
  onChoose?: (row: Row) => void;
  chooseTitle?: string;
  chosen?: (row: Row) => boolean;
  first?: number; // rows that are shown at first
  empty?: string;
  /** The rows are sorted outside: then this is called with the column and direction. */
  onSort?: (sort: string) => void;
  note?: ComponentChildren;
}

export function Table<Row>(props: TableProps<Row>) {
  const { columns, rows, first = 12, empty = "nothing" } = props;
  const [own, setOwn] = useState(props.sort ?? "");
  const [shown, setShown] = useState(first);
  const sort = props.onSort === undefined ? own : (props.sort ?? "");
  const sorted = useMemo(
    () => (props.onSort === undefined ? sortRows(rows, columns, sort) : rows),
    [rows, sort, props.onSort === undefined, columns],
  );
  const choose = (key: string) => {
    const next = nextSort(sort, key, columns);
    if (props.onSort === undefined) setOwn(next);
    else props.onSort(next);
  };
  return (
    <div class="table">
      <div class="table-scroll">
        <table aria-label={props.label}>
          <thead>
            <tr>
              {columns.map((column) => (
                <th
                  key={column.key}
                  class={cellClass(column)}
                  aria-sort={sort === column.key ? "ascending" : sort === `-${column.key}` ? "descending" : "none"}
                >
                  <button
                    type="button"
                    title={column.title ?? `Sort by ${column.label}`}
                    onClick={() => choose(column.key)}
                  >
                    {column.label}
                    <span class="arrow">{sort === column.key ? "▲" : sort === `-${column.key}` ? "▼" : ""}</span>
                  </button>
                </th>
              ))}
            </tr>
          </thead>
          <tbody onKeyDown={moveFocus}>
            {sorted.slice(0, shown).map((row) => (
              <tr
                key={props.id(row)}
                class={props.chosen?.(row) ? "chosen" : undefined}
                tabIndex={props.onChoose === undefined ? undefined : 0}
                title={props.chooseTitle}
                onClick={props.onChoose === undefined ? undefined : () => isSelecting() || props.onChoose?.(row)}
                onKeyDown={(event) => {
                  if (event.key !== "Enter" || event.target !== event.currentTarget) return;
                  event.preventDefault();
                  props.onChoose?.(row);
                }}
              >
                {columns.map((column) => (
                  <td key={column.key} class={cellClass(column)}>
                    {column.render === undefined ? column.value(row) : column.render(row)}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
        {rows.length === 0 && <p class="empty">{empty}</p>}
      </div>
      <div class="table-foot">
        {sorted.length > shown && (
          <button type="button" class="quiet" onClick={() => setShown(shown < 100 ? 100 : shown * 3)}>
            Show more ({grouped(sorted.length - shown)} hidden)
          </button>
        )}
        {shown > first && sorted.length > first && (
          <button type="button" class="quiet" onClick={() => setShown(first)}>
            Show fewer
          </button>
        )}
        <span class="note">{props.note}</span>
        {rows.length > 0 && <CopyButton text={() => asTsv(sorted, columns)} label="Copy table" />}
      </div>
    </div>
  );
}

/** The reverse direction of the column that is sorted by; for another one, numbers descend and texts ascend. */
export function nextSort<Row>(sort: string, key: string, columns: TableColumn<Row>[]): string {
  if (sort === key) return `-${key}`;
  if (sort === `-${key}`) return key;
  return columns.find((column) => column.key === key)?.right ? `-${key}` : key;
}

/** Sorted rows; values that are not known come last in both directions. Rows with equal values keep their order. */
export function sortRows<Row>(rows: readonly Row[], columns: TableColumn<Row>[], sort: string): readonly Row[] {
  const descending = sort.startsWith("-");
  const column = columns.find((one) => one.key === (descending ? sort.slice(1) : sort));
  if (column === undefined) return rows;
  const values = new Map(rows.map((row) => [row, column.value(row)]));
  return [...rows].sort((a, b) => compare(values.get(a) ?? null, values.get(b) ?? null, descending));
}

function compare(a: string | number | null, b: string | number | null, descending: boolean): number {
  if (a === null || b === null) return a === b ? 0 : a === null ? 1 : -1;
  const order = typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en");
  return descending ? -order : order;
}

/** Rows as lines with tabs between the values: spreadsheets paste it as a table. */
export function asTsv<Row>(rows: readonly Row[], columns: TableColumn<Row>[]): string {
  const clean = (value: string | number | null) => String(value ?? "").replace(/[\t\r\n]+/g, " ");
  const text = (column: TableColumn<Row>, row: Row) => clean(column.copied?.(row) ?? column.value(row));
  const lines = rows.map((row) => columns.map((column) => text(column, row)).join("\t"));
  return [columns.map((column) => clean(column.label)).join("\t"), ...lines].join("\n");
}

function cellClass<Row>(column: TableColumn<Row>): string {
  return `${column.right ? "right" : ""}${column.wide ? " wide" : ""}`;
}

function moveFocus(event: KeyboardEvent): void {
  const step =
    event.key === "ArrowDown" ? "nextElementSibling" : event.key === "ArrowUp" ? "previousElementSibling" : null;
  const row = (event.target as Element).closest("tr");
  if (step === null || row === null || row !== event.target) return;
  const next = row[step];
  if (next instanceof HTMLElement) next.focus();
  event.preventDefault();
  event.stopPropagation();
}

/** A click that ends a selection of text does not choose the row. */
function isSelecting(): boolean {
  const selection = window.getSelection();
  return selection !== null && !selection.isCollapsed && selection.toString().trim() !== "";
}
