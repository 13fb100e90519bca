// SPDX-License-Identifier: Apache-2.0
/** Names of kinds of allocations, as the glossary has them for screens. */

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
