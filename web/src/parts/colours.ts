// SPDX-License-Identifier: Apache-2.0
/**
 * Colours of kinds, names and values, for light and dark. A colour is a number, 0xRRGGBB; `css` writes it.
 *
 * All colours are made in OKLCH (lightness, chroma, hue), where equal steps look equal. Names get one of 24 slots by
 * their hash, so that an operation has the same colour in every view, and in most reports.
 */
import type { Theme } from "./theme";

export type Colour = number;

const NAME_HUES = 12;
const NAME_SLOTS = 2 * NAME_HUES; // two lightnesses of each hue
const NAME_LOOK = {
  light: { lightness: [0.81, 0.7], chroma: [0.085, 0.115] },
  dark: { lightness: [0.46, 0.54], chroma: [0.08, 0.1] },
} as const;

/** Hue and chroma of each kind; lightness depends on the theme. The pools keep clearly different hues. */
const KIND_LOOK: Record<string, readonly [hue: number, chroma: number, lighter: number]> = {
  dram: [255, 0.13, 0],
  trace: [285, 0.11, 0.03],
  l1: [150, 0.11, 0],
  l1_small: [120, 0.11, 0.05],
  cb: [60, 0.13, 0.05],
  dfb: [80, 0.12, 0.08],
  scratchpad: [100, 0.11, 0.08],
  kernel: [330, 0.12, 0],
  fabric_kernel: [310, 0.07, 0],
  dispatch_kernel: [350, 0.07, 0],
  ring: [330, 0.05, 0],
  firmware: [270, 0.02, 0],
  host: [200, 0.09, 0.02],
  clash: [25, 0.19, -0.03],
};

/** The colour of a kind of allocation, or of a kind of segment in a core's map. */
export function kindColour(kind: string, theme: Theme): Colour {
  const [hue, chroma, lighter] = KIND_LOOK[kind] ?? [0, 0, 0];
  return oklch((theme === "light" ? 0.67 : 0.66) + lighter, chroma, hue);
}

/**
 * A stable colour for each name. The slot is that of the hash, or the next one that is far enough from the colours in
 * use: first a hue whose neighbours are free, then a free hue, then any free slot.
 *
 * The order in which names get their colours matters. It is that of `fix`, or else that of the first use.
 */
export class NameColours {
  private readonly slots = new Map<string, number>();
  private readonly taken = new Array<boolean>(NAME_SLOTS).fill(false);
  private fixed = false;

  /** Give these names their colours, in this order. All others then have the colour of their hash. */
  fix(names: Iterable<string>): void {
    this.slots.clear();
    this.taken.fill(false);
    for (const name of names) if (!this.slots.has(name)) this.add(name);
    this.fixed = true;
  }

  of(name: string, theme: Theme): Colour {
    const slot = this.slots.get(name) ?? (this.fixed ? hash(name) % NAME_SLOTS : this.add(name));
    return slotColour(slot, theme);
  }

  private add(name: string): number {
    const slot = this.choose(hash(name) % NAME_SLOTS);
    this.taken[slot] = true;
    this.slots.set(name, slot);
    return slot;
  }

  private choose(wanted: number): number {
    const hueTaken = (hue: number) => {
      const first = 2 * ((hue + NAME_HUES) % NAME_HUES);
      return this.taken[first] || this.taken[first + 1];
    };
    const conditions = [
      (slot: number) => [-1, 0, 1].every((step) => !hueTaken((slot >> 1) + step)),
      (slot: number) => !hueTaken(slot >> 1),
      (slot: number) => !this.taken[slot],
    ];
    for (const condition of conditions) {
      for (let i = 0, slot = wanted; i < NAME_SLOTS; i++, slot = (slot + 7) % NAME_SLOTS) {
        if (condition(slot)) return slot; // steps of 7 visit all 24 slots
      }
    }
    return wanted;
  }
}

/** One for the whole page, so that an operation, a file or a line has the same colour in every view. */
export const opColours = new NameColours();
export const fileColours = new NameColours();
export const lineColours = new NameColours();

function slotColour(slot: number, theme: Theme): Colour {
  const look = NAME_LOOK[theme];
  const level = slot % 2;
  const hue = (Math.floor(slot / 2) * 360) / NAME_HUES + (level ? 20 : 5);
  return oklch(look.lightness[level], look.chroma[level], hue);
}

/** A hash of a name (FNV-1a), the same in every browser. */
export function hash(name: string): number {
  let value = 0x811c9dc5;
  for (let i = 0; i < name.length; i++) {
    value ^= name.charCodeAt(i);
    value = Math.imul(value, 0x01000193);
  }
  value ^= value >>> 15;
  value = Math.imul(value, 0x2c1b3c6d);
  return (value ^ (value >>> 13)) >>> 0;
}

/** How full something is, from 0 to 1: calm to alarming. */
export function heat(part: number, theme: Theme): Colour {
  const t = clamp(part);
  const hue = t < 0.5 ? 235 - 80 * t * 2 : 155 - 130 * (t - 0.5) * 2;
  const chroma = 0.035 + 0.125 * t;
  return theme === "light" ? oklch(0.93 - 0.27 * t, chroma, hue) : oklch(0.34 + 0.26 * t, chroma, hue);
}

/** How long something lived, from 0 (short) to 1 (the whole run). */
export function sequential(part: number, theme: Theme): Colour {
  const t = clamp(part);
  return theme === "light"
    ? oklch(0.88 - 0.42 * t, 0.07 + 0.08 * t, 95 + 175 * t)
    : oklch(0.82 - 0.42 * t, 0.09 + 0.06 * t, 95 + 175 * t);
}

/** A change from -1 (all gone) over 0 (nothing) to 1 (all new): blue for less, red for more. */
export function diverging(part: number, theme: Theme): Colour {
  const t = Math.min(1, Math.abs(part)) ** 0.7;
  const hue = part < 0 ? 250 : 28;
  return theme === "light"
    ? oklch(0.93 - 0.22 * t, 0.005 + 0.115 * t, hue)
    : oklch(0.38 + 0.14 * t, 0.01 + 0.12 * t, hue);
}

/** The text colour with the better contrast on a background. */
export function inkOn(background: Colour): Colour {
  return luminance(background) > 0.188 ? 0x0b0d10 : 0xffffff; // there both have a contrast of 4.4
}

/** A mixture; `part` is how much there is of the second colour. */
export function mix(first: Colour, second: Colour, part: number): Colour {
  const one = (shift: number) => {
    const a = (first >> shift) & 255;
    return Math.round(a + (((second >> shift) & 255) - a) * part) << shift;
  };
  return one(16) | one(8) | one(0);
}

export function css(colour: Colour): string {
  return `#${colour.toString(16).padStart(6, "0")}`;
}

/** Reads "#rgb", "#rrggbb" or "rgb(r, g, b)", as a style sheet has it. */
export function parseColour(text: string): Colour {
  const hex = /^#([0-9a-f]{3}|[0-9a-f]{6})$/i.exec(text.trim());
  if (hex) {
    const digits = hex[1].length === 3 ? hex[1].replace(/./g, "$&$&") : hex[1];
    return parseInt(digits, 16);
  }
  const numbers = /^rgba?\(\s*(\d+)[,\s]+(\d+)[,\s]+(\d+)/.exec(text.trim());
  return numbers ? (Number(numbers[1]) << 16) | (Number(numbers[2]) << 8) | Number(numbers[3]) : 0x808080;
}

/** Contrast ratio of WCAG, 1 to 21. */
export function contrast(first: Colour, second: Colour): number {
  const [low, high] = [luminance(first), luminance(second)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
}

function luminance(colour: Colour): number {
  const linear = (shift: number) => {
    const value = ((colour >> shift) & 255) / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  };
  return 0.2126 * linear(16) + 0.7152 * linear(8) + 0.0722 * linear(0);
}

/** OKLCH to sRGB, with the matrices of the definition of Oklab; what sRGB cannot show is clipped. */
export function oklch(lightness: number, chroma: number, hueDegrees: number): Colour {
  const hue = (hueDegrees * Math.PI) / 180;
  const a = chroma * Math.cos(hue);
  const b = chroma * Math.sin(hue);
  const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  const channel = (value: number) => {
    const curved = value <= 0.0031308 ? 12.92 * value : 1.055 * value ** (1 / 2.4) - 0.055;
    return Math.round(255 * clamp(curved));
  };
  return (
    (channel(4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s) << 16) |
    (channel(-1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s) << 8) |
    channel(-0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s)
  );
}

function clamp(value: number): number {
  return Math.min(1, Math.max(0, value));
}
