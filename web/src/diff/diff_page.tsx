// SPDX-License-Identifier: Apache-2.0
/** The page of two recordings: what changed, where in the run, and in which call sites. */
import "../../style/diff.css";
import { useMemo, useState } from "preact/hooks";
import { Sections } from "../data/columns";
import { embeddedSection } from "../data/embedded";
import { WindowSums } from "../data/window_sums";
import type { DiffReport, ReportGroup } from "../documents";
import { ButtonGroup } from "../parts/button_group";
import { FlameGraph } from "../parts/flame_graph";
import { moment } from "../parts/format";
import { fixColours } from "../parts/site_colours";
import { toggleTheme } from "../parts/theme";
import { useAsync } from "../parts/use_async";
import { poolNote, poolWords } from "../report/words";
import type { Side } from "./align";
import { byPhase, byTime, matchedPhases } from "./align";
import { DiffHead } from "./diff_head";
import { ChangedRows, CallSiteChanges, Lives } from "./diff_tables";
import { DiffTimeline } from "./diff_timeline";
import type { Measure } from "./diff_data";
import { history, measured, ownMask, pairedGroups } from "./diff_data";

/** Call sites that the reader chose in a table. */
export interface Chosen {
  label: string;
  sites: number[];
}

const MEASURES: Record<Measure, string> = {
  live: "bytes live", count: "allocations live", allocated: "bytes allocated so far",
};

/** The sums of one recording's chip group; null until they are decoded. */
function useSide(diff: DiffReport, side: Side, group: ReportGroup | null) {
  const sections = useMemo(() => new Sections(diff[side].sections, embeddedSection, `${side}/`), [diff]);
  const timeline = useAsync(group?.timeline ?? null, () => sections.columns(group!.timeline));
  const windows = useAsync(group?.windows ?? null, () =>
    sections.columns(group!.windows!).then((columns) => new WindowSums(columns, diff[side].sites.length)),
  );
  return { columns: timeline.value, sums: windows.value, error: timeline.error ?? windows.error };
}

export function DiffPage({ diff }: { diff: DiffReport }) {
  useMemo(() => fixColours(diff), [diff]); // before anything is drawn
  const pairs = useMemo(() => pairedGroups(diff), [diff]);
  const phased = useMemo(() => matchedPhases(diff.old.phases, diff.new.phases).length > 0, [diff]);
  const [pair, setPair] = useState(0);
  const [aligned, setAligned] = useState<"phase" | "time">(phased ? "phase" : "time");
  const [place, setPlace] = useState<number | null>(null); // on the common axis; null: the moment that was compared
  const [pool, setPool] = useState(() => firstPool(diff));
  const [measure, setMeasure] = useState<Measure>("live");
  const [only, setOnly] = useState<Chosen | null>(null);

  const groups = pairs[pair] ?? { name: "", old: null, new: null };
  const old = useSide(diff, "old", groups.old);
  const next = useSide(diff, "new", groups.new);
  const alignment = useMemo(() => {
    const lengths = { old: diff.old.length_ns, new: diff.new.length_ns };
    return aligned === "phase" ? byPhase(diff.old.phases, diff.new.phases, lengths) : byTime(lengths.old, lengths.new);
  }, [diff, aligned]);

  const snapped = (side: Side, sums: WindowSums | null) => {
    const time = place === null ? diff[side].moment_ns : alignment.timeOrBefore(side, place);
    return sums === null ? { edge: 0, time } : { edge: sums.nearest(time), time: sums.edges[sums.nearest(time)] };
  };
  const at = { old: snapped("old", old.sums), new: snapped("new", next.sums) };
  const mask = useMemo(() => {
    const kinds = new Set(diff.pools[pool] ?? []);
    const chosen = only === null ? null : new Set(only.sites);
    return Uint8Array.from(diff.sites, (site, i) => Number(kinds.has(site.kind) && (chosen === null || chosen.has(i))));
  }, [diff, pool, only]);
  const count = diff.sites.length;
  const before = useMemo(
    () => measured(old.sums?.amounts([0, at.old.edge]) ?? null, measure, diff.old, count),
    [old.sums, at.old.edge, measure],
  );
  const after = useMemo(
    () => measured(next.sums?.amounts([0, at.new.edge]) ?? null, measure, diff.new, count),
    [next.sums, at.new.edge, measure],
  );
  const change = useMemo(() => Float64Array.from(after, (value, i) => (mask[i] ? value - before[i] : 0)), [before, after, mask]);
  const selected = useMemo(() => {
    if (only === null || old.sums === null || next.sums === null) return null;
    return {
      label: only.label,
      old: history(old.sums, ownMask(mask, diff.old), "old", alignment),
      new: history(next.sums, ownMask(mask, diff.new), "new", alignment),
    };
  }, [only, mask, old.sums, next.sums, alignment]);

  const when = place === null ? diff.diff.new.moment : "at the chosen moment";
  const unit = measure === "count" ? "count" : "bytes";
  const pools = Object.keys(diff.pools).filter((name) => diff.sites.some((site) => diff.pools[name].includes(site.kind)));
  const error = old.error ?? next.error;
  const note = poolNote(pool);
  return (
    <>
      <header class="top">
        <div class="top-row">
          <span class="brand">ttmem</span>
          <h1 title={diff.title}>{diff.title}</h1>
          <span class="diff-space" />
          <button type="button" class="icon" aria-label="Light or dark" title="Light or dark" onClick={toggleTheme}>◐</button>
        </div>
      </header>
      <main class="diff-page">
        <DiffHead diff={diff} />
        {error !== null && <p class="problem">A part of the page cannot be shown: {error}</p>}
        <section class="card" aria-label="Timelines">
          <div class="diff-tools">
            <h2>Both runs over time</h2>
            <Choice
              label="Aligned" value={aligned} onChange={(value) => setAligned(value as "phase" | "time")}
              options={{ ...(phased ? { phase: "by phase" } : {}), time: "by time" }}
            />
            {pairs.length > 1 && (
              <Choice
                label="Chips" value={String(pair)} onChange={(value) => setPair(Number(value))}
                options={Object.fromEntries(pairs.map((one, i) => [i, one.name]))}
              />
            )}
            <span class="hint">
              {groups.name}. Click for a moment: the flame graph and the call sites below follow.
              {aligned === "phase" && " A phase has the same length in both runs: that of the slower one."}
            </span>
          </div>
          <DiffTimeline
            diff={diff} groups={groups} columns={{ old: old.columns, new: next.columns }} alignment={alignment}
            times={{ old: at.old.time, new: at.new.time }} chosen={selected} onChoose={setPlace}
          />
        </section>
        <section class="card" aria-label="Changes of call sites">
          <div class="diff-tools">
            <h2>What changed</h2>
            <ButtonGroup label="Pool" options={pools.map((name) => [name, poolWords(name)])} chosen={pool} onChoose={setPool} />
            <Choice label="Show" value={measure} onChange={(value) => setMeasure(value as Measure)} options={MEASURES} />
            <span class="moments" aria-live="polite">
              {when}: old {moment(at.old.time, 1e3)}, new {moment(at.new.time, 1e3)}
            </span>
            {place !== null && (
              <button type="button" class="quiet" onClick={() => setPlace(null)}>
                Back to {diff.diff.new.moment.replace(/^at /, "")}
              </button>
            )}
            {only !== null && (
              <button type="button" class="filter" title={only.label} onClick={() => setOnly(null)}>
                only {only.label} <b aria-label="remove">×</b>
              </button>
            )}
          </div>
          {note !== null && <p class="note">{note}</p>}
          <FlameGraph
            strings={diff.strings} stacks={diff.stacks} sites={diff.sites} kinds={diff.kinds} values={change} unit={unit}
            label={`${poolWords(pool)}, change of ${MEASURES[measure]} ${when}, per chip`} differential
            onZoom={(sites, name) => setOnly(sites === null ? null : { label: name, sites })}
          />
          <CallSiteChanges diff={diff} old={before} new={after} mask={mask} unit={unit} onChoose={setOnly} />
        </section>
        <ChangedRows diff={diff} onChoose={(chosen, name) => { setPool(name); setOnly(chosen); }} />
        <Lives diff={diff} />
        <footer>Made by ttmem {diff.ttmem}, {diff.made}. Sizes are those on one chip unless they say otherwise.</footer>
      </main>
    </>
  );
}

/** The pool with the largest change; without any, the first that has something. */
function firstPool(diff: DiffReport): string {
  const pools = [...diff.diff.pools].sort((a, b) => Math.abs(b.change) - Math.abs(a.change));
  return pools[0]?.pool ?? Object.keys(diff.pools)[0] ?? "dram";
}

interface ChoiceProps {
  label: string;
  value: string;
  options: Record<string, string>;
  onChange: (value: string) => void;
}

function Choice({ label, value, options, onChange }: ChoiceProps) {
  return (
    <label class="part-choice">
      {label}
      <select value={value} onChange={(event) => onChange(event.currentTarget.value)}>
        {Object.entries(options).map(([name, words]) => (
          <option key={name} value={name}>{words}</option>
        ))}
      </select>
    </label>
  );
}
