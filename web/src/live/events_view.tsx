// SPDX-License-Identifier: Apache-2.0
/** Events as they happen, newest first. The server's stream is read by `ttmem web`; the page asks for what is new. */
import { useEffect, useRef, useState } from "preact/hooks";
import { bytesOf, grouped, short } from "../parts/format";
import type { ChipNames } from "./chip_names";
import { useLive } from "./live_data";
import { askApi, AskError } from "./poller";
import { clock } from "./time_charts";
import { found, type ViewProps } from "./view_props";

interface LiveEvent {
  time: number;
  event: string;
  pid: number | null;
  [key: string]: unknown;
}

interface Events {
  events: LiveEvent[];
  number: number;
  lost: number;
  left_out: number;
}

const COUNTS = ["Viewed", "Audited"]; // what allocators count, not what a program does: hidden at first
const KEPT = 2000;
const SHOWN = 250;
const ASK_MS = 500;

export function EventsView({ text, names, snapshot }: ViewProps) {
  const { poller } = useLive();
  const [events, setEvents] = useState<readonly LiveEvent[]>([]);
  const [missed, setMissed] = useState(0);
  const [error, setError] = useState<string | null>(null);
  const [still, setStill] = useState(false);
  const [hidden, setHidden] = useState<ReadonlySet<string>>(new Set(COUNTS));
  const stillNow = useRef(still);
  stillNow.current = still;
  useEffect(() => {
    let after = 0;
    let ended = false;
    let timer = 0;
    const ask = async () => {
      if (!document.hidden && !poller.paused && !stillNow.current) {
        try {
          const news = (await askApi(`events?after=${after}`, new AbortController().signal)) as Events;
          if (ended) return;
          if (news.number < after) after = 0; // `ttmem web` opened the stream again
          after = news.number;
          setMissed((count) => count + news.left_out);
          if (news.events.length > 0) setEvents((old) => [...news.events.reverse(), ...old].slice(0, KEPT));
          setError(null);
        } catch (trouble) {
          setError(trouble instanceof AskError ? trouble.message : String(trouble));
        }
      }
      if (!ended) timer = setTimeout(() => void ask(), ASK_MS) as unknown as number;
    };
    void ask();
    return () => {
      ended = true;
      clearTimeout(timer);
    };
  }, [poller]);
  const types = [...new Set(events.map((one) => one.event))].sort();
  const shown = together(events.filter((one) => !hidden.has(one.event) && found(text, one.event, one.pid, words(one, names))));
  const toggle = (type: string) => setHidden(new Set(hidden.has(type) ? [...hidden].filter((one) => one !== type) : [...hidden, type]));
  return (
    <section class="panel">
      <div class="part-bar">
        <button type="button" class="live-button" aria-pressed={still} onClick={() => setStill(!still)}>
          {still ? "Continue" : "Hold still"}
        </button>
        <span class="seg" role="group" aria-label="Kinds of events">
          {types.map((type) => (
            <button type="button" key={type} aria-pressed={!hidden.has(type)} onClick={() => toggle(type)} title={`show or hide ${type}`}>
              {type}
            </button>
          ))}
        </span>
        <span class="part-space" />
        <span>
          {grouped(events.length)} kept{missed > 0 && `, ${grouped(missed)} too fast to show`}
        </span>
      </div>
      {error !== null && <p class="bad">{error}</p>}
      {events.length === 0 && error === null && (
        <p class="live-wait">{snapshot.server === null ? "There is no server, so there are no events." : "No event came yet. Events appear here as they happen."}</p>
      )}
      <div class="table-scroll">
        <table class="events" aria-label="Events">
          <thead>
            <tr>
              <th>time</th>
              <th>event</th>
              <th class="right">pid</th>
              <th>kind</th>
              <th class="right">size per chip</th>
              <th class="wide">what</th>
            </tr>
          </thead>
          <tbody>
            {shown.slice(0, SHOWN).map(({ event: one, times }, place) => (
              <tr key={`${one.time} ${shown.length - place}`}>
                <td>{clock(one.time)}.{String(Math.floor((one.time % 1) * 1000)).padStart(3, "0")}</td>
                <td>
                  <span class={`mark ${one.event}`}>{one.event}</span>
                </td>
                <td class="right">{one.pid ?? "-"}</td>
                <td>{typeof one.kind === "string" ? one.kind : ""}</td>
                <td class="right" title={typeof one.size === "number" ? bytesOf(one.size) : ""}>
                  {typeof one.size === "number" ? short(one.size) : ""}
                </td>
                <td class="wide">
                  {times > 1 && <b>{times} devices </b>}
                  {words(one, names)}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {shown.length > SHOWN && <p class="live-soft">The newest {SHOWN} of {grouped(shown.length)} are shown.</p>}
    </section>
  );
}

/** Neighbouring events that differ only in their device are one row: a process reports them for each of its chips. */
export function together(events: readonly LiveEvent[]): { event: LiveEvent; times: number }[] {
  const rows: { event: LiveEvent; times: number; text: string }[] = [];
  for (const event of events) {
    const text = JSON.stringify({ ...event, device: 0, chip: null, allocator: 0, ident: 0, time: Math.floor(event.time * 100) });
    const last = rows[rows.length - 1];
    if (last !== undefined && last.text === text && event.event !== "Allocated" && event.event !== "Freed") last.times += 1;
    else rows.push({ event, times: 1, text });
  }
  return rows;
}

const COLUMNS = new Set(["time", "event", "pid", "user_id", "kind", "size", "tag", "chip", "chips", "device", "devices", "text", "name"]);

/** What an event says, besides its columns: names first, then the rest. */
function words(event: LiveEvent, names: ChipNames): string {
  const parts: string[] = [];
  for (const key of ["tag", "text", "name"]) if (typeof event[key] === "string") parts.push(event[key]);
  const chips = Array.isArray(event.chips) ? event.chips.length : 0;
  if (chips > 1) parts.push(`${chips} chips`);
  else if (typeof event.chip === "string") parts.push(names.of(event.chip));
  for (const [key, value] of Object.entries(event)) {
    if (COLUMNS.has(key) || value === null) continue;
    parts.push(`${key} ${typeof value === "object" ? JSON.stringify(value) : String(value)}`);
  }
  return parts.join(", ");
}
