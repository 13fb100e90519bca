// SPDX-License-Identifier: Apache-2.0
/** Names of chips and boards on the live pages: short numbers where they are unique, as in `ttmem top`. */
import type { ChipRow, Snapshot } from "../documents";

export interface ChipNames {
  /** The number of a chip on this page, from 0. */
  number: Map<string, number>;
  of(chip: string): string;
}

/** The driver's number if all chips have different ones, else the place in the list. */
export function chipNames(snapshot: Snapshot | null): ChipNames {
  const chips = snapshot?.chips ?? [];
  const kmd = chips.map((chip) => chip.kmd);
  const unique = kmd.every((one) => one !== null) && new Set(kmd).size === kmd.length;
  const number = new Map(chips.map((chip, place) => [chip.chip, unique ? (chip.kmd ?? place) : place]));
  return { number, of: (chip) => (number.has(chip) ? `chip ${number.get(chip)}` : chip) };
}

/** "n150, wormhole_b0, 0000:01:00.0": what is known of a chip. */
export function chipDetails(chip: ChipRow): string {
  const parts = [chip.board ?? chip.arch, chip.pci, chip.chip === chip.pci ? null : `id ${chip.chip}`];
  return parts.filter((part) => part !== null && part !== "").join(", ");
}

/** Numbers of chips, ranges together: "0-7, 12". */
export function chipList(numbers: readonly number[]): string {
  const sorted = [...numbers].sort((a, b) => a - b);
  const parts: string[] = [];
  for (let i = 0; i < sorted.length; ) {
    let end = i;
    while (end + 1 < sorted.length && sorted[end + 1] === sorted[end] + 1) end++;
    parts.push(end > i + 1 ? `${sorted[i]}-${sorted[end]}` : sorted.slice(i, end + 1).join(", "));
    i = end + 1;
  }
  return parts.join(", ");
}
