// SPDX-License-Identifier: Apache-2.0
/** The L1 of each core at the moments that the report has. */
import type { View } from "./view";

export function CoresSection({ view }: { view: View }) {
  return <p class="empty">{view.report.moments.length} moments</p>;
}
