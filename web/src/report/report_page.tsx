// SPDX-License-Identifier: Apache-2.0
/** The report of a recording: one page in which everything below the timeline follows the chosen moment or window. */
import "../../style/report.css";
import type { FunctionComponent } from "preact";
import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import { Sections } from "../data/columns";
import { embeddedSection } from "../data/embedded";
import type { ServedReport } from "../data/served";
import { WindowSums } from "../data/window_sums";
import type { Report } from "../documents";
import { fixColours } from "../parts/site_colours";
import { toggleTheme } from "../parts/theme";
import { useAsync } from "../parts/use_async";
import { AllocationTable } from "./allocation_table";
import { ChoiceBar } from "./choice_bar";
import { CoresSection } from "./cores_section";
import { Failures } from "./failures";
import { FlameSection } from "./flame_section";
import { KEYS, keyChange } from "./keys";
import { LeaksSection } from "./leaks";
import { MapSection } from "./map_section";
import { OriginTable } from "./origin_table";
import { Overview } from "./overview";
import { siteMask } from "./roll_up";
import { Losses, NOT_FINISHED, Sizing } from "./run_facts";
import type { ReportState } from "./state";
import { fromHash, initialState, isWindow, toHash } from "./state";
import { Phases, Statistics } from "./statistics";
import { Timeline } from "./timeline";
import type { View } from "./view";

export interface ReportPageProps {
  report: Report;
  /** Gets compressed sections by name: from the file, or asked from `ttmem web`. */
  load?: (name: string) => Promise<Uint8Array<ArrayBuffer>>;
  /** Details on request, if `ttmem web` serves the report. */
  served?: ServedReport;
}

export function ReportPage({ report, load = embeddedSection, served }: ReportPageProps) {
  useMemo(() => fixColours(report), [report]); // before anything is drawn
  const sections = useMemo(() => new Sections(report.sections, load), [report, load]);
  const initial = useMemo(() => initialState(report), [report]);
  const [state, setState] = useState(() => fromHash(location.hash, report, initial));
  const [help, setHelp] = useState(false);
  const change = useCallback((part: Partial<ReportState>) => setState((old) => ({ ...old, ...part })), []);
  useHash(state, initial, report, setState);

  const group = report.groups[state.group];
  const windows = group?.windows ?? null;
  const { value: loaded, error } = useAsync(windows, async () => {
    const columns = await sections.columns(windows ?? "");
    return { windows, sums: new WindowSums(columns, report.sites.length) };
  });
  const sums = loaded !== null && loaded.windows === windows ? loaded.sums : null;
  const noSums =
    windows === null
      ? "The report has no call sites over time for this chip group. What made its peak is above."
      : error === null
        ? null
        : `The sums over time cannot be shown: ${error}`;
  const edges = useMemo(
    () => (sums === null ? ([0, 0] as const) : sums.snap(state.from, state.until)),
    [sums, state.from, state.until],
  );
  const amounts = useMemo(() => sums?.amounts(edges) ?? null, [sums, edges[0], edges[1]]);
  const mask = useMemo(
    () => siteMask(report, state.pool, state.only, state.search),
    [report, state.pool, state.only, state.search],
  );
  const view = useMemo(
    (): View => ({
      report,
      sections,
      state,
      change,
      group,
      sums,
      noSums,
      edges,
      amounts,
      mask,
      served,
      from: sums === null ? state.from : sums.edges[edges[0]],
      until: sums === null ? state.until : sums.edges[edges[1]],
      window: isWindow(state),
    }),
    [report, sections, state, group, sums, noSums, edges, amounts, mask, served],
  );
  return group === undefined ? <Empty report={report} /> : <ReportBody view={view} help={help} setHelp={setHelp} />;
}

const LATER_MS = 250;
const PARTS: readonly (readonly [id: string, title: string])[] = [
  ["overview", "Overview"],
  ["timeline", "Timeline"],
  ["flame", "Flame graph"],
  ["map", "Address map"],
  ["origin", "Origin"],
  ["allocations", "Allocations"],
  ["cores", "Cores"],
  ["failures", "Failures"],
  ["leaks", "Leaks"],
  ["sizing", "Sizing"],
  ["statistics", "Statistics"],
  ["phases", "Phases"],
  ["losses", "Losses"],
];

function ReportBody({ view, help, setHelp }: { view: View; help: boolean; setHelp: (help: boolean) => void }) {
  const { report } = view;
  useKeys(view, help, setHelp);
  const go = (id: string) => document.getElementById(id)?.scrollIntoView({ behavior: "smooth", block: "start" });
  return (
    <>
      <header class="top">
        <div class="top-row">
          <span class="brand">ttmem</span>
          <h1 title={report.title}>{report.title}</h1>
          {report.confidential && <span class="tag">confidential</span>}
          <nav aria-label="Parts of the report">
            {PARTS.filter(([id]) => id !== "sizing" || hasSizing(report)).map(([id, title]) => (
              <button type="button" key={id} onClick={() => go(id)}>
                {title}
              </button>
            ))}
          </nav>
          <button type="button" class="icon" aria-label="Light or dark" title="Light or dark (d)" onClick={toggleTheme}>
            ◐
          </button>
          <button type="button" class="icon" aria-label="Keys" title="Keys (?)" onClick={() => setHelp(!help)}>
            ?
          </button>
        </div>
        <ChoiceBar view={view} />
      </header>
      <main>
        <Overview view={view} />
        <Part
          view={view}
          id="timeline"
          title="Timeline"
          of={Timeline}
          hint="Click for a moment, drag for a window, Ctrl and wheel or Shift and drag to zoom, double click for all."
        />
        <Part view={view} id="flame" title="Flame graph" of={FlameSection} />
        <Part view={view} id="map" title="Address map" of={MapSection} />
        <Part view={view} id="origin" title="Origin of memory" of={OriginTable} />
        <Part view={view} id="allocations" title="Allocations" of={AllocationTable} />
        <Part view={view} id="cores" title="L1 of the cores" of={CoresSection} />
        <Part view={view} id="failures" title="Failed allocations" of={Failures} />
        <Part view={view} id="leaks" title="Leaks" of={LeaksSection} />
        {hasSizing(report) && <Part view={view} id="sizing" title="Sizing advice" of={Sizing} />}
        <Part view={view} id="statistics" title="Statistics of the whole run" of={Statistics} />
        <Part view={view} id="phases" title="Phases" of={Phases} />
        <Part view={view} id="losses" title="Losses and completeness" of={Losses} />
        <footer>
          Made by ttmem {report.ttmem}, {report.made}. Sizes are those on one chip unless they say otherwise.
        </footer>
      </main>
      {help && <KeyHelp close={() => setHelp(false)} />}
    </>
  );
}

interface PartProps {
  view: View;
  id: string;
  title: string;
  hint?: string;
  of: FunctionComponent<{ view: View }>;
}

/**
 * A part of the page. It is made when it comes near the screen, so that the first screen needs no sections. What is not
 * on the screen follows a little later, so that brushing is as fast as what one sees.
 */
function Part({ view, id, title, hint, of: Content }: PartProps) {
  const place = useRef<HTMLElement>(null);
  const [near, setNear] = useState(false);
  const [made, setMade] = useState(false);
  const [later, setLater] = useState(view);
  useEffect(() => {
    if (place.current === null) return;
    const observer = new IntersectionObserver(
      (entries) => {
        const inside = entries[entries.length - 1].isIntersecting;
        setNear(inside);
        if (inside) setMade(true);
      },
      { rootMargin: "150px" },
    );
    observer.observe(place.current);
    const all = () => setMade(true);
    addEventListener("beforeprint", all);
    return () => {
      observer.disconnect();
      removeEventListener("beforeprint", all);
    };
  }, []);
  useEffect(() => {
    if (near) return;
    const timer = setTimeout(() => setLater(view), LATER_MS);
    return () => clearTimeout(timer);
  }, [view, near]);
  const shown = near ? view : later;
  const content = useMemo(() => <Content view={shown} />, [shown]);
  return (
    <section id={id} class={`card part ${made ? "" : "waiting"}`} aria-busy={shown !== view} ref={place}>
      <h2>
        {title} {hint !== undefined && <span class="hint">{hint}</span>}
      </h2>
      {made && content}
    </section>
  );
}

function hasSizing(report: Report): boolean {
  return (report.sizing ?? []).length > 0;
}

function Empty({ report }: { report: Report }) {
  return (
    <main>
      <section class="overview">
        <div class={`verdict ${report.verdict.status}`}>
          <div>
            <p class="first">{report.title}</p>
            {report.verdict.lines.map((line) => (
              <p key={line}>{line}</p>
            ))}
            <p>{report.losses.finished ? "No chip was used in this recording." : NOT_FINISHED}</p>
            {report.notes.concat(report.losses.problems).map((line) => (
              <p key={line}>{line}</p>
            ))}
          </div>
        </div>
      </section>
    </main>
  );
}

function KeyHelp({ close }: { close: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog ref={dialog} onClose={close} onClick={(event) => event.target === dialog.current && close()}>
      <h2>Keys</h2>
      <dl>
        {KEYS.map(([keys, what]) => (
          <div key={keys}>
            <dt>
              {keys.split(" ").map((key) => (
                <kbd key={key}>{key}</kbd>
              ))}
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
      <p class="note">
        Tables: arrows move from row to row, Enter chooses a row. Flame graph and maps have keys of their own when they
        have the focus.
      </p>
      <button type="button" onClick={close}>
        Close
      </button>
    </dialog>
  );
}

function useKeys(view: View, help: boolean, setHelp: (help: boolean) => void): void {
  const latest = useRef({ view, help });
  latest.current = { view, help };
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      const target = event.target as HTMLElement;
      if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
      if (target.matches("input, select, textarea")) {
        if (event.key === "Escape") target.blur();
        return;
      }
      if (event.key === "?") setHelp(!latest.current.help);
      else if (latest.current.help) return;
      else if (event.key === "/") document.getElementById("search")?.focus();
      else {
        const change = keyChange(event.key, event.shiftKey, latest.current.view);
        if (change === null) return;
        latest.current.view.change(change);
      }
      event.preventDefault();
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, []);
}

/** Keeps the state in the address, a little later, because browsers limit how often it may change. */
function useHash(
  state: ReportState,
  initial: ReportState,
  report: Report,
  setState: (state: ReportState) => void,
): void {
  useEffect(() => {
    const timer = setTimeout(() => {
      const hash = toHash(state, initial);
      if (hash !== location.hash.replace(/^#/, ""))
        setAddress(hash === "" ? location.pathname + location.search : `#${hash}`);
    }, 150);
    return () => clearTimeout(timer);
  }, [state]);
  useEffect(() => {
    const read = () => setState(fromHash(location.hash, report, initial));
    addEventListener("hashchange", read);
    return () => removeEventListener("hashchange", read);
  }, []);
}

/** A page in a frame of a notebook has no address of its own, and browsers refuse to change it. */
function setAddress(address: string): void {
  try {
    history.replaceState(null, "", address);
  } catch {
    // The choice is then only in the page.
  }
}
