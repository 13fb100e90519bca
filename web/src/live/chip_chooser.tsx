// SPDX-License-Identifier: Apache-2.0
/** Chooses a chip, or all. */
import { chipDetails } from "./chip_names";
import type { ViewProps } from "./view_props";

export function ChipChooser({ snapshot, names, chip, setChip, all }: ViewProps & { all: string | null }) {
  return (
    <label class="part-choice">
      Chip
      <select value={chip ?? ""} onChange={(event) => setChip(event.currentTarget.value || null)} title="[ and ] choose the chip before and the next one">
        {all !== null && <option value="">{all}</option>}
        {snapshot.chips.map((one) => (
          <option key={one.chip} value={one.chip}>
            {names.of(one.chip)}: {chipDetails(one)}
          </option>
        ))}
      </select>
    </label>
  );
}
