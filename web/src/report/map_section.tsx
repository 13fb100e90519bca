// SPDX-License-Identifier: Apache-2.0
/** The address maps of a chip group: every buffer as a rectangle of time and address. */
import { useMemo, useState } from "preact/hooks";
import type { ReportMap } from "../documents";
import { AddressMap } from "../parts/address_map";
import { ButtonGroup } from "../parts/button_group";
import { useAsync } from "../parts/use_async";
import { siteMask } from "./roll_up";
import type { View } from "./view";
import { poolWords } from "./words";

export function MapSection({ view }: { view: View }) {
  const { group, state } = view;
  const [own, setOwn] = useState<{ pool: string; for: string } | null>(null);
  if (group.maps.length === 0) return <p class="empty">The report has no addresses for this chip group.</p>;
  const wanted =
    own !== null && own.for === state.pool ? own.pool : state.pool === "programs" ? "l1_buffers" : state.pool;
  const map = group.maps.find((one) => one.pool === wanted) ?? group.maps[0];
  return (
    <>
      <div class="toolbar">
        <ButtonGroup
          label="Memory"
          options={group.maps.map((one) => [one.pool, poolWords(one.pool)])}
          chosen={map.pool}
          onChoose={(pool) => setOwn({ pool, for: state.pool })}
        />
        <span class="soft">{map.label}</span>
      </div>
      <MapOf key={map.rectangles} map={map} view={view} />
    </>
  );
}

function MapOf({ map, view }: { map: ReportMap; view: View }) {
  const { report, sections, state, change } = view;
  const { value: loaded, error } = useAsync(map.rectangles, async () => {
    const [rectangles, coverage, reach] = await Promise.all(
      [map.rectangles, map.coverage, map.reach].map((name) => (name === null ? null : sections.columns(name))),
    );
    return { rectangles, coverage, reach };
  });
  const highlighted = useMemo(() => {
    if (state.only === null && state.search === "") return null;
    const mask = siteMask(report, null, state.only, state.search);
    return new Set(report.sites.flatMap((_, site) => (mask[site] ? [site] : [])));
  }, [report, state.only, state.search]);
  const clashes = useMemo(
    () =>
      report.marks
        .filter((mark) => mark.type === "failure" && (mark.group === state.group || mark.group < 0))
        .map((mark) => {
          const failure = mark.explained === null ? undefined : report.explained[mark.explained]?.verdict.failure;
          const clash = map.pool === "l1_buffers" && failure?.floor !== undefined && failure.end !== undefined;
          return {
            time_ns: mark.time_ns,
            text: mark.text,
            low: clash ? (failure.floor ?? null) : null,
            high: clash ? (failure.end ?? null) : null,
          };
        }),
    [report, state.group],
  );
  if (error !== null) return <p class="problem">The map cannot be shown: {error}</p>;
  if (loaded === null || loaded.rectangles === null) return <p class="empty">Decoding…</p>;
  return (
    <AddressMap
      map={map}
      rectangles={loaded.rectangles}
      coverage={loaded.coverage}
      reach={loaded.reach}
      lengthNs={report.length_ns}
      strings={report.strings}
      sites={report.sites}
      kinds={report.kinds}
      momentNs={view.window ? null : view.until}
      window={view.window ? [view.from, view.until] : null}
      range={state.view}
      clashes={clashes}
      selected={state.picked}
      highlighted={highlighted}
      onSelect={(row) => change({ picked: row })}
      onMoment={(time) => change({ from: Math.round(time), until: Math.round(time) })}
    />
  );
}
