// SPDX-License-Identifier: Apache-2.0
/** Addresses of one bank over time: the life of every buffer as a rectangle, and what programs reach from below. */
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Columns } from "../data/columns";
import type { ReportMap, ReportSite } from "../documents";
import { usePageColours, usePaint, useSize } from "./canvas";
import { css, kindColour, mix, parseColour, sequential } from "./colours";
import { duration, grouped, moment, short } from "./format";
import type { MapView } from "./map_layout";
import {
  addressTicks,
  bankAt,
  liveAt,
  mapReach,
  mapRectangles,
  panView,
  rectangleAt,
  wholeView,
  zoomView,
} from "./map_layout";
import type { MapClash } from "./map_paint";
import { paintBank, paintMap, paintMarks, placeAt, plotOf } from "./map_paint";
import type { LegendEntry, MapColouring } from "./map_words";
import { bankWords, legendOf, placeWords, rectangleColours, rectangleWords } from "./map_words";
import { ToolTip } from "./tool_tip";

export interface AddressMapProps {
  map: ReportMap;
  /** Decoded sections of the map. */
  rectangles: Columns;
  coverage?: Columns | null;
  reach?: Columns | null;
  /** Length of the recording. */
  lengthNs: number;
  strings: readonly string[];
  sites: readonly ReportSite[];
  kinds: readonly string[];
  /** The chosen moment, and the chosen window. */
  momentNs?: number | null;
  window?: readonly [number, number] | null;
  /** The times that are shown, if something else decides; the map can still be zoomed from there. */
  range?: readonly [number, number] | null;
  /** Failed allocations. */
  clashes?: readonly MapClash[];
  /** Number of the chosen allocation (column `row`). */
  selected?: number | null;
  /** Call sites to show; others are dimmed. */
  highlighted?: ReadonlySet<number> | null;
  /** An allocation was clicked, or nothing. */
  onSelect?: (row: number | null, site: number | null) => void;
  /** A moment was clicked on the time axis. */
  onMoment?: (ns: number) => void;
  height?: number;
}

interface Drag {
  x: number;
  y: number;
  view: MapView;
  choose: boolean; // a part is being chosen; else the map moves
  moved: boolean;
}

const CLICK_PIXELS = 4;
const SLACK_PIXELS = 3;

export function AddressMap(props: AddressMapProps) {
  const { map, lengthNs, strings, sites, kinds, momentNs = null, window: chosen = null, height = 340 } = props;
  const names = useMemo(() => ({ strings, sites, kinds }), [strings, sites, kinds]);
  const [colouring, setColouring] = useState<MapColouring>("op");
  const whole = useMemo(() => wholeView(map, lengthNs), [map, lengthNs]);
  const [view, setView] = useState(whole);
  const [pointer, setPointer] = useState<{ x: number; y: number } | null>(null);
  const [cursor, setCursor] = useState(-1); // rectangle that keys lead to
  const [frame, setFrame] = useState<[number, number, number, number] | null>(null);
  const drag = useRef<Drag | null>(null);
  const place = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const overlay = useRef<HTMLCanvasElement>(null);
  const colours = usePageColours();
  const { width, ratio } = useSize(place);
  const size = { width, height, ratio };
  const plot = useMemo(() => plotOf(width, height, momentNs !== null), [width, height, momentNs !== null]);

  const rects = useMemo(() => mapRectangles(props.rectangles, lengthNs), [props.rectangles, lengthNs]);
  const reach = useMemo(() => (props.reach ? mapReach(props.reach, lengthNs) : null), [props.reach, lengthNs]);
  const used = (props.coverage?.used as Uint8Array | undefined) ?? null;
  const background = parseColour(colours.panel);
  const rectColours = useMemo(
    () => rectangleColours(rects, names, colouring, lengthNs, colours.theme, props.highlighted ?? null, background),
    [rects, names, colouring, lengthNs, colours, props.highlighted],
  );
  const legend = useMemo(
    () => (colouring === "age" ? [] : legendOf(rects, names, colouring, colours.theme)),
    [rects, names, colouring, colours],
  );
  const unlisted = mix(background, parseColour(colours.soft), 0.5);
  const coverage = useMemo(
    () => (used ? { used, columns: map.columns, rows: map.rows, whole, colour: unlisted } : null),
    [used, map, whole, unlisted],
  );
  const bank = useMemo(
    () => (momentNs === null ? null : bankAt(map, rects, reach, used, momentNs, lengthNs)),
    [map, rects, reach, used, momentNs, lengthNs],
  );

  useEffect(() => setView(whole), [whole]);
  const range = props.range ?? null;
  useEffect(() => {
    if (range) setView((old) => ({ ...old, from: range[0], until: Math.max(range[0] + 1, range[1]) }));
  }, [range?.[0], range?.[1]]);

  usePaint(
    canvas,
    size,
    (context) => {
      paintMap(context, size, plot, { rects, colours: rectColours, view, background, coverage }, reach, colours);
      if (bank === null || momentNs === null) return;
      const live = liveAt(rects, momentNs).map((i) => ({
        low: rects.address[i],
        high: rects.address[i] + rects.size[i],
        colour: rectColours[i],
      }));
      if (reach && bank.reach !== null) {
        const colour = mix(background, kindColour("cb", colours.theme), 0.42);
        live.push({ low: map.base, high: reach.top[bank.reach], colour });
      }
      paintBank(context, plot, view, bank, live, colours);
    },
    [rects, rectColours, view, coverage, reach, colours, plot, bank],
  );

  const inPlot = pointer !== null && pointer.x >= plot.left && pointer.x <= plot.left + plot.width && pointer.y >= 0;
  const at = pointer && inPlot && pointer.y <= plot.top + plot.height ? placeAt(view, plot, pointer.x, pointer.y) : null;
  const slackNs = (SLACK_PIXELS * (view.until - view.from)) / plot.width;
  const slackBytes = (SLACK_PIXELS * (view.high - view.low)) / plot.height;
  const hovered = at && !frame ? rectangleAt(rects, at.ns, at.address, slackNs, slackBytes) : -1;
  const selected = props.selected === null || props.selected === undefined ? -1 : rects.row.indexOf(props.selected);
  const clashes = props.clashes ?? [];
  usePaint(
    overlay,
    size,
    (context) =>
      paintMarks(
        context,
        plot,
        { view, momentNs, window: chosen, clashes, rects, hovered: hovered >= 0 ? hovered : cursor, selected, frame },
        colours,
      ),
    [view, plot, momentNs, chosen, clashes, rects, hovered, cursor, selected, frame, colours],
  );

  const clash = at && clashes.find((one) => Math.abs(one.time_ns - at.ns) <= 2 * slackNs);
  let tip: { title: string; rows: [string, string][] } | null = null;
  if (clash) tip = { title: clash.text, rows: [["at", moment(clash.time_ns)]] };
  else if (hovered >= 0) tip = rectangleWords(rects, hovered, names, map);
  else if (at) tip = placeWords(bankAt(map, rects, reach, used, at.ns, lengthNs), reach, names, at);

  const local = (event: MouseEvent) => {
    const box = place.current?.getBoundingClientRect();
    return { x: event.clientX - (box?.left ?? 0), y: event.clientY - (box?.top ?? 0) };
  };
  const choose = (index: number) => props.onSelect?.(index < 0 ? null : rects.row[index], index < 0 ? null : rects.site[index]);

  const down = (event: PointerEvent) => {
    if (event.button !== 0) return;
    const { x, y } = local(event);
    drag.current = { x, y, view, choose: event.shiftKey, moved: false };
    place.current?.setPointerCapture(event.pointerId);
  };
  const move = (event: PointerEvent) => {
    const here = local(event);
    const from = drag.current;
    if (!from) return setPointer(here);
    from.moved ||= Math.hypot(here.x - from.x, here.y - from.y) > CLICK_PIXELS;
    if (!from.moved) return;
    setPointer(null);
    if (from.choose) setFrame([from.x, from.y, here.x, here.y]);
    else setView(panView(from.view, whole, (from.x - here.x) / plot.width, (here.y - from.y) / plot.height));
  };
  const up = (event: PointerEvent) => {
    const from = drag.current;
    drag.current = null;
    const here = local(event);
    if (from?.choose && from.moved) {
      const [one, two] = [placeAt(view, plot, from.x, from.y), placeAt(view, plot, here.x, here.y)];
      const ns = [one.ns, two.ns].sort((a, b) => a - b);
      const bytes = [one.address, two.address].sort((a, b) => a - b);
      setView(
        zoomView({ from: ns[0], until: ns[1], low: bytes[0], high: bytes[1] }, whole, { ns: ns[0], address: bytes[0] }, 1, 1),
      );
    } else if (from && !from.moved) {
      if (here.y > plot.top + plot.height) props.onMoment?.(placeAt(view, plot, here.x, here.y).ns);
      else choose(hovered);
    }
    setFrame(null);
  };
  const wheel = (event: WheelEvent) => {
    const focused = document.activeElement === place.current;
    if (!focused && !event.ctrlKey && !event.metaKey) return; // the page scrolls
    event.preventDefault();
    const { x, y } = local(event);
    const here = placeAt(view, plot, x, y);
    const factor = Math.exp(-(event.deltaY || event.deltaX) * 0.0016);
    setView(zoomView(view, whole, here, event.shiftKey ? 1 : factor, event.shiftKey ? factor : 1));
  };
  const latest = useRef(wheel);
  latest.current = wheel;
  useEffect(() => {
    const target = place.current;
    const listen = (event: WheelEvent) => latest.current(event);
    target?.addEventListener("wheel", listen, { passive: false });
    return () => target?.removeEventListener("wheel", listen);
  }, []);

  const step = (by: 1 | -1) => {
    const live = liveAt(rects, momentNs ?? (view.from + view.until) / 2);
    const next = live.indexOf(cursor) < 0 ? (by > 0 ? 0 : live.length - 1) : live.indexOf(cursor) + by;
    if (live[next] !== undefined) setCursor(live[next]);
  };
  const press = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const middle = { ns: momentNs ?? (view.from + view.until) / 2, address: (view.low + view.high) / 2 };
    const actions: Record<string, () => void> = {
      ArrowLeft: () => setView(panView(view, whole, -0.1, 0)),
      ArrowRight: () => setView(panView(view, whole, 0.1, 0)),
      ArrowUp: () => setView(panView(view, whole, 0, 0.1)),
      ArrowDown: () => setView(panView(view, whole, 0, -0.1)),
      "+": () => setView(zoomView(view, whole, middle, 1.5, 1)),
      "=": () => setView(zoomView(view, whole, middle, 1.5, 1)),
      "-": () => setView(zoomView(view, whole, middle, 1 / 1.5, 1)),
      "*": () => setView(zoomView(view, whole, middle, 1, 1.5)),
      "/": () => setView(zoomView(view, whole, middle, 1, 1 / 1.5)),
      "0": () => setView(whole),
      Home: () => setView(whole),
      k: () => step(1),
      j: () => step(-1),
      Enter: () => choose(cursor),
      Escape: () => {
        setCursor(-1);
        choose(-1);
      },
    };
    if (!actions[event.key]) return;
    event.preventDefault();
    actions[event.key]();
  };

  const zoomed = view.from !== whole.from || view.until !== whole.until || view.low !== whole.low || view.high !== whole.high;
  const keys = "Arrow keys move, + and - zoom in time, * and / in addresses, 0 shows everything, j and k go through buffers, Enter chooses one.";
  const words = cursor >= 0 ? rectangleWords(rects, cursor, names, map) : null;
  return (
    <div class="map">
      <div class="part-bar">
        <label class="part-choice">
          Colours
          <select value={colouring} onChange={(event) => setColouring(event.currentTarget.value as MapColouring)}>
            <option value="op">by operation</option>
            <option value="line">by line</option>
            <option value="age">by length of life</option>
          </select>
        </label>
        <Legend entries={legend} reach={reach !== null} unlisted={coverage ? unlisted : null} theme={colours.theme} />
        {colouring === "age" && <AgeKey lengthNs={lengthNs} theme={colours.theme} />}
        <span class="part-space" />
        {zoomed && (
          <button type="button" class="part-button" onClick={() => setView(whole)}>
            Show everything
          </button>
        )}
      </div>
      <div
        class="canvas-place map-place"
        ref={place}
        tabIndex={0}
        role="application"
        aria-label={`Address map of ${map.label}. ${keys}`}
        onPointerDown={down}
        onPointerMove={move}
        onPointerUp={up}
        onPointerLeave={() => setPointer(null)}
        onDblClick={() => setView(whole)}
        onKeyDown={press}
      >
        <canvas ref={canvas} aria-hidden="true" />
        <canvas ref={overlay} class="canvas-over" aria-hidden="true" />
        <div class="hidden-text" role="status">
          {words && `${words.title}, ${words.rows.map((row) => row.join(" ")).join(", ")}`}
        </div>
        {tip && pointer && <ToolTip x={pointer.x} y={pointer.y} room={width} title={tip.title} rows={tip.rows} />}
      </div>
      <div class="map-foot">
        <span>{bank && momentNs !== null && bankWords(bank, momentNs)}</span>
        <span class="map-help" title={keys}>
          One of {map.banks} banks, {short(map.size)} each; a line every{" "}
          {short(addressTicks(view.low, view.high, plot.height / 34).step)}.{" "}
          {rects.count < map.total && `${grouped(rects.count)} of ${grouped(map.total)} allocations have a rectangle. `}
          Drag to move; click, then wheel to zoom (Shift: addresses); Shift and drag to choose a part.
        </span>
      </div>
    </div>
  );
}

function Legend(props: { entries: LegendEntry[]; reach: boolean; unlisted: number | null; theme: "light" | "dark" }) {
  return (
    <span class="part-key">
      {props.entries.map((entry) => (
        <span class="key-entry" key={entry.label} title={entry.label}>
          {!entry.others && <i class="swatch" style={{ background: css(entry.colour) }} />}
          {entry.label}
        </span>
      ))}
      {props.unlisted !== null && (
        <span class="key-entry" title="Allocations that are too small or too short for a rectangle of their own">
          <i class="swatch" style={{ background: css(props.unlisted) }} /> smaller ones
        </span>
      )}
      {props.reach && (
        <span class="key-entry" title="Up to which address the running program reaches">
          <i class="swatch" style={{ background: css(kindColour("cb", props.theme)) }} /> programs
        </span>
      )}
    </span>
  );
}

function AgeKey({ lengthNs, theme }: { lengthNs: number; theme: "light" | "dark" }) {
  const steps = [0, 0.2, 0.4, 0.6, 0.8, 1].map((part) => css(sequential(part, theme)));
  return (
    <span class="part-key">
      short
      <i class="age-scale" style={{ background: `linear-gradient(to right, ${steps.join(", ")})` }} />
      {duration(lengthNs)}, all the time
    </span>
  );
}

