// SPDX-License-Identifier: Apache-2.0
/** What every canvas needs: sharp pixels on any screen, the width of its place, colours of the page, short texts. */
import type { RefObject } from "preact";
import { useEffect, useLayoutEffect, useState } from "preact/hooks";
import type { Theme } from "./theme";
import { cssValue, currentTheme, onThemeChange } from "./theme";

/** The colours of the style sheet that canvases use. */
export interface PageColours {
  theme: Theme;
  page: string;
  panel: string;
  sunken: string;
  line: string;
  strong: string;
  text: string;
  soft: string;
  faint: string;
  accent: string;
  bad: string;
  warn: string;
  sans: string;
}

export interface CanvasSize {
  width: number; // CSS pixels
  height: number;
  ratio: number; // device pixels in a CSS pixel
}

/** The width of an element in CSS pixels, and the pixel ratio of the screen; 0 until it is laid out. */
export function useSize(element: RefObject<HTMLElement | null>): { width: number; ratio: number } {
  const [size, setSize] = useState({ width: 0, ratio: 1 });
  useLayoutEffect(() => {
    const target = element.current;
    if (target === null) return;
    const measure = () => {
      const width = Math.floor(target.clientWidth);
      const ratio = window.devicePixelRatio || 1;
      setSize((old) => (old.width === width && old.ratio === ratio ? old : { width, ratio }));
    };
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(target);
    window.addEventListener("resize", measure); // a zoom of the page changes the ratio
    return () => {
      observer.disconnect();
      window.removeEventListener("resize", measure);
    };
  }, []);
  return size;
}

/** The colours of the page; the component is drawn again when they change. */
export function usePageColours(): PageColours {
  const [colours, setColours] = useState(readColours);
  useEffect(() => onThemeChange(() => setColours(readColours())), []);
  return colours;
}

function readColours(): PageColours {
  return {
    theme: currentTheme(),
    page: cssValue("--page"),
    panel: cssValue("--panel"),
    sunken: cssValue("--sunken"),
    line: cssValue("--line"),
    strong: cssValue("--line-strong"),
    text: cssValue("--text"),
    soft: cssValue("--text-soft"),
    faint: cssValue("--text-faint"),
    accent: cssValue("--accent"),
    bad: cssValue("--bad"),
    warn: cssValue("--warn"),
    sans: cssValue("--sans") || "sans-serif",
  };
}

/** Draws a canvas before the browser paints, whenever one of `inputs` changed. */
export function usePaint(
  canvas: RefObject<HTMLCanvasElement | null>,
  size: CanvasSize,
  paint: (context: CanvasRenderingContext2D, size: CanvasSize) => void,
  inputs: readonly unknown[],
): void {
  useLayoutEffect(() => {
    const target = canvas.current;
    const context = target?.getContext("2d");
    if (!target || !context || size.width <= 0 || size.height <= 0) return;
    const width = Math.round(size.width * size.ratio);
    const height = Math.round(size.height * size.ratio);
    if (target.width !== width) target.width = width;
    if (target.height !== height) target.height = height;
    target.style.width = `${size.width}px`;
    target.style.height = `${size.height}px`;
    context.setTransform(size.ratio, 0, 0, size.ratio, 0, 0);
    context.clearRect(0, 0, size.width, size.height);
    paint(context, size);
  }, [size.width, size.height, size.ratio, ...inputs]);
}

/** Cuts texts to a width. Widths of characters are measured once for each font. */
export class TextFitter {
  private readonly widths = new Map<number, number>();

  constructor(private readonly measure: (text: string) => number) {}

  width(text: string): number {
    let sum = 0;
    for (let i = 0; i < text.length; i++) sum += this.character(text.charCodeAt(i));
    return sum;
  }

  /** The text, or its begin with an ellipsis, or nothing if less than two characters fit. */
  fit(text: string, room: number): string {
    let sum = 0;
    let kept = 0; // characters that fit with an ellipsis
    const ellipsis = this.character(0x2026);
    for (let i = 0; i < text.length; i++) {
      sum += this.character(text.charCodeAt(i));
      if (sum > room) {
        if (kept > 0 && (text.charCodeAt(kept - 1) & 0xfc00) === 0xd800) kept--; // a half character
        return kept < 2 ? "" : `${text.slice(0, kept)}…`;
      }
      if (sum + ellipsis <= room) kept = i + 1;
    }
    return text;
  }

  private character(code: number): number {
    let width = this.widths.get(code);
    if (width === undefined) {
      width = this.measure(String.fromCharCode(code));
      this.widths.set(code, width);
    }
    return width;
  }
}
