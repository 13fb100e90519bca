// SPDX-License-Identifier: Apache-2.0
/** What was live at the moment, or changed in the window, by line, operation, shape, part, kind or program. */
import { useMemo } from "preact/hooks";
import { ButtonGroup } from "../parts/button_group";
import { usePageColours } from "../parts/canvas";
import { css, kindColour } from "../parts/colours";
import { bytesOf, percent, short, shortLine, signed } from "../parts/format";
import type { TableColumn } from "../parts/table";
import { Table } from "../parts/table";
import { bytesColumn, countColumn } from "../parts/table_columns";
import type { SumRow } from "./roll_up";
import { rollUpBy } from "./roll_up";
import { ProgramTable } from "./program_table";
import { BY } from "./state";
import type { By } from "./state";
import type { View } from "./view";
import { kindWords, poolNote } from "./words";

const BY_WORDS: Record<By, string> = {
  line: "Line",
  op: "Operation",
  shape: "Shape",
  part: "Part of a program",
  kind: "Kind",
};

export function OriginTable({ view }: { view: View }) {
  const { state, change } = view;
  const choices: [View["state"]["by"], string][] = [
    ...BY.map((by): [By, string] => [by, BY_WORDS[by]]),
    ["program", "Program"],
  ];
  return (
    <>
      <div class="toolbar">
        <ButtonGroup label="Sum by" options={choices} chosen={state.by} onChoose={(by) => change({ by })} />
        <span class="soft">{state.by === "program" ? null : poolNote(state.pool)}</span>
      </div>
      {state.by === "program" ? <ProgramTable view={view} /> : <SumTable view={view} by={state.by} />}
    </>
  );
}

function SumTable({ view, by }: { view: View; by: By }) {
  const { report, state, change, amounts, mask, window } = view;
  const { theme } = usePageColours();
  const rows = useMemo(
    () => (amounts === null ? [] : rollUpBy(report, by, amounts, mask)),
    [report, by, amounts, mask],
  );
  const total = rows.reduce((sum, row) => sum + row.bytes, 0);
  const columns = useMemo(() => {
    const listed: TableColumn<SumRow>[] = [
      {
        key: "key",
        label: BY_WORDS[by],
        wide: true,
        value: (row) => row.key,
        render: (row) => (
          <span class={row.known ? "origin" : "origin soft"} title={row.key}>
            <i style={{ background: css(kindColour(report.kinds[[...row.kinds][0]], theme)) }} />
            {by === "line" ? shortLine(row.key) : by === "kind" ? kindWords(row.key) : row.key}
          </span>
        ),
      },
      bytesColumn(
        "bytes",
        "Live",
        (row) => row.bytes,
        window ? "Bytes live at the end of the window, per chip" : "Bytes live at the moment, per chip",
      ),
      {
        key: "share",
        label: "Share",
        right: true,
        value: (row) => row.bytes,
        render: (row) => (
          <span class="share">
            <i style={{ width: `${total > 0 ? (100 * row.bytes) / total : 0}%` }} />
            {total > 0 ? percent(row.bytes / total) : ""}
          </span>
        ),
      },
      countColumn("count", "Allocations", (row) => row.count, "Allocations that are live"),
    ];
    if (window) {
      listed.push(
        {
          key: "change",
          label: "Change",
          title: "Live bytes at the end of the window, less those at its start",
          right: true,
          value: (row) => row.change,
          render: (row) => (
            <span class={row.change > 0 ? "more" : row.change < 0 ? "less" : "soft"} title={bytesOf(row.change)}>
              {signed(row.change)}
            </span>
          ),
        },
        bytesColumn("allocated", "Allocated", (row) => row.allocated, "Bytes allocated in the window"),
        countColumn("made", "times", (row) => row.made, "Allocations made in the window"),
        bytesColumn("freed", "Freed", (row) => row.freed, "Bytes freed in the window"),
        countColumn("ended", "times ", (row) => row.ended, "Allocations freed in the window"),
      );
    }
    const sites = "Different combinations of operation, shape, line and stack";
    listed.push(countColumn("sites", "Call sites", (row) => row.sites, sites));
    return listed;
  }, [report, by, window, total, theme]);
  return (
    <Table
      key={`${by} ${window}`}
      label={`Memory by ${BY_WORDS[by].toLowerCase()}`}
      columns={columns}
      rows={rows}
      id={(row) => row.key}
      sort={window ? "-allocated" : "-bytes"}
      first={14}
      chosen={(row) => state.only?.by === by && state.only.key === row.key}
      chooseTitle="Show only this in all views; again: show everything"
      onChoose={(row) =>
        change({ only: state.only?.by === by && state.only.key === row.key ? null : { by, key: row.key } })
      }
      empty={
        view.noSums ?? (amounts === null ? "Decoding…" : "Nothing was live at this moment that passes the filters.")
      }
      note={`${short(total)} live in all rows, per chip`}
    />
  );
}
