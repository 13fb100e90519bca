// SPDX-License-Identifier: Apache-2.0
/** Bytes, times, counts, addresses and source lines as text. Sizes are written as ttmem's commands write them (model/units.py). */

const STEPS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"] as const;

/** A size in the largest fitting unit with one decimal: "1.5 KiB", "0 B", and "-" if it is not known. */
export function human(size: number | null, unknown = "-"): string {
  if (size === null) return unknown;
  let value = size;
  for (const step of STEPS.slice(0, -1)) {
    if (Math.abs(value) < 1023.95 || (step === "B" && Math.abs(value) < 1024)) {
      return step === "B" ? `${size} B` : `${oneDecimal(value)} ${step}`;
    }
    value /= 1024;
  }
  return `${oneDecimal(value)} PiB`;
}

/** As `human`; a decimal that is exactly zero is left out: "512 MiB". */
export function short(size: number | null, unknown = "-"): string {
  if (size === null) return unknown;
  const text = human(size);
  return saysAll(text, size) ? text.replace(".0 ", " ") : text;
}

/** A size with its bytes if they do not follow from it: "77.3 KiB (79,200 B)". */
export function exact(size: number | null, unknown = "-"): string {
  if (size === null) return unknown;
  const text = human(size);
  return saysAll(text, size) ? short(size) : `${text} (${grouped(size)} B)`;
}

/** The text of a value that may have been higher, because records were lost: "≥ 1.5 KiB". */
export function lowerLimit(text: string): string {
  return `≥ ${text}`;
}

/** The text of a peak. `atMost` is its upper limit if it is only a lower limit; null if it is exact. */
export function peakText(text: string, atMost: number | null | undefined): string {
  return atMost === null || atMost === undefined ? text : lowerLimit(text);
}

/** All bytes of a peak, and its upper limit, for a tool tip: "79,200 B", "≥ 79,200 B, at most 81,920 B; records were lost". */
export function peakBytes(peak: number | null, atMost: number | null | undefined): string {
  const limit = atMost === null || atMost === undefined ? "" : `, at most ${bytesOf(atMost)}; records were lost`;
  return peakText(bytesOf(peak), atMost) + limit;
}

/** All bytes of a size, for a tool tip: "79,200 B". */
export function bytesOf(size: number | null): string {
  return size === null ? "not known" : `${grouped(size)} B`;
}

/** A change of a size: "+512 MiB", "-1.5 KiB". */
export function signed(size: number): string {
  return size > 0 ? `+${short(size)}` : short(size);
}

/** A share as text. A share below 1 is never shown as 100 %. */
export function complete(part: number): string {
  if (part > 0.9999 && part < 1) return "99.99 %";
  return `${Number((100 * part).toPrecision(4))} %`;
}

/** A share for bars, without decimals from 10 % on: "0.4 %", "37 %". */
export function percent(part: number): string {
  const value = 100 * part;
  if (value > 0 && value < 0.05) return "< 0.1 %";
  if (value > 99.5 && value < 100) return "99.9 %";
  return value < 10 ? `${Number(value.toFixed(1))} %` : `${Math.round(value)} %`;
}

/** An integer with separators: "1,048,576". */
export function grouped(value: number): string {
  const text = String(Math.abs(Math.round(value))).replace(/\B(?=(\d{3})+$)/g, ",");
  return value < 0 ? `-${text}` : text;
}

/** A count as short as a chart needs it: "950", "12.5 k", "3 M". */
export function compact(value: number): string {
  const size = Math.abs(value);
  if (size < 1000) return String(Number(value.toFixed(size < 10 ? 1 : 0)));
  if (size < 999_950) return `${Number((value / 1e3).toFixed(1))} k`;
  if (size < 999_950_000) return `${Number((value / 1e6).toFixed(1))} M`;
  return `${Number((value / 1e9).toFixed(1))} G`;
}

export function address(value: number | null): string {
  return value === null ? "-" : `0x${value.toString(16)}`;
}

/** A length of time in the unit that fits: "850 ns", "12.3 ms", "4.21 s", "3 min 20 s". */
export function duration(ns: number | null): string {
  if (ns === null) return "-";
  const size = Math.abs(ns);
  if (size < 1e3) return `${Math.round(ns)} ns`;
  if (size < 999_500) return `${three(ns / 1e3)} µs`;
  if (size < 999_500_000) return `${three(ns / 1e6)} ms`;
  if (size < 99.95e9) return `${three(ns / 1e9)} s`;
  const seconds = Math.round(size / 1e9);
  const sign = ns < 0 ? "-" : "";
  if (seconds < 3600) return `${sign}${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  return `${sign}${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
}

/**
 * A moment, as seconds after the start: "12.345 s", "1:02:03.5". `resolution` is the distance that two moments should
 * differ at, in ns; the text has as many decimals as that needs.
 */
export function moment(ns: number, resolution = 1e6): string {
  const decimals = Math.min(9, Math.max(0, Math.ceil(-Math.log10(Math.max(resolution, 1) / 1e9))));
  const seconds = ns / 1e9;
  if (seconds < 100) return `${seconds.toFixed(decimals)} s`;
  const whole = Math.floor(seconds);
  const rest = (seconds - whole).toFixed(decimals);
  const carry = rest.startsWith("1") ? 1 : 0;
  const total = whole + carry;
  const pad = (value: number) => String(value).padStart(2, "0");
  const clock = `${pad(Math.floor(total / 60) % 60)}:${pad(total % 60)}${rest.slice(1)}`;
  return total >= 3600 ? `${Math.floor(total / 3600)}:${clock}` : clock.replace(/^0/, "");
}

/** "1 buffer", "2 buffers". */
export function plural(count: number, one: string, many = `${one}s`): string {
  return `${grouped(count)} ${count === 1 ? one : many}`;
}

/** The last part of a path and the line, for narrow places: "/srv/llama/model.py:20 main" is "model.py:20 main". */
export function shortLine(line: string): string {
  const path = /^(\S*\/)(?=[^/\s]+:\d+)/.exec(line);
  return path === null ? line : line.slice(path[1].length);
}

function three(value: number): string {
  return String(Number(value.toPrecision(3)));
}

/** Python rounds the exact binary value, and so does toFixed; only the sign of a small negative differs. */
function oneDecimal(value: number): string {
  return value.toFixed(1);
}

function saysAll(text: string, size: number): boolean {
  const [number, unit] = text.split(" ") as [string, (typeof STEPS)[number]];
  return unit === "B" || Number(number) * 1024 ** STEPS.indexOf(unit) === size;
}
