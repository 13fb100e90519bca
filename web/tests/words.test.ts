// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { dataWords } from "../src/report/words";
import { smallReport } from "./small_report";

test("events of other sources are not counted as records", () => {
  const words = (records: number, launches: number, events: number) =>
    dataWords(smallReport({ records, launches, events }));
  expect(words(68, 3, 1)).toBe("68 records, 3 launches, 1 other event");
  expect(words(1, 1, 0)).toBe("1 record, 1 launch");
  expect(words(0, 0, 1200)).toBe("1,200 events");
  expect(words(0, 0, 0)).toBe("0 records, 0 launches");
});
