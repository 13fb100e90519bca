// SPDX-License-Identifier: Apache-2.0
/** The flame graph: what was live, at the peak, left at the end, allocated in the window, or changed in it. */
import { useMemo, useState } from "preact/hooks";
import { ButtonGroup } from "../parts/button_group";
import { FlameGraph } from "../parts/flame_graph";
import { moment } from "../parts/format";
import { masked } from "./roll_up";
import type { View } from "./view";
import { poolWords } from "./words";

type Mode = "live" | "peak" | "end" | "churn" | "change";

export function FlameSection({ view }: { view: View }) {
  const { report, sums, amounts, mask, group, state, window } = view;
  const [chosen, setMode] = useState<Mode | null>(null);
  const mode = chosen ?? (window ? "churn" : "live");
  const [unit, setUnit] = useState<"bytes" | "count">("bytes");
  const pool = group.pools.find((one) => one.pool === state.pool);
  const peak = pool?.peak_ns ?? null;
  const shown = useMemo(() => {
    if (sums === null || amounts === null) return null;
    const last = sums.edges.length - 1;
    if (mode === "peak" && peak !== null) return sums.amounts([sums.nearest(peak), sums.nearest(peak)]);
    if (mode === "end") return sums.amounts([last, last]);
    return (mode === "churn" || mode === "change") && !window ? sums.amounts([0, last]) : amounts;
  }, [sums, amounts, mode, peak, window]);
  const values = useMemo(() => {
    if (shown === null) return new Float64Array(report.sites.length);
    if (mode === "change")
      return masked(
        shown.bytes.map((value, i) => value - shown.before[i]),
        mask,
      );
    if (mode === "churn") return masked(unit === "bytes" ? shown.allocated : shown.made, mask);
    return masked(unit === "bytes" ? shown.bytes : shown.count, mask);
  }, [shown, mask, mode, unit]);
  const counts = useMemo(
    () => (shown === null ? undefined : masked(mode === "churn" ? shown.made : shown.count, mask)),
    [shown, mask, mode],
  );
  const time = (ns: number) => moment(ns, Math.max(1e3, report.length_ns / 1e5));
  const span = window ? `from ${time(view.from)} to ${time(view.until)}` : "in the whole run";
  const words: Record<Mode, string> = {
    live: `live at ${time(view.until)}`,
    peak: peak === null ? "live at the peak" : `live at the peak, ${time(peak)}`,
    end: "left at the end",
    churn: `allocated ${span}`,
    change: `change ${span}`,
  };
  const modes: [Mode, string][] = [
    ["live", window ? "Live at the end of the window" : "Live at the moment"],
    ["peak", "At the peak"],
    ["end", "Left at the end"],
    ["churn", window ? "Allocated in the window" : "Allocated in the run"],
    ["change", window ? "Change in the window" : "Change in the run"],
  ];
  if (view.noSums !== null) return <p class="empty">{view.noSums}</p>;
  return (
    <>
      <div class="toolbar">
        <ButtonGroup label="What the flame graph shows" options={modes} chosen={mode} onChoose={setMode} />
        <div class="segmented" role="group" aria-label="Unit">
          <button type="button" aria-pressed={unit === "bytes" || mode === "change"} onClick={() => setUnit("bytes")}>
            Bytes
          </button>
          <button
            type="button"
            aria-pressed={unit === "count" && mode !== "change"}
            disabled={mode === "change"}
            onClick={() => setUnit("count")}
          >
            Count
          </button>
        </div>
      </div>
      <FlameGraph
        strings={report.strings}
        stacks={report.stacks}
        sites={report.sites}
        kinds={report.kinds}
        values={values}
        counts={counts}
        unit={mode === "change" ? "bytes" : unit}
        differential={mode === "change"}
        label={`${poolWords(state.pool)} per chip, ${words[mode]}, ${group.name}`}
      />
    </>
  );
}
