// SPDX-License-Identifier: Apache-2.0
/** Memory over time, of one chip or of all. */
import { TimeCharts } from "./time_charts";
import type { ViewProps } from "./view_props";

export function ChartsView(props: ViewProps) {
  return <TimeCharts {...props} series={["dram_taken", "l1_at_once", "temperature_c", "power_w"]} height={150} />;
}
