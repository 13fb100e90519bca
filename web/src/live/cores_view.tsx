// SPDX-License-Identifier: Apache-2.0
/** The L1 of every core of a chip, and the map of one core. */
import { useEffect, useState } from "preact/hooks";
import type { Cores } from "../documents";
import { CoreGrid } from "../parts/core_grid";
import { CoreMap } from "../parts/core_map";
import { ChipChooser } from "./chip_chooser";
import { useDocument } from "./live_data";
import type { ViewProps } from "./view_props";

const CORES_MS = 1000;

export function CoresView(props: ViewProps) {
  const { snapshot, names } = props;
  const chip = props.chip ?? snapshot.chips.find((one) => one.memory.l1.at_once)?.chip ?? snapshot.chips[0]?.chip ?? null;
  const [core, setCore] = useState<{ x: number; y: number } | null>(null);
  useEffect(() => setCore(null), [chip]);
  const place = core ?? { x: 0, y: 0 };
  const query = new URLSearchParams({ chip: chip ?? "", core: `${place.x},${place.y}` });
  const { data, error } = useDocument<Cores>(chip === null || snapshot.server === null ? null : `cores?${query}`, CORES_MS);
  const [last, setLast] = useState<Cores | null>(null); // stays while another core is asked for
  useEffect(() => {
    if (data !== null) setLast(data);
  }, [data]);
  const shown = data ?? (last?.chip === chip ? last : null);
  if (chip === null) return <p class="live-wait">No chip was found.</p>;
  return (
    <section class="panel">
      <div class="part-bar">
        <ChipChooser {...props} chip={chip} all={null} />
        <span class="part-space" />
        <span>{shown?.age_s != null && shown.age_s >= 1 ? `as of ${shown.age_s.toFixed(1)} s ago` : ""}</span>
      </div>
      {snapshot.server === null && <p class="live-wait">The maps of cores come from a server, and there is none.</p>}
      {error !== null && <p class="bad">{error}</p>}
      {shown === null && error === null && snapshot.server !== null && <p class="live-wait">Asking for the cores of {names.of(chip)} …</p>}
      {shown !== null && (
        <div class="live-cores">
          <div>
            <CoreGrid cores={shown} selected={core} onSelect={(x, y) => setCore({ x, y })} />
          </div>
          {shown.cores.length > 0 && (
            <div>
              <CoreMap cores={shown} detail={shown.core !== null && shown.core.x === place.x && shown.core.y === place.y ? shown.core : null} x={place.x} y={place.y} />
            </div>
          )}
        </div>
      )}
    </section>
  );
}
