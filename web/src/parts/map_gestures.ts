// SPDX-License-Identifier: Apache-2.0
/** How pointer, wheel and keys move an address map. */
import type { RefObject } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { MapView } from "./map_layout";
import { panView, zoomView } from "./map_layout";
import type { Plot } from "./map_paint";
import { placeAt } from "./map_paint";

export interface GestureInput {
  place: RefObject<HTMLElement | null>;
  plot: Plot;
  view: MapView;
  whole: MapView;
  setView: (view: MapView) => void;
  /** A click that was no drag, in CSS pixels of the place. */
  onClick: (x: number, y: number) => void;
}

interface Drag {
  x: number;
  y: number;
  view: MapView;
  choose: boolean; // a part is being chosen; else the map moves
  moved: boolean;
}

const CLICK_PIXELS = 4;
const KEY_ZOOM = 1.5;
const KEY_MOVE = 0.1;
const WHEEL_ZOOM = 0.0016;

/** The view after a key, or null if the key does not move the map. */
export function viewAfterKey(
  key: string,
  view: MapView,
  whole: MapView,
  middle: { ns: number; address: number },
): MapView | null {
  switch (key) {
    case "ArrowLeft":
      return panView(view, whole, -KEY_MOVE, 0);
    case "ArrowRight":
      return panView(view, whole, KEY_MOVE, 0);
    case "ArrowUp":
      return panView(view, whole, 0, KEY_MOVE);
    case "ArrowDown":
      return panView(view, whole, 0, -KEY_MOVE);
    case "+":
    case "=":
      return zoomView(view, whole, middle, KEY_ZOOM, 1);
    case "-":
      return zoomView(view, whole, middle, 1 / KEY_ZOOM, 1);
    case "*":
      return zoomView(view, whole, middle, 1, KEY_ZOOM);
    case "/":
      return zoomView(view, whole, middle, 1, 1 / KEY_ZOOM);
    case "0":
    case "Home":
      return whole;
  }
  return null;
}

/** The place of the pointer, the part that is being chosen, and the handlers for the element. */
export function useMapGestures(input: GestureInput) {
  const { place, plot, view, whole, setView } = input;
  const [pointer, setPointer] = useState<{ x: number; y: number } | null>(null);
  const [frame, setFrame] = useState<[number, number, number, number] | null>(null);
  const drag = useRef<Drag | null>(null);

  const local = (event: MouseEvent) => {
    const box = place.current?.getBoundingClientRect();
    return { x: event.clientX - (box?.left ?? 0), y: event.clientY - (box?.top ?? 0) };
  };
  const onPointerDown = (event: PointerEvent) => {
    if (event.button !== 0) return;
    drag.current = { ...local(event), view, choose: event.shiftKey, moved: false };
    place.current?.setPointerCapture(event.pointerId);
  };
  const onPointerMove = (event: PointerEvent) => {
    const here = local(event);
    const from = drag.current;
    if (!from) return setPointer(here);
    from.moved ||= Math.hypot(here.x - from.x, here.y - from.y) > CLICK_PIXELS;
    if (!from.moved) return;
    setPointer(null);
    if (from.choose) setFrame([from.x, from.y, here.x, here.y]);
    else setView(panView(from.view, whole, (from.x - here.x) / plot.width, (here.y - from.y) / plot.height));
  };
  const onPointerUp = (event: PointerEvent) => {
    const from = drag.current;
    drag.current = null;
    setFrame(null);
    if (!from) return;
    const here = local(event);
    if (!from.moved) input.onClick(here.x, here.y);
    else if (from.choose)
      setView(chosenPart(placeAt(view, plot, from.x, from.y), placeAt(view, plot, here.x, here.y), whole));
  };
  const wheel = (event: WheelEvent) => {
    if (document.activeElement !== place.current && !event.ctrlKey && !event.metaKey) return; // the page scrolls
    event.preventDefault();
    const { x, y } = local(event);
    const factor = Math.exp(-(event.deltaY || event.deltaX) * WHEEL_ZOOM);
    setView(zoomView(view, whole, placeAt(view, plot, x, y), event.shiftKey ? 1 : factor, event.shiftKey ? factor : 1));
  };
  const latest = useRef(wheel);
  latest.current = wheel;
  useEffect(() => {
    const target = place.current;
    const listen = (event: WheelEvent) => latest.current(event);
    target?.addEventListener("wheel", listen, { passive: false }); // Preact's handlers could not stop the page
    return () => target?.removeEventListener("wheel", listen);
  }, []);

  const handlers = {
    onPointerDown,
    onPointerMove,
    onPointerUp,
    onPointerCancel: () => {
      drag.current = null;
      setFrame(null);
    },
    onPointerLeave: () => setPointer(null),
    onDblClick: () => setView(whole),
  };
  return { pointer, frame, handlers };
}

/** The view between two places. */
export function chosenPart(
  one: { ns: number; address: number },
  two: { ns: number; address: number },
  whole: MapView,
): MapView {
  const [from, until] = [one.ns, two.ns].sort((a, b) => a - b);
  const [low, high] = [one.address, two.address].sort((a, b) => a - b);
  return zoomView({ from, until, low, high }, whole, { ns: from, address: low }, 1, 1);
}
