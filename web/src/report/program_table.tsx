// SPDX-License-Identifier: Apache-2.0
/** Memory by cached program. */
import { useMemo } from "preact/hooks";
import { short } from "../parts/format";
import type { TableColumn } from "../parts/table";
import { Table } from "../parts/table";
import { bytesColumn, countColumn, lineColumn, numberColumn } from "../parts/table_columns";
import { useAsync } from "../parts/use_async";
import { filterRows } from "./allocation_rows";
import type { ProgramRow } from "./program_rows";
import { programRows } from "./program_rows";
import { siteMask } from "./roll_up";
import type { View } from "./view";
import { kindWords, poolNote } from "./words";

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
      lineColumn(),
      bytesColumn("bytes", "Live", (row) => row.bytes, "Bytes of its parts on all cores, per chip"),
      ...(report.pools.programs ?? [])
        .filter((kind) => rows.some((row) => row.kinds.has(kind)))
        .map((kind) =>
          numberColumn(
            `kind ${kind}`,
            kindWords(report.kinds[kind]),
            (row: ProgramRow) => row.kinds.get(kind) ?? 0,
            short,
          ),
        ),
      countColumn("parts", "Parts", (row) => row.parts),
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
