// SPDX-License-Identifier: Apache-2.0
/**
 * One panel of a chart: lines over time with bands from the lowest to the highest value of each bucket. It only draws
 * (uPlot). The component that stacks panels handles the pointer, so that all panels have the same cursor.
 */
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import type { Unit } from "./chart_axes";
import { timeTicks, valueText, valueTicks } from "./chart_axes";
import { cssValue, onThemeChange } from "./theme";

/** Left of the plot is room for the axis, the same in each panel. */
export const AXIS_WIDTH = 72;
export const RIGHT_MARGIN = 14;

export interface ChartLine {
  label: string;
  colour: string;
  low: ArrayLike<number>; // negative: not known
  high: ArrayLike<number>;
  fill: boolean;
}

export interface ChartData {
  times: Float64Array; // ns, begin of each bucket; the last bucket ends at `end`
  end: number;
  lines: ChartLine[];
}

export interface ChartProps {
  data: ChartData;
  from: number; // ns, what is shown
  until: number;
  width: number;
  height: number;
  unit: Unit;
  capacity: number | null;
  /** Values to mark with a dot, such as an exact peak. */
  dots?: { time: number; value: number; colour: string }[];
  /** Time ranges without data. */
  gaps?: { from: number; until: number }[];
}

export function Chart(props: ChartProps) {
  const host = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const latest = useRef(props);
  latest.current = props;

  const shape = props.data.lines.map((line) => line.label + line.colour).join("|") + props.unit;
  useEffect(() => {
    const make = () => {
      plot.current?.destroy();
      if (host.current !== null) plot.current = create(host.current, latest);
    };
    make();
    const stop = onThemeChange(make);
    return () => {
      stop();
      plot.current?.destroy();
      plot.current = null;
    };
  }, [shape]);
  useEffect(() => plot.current?.setSize({ width: props.width, height: props.height }), [props.width, props.height]);
  useEffect(() => plot.current?.setData(table(props.data), false), [props.data, shape]);
  useEffect(() => {
    plot.current?.batch(() => {
      plot.current?.setScale("x", { min: props.from, max: props.until });
      plot.current?.setScale("y", { min: 0, max: highest(props) });
    });
  }, [props.from, props.until, props.data, props.capacity, shape]);
  useEffect(() => plot.current?.redraw(false, false), [props.dots, props.gaps]);
  return <div class="chart" ref={host} style={{ height: `${props.height}px` }} />;
}

/** The columns of uPlot: times, then the high and low of each line. A point at the end closes the last bucket. */
function table(data: ChartData): uPlot.AlignedData {
  const count = data.times.length;
  const times = new Float64Array(count + 1);
  times.set(data.times);
  times[count] = data.end;
  const known = (values: ArrayLike<number>) =>
    Array.from({ length: count + 1 }, (_, i) => {
      const value = values[Math.min(i, count - 1)];
      return value < 0 || value === undefined ? null : value;
    });
  return [times, ...data.lines.flatMap((line) => [known(line.high), known(line.low)])] as unknown as uPlot.AlignedData;
}

/** The upper end of the axis: above what is shown, and at the capacity if the values come near it. */
function highest({ data, from, until, capacity }: ChartProps): number {
  let top = 0;
  const { times } = data;
  for (let i = 0; i < times.length; i++) {
    const ends = i + 1 < times.length ? times[i + 1] : data.end;
    if (ends < from || times[i] > until) continue;
    for (const line of data.lines) if (line.high[i] > top) top = line.high[i];
  }
  if (capacity !== null && capacity > 0 && top > capacity * 0.55) return Math.max(capacity, top) * 1.06;
  return top > 0 ? top * 1.12 : 1;
}

function create(host: HTMLElement, latest: { current: ChartProps }): uPlot {
  const { data, width, height, unit } = latest.current;
  const stepped = uPlot.paths.stepped?.({ align: 1 });
  const series: uPlot.Series[] = [{}];
  const bands: uPlot.Band[] = [];
  data.lines.forEach((line, i) => {
    const shared = { paths: stepped, points: { show: false }, spanGaps: false };
    series.push({ ...shared, stroke: line.colour, width: 1.25 });
    // uPlot fills a band instead of its upper line, so the area below is that of the lower line.
    series.push({
      ...shared,
      stroke: translucent(line.colour, 0.45),
      width: 0.75,
      fill: line.fill ? translucent(line.colour, 0.15) : undefined,
    });
    bands.push({ series: [2 * i + 1, 2 * i + 2], fill: translucent(line.colour, 0.22) });
  });
  const grid = { stroke: cssValue("--line"), width: 1 };
  const axis = { stroke: cssValue("--text-soft"), font: `11px ${cssValue("--sans")}`, grid, ticks: { show: false } };
  return new uPlot(
    {
      width,
      height,
      series,
      bands,
      padding: [6, RIGHT_MARGIN, 4, 0],
      legend: { show: false },
      cursor: { show: false },
      select: { show: false, left: 0, top: 0, width: 0, height: 0 },
      scales: {
        x: { time: false, range: () => [latest.current.from, latest.current.until] },
        y: { range: () => [0, highest(latest.current)] },
      },
      axes: [
        {
          ...axis,
          size: 0,
          values: () => [],
          splits: (self) =>
            timeTicks(latest.current.from, latest.current.until, self.width - AXIS_WIDTH - RIGHT_MARGIN).ticks,
        },
        {
          ...axis,
          size: AXIS_WIDTH,
          gap: 6,
          splits: (self, _axis, _min, max) =>
            valueTicks(max, latest.current.unit, Math.max(2, Math.floor(self.height / 34))),
          values: (_self, splits) => splits.map((value) => valueText(value, unit)),
        },
      ],
      hooks: {
        drawClear: [(self) => drawGaps(self, latest.current)],
        draw: [(self) => drawMarks(self, latest.current)],
      },
    },
    table(data),
    host,
  );
}

function drawGaps(plot: uPlot, { gaps = [] }: ChartProps): void {
  const { ctx, bbox } = plot;
  ctx.save();
  ctx.fillStyle = cssValue("--warn-soft");
  for (const gap of gaps) {
    const left = Math.max(bbox.left, plot.valToPos(gap.from, "x", true));
    const right = Math.min(bbox.left + bbox.width, plot.valToPos(gap.until, "x", true));
    if (right >= left) ctx.fillRect(left, bbox.top, Math.max(2, right - left), bbox.height);
  }
  ctx.restore();
}

function drawMarks(plot: uPlot, { capacity, dots = [], from, until, unit }: ChartProps): void {
  const { ctx, bbox } = plot;
  const ratio = devicePixelRatio;
  ctx.save();
  if (capacity !== null && plot.scales.y.max !== undefined && capacity <= plot.scales.y.max) {
    const y = Math.round(plot.valToPos(capacity, "y", true)) + 0.5;
    ctx.strokeStyle = ctx.fillStyle = cssValue("--bad");
    ctx.setLineDash([5 * ratio, 4 * ratio]);
    ctx.lineWidth = ratio;
    ctx.beginPath();
    ctx.moveTo(bbox.left, y);
    ctx.lineTo(bbox.left + bbox.width, y);
    ctx.stroke();
    ctx.setLineDash([]);
    ctx.font = `${11 * ratio}px ${cssValue("--sans")}`;
    ctx.textAlign = "left";
    ctx.fillText(`capacity ${valueText(capacity, unit)}`, bbox.left + 6 * ratio, y + 13 * ratio);
  }
  for (const dot of dots) {
    if (dot.time < from || dot.time > until) continue;
    const [x, y] = [plot.valToPos(dot.time, "x", true), plot.valToPos(dot.value, "y", true)];
    ctx.beginPath();
    ctx.arc(x, y, 3.5 * ratio, 0, 2 * Math.PI);
    ctx.fillStyle = cssValue("--panel");
    ctx.strokeStyle = dot.colour;
    ctx.lineWidth = 2 * ratio;
    ctx.fill();
    ctx.stroke();
  }
  ctx.restore();
}

/** A colour "#rrggbb" with less opacity. */
export function translucent(colour: string, opacity: number): string {
  return `${colour}${Math.round(opacity * 255)
    .toString(16)
    .padStart(2, "0")}`;
}
