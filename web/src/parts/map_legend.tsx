// SPDX-License-Identifier: Apache-2.0
/** The legend of an address map: names with their colours, or a scale of lives. */
import { css, kindColour, sequential } from "./colours";
import { duration } from "./format";
import type { LegendEntry } from "./map_words";
import type { Theme } from "./theme";

export interface MapLegendProps {
  /** Names with the most bytes times time. */
  entries: readonly LegendEntry[];
  /** Programs are drawn. */
  reach: boolean;
  /** Failed allocations are drawn. */
  failures: boolean;
  /** The colour of allocations without a rectangle, or null if there are none. */
  unlisted: number | null;
  theme: Theme;
}

export function MapLegend(props: MapLegendProps) {
  const program = css(kindColour("kernel", props.theme));
  return (
    <span class="part-key">
      {props.entries.map((entry) => (
        <span class="key-entry" key={entry.title} title={entry.title}>
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
          <i
            class="swatch"
            style={{
              background: `repeating-linear-gradient(135deg, ${program} 0 1.5px, transparent 1.5px 4px)`,
            }}
          />{" "}
          programs
        </span>
      )}
      {props.failures && (
        <span class="key-entry">
          <i class="swatch swatch-failure" /> failed allocation
        </span>
      )}
    </span>
  );
}

export function LifeScale({ lengthNs, theme }: { lengthNs: number; theme: Theme }) {
  const steps = [0, 0.2, 0.4, 0.6, 0.8, 1].map((part) => css(sequential(part, theme)));
  return (
    <span class="part-key">
      short
      <i class="age-scale" style={{ background: `linear-gradient(to right, ${steps.join(", ")})` }} />
      {duration(lengthNs)}, the whole run
    </span>
  );
}
