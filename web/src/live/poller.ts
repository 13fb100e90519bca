// SPDX-License-Identifier: Apache-2.0
/**
 * Asks `ttmem web` for documents again and again, each as often as the views need it, and keeps the last answers.
 *
 * A hidden tab asks for nothing. A document that takes long is asked for less often. After an error the last answer
 * stays, with its age, and the poller tries again.
 */

export interface Answer<Document = unknown> {
  data: Document | null;
  /** When `data` came, in ms since 1970; 0 if it never did. */
  time: number;
  error: string | null;
  /** The status of the last error: 0 if nothing answered at all. */
  status: number | null;
}

export const NOTHING: Answer<never> = { data: null, time: 0, error: null, status: null };
const RETRY_MS = 1000;
const PATIENCE_MS = 15_000;
const REST_RATIO = 4; // a pause is at least so many times as long as the answer took

interface Wanted {
  answer: Answer;
  intervals: Map<symbol, number>; // of each reader
  timer: number | undefined;
  running: AbortController | null;
}

export type Ask = (path: string, signal: AbortSignal) => Promise<unknown>;

/** An answer that is not a document: status and message of the server. */
export class AskError extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

export async function askApi(path: string, signal: AbortSignal): Promise<unknown> {
  let response: Response;
  try {
    response = await fetch(`api/${path}`, { signal, cache: "no-store", credentials: "same-origin" });
  } catch {
    throw new AskError(0, "ttmem web does not answer");
  }
  const body: unknown = await response.json().catch(() => null);
  if (response.ok && body !== null) return body;
  const text = (body as { error?: unknown } | null)?.error;
  throw new AskError(response.status, typeof text === "string" ? text : `the answer has status ${response.status}`);
}

export class Poller {
  private readonly wanted = new Map<string, Wanted>();
  private readonly listeners = new Set<() => void>();
  private asleep = false;
  paused = false;

  constructor(
    private readonly ask: Ask = askApi,
    private readonly now: () => number = Date.now,
  ) {}

  answer<Document>(path: string): Answer<Document> {
    return (this.wanted.get(path)?.answer ?? NOTHING) as Answer<Document>;
  }

  /** Ask for a document at intervals until the returned function is called. */
  want(path: string, interval: number): () => void {
    const reader = Symbol(path);
    let entry = this.wanted.get(path);
    if (entry === undefined) {
      entry = { answer: NOTHING, intervals: new Map(), timer: undefined, running: null };
      this.wanted.set(path, entry);
    }
    const first = entry.intervals.size === 0;
    entry.intervals.set(reader, interval);
    if (first) this.schedule(path, entry, 0);
    return () => {
      entry.intervals.delete(reader);
      if (entry.intervals.size > 0) return;
      clearTimeout(entry.timer);
      entry.running?.abort();
      // The last answer stays for a moment, for a view that comes back.
      setTimeout(() => entry.intervals.size === 0 && this.wanted.get(path) === entry && this.wanted.delete(path), 5000);
    };
  }

  /** A tab that is not visible, or a page that is paused, asks for nothing. */
  setAsleep(asleep: boolean): void {
    this.asleep = asleep;
    this.restart();
  }

  setPaused(paused: boolean): void {
    this.paused = paused;
    this.restart();
    this.notify();
  }

  /** Ask for everything at once. */
  restart(): void {
    for (const [path, entry] of this.wanted) {
      clearTimeout(entry.timer);
      if (entry.running === null) this.schedule(path, entry, 0);
    }
  }

  onChange(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  private notify(): void {
    for (const listener of this.listeners) listener();
  }

  private schedule(path: string, entry: Wanted, delay: number): void {
    if (this.asleep || this.paused || entry.intervals.size === 0) return;
    clearTimeout(entry.timer);
    entry.timer = setTimeout(() => void this.poll(path, entry), delay) as unknown as number;
  }

  private async poll(path: string, entry: Wanted): Promise<void> {
    if (entry.running !== null) return;
    const began = this.now();
    const running = new AbortController();
    entry.running = running;
    const patience = setTimeout(() => running.abort(), PATIENCE_MS);
    let failed = false;
    try {
      const data = await this.ask(path, running.signal);
      entry.answer = { data, time: this.now(), error: null, status: null };
    } catch (error) {
      failed = true;
      const status = error instanceof AskError ? error.status : 0;
      const text = error instanceof Error ? error.message : String(error);
      if (entry.intervals.size > 0) entry.answer = { ...entry.answer, error: text, status };
    }
    clearTimeout(patience);
    entry.running = null;
    const took = this.now() - began;
    const interval = Math.min(...entry.intervals.values());
    this.schedule(path, entry, failed ? RETRY_MS : Math.max(interval - took, took > interval ? REST_RATIO * took : 0));
    this.notify();
  }
}
