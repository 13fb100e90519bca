// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import type { Snapshot } from "../src/documents";
import { ageText, bannerText } from "../src/live/banner";
import type { Answer } from "../src/live/poller";

const LIVE = { server: { pid: 1 }, sources: [] } as unknown as Snapshot;
const ALONE = { server: null, sources: [{ name: "server", state: "not running", detail: "no server answers" }] } as unknown as Snapshot;

function answer(more: Partial<Answer<Snapshot>>): Answer<Snapshot> {
  return { data: LIVE, time: 1000, error: null, status: null, ...more };
}

test("nothing is said while all is well", () => {
  expect(bannerText(answer({}), false, 1500)).toBe(null);
});

test("a broken connection is said with the age of what is shown", () => {
  const told = bannerText(answer({ error: "x", status: 0 }), false, 43_000);
  expect(told?.title).toBe("Disconnected.");
  expect(told?.text).toContain("The page shows the state of 42 s ago.");
  expect(bannerText(answer({ error: "x", status: 403 }), false, 43_000)?.text).toContain("was started again");
  expect(bannerText(answer({ error: "it is stopped", status: 502 }), false, 2000)?.text).toContain("It is stopped.");
});

test("a missing server and a pause are said", () => {
  expect(bannerText(answer({ data: ALONE }), false, 1500)).toMatchObject({ level: "warn", title: "No server." });
  expect(bannerText(answer({}), true, 1500)?.title).toBe("Paused.");
});

test("ages", () => {
  expect([0, 99_000, 120_000, 7_200_000].map(ageText)).toEqual(["0 s", "99 s", "2 min", "2 h"]);
});
