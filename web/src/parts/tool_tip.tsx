// SPDX-License-Identifier: Apache-2.0
/** A tool tip beside the pointer, inside the nearest positioned element. It never takes the pointer itself. */
import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";

export interface ToolTipProps {
  /** Place of the pointer in the positioned element, in CSS pixels. */
  x: number;
  y: number;
  /** Width of that element: the tool tip changes sides rather than leave it. */
  room: number;
  title: string;
  /** Label and value of each row. */
  rows?: readonly (readonly [label: string, value: string])[];
  children?: ComponentChildren;
}

const GAP_PIXELS = 14;

export function ToolTip({ x, y, room, title, rows = [], children }: ToolTipProps) {
  const box = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const target = box.current;
    if (target === null) return;
    const left = x + GAP_PIXELS + target.offsetWidth > room ? x - GAP_PIXELS - target.offsetWidth : x + GAP_PIXELS;
    const top = target.parentElement?.getBoundingClientRect().top ?? 0;
    const below = top + y + GAP_PIXELS + target.offsetHeight <= window.innerHeight;
    target.style.left = `${Math.max(0, left)}px`;
    target.style.top = `${below ? y + GAP_PIXELS : y - GAP_PIXELS - target.offsetHeight}px`;
  });
  return (
    <div class="tip" ref={box} aria-hidden="true">
      <div class="tip-title">{title}</div>
      {rows.length > 0 && (
        <dl class="tip-rows">
          {rows.map(([label, value]) => [<dt key={label}>{label}</dt>, <dd key={`${label} value`}>{value}</dd>])}
        </dl>
      )}
      {children}
    </div>
  );
}
