// SPDX-License-Identifier: Apache-2.0
/** The colours of all operations, lines and files of a document. */
import type { ReportStacks } from "../documents";
import { fileColours, lineColours, opColours } from "./colours";
import { fileOf } from "./flame_search";
import type { SiteNames } from "./kind_words";
import { operationOf } from "./kind_words";

/**
 * Gives each name its colour, in the order of the call sites: a document has those with the most bytes first. So colours
 * do not depend on what is drawn first.
 */
export function fixColours(names: SiteNames & { stacks: ReportStacks }): void {
  const { strings, stacks } = names;
  const sites = names.sites.filter((site) => site.other === 0);
  const lines = sites.filter((site) => site.line >= 0).map((site) => strings[site.line]);
  const frames = stacks.name.filter((_, node) => stacks.type[node] === "frame").map((name) => strings[name]);
  opColours.fix(sites.map((site) => operationOf(names, site)));
  lineColours.fix(lines);
  fileColours.fix([...lines, ...frames].map(fileOf));
}
