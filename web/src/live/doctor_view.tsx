// SPDX-License-Identifier: Apache-2.0
/** The findings of `ttmem doctor`, the worst first. `ttmem web` runs the checks on its machine. */
import type { Doctor, FindingRow } from "../documents";
import { plural } from "../parts/format";
import { useDocument } from "./live_data";
import { clock } from "./time_charts";
import { found, type ViewProps } from "./view_props";

const LEVELS = ["broken", "warning", "unknown", "ok"];
const DOCTOR_MS = 20_000;

export function DoctorView({ text }: ViewProps) {
  const { data, error } = useDocument<Doctor>("doctor", DOCTOR_MS);
  if (data === null) return <p class="live-wait">{error ?? "Checking the machine …"}</p>;
  const { verdict } = data;
  const rows = data.findings
    .filter((one) => found(text, one.check, one.level, one.looked_at, one.found, one.todo))
    .sort((a, b) => LEVELS.indexOf(a.level) - LEVELS.indexOf(b.level));
  return (
    <section class="panel doctor">
      <h2>
        {verdict.broken > 0 ? "Something is broken" : verdict.warning > 0 ? "Nothing is broken" : "All checks passed"}{" "}
        <span>
          {verdict.broken} broken, {plural(verdict.warning, "warning")}, {verdict.unknown} could not be checked, {verdict.ok} passed; checked at{" "}
          {clock(Date.parse(data.time) / 1000)}
        </span>
      </h2>
      {rows.map((one, place) => (
        <Finding key={`${one.check} ${place}`} finding={one} />
      ))}
    </section>
  );
}

function Finding({ finding }: { finding: FindingRow }) {
  return (
    <div class={`finding ${finding.level}`}>
      <span class={`mark ${finding.level}`}>{finding.level}</span>
      <div>
        <b>{finding.check}</b> <span>{finding.looked_at}</span>
        <p>{finding.found}</p>
        {finding.todo !== null && finding.level !== "ok" && <p class="todo">{hintOf(finding.todo)}</p>}
      </div>
    </div>
  );
}

/** A hint names options of `ttmem doctor`. The page has none of them, so the command is added. */
export function hintOf(todo: string): string {
  return todo.replace(/ with --python PATH$/, " with `ttmem doctor --python PATH`");
}
