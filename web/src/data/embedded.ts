// SPDX-License-Identifier: Apache-2.0
/** What the HTML file has inside: the JSON document of the page, and texts of binary sections. */
import type { DiffReport, Fit, LivePage, Report } from "../documents";

/** What the live page knows from the start. Everything else it asks from `ttmem web`. */
export interface LiveStart {
  page: "live";
  live: LivePage;
}

/** `served`: by `ttmem web`, which answers for sections; else the file has them. */
export type Page =
  | { page: "report"; report: Report; served?: boolean }
  | { page: "diff"; diff: DiffReport }
  | { page: "fit"; fit: Fit; made: string }
  | LiveStart;

export function readPage(): Page {
  const element = document.getElementById("ttmem-page");
  if (element === null) throw new Error("this file has no data");
  return JSON.parse(element.textContent ?? "") as Page;
}

/** The compressed bytes of a section, from the element with its base64 text. */
export function embeddedSection(name: string): Promise<Uint8Array<ArrayBuffer>> {
  for (const element of document.querySelectorAll<HTMLScriptElement>("script[data-section]")) {
    if (element.dataset.section === name) return Promise.resolve(fromBase64(element.textContent ?? ""));
  }
  return Promise.reject(new Error(`this file has no section ${name}`));
}

export function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  const binary = atob(text.trim());
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}
