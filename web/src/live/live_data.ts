// SPDX-License-Identifier: Apache-2.0
/** The poller of the live page, as hooks for views. */
import { createContext } from "preact";
import { useContext, useEffect, useReducer } from "preact/hooks";
import type { Snapshot } from "../documents";
import type { LiveHistory } from "./live_history";
import type { Answer, Poller } from "./poller";
import { NOTHING } from "./poller";

export const SNAPSHOT_MS = 500;

export interface LiveData {
  poller: Poller;
  history: LiveHistory;
}

export const LiveContext = createContext<LiveData | null>(null);

export function useLive(): LiveData {
  const live = useContext(LiveContext);
  if (live === null) throw new Error("the view is outside the live page");
  return live;
}

/** A document that is asked for as long as the view is shown; null asks for nothing. */
export function useDocument<Document>(path: string | null, interval: number): Answer<Document> {
  const { poller } = useLive();
  const [, redraw] = useReducer((count: number) => count + 1, 0);
  useEffect(() => {
    if (path === null) return;
    let seen = poller.answer(path);
    const stop = poller.want(path, interval);
    const unlisten = poller.onChange(() => {
      const now = poller.answer(path);
      if (now !== seen) redraw(undefined as never);
      seen = now;
    });
    return () => {
      unlisten();
      stop();
    };
  }, [poller, path, interval]);
  return path === null ? (NOTHING as Answer<Document>) : poller.answer<Document>(path);
}

export function useSnapshot(): Answer<Snapshot> {
  return useDocument<Snapshot>("snapshot", SNAPSHOT_MS);
}
