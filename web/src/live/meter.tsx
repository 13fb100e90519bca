// SPDX-License-Identifier: Apache-2.0
/** Small drawings of the live pages: a bar against a capacity, and a line of the last minutes. */
import { css, kindColour } from "../parts/colours";
import { bytesOf, peakBytes, percent, short } from "../parts/format";
import { currentTheme } from "../parts/theme";

export interface MeterPart {
  kind: string;
  value: number;
}

export interface MeterProps {
  label: string;
  parts: readonly MeterPart[];
  used: number | null;
  capacity: number | null;
  peak?: number | null;
  /** The upper limit of a peak that is only a lower limit. */
  peakAtMost?: number | null;
  title?: string;
}

/** A bar with its parts by kind, the peak as a tick, and the numbers beside it. */
export function Meter({ label, parts, used, capacity, peak = null, peakAtMost = null, title }: MeterProps) {
  const theme = currentTheme();
  const whole = capacity ?? 0;
  const share = used !== null && whole > 0 ? used / whole : null;
  const words = title ?? `${label}: ${bytesOf(used)} of ${bytesOf(capacity)}${peak === null ? "" : `, peak ${peakBytes(peak, peakAtMost)}`}`;
  return (
    <div class="gauge" title={words}>
      <span class="gauge-label">{label}</span>
      <span class="gauge-value">
        {short(used)} <span>{share === null ? "" : percent(share)}</span>
      </span>
      <span class={`gauge-bar${share !== null && share > 0.95 ? " full" : ""}`}>
        {whole > 0 &&
          parts.map((part) => (
            <i
              key={part.kind}
              style={{ width: `${Math.min(100, (100 * part.value) / whole)}%`, background: css(kindColour(part.kind, theme)) }}
            />
          ))}
        {peak !== null && whole > 0 && <b style={{ left: `${Math.min(100, (100 * peak) / whole)}%` }} />}
      </span>
    </div>
  );
}

export interface SparkProps {
  values: Float64Array; // negative: unknown
  width: number;
  height: number;
  kind: string;
  label: string;
}

/** A line without axes, from 0 to a little above its highest value. Unknown values are gaps. */
export function Spark({ values, width, height, kind, label }: SparkProps) {
  let top = 1;
  for (const value of values) if (value > top) top = value;
  const x = (i: number) => ((i * width) / Math.max(1, values.length - 1)).toFixed(1);
  const y = (value: number) => (height - 1 - ((height - 2) * value) / (top * 1.1)).toFixed(1);
  let line = "";
  let area = "";
  let from = -1;
  for (let i = 0; i <= values.length; i++) {
    const known = i < values.length && values[i] >= 0;
    if (known && from < 0) from = i;
    if (!known && from >= 0) {
      const points = Array.from({ length: i - from }, (_, k) => `${x(from + k)},${y(values[from + k])}`).join("L");
      line += `M${points}`;
      area += `M${x(from)},${height}L${points}L${x(i - 1)},${height}Z`;
      from = -1;
    }
  }
  const colour = css(kindColour(kind, currentTheme()));
  return (
    <svg class="spark" viewBox={`0 0 ${width} ${height}`} preserveAspectRatio="none" role="img" aria-label={label}>
      <path d={area} fill={colour} fill-opacity="0.16" />
      <path d={line} fill="none" stroke={colour} stroke-width="1.25" vector-effect="non-scaling-stroke" />
    </svg>
  );
}
