// SPDX-License-Identifier: Apache-2.0
/** The live page of `ttmem web`: the frame around its views, the state of the connection, and the keys. */
import "../../style/live.css";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { LiveStart } from "../data/embedded";
import type { Snapshot } from "../documents";
import { toggleTheme } from "../parts/theme";
import { AllocationsView } from "./allocations_view";
import { Banner } from "./banner";
import { ChartsView } from "./charts_view";
import { chipNames } from "./chip_names";
import { CoresView } from "./cores_view";
import { DoctorView } from "./doctor_view";
import { EventsView } from "./events_view";
import { Help } from "./help";
import { fillHistory } from "./history_loader";
import { LiveContext, SNAPSHOT_MS, useSnapshot } from "./live_data";
import { LiveHistory } from "./live_history";
import { OverviewView } from "./overview_view";
import { Poller } from "./poller";
import { ProcessesView } from "./processes_view";
import { TelemetryView } from "./telemetry_view";
import type { ViewProps } from "./view_props";

const VIEWS = [
  { name: "Overview", search: "Search chips and processes", view: OverviewView },
  { name: "Charts", search: null, view: ChartsView },
  { name: "Telemetry", search: "Search chips", view: TelemetryView },
  { name: "Processes", search: "Search processes", view: ProcessesView },
  { name: "Cores", search: null, view: CoresView },
  { name: "Allocations", search: "Search operations, lines, shapes", view: AllocationsView },
  { name: "Events", search: "Search events", view: EventsView },
  { name: "Doctor", search: "Search findings", view: DoctorView },
] as const;

export function LivePage({ page }: { page: LiveStart }) {
  const data = useMemo(() => ({ poller: new Poller(), history: new LiveHistory() }), []);
  useEffect(() => {
    const change = () => data.poller.setAsleep(document.hidden);
    change();
    document.addEventListener("visibilitychange", change);
    return () => document.removeEventListener("visibilitychange", change);
  }, [data]);
  return (
    <LiveContext.Provider value={data}>
      <Frame page={page} poller={data.poller} history={data.history} />
    </LiveContext.Provider>
  );
}

function Frame({ page, poller, history }: { page: LiveStart; poller: Poller; history: LiveHistory }) {
  const [current, setCurrent] = useState(() => Math.max(0, VIEWS.findIndex((one) => `#${one.name.toLowerCase()}` === location.hash)));
  const [chip, setChip] = useState<string | null>(null);
  const [pid, setPid] = useState<number | null>(null);
  const [text, setText] = useState("");
  const [help, setHelp] = useState(false);
  const search = useRef<HTMLInputElement>(null);
  const answer = useSnapshot();
  const snapshot = answer.data;
  const names = useMemo(() => chipNames(snapshot), [snapshot]);
  useHistoryOf(snapshot, answer.time, history);

  const show = (place: number) => {
    setCurrent(place);
    setText("");
    window.history.replaceState(null, "", `#${VIEWS[place].name.toLowerCase()}`);
  };
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const field = event.target as HTMLElement;
      const typing = field.tagName === "INPUT" || field.tagName === "TEXTAREA" || field.tagName === "SELECT";
      if (event.key === "Escape") {
        setHelp(false);
        if (field === search.current) {
          setText("");
          search.current?.blur();
        }
        return;
      }
      if (typing) return;
      const place = Number(event.key) - 1;
      if (Number.isInteger(place) && place >= 0 && place < VIEWS.length) show(place);
      else if (event.key === "/") search.current?.focus();
      else if (event.key === "?" || event.key === "h") setHelp((shown) => !shown);
      else if (event.key === "p") poller.setPaused(!poller.paused);
      else if (event.key === "t") toggleTheme();
      else if ((event.key === "[" || event.key === "]") && snapshot !== null) setChip(nextChip(snapshot, chip, event.key === "]" ? 1 : -1));
      else return;
      event.preventDefault();
    };
    document.addEventListener("keydown", press);
    return () => document.removeEventListener("keydown", press);
  });

  const { view: View, search: hint } = VIEWS[current];
  const props: ViewProps | null = snapshot === null ? null : {
    snapshot,
    names,
    chip: snapshot.chips.some((one) => one.chip === chip) ? chip : null,
    setChip,
    pid,
    setPid,
    text: text.trim().toLowerCase(),
    show: (name) => show(VIEWS.findIndex((one) => one.name === name)),
  };
  return (
    <div class="live">
      <header class="live-head">
        <span class="live-brand">ttmem</span>
        <nav class="live-tabs" aria-label="Views">
          {VIEWS.map((one, place) => (
            <button
              type="button"
              key={one.name}
              aria-current={place === current ? "page" : undefined}
              title={`Key ${place + 1}`}
              onClick={() => show(place)}
            >
              <kbd>{place + 1}</kbd> {one.name}
            </button>
          ))}
        </nav>
        <span class="live-space" />
        {hint !== null && (
          <input
            ref={search}
            type="search"
            class="live-search"
            placeholder={`${hint} (/)`}
            aria-label={hint}
            value={text}
            onInput={(event) => setText(event.currentTarget.value)}
          />
        )}
        <State answer={answer} poller={poller} host={snapshot?.host ?? page.live.host} />
        <button type="button" class="live-button" title="Light or dark (t)" aria-label="Light or dark" onClick={toggleTheme}>
          ◐
        </button>
        <button type="button" class="live-button" title="Keys and how to reach this page (?)" aria-label="Help" onClick={() => setHelp(!help)}>
          ?
        </button>
      </header>
      <Banner answer={answer} paused={poller.paused} />
      <main class="live-main">{props === null ? <p class="live-wait">Asking for the state of the machine …</p> : <View {...props} />}</main>
      {help && <Help page={page.live} close={() => setHelp(false)} />}
    </div>
  );
}

function State({ answer, poller, host }: { answer: { data: Snapshot | null; error: string | null }; poller: Poller; host: string }) {
  const server = answer.data?.server ?? null;
  const state = answer.error !== null ? "bad" : poller.paused ? "warn" : server === null ? "warn" : "good";
  const words = answer.error !== null ? "not connected" : poller.paused ? "paused" : server === null ? "no server" : "live";
  const detail = server === null ? host : `${host}, server ${server.version}, pid ${server.pid}, ${server.events.toLocaleString("en")} events`;
  return (
    <button
      type="button"
      class={`live-state ${state}`}
      title={`${detail}. Press to ${poller.paused ? "continue" : "pause"} (p)`}
      onClick={() => poller.setPaused(!poller.paused)}
    >
      <i /> <b>{words}</b> <span>{host}</span>
    </button>
  );
}

/** Keeps the history: from the server at the start and after a gap, else from snapshots. */
function useHistoryOf(snapshot: Snapshot | null, time: number, history: LiveHistory): void {
  const last = useRef(0);
  useEffect(() => {
    if (snapshot === null) return;
    const second = Date.parse(snapshot.time) / 1000;
    history.add(snapshot);
    const since = last.current === 0 ? second - 600 : last.current;
    if (second - since > 5 * (SNAPSHOT_MS / 1000) && snapshot.server !== null) {
      void fillHistory(history, snapshot.chips, { since, series: ["dram_taken", "l1_at_once"] });
    }
    last.current = second;
  }, [snapshot, time]);
}

function nextChip(snapshot: Snapshot, chip: string | null, step: number): string | null {
  const ids: (string | null)[] = [null, ...snapshot.chips.map((one) => one.chip)];
  return ids[(Math.max(0, ids.indexOf(chip)) + step + ids.length) % ids.length];
}
