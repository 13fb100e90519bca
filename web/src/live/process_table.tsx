// SPDX-License-Identifier: Apache-2.0
/** The table of processes, short in the overview and complete in its own view. */
import type { ChipShare, ProcessRow } from "../documents";
import { Table, type TableColumn } from "../parts/table";
import { bytesColumn, countColumn, peakColumn } from "../parts/table_columns";
import { chipList, type ChipNames } from "./chip_names";
import { found, type ViewProps } from "./view_props";

const STATE_ORDER = ["tracked", "untracked", "stale", "exited"];

export function ProcessTable(props: ViewProps & { brief?: boolean }) {
  const { snapshot, names, text, brief = false } = props;
  const rows = snapshot.processes.filter(
    (one) => (!brief || one.state !== "exited") && found(text, one.pid, one.name, one.user, one.command, one.state, chipsOf(one, names)),
  );
  return (
    <Table
      label="Processes"
      columns={columns(names, brief)}
      rows={rows}
      id={(row) => `${row.pid} ${row.start} ${row.exited}`}
      sort="-dram"
      first={brief ? 6 : 20}
      chosen={(row) => row.pid === props.pid}
      chooseTitle="Show what this process has on each chip"
      onChoose={(row) => {
        props.setPid(row.pid === props.pid && !brief ? null : row.pid);
        if (brief) props.show("Processes");
      }}
      empty="no process uses a chip"
    />
  );
}

function columns(names: ChipNames, brief: boolean): TableColumn<ProcessRow>[] {
  const all: (TableColumn<ProcessRow> & { brief?: boolean })[] = [
    { key: "pid", label: "pid", value: (row) => row.pid, right: true, brief: true },
    { key: "user", label: "user", value: (row) => row.user ?? row.user_id, brief: true },
    { key: "name", label: "name", value: (row) => row.name, render: (row) => <span title={row.command ?? ""}>{row.name ?? "-"}</span>, brief: true },
    {
      key: "state",
      label: "state",
      title: "tracked: its allocations are reported; untracked: it uses a chip and does not report",
      value: (row) => STATE_ORDER.indexOf(row.state),
      render: (row) => <span class={`mark ${row.state}`}>{row.state}</span>,
      brief: true,
    },
    { key: "chips", label: "chips", value: (row) => chipsOf(row, names), brief: true },
    size("dram", "DRAM per chip", "requested bytes on the chip where it has most", (one) => one.dram),
    peakColumn("peak", "peak DRAM per chip", peakOf, peakLimit, "the highest value on one chip"),
    size("l1", "L1 buffers per chip", "on all cores of the chip where it has most", (one) => kindsOf(one, ["l1", "l1_small"])),
    size("programs", "cached programs per chip", "circular buffers, kernels and so on of all cached programs, which use L1 in turn", (one) =>
      kindsOf(one, ["cb", "dfb", "scratchpad", "kernel"]),
    ),
    countColumn("allocations", "allocations", (row) => row.allocations, "live allocations; one on a mesh counts once"),
    { key: "cpu", label: "CPU", value: (row) => row.cpu_percent, render: (row) => (row.cpu_percent === null ? "-" : `${row.cpu_percent.toFixed(0)} %`), right: true, brief: true },
    { ...bytesColumn("rss", "RAM", (row) => row.rss, "resident memory of the process on the host"), brief: true },
    {
      key: "failed",
      label: "failed",
      title: "failed allocations",
      value: (row) => row.failed,
      render: (row) => <span class={row.failed > 0 ? "bad" : ""}>{row.failed}</span>,
      right: true,
    },
    { key: "command", label: "command", value: (row) => row.command, render: (row) => <code class="clip" title={row.command ?? ""}>{row.command ?? "-"}</code>, wide: true, brief: true },
  ];
  return all.filter((column) => !brief || column.brief || column.key === "dram" || column.key === "l1");
}

function size(key: string, label: string, title: string, of: (one: ChipShare) => number | null): TableColumn<ProcessRow> {
  return bytesColumn(key, label, (row) => highest(row.chips.map(of)), title);
}

function peakOf(row: ProcessRow): number | null {
  return highest(row.chips.map((one) => one.peak_dram));
}

/** The upper limit of the highest peak, if that is not exact. */
export function peakLimit(row: ProcessRow): number | null {
  const most = highest(row.chips.map((one) => one.peak_dram_at_most ?? one.peak_dram));
  return most === peakOf(row) ? null : most;
}

/** The sum of some kinds; null if none of them was reported. */
export function kindsOf(share: ChipShare, kinds: readonly string[]): number | null {
  const known = kinds.flatMap((kind) => share.kinds[kind] ?? []);
  return known.length === 0 ? null : known.reduce((sum, one) => sum + one, 0);
}

function highest(values: readonly (number | null)[]): number | null {
  const known = values.filter((value) => value !== null);
  return known.length === 0 ? null : Math.max(...known);
}

export function chipsOf(process: ProcessRow, names: ChipNames): string {
  const ids = new Set([...process.holds, ...process.chips.map((one) => one.chip)]);
  const known = [...ids].flatMap((id) => names.number.get(id) ?? []);
  const others = [...ids].filter((id) => !names.number.has(id));
  return [chipList(known), ...others].filter((one) => one !== "").join(", ");
}
