// SPDX-License-Identifier: Apache-2.0
/** Both timelines on one axis: the phases of each recording, and panels with a line for each. */
import { useMemo, useRef, useState } from "preact/hooks";
import type { Columns } from "../data/columns";
import type { DiffReport, ReportGroup } from "../documents";
import { usePageColours, usePaint, useSize } from "../parts/canvas";
import type { ChartData } from "../parts/chart";
import { AXIS_WIDTH, Chart, RIGHT_MARGIN } from "../parts/chart";
import { valueText } from "../parts/chart_axes";
import { css, inkOn, kindColour } from "../parts/colours";
import { exact, moment } from "../parts/format";
import { baseName, phaseColours } from "../parts/phase_colours";
import { ToolTip } from "../parts/tool_tip";
import type { Panel } from "../report/timeline_data";
import { panelsOf, seriesColour } from "../report/timeline_data";
import { panelWords } from "../report/words";
import type { Alignment, Side } from "./align";
import type { Band } from "./diff_data";
import { BUCKETS, resampled } from "./diff_data";

const HEIGHT = 130;
const LANE = 20;
const SIDES: readonly Side[] = ["old", "new"];
const LEFT_OUT = ["events", "host"]; // they say more about the machine than about the change
const KEY_STEPS = 200;

export interface DiffTimelineProps {
  diff: DiffReport;
  groups: Record<Side, ReportGroup | null>;
  columns: Record<Side, Columns | null>;
  alignment: Alignment;
  /** Times of both recordings that are shown below. */
  times: Record<Side, number>;
  /** The history of the chosen call sites, if some are chosen. */
  chosen: { label: string; old: Band; new: Band } | null;
  onChoose: (place: number) => void;
}

interface Drawn {
  panel: Pick<Panel, "name" | "unit" | "capacity">;
  title: string;
  label: string;
  data: ChartData;
}

export function DiffTimeline(props: DiffTimelineProps) {
  const { diff, groups, columns, alignment, times, chosen, onChoose } = props;
  const place = useRef<HTMLDivElement>(null);
  const layer = useRef<HTMLDivElement>(null);
  const { width, ratio } = useSize(place);
  const colours = usePageColours();
  const [hover, setHover] = useState<{ x: number; y: number } | null>(null);
  const old = css(colours.theme === "light" ? 0x7a8290 : 0x98a1ae);
  const plot = Math.max(1, width - AXIS_WIDTH - RIGHT_MARGIN);
  const xOf = (at: number) => AXIS_WIDTH + (at / alignment.length) * plot;
  const placeAt = (x: number) => Math.min(alignment.length, Math.max(0, ((x - AXIS_WIDTH) / plot) * alignment.length));

  const drawn = useMemo(() => {
    const found: Drawn[] = [];
    const axis = Float64Array.from({ length: BUCKETS }, (_, i) => (alignment.length * i) / BUCKETS);
    const put = (panel: Drawn["panel"], title: string, label: string, bands: Record<Side, Band>, colour: string) =>
      found.push({
        panel, title, label,
        data: {
          times: axis, end: alignment.length,
          lines: [
            { label: "old", colour: old, ...bands.old, fill: false },
            { label: "new", colour, ...bands.new, fill: true },
          ],
        },
      });
    if (chosen !== null) {
      put({ name: "chosen", unit: "bytes", capacity: null }, "Chosen call sites, live per chip", chosen.label, chosen, css(kindColour("kernel", colours.theme)));
    }
    const base = groups.new ?? groups.old;
    for (const panel of base === null ? [] : panelsOf(base)) {
      if (LEFT_OUT.includes(panel.name)) continue;
      panel.series.forEach((series, i) => {
        const bands = (side: Side) => {
          const data = columns[side];
          return data === null ? resampled({}, "", 1, side, alignment) : resampled(data, series.name, Math.max(1, diff[side].length_ns), side, alignment);
        };
        const pair = { old: bands("old"), new: bands("new") };
        if (Math.max(...pair.old.high, ...pair.new.high) <= 0) return;
        const capacity = series.capacity ?? (panel.series.length === 1 ? panel.capacity : null);
        put({ name: panel.name, unit: panel.unit, capacity }, panelWords(panel.name), panel.series.length > 1 ? series.label : "", pair, css(seriesColour(series, i, colours.theme)));
      });
    }
    return found;
  }, [diff, groups.old, groups.new, columns.old, columns.new, alignment, chosen, colours.theme]);

  const pointer = (event: MouseEvent) => {
    const box = layer.current?.getBoundingClientRect();
    return { x: event.clientX - (box?.left ?? 0), y: event.clientY - (box?.top ?? 0) };
  };
  const press = (event: KeyboardEvent) => {
    const step = alignment.length / (event.shiftKey ? KEY_STEPS / 10 : KEY_STEPS);
    const at = alignment.place("new", times.new);
    const next = { ArrowLeft: at - step, ArrowRight: at + step, Home: 0, End: alignment.length }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    onChoose(Math.min(alignment.length, Math.max(0, next)));
  };
  return (
    <div class="timeline diff-timeline" ref={place}>
      {SIDES.map((side) => (
        <PhaseLane key={side} diff={diff} side={side} alignment={alignment} width={width} ratio={ratio} onChoose={onChoose} />
      ))}
      <div
        class="timeline-panels"
        ref={layer}
        tabIndex={0}
        role="application"
        aria-label="Both timelines. Arrows move the chosen moment, with Shift in larger steps."
        onKeyDown={press}
        onClick={(event) => pointer(event).x >= AXIS_WIDTH && onChoose(placeAt(pointer(event).x))}
        onPointerMove={(event) => setHover(pointer(event))}
        onPointerLeave={() => setHover(null)}
      >
        {width > 0 &&
          drawn.map(({ panel, title, label, data }) => (
            <div class="panel-row" key={panel.name + label}>
              <div class="panel-legend">
                <b>{title}</b> <span>{label}</span>
                {data.lines.map((line) => (
                  <span key={line.label}>
                    <i style={{ background: line.colour }} />
                    {line.label}
                  </span>
                ))}
              </div>
              <Chart
                data={data} from={0} until={alignment.length} width={width}
                height={panel.unit === "bytes" ? HEIGHT : HEIGHT - 50} unit={panel.unit} capacity={panel.capacity}
              />
            </div>
          ))}
        {width > 0 && SIDES.map((side) => (
          <div class={`chosen-moment chosen-${side}`} key={side} style={{ left: `${xOf(alignment.place(side, times[side]))}px` }} />
        ))}
        {hover !== null && hover.x >= AXIS_WIDTH && (
          <>
            <div class="cursor-line" style={{ left: `${hover.x}px` }} />
            <ToolTip x={hover.x} y={hover.y} title={timesText(alignment, placeAt(hover.x))} rows={hoverRows(drawn, placeAt(hover.x), alignment)} />
          </>
        )}
      </div>
    </div>
  );
}

/** "old 1.25 s, new 1.31 s" at a place of the axis. */
function timesText(alignment: Alignment, place: number): string {
  const one = (side: Side) => {
    const time = alignment.time(side, place);
    return `${side} ${time === null ? "has nothing here" : moment(time, alignment.length / 1000)}`;
  };
  return `${one("old")}, ${one("new")}`;
}

function hoverRows(drawn: Drawn[], place: number, alignment: Alignment): [string, string][] {
  const bucket = Math.min(BUCKETS - 1, Math.floor((place / alignment.length) * BUCKETS));
  return drawn.map(({ panel, title, label, data }) => {
    const text = (value: number) => (value < 0 ? "-" : panel.unit === "bytes" ? exact(value) : valueText(value, panel.unit));
    const [old, next] = data.lines.map((line) => text(line.high[bucket]));
    return [label || title, old === next ? old : `${old} → ${next}`];
  });
}

interface LaneProps {
  diff: DiffReport;
  side: Side;
  alignment: Alignment;
  width: number;
  ratio: number;
  onChoose: (place: number) => void;
}

/** The outermost phases of one recording. A click chooses the end of a phase. */
function PhaseLane({ diff, side, alignment, width, ratio, onChoose }: LaneProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const colours = usePageColours();
  const names = useMemo(() => phaseColours([...diff.old.phases, ...diff.new.phases]), [diff]);
  const plot = Math.max(1, width - AXIS_WIDTH - RIGHT_MARGIN);
  const phases = useMemo(
    () => diff[side].phases.filter((phase) => phase.depth === 0).map((phase) => {
      const begin = alignment.place(side, phase.from_ns);
      return { phase, begin, end: alignment.place(side, phase.until_ns ?? diff[side].length_ns) };
    }),
    [diff, side, alignment],
  );
  usePaint(
    canvas,
    { width, height: LANE, ratio },
    (context) => {
      context.font = `11px ${colours.sans}`;
      context.textBaseline = "middle";
      context.fillStyle = colours.soft;
      context.fillText(side, 8, LANE / 2);
      if (phases.length === 0) context.fillText("no phases", AXIS_WIDTH, LANE / 2);
      for (const { phase, begin, end } of phases) {
        const left = AXIS_WIDTH + (begin / alignment.length) * plot;
        const wide = Math.max(1, ((end - begin) / alignment.length) * plot - 1);
        const fill = names.of(baseName(phase), colours.theme);
        context.fillStyle = css(fill);
        context.fillRect(left, 2, wide, LANE - 4);
        if (wide < 26) continue;
        context.save();
        context.beginPath();
        context.rect(left, 2, wide - 3, LANE - 4);
        context.clip();
        context.fillStyle = css(inkOn(fill));
        context.fillText(phase.name, left + 5, LANE / 2 + 0.5);
        context.restore();
      }
    },
    [phases, alignment, colours],
  );
  return (
    <canvas
      ref={canvas}
      class="diff-lane"
      role="img"
      aria-label={`Phases of ${side}: ${phases.map(({ phase }) => phase.name).slice(0, 20).join(", ") || "none"}`}
      onClick={(event) => {
        const at = ((event.offsetX - AXIS_WIDTH) / plot) * alignment.length;
        const hit = phases.findLast(({ begin, end }) => at >= begin && at <= end);
        if (hit !== undefined) onChoose(hit.end);
      }}
    />
  );
}
