// SPDX-License-Identifier: Apache-2.0
/** The explanation of a failed allocation: what was asked, what was there, who holds it, and what to change. */
import type { HolderRow, RunFailure } from "../documents";
import { ButtonGroup } from "../parts/button_group";
import { bytesOf, moment, plural, short } from "../parts/format";
import type { TableColumn } from "../parts/table";
import { Table } from "../parts/table";
import { addressColumn, bytesColumn, kindColumn, lineColumn, numberColumn } from "../parts/table_columns";
import type { View } from "./view";

export function Failures({ view }: { view: View }) {
  const { report, state, change } = view;
  const failures = report.marks.filter((mark) => mark.type === "failure");
  const shown = report.explained[state.failure];
  if (shown === undefined) {
    return (
      <p class="empty">
        {failures.length === 0
          ? "No allocation failed."
          : `${plural(failures.length, "failed allocation")}; the report has no explanation of them.`}
      </p>
    );
  }
  return (
    <>
      {report.explained.length > 1 && (
        <div class="toolbar">
          <ButtonGroup
            label="Failed allocation"
            options={report.explained.map((failure, i) => [i, failure.operation ?? `Failure ${i + 1}`])}
            chosen={state.failure}
            onChoose={(i) => {
              const mark = failures.find((one) => one.explained === i);
              change({ failure: i, ...(mark === undefined ? {} : { from: mark.time_ns, until: mark.time_ns }) });
            }}
          />
        </div>
      )}
      <Explanation
        failure={shown}
        view={view}
        time={failures.find((one) => one.explained === state.failure)?.time_ns ?? null}
      />
    </>
  );
}

function Explanation({ failure, view, time }: { failure: RunFailure; view: View; time: number | null }) {
  const { verdict } = failure;
  const { change } = view;
  const where = verdict.failure.per_bank === undefined ? "" : " per bank";
  const numbers: [string, number | null][] = [
    [`needed${where}, in one piece`, verdict.asked],
    [`largest that fits${where}`, verdict.there],
    [`missing${where}`, verdict.missing],
    [`free${where}`, verdict.free],
  ];
  return (
    <div class="explanation">
      <p class="headline">
        <b>{verdict.headline}</b>
        {time !== null && (
          <button type="button" class="link" onClick={() => change({ from: time, until: time })}>
            show {moment(time, 1e3)}
          </button>
        )}
      </p>
      <div class="numbers">
        {numbers
          .filter(([, value]) => value !== null)
          .map(([label, value]) => (
            <div key={label} title={bytesOf(value)}>
              <b>{short(value)}</b>
              <span>{label}</span>
            </div>
          ))}
      </div>
      <div class="columns">
        <div>
          <h3>Possible fixes</h3>
          {verdict.advice.length === 0 ? (
            <p class="empty">None is known.</p>
          ) : (
            <ol class="advice">
              {verdict.advice.map((advice) => (
                <li key={advice.text}>
                  {advice.text}
                  {advice.note !== null && <span class="soft"> {advice.note}</span>}
                </li>
              ))}
            </ol>
          )}
          {verdict.unknown.length > 0 && (
            <>
              <h3>Not known</h3>
              <ul>
                {verdict.unknown.map((text) => (
                  <li key={text}>{text}</li>
                ))}
              </ul>
            </>
          )}
        </div>
        <div>
          {verdict.sections
            .filter((section) => !SHOWN_ELSEWHERE.has(section.heading))
            .map((section) => (
              <div key={section.heading}>
                <h3>{section.heading}</h3>
                {section.lines.map((line) => (
                  <p class="line" key={line}>
                    {line}
                  </p>
                ))}
              </div>
            ))}
        </div>
      </div>
      {verdict.holders.length > 0 && (
        <>
          <h3>Held by</h3>
          <Table
            label="Buffers that hold the memory"
            rows={verdict.holders}
            columns={HOLDERS}
            id={(row) => `${row.address} ${row.size} ${row.kind}`}
            sort="-held"
            onChoose={(row) => row.line !== null && change({ only: { by: "line", key: row.line } })}
            chooseTitle="Show only this line in all views"
          />
        </>
      )}
      {failure.stack !== null && failure.stack.length > 0 && (
        <>
          <h3>Stack</h3>
          <pre>{failure.stack.join("\n")}</pre>
        </>
      )}
      <details>
        <summary>Message of tt-metal</summary>
        <pre>{failure.text}</pre>
      </details>
    </div>
  );
}

/** Sections of the text that have a list or a table of their own here. */
const SHOWN_ELSEWHERE = new Set(["held by", "possible fixes"]);

const HOLDERS: TableColumn<HolderRow>[] = [
  bytesColumn("held", "Per bank", (row) => row.per_bank * row.buffers),
  { key: "buffers", label: "Buffers", right: true, value: (row) => row.buffers },
  numberColumn("size", "Size of each", (row) => row.size, short),
  kindColumn(),
  { key: "tag", label: "Operation", value: (row) => row.tag },
  { key: "shape", label: "Shape", value: (row) => row.shape },
  lineColumn(),
  addressColumn("Lowest address", (row) => row.address),
  { key: "cause", label: "Why it is held", value: (row) => row.cause },
];
