// SPDX-License-Identifier: Apache-2.0
/** Addresses of one bank over time: the life of every buffer as a rectangle, and what programs reach from below. */
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Columns } from "../data/columns";
import type { ReportMap, ReportSite } from "../documents";
import { usePageColours, usePaint, useSize } from "./canvas";
import { mix, parseColour } from "./colours";
import { grouped, moment, short } from "./format";
import { paintBank } from "./map_bank";
import { useMapGestures, viewAfterKey } from "./map_gestures";
import { addressTicks, bankAt, liveAt, mapReach, mapRectangles, rectangleAt, usedView, wholeView } from "./map_layout";
import { LifeScale, MapLegend } from "./map_legend";
import type { MapClash } from "./map_paint";
import { paintMap, paintMarks, placeAt, plotOf } from "./map_paint";
import type { MapColouring } from "./map_words";
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
  /** In CSS pixels; follows the width if it is not given. */
  height?: number;
}

const KEYS =
  "Arrow keys move, + and - zoom in time, * and / in addresses, 0 shows everything, " +
  "j and k go through buffers, Enter chooses one.";
const SLACK_PIXELS = 3;
const LEAST_PIXELS = 330; // height
const MOST_PIXELS = 480;

export function AddressMap(props: AddressMapProps) {
  const { map, lengthNs, strings, sites, kinds, momentNs = null, window: chosen = null } = props;
  const names = useMemo(() => ({ strings, sites, kinds }), [strings, sites, kinds]);
  const [colouring, setColouring] = useState<MapColouring>("op");
  const whole = useMemo(() => wholeView(map, lengthNs), [map, lengthNs]);
  const [view, setView] = useState(whole);
  const [cursor, setCursor] = useState(-1); // rectangle that keys lead to
  const place = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const overlay = useRef<HTMLCanvasElement>(null);
  const colours = usePageColours();
  const { width, ratio } = useSize(place);
  const height = props.height ?? Math.round(Math.min(MOST_PIXELS, Math.max(LEAST_PIXELS, width / 5)));
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

  const inBank = useMemo(() => {
    if (bank === null || momentNs === null) return [];
    const buffers = liveAt(rects, momentNs).map((i) => {
      return { low: rects.address[i], high: rects.address[i] + rects.size[i], colour: rectColours[i] };
    });
    if (!reach || bank.reach === null) return buffers;
    return [...buffers, { low: map.base, high: reach.top[bank.reach], colour: null }];
  }, [bank, rectColours]);

  useEffect(() => setView(whole), [whole]);
  const range = props.range ?? null;
  useEffect(() => {
    const [from, until] = range ?? [whole.from, whole.until];
    setView((old) => ({ ...old, from, until: Math.max(from + 1, until) }));
  }, [range?.[0], range?.[1]]);
  useEffect(() => setCursor(-1), [rects]);

  usePaint(
    canvas,
    size,
    (context) =>
      paintMap(context, size, plot, { rects, colours: rectColours, view, background, coverage }, reach, colours),
    [rects, rectColours, view, coverage, reach, colours, plot],
  );

  const slackNs = (SLACK_PIXELS * (view.until - view.from)) / plot.width;
  const slackBytes = (SLACK_PIXELS * (view.high - view.low)) / plot.height;
  const clicked = (x: number, y: number) => {
    const below = y > plot.top + plot.height;
    const { ns, address } = placeAt(view, plot, x, y);
    if (below) props.onMoment?.(Math.min(lengthNs, Math.max(0, ns)));
    else choose(rectangleAt(rects, ns, address, slackNs, slackBytes));
  };
  const { pointer, frame, handlers } = useMapGestures({ place, plot, view, whole, setView, onClick: clicked });
  const inPlot = pointer !== null && pointer.x >= plot.left && pointer.x <= plot.left + plot.width && pointer.y >= 0;
  const at =
    pointer && inPlot && pointer.y <= plot.top + plot.height ? placeAt(view, plot, pointer.x, pointer.y) : null;
  const hovered = at && !frame ? rectangleAt(rects, at.ns, at.address, slackNs, slackBytes) : -1;
  const selected = props.selected === null || props.selected === undefined ? -1 : rects.row.indexOf(props.selected);
  const clashes = props.clashes ?? [];
  usePaint(
    overlay,
    size,
    (context) => {
      const marks = { view, momentNs, window: chosen, clashes, rects, selected, frame };
      paintMarks(context, plot, { ...marks, hovered: hovered >= 0 ? hovered : cursor }, colours);
      if (bank) paintBank(context, plot, view, bank, inBank, colours);
    },
    [bank, inBank, view, plot, momentNs, chosen, clashes, rects, hovered, cursor, selected, frame, colours],
  );

  const clash = at && clashes.find((one) => Math.abs(one.time_ns - at.ns) <= 2 * slackNs);
  let tip: { title: string; rows: [string, string][] } | null = null;
  if (clash) tip = { title: clash.text, rows: [["at", moment(clash.time_ns)]] };
  else if (hovered >= 0) tip = rectangleWords(rects, hovered, names, map);
  else if (at) tip = placeWords(bankAt(map, rects, reach, used, at.ns, lengthNs), reach, names, at);

  const choose = (index: number) =>
    props.onSelect?.(index < 0 ? null : rects.row[index], index < 0 ? null : rects.site[index]);
  const step = (by: 1 | -1) => {
    const live = liveAt(rects, momentNs ?? (view.from + view.until) / 2);
    const next = live.indexOf(cursor) < 0 ? (by > 0 ? 0 : live.length - 1) : live.indexOf(cursor) + by;
    if (live[next] !== undefined) setCursor(live[next]);
  };
  const press = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const middle = { ns: momentNs ?? (view.from + view.until) / 2, address: (view.low + view.high) / 2 };
    const next = viewAfterKey(event.key, view, whole, middle);
    if (next) setView(next);
    else if (event.key === "k") step(1);
    else if (event.key === "j") step(-1);
    else if (event.key === "Enter") choose(cursor);
    else if (event.key === "Escape") {
      setCursor(-1);
      choose(-1);
    } else return;
    event.preventDefault();
    event.stopPropagation();
  };

  const tighter = useMemo(() => usedView(view, whole, rects, reach), [view, whole, rects, reach]);
  const zoomed =
    view.from !== whole.from || view.until !== whole.until || view.low !== whole.low || view.high !== whole.high;
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
        {colouring === "age" && <LifeScale lengthNs={lengthNs} theme={colours.theme} />}
        <MapLegend
          entries={legend}
          reach={reach !== null}
          failures={clashes.length > 0}
          unlisted={coverage ? unlisted : null}
          theme={colours.theme}
        />
        <span class="part-space" />
        {tighter && (
          <button type="button" class="part-button" onClick={() => setView(tighter)}>
            Zoom to used addresses
          </button>
        )}
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
        aria-label={`Address map of ${map.label}. ${KEYS}`}
        {...handlers}
        onKeyDown={press}
      >
        <canvas ref={canvas} aria-hidden="true" />
        <canvas ref={overlay} class="canvas-over" aria-hidden="true" />
        <div class="hidden-text" role="status">
          {words && `${words.title}, ${words.rows.map((row) => row.join(" ")).join(", ")}`}
        </div>
        {tip && pointer && <ToolTip x={pointer.x} y={pointer.y} title={tip.title} rows={tip.rows} />}
      </div>
      <div class="map-foot">
        <span>{bank && momentNs !== null && bankWords(bank, reach, momentNs)}</span>
        <span class="map-help" title={KEYS}>
          One of {map.banks} banks, {short(map.size)} each; a line every{" "}
          {short(addressTicks(view.low, view.high, plot.height / 34).step)}.{" "}
          {rects.count < map.total && `${grouped(rects.count)} of ${grouped(map.total)} allocations have a rectangle. `}
          Drag to move; click, then wheel to zoom (Shift: addresses); Shift and drag to choose a part.
        </span>
      </div>
    </div>
  );
}
