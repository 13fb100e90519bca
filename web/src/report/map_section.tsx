// SPDX-License-Identifier: Apache-2.0
/** The address maps of a report. */
import type { View } from "./view";

export function MapSection({ view }: { view: View }) {
  return <p class="empty">{view.group.maps.length} maps</p>;
}
