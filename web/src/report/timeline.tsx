// SPDX-License-Identifier: Apache-2.0
/**
 * The timeline of a chip group: panels below each other with one time axis, a cursor with exact values, and the chosen
 * moment or window. A click chooses a moment, a drag a window, a drag with Shift zooms.
 */
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { useSize } from "../parts/canvas";
import { AXIS_WIDTH, Chart, RIGHT_MARGIN } from "../parts/chart";
import { valueText } from "../parts/chart_axes";
import { css, kindColour } from "../parts/colours";
import { duration, exact, moment } from "../parts/format";
import { usePageColours } from "../parts/canvas";
import { ToolTip } from "../parts/tool_tip";
import { useAsync } from "../parts/use_async";
import type { Panel } from "./timeline_data";
import { bucketAt, chartData, levelFor, panelsOf, peaksOf } from "./timeline_data";
import { TimelineLanes } from "./timeline_lanes";
import type { View } from "./view";
import { clampView, zoomed } from "./zoom";
import { panelWords } from "./words";

const HEIGHTS: Record<string, number> = { dram: 120, l1: 140 };
const SMALL = 62;
const PANEL_POOLS: Record<string, string> = { l1_buffers: "l1" };

interface Drag {
  from: number;
  until: number;
  zoom: boolean;
}

export function Timeline({ view }: { view: View }) {
  const { report, group, sections, state, change } = view;
  const place = useRef<HTMLDivElement>(null);
  const layer = useRef<HTMLDivElement>(null);
  const { width, ratio } = useSize(place);
  const { theme } = usePageColours();
  const [from, until] = state.view ?? [0, Math.max(1, report.length_ns)];
  view.served?.addRange(group, from, until);
  const level = levelFor(group, from, until);
  const section = level?.section ?? group.timeline;
  const { value: columns, error } = useAsync(section, () =>
    sections.columns(section).then((data) => ({ section, data })),
  );
  const [hover, setHover] = useState<{ x: number; y: number; time: number } | null>(null);
  const [drag, setDrag] = useState<Drag | null>(null);

  const panels = useMemo(() => panelsOf(group), [group]);
  const charts = useMemo(() => {
    if (columns === null) return null;
    const drawn = group.levels.find((one) => one.section === columns.section);
    const [begin, end] = drawn === undefined ? [0, report.length_ns] : [drawn.from_ns, drawn.until_ns];
    return panels.map((panel) => chartData(panel, columns.data, begin, Math.max(end, begin + 1), theme));
  }, [columns, panels, theme]);
  const dots = useMemo(() => {
    const peaks = peaksOf(group);
    return panels.map((panel) =>
      peaks
        .filter((peak) => (PANEL_POOLS[peak.pool] ?? peak.pool) === panel.name)
        .map((peak) => ({ ...peak, colour: css(kindColour(panel.name === "programs" ? "cb" : panel.name, theme)) })),
    );
  }, [panels, theme]);
  const gaps = useMemo(() => report.losses.gaps.map((gap) => ({ from: gap.from_ns, until: gap.until_ns })), [report]);

  const plot = Math.max(1, width - AXIS_WIDTH - RIGHT_MARGIN);
  const timeAt = (x: number) => Math.min(until, Math.max(from, from + ((x - AXIS_WIDTH) / plot) * (until - from)));
  const placeOf = (time: number) => AXIS_WIDTH + ((time - from) / (until - from)) * plot;
  const pointer = (event: MouseEvent) => {
    const box = layer.current?.getBoundingClientRect();
    return { x: event.clientX - (box?.left ?? 0), y: event.clientY - (box?.top ?? 0) };
  };

  const move = (event: PointerEvent) => {
    const { x, y } = pointer(event);
    const time = timeAt(x);
    setHover({ x, y, time });
    if (drag === null) return;
    const next = { ...drag, until: time };
    setDrag(next);
    if (!drag.zoom && Math.abs(placeOf(time) - placeOf(drag.from)) > 3) {
      change({ from: Math.round(Math.min(drag.from, time)), until: Math.round(Math.max(drag.from, time)) });
    }
  };
  const release = () => {
    if (drag !== null) {
      const moved = Math.abs(placeOf(drag.until) - placeOf(drag.from)) > 3;
      if (!moved) change({ from: Math.round(drag.from), until: Math.round(drag.from) });
      else if (drag.zoom) {
        change({ view: clampView(Math.min(drag.from, drag.until), Math.max(drag.from, drag.until), report.length_ns) });
      }
    }
    setDrag(null);
  };
  const latest = useRef({ from, until, timeAt });
  latest.current = { from, until, timeAt };
  useEffect(() => {
    const target = layer.current;
    if (target === null) return;
    // The page scrolls with the wheel. Ctrl (or a pinch) zooms, Shift and sideways movements move the view.
    const wheel = (event: WheelEvent) => {
      const shown = latest.current;
      const sideways = event.shiftKey
        ? event.deltaY || event.deltaX
        : Math.abs(event.deltaX) > Math.abs(event.deltaY)
          ? event.deltaX
          : 0;
      const focused = target.contains(document.activeElement);
      if (event.ctrlKey || event.metaKey || (focused && sideways === 0)) {
        event.preventDefault();
        const at = shown.timeAt(pointer(event).x);
        change({
          view: zoomed(
            shown.from,
            shown.until,
            at,
            Math.exp(Math.max(-1, Math.min(1, event.deltaY / 240))),
            report.length_ns,
          ),
        });
      } else if (sideways !== 0) {
        event.preventDefault();
        const by = (sideways / 1000) * (shown.until - shown.from);
        change({ view: clampView(shown.from + by, shown.until + by, report.length_ns) });
      }
    };
    target.addEventListener("wheel", wheel, { passive: false });
    return () => target.removeEventListener("wheel", wheel);
  }, [report]);

  const left = Math.max(AXIS_WIDTH, placeOf(view.from));
  const right = Math.min(AXIS_WIDTH + plot, placeOf(view.until));
  const visible = view.until >= from && view.from <= until;
  return (
    <div class="timeline" ref={place}>
      <TimelineLanes
        report={report}
        group={state.group}
        from={from}
        until={until}
        width={width}
        ratio={ratio}
        onPhase={(phase) => change({ from: phase.from_ns, until: phase.until_ns ?? report.length_ns })}
        onMark={(mark) =>
          change({
            from: mark.time_ns,
            until: mark.time_ns,
            ...(mark.explained === null ? {} : { failure: mark.explained }),
          })
        }
      />
      <div
        class="timeline-panels"
        ref={layer}
        tabIndex={0}
        role="application"
        aria-label="Timeline. Arrows step from edge to edge, with Shift they extend the window; plus and minus zoom."
        onPointerDown={(event) => {
          const { x } = pointer(event);
          if (event.button !== 0 || x < AXIS_WIDTH) return;
          (event.currentTarget as HTMLElement).setPointerCapture(event.pointerId);
          setDrag({ from: timeAt(x), until: timeAt(x), zoom: event.shiftKey });
        }}
        onPointerMove={move}
        onPointerUp={release}
        onPointerCancel={() => setDrag(null)}
        onPointerLeave={() => setHover(null)}
        onDblClick={() => change({ view: null })}
      >
        {error !== null && <p class="problem">The timeline cannot be shown: {error}</p>}
        {width > 0 &&
          panels.map((panel, i) => (
            <div class="panel-row" key={panel.name}>
              <PanelLegend panel={panel} colours={charts?.[i].lines.map((line) => line.colour) ?? []} />
              {charts === null ? (
                <div style={{ height: `${HEIGHTS[panel.name] ?? SMALL}px` }} />
              ) : (
                <Chart
                  data={charts[i]}
                  from={from}
                  until={until}
                  width={width}
                  height={HEIGHTS[panel.name] ?? SMALL}
                  unit={panel.unit}
                  capacity={panel.name.startsWith("largest_free") ? null : panel.capacity}
                  dots={dots[i]}
                  gaps={gaps}
                />
              )}
            </div>
          ))}
        {visible && view.window && (
          <div class="chosen-window" style={{ left: `${left}px`, width: `${Math.max(1, right - left)}px` }} />
        )}
        {visible && !view.window && <div class="chosen-moment" style={{ left: `${placeOf(view.until)}px` }} />}
        {drag?.zoom && (
          <div
            class="zoom-window"
            style={{
              left: `${placeOf(Math.min(drag.from, drag.until))}px`,
              width: `${Math.abs(placeOf(drag.until) - placeOf(drag.from))}px`,
            }}
          />
        )}
        {hover !== null && hover.x >= AXIS_WIDTH && charts !== null && (
          <>
            <div class="cursor-line" style={{ left: `${hover.x}px` }} />
            <ToolTip
              x={hover.x}
              y={hover.y}
              title={moment(hover.time, (until - from) / plot)}
              rows={hoverRows(panels, charts, hover.time)}
            />
          </>
        )}
      </div>
    </div>
  );
}

function PanelLegend({ panel, colours }: { panel: Panel; colours: string[] }) {
  const single = panel.series.length === 1;
  return (
    <div class="panel-legend">
      <b>{single ? panel.series[0].label : panelWords(panel.name)}</b>
      {panel.series.map((series, i) => (
        <span key={series.name}>
          <i style={{ background: colours[i] }} />
          {single ? "" : series.label}
          {series.confidence !== "exact" && series.confidence !== "" && <em> {series.confidence}</em>}
        </span>
      ))}
    </div>
  );
}

/** Values of all series in the bucket at a time: one value if it did not change there, else the lowest and highest. */
function hoverRows(panels: Panel[], charts: ReturnType<typeof chartData>[], time: number): [string, string][] {
  const rows: [string, string][] = [];
  panels.forEach((panel, p) => {
    const bucket = bucketAt(charts[p], time);
    panel.series.forEach((series, i) => {
      const line = charts[p].lines[i];
      if (bucket < 0 || line.high.length === 0) return;
      const text = (value: number) =>
        value < 0 ? "not known" : panel.unit === "bytes" ? exact(value) : valueText(value, panel.unit);
      const [low, high] = [line.low[bucket], line.high[bucket]];
      rows.push([series.label, low === high ? text(low) : `${text(low)} to ${text(high)}`]);
    });
  });
  const first = charts[0];
  if (first !== undefined && first.times.length > 0) {
    rows.push(["within", duration((first.end - first.times[0]) / first.times.length)]);
  }
  return rows;
}
