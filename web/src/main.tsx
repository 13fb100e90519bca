// SPDX-License-Identifier: Apache-2.0
/** Reads from the page which page it is, and starts it. */
import "uplot/dist/uPlot.min.css";
import "../style/app.css";
import "../style/canvas_parts.css";
import { render } from "preact";
import type { Page } from "./data/embedded";
import { readPage } from "./data/embedded";
import { ServedReport, servedSection } from "./data/served";
import { DiffPage } from "./diff/diff_page";
import { FitPage } from "./fit/fit_page";
import { LivePage } from "./live/live_page";
import { applySavedTheme } from "./parts/theme";
import { ReportPage } from "./report/report_page";

function start(): void {
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

function view(page: Page) {
  switch (page.page) {
    case "report":
      return page.served === true ? (
        <ReportPage report={page.report} load={servedSection} served={new ServedReport(page.report)} />
      ) : (
        <ReportPage report={page.report} />
      );
    case "diff":
      return <DiffPage diff={page.diff} />;
    case "fit":
      return <FitPage fit={page.fit} made={page.made} />;
    case "live":
      return <LivePage page={page} />;
  }
}

start();
