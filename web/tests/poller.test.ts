// SPDX-License-Identifier: Apache-2.0
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { AskError, Poller } from "../src/live/poller";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

test("a document is requested at its interval while a view uses it", async () => {
  const asked: string[] = [];
  const poller = new Poller(async (path) => asked.push(path));
  const stop = poller.want("snapshot", 500);
  await vi.advanceTimersByTimeAsync(1600);
  expect(asked.length).toBe(4);
  expect(poller.answer("snapshot").data).toBe(4);
  stop();
  await vi.advanceTimersByTimeAsync(5000);
  expect(asked.length).toBe(4);
});

test("two readers of a document share the answers", async () => {
  let asked = 0;
  const poller = new Poller(async () => ++asked);
  poller.want("snapshot", 500);
  poller.want("snapshot", 500);
  await vi.advanceTimersByTimeAsync(1100);
  expect(asked).toBe(3);
});

test("after an error the last answer stays, and the poller tries again", async () => {
  let fails = false;
  const poller = new Poller(async () => {
    if (fails) throw new AskError(502, "no answer");
    return "data";
  });
  poller.want("snapshot", 500);
  await vi.advanceTimersByTimeAsync(10);
  const first = poller.answer("snapshot").time;
  fails = true;
  await vi.advanceTimersByTimeAsync(3000);
  expect(poller.answer("snapshot")).toEqual({ data: "data", time: first, error: "no answer", status: 502 });
  fails = false;
  await vi.advanceTimersByTimeAsync(1100);
  expect(poller.answer("snapshot").error).toBe(null);
});

test("a tab that is not visible asks for nothing, and at once when it is visible again", async () => {
  let asked = 0;
  const poller = new Poller(async () => ++asked);
  poller.want("snapshot", 500);
  await vi.advanceTimersByTimeAsync(10);
  poller.setAsleep(true);
  await vi.advanceTimersByTimeAsync(60_000);
  expect(asked).toBe(1);
  poller.setAsleep(false);
  await vi.advanceTimersByTimeAsync(10);
  expect(asked).toBe(2);
});

test("what takes long is asked for less often", async () => {
  let asked = 0;
  const poller = new Poller(async () => {
    asked += 1;
    await new Promise((done) => setTimeout(done, 1000));
  });
  poller.want("breakdown", 500);
  await vi.advanceTimersByTimeAsync(10_500);
  expect(asked).toBe(3);
});
