// SPDX-License-Identifier: Apache-2.0
/** Statistics of the whole run: sizes, life times, fragmentation, what was freed late, phases. */
import type {
  ReportPhase,
  Stats,
  StatsFragmentation,
  StatsKindRow,
  StatsLate,
  StatsLives,
  StatsSizePool,
} from "../documents";
import { bytesOf, compact, duration, grouped, moment, short } from "../parts/format";
import type { TableColumn } from "../parts/table";
import { Table } from "../parts/table";
import type { View } from "./view";
import { kindWords, poolWords, shortLine } from "./words";

export function Statistics({ view }: { view: View }) {
  const { stats } = view.report;
  return (
    <>
      <h3>By kind, sums over the chips</h3>
      <Table label="Statistics by kind" rows={stats.kinds} columns={KINDS} id={(row) => row.kind} sort="-made_bytes" />
      <div class="columns thirds">
        {stats.sizes.map((pool) => (
          <Sizes key={pool.pool} pool={pool} />
        ))}
      </div>
      <h3>How allocations ended, and how long they lived</h3>
      <Table label="Life times by kind" rows={stats.lives} columns={LIVES} id={(row) => row.kind} sort="-freed" />
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
  { key: `${key}_count`, label, right: true, value: (row) => row[key].count, render: (row) => grouped(row[key].count) },
  {
    key: `${key}_bytes`,
    label: "bytes",
    title: `Bytes: ${label.toLowerCase()}`,
    right: true,
    value: (row) => row[key].bytes,
    render: (row) => <span title={bytesOf(row[key].bytes)}>{short(row[key].bytes)}</span>,
  },
];
const KINDS: TableColumn<StatsKindRow>[] = [
  { key: "kind", label: "Kind", value: (row) => row.kind, render: (row) => kindWords(row.kind) },
  ...pair("start", "At the begin"),
  ...pair("made", "Made"),
  ...pair("temporary", "Temporary"),
  ...pair("freed", "Freed"),
  ...pair("live", "Live at the end"),
  {
    key: "peak",
    label: "Peak per chip",
    right: true,
    value: (row) => row.peak?.per_chip ?? null,
    render: (row) =>
      row.peak === null ? "-" : <span title={bytesOf(row.peak.per_chip)}>{short(row.peak.per_chip)}</span>,
  },
];

const seconds = (value: number | undefined) => (value === undefined ? "-" : duration(value * 1e9));
const LIVES: TableColumn<StatsLives>[] = [
  { key: "kind", label: "Kind", value: (row) => row.kind, render: (row) => kindWords(row.kind) },
  ...(["freed", "program_destroyed", "device_closed", "process_exited", "unknown", "live"] as const).map(
    (key): TableColumn<StatsLives> => ({
      key,
      label: {
        freed: "Freed",
        program_destroyed: "Program destroyed",
        device_closed: "Device closed",
        process_exited: "Process exited",
        unknown: "Not known",
        live: "Live",
      }[key],
      right: true,
      value: (row) => row[key],
      render: (row) => grouped(row[key]),
    }),
  ),
  ...(["median", "p90", "p99", "longest"] as const).map((key): TableColumn<StatsLives> => ({
    key,
    label: { median: "Median life", p90: "90 %", p99: "99 %", longest: "Longest" }[key],
    right: true,
    value: (row) => row.seconds?.[key] ?? null,
    render: (row) => seconds(row.seconds?.[key]),
  })),
];

const LATE: TableColumn<StatsLate>[] = [
  {
    key: "bytes",
    label: "Bytes",
    right: true,
    value: (row) => row.bytes,
    render: (row) => <span title={bytesOf(row.bytes)}>{short(row.bytes)}</span>,
  },
  { key: "count", label: "Allocations", right: true, value: (row) => row.count, render: (row) => grouped(row.count) },
  { key: "pool", label: "Pool", value: (row) => row.pool, render: (row) => poolWords(row.pool) },
  { key: "op", label: "Operation", value: (row) => row.op },
  {
    key: "line",
    label: "Line",
    wide: true,
    value: (row) => row.line,
    render: (row) => (
      <span class="path" title={row.line ?? ""}>
        {row.line === null ? "" : shortLine(row.line)}
      </span>
    ),
  },
  { key: "closed", label: "Device closed", right: true, value: (row) => row.device_closed },
  { key: "exited", label: "Process exited", right: true, value: (row) => row.process_exited },
  {
    key: "longest",
    label: "Longest life",
    right: true,
    value: (row) => row.longest_s,
    render: (row) => seconds(row.longest_s),
  },
];

const FRAGMENTATION: TableColumn<StatsFragmentation>[] = [
  { key: "kind", label: "Kind", value: (row) => row.kind, render: (row) => kindWords(row.kind) },
  { key: "bank", label: "Bank", right: true, value: (row) => row.bank_size, render: (row) => short(row.bank_size) },
  { key: "banks", label: "Banks", right: true, value: (row) => row.banks },
  {
    key: "free",
    label: "Worst: free",
    title: "Where the largest free block was the smallest part of the free bytes",
    right: true,
    value: (row) => row.worst?.free ?? null,
    render: (row) => short(row.worst?.free ?? null),
  },
  {
    key: "largest",
    label: "largest block",
    right: true,
    value: (row) => row.worst?.largest ?? null,
    render: (row) => short(row.worst?.largest ?? null),
  },
  {
    key: "at",
    label: "at",
    right: true,
    value: (row) => row.worst?.after_s ?? null,
    render: (row) => seconds(row.worst?.after_s),
  },
  {
    key: "smallest",
    label: "Smallest largest block",
    right: true,
    value: (row) => row.smallest?.largest ?? null,
    render: (row) => short(row.smallest?.largest ?? null),
  },
  {
    key: "smallest_at",
    label: "at ",
    right: true,
    value: (row) => row.smallest?.after_s ?? null,
    render: (row) => seconds(row.smallest?.after_s),
  },
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
    {
      key: "from",
      label: "From",
      right: true,
      value: (row) => row.from_ns / 1e9,
      render: (row) => moment(row.from_ns, 1e5),
    },
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
