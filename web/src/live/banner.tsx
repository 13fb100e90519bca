// SPDX-License-Identifier: Apache-2.0
/** Says above the views if what they show is old, and why. */
import { useEffect, useReducer } from "preact/hooks";
import type { Snapshot } from "../documents";
import type { Answer } from "./poller";

export function Banner({ answer, paused }: { answer: Answer<Snapshot>; paused: boolean }) {
  const [, tick] = useReducer((count: number) => count + 1, 0);
  useEffect(() => {
    const timer = setInterval(() => tick(undefined as never), 1000);
    return () => clearInterval(timer);
  }, []);
  const told = bannerText(answer, paused, Date.now());
  if (told === null) return null;
  return (
    <div class={`live-banner ${told.level}`} role="status">
      <b>{told.title}</b> {told.text}
    </div>
  );
}

export interface BannerText {
  level: "bad" | "warn" | "info";
  title: string;
  text: string;
}

/** The state of the connection in words, null if all is well. */
export function bannerText(answer: Answer<Snapshot>, paused: boolean, now: number): BannerText | null {
  const old = answer.time === 0 ? "" : ` The page shows the state of ${ageText(now - answer.time)} ago.`;
  if (answer.error !== null) {
    if (answer.status === 403) {
      const text = "The token of this page is no longer valid: `ttmem web` was started again. Open the address that it printed.";
      return { level: "bad", title: "Not allowed.", text: text + old };
    }
    if (answer.status === 0) {
      const text = "`ttmem web` does not answer: it ended, or the connection to its machine is broken. The page tries again.";
      return { level: "bad", title: "Disconnected.", text: text + old };
    }
    return { level: "bad", title: "The server does not answer.", text: `${sentence(answer.error)} The page tries again.${old}` };
  }
  if (paused) return { level: "info", title: "Paused.", text: `Press p to continue.${old}` };
  const server = answer.data?.sources.find((source) => source.name === "server");
  if (answer.data !== null && answer.data.server === null && server !== undefined) {
    const text = `${sentence(server.detail ?? server.state)} Until then, the page shows what the machine itself shows.`;
    return { level: "warn", title: "No server.", text };
  }
  return null;
}

function sentence(text: string): string {
  const clean = text.trim();
  return clean.slice(0, 1).toUpperCase() + clean.slice(1) + (/[.!?]$/.test(clean) ? "" : ".");
}

export function ageText(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 100) return `${seconds} s`;
  return seconds < 6000 ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds / 3600)} h`;
}
