// SPDX-License-Identifier: Apache-2.0
/** A flame graph of call sites as an icicle on a canvas, with search, zoom, inversion and a differential mode. */
import { useEffect, useId, useMemo, useRef, useState } from "preact/hooks";
import type { ReportSite, ReportStacks } from "../documents";
import { usePageColours, usePaint, useSize } from "./canvas";
import { Check } from "./check_box";
import { boxAt, buildFlameTree, dominantOps, layoutFlame, rollUp } from "./flame_layout";
import type { FlameColouring } from "./flame_paint";
import { outlineBox, paintFlame, ROW_PIXELS } from "./flame_paint";
import type { FlameKey } from "./flame_search";
import { frameLabel, neighbour, pathTo, sameNode, searchFlame, sitesOf, typeWords } from "./flame_search";
import { complete, exact, grouped, human, percent, plural, signed } from "./format";
import { ToolTip } from "./tool_tip";

export interface FlameGraphProps {
  /** Texts of the report; stacks and call sites have indices into it. */
  strings: readonly string[];
  /** The tree of frames. */
  stacks: ReportStacks;
  /** Call sites. Pass the same array for every moment: the tree is made once for an array. */
  sites: readonly ReportSite[];
  /** Kinds by number, such as "dram". */
  kinds: readonly string[];
  /** One value for each call site, 0 for those that are not shown. May be negative if `differential` is set. */
  values: ArrayLike<number>;
  /** How many allocations each call site has, for the tool tip. */
  counts?: ArrayLike<number>;
  /** Unit of `values`. */
  unit: "bytes" | "count";
  /** What is shown, in words: "DRAM, live at the peak, on one chip". */
  label: string;
  /** Values are changes: a box is as wide as what changed in it, and its colour says whether it grew or shrank. */
  differential?: boolean;
  /** Called with the call sites of a frame that is zoomed to, or null for everything. */
  onZoom?: (sites: number[] | null, name: string) => void;
  /** The height of the visible part in pixels; more rows scroll. */
  maxHeight?: number;
}

const KEYS = "Arrow keys move, Enter zooms, Backspace goes back, Escape shows everything.";
const ARROWS = new Set(["ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight", "Home", "End"]);

export function FlameGraph(props: FlameGraphProps) {
  const { strings, stacks, sites, kinds, values, counts, unit, label, differential = false, maxHeight = 460 } = props;
  const [inverted, setInverted] = useState(false);
  const [folded, setFolded] = useState(true);
  const [colourBy, setColourBy] = useState<"op" | "file">("op");
  const [text, setText] = useState("");
  const [zoomed, setZoomed] = useState(0);
  const [current, setCurrent] = useState(0); // node with the focus of the keyboard
  const [pointer, setPointer] = useState<{ x: number; y: number } | null>(null);
  const [focused, setFocused] = useState(false);
  const place = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const overlay = useRef<HTMLCanvasElement>(null);
  const id = useId();
  const colours = usePageColours();
  const { width, ratio } = useSize(place);

  const hasStacks = stacks.parent.length > 0;
  const hasTtnn = useMemo(() => stacks.type.includes("ttnn"), [stacks]);
  const tree = useMemo(
    () => buildFlameTree({ strings, stacks, sites, kinds }, inverted, folded),
    [strings, stacks, sites, kinds, inverted, folded],
  );
  const before = useRef(tree);
  let focus = zoomed;
  if (before.current !== tree) focus = sameNode(before.current, zoomed, tree);
  useEffect(() => {
    if (before.current === tree) return;
    setZoomed(focus);
    setCurrent(sameNode(before.current, current, tree));
    before.current = tree;
  }, [tree]);

  const sums = useMemo(() => rollUp(tree, values), [tree, values]);
  const countSums = useMemo(() => (counts ? rollUp(tree, counts).net : null), [tree, counts]);
  const ops = useMemo(() => dominantOps(tree, sums.weight), [tree, sums]);
  const found = useMemo(() => (text.trim() ? searchFlame(tree, sums.net, text) : null), [tree, sums, text]);
  const boxes = useMemo(() => layoutFlame(tree, sums.weight, focus, width), [tree, sums, focus, width]);
  const brief = unit === "bytes" ? (differential ? signed : human) : grouped;
  const colouring: FlameColouring = differential ? "change" : colourBy;
  const height = boxes.rows * ROW_PIXELS;
  const size = { width, height, ratio };
  usePaint(
    canvas,
    size,
    (context) =>
      paintFlame(context, { tree, sums, boxes, ops, focus, hit: found?.hit ?? null, colouring, brief }, colours),
    [boxes, sums, ops, found, colouring, colours],
  );

  let currentBox = -1;
  for (let box = 0; box < boxes.count; box++) if (boxes.node[box] === current && !boxes.merged[box]) currentBox = box;
  if (currentBox < 0) currentBox = boxes.node.indexOf(focus);
  const hovered = pointer === null ? -1 : boxAt(boxes, pointer.x, Math.floor(pointer.y / ROW_PIXELS));
  usePaint(
    overlay,
    size,
    (context) => {
      if (hovered >= 0) outlineBox(context, boxes, hovered, colours.text);
      if (focused) outlineBox(context, boxes, currentBox, colours.accent);
    },
    [boxes, hovered, currentBox, focused, colours],
  );

  const amount = (value: number) => (unit === "bytes" ? (differential ? signed(value) : exact(value)) : grouped(value));
  const nameOf = (node: number) => tree.names[tree.name[node]];
  const rowsOf = (box: number): [string, string][] => {
    const node = boxes.node[box];
    if (boxes.merged[box] > 0) return [[unit === "bytes" ? "size" : "count", amount(boxes.mergedWeight[box])]];
    const rows: [string, string][] = [];
    if (differential) {
      const { net, weight } = sums;
      rows.push(["change", amount(net[node])]);
      if (weight[node] > Math.abs(net[node])) {
        rows.push(
          ["grown", amount((weight[node] + net[node]) / 2)],
          ["shrunk", amount((net[node] - weight[node]) / 2)],
        );
      }
      rows.push(["share of all changes", complete(share(weight[node], weight[0]))]);
    } else {
      rows.push([unit === "bytes" ? "size" : "count", amount(sums.net[node])]);
      rows.push(["of everything", complete(share(sums.net[node], sums.net[0]))]);
      if (focus > 0) rows.push(["of the zoomed frame", complete(share(sums.net[node], sums.net[focus]))]);
    }
    if (countSums && unit === "bytes") rows.push(["allocations", grouped(countSums[node])]);
    rows.push(["what", typeWords(tree.type[node])]);
    return rows;
  };
  const titleOf = (box: number) =>
    boxes.merged[box] > 0
      ? `${plural(boxes.merged[box], "frame")} too narrow to draw, in ${nameOf(boxes.node[box])}`
      : nameOf(boxes.node[box]);

  const zoom = (node: number) => {
    setZoomed(node);
    setCurrent(node);
    setPointer(null);
    props.onZoom?.(node === 0 ? null : sitesOf(tree, node), nameOf(node));
  };
  const over = (event: PointerEvent) => {
    const frame = place.current?.getBoundingClientRect();
    if (frame) setPointer({ x: event.clientX - frame.left, y: event.clientY - frame.top });
  };
  const press = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (ARROWS.has(event.key)) {
      const next = neighbour(boxes, tree, currentBox, event.key as FlameKey);
      setCurrent(boxes.node[next]);
      scrollTo(boxes.row[next]);
    } else if (event.key === "Enter") zoom(boxes.node[currentBox]);
    else if (event.key === "Backspace") zoom(Math.max(0, tree.parent[focus]));
    else if (event.key === "Escape") zoom(0);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const scrollTo = (row: number) => {
    const box = place.current?.parentElement;
    if (!box) return;
    const top = row * ROW_PIXELS;
    if (top < box.scrollTop) box.scrollTop = top;
    else if (top + ROW_PIXELS > box.scrollTop + box.clientHeight) box.scrollTop = top + ROW_PIXELS - box.clientHeight;
  };

  return (
    <div class="flame">
      <div class="part-bar">
        <input
          type="search"
          class="part-search"
          placeholder="Search frames"
          aria-label="Search frames of the flame graph"
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
          onKeyDown={(event) => event.key === "Escape" && setText("")}
        />
        {found && (
          <output class="part-note">
            {plural(found.frames, "frame")}, {amount(found.sum)}
            {!differential && `, ${percent(share(found.sum, sums.net[0]))}`}
          </output>
        )}
        <span class="part-space" />
        {!differential && hasStacks && (
          <label class="part-choice">
            Colours
            <select value={colourBy} onChange={(event) => setColourBy(event.currentTarget.value as "op" | "file")}>
              <option value="op">by operation</option>
              <option value="file">by file</option>
            </select>
          </label>
        )}
        {differential && <ChangeKey />}
        {hasTtnn && <Check label="Fold ttnn" checked={folded} onChange={setFolded} />}
        <Check label="Inverted" checked={inverted} onChange={setInverted} />
      </div>
      <nav class="flame-path" aria-label="Zoomed frames">
        {pathTo(tree, focus).map((node, step, path) => (
          <button
            type="button"
            key={node}
            disabled={step === path.length - 1}
            onClick={() => zoom(node)}
            title={nameOf(node)}
          >
            {node === 0 ? `All ${amount(sums.net[0])}` : frameLabel(nameOf(node), tree.type[node])}
          </button>
        ))}
      </nav>
      <div class="flame-scroll" style={{ maxHeight: `${maxHeight}px` }}>
        <div
          class="canvas-place"
          ref={place}
          tabIndex={0}
          role="tree"
          aria-label={`Flame graph: ${label}. ${KEYS}`}
          aria-activedescendant={`${id}-frame`}
          onKeyDown={press}
          onFocus={() => setFocused(true)}
          onBlur={() => setFocused(false)}
          onPointerMove={over}
          onPointerLeave={() => setPointer(null)}
          onClick={() => hovered >= 0 && zoom(boxes.node[hovered])}
          onDblClick={() => zoom(0)}
        >
          <canvas ref={canvas} aria-hidden="true" />
          <canvas ref={overlay} class="canvas-over" aria-hidden="true" />
          <div
            id={`${id}-frame`}
            class="hidden-text"
            role="treeitem"
            aria-level={boxes.row[currentBox] + 1}
            aria-label={`${nameOf(boxes.node[currentBox])}, ${rowsOf(currentBox)
              .map((row) => row.join(" "))
              .join(", ")}`}
          />
          {sums.weight[0] === 0 && <p class="part-empty">Nothing to show: {label}.</p>}
          {pointer && hovered >= 0 && (
            <ToolTip x={pointer.x} y={pointer.y} title={titleOf(hovered)} rows={rowsOf(hovered)} />
          )}
        </div>
      </div>
    </div>
  );
}

function ChangeKey() {
  return (
    <span class="part-key">
      <i class="swatch swatch-less" /> shrank
      <i class="swatch swatch-more" /> grew
      <span title="A box is as wide as everything that grew or shrank in it">(width: how much changed)</span>
    </span>
  );
}

function share(part: number, whole: number): number {
  return whole > 0 ? part / whole : 0;
}
