// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { together } from "../src/live/events_view";

test("events that differ only in their device are one row, allocations are not", () => {
  const run = (device: number, program: number) => ({ time: 1, event: "ProgramRun", pid: 7, device, program });
  const made = { time: 1, event: "Allocated", pid: 7, device: 0, size: 64 };
  const rows = together([run(0, 5), run(1, 5), run(0, 6), made, made]);
  expect(rows.map((row) => [row.event.event, row.times])).toEqual([
    ["ProgramRun", 2],
    ["ProgramRun", 1],
    ["Allocated", 1],
    ["Allocated", 1],
  ]);
});
