// SPDX-License-Identifier: Apache-2.0
/** Groups of buffers that grow, that are held, and what else keeps memory. */
import type { LeakRow } from "../documents";
import { plural, short } from "../parts/format";
import type { TableColumn } from "../parts/table";
import { Table } from "../parts/table";
import { bytesColumn, countColumn, kindColumn, lineColumn, secondsColumn } from "../parts/table_columns";
import type { View } from "./view";

export function LeaksSection({ view }: { view: View }) {
  const { leaks } = view.report;
  if (leaks === null) return <p class="empty">The report has no search for leaks.</p>;
  const choose = (row: LeakRow) => {
    if (row.line !== null) view.change({ only: { by: "line", key: row.line } });
    else if (row.op !== null) view.change({ only: { by: "op", key: row.op } });
  };
  const judged = leaks.judged.map((row) => `${row.steps} steps (${row.name ?? row.by})`).join(", ");
  return (
    <>
      <p>
        <b class={leaks.verdict.leak ? "bad" : "good"}>
          {leaks.verdict.leak
            ? `${plural(leaks.verdict.groups, "group")} of buffers grow.`
            : "No group of buffers grows."}
        </b>{" "}
        <span class="soft">
          {judged === "" ? "There were not enough steps to judge growth." : `Judged over ${judged}.`}
        </span>
      </p>
      {leaks.doubts.map((text) => (
        <p class="note" key={text}>
          {text}
        </p>
      ))}
      {leaks.growing.length > 0 && (
        <Table
          label="Growing groups"
          rows={leaks.growing}
          columns={GROWING}
          id={key}
          sort="-per_chip"
          onChoose={choose}
          chooseTitle="Show only this origin in all views"
        />
      )}
      {leaks.held.length > 0 && (
        <>
          <h3>Held, but not growing</h3>
          <Table
            label="Held groups"
            rows={leaks.held}
            columns={HELD}
            id={key}
            sort="-per_chip"
            first={8}
            onChoose={choose}
            chooseTitle="Show only this origin in all views"
          />
        </>
      )}
    </>
  );
}

function key(row: LeakRow): string {
  return [
    row.pid,
    row.kind,
    row.op,
    row.line,
    row.shape,
    row.size,
    row.chips.join(),
    row.count,
    row.stack?.join(),
  ].join("|");
}

const HELD: TableColumn<LeakRow>[] = [
  bytesColumn("per_chip", "Per chip", (row) => row.per_chip),
  countColumn("count", "Buffers", (row) => row.count),
  kindColumn(),
  { key: "op", label: "Operation", value: (row) => row.op },
  { key: "shape", label: "Shape", value: (row) => row.shape },
  lineColumn(),
  secondsColumn("oldest", "Oldest", (row) => row.oldest_s),
  { key: "chips", label: "Chips", right: true, value: (row) => row.chips.length },
];

const GROWING: TableColumn<LeakRow>[] = [
  ...HELD,
  {
    key: "step",
    label: "Per step",
    title: "Buffers that a step adds",
    right: true,
    value: (row) => row.growth?.per_step ?? null,
    render: (row) => row.growth?.per_step?.toFixed(2) ?? "-",
  },
  {
    key: "minute",
    label: "Per minute",
    right: true,
    value: (row) => row.growth?.bytes_per_minute ?? null,
    render: (row) => (row.growth === null ? "-" : short(Math.round(row.growth.bytes_per_minute))),
  },
  {
    key: "history",
    label: "Growth",
    title: "Number of buffers after each sixteenth of the steps",
    value: (row) => row.growth?.history?.join(" ") ?? null,
    render: (row) => <Spark values={row.growth?.history ?? []} />,
  },
];

function Spark({ values }: { values: number[] }) {
  if (values.length < 2) return null;
  const top = Math.max(1, ...values);
  const points = values.map((value, i) => `${(i * 64) / (values.length - 1)},${17 - (16 * value) / top}`).join(" ");
  return (
    <svg class="spark" width="64" height="18" role="img" aria-label={values.join(", ")}>
      <polyline points={points} />
    </svg>
  );
}
