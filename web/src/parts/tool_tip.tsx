// SPDX-License-Identifier: Apache-2.0
/** A tool tip beside the pointer. It stays inside the window, is never cut off, and never takes the pointer. */
import { useLayoutEffect, useRef } from "preact/hooks";

export interface ToolTipProps {
  /** Place of the pointer in the parent of the tool tip, in CSS pixels. */
  x: number;
  y: number;
  title: string;
  /** Label and value of each row. */
  rows?: readonly (readonly [label: string, value: string])[];
}

const GAP_PIXELS = 14;

export function ToolTip({ x, y, title, rows = [] }: ToolTipProps) {
  const box = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const target = box.current;
    const parent = target?.parentElement?.getBoundingClientRect();
    if (!target || !parent) return;
    const place = (at: number, size: number, room: number) =>
      Math.max(0, at + GAP_PIXELS + size <= room ? at + GAP_PIXELS : at - GAP_PIXELS - size);
    target.style.left = `${place(parent.left + x, target.offsetWidth, document.documentElement.clientWidth)}px`;
    target.style.top = `${place(parent.top + y, target.offsetHeight, window.innerHeight)}px`;
  });
  return (
    <div class="tip" ref={box} aria-hidden="true">
      <div class="tip-title">{title}</div>
      {rows.length > 0 && (
        <dl class="tip-rows">
          {rows.map(([label, value]) => [<dt key={label}>{label}</dt>, <dd key={`${label} value`}>{value}</dd>])}
        </dl>
      )}
    </div>
  );
}
