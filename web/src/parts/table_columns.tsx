// SPDX-License-Identifier: Apache-2.0
/** Columns that several tables have: sizes, counts, times, kinds, source lines and addresses. */
import type { ComponentChildren } from "preact";
import { address, bytesOf, duration, grouped, moment, peakBytes, peakText, short, shortLine } from "./format";
import { kindWords } from "./kind_words";
import type { TableColumn } from "./table";

/** A number that is sorted and copied as it is, and shown as `text`. */
export function numberColumn<Row, Value extends number | null>(
  key: string,
  label: string,
  value: (row: Row) => Value,
  text: (value: Value) => ComponentChildren,
  title?: string,
): TableColumn<Row> {
  return { key, label, title, right: true, value, render: (row) => text(value(row)) };
}

/** A size in bytes, with a tool tip of all its bytes. */
export function bytesColumn<Row>(
  key: string,
  label: string,
  value: (row: Row) => number | null,
  title?: string,
): TableColumn<Row> {
  return numberColumn(key, label, value, bytesCell, title);
}

export function bytesCell(size: number | null): ComponentChildren {
  return <span title={bytesOf(size)}>{short(size)}</span>;
}

/** A peak, marked if it is only a lower limit; `atMost` is then its upper limit. */
export function peakColumn<Row>(
  key: string,
  label: string,
  value: (row: Row) => number | null,
  atMost: (row: Row) => number | null | undefined,
  title?: string,
): TableColumn<Row> {
  return {
    key,
    label,
    title,
    right: true,
    value,
    render: (row) => peakCell(value(row), atMost(row)),
    copied: (row) => (value(row) === null ? "" : peakText(String(value(row)), atMost(row))),
  };
}

export function peakCell(peak: number | null, atMost: number | null | undefined): ComponentChildren {
  return <span title={peakBytes(peak, atMost)}>{peakText(short(peak), atMost)}</span>;
}

export function countColumn<Row>(
  key: string,
  label: string,
  value: (row: Row) => number | null,
  title?: string,
): TableColumn<Row> {
  return numberColumn(key, label, value, (count) => (count === null ? "-" : grouped(count)), title);
}

/** A length of time that is given in seconds. */
export function secondsColumn<Row>(key: string, label: string, value: (row: Row) => number | null): TableColumn<Row> {
  return numberColumn(key, label, value, (seconds) => duration(seconds === null ? null : seconds * 1e9));
}

/** A length of time that is given in ns. It is copied in seconds. */
export function durationColumn<Row>(
  key: string,
  label: string,
  ns: (row: Row) => number,
  title?: string,
): TableColumn<Row> {
  return { key, label, title, right: true, value: (row) => ns(row) / 1e9, render: (row) => duration(ns(row)) };
}

/** A moment that is given in ns after the start. It is copied in seconds. */
export function momentColumn<Row>(
  key: string,
  label: string,
  ns: (row: Row) => number,
  resolution: number,
): TableColumn<Row> {
  return { key, label, right: true, value: (row) => ns(row) / 1e9, render: (row) => moment(ns(row), resolution) };
}

export function kindColumn<Row extends { kind: string }>(): TableColumn<Row> {
  return { key: "kind", label: "Kind", value: (row) => row.kind, render: (row) => kindWords(row.kind) };
}

/** A source line without its folders; the tool tip has them. */
export function lineColumn<Row extends { line: string | null }>(): TableColumn<Row> {
  return {
    key: "line",
    label: "Line",
    wide: true,
    value: (row) => row.line,
    render: (row) => (
      <span class="path" title={row.line ?? ""}>
        {shortLine(row.line ?? "")}
      </span>
    ),
  };
}

/** An address, sorted as a number and copied as it is shown. */
export function addressColumn<Row>(
  label: string,
  value: (row: Row) => number | null,
  title?: string,
): TableColumn<Row> {
  return {
    key: "address",
    label,
    title,
    right: true,
    value,
    copied: (row) => address(value(row)),
    render: (row) => <code>{address(value(row))}</code>,
  };
}
