// SPDX-License-Identifier: Apache-2.0
/** The L1 of every core of a chip, and the map of one core. */
import type { ViewProps } from "./view_props";

export function CoresView(_props: ViewProps) {
  return <p>Cores</p>;
}
