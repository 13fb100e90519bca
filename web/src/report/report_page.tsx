// SPDX-License-Identifier: Apache-2.0
/** The report of a recording. */
import type { Report } from "../documents";

export function ReportPage({ report }: { report: Report }) {
  return <h1>{report.title}</h1>;
}
