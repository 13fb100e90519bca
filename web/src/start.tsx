// SPDX-License-Identifier: Apache-2.0
/** Starts a page: reads its data and draws it, or says why it cannot be drawn. */
import "uplot/dist/uPlot.min.css";
import "../style/app.css";
import "../style/canvas_parts.css";
import type { ComponentChild } from "preact";
import { render } from "preact";
import type { Page } from "./data/embedded";
import { readPage } from "./data/embedded";
import { applySavedTheme } from "./parts/theme";

export function start(view: (page: Page) => ComponentChild): void {
  applySavedTheme();
  const root = document.getElementById("ttmem-app");
  if (root === null) return;
  root.replaceChildren();
  try {
    render(view(readPage()), root);
  } catch (error) {
    root.textContent = `The page could not be shown: ${error instanceof Error ? error.message : String(error)}`;
  }
}
