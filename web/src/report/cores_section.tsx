// SPDX-License-Identifier: Apache-2.0
/** The L1 of each core at one of the moments that the report has: the one that is nearest to the choice. */
import { useEffect, useMemo, useState } from "preact/hooks";
import type { CoreDetail, Cores, CoresAtMoment, ReportMoment } from "../documents";
import { CoreGrid } from "../parts/core_grid";
import { CoreMap } from "../parts/core_map";
import { duration, moment } from "../parts/format";
import { useAsync } from "../parts/use_async";
import type { View } from "./view";

const EXACT_PAUSE_MS = 300;

export function CoresSection({ view }: { view: View }) {
  const { report, sections, state, change } = view;
  const [, redraw] = useState(0);
  useEffect(() => {
    // After a pause, because each exact moment is read from the recording.
    const timer = setTimeout(() => {
      view.served?.addMoment(state.group, view.until);
      if (view.served !== undefined) redraw((count) => count + 1);
    }, EXACT_PAUSE_MS);
    return () => clearTimeout(timer);
  }, [view.served, state.group, view.until]);
  const moments = useMemo(
    () => report.moments.filter((one) => one.group === state.group).sort((a, b) => a.time_ns - b.time_ns),
    [report.moments, state.group],
  );
  const [core, setCore] = useState<{ x: number; y: number } | null>(null);
  const nearest = nearestMoment(moments, view.until);
  const { value: loaded, error } = useAsync(nearest?.cores ?? null, () =>
    sections.document<CoresAtMoment>(nearest?.cores ?? ""),
  );
  if (nearest === null) return <p class="empty">The report has no maps of cores for this chip group.</p>;
  if (error !== null) return <p class="problem">The cores cannot be shown: {error}</p>;
  const cores = loaded === null ? null : (loaded.cores as unknown as Cores);
  const chosen = core ?? tightest(cores);
  const detail = loaded === null || chosen === null ? null : detailOf(loaded, chosen);
  const distance = nearest.time_ns - view.until;
  return (
    <>
      <div class="toolbar">
        <select
          aria-label="Moment"
          value={nearest.cores}
          onChange={(event) => {
            const time = moments[event.currentTarget.selectedIndex].time_ns;
            change({ from: time, until: time });
          }}
        >
          {moments.map((one) => (
            <option key={one.cores} value={one.cores}>
              {moment(one.time_ns, 1e5)} {one.words}
            </option>
          ))}
        </select>
        <span class={Math.abs(distance) > 1e6 ? "warn" : "soft"}>
          {Math.abs(distance) < 1e3
            ? "This is the chosen moment."
            : `${duration(Math.abs(distance))} ${distance < 0 ? "before" : "after"} the chosen moment: ` +
              `the nearest of ${moments.length} that the report has.`}
        </span>
      </div>
      {cores !== null && (
        <div class="cores">
          <CoreGrid cores={cores} selected={chosen} onSelect={(x, y) => setCore({ x, y })} />
          {chosen !== null && <CoreMap cores={cores} detail={detail} x={chosen.x} y={chosen.y} />}
        </div>
      )}
    </>
  );
}

function nearestMoment(moments: readonly ReportMoment[], time: number): ReportMoment | null {
  let best: ReportMoment | null = null;
  for (const one of moments) {
    if (best === null || Math.abs(one.time_ns - time) < Math.abs(best.time_ns - time)) best = one;
  }
  return best;
}

/** The core with the least headroom, or the fullest one: it is shown first. */
function tightest(cores: Cores | null): { x: number; y: number } | null {
  const rows = cores?.cores ?? [];
  const order = (row: Cores["cores"][number]) => row.headroom ?? 2 ** 40 - (row.used ?? 0);
  const first = [...rows].sort((a, b) => order(a) - order(b))[0];
  return first === undefined ? null : { x: first.x, y: first.y };
}

/** Cores that are alike have one entry; it has the coordinates of the first of them. */
function detailOf(loaded: CoresAtMoment, core: { x: number; y: number }): CoreDetail | null {
  const alike = loaded.details.find((one) => one.at.some(([x, y]) => x === core.x && y === core.y));
  return alike === undefined ? null : { ...(alike.detail as unknown as CoreDetail), x: core.x, y: core.y };
}
