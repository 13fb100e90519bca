// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import type { ChipRow, History } from "../src/documents";
import { envelope, LiveHistory, UNKNOWN } from "../src/live/live_history";

const chip = { chip: "77", pci: "0000:01:00.0", kmd: 0 } as ChipRow;

function told(kind: string, name: string, time: number[], values: number[]): History {
  const series = [{ chip: name, kind, time, last: values, max: values.map((value) => value + 1) }];
  return { schema: "ttmem.history/1", step: 1, since: 0, until: 0, left_out: 0, series };
}

test("seconds without a value are unknown", () => {
  const history = new LiveHistory();
  history.fill(told("dram_taken", "77", [100, 103], [5, 7]), [chip]);
  const read = history.read("77", "dram_taken", 99, 104);
  expect([...(read?.last ?? [])]).toEqual([UNKNOWN, 5, UNKNOWN, UNKNOWN, 7, UNKNOWN]);
  expect([...(read?.high ?? [])]).toEqual([UNKNOWN, 6, UNKNOWN, UNKNOWN, 8, UNKNOWN]);
});

test("telemetry of a PCI address belongs to its chip", () => {
  const history = new LiveHistory();
  history.fill(told("power_w", "0000:01:00.0", [10], [42]), [chip]);
  expect(history.read("77", "power_w", 10, 10)?.last[0]).toBe(42);
});

test("values of the hour before do not come back", () => {
  const history = new LiveHistory();
  history.fill(told("dram_taken", "77", [100], [5]), [chip]);
  history.fill(told("dram_taken", "77", [3700], [6]), [chip]); // takes the slot of second 100
  history.fill(told("dram_taken", "77", [100], [5]), [chip]);
  expect(history.read("77", "dram_taken", 100, 100)?.last[0]).toBe(UNKNOWN);
  expect(history.read("77", "dram_taken", 3700, 3700)?.last[0]).toBe(6);
});

test("the envelope leaves unknown values out", () => {
  const one = { last: Float64Array.of(1, UNKNOWN), high: Float64Array.of(3, UNKNOWN) };
  const other = { last: Float64Array.of(2, UNKNOWN), high: Float64Array.of(2, UNKNOWN) };
  const { low, high } = envelope([one, null, other], 2);
  expect([...low]).toEqual([1, UNKNOWN]);
  expect([...high]).toEqual([3, UNKNOWN]);
});
