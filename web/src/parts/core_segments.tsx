// SPDX-License-Identifier: Apache-2.0
/** The segments of a core's L1 as a table. */
import { useState } from "preact/hooks";
import type { CoreDetail } from "../documents";
import { usePageColours } from "./canvas";
import { Check } from "./check_box";
import { css, parseColour } from "./colours";
import { segmentColour } from "./core_grid";
import type { SegmentGroup } from "./core_words";
import { SEGMENT_WORDS, segmentGroups } from "./core_words";
import { address, human } from "./format";

export interface CoreSegmentsProps {
  detail: CoreDetail;
  hovered: number | null;
  onHover: (index: number | null) => void;
}

/** High addresses first, as in `ttmem l1`. */
export function CoreSegments({ detail, hovered, onHover }: CoreSegmentsProps) {
  const [join, setJoin] = useState(true);
  const colours = usePageColours();
  const [panel, soft] = [parseColour(colours.panel), parseColour(colours.soft)];
  const groups = segmentGroups(detail.segments, join).reverse();
  const canJoin = !join || groups.length < detail.segments.length;
  return (
    <>
      <div class="core-scroll">
        <table class="core-segments">
          <thead>
            <tr>
              <th>From</th>
              <th>To</th>
              <th>Size</th>
              <th>What</th>
              <th>Held by</th>
            </tr>
          </thead>
          <tbody>
            {detail.listed_to !== null && (
              <tr>
                <td colSpan={5}>Above {address(detail.listed_to)} there is more, which is not listed.</td>
              </tr>
            )}
            {groups.map((group) => (
              <tr
                key={group.start}
                class={rowClass(group, hovered)}
                onPointerEnter={() => onHover(group.first)}
                onPointerLeave={() => onHover(null)}
              >
                <td class="number">{address(group.start)}</td>
                <td class="number">{address(group.end)}</td>
                <td class="number" title={`${group.end - group.start} B`}>
                  {human(group.end - group.start)}
                </td>
                <td class="what">
                  <i
                    class="swatch"
                    style={{
                      background: css(segmentColour(group.kind, colours.theme, panel, soft)),
                    }}
                  />{" "}
                  {group.count > 1 && `${group.count} x `}
                  {SEGMENT_WORDS[group.kind] ?? group.kind}
                </td>
                <td>{group.text}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {canJoin && <Check label="Join adjacent segments that are alike" checked={join} onChange={setJoin} />}
    </>
  );
}

function rowClass(group: SegmentGroup, hovered: number | null): string {
  const quiet = ["free", "small_free", "firmware", "ring"].includes(group.kind);
  const style = group.overlap ? "core-row-overlap" : quiet ? "core-row-quiet" : "";
  const chosen = hovered !== null && hovered >= group.first && hovered < group.first + group.count;
  return chosen ? `${style} core-row-hovered` : style;
}
