// SPDX-License-Identifier: Apache-2.0
/** The first screen: what happened, the peaks against the capacities, what made them, and what the recording lacks. */
import type { Report, ReportGroup, ReportPool } from "../documents";
import { usePageColours } from "../parts/canvas";
import { css, kindColour } from "../parts/colours";
import { bytesOf, exact, grouped, moment, peakBytes, peakText, percent, plural, short, shortLine } from "../parts/format";
import type { View } from "./view";
import { dataWords, kindWords, poolNote, poolWords } from "./words";

const STATUS: Record<string, string> = {
  fits: "Fits",
  out_of_memory: "Out of memory",
  leaks: "Leaks",
  cannot_tell: "Cannot tell",
};
const MOST_CAUSES = 7;

export function Overview({ view }: { view: View }) {
  const { report } = view;
  return (
    <section id="overview" class="overview">
      <div class={`verdict ${report.verdict.status}`}>
        <span class="badge">{STATUS[report.verdict.status] ?? report.verdict.status}</span>
        <div>
          {report.verdict.lines.map((line, i) => (
            <p key={line} class={i === 0 ? "first" : ""}>
              {line}
            </p>
          ))}
        </div>
      </div>
      <div class="overview-grid">
        <Peaks view={view} />
        <Causes view={view} />
        <Facts report={report} />
      </div>
    </section>
  );
}

function Peaks({ view }: { view: View }) {
  const { report, state, change } = view;
  const groups = report.groups.map((group, i) => ({ group, i }));
  return (
    <div class="card peaks">
      <h2>Peak per chip</h2>
      {groups.length === 0 && <p class="empty">No chip was used.</p>}
      {groups.map(({ group, i }) => (
        <div class={`peak-group ${groups.length > 1 && i === state.group ? "chosen" : ""}`} key={group.name}>
          <h3>
            <GroupName group={group} />
          </h3>
          {group.pools
            .filter((pool) => pool.peak > 0 || pool.capacity !== null)
            .map((pool) => (
              <Meter
                key={pool.pool}
                pool={pool}
                chosen={i === state.group && pool.pool === state.pool}
                onChoose={() =>
                  change({
                    group: i,
                    pool: pool.pool,
                    ...(pool.peak_ns === null ? {} : { from: pool.peak_ns, until: pool.peak_ns }),
                  })
                }
              />
            ))}
          {group.differences.map((text) => (
            <p class="note" key={text}>
              {text}
            </p>
          ))}
        </div>
      ))}
    </div>
  );
}

function GroupName({ group }: { group: ReportGroup }) {
  const count = group.chips.length;
  return (
    <>
      {group.name}
      {count > 1 && <span class="soft"> {plural(count, "chip")} with the same buffers, shown once</span>}
    </>
  );
}

function Meter({ pool, chosen, onChoose }: { pool: ReportPool; chosen: boolean; onChoose: () => void }) {
  const { theme } = usePageColours();
  const share = pool.capacity ? pool.peak / pool.capacity : null;
  const colour = css(
    kindColour(pool.pool === "l1_buffers" ? "l1" : pool.pool === "programs" ? "cb" : pool.pool, theme),
  );
  const end = pool.capacity ? pool.end / pool.capacity : 0;
  const free = pool.smallest_largest_free;
  return (
    <button
      type="button"
      class={`meter ${chosen ? "chosen" : ""}`}
      onClick={onChoose}
      title={`${peakBytes(pool.peak, pool.peak_at_most)} at the peak; ${bytesOf(pool.end)} at the end. Choose this moment.`}
    >
      <span class="meter-name">{poolWords(pool.pool)}</span>
      {share === null ? (
        <span class="meter-text">{pool.pool === "programs" ? "they take turns in L1" : ""}</span>
      ) : (
        <span class="meter-bar">
          <i style={{ width: `${100 * Math.min(1, share)}%`, background: colour }} />
          <u style={{ left: `${100 * Math.min(1, end)}%` }} title="at the end" />
        </span>
      )}
      <span class="meter-value">
        <b>{peakText(short(pool.peak), pool.peak_at_most)}</b>
        {share !== null && (
          <>
            {" "}
            of {short(pool.capacity)} <span class={share > 0.95 ? "bad" : "soft"}>{peakText(percent(share), pool.peak_at_most)}</span>
          </>
        )}
      </span>
      {share !== null && (
        <span class="meter-note">
          {pool.peak_ns !== null && `at ${moment(pool.peak_ns)}`}
          {free !== null &&
            `, lowest value of the largest free block ${short(free)}${pool.banks ? ` in one of ${pool.banks} banks` : ""}`}
        </span>
      )}
    </button>
  );
}

function Causes({ view }: { view: View }) {
  const { report, group, state, change } = view;
  const { theme } = usePageColours();
  const pool = group?.pools.find((one) => one.pool === state.pool);
  if (pool === undefined) return null;
  const shown = pool.at_peak.slice(0, MOST_CAUSES);
  const rest = pool.rest + pool.at_peak.slice(MOST_CAUSES).reduce((sum, share) => sum + share.bytes, 0);
  const note = poolNote(pool.pool);
  return (
    <div class="card causes">
      <h2>
        What made the peak of {poolWords(pool.pool)}{" "}
        <span class="soft">
          {peakText(exact(pool.peak), pool.peak_at_most)} per chip, {group.name}
        </span>
      </h2>
      {shown.length === 0 && <p class="empty">No allocations are known for this peak.</p>}
      <ol>
        {shown.map((share) => {
          const site = report.sites[share.site];
          const text = (number: number, none: string) => (number < 0 ? none : report.strings[number]);
          const line = site.other > 0 ? `${site.other} other call sites` : text(site.line, "line not known");
          return (
            <li key={share.site}>
              <button
                type="button"
                title={`${line}\n${bytesOf(share.bytes)} in ${plural(share.count, "allocation")}. Show only this line.`}
                onClick={() => site.line >= 0 && change({ only: { by: "line", key: line } })}
              >
                <span class="cause-bar">
                  <i
                    style={{
                      width: `${(100 * share.bytes) / Math.max(1, pool.peak)}%`,
                      background: css(kindColour(report.kinds[site.kind], theme)),
                    }}
                  />
                </span>
                <span class="cause-size">{short(share.bytes)}</span>
                <span class="cause-share soft">{percent(share.bytes / Math.max(1, pool.peak))}</span>
                <span class="cause-text">
                  <b>{text(site.op, kindWords(report.kinds[site.kind]))}</b>
                  <span class="soft">
                    {" "}
                    {share.count > 1 && `${grouped(share.count)} x `}
                    {text(site.shape, "")}
                  </span>
                  <br />
                  <span class="path">{shortLine(line)}</span>
                </span>
              </button>
            </li>
          );
        })}
      </ol>
      {rest > 0 && (
        <p class="note">
          {short(rest)} more in other call sites ({percent(rest / Math.max(1, pool.peak))})
        </p>
      )}
      {note !== null && <p class="note">{note}</p>}
    </div>
  );
}

function Facts({ report }: { report: Report }) {
  const { losses } = report;
  const complete =
    losses.lost === 0 && losses.gaps.length === 0 && losses.problems.length === 0 && losses.uncertain.length === 0;
  return (
    <div class="card run-facts">
      <h2>
        Run{" "}
        <span class={complete && losses.finished ? "complete good" : "complete warn"}>
          {complete ? "Complete: no records were lost." : lossWords(report)}
          {!losses.finished && " The recording was not finished: its end is missing."}
        </span>
      </h2>
      <dl>
        {report.facts.map((fact) => (
          <div key={fact.label}>
            <dt>{fact.label}</dt>
            <dd title={fact.value}>{fact.value}</dd>
          </div>
        ))}
        <div>
          <dt>data</dt>
          <dd title={dataWords(report)}>{dataWords(report)}</dd>
        </div>
      </dl>
    </div>
  );
}

export function lossWords(report: Report): string {
  const { lost, gaps, uncertain, problems } = report.losses;
  const parts: string[] = [];
  if (lost > 0)
    parts.push(`${plural(lost, "record")} lost${gaps.length > 0 ? ` in ${plural(gaps.length, "gap")}` : ""}`);
  if (uncertain.length > 0) parts.push(`${plural(uncertain.length, "reason")} why numbers may be wrong`);
  if (problems.length > 0) parts.push(`${plural(problems.length, "problem")} in the file`);
  return `Not complete: ${parts.join(", ")}. See "Losses".`;
}
