// SPDX-License-Identifier: Apache-2.0
/** The first screen of a comparison: its headline, both runs, and the figures of the whole runs. */
import type { DiffFigure, DiffReport, DiffSide } from "../documents";
import { bytesOf, grouped, moment, percent, plural, short } from "../parts/format";
import { Table } from "../parts/table";
import type { Side } from "./align";

const LEFT_OUT = ["board", "boards", "chips", "processes", "recorded with", "reported by"];

export function DiffHead({ diff }: { diff: DiffReport }) {
  const { headline, same, exceeded } = diff.diff;
  const status = exceeded.length > 0 ? "out_of_memory" : same ? "fits" : "leaks";
  return (
    <section class="overview">
      <div class={`verdict ${status}`}>
        <span class="badge">{exceeded.length > 0 ? "Over the limit" : same ? "No difference" : "Changed"}</span>
        <div>
          <p class="first">{headline.slice(0, 1).toUpperCase() + headline.slice(1)}</p>
          {exceeded.map((words) => (
            <p key={words} class="bad">Over the limit: {words}</p>
          ))}
        </div>
      </div>
      <div class="diff-sides">
        <Runs diff={diff} />
        <Figures diff={diff} />
      </div>
    </section>
  );
}

/** What is known of both runs, side by side. Values that differ stand out. */
function Runs({ diff }: { diff: DiffReport }) {
  const [old, next] = [factsOf(diff, "old"), factsOf(diff, "new")];
  const labels = [...new Set([...old.keys(), ...next.keys()])];
  return (
    <div class="card diff-runs">
      <h2>Runs</h2>
      <table>
        <thead>
          <tr>
            <th />
            <th>Old</th>
            <th>New</th>
          </tr>
        </thead>
        <tbody>
          {labels.map((label) => (
            <tr key={label} class={old.get(label) === next.get(label) ? "same" : ""}>
              <th>{label}</th>
              <td>{old.get(label) ?? "not known"}</td>
              <td>{next.get(label) ?? "not known"}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function factsOf(diff: DiffReport, side: Side): Map<string, string> {
  const compared: DiffSide = diff.diff[side];
  const own = diff[side];
  const boards = Object.entries(compared.boards).map(([board, count]) => (count > 1 ? `${count} x ${board}` : board));
  const facts = new Map<string, string>([
    ["result", own.verdict.lines[0] ?? ""],
    ["file", compared.file],
    ["compared", `${compared.moment}, ${moment(own.moment_ns, 1e3)} after the start`],
    ["boards", boards.join(", ") || "not known"],
  ]);
  for (const fact of own.facts) if (!LEFT_OUT.includes(fact.label)) facts.set(fact.label, fact.value);
  if (compared.incomplete.length > 0) facts.set("incomplete", compared.incomplete.join("; "));
  return facts;
}

function Figures({ diff }: { diff: DiffReport }) {
  const text = (row: DiffFigure, value: number | null) =>
    value === null ? "not known" : diff.counts.includes(row.name) ? grouped(value) : short(value);
  const title = (row: DiffFigure, value: number | null) => (diff.counts.includes(row.name) ? "" : bytesOf(value));
  const same = diff.diff.figures.filter((row) => row.change === 0).length;
  return (
    <div class="card diff-figures">
      <h2>
        Figures of the whole runs <span class="soft">{plural(same, "figure")} of {diff.diff.figures.length} did not change</span>
      </h2>
      <Table
        label="Figures of the whole runs"
        id={(row) => row.name}
        rows={diff.diff.figures}
        first={20}
        columns={[
          { key: "what", label: "Figure", value: (row) => row.what, wide: true },
          { key: "old", label: "Old", right: true, value: (row) => row.old, render: (row) => <span title={title(row, row.old)}>{text(row, row.old)}</span> },
          { key: "new", label: "New", right: true, value: (row) => row.new, render: (row) => <span title={title(row, row.new)}>{text(row, row.new)}</span> },
          {
            key: "change", label: "Change", right: true, value: (row) => row.change,
            render: (row) => <Change row={row} diff={diff} />,
          },
        ]}
      />
    </div>
  );
}

function Change({ row, diff }: { row: DiffFigure; diff: DiffReport }) {
  if (row.change === null) return <span class="soft">not known</span>;
  if (row.change === 0) return <span class="soft">same</span>;
  const worse = diff.more_is_better.includes(row.name) ? row.change < 0 : row.change > 0;
  const size = diff.counts.includes(row.name) ? grouped(Math.abs(row.change)) : short(Math.abs(row.change));
  return (
    <span class={worse ? "bad" : "good"} title={diff.counts.includes(row.name) ? "" : bytesOf(row.change)}>
      {row.change > 0 ? "+" : "-"}
      {size}
      {row.old ? ` (${percent(Math.abs(row.change) / row.old)})` : ""}
    </span>
  );
}
