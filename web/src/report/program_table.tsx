// SPDX-License-Identifier: Apache-2.0
/** Memory by cached program. */
import { useMemo } from "preact/hooks";
import { bytesOf, grouped, short } from "../parts/format";
import type { TableColumn } from "../parts/table";
import { Table } from "../parts/table";
import { useAsync } from "../parts/use_async";
import { filterRows } from "./allocation_rows";
import type { ProgramRow } from "./program_rows";
import { programRows } from "./program_rows";
import { siteMask } from "./roll_up";
import type { View } from "./view";
import { kindWords, poolNote, shortLine } from "./words";

export function ProgramTable({ view }: { view: View }) {
  const { report, sections, state, change, from, until } = view;
  const name = report.allocations.section;
  const { value: columns } = useAsync(sections.has(name) ? name : null, () => sections.columns(name));
  const mask = useMemo(
    () => siteMask(report, "programs", state.only, state.search),
    [report, state.only, state.search],
  );
  const rows = useMemo(() => {
    if (columns === null) return [];
    const order = Uint32Array.from(columns.id, (_, i) => i);
    const filter = { scope: "live", from, until, group: state.group, mask, least: 0, life: "any", flag: 0 } as const;
    return programRows(report, columns, filterRows(order, columns, filter, report.length_ns));
  }, [columns, from, until, state.group, mask]);
  const listed = useMemo(
    (): TableColumn<ProgramRow>[] => [
      { key: "program", label: "Program", right: true, value: (row) => row.program },
      { key: "op", label: "Operation", value: (row) => row.op },
      {
        key: "line",
        label: "Line",
        wide: true,
        value: (row) => row.line,
        render: (row) => (
          <span class="path" title={row.line}>
            {shortLine(row.line)}
          </span>
        ),
      },
      {
        key: "bytes",
        label: "Live",
        title: "Bytes of its parts on all cores, per chip",
        right: true,
        value: (row) => row.bytes,
        render: (row) => <span title={bytesOf(row.bytes)}>{short(row.bytes)}</span>,
      },
      ...(report.pools.programs ?? [])
        .filter((kind) => rows.some((row) => row.kinds.has(kind)))
        .map((kind): TableColumn<ProgramRow> => ({
          key: `kind ${kind}`,
          label: kindWords(report.kinds[kind]),
          right: true,
          value: (row) => row.kinds.get(kind) ?? 0,
          render: (row) => short(row.kinds.get(kind) ?? 0),
        })),
      { key: "parts", label: "Parts", right: true, value: (row) => row.parts, render: (row) => grouped(row.parts) },
    ],
    [report, rows],
  );
  const { rows: kept, total } = report.allocations;
  return (
    <Table
      label="Memory by program"
      columns={listed}
      rows={rows}
      id={(row) => row.program}
      sort="-bytes"
      first={14}
      onChoose={(row) => row.line !== "" && change({ only: { by: "line", key: row.line } })}
      chooseTitle="Show only the line that made this program, in all views"
      empty={columns === null ? "Decoding…" : "No cached program was live at this moment that passes the filters."}
      note={`${poolNote("programs")}${kept < total ? " Only parts among the listed allocations are counted." : ""}`}
    />
  );
}
