// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import type { Fit, FitBoard, FitBorder } from "../src/documents";
import { borderWords, firstRun, ordered, runName, searchCells, together } from "../src/fit/fit_runs";

function run(batch: number, verdict: FitBoard["verdict"], board = "n150", seq = "1024"): FitBoard {
  return { board, values: { batch: String(batch), seq }, verdict } as unknown as FitBoard;
}

const border: FitBorder = {
  board: "n150", values: { seq: "1024" }, name: "batch", largest: 4, next: 5, next_verdict: "fails", tried: [1, 4, 5, 10],
  fits_again: [],
};

const fit = {
  varied: [{ name: "batch", searched: true, values: [], first: 1, last: 10 }, { name: "seq", searched: false, values: [1024, 2048], first: 0, last: 0 }],
  boards: [run(1, "fits"), run(4, "fits"), run(5, "fails"), run(10, "unknown"), run(7, "fits", "p150"), run(8, "fits", "n150", "2048")],
  borders: [border],
} as unknown as Fit;

describe("the picture of a search", () => {
  it("has a cell for each run of the machine with these values, and one for what follows from them", () => {
    const cells = searchCells(fit, border);
    expect(cells.map((cell) => cell.verdict)).toEqual(["implied", "fits", "fits", "fails", "unknown"]);
    expect(cells[0].from).toBe(0);
    expect(cells[0].until).toBeCloseTo(0.4);
    expect(cells[3].from).toBeCloseTo(0.4);
    expect(cells[4].until).toBeCloseTo(1);
  });

  it("fills nothing if no value fits", () => {
    const none = { ...border, largest: null, next: 1 };
    expect(searchCells(fit, none).some((cell) => cell.verdict === "implied")).toBe(false);
  });
});

describe("runs", () => {
  it("are in the order of machines and values, whatever order a search had", () => {
    const shuffled = { ...fit, boards: [fit.boards[3], fit.boards[4], ...fit.boards.slice(0, 3), fit.boards[5]] };
    expect(ordered(shuffled).map(runName)).toEqual([
      "n150 batch=1 seq=1024", "n150 batch=4 seq=1024", "n150 batch=5 seq=1024", "n150 batch=8 seq=2048",
      "n150 batch=10 seq=1024", "p150 batch=7 seq=1024",
    ]);
  });

  it("above a border are shown first, then those that do not fit", () => {
    expect(firstRun(fit)).toBe("n150 batch=5 seq=1024");
    expect(firstRun({ ...fit, borders: [] })).toBe("n150 batch=5 seq=1024");
    expect(firstRun({ ...fit, borders: [], boards: [run(1, "fits"), run(2, "fits")] })).toBe("n150 batch=2 seq=1024");
    expect(firstRun({ ...fit, borders: [], boards: [] })).toBe("");
  });
});

describe("words", () => {
  it("name the border, what is above it, and values that fit again", () => {
    expect(borderWords(border)).toBe("largest batch 4; 5 does not fit");
    expect(borderWords({ ...border, next: null, next_verdict: null })).toBe("largest batch 4, the end of the range");
    expect(borderWords({ ...border, largest: null, next: 1 })).toBe("no batch fits; 1 does not fit");
    expect(borderWords({ ...border, fits_again: [7, 9] })).toBe("largest batch 4; 5 does not fit; above it, 7, 9 fit again");
  });

  it("name a run by its machine and values, and take the verdict from the exit code", () => {
    expect(runName(run(1, "fits"))).toBe("n150 batch=1 seq=1024");
    expect([0, 4, 5].map((exit_code) => together({ ...fit, exit_code }))).toEqual(["fits", "fails", "unknown"]);
  });
});
