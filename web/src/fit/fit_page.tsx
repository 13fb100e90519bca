// SPDX-License-Identifier: Apache-2.0
/** The page of `ttmem fit`: whether a command fits on each machine, how close it is, and what is not known. */
import "../../style/fit.css";
import { useMemo, useState } from "preact/hooks";
import type { Fit, FitBoard, FitPhase } from "../documents";
import { exact, percent, plural, short } from "../parts/format";
import type { TableColumn } from "../parts/table";
import { Table } from "../parts/table";
import { bytesColumn, countColumn, numberColumn } from "../parts/table_columns";
import { toggleTheme } from "../parts/theme";
import { VERDICTS, borderWords, firstRun, ordered, runName, searchCells, together, valuesOf } from "./fit_runs";

const TONES = { fits: "fits", fails: "out_of_memory", unknown: "cannot_tell" } as const;

export function FitPage({ fit, made }: { fit: Fit; made: string }) {
  const [chosen, setChosen] = useState(() => firstRun(fit));
  const runs = useMemo(() => ordered(fit), [fit]);
  const run = fit.boards.find((one) => runName(one) === chosen);
  const command = fit.command.join(" ");
  const shortCommand = command.replace(/^\S*\//, "");
  return (
    <>
      <header class="top">
        <div class="top-row">
          <span class="brand">ttmem</span>
          <h1 title={command}>Does it fit? {shortCommand}</h1>
          <span class="fit-space" />
          <button type="button" class="icon" aria-label="Light or dark" title="Light or dark" onClick={toggleTheme}>◐</button>
        </div>
      </header>
      <main class="fit-page">
        <div class={`verdict ${TONES[together(fit)]}`}>
          <span class="badge">{capital(VERDICTS[together(fit)])}</span>
          <div>
            <p class="first">{headline(fit)}</p>
            <p>
              Found with ttnn {fit.ttnn.version ?? "of unknown version"} on mock devices, {made}. Never compared with hardware.
              {fit.fake_weights && " Values of large tensors were not turned into tiles on the host."}
              {!fit.real_kernels && " Kernels were not compiled, so their sizes are not known."}
            </p>
          </div>
        </div>
        {fit.borders.length > 0 && <Searches fit={fit} />}
        <section class="card" aria-label="Runs">
          <h2>
            Runs <span class="soft">sizes in one DRAM bank, and in the L1 of one core</span>
          </h2>
          <Table
            label="Runs" columns={columnsOf(fit)} rows={runs} id={runName} first={30}
            chosen={(row) => runName(row) === chosen} onChoose={(row) => setChosen(runName(row))} chooseTitle="Show this run below"
          />
        </section>
        {run !== undefined && <Run run={run} />}
      </main>
    </>
  );
}

function headline(fit: Fit): string {
  if (fit.borders.length > 0) {
    return `${fit.borders.map((border) => `${runName(border)}: ${borderWords(border)}`).join(". ")}.`;
  }
  const machines = fit.boards.map((run) => `${runName(run)} ${VERDICTS[run.verdict]}`).join(", ");
  const several = new Set(fit.boards.map((run) => run.board)).size > 1;
  return several ? `${machines}. The smallest machine on which it fits: ${fit.smallest ?? "none of them"}.` : `${machines}.`;
}

function Searches({ fit }: { fit: Fit }) {
  const searched = fit.varied.find((one) => one.searched);
  return (
    <section class="card" aria-label="Search">
      <h2>
        Largest {searched?.name} that fits <span class="soft">of {searched?.first} to {searched?.last}</span>
      </h2>
      {fit.borders.map((border) => (
        <div class="fit-search" key={runName(border)}>
          <b>{runName(border)}</b>
          <span class="fit-line" role="img" aria-label={borderWords(border)}>
            {searchCells(fit, border).map((cell) => (
              <i
                key={`${cell.verdict}${cell.from}`} class={cell.verdict} title={cell.title}
                style={{ left: `${100 * cell.from}%`, width: `${100 * (cell.until - cell.from)}%` }}
              />
            ))}
          </span>
          <span>{borderWords(border)}</span>
        </div>
      ))}
      <p class="note">
        <i class="fit-key fits" /> was run and fits <i class="fit-key implied" /> was not run, a larger value fits{" "}
        <i class="fit-key fails" /> was run and does not fit <i class="fit-key unknown" /> was run, cannot tell
      </p>
    </section>
  );
}

function columnsOf(fit: Fit): TableColumn<FitBoard>[] {
  return [
    { key: "board", label: "Machine", value: (run) => run.board, render: (run) => <b>{run.board}</b> },
    ...(fit.varied.length > 0
      ? [{ key: "values", label: "Values", value: (run: FitBoard) => valuesOf(run).join(" ") }]
      : []),
    { key: "verdict", label: "Verdict", value: (run) => VERDICTS[run.verdict], render: (run) => <span class={`fit-verdict ${run.verdict}`}>{VERDICTS[run.verdict]}</span> },
    { key: "chips", label: "Chips", right: true, value: (run) => run.chips },
    bytesColumn("dram", "DRAM at the peak", (run) => run.dram?.peak ?? null),
    {
      key: "share", label: "of a bank", right: true, value: (run) => (run.dram ? run.dram.peak / run.dram.bank_size : null),
      render: (run) => (run.dram === null ? "-" : <Share part={run.dram.peak / run.dram.bank_size} />),
    },
    bytesColumn("free", "Lowest value of the largest free block", (run) => run.dram?.largest_free_min ?? null),
    bytesColumn("headroom", "Least L1 headroom", (run) => run.l1?.headroom ?? null),
    bytesColumn("small", "L1_SMALL needed", (run) => run.l1_small?.needed ?? null),
    countColumn("programs", "Programs", (run) => run.programs),
    { key: "time", label: "Run time", right: true, value: (run) => run.duration_s, render: (run) => `${run.duration_s.toFixed(1)} s` },
  ];
}

function Share({ part }: { part: number }) {
  return (
    <span class="share">
      <i style={{ width: `${100 * Math.min(1, part)}%` }} /> {percent(part)}
    </span>
  );
}

function Run({ run }: { run: FitBoard }) {
  const { failure, dram, l1, kv, trace, kernel_ring: ring } = run;
  const rows: [string, string][] = [["verdict", `${VERDICTS[run.verdict]}: ${run.reason}`]];
  if (failure !== null) rows.push(["failed allocation", failure.headline], ["held by", failure.held_by.replace(/^held by /, "")]);
  if (dram !== null) {
    rows.push(["DRAM", `${exact(dram.peak)} of ${short(dram.bank_size)} per bank at the peak, ${plural(dram.banks, "bank")}; largest free block never below ${exact(dram.largest_free_min)}`]);
  }
  if (kv !== null) rows.push(["KV cache", `room for ${plural(kv.tokens, "token")} of ${exact(kv.bytes_per_token)} per chip, ${exact(kv.bytes)}, beside the rest`]);
  if (l1 !== null) {
    const where = `${l1.operation ?? "a program"}${l1.line === null ? "" : ` at ${l1.line}`}`;
    rows.push(["L1", l1.headroom === null
      ? `${exact(l1.buffers_peak, "unknown")} of ${short(l1.bank_size)} per core in buffers at the peak`
      : `tightest: ${where} leaves ${exact(l1.headroom)} per core below ${l1.limited_by}`]);
  }
  if (run.l1_small !== null) rows.push(["L1_SMALL", `${exact(run.l1_small.needed)} per core needed, ${exact(run.l1_small.declared)} declared`]);
  if (trace !== null) rows.push(["traces", `${exact(trace.declared)} per bank declared; ${trace.captured} captured with ${plural(trace.launches, "launch", "launches")}`]);
  if (ring !== null) rows.push(["kernel ring", `${exact(ring.needed)} of ${short(ring.size)} needed${ring.operation === null ? "" : ` by ${ring.operation}`}`]);
  for (const one of run.unknown) {
    rows.push(["unknown", `${one.what}: ${one.bound === null ? "" : `at most ${exact(one.bound)} per DRAM bank: `}${one.text}`]);
  }
  rows.push(...run.notes.map((note): [string, string] => ["note", note]));
  return (
    <section class="card" aria-label="One run">
      <h2>{runName(run)}</h2>
      <dl class="fit-facts">
        {rows.map(([label, text]) => (
          <div key={`${label}${text}`}>
            <dt>{label}</dt>
            <dd>{text}</dd>
          </div>
        ))}
      </dl>
      {run.phases.length > 0 && (
        <Table
          label="Phases" rows={run.phases} id={(row) => row.phase}
          columns={[
            { key: "phase", label: "Phase", value: (row) => row.phase },
            numberColumn("peak", "DRAM per bank at the peak", (row: FitPhase) => row.peak, exact),
            numberColumn("free", "Lowest value of the largest free block", (row: FitPhase) => row.largest_free_min, exact),
          ]}
        />
      )}
      {run.output.length > 0 && <pre>{run.output.join("\n")}</pre>}
    </section>
  );
}

function capital(text: string): string {
  return text[0].toUpperCase() + text.slice(1);
}
