// SPDX-License-Identifier: Apache-2.0
/** Colours of phases, in the order of the document. */
import { NameColours } from "./colours";

interface Named {
  name: string;
}

/** Phases that differ only in a number at the end have one colour. */
export function baseName(phase: Named): string {
  return phase.name.replace(/\s*\d+$/, "");
}

export function phaseColours(phases: readonly Named[]): NameColours {
  const colours = new NameColours();
  colours.fix(phases.map(baseName));
  return colours;
}
