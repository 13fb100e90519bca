// SPDX-License-Identifier: Apache-2.0
/** The bar that stays on top: chip group, pool, the chosen moment or window, filters, and the whole run as a strip. */
import { useMemo, useRef, useState } from "preact/hooks";
import { ButtonGroup } from "../parts/button_group";
import { usePageColours, usePaint, useSize } from "../parts/canvas";
import { css, kindColour } from "../parts/colours";
import { duration, moment, plural, shortLine } from "../parts/format";
import { useAsync } from "../parts/use_async";
import { markTimes } from "./timeline_data";
import type { View } from "./view";
import { poolWords } from "./words";
import { showing } from "./zoom";

const STRIP_HEIGHT = 34;

export function ChoiceBar({ view }: { view: View }) {
  const { report, state, change, group } = view;
  const pool = group.pools.find((one) => one.pool === state.pool);
  const failures = markTimes(report, state.group, "failure");
  const go = (from: number, until = from) =>
    change({ from, until, view: showing(state.view, from, until, report.length_ns) });
  return (
    <div class="choice">
      <div class="choice-row">
        {report.groups.length > 1 && (
          <select
            aria-label="Chip group"
            value={state.group}
            onChange={(event) => change({ group: Number(event.currentTarget.value) })}
          >
            {report.groups.map((one, i) => (
              <option key={one.name} value={i}>
                {one.name}
              </option>
            ))}
          </select>
        )}
        <ButtonGroup
          label="Pool"
          options={group.pools
            .filter((one) => one.peak > 0 || one.pool === state.pool)
            .map((one) => [one.pool, poolWords(one.pool)])}
          chosen={state.pool}
          onChoose={(pool) => change({ pool })}
        />
        <Snapped view={view} />
        <div class="buttons">
          {pool !== undefined && pool.peak_ns !== null && (
            <button type="button" title="The peak of this pool (p)" onClick={() => go(pool.peak_ns ?? 0)}>
              Peak
            </button>
          )}
          {failures.length > 0 && (
            <button type="button" title="The failed allocation (f)" onClick={() => go(failures[0])}>
              Failure
            </button>
          )}
          <button type="button" title="What was left at the end" onClick={() => go(report.length_ns)}>
            End
          </button>
          <button
            type="button"
            title="The whole run as a window (Escape)"
            onClick={() => change({ from: 0, until: report.length_ns, view: null })}
          >
            Whole run
          </button>
        </div>
        <span class="spring" />
        {state.only !== null && (
          <button
            type="button"
            class="filter"
            title={`${state.only.key}\nRemove this filter`}
            onClick={() => change({ only: null })}
          >
            {state.only.by}: <b>{shortLine(state.only.key)}</b> <span aria-hidden="true">✕</span>
          </button>
        )}
        <input
          id="search"
          type="search"
          placeholder="Filter call sites ( / )"
          aria-label="Filter call sites by text"
          value={state.search}
          onInput={(event) => change({ search: event.currentTarget.value })}
        />
      </div>
      <Strip view={view} />
    </div>
  );
}

function Snapped({ view }: { view: View }) {
  const { state, from, until, window, sums, report } = view;
  const fine = Math.max(1e3, report.length_ns / 1e5);
  const off = Math.max(Math.abs(state.from - from), Math.abs(state.until - until));
  const range = (begin: number, end: number) => moment(begin, 1e3) + (window ? ` to ${moment(end, 1e3)}` : "");
  const title =
    sums === null
      ? (view.noSums ?? "Decoding…")
      : `Chosen: ${range(state.from, state.until)}. Snapped to the nearest of ${plural(sums.edges.length, "edge")}: ` +
        `${range(from, until)}.`;
  return (
    <div class="snapped" title={title} aria-live="polite">
      <span class="soft">{window ? "Window" : "Moment"}</span>{" "}
      <b>{window ? `${moment(from, fine)} to ${moment(until, fine)}` : moment(from, fine)}</b>
      <span class="soft">
        {window ? ` (${duration(until - from)})` : ""}
        {off >= 1e3 && sums !== null ? `, snapped by ${duration(off)}` : ""}
      </span>
    </div>
  );
}

/** The whole run in one line. A click or drag in it chooses, so that one sees what follows without scrolling. */
function Strip({ view }: { view: View }) {
  const { report, group, sections, state, change } = view;
  const place = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const colours = usePageColours();
  const { width, ratio } = useSize(place);
  const [begin, setBegin] = useState<number | null>(null);
  const { value: columns } = useAsync(group.timeline, () => sections.columns(group.timeline));
  const series = useMemo(() => {
    return group.series.find((one) => one.name === state.pool) ?? group.series[0];
  }, [group, state.pool]);
  const high = columns !== null && series !== undefined ? columns[`${series.name}.high`] : undefined;
  const length = Math.max(1, report.length_ns);
  usePaint(
    canvas,
    { width, height: STRIP_HEIGHT, ratio },
    (context) => {
      if (high === undefined) return;
      let top = 1;
      for (let i = 0; i < high.length; i++) top = Math.max(top, high[i]);
      context.fillStyle = css(
        kindColour({ l1_buffers: "l1", programs: "cb" }[state.pool] ?? state.pool, colours.theme),
      );
      context.globalAlpha = 0.75;
      for (let x = 0; x < width; x++) {
        let value = 0;
        const last = Math.max(Math.floor(((x + 1) / width) * high.length), Math.floor((x / width) * high.length) + 1);
        for (let i = Math.floor((x / width) * high.length); i < last && i < high.length; i++)
          value = Math.max(value, high[i]);
        const tall = (value / top) * (STRIP_HEIGHT - 4);
        context.fillRect(x, STRIP_HEIGHT - tall, 1, tall);
      }
    },
    [high, state.pool, colours],
  );
  const timeAt = (event: PointerEvent) => {
    const box = place.current?.getBoundingClientRect();
    return box === undefined
      ? 0
      : Math.round(Math.min(1, Math.max(0, (event.clientX - box.left) / box.width)) * length);
  };
  const choose = (event: PointerEvent, start: number) => {
    const time = timeAt(event);
    const far = Math.abs(time - start) * width > 3 * length;
    change(far ? { from: Math.min(start, time), until: Math.max(start, time) } : { from: start, until: start });
  };
  const percent = (time: number) => `${(100 * time) / length}%`;
  return (
    <div
      class="strip"
      ref={place}
      title="The whole run. Click for a moment, drag for a window."
      onPointerDown={(event) => {
        if (event.button !== 0) return;
        event.currentTarget.setPointerCapture(event.pointerId);
        setBegin(timeAt(event));
        choose(event, timeAt(event));
      }}
      onPointerMove={(event) => begin !== null && choose(event, begin)}
      onPointerUp={() => setBegin(null)}
      onPointerCancel={() => setBegin(null)}
    >
      <canvas ref={canvas} aria-hidden="true" />
      {state.view !== null && (
        <>
          <div class="outside" style={{ left: 0, width: percent(state.view[0]) }} />
          <div class="outside" style={{ left: percent(state.view[1]), right: 0 }} />
        </>
      )}
      {report.marks
        .filter((mark) => mark.type === "failure")
        .map((mark) => (
          <div class="strip-failure" key={mark.time_ns} style={{ left: percent(mark.time_ns) }} />
        ))}
      {view.window ? (
        <div class="chosen-window" style={{ left: percent(view.from), width: percent(view.until - view.from) }} />
      ) : (
        <div class="chosen-moment" style={{ left: percent(view.until) }} />
      )}
    </div>
  );
}
