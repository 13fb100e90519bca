// SPDX-License-Identifier: Apache-2.0
/**
 * Charts below each other with one time axis: the last minutes, which move on, or a range that was chosen with the
 * pointer. For all chips, each chart is a band from the lowest to the highest chip.
 */
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { History } from "../documents";
import { useSize } from "../parts/canvas";
import { AXIS_WIDTH, Chart, type ChartLine, RIGHT_MARGIN } from "../parts/chart";
import { timeTicks, valueText } from "../parts/chart_axes";
import { css, kindColour } from "../parts/colours";
import { currentTheme } from "../parts/theme";
import { ChipChooser } from "./chip_chooser";
import { chipNames } from "./chip_names";
import { historyPath, fillHistory } from "./history_loader";
import { useDocument, useLive } from "./live_data";
import { envelope, LiveHistory, type SeriesName, type Stretch, UNKNOWN } from "./live_history";
import type { ViewProps } from "./view_props";

const RANGES = [
  { label: "5 min", seconds: 300, step: 1 },
  { label: "15 min", seconds: 900, step: 1 },
  { label: "1 h", seconds: 3600, step: 1 },
  { label: "6 h", seconds: 21_600, step: 10 },
  { label: "24 h", seconds: 86_400, step: 10 },
] as const;
const SECOND = 1e9; // ns
const LONG_MS = 20_000; // how often long ranges are asked for
const FEW_CHIPS = 4; // long ranges of all chips are large

interface SeriesLook {
  label: string;
  unit: "bytes" | "count";
  suffix: string;
  kind: string; // whose colour it has
}

const LOOK: Record<SeriesName, SeriesLook> = {
  dram_taken: { label: "DRAM reserved, per chip", unit: "bytes", suffix: "", kind: "dram" },
  l1_at_once: { label: "L1 in use at one time, all cores of a chip", unit: "bytes", suffix: "", kind: "l1" },
  temperature_c: { label: "Temperature, °C", unit: "count", suffix: " °C", kind: "cb" },
  power_w: { label: "Power, W", unit: "count", suffix: " W", kind: "kernel" },
  aiclk_mhz: { label: "AICLK, MHz", unit: "count", suffix: " MHz", kind: "trace" },
};

export function TimeCharts({ series, height, ...given }: ViewProps & { series: readonly SeriesName[]; height: number }) {
  const { history } = useLive();
  const gone = given.snapshot.chips.length === 0 && history.chips.length > 0;
  const props = gone ? { ...given, snapshot: { ...given.snapshot, chips: [...history.chips] } } : given;
  const { snapshot, chip } = props;
  const names = gone ? chipNames(snapshot) : props.names;
  const [range, setRange] = useState(0);
  const [zoom, setZoom] = useState<{ from: number; until: number } | null>(null); // seconds
  const [cursor, setCursor] = useState<number | null>(null); // seconds
  const [drag, setDrag] = useState<number | null>(null); // where a drag began, in seconds
  const place = useRef<HTMLDivElement>(null);
  const { width } = useSize(place);
  const allowed = chip !== null || snapshot.chips.length <= FEW_CHIPS;
  const { seconds, step } = RANGES[allowed || RANGES[range].step === 1 ? range : 2];
  const now = Math.floor(Date.parse(snapshot.time) / 1000);
  const from = zoom?.from ?? now - seconds;
  const until = zoom?.until ?? now;
  const chosen = snapshot.chips.find((one) => one.chip === chip);

  useEffect(() => {
    if (step === 1 && snapshot.server !== null) void fillHistory(history, snapshot.chips, { since: now - seconds, series, chip: chosen });
  }, [seconds, chip, series.join(), snapshot.server?.pid]);
  const long = useLong(props, step === 10 ? now - seconds : null, series);

  const chips = chosen === undefined ? snapshot.chips : [chosen];
  const panels = series.flatMap((name) => {
    const panel = step === 1 ? fromHistory(history, name, chips.map((one) => one.chip), from, until) : fromLong(long, name, from, until);
    return panel === null ? [] : [{ name, ...panel }];
  });
  const plotWidth = Math.max(1, width - AXIS_WIDTH - RIGHT_MARGIN);
  const timeAt = (event: { clientX: number }) => {
    const left = (place.current?.getBoundingClientRect().left ?? 0) + AXIS_WIDTH;
    return Math.min(until, Math.max(from, from + ((event.clientX - left) / plotWidth) * (until - from)));
  };
  const xOf = (time: number) => AXIS_WIDTH + ((time - from) / Math.max(1, until - from)) * plotWidth;
  const release = (event: PointerEvent) => {
    const end = timeAt(event);
    if (drag !== null && Math.abs(end - drag) > 0.01 * (until - from)) {
      setZoom({ from: Math.floor(Math.min(drag, end)), until: Math.max(Math.floor(Math.min(drag, end)) + 2, Math.ceil(Math.max(drag, end))) });
    }
    setDrag(null);
  };
  const press = (event: KeyboardEvent) => {
    const length = until - from;
    if (event.key === "Escape") setZoom(null);
    else if (event.key === "+" || event.key === "=") setZoom(around((from + until) / 2, Math.max(4, length / 2)));
    else if (event.key === "-") setZoom(length * 2 >= seconds ? null : around((from + until) / 2, length * 2));
    else if (event.key === "ArrowLeft") setZoom({ from: from - Math.ceil(length / 10), until: until - Math.ceil(length / 10) });
    else if (event.key === "ArrowRight") setZoom(until + length / 10 >= now ? null : { from: from + Math.ceil(length / 10), until: until + Math.ceil(length / 10) });
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const capacity = (name: SeriesName) => {
    const sizes = chips.map((one) => (name === "dram_taken" ? one.memory.dram.capacity : name === "l1_at_once" ? one.memory.l1.capacity : null));
    const known = sizes.filter((size) => size !== null);
    return known.length === 0 ? null : Math.max(...known);
  };
  return (
    <section class="panel time-charts">
      <div class="part-bar">
        <ChipChooser {...props} names={names} all={`all ${snapshot.chips.length} chips, lowest to highest`} />
        <span class="seg" role="group" aria-label="Range of time">
          {RANGES.map((one, number) => (
            <button
              type="button"
              key={one.label}
              aria-pressed={zoom === null && RANGES[range] === one}
              disabled={one.step === 10 && !allowed}
              title={one.step === 10 && !allowed ? "choose a chip first" : `the last ${one.label}`}
              onClick={() => {
                setRange(number);
                setZoom(null);
              }}
            >
              {one.label}
            </button>
          ))}
        </span>
        {zoom !== null && (
          <button type="button" class="live-button" onClick={() => setZoom(null)}>
            Back to now (Esc)
          </button>
        )}
        <span class="part-space" />
        <span>Drag to zoom in. {step === 10 ? "Steps of 10 s." : "Steps of 1 s."}</span>
      </div>
      <div
        ref={place}
        class="canvas-place chart-stack"
        tabIndex={0}
        role="group"
        aria-label="Charts. Plus and minus zoom, arrow keys move, Escape returns to now."
        onKeyDown={press}
        onPointerMove={(event) => setCursor(timeAt(event))}
        onPointerLeave={() => setCursor(null)}
        onPointerDown={(event) => {
          event.currentTarget.setPointerCapture(event.pointerId);
          setDrag(timeAt(event));
        }}
        onPointerUp={release}
        onDblClick={() => setZoom(null)}
      >
        {panels.length === 0 && <p class="live-wait">There are no values of this time range.</p>}
        {width > 0 &&
          panels.map(({ name, times, line }) => {
            const look = LOOK[name];
            const at = cursor === null ? null : valueAt(times, line, Math.min(cursor, until));
            return (
              <figure key={name}>
                <figcaption>
                  <i class="swatch" style={{ background: line.colour }} /> {look.label}
                  <output>{at === null ? "" : rangeText(at, look, chosen === undefined)}</output>
                </figcaption>
                <Chart
                  data={{ times: ns(times), end: (times.length === 0 ? until : times[times.length - 1] + step) * SECOND, lines: [line] }}
                  from={from * SECOND}
                  until={until * SECOND}
                  width={width}
                  height={height}
                  unit={look.unit}
                  capacity={capacity(name)}
                />
              </figure>
            );
          })}
        <TimeAxis from={from} until={until} width={plotWidth} />
        {cursor !== null && cursor >= from && (
          <div class="chart-cursor" style={{ left: `${xOf(cursor)}px` }}>
            <span>{clock(cursor)}</span>
          </div>
        )}
        {drag !== null && cursor !== null && (
          <div class="chart-brush" style={{ left: `${xOf(Math.min(drag, cursor))}px`, width: `${Math.abs(xOf(cursor) - xOf(drag))}px` }} />
        )}
      </div>
      <p class="live-soft">
        {chosen === undefined
          ? `Each band reaches from the chip with the lowest to the chip with the highest value, of ${names.number.size} chips.`
          : "The line is the value at the end of a step, the band reaches up to the highest value in it."}
      </p>
    </section>
  );
}

interface Panel {
  times: number[]; // seconds
  line: ChartLine;
}

function fromHistory(history: LiveHistory, name: SeriesName, chips: readonly string[], from: number, until: number): Panel | null {
  const first = Math.floor(from);
  const count = Math.floor(until) - first + 1;
  const stretches = chips.map((chip) => history.read(chip, name, first, Math.floor(until)));
  if (stretches.every((one) => one === null)) return null;
  const only: Stretch | null = stretches.length === 1 ? stretches[0] : null;
  const { low, high } = only === null ? envelope(stretches, count) : { low: only.last, high: only.high };
  return { times: Array.from({ length: count }, (_, i) => first + i), line: lineOf(name, low, high) };
}

function lineOf(name: SeriesName, low: ArrayLike<number>, high: ArrayLike<number>): ChartLine {
  const look = LOOK[name];
  return { label: look.label, colour: css(kindColour(look.kind, currentTheme())), low, high, fill: true };
}

/** The history in steps of ten seconds; null while shorter ranges are shown. */
function useLong(props: ViewProps, since: number | null, series: readonly SeriesName[]): History | null {
  const chip = props.snapshot.chips.find((one) => one.chip === props.chip);
  // Rounded, so that the path stays the same for a while.
  const path = since === null ? null : historyPath({ since: Math.floor(since / 60) * 60, series, chip }, 10);
  return useDocument<History>(path, LONG_MS).data;
}

function fromLong(history: History | null, name: SeriesName, from: number, until: number): Panel | null {
  const found = history?.series.filter((one) => one.kind === name) ?? [];
  if (found.length === 0) return null;
  const first = Math.floor(from / 10) * 10;
  const count = Math.floor((until - first) / 10) + 1;
  const low = new Float64Array(count).fill(UNKNOWN);
  const high = new Float64Array(count).fill(UNKNOWN);
  for (const series of found) {
    series.time.forEach((time, i) => {
      const slot = (time - first) / 10;
      if (slot < 0 || slot >= count) return;
      low[slot] = low[slot] < 0 ? series.last[i] : Math.min(low[slot], series.last[i]);
      high[slot] = Math.max(high[slot], series.max[i]);
    });
  }
  return { times: Array.from({ length: count }, (_, i) => first + 10 * i), line: lineOf(name, low, high) };
}

function TimeAxis({ from, until, width }: { from: number; until: number; width: number }) {
  const offset = new Date(from * 1000).getTimezoneOffset() * 60; // round ticks in local time
  const ticks = useMemo(
    () => timeTicks((from - offset) * SECOND, (until - offset) * SECOND, width).ticks.map((tick) => tick / SECOND + offset),
    [from, until, width],
  );
  return (
    <div class="time-axis" aria-hidden="true">
      {ticks.map((tick) => (
        <span key={tick} style={{ left: `${AXIS_WIDTH + ((tick - from) / Math.max(1, until - from)) * width}px` }}>
          {clock(tick)}
        </span>
      ))}
    </div>
  );
}

function valueAt(times: readonly number[], line: ChartLine, time: number): { low: number; high: number } | null {
  let place = -1;
  for (let i = 0; i < times.length && times[i] <= time; i++) place = i;
  return place < 0 || line.high[place] < 0 ? null : { low: line.low[place], high: line.high[place] };
}

function rangeText(at: { low: number; high: number }, look: SeriesLook, all: boolean): string {
  const text = (value: number) => `${valueText(value, look.unit)}${look.suffix}`;
  if (text(at.low) === text(at.high)) return text(at.high);
  return all ? `${text(at.low)} to ${text(at.high)}` : `${text(at.low)}, at most ${text(at.high)}`;
}

function around(middle: number, length: number): { from: number; until: number } {
  return { from: Math.floor(middle - length / 2), until: Math.ceil(middle + length / 2) };
}

function ns(times: readonly number[]): Float64Array {
  return Float64Array.from(times, (time) => time * SECOND);
}

export function clock(seconds: number): string {
  const date = new Date(seconds * 1000);
  const two = (value: number) => String(value).padStart(2, "0");
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}
