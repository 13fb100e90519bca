// SPDX-License-Identifier: Apache-2.0
/** Statistics of the whole run: sizes, lifetimes, fragmentation, what was freed late, phases. */
import type {
  ReportPhase,
  Stats,
  StatsFragmentation,
  StatsKindRow,
  StatsLate,
  StatsLives,
  StatsSizePool,
} from "../documents";
import { bytesOf, compact, duration, grouped, lowerLimit, short } from "../parts/format";
import type { TableColumn } from "../parts/table";
import { Table } from "../parts/table";
import {
  bytesColumn,
  countColumn,
  kindColumn,
  lineColumn,
  momentColumn,
  numberColumn,
  secondsColumn,
} from "../parts/table_columns";
import type { View } from "./view";
import { poolWords } from "./words";

export function Statistics({ view }: { view: View }) {
  const { stats } = view.report;
  return (
    <>
      <h3>By kind, sums over the chips</h3>
      <Table label="Statistics by kind" rows={stats.kinds} columns={kindColumns(stats.lost > 0)} id={(row) => row.kind} sort="-made_bytes" />
      <div class="columns thirds">
        {stats.sizes.map((pool) => (
          <Sizes key={pool.pool} pool={pool} />
        ))}
      </div>
      <h3>How allocations ended, and how long they lived</h3>
      <Table label="Lifetimes by kind" rows={stats.lives} columns={LIVES} id={(row) => row.kind} sort="-freed" />
      {stats.freed_late.rows.length > 0 && (
        <>
          <h3>Freed late: only when the device was closed or the process exited</h3>
          <Table
            label="Freed late"
            rows={stats.freed_late.rows}
            columns={LATE}
            id={(row) => `${row.pool} ${row.line} ${row.op}`}
            sort="-bytes"
            first={8}
            chooseTitle="Show only this line in all views"
            onChoose={(row) => row.line !== null && view.change({ only: { by: "line", key: row.line } })}
          />
        </>
      )}
      {stats.fragmentation.length > 0 && (
        <>
          <h3>Fragmentation in one bank</h3>
          <Table label="Fragmentation" rows={stats.fragmentation} columns={FRAGMENTATION} id={(row) => row.kind} />
        </>
      )}
      <Programs stats={stats} />
    </>
  );
}

function Programs({ stats }: { stats: Stats }) {
  const { programs, kernel_ring: ring } = stats;
  return (
    <p class="note">
      Programs: {grouped(programs.compiled)} compiled, {grouped(programs.destroyed)} destroyed,
      {` ${grouped(programs.live)} live at the end.`}
      {ring !== null && ` Kernel ring: at most ${short(ring.used_max)}`}
      {ring !== null && `${ring.size === null ? "" : ` of ${short(ring.size)}`}${ring.op === null ? "" : ` (${ring.op})`}.`}
      {stats.host !== null && ` Host memory of the processes: at most ${short(stats.host.peak.resident)}.`}
    </p>
  );
}

function Sizes({ pool }: { pool: StatsSizePool }) {
  const most = Math.max(1, ...pool.rows.map((row) => row.bytes));
  return (
    <div>
      <h3>Sizes in {poolWords(pool.pool)}, bytes on one chip</h3>
      <div class="histogram" role="img" aria-label={`Sizes of allocations in ${poolWords(pool.pool)}`}>
        {pool.rows.map((row) => (
          <div
            key={row.at_least}
            title={`${grouped(row.count)} allocations from ${short(row.at_least)}, ${short(row.bytes)} in all`}
          >
            <span>from {short(row.at_least)}</span>
            <i style={{ width: `${(100 * row.bytes) / most}%` }} />
            <b>{compact(row.count)}</b>
          </div>
        ))}
      </div>
    </div>
  );
}

const pair = (key: "start" | "made" | "freed" | "live" | "temporary", label: string): TableColumn<StatsKindRow>[] => [
  countColumn(`${key}_count`, label, (row) => row[key].count),
  bytesColumn(`${key}_bytes`, "bytes", (row) => row[key].bytes, `Bytes: ${label.toLowerCase()}`),
];
export const kindColumns = (lost: boolean): TableColumn<StatsKindRow>[] => [
  kindColumn(),
  ...pair("start", "At the start"),
  ...pair("made", "Made"),
  ...pair("temporary", "Temporary"),
  ...pair("freed", "Freed"),
  ...pair("live", "Live at the end"),
  numberColumn(
    "peak",
    "Peak per chip",
    (row) => row.peak?.per_chip ?? null,
    (peak) => (peak === null ? "-" : <span title={bytesOf(peak)}>{lost ? lowerLimit(short(peak)) : short(peak)}</span>),
    lost ? "at least: records were lost" : undefined,
  ),
];

const LIVES: TableColumn<StatsLives>[] = [
  kindColumn(),
  countColumn("freed", "Freed", (row) => row.freed),
  countColumn("program_destroyed", "Program destroyed", (row) => row.program_destroyed),
  countColumn("device_closed", "Device closed", (row) => row.device_closed),
  countColumn("process_exited", "Process exited", (row) => row.process_exited),
  countColumn("unknown", "Not known", (row) => row.unknown),
  countColumn("live", "Live", (row) => row.live),
  secondsColumn("median", "Median life", (row) => row.seconds?.median ?? null),
  secondsColumn("p90", "90 %", (row) => row.seconds?.p90 ?? null),
  secondsColumn("p99", "99 %", (row) => row.seconds?.p99 ?? null),
  secondsColumn("longest", "Longest", (row) => row.seconds?.longest ?? null),
];

const LATE: TableColumn<StatsLate>[] = [
  bytesColumn("bytes", "Bytes", (row) => row.bytes),
  countColumn("count", "Allocations", (row) => row.count),
  { key: "pool", label: "Pool", value: (row) => row.pool, render: (row) => poolWords(row.pool) },
  { key: "op", label: "Operation", value: (row) => row.op },
  lineColumn(),
  { key: "closed", label: "Device closed", right: true, value: (row) => row.device_closed },
  { key: "exited", label: "Process exited", right: true, value: (row) => row.process_exited },
  secondsColumn("longest", "Longest life", (row) => row.longest_s),
];

const FRAGMENTATION: TableColumn<StatsFragmentation>[] = [
  kindColumn(),
  numberColumn("bank", "Bank", (row) => row.bank_size, short),
  { key: "banks", label: "Banks", right: true, value: (row) => row.banks },
  numberColumn(
    "free",
    "Worst: free",
    (row) => row.worst?.free ?? null,
    short,
    "Where the largest free block was the smallest part of the free bytes",
  ),
  numberColumn("largest", "largest block", (row) => row.worst?.largest ?? null, short),
  secondsColumn("at", "at", (row) => row.worst?.after_s ?? null),
  numberColumn("smallest", "Lowest value of the largest block", (row) => row.smallest?.largest ?? null, short),
  secondsColumn("smallest_at", "at ", (row) => row.smallest?.after_s ?? null),
];

export function Phases({ view }: { view: View }) {
  const { report, change } = view;
  const end = (phase: ReportPhase) => phase.until_ns ?? report.length_ns;
  const columns: TableColumn<ReportPhase>[] = [
    {
      key: "name",
      label: "Phase",
      wide: true,
      value: (row) => row.name,
      render: (row) => <span style={{ paddingLeft: `${14 * row.depth}px` }}>{row.name}</span>,
    },
    momentColumn("from", "From", (row) => row.from_ns, 1e5),
    {
      key: "took",
      label: "Took",
      right: true,
      value: (row) => (end(row) - row.from_ns) / 1e9,
      render: (row) => `${duration(end(row) - row.from_ns)}${row.until_ns === null ? ", open" : ""}`,
    },
    { key: "pid", label: "Process", right: true, value: (row) => row.pid },
  ];
  return (
    <Table
      label="Phases"
      rows={report.phases}
      columns={columns}
      id={(row) => `${row.from_ns} ${row.name} ${row.depth} ${row.pid}`}
      sort="from"
      first={10}
      onChoose={(row) => change({ from: row.from_ns, until: end(row) })}
      chooseTitle="Choose this phase as the window"
      empty="The workload named no phases."
    />
  );
}
