// SPDX-License-Identifier: Apache-2.0
/** All chips of the machine on one screen, and its processes. */
import type { ChipRow, ProcessRow, Snapshot } from "../documents";
import { bytesOf, grouped, percent, plural, short } from "../parts/format";
import { chipDetails, type ChipNames } from "./chip_names";
import { useLive } from "./live_data";
import { Meter, type MeterPart, Spark } from "./meter";
import { ProcessTable } from "./process_table";
import { found, type ViewProps } from "./view_props";

const SPARK_SECONDS = 120;
const L1_KINDS = ["l1", "l1_small", "cb", "dfb", "scratchpad", "kernel", "firmware"] as const;

export function OverviewView(props: ViewProps) {
  const { snapshot, names, text } = props;
  const holders = processesByChip(snapshot.processes);
  const chips = snapshot.chips.filter((chip) =>
    found(text, names.of(chip.chip), chipDetails(chip), ...(holders.get(chip.chip) ?? []).map((one) => `${one.pid} ${one.name}`)),
  );
  return (
    <>
      <Summary snapshot={snapshot} names={names} />
      <Notes snapshot={snapshot} names={names} />
      {snapshot.chips.length === 0 && (
        <p class="live-wait">No chip was found on {snapshot.host}. The view Doctor (8) says what was checked.</p>
      )}
      <div class={`tiles ${snapshot.chips.length > 16 ? "many" : ""}`}>
        {chips.map((chip) => (
          <Tile key={chip.chip} chip={chip} holders={holders.get(chip.chip) ?? []} props={props} />
        ))}
      </div>
      <section class="panel">
        <h2>Processes</h2>
        <ProcessTable {...props} brief />
      </section>
    </>
  );
}

function Summary({ snapshot, names }: { snapshot: Snapshot; names: ChipNames }) {
  const sums = snapshot.sums?.host ?? null;
  const fullest = most(snapshot.chips, (chip) => share(chip.memory.dram.reserved ?? chip.memory.dram.used, chip.memory.dram.capacity));
  const tightest = most(snapshot.chips, (chip) => (chip.memory.l1.physical.headroom_min === null ? null : -chip.memory.l1.physical.headroom_min));
  const hottest = most(snapshot.chips, (chip) => chip.telemetry?.temperature_c ?? null);
  const power = snapshot.chips.map((chip) => chip.telemetry?.power_w ?? null).filter((one) => one !== null);
  const tracked = snapshot.processes.filter((one) => one.state === "tracked").length;
  const untracked = snapshot.processes.filter((one) => one.state === "untracked").length;
  return (
    <dl class="facts">
      <Fact label="Chips" value={String(snapshot.chips.length)} note={sums === null ? "" : `${sums.idle} idle`} />
      {sums !== null && (
        <Fact
          label={`DRAM, sum of ${plural(sums.dram.used_on, "chip")}`}
          value={short(sums.dram.reserved ?? sums.dram.used)}
          note={`of ${short(sums.dram.capacity)}`}
          title={`${bytesOf(sums.dram.used)} requested, ${bytesOf(sums.dram.reserved)} reserved`}
        />
      )}
      {fullest !== null && (
        <Fact label="Fullest DRAM" value={percent(fullest.value)} note={names.of(fullest.chip.chip)} bad={fullest.value > 0.95} />
      )}
      {tightest !== null && (
        <Fact
          label="Least L1 headroom of a core"
          value={short(-tightest.value)}
          note={names.of(tightest.chip.chip)}
          title="distance between the programs and the lowest L1 buffer on the core where it is smallest"
          bad={-tightest.value < 0}
        />
      )}
      {hottest !== null && <Fact label="Hottest" value={`${hottest.value.toFixed(0)} °C`} note={names.of(hottest.chip.chip)} />}
      {power.length > 0 && (
        <Fact label={`Power, ${plural(power.length, "chip")}`} value={`${power.reduce((sum, one) => sum + one, 0).toFixed(0)} W`} note="" />
      )}
      <Fact label="Processes" value={String(tracked)} note={untracked > 0 ? `${untracked} untracked` : "tracked"} bad={untracked > 0} />
      {snapshot.server !== null && (
        <Fact label="Events since the server started" value={grouped(snapshot.server.events)} note="" />
      )}
    </dl>
  );
}

function Fact({ label, value, note, title, bad = false }: { label: string; value: string; note: string; title?: string; bad?: boolean }) {
  return (
    <div class={bad ? "fact bad" : "fact"} title={title}>
      <dt>{label}</dt>
      <dd>
        {value} <span>{note}</span>
      </dd>
    </div>
  );
}

/** Failed allocations, uncertain numbers, and what the snapshot says about chips and processes. */
function Notes({ snapshot, names }: { snapshot: Snapshot; names: ChipNames }) {
  const failures = snapshot.processes.filter((one) => one.failed > 0);
  if (snapshot.notes.length === 0 && failures.length === 0) return null;
  return (
    <ul class="live-notes">
      {failures.map((one) => (
        <li key={`failed ${one.pid}`} class="bad">
          pid {one.pid} ({one.name}): {plural(one.failed, "failed allocation")}
          {one.last_failure !== null && `, last: ${one.last_failure.text.split("\n")[0]}`}
        </li>
      ))}
      {snapshot.notes.slice(0, 5).map((note, place) => (
        <li key={place}>
          {note.chip !== null && `${names.of(note.chip)}: `}
          {note.pid !== null && `pid ${note.pid}: `}
          {note.text}
        </li>
      ))}
      {snapshot.notes.length > 5 && <li>{snapshot.notes.length - 5} further notes</li>}
    </ul>
  );
}

function Tile({ chip, holders, props }: { chip: ChipRow; holders: readonly ProcessRow[]; props: ViewProps }) {
  const { names, setChip, show } = props;
  const { history } = useLive();
  const { dram, l1 } = chip.memory;
  const telemetry = chip.telemetry;
  const until = Math.floor(Date.parse(props.snapshot.time) / 1000);
  const past = history.read(chip.chip, "dram_taken", until - SPARK_SECONDS, until);
  const used = dram.reserved ?? dram.used;
  const clash = l1.physical.headroom_min !== null && l1.physical.headroom_min < 0;
  const open = (view: "Charts" | "Cores" | "Allocations") => {
    setChip(chip.chip);
    show(view);
  };
  return (
    <button
      type="button"
      class={`tile${props.chip === chip.chip ? " chosen" : ""}${holders.length === 0 && used === null ? " idle" : ""}`}
      title={`${names.of(chip.chip)}: ${chipDetails(chip)}. Press for its charts`}
      onClick={() => open("Charts")}
    >
      <span class="tile-head">
        <b>{names.number.get(chip.chip)}</b>
        <span>{chip.board ?? chip.arch ?? ""}</span>
        {telemetry !== null && telemetry.state === "ok" ? (
          <em class={hot(telemetry.temperature_c, telemetry.temperature_max_c) ? "bad" : ""}>
            {telemetry.temperature_c === null ? "" : `${telemetry.temperature_c.toFixed(0)}°`}{" "}
            {telemetry.power_w === null ? "" : `${telemetry.power_w.toFixed(0)} W`}
          </em>
        ) : (
          telemetry !== null && <em class="bad">{telemetry.state}</em>
        )}
      </span>
      <Meter
        label="DRAM"
        parts={used === null ? [] : [{ kind: "dram", value: used }]}
        used={used}
        capacity={dram.capacity}
        peak={dram.reserved_peak ?? dram.peak}
        peakAtMost={dram.reserved_peak === null ? dram.peak_at_most : null}
      />
      <Meter label="L1" parts={l1Parts(chip)} used={l1.at_once} capacity={l1.capacity} title={l1Title(chip)} />
      {past !== null ? (
        <Spark values={past.last} width={160} height={26} kind="dram" label="DRAM in the last two minutes" />
      ) : (
        <span class="spark" />
      )}
      <span class="tile-foot">
        {clash && <strong class="bad">clash</strong>}
        {holders.length === 0
          ? chip.held
            ? "held, not tracked"
            : "idle"
          : holders.length === 1
            ? `${holders[0].pid ?? ""} ${holders[0].name ?? ""}`
            : plural(holders.length, "process", "processes")}
      </span>
    </button>
  );
}

function l1Parts(chip: ChipRow): MeterPart[] {
  const parts = chip.memory.l1.at_once_parts;
  return L1_KINDS.flatMap((kind) => (parts[kind] ? [{ kind, value: parts[kind] ?? 0 }] : []));
}

function l1Title(chip: ChipRow): string {
  const { l1 } = chip.memory;
  const parts = L1_KINDS.flatMap((kind) => (l1.at_once_parts[kind] ? [`${kind} ${bytesOf(l1.at_once_parts[kind])}`] : []));
  const headroom = l1.physical.headroom_min === null ? "" : `; least headroom of a core ${bytesOf(l1.physical.headroom_min)}`;
  return `L1 in use at one time: ${bytesOf(l1.at_once)} of ${bytesOf(l1.capacity)} on all cores (${parts.join(", ")})${headroom}`;
}

function hot(value: number | null, limit: number | null): boolean {
  return value !== null && limit !== null && value > 0.95 * limit;
}

function share(part: number | null, whole: number | null): number | null {
  return part === null || whole === null || whole === 0 ? null : part / whole;
}

function most(chips: readonly ChipRow[], value: (chip: ChipRow) => number | null): { chip: ChipRow; value: number } | null {
  let best: { chip: ChipRow; value: number } | null = null;
  for (const chip of chips) {
    const own = value(chip);
    if (own !== null && (best === null || own > best.value)) best = { chip, value: own };
  }
  return best;
}

/** Living processes that use a chip. */
export function processesByChip(processes: readonly ProcessRow[]): Map<string, ProcessRow[]> {
  const found = new Map<string, ProcessRow[]>();
  for (const process of processes) {
    if (process.state === "exited") continue;
    for (const chip of new Set([...process.holds, ...process.chips.map((one) => one.chip)])) {
      found.set(chip, [...(found.get(chip) ?? []), process]);
    }
  }
  return found;
}
