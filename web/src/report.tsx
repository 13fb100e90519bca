// SPDX-License-Identifier: Apache-2.0
/** The script of pages that are files: reports, comparisons, answers of `ttmem fit`. */
import type { Page } from "./data/embedded";
import { ServedReport, servedSection } from "./data/served";
import { DiffPage } from "./diff/diff_page";
import { FitPage } from "./fit/fit_page";
import { ReportPage } from "./report/report_page";
import { start } from "./start";

start((page: Page) => {
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
      return "This script shows no live page.";
  }
});
