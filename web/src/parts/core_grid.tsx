// SPDX-License-Identifier: Apache-2.0
/** The compute cores of a chip as a grid: how full the L1 of each core is, its headroom, or its program. */
import { useEffect, useRef, useState } from "preact/hooks";
import type { CoreRow, Cores } from "../documents";
import { usePageColours } from "./canvas";
import type { Colour } from "./colours";
import { css, heat, inkOn, kindColour, mix, opColours, parseColour } from "./colours";
import {
  clashes,
  gridNotes,
  gridSize,
  headroomText,
  lastProgram,
  programOf,
  tinySize,
  unplacedText,
  worstCore,
} from "./core_words";
import { human, percent, plural } from "./format";
import type { Theme } from "./theme";

export type CoreColouring = "used" | "headroom" | "program";

export interface CoreGridProps {
  /** The document of `ttmem l1`, of `/cores`, or of a moment in a report. */
  cores: Cores;
  /** The chosen core. */
  selected: { x: number; y: number } | null;
  /** A core was clicked, or reached with the arrow keys. */
  onSelect: (x: number, y: number) => void;
}

const STEPS: Record<string, readonly [number, number]> = {
  ArrowLeft: [-1, 0],
  ArrowRight: [1, 0],
  ArrowUp: [0, -1],
  ArrowDown: [0, 1],
};

export function CoreGrid({ cores, selected, onSelect }: CoreGridProps) {
  const [colouring, setColouring] = useState<CoreColouring>("used");
  const colours = usePageColours();
  const table = useRef<HTMLTableElement>(null);
  const moved = useRef(false);
  useEffect(() => {
    if (!moved.current) return;
    moved.current = false;
    table.current?.querySelector<HTMLElement>('[tabindex="0"]')?.focus();
  }, [selected?.x, selected?.y]);

  if (cores.grid === null || cores.l1 === null || cores.why !== null) {
    return <p class="part-none">The L1 of this chip is not known{cores.why ? `: ${cores.why}` : ""}.</p>;
  }
  const { columns, rows } = gridSize(cores);
  const byPlace = new Map(cores.cores.map((core) => [`${core.x},${core.y}`, core]));
  const dispatch = new Set(cores.dispatch.map((core) => `${core.x},${core.y}`));
  const worst = worstCore(cores);
  const current = selected ?? { x: cores.cores[0]?.x ?? 0, y: cores.cores[0]?.y ?? 0 };
  const capacity = cores.grid.x * cores.grid.y * cores.l1.size;
  const atLeast = cores.cores.some((core) => core.unknown) ? "at least " : "";
  const unplaced = unplacedText(cores);

  const press = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    let next: { x: number; y: number } | null = null;
    const step = STEPS[event.key];
    if (step) {
      for (let x = current.x + step[0], y = current.y + step[1]; x >= 0 && y >= 0 && x < columns && y < rows;) {
        if (byPlace.has(`${x},${y}`)) {
          next = { x, y };
          break;
        }
        x += step[0];
        y += step[1];
      }
    } else if (event.key === "w") next = worst;
    else if (event.key === "Home") next = cores.cores[0] ?? null;
    else if (event.key === "End") next = cores.cores[cores.cores.length - 1] ?? null;
    else return;
    event.preventDefault();
    event.stopPropagation();
    if (!next) return;
    moved.current = true;
    onSelect(next.x, next.y);
  };

  const cell = (x: number, y: number) => {
    const core = byPlace.get(`${x},${y}`);
    if (!core) {
      const reserved = dispatch.has(`${x},${y}`);
      return (
        <td key={x} role="gridcell" class={reserved ? "core core-dispatch" : "core core-none"}>
          {reserved && <span title={`core ${x},${y}: reserved for dispatch`}>D</span>}
        </td>
      );
    }
    const chosen = selected !== null && core.x === selected.x && core.y === selected.y;
    const look = coreLook(cores, core, colouring, colours.theme, parseColour(colours.sunken));
    const tab = core.x === current.x && core.y === current.y ? 0 : -1;
    return (
      <td
        key={x}
        role="gridcell"
        tabIndex={tab}
        aria-selected={chosen}
        aria-label={coreSentence(cores, core)}
        title={coreSentence(cores, core)}
        class={chosen ? "core core-chosen" : "core"}
        style={{ background: css(look.colour), color: css(inkOn(look.colour)) }}
        onClick={() => onSelect(x, y)}
      >
        <b>{look.first}</b>
        <small>{look.second}</small>
      </td>
    );
  };

  return (
    <div class="core-part">
      <p class="cores-sum">
        {cores.grid.x} x {cores.grid.y} cores, {human(cores.l1.size)} L1 each. Used {atLeast}
        {human(cores.used)} of {human(capacity)}
        {cores.used !== null && ` (${percent(cores.used / capacity)})`} with firmware and kernel ring, fullest core{" "}
        {human(cores.max_core)}, least headroom{" "}
        <b class={headroomClass(cores, cores.headroom_min)}>{headroomText(cores.headroom_min)}</b>
        {cores.age_s !== null && cores.age_s >= 1 && `, ${cores.age_s.toFixed(0)} s old`}.
      </p>
      {cores.warnings.map((text) => (
        <p class="cores-warning" key={text}>
          {text}
        </p>
      ))}
      {unplaced && <p class="cores-doubt">{unplaced}.</p>}
      <div class="part-bar">
        <label class="part-choice">
          Show
          <select value={colouring} onChange={(event) => setColouring(event.currentTarget.value as CoreColouring)}>
            <option value="used">use</option>
            <option value="headroom">headroom</option>
            <option value="program">program that ran last</option>
          </select>
        </label>
        {worst && (
          <button type="button" class="part-button" onClick={() => onSelect(worst.x, worst.y)}>
            Core with the least headroom
          </button>
        )}
      </div>
      <table
        class="core-grid"
        role="grid"
        aria-label="Compute cores. Arrow keys choose a core."
        ref={table}
        onKeyDown={press}
      >
        <thead>
          <tr>
            <td />
            {Array.from({ length: columns }, (_, x) => (
              <th key={x} scope="col">
                {x}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {Array.from({ length: rows }, (_, y) => (
            <tr key={y}>
              <th scope="row">{y}</th>
              {Array.from({ length: columns }, (_, x) => cell(x, y))}
            </tr>
          ))}
        </tbody>
      </table>
      <div class="part-bar">
        {colouring === "program" ? (
          <ProgramKey cores={cores} theme={colours.theme} />
        ) : (
          <HeatKey colouring={colouring} theme={colours.theme} />
        )}
        <span>{gridNotes(cores).join("; ")}</span>
      </div>
    </div>
  );
}

/** Colour and the two texts of a core. */
export function coreLook(
  cores: Cores,
  core: CoreRow,
  colouring: CoreColouring,
  theme: Theme,
  neutral: Colour,
): { colour: Colour; first: string; second: string } {
  const size = cores.l1?.size ?? 1;
  const shared = Math.max(1, size - (cores.l1?.base ?? 0));
  const sign = clashes(core) ? "!" : core.unknown ? "?" : "";
  const used = core.used === null ? "-" : `${Math.round((100 * core.used) / size)}%`;
  const headroom = core.headroom === null ? "-" : core.headroom < 0 ? "clash" : tinySize(core.headroom);
  if (colouring === "program") {
    const program = programOf(cores, core.program);
    if (!program) return { colour: neutral, first: "-", second: used + sign };
    return {
      colour: opColours.of(programKey(program), theme),
      first: String(program.program),
      second: used + sign,
    };
  }
  if (clashes(core)) {
    const both = {
      first: (colouring === "used" ? used : headroom) + sign,
      second: colouring === "used" ? headroom : used,
    };
    return { colour: kindColour("clash", theme), ...both };
  }
  if (colouring === "headroom") {
    if (core.headroom === null) return { colour: neutral, first: `-${sign}`, second: used };
    const hot = 1 - core.headroom / shared;
    return { colour: heat(hot ** 3, theme), first: headroom + sign, second: used };
  }
  const colour = core.used === null ? neutral : heat(core.used / size, theme);
  return { colour, first: used + sign, second: headroom };
}

function programKey(program: { program: number; operation: string | null }): string {
  return program.operation ?? `program ${program.program}`;
}

function coreSentence(cores: Cores, core: CoreRow): string {
  const parts = [`core ${core.x},${core.y}`, `used ${human(core.used)}`, `headroom ${headroomText(core.headroom)}`];
  if (core.largest_free !== null) parts.push(`largest free block ${human(core.largest_free)}`);
  if (core.unknown) parts.push(`not known ${human(core.unknown)}`);
  if (core.overlap) parts.push(`overlap ${human(core.overlap)}`);
  parts.push(`last run: ${lastProgram(cores, core)}`);
  return parts.join(", ");
}

/** The class of a headroom: normal, warning or bad, with the limits of the dashboard. */
export function headroomClass(cores: Cores, headroom: number | null): string {
  if (headroom === null) return "headroom-unknown";
  const part = headroom / Math.max(1, (cores.l1?.size ?? 0) - (cores.l1?.base ?? 0));
  return part < 0.02 ? "headroom-bad" : part < 0.1 ? "headroom-warn" : "headroom-good";
}

function HeatKey({ colouring, theme }: { colouring: "used" | "headroom"; theme: Theme }) {
  const parts = Array.from({ length: 17 }, (_, step) => step / 16);
  const steps = parts.map((part) => css(heat(colouring === "used" ? part : part ** 3, theme)));
  return (
    <span class="part-key">
      {colouring === "used" ? "empty" : "all free"}
      <i class="age-scale" style={{ background: `linear-gradient(to right, ${steps.join(", ")})` }} />
      {colouring === "used"
        ? "full. Below the use of a core: its headroom"
        : "none left. Below the headroom of a core: its use"}
    </span>
  );
}

function ProgramKey({ cores, theme }: { cores: Cores; theme: Theme }) {
  const counts = new Map<string, number>();
  for (const core of cores.cores) {
    const program = programOf(cores, core.program);
    if (program) counts.set(programKey(program), (counts.get(programKey(program)) ?? 0) + 1);
  }
  return (
    <span class="part-key">
      {[...counts].map(([name, count]) => (
        <span class="key-entry" key={name}>
          <i class="swatch" style={{ background: css(opColours.of(name, theme)) }} /> {name}, {plural(count, "core")}
        </span>
      ))}
    </span>
  );
}

/** Colours of segments in a core's map: kinds, and quiet ones for what is free or not known. */
export function segmentColour(kind: string, theme: Theme, panel: Colour, soft: Colour): Colour {
  if (kind === "free") return panel;
  if (kind === "small_free") return mix(panel, soft, 0.08);
  if (kind === "unknown") return mix(panel, soft, 0.3);
  return kindColour(kind, theme);
}
