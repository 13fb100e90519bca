// SPDX-License-Identifier: Apache-2.0
/** The L1 of one core from address 0 to its end: a strip to scale with the headroom, and a table of its segments. */
import { useRef, useState } from "preact/hooks";
import type { CoreDetail, CoreRow, Cores, SegmentRow } from "../documents";
import { usePageColours, useSize } from "./canvas";
import { css, inkOn, parseColour } from "./colours";
import { headroomClass, segmentColour } from "./core_grid";
import { CoreSegments } from "./core_segments";
import { floorText, headroomText, lastProgram, overlaps, programOf, programText, SEGMENT_WORDS } from "./core_words";
import { address, human, percent } from "./format";
import { addressTicks } from "./map_layout";

export interface CoreMapProps {
  /** The document of the chip. */
  cores: Cores;
  /** The map of the core; null while it is asked for. */
  detail: CoreDetail | null;
  /** Coordinates of the core. */
  x: number;
  y: number;
}

const STRIP_PIXELS = 46;
const GAP_PIXELS = 24; // row of the headroom, below the strip
const AXIS_PIXELS = 18;
const LETTER_PIXELS = 6.6;

export function CoreMap({ cores, detail, x, y }: CoreMapProps) {
  const [hovered, setHovered] = useState<number | null>(null);
  const core = cores.cores.find((one) => one.x === x && one.y === y);
  if (!core || !cores.l1)
    return (
      <p class="part-none">
        There is no core {x},{y}.
      </p>
    );
  const worst = core.worst;
  const size = cores.l1.size;
  const facts: [string, string, string?][] = [
    ["Headroom", headroomText(core.headroom), headroomClass(cores, core.headroom)],
    ["Used", `${human(core.used)}${core.used === null ? "" : `, ${percent(core.used / size)}`}`],
    ["Free", `${human(core.free)}, largest block ${human(core.largest_free)}`],
    ["Lowest buffer", limit(cores.floor.address, cores.floor.address === null ? "not known" : floorText(cores))],
    ["Last run ends", limit(core.end, lastProgram(cores, core))],
  ];
  if (core.unknown) facts.push(["Not known", human(core.unknown)]);
  if (core.overlap) facts.push(["Overlap", human(core.overlap), "headroom-bad"]);
  if (worst && worst.end > (core.end ?? 0)) {
    const left = worst.headroom;
    const words = left === null ? "" : left < 0 ? `would clash by ${human(-left)}, ` : `headroom ${human(left)}, `;
    const program = `cached ${programText(programOf(cores, worst.program))}`;
    facts.push([
      "Highest end",
      limit(worst.end, words + program),
      left !== null && left < 0 ? "headroom-bad" : undefined,
    ]);
  }
  return (
    <div class="core-map">
      <dl class="core-facts">
        {facts.map(([label, value, style]) => [
          <dt key={label}>{label}</dt>,
          <dd key={`${label} value`} class={style}>
            {value}
          </dd>,
        ])}
      </dl>
      {detail === null ? (
        <p class="part-none">
          Asking for the map of core {x},{y}.
        </p>
      ) : (
        <>
          <Strip cores={cores} core={core} segments={detail.segments} hovered={hovered} onHover={setHovered} />
          <CoreSegments detail={detail} hovered={hovered} onHover={setHovered} />
          {detail.kernels.length > 0 && (
            <div class="core-kernels">
              In the kernel ring, at unknown addresses:
              <ul>
                {detail.kernels.map((kernel, index) => (
                  <li key={index}>
                    {human(kernel.size)} {kernel.tag ?? "a kernel"}
                  </li>
                ))}
              </ul>
            </div>
          )}
        </>
      )}
    </div>
  );
}

function limit(at: number | null, words: string): string {
  return at === null ? words : `${address(at)}, ${words}`;
}

interface StripProps {
  cores: Cores;
  core: CoreRow;
  segments: readonly SegmentRow[];
  hovered: number | null;
  onHover: (index: number | null) => void;
}

function Strip({ cores, core, segments, hovered, onHover }: StripProps) {
  const place = useRef<HTMLDivElement>(null);
  const colours = usePageColours();
  const { width } = useSize(place);
  const layout = cores.l1!;
  const scale = Math.max(0, width - 2) / layout.size;
  const at = (address: number) => 1 + address * scale;
  const [panel, soft] = [parseColour(colours.panel), parseColour(colours.soft)];
  const floor = cores.floor.address;
  const end = core.end ?? layout.base;
  const gap =
    core.headroom !== null && floor !== null ? { low: Math.min(end, floor), high: Math.max(end, floor) } : null;
  const words = gap && (core.headroom! < 0 ? `clash by ${human(-core.headroom!)}` : `headroom ${human(core.headroom)}`);
  const wide = gap ? (gap.high - gap.low) * scale : 0;
  const room = (words?.length ?? 0) * LETTER_PIXELS + 12;
  const middle = STRIP_PIXELS + GAP_PIXELS / 2 + 1;
  const inside = wide > room;
  const before = gap !== null && !inside && at(gap.low) - room > 0;
  return (
    <div class="core-strip" ref={place}>
      <svg
        width={width}
        height={STRIP_PIXELS + GAP_PIXELS + AXIS_PIXELS}
        role="img"
        aria-label={words ?? "L1 of the core"}
      >
        <defs>
          <pattern id="core-overlap" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
            <rect width="3" height="6" class="core-overlap-line" />
          </pattern>
        </defs>
        {segments.map((segment, index) => {
          const colour = segmentColour(segment.kind, colours.theme, panel, soft);
          const long = Math.max(1, (segment.end - segment.start) * scale);
          const label = SEGMENT_WORDS[segment.kind] ?? segment.kind;
          return (
            <g key={segment.start} onPointerEnter={() => onHover(index)} onPointerLeave={() => onHover(null)}>
              <rect x={at(segment.start)} y={0.5} width={long} height={STRIP_PIXELS - 1} fill={css(colour)} />
              {overlaps(segment) && (
                <rect x={at(segment.start)} y={0.5} width={long} height={STRIP_PIXELS - 1} fill="url(#core-overlap)" />
              )}
              {long > 5 && (
                <line class="core-edge" x1={at(segment.start)} x2={at(segment.start)} y1={0} y2={STRIP_PIXELS} />
              )}
              {long > label.length * LETTER_PIXELS + 8 && (
                <text
                  x={at(segment.start) + long / 2}
                  y={STRIP_PIXELS / 2 + 4}
                  text-anchor="middle"
                  fill={css(inkOn(colour))}
                >
                  {label}
                </text>
              )}
              {hovered === index && (
                <rect
                  class="core-hovered"
                  x={at(segment.start)}
                  y={1}
                  width={Math.max(2, long)}
                  height={STRIP_PIXELS - 2}
                />
              )}
            </g>
          );
        })}
        <rect class="core-frame" x={0.5} y={0.5} width={Math.max(0, width - 1)} height={STRIP_PIXELS - 1} />
        {floor !== null && (
          <line class="core-floor" x1={at(floor)} x2={at(floor)} y1={0} y2={STRIP_PIXELS + GAP_PIXELS} />
        )}
        {core.end !== null && (
          <line class="core-end" x1={at(core.end)} x2={at(core.end)} y1={0} y2={STRIP_PIXELS + GAP_PIXELS} />
        )}
        {gap && (
          <g class={headroomClass(cores, core.headroom)}>
            <line class="core-gap" x1={at(gap.low)} x2={at(gap.high)} y1={middle} y2={middle} />
            {inside && (
              <rect class="core-gap-back" x={at(gap.low) + (wide - room) / 2} y={middle - 8} width={room} height={16} />
            )}
            <text
              class="core-gap-text"
              x={inside ? at(gap.low) + wide / 2 : before ? at(gap.low) - 6 : at(gap.high) + 6}
              y={middle + 4}
              text-anchor={inside ? "middle" : before ? "end" : "start"}
            >
              {words}
            </text>
          </g>
        )}
        {addressTicks(0, layout.size, width / 90).ticks.map((tick) => (
          <text
            key={tick}
            class="core-tick"
            x={Math.min(width - 2, Math.max(2, at(tick)))}
            y={STRIP_PIXELS + GAP_PIXELS + 13}
            text-anchor={tick === 0 ? "start" : width - at(tick) < 30 ? "end" : "middle"}
          >
            {address(tick)}
          </text>
        ))}
      </svg>
    </div>
  );
}
