// SPDX-License-Identifier: Apache-2.0
/** Sizing advice, facts of the run, and what the recording and this page lack. */
import type { ReportGap } from "../documents";
import type { TableColumn } from "../parts/table";
import { Table } from "../parts/table";
import { countColumn, durationColumn, momentColumn } from "../parts/table_columns";
import type { View } from "./view";

export const NOT_FINISHED = "The recording was not finished. What happened after its last record is not known.";

export function Sizing({ view }: { view: View }) {
  const rows = view.report.sizing ?? [];
  if (rows.length === 0) return <p class="empty">There is no advice on sizes.</p>;
  return (
    <>
      {rows.map((row) => (
        <div key={`${row.pid} ${row.chips.join()}`}>
          <h3>
            Process {row.pid} <span class="soft">{row.chips.join(", ")}</span>
          </h3>
          <ul class="advice">
            {row.lines.map((line) => (
              <li key={line.what}>
                <b>{line.what}</b> {line.text} <span class="soft">{line.basis}</span>
              </li>
            ))}
          </ul>
        </div>
      ))}
    </>
  );
}

export function Losses({ view }: { view: View }) {
  const { losses, notes } = view.report;
  const columns: TableColumn<ReportGap>[] = [
    { key: "pid", label: "Process", right: true, value: (row) => row.pid },
    momentColumn("from", "From", (row) => row.from_ns, 1e5),
    durationColumn("took", "Length", (row) => row.until_ns - row.from_ns),
    countColumn("records", "Records lost", (row) => row.records),
  ];
  const nothing = losses.lost === 0 && losses.gaps.length + losses.uncertain.length + losses.problems.length === 0;
  return (
    <>
      {nothing && <p class="good">No records were lost{losses.finished ? ", and the recording was finished." : "."}</p>}
      {!losses.finished && <p class="warn">{NOT_FINISHED}</p>}
      {losses.gaps.length > 0 && (
        <Table
          label="Gaps"
          rows={losses.gaps}
          columns={columns}
          id={(row) => `${row.pid} ${row.from_ns}`}
          sort="from"
          first={6}
          onChoose={(row) => view.change({ from: row.from_ns, until: row.until_ns })}
          chooseTitle="Choose this gap as the window"
        />
      )}
      {losses.uncertain.length > 0 && <h3>Why numbers may be wrong</h3>}
      <ul>
        {losses.uncertain.map((text) => (
          <li key={text}>{text}</li>
        ))}
      </ul>
      {losses.problems.length > 0 && <h3>Problems in the file</h3>}
      <ul>
        {losses.problems.map((text) => (
          <li key={text}>{text}</li>
        ))}
      </ul>
      {notes.length > 0 && <h3>Where this page shows less than the recording has</h3>}
      <ul>
        {notes.map((text) => (
          <li key={text}>{text}</li>
        ))}
      </ul>
    </>
  );
}
