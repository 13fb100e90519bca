// SPDX-License-Identifier: Apache-2.0
/** Names of kinds of allocations, as the glossary has them for screens, and of operations. */
import type { ReportSite } from "../documents";

const KINDS: Record<string, string> = {
  dram: "DRAM",
  l1: "L1",
  l1_small: "L1_SMALL",
  trace: "trace",
  cb: "CB",
  dfb: "DFB",
  scratchpad: "scratchpad",
  kernel: "kernel",
  fabric_kernel: "fabric kernel",
  dispatch_kernel: "dispatch kernel",
  firmware: "firmware",
  host: "host",
};

export function kindWords(kind: string): string {
  return KINDS[kind] ?? kind;
}

export interface SiteNames {
  strings: readonly string[];
  sites: readonly ReportSite[];
  kinds: readonly string[]; // by number
}

/** The operation of a call site that stands for no others. */
export function operationOf({ strings, kinds }: Omit<SiteNames, "sites">, site: ReportSite): string {
  return site.op < 0 ? `${kindWords(kinds[site.kind])}, operation not known` : strings[site.op];
}
