// SPDX-License-Identifier: Apache-2.0
/** The runs of an answer: names, verdicts in words, and their places in the picture of a search. */
import type { Fit, FitBoard, FitBorder } from "../documents";

export const VERDICTS: Record<FitBoard["verdict"], string> = {
  fits: "fits", fails: "does not fit", unknown: "cannot tell",
};

/** The exit code of the command as a verdict of all machines. */
export function together(fit: Fit): FitBoard["verdict"] {
  return fit.exit_code === 0 ? "fits" : fit.exit_code === 4 ? "fails" : "unknown";
}

/** "n150 batch=8 seq=1024" */
export function runName(run: { board: string; values: Record<string, string> }): string {
  return [run.board, ...valuesOf(run)].join(" ");
}

export function valuesOf(run: { values: Record<string, string> }): string[] {
  return Object.entries(run.values).map(([name, value]) => `${name}=${value}`);
}

/** The runs machine by machine, in the order of their values. */
export function ordered(fit: Fit): FitBoard[] {
  const machines = [...new Set(fit.boards.map((run) => run.board))];
  const key = (run: FitBoard) => [machines.indexOf(run.board), ...fit.varied.map((one) => Number(run.values[one.name]))];
  return [...fit.boards].sort((a, b) => {
    const [first, second] = [key(a), key(b)];
    const place = first.findIndex((value, i) => value !== second[i]);
    return place < 0 ? 0 : first[place] - second[place];
  });
}

/** The run that is shown at first: the one above a border, otherwise one that does not fit, otherwise the last one. */
export function firstRun(fit: Fit): string {
  const border = fit.borders.find((one) => one.next !== null);
  if (border !== undefined) return runName({ board: border.board, values: inOrder(fit, { ...border.values, [border.name]: String(border.next) }) });
  const shown = fit.boards.find((run) => run.verdict !== "fits") ?? fit.boards.at(-1);
  return shown === undefined ? "" : runName(shown);
}

/** Values in the order of the options, as every run has them. */
function inOrder(fit: Fit, values: Record<string, string>): Record<string, string> {
  return Object.fromEntries(fit.varied.map((one) => [one.name, values[one.name]]));
}

/** A part of a row of the picture, from 0 to 1: a run, or values that were not run because a larger one fits. */
export interface Cell {
  from: number;
  until: number;
  verdict: FitBoard["verdict"] | "implied";
  title: string;
}

/** The runs of one search on a line of all values; values below the largest one that fits are filled. */
export function searchCells(fit: Fit, border: FitBorder): Cell[] {
  const searched = fit.varied.find((one) => one.name === border.name);
  if (searched === undefined) return [];
  const count = searched.last - searched.first + 1;
  const place = (value: number) => (value - searched.first) / count;
  const cells: Cell[] = [];
  if (border.largest !== null) {
    cells.push({
      from: 0, until: place(border.largest + 1), verdict: "implied",
      title: `up to ${border.name}=${border.largest}: a larger value fits`,
    });
  }
  for (const run of fit.boards) {
    if (!isOf(run, border)) continue;
    const value = Number(run.values[border.name]);
    cells.push({ from: place(value), until: place(value + 1), verdict: run.verdict, title: `${runName(run)}: ${VERDICTS[run.verdict]}` });
  }
  return cells;
}

/** Is the run one of this search: the same machine, and the same other values? */
function isOf(run: FitBoard, border: FitBorder): boolean {
  return run.board === border.board && Object.entries(border.values).every(([name, value]) => run.values[name] === value);
}

/** The border of a search in words: "largest batch 22; 23 does not fit". */
export function borderWords(border: FitBorder): string {
  const largest = border.largest === null ? `no ${border.name} fits` : `largest ${border.name} ${border.largest}`;
  const above = border.next === null ? ", the end of the range" : `; ${border.next} ${VERDICTS[border.next_verdict as FitBoard["verdict"]]}`;
  const again = border.fits_again.length > 0 ? `; above it, ${border.fits_again.join(", ")} ${border.fits_again.length > 1 ? "fit" : "fits"} again` : "";
  return `${largest}${above}${again}`;
}
