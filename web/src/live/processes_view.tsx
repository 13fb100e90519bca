// SPDX-License-Identifier: Apache-2.0
/** All processes, and what the chosen one has on each chip. */
import type { ChipShare, EndedPhase, Phases, ProcessPhases, ProcessRow } from "../documents";
import { exact, grouped, lowerLimit, plural } from "../parts/format";
import { Table, type TableColumn } from "../parts/table";
import { bytesColumn, peakColumn } from "../parts/table_columns";
import { useDocument } from "./live_data";
import { ProcessTable } from "./process_table";
import type { ViewProps } from "./view_props";

const PHASES_MS = 2000;

export function ProcessesView(props: ViewProps) {
  const chosen = props.snapshot.processes.find((one) => one.pid !== null && one.pid === props.pid) ?? largest(props.snapshot.processes);
  return (
    <>
      <section class="panel">
        <h2>Processes</h2>
        <ProcessTable {...props} pid={chosen?.pid ?? null} />
      </section>
      {chosen === null ? (
        <p class="live-wait">No process has memory of a chip.</p>
      ) : (
        <>
          <Shares process={chosen} props={props} />
          {chosen.state === "tracked" && <PhasesPanel pid={chosen.pid ?? 0} />}
        </>
      )}
    </>
  );
}

/** The living process that has most DRAM: it is shown until the reader chooses another. */
function largest(processes: readonly ProcessRow[]): ProcessRow | null {
  const sum = (one: ProcessRow) => one.chips.reduce((total, share) => total + (share.dram ?? 0), 0);
  const living = processes.filter((one) => one.state !== "exited" && one.chips.length > 0);
  return living.reduce<ProcessRow | null>((best, one) => (best === null || sum(one) > sum(best) ? one : best), null);
}

function Shares({ process, props }: { process: ProcessRow; props: ViewProps }) {
  const { names } = props;
  const kinds = [...new Set(process.chips.flatMap((one) => Object.keys(one.kinds)))];
  return (
    <section class="panel">
      <h2>
        pid {process.pid} {process.name} <span>on each of its chips, by kind, in bytes on that chip. Kinds cb, dfb, scratchpad and kernel are those of all cached programs, which use L1 in turn.</span>
      </h2>
      {process.last_failure !== null && (
        <p class="bad">
          Last failed allocation: {process.last_failure.text.split("\n")[0]} {process.last_failure.operation ?? ""} {process.last_failure.line ?? ""}
        </p>
      )}
      {process.sources.filter((one) => one.trouble !== null).map((one) => (
        <p key={one.name} class="live-soft">{one.name}: {one.trouble}</p>
      ))}
      <Table
        label={`Memory of pid ${process.pid}`}
        rows={process.chips}
        id={(row) => row.chip}
        first={32}
        sort="chip"
        chooseTitle="Show the allocations on this chip"
        onChoose={(row) => {
          props.setChip(row.chip);
          props.show("Allocations");
        }}
        columns={[
          { key: "chip", label: "chip", value: (row) => names.number.get(row.chip) ?? row.chip, render: (row) => names.of(row.chip) },
          { key: "device", label: "device", title: "number of the chip in this process", value: (row) => row.metal_id, right: true },
          bytesColumn("dram", "DRAM", (row: ChipShare) => row.dram, "requested bytes"),
          peakColumn("peak_dram", "peak DRAM", (row: ChipShare) => row.peak_dram, (row) => row.peak_dram_at_most, "the highest value"),
          ...kinds.filter((kind) => kind !== "dram").map((kind) => bytesColumn(kind, kind, (row: ChipShare) => row.kinds[kind] ?? 0, `bytes of the kind ${kind}`)),
        ]}
      />
    </section>
  );
}

function PhasesPanel({ pid }: { pid: number }) {
  const phases = useDocument<Phases>(`phases?pid=${pid}`, PHASES_MS).data;
  return <PhasesSection processes={phases?.processes ?? []} />;
}

/** The phases of processes, and how many are not listed. Null if there are none of either. */
export function PhasesSection({ processes }: { processes: readonly ProcessPhases[] }) {
  const open = processes.flatMap((one) => one.open);
  const ended = processes.flatMap((one) => one.ended);
  const unlisted = unlistedPhases(processes);
  if (open.length + ended.length === 0 && unlisted === "") return null;
  return (
    <section class="panel">
      <h2>
        Phases <span>{open.length > 0 ? `now in ${open.map((one) => one.path ?? "a phase").join(", ")}` : "none is open"}</span>
      </h2>
      <Table
        label="Phases"
        rows={ended}
        id={(row) => row.path ?? ""}
        sort="-seconds"
        columns={[
          { key: "path", label: "phase", value: (row) => row.path, wide: true },
          { key: "runs", label: "runs", value: (row) => row.runs, right: true },
          { key: "seconds", label: "seconds", value: (row) => row.seconds, render: (row) => row.seconds.toFixed(3), right: true },
          phasePeak("dram", "peak DRAM per chip"),
          phasePeak("l1", "peak L1 buffers per chip"),
        ]}
      />
      {unlisted !== "" && <p class="live-soft">{unlisted}</p>}
    </section>
  );
}

/** What the list of phases lacks, in sentences; "" if it is complete. `left_out` counts losses, not different phases. */
export function unlistedPhases(processes: readonly { missed: number; left_out: number }[]): string {
  const sum = (name: "missed" | "left_out") => processes.reduce((total, one) => total + one[name], 0);
  const [missed, leftOut] = [sum("missed"), sum("left_out")];
  const sentences: string[] = [];
  if (missed > 0) sentences.push(`${plural(missed, "phase")} began and ended among lost records.`);
  if (leftOut > 0) {
    const times = leftOut === 1 ? "once" : `${grouped(leftOut)} times`;
    sentences.push(`Data of phases was left out ${times}, because a limit was reached.`);
  }
  return sentences.join(" ");
}

/** A run of a phase that was not observed completely may have had a higher peak. */
export function phasePeak(pool: string, label: string): TableColumn<EndedPhase> {
  return {
    key: pool,
    label,
    right: true,
    value: (row) => peakOf(row.rows, pool),
    render: (row) => {
      const peak = peakOf(row.rows, pool);
      if (row.partial === 0 || peak === null) return exact(peak);
      return <span title="at least: a run was not observed completely">{lowerLimit(exact(peak))}</span>;
    },
  };
}

function peakOf(rows: readonly { pool?: string; peak: number }[], pool: string): number | null {
  const found = rows.filter((row) => row.pool === pool).map((row) => row.peak);
  return found.length === 0 ? null : Math.max(...found);
}
