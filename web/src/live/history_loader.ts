// SPDX-License-Identifier: Apache-2.0
/** Asks the server for its history, once for what a chart needs. */
import type { ChipRow, History } from "../documents";
import type { LiveHistory, SeriesName } from "./live_history";
import { askApi } from "./poller";

export interface HistoryRequest {
  since: number; // seconds since 1970
  series: readonly SeriesName[];
  chip?: ChipRow;
}

/** Adds the history of all chips, or of one, to what is kept. Without a server there is none. */
export async function fillHistory(history: LiveHistory, chips: readonly ChipRow[], request: HistoryRequest): Promise<void> {
  try {
    const found = (await askApi(historyPath(request, 1), new AbortController().signal)) as History;
    history.fill(found, chips);
  } catch {
    // The banner says that there is no answer; charts begin with what snapshots have.
  }
}

export function historyPath({ since, series, chip }: HistoryRequest, step: 1 | 10): string {
  const query = new URLSearchParams({ step: String(step), since: String(Math.floor(since)), kind: series.join(",") });
  if (chip !== undefined) {
    const names = [chip.chip, chip.pci, chip.kmd === null ? null : `kmd:${chip.kmd}`];
    query.set("chip", names.filter((name) => name !== null).join(","));
  }
  return `history?${query}`;
}
