// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import { programRows } from "../src/report/program_rows";
import { smallReport } from "./small_report";

it("adds up the parts of each program, most bytes first", () => {
  const columns = {
    program: Uint32Array.of(0, 7, 8, 7),
    site: Uint32Array.of(0, 3, 1, 3),
    counted: Float64Array.of(1000, 10, 50, 20),
    kind: Uint8Array.of(0, 5, 5, 4),
  };
  const rows = programRows(smallReport(), columns, [0, 1, 2, 3]);
  expect(rows.map((row) => [row.program, row.op, row.line, row.bytes, row.parts, [...row.kinds]])).toEqual([
    [8, "ttnn.matmul", "/srv/m.py:9 layer", 50, 1, [[5, 50]]],
    [
      7,
      "ttnn.matmul",
      "/srv/m.py:9 layer",
      30,
      2,
      [
        [5, 10],
        [4, 20],
      ],
    ],
  ]);
  expect(programRows(smallReport(), columns, [0])).toEqual([]);
});
