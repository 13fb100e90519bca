// SPDX-License-Identifier: Apache-2.0
/** What every view of the live page gets. */
import type { Snapshot } from "../documents";
import type { ChipNames } from "./chip_names";

export type ViewName = "Overview" | "Charts" | "Telemetry" | "Processes" | "Cores" | "Allocations" | "Events" | "Doctor";

export interface ViewProps {
  snapshot: Snapshot;
  names: ChipNames;
  /** The chosen chip, null for all. It stays when the view changes. */
  chip: string | null;
  setChip: (chip: string | null) => void;
  /** The chosen process, null for none. */
  pid: number | null;
  setPid: (pid: number | null) => void;
  /** What the reader searches for, in lower case. */
  text: string;
  show: (view: ViewName) => void;
}

/** Whether any of these texts contains what is searched for. */
export function found(text: string, ...texts: (string | number | null | undefined)[]): boolean {
  return text === "" || texts.some((one) => one !== null && one !== undefined && String(one).toLowerCase().includes(text));
}
