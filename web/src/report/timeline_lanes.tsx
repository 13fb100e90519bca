// SPDX-License-Identifier: Apache-2.0
/** Above the panels of a timeline: the ruler, the phases as bars, and marks. */
import { useMemo, useRef, useState } from "preact/hooks";
import type { Report, ReportMark, ReportPhase } from "../documents";
import { usePageColours, usePaint } from "../parts/canvas";
import { AXIS_WIDTH, RIGHT_MARGIN } from "../parts/chart";
import { timeTicks } from "../parts/chart_axes";
import { css, inkOn } from "../parts/colours";
import { duration, moment } from "../parts/format";
import { baseName, phaseColours } from "../parts/phase_colours";
import { ToolTip } from "../parts/tool_tip";

const RULER = 20;
const LANE = 18;
const MARKS = 18;
const MOST_LANES = 6;

interface Hit {
  x: number;
  y: number;
  width: number;
  height: number;
  phase?: ReportPhase;
  mark?: ReportMark;
}

export interface LanesProps {
  report: Report;
  group: number;
  from: number;
  until: number;
  width: number;
  ratio: number;
  onPhase: (phase: ReportPhase) => void;
  onMark: (mark: ReportMark) => void;
}

const MARK_WORDS: Record<ReportMark["type"], string> = {
  failure: "failed allocation",
  compile: "program compiled",
  mark: "mark",
  peak: "peak",
  close: "device closed",
};

export function TimelineLanes({ report, group, from, until, width, ratio, onPhase, onMark }: LanesProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const colours = usePageColours();
  const names = useMemo(() => phaseColours(report.phases), [report]);
  const [hover, setHover] = useState<{ hit: Hit; x: number; y: number } | null>(null);
  const phases = useMemo(() => report.phases.filter((phase) => phase.groups.includes(group)), [report, group]);
  const marks = useMemo(
    () => report.marks.filter((mark) => mark.type !== "peak" && (mark.group === group || mark.group < 0)),
    [report, group],
  );
  const lanes = Math.min(
    MOST_LANES,
    phases.reduce((most, phase) => Math.max(most, phase.depth + 1), 0),
  );
  const height = RULER + lanes * LANE + (marks.length > 0 ? MARKS : 0) + 2;
  const hits = useRef<Hit[]>([]);
  const plot = width - AXIS_WIDTH - RIGHT_MARGIN;
  const place = (time: number) => AXIS_WIDTH + ((time - from) / (until - from)) * plot;

  usePaint(
    canvas,
    { width, height, ratio },
    (context) => {
      const found: Hit[] = [];
      context.font = `11px ${colours.sans}`;
      context.textBaseline = "middle";
      const { ticks, step } = timeTicks(from, until, plot);
      context.fillStyle = colours.soft;
      context.strokeStyle = colours.line;
      context.textAlign = "left";
      for (const tick of ticks) {
        const x = Math.round(place(tick)) + 0.5;
        context.beginPath();
        context.moveTo(x, 4);
        context.lineTo(x, height);
        context.stroke();
        const text = moment(tick, step);
        if (x + 4 + context.measureText(text).width < width) context.fillText(text, x + 4, RULER / 2);
      }
      context.fillText(lanes > 0 ? "Phases" : "", 8, RULER + LANE / 2);
      if (marks.length > 0) context.fillText("Marks", 8, RULER + lanes * LANE + MARKS / 2);
      context.save();
      context.beginPath();
      context.rect(AXIS_WIDTH, 0, plot, height);
      context.clip();
      for (const phase of phases) {
        const [begin, end] = [phase.from_ns, phase.until_ns ?? report.length_ns];
        if (phase.depth >= MOST_LANES || end < from || begin > until) continue;
        const left = Math.max(AXIS_WIDTH - 2, place(begin));
        const right = Math.min(width, place(end));
        const hit = {
          x: left,
          y: RULER + phase.depth * LANE + 1,
          width: Math.max(1, right - left - 1),
          height: LANE - 3,
          phase,
        };
        const fill = names.of(baseName(phase), colours.theme);
        context.fillStyle = css(fill);
        context.fillRect(hit.x, hit.y, hit.width, hit.height);
        found.push(hit);
        if (hit.width > 26) {
          context.save();
          context.beginPath();
          context.rect(hit.x, hit.y, hit.width - 3, hit.height);
          context.clip();
          context.fillStyle = css(inkOn(fill));
          context.fillText(phase.name, hit.x + 5, hit.y + hit.height / 2 + 0.5);
          context.restore();
        }
      }
      const y = RULER + lanes * LANE + MARKS / 2;
      for (const mark of [...marks].sort((a, b) => Number(a.type === "failure") - Number(b.type === "failure"))) {
        if (mark.time_ns < from || mark.time_ns > until) continue;
        const x = place(mark.time_ns);
        found.push({ x: x - 6, y: y - 8, width: 12, height: 16, mark });
        context.fillStyle = context.strokeStyle =
          mark.type === "failure" ? colours.bad : mark.type === "mark" ? colours.accent : colours.faint;
        context.beginPath();
        if (mark.type === "failure") {
          context.moveTo(x, y - 6);
          context.lineTo(x + 6, y + 5);
          context.lineTo(x - 6, y + 5);
        } else if (mark.type === "mark") {
          context.moveTo(x, y - 6);
          context.lineTo(x + 5, y);
          context.lineTo(x, y + 6);
          context.lineTo(x - 5, y);
        } else if (mark.type === "close") context.rect(x - 1, y - 6, 2, 12);
        else context.arc(x, y, Math.min(5, 2 + Math.log2(1 + mark.count) / 2), 0, 2 * Math.PI);
        context.fill();
      }
      context.restore();
      hits.current = found;
    },
    [phases, marks, from, until, colours],
  );

  const at = (event: MouseEvent) => {
    const box = (event.currentTarget as HTMLElement).getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    const hit = hits.current.findLast(
      (one) => x >= one.x && x <= one.x + one.width && y >= one.y && y <= one.y + one.height,
    );
    return hit === undefined ? null : { hit, x, y };
  };
  return (
    <div class="lanes" style={{ height: `${height}px` }}>
      <canvas
        ref={canvas}
        role="img"
        aria-label={`${phases.length} phases, ${marks.length} marks; the table of phases has them too`}
        class={hover === null ? "" : "can-click"}
        onMouseMove={(event) => setHover(at(event))}
        onMouseLeave={() => setHover(null)}
        onClick={(event) => {
          const found = at(event)?.hit;
          if (found?.phase !== undefined) onPhase(found.phase);
          if (found?.mark !== undefined) onMark(found.mark);
        }}
      />
      {hover?.hit.phase !== undefined && (
        <ToolTip x={hover.x} y={hover.y} title={hover.hit.phase.name} rows={phaseRows(hover.hit.phase)} />
      )}
      {hover?.hit.mark !== undefined && (
        <ToolTip
          x={hover.x}
          y={hover.y}
          title={MARK_WORDS[hover.hit.mark.type]}
          rows={[
            ["at", moment(hover.hit.mark.time_ns, 1e3)],
            ["what", hover.hit.mark.text],
            ...(hover.hit.mark.count > 1 ? [["about that time", String(hover.hit.mark.count)] as const] : []),
          ]}
        />
      )}
    </div>
  );
}

function phaseRows(phase: ReportPhase): [string, string][] {
  const rows: [string, string][] = [["from", moment(phase.from_ns, 1e3)]];
  if (phase.until_ns === null) rows.push(["until", "the end of the recording"]);
  else rows.push(["until", moment(phase.until_ns, 1e3)], ["took", duration(phase.until_ns - phase.from_ns)]);
  if (phase.pid !== null) rows.push(["process", String(phase.pid)]);
  return rows;
}
