// SPDX-License-Identifier: Apache-2.0
/** What the parts of a report share: the report, the choice of the reader, and the sums that follow from it. */
import type { Sections } from "../data/columns";
import type { ServedReport } from "../data/served";
import type { EdgeRange, SiteAmounts, WindowSums } from "../data/window_sums";
import type { Report, ReportGroup } from "../documents";
import type { ReportState } from "./state";

export interface View {
  report: Report;
  sections: Sections;
  state: ReportState;
  change: (change: Partial<ReportState>) => void;
  group: ReportGroup;
  /** Null until the section is decoded, or if the group has none. */
  sums: WindowSums | null;
  /** Why there are no sums; null if there are, or if they are being decoded. */
  noSums: string | null;
  /** The edges that the choice was snapped to, and their times. */
  edges: EdgeRange;
  from: number;
  until: number;
  window: boolean;
  amounts: SiteAmounts | null;
  /** Call sites of the pool that pass the filters. */
  mask: Uint8Array;
  /** Details on request, if `ttmem web` serves the report. */
  served?: ServedReport;
}
