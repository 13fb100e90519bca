// SPDX-License-Identifier: Apache-2.0
/** The tables of a comparison: call sites at the chosen moment, rows of `ttmem diff`, and what is freed elsewhere. */
import { useMemo, useState } from "preact/hooks";
import type { DiffLife, DiffReport, DiffRow } from "../documents";
import { ButtonGroup } from "../parts/button_group";
import { bytesOf, grouped, plural, short, shortLine, signed } from "../parts/format";
import { Table } from "../parts/table";
import { bytesCell, bytesColumn, numberColumn } from "../parts/table_columns";
import { poolWords } from "../report/words";
import type { ChangeRow } from "./diff_data";
import { changesBy } from "./diff_data";
import type { Chosen } from "./diff_page";

interface CallSiteProps {
  diff: DiffReport;
  old: Float64Array;
  new: Float64Array;
  mask: Uint8Array;
  unit: "bytes" | "count";
  onChoose: (chosen: Chosen) => void;
}

const BY = { line: "Line", op: "Operation", shape: "Shape" } as const;

/** Sums of both recordings at the chosen moment. It follows the timeline and the flame graph. */
export function CallSiteChanges({ diff, old, new: next, mask, unit, onChoose }: CallSiteProps) {
  const [by, setBy] = useState<keyof typeof BY>("line");
  const rows = useMemo(() => changesBy(diff, by, old, next, mask), [diff, by, old, next, mask]);
  const size = (value: number) => (unit === "bytes" ? bytesCell(value) : grouped(value));
  const changed = rows.filter((row) => row.old !== row.new);
  return (
    <>
      <div class="diff-tools">
        <h3>Call sites at this moment, per chip</h3>
        <ButtonGroup
          label="Group by" chosen={by} onChoose={setBy}
          options={Object.entries(BY).map(([key, words]) => [key as keyof typeof BY, `by ${words.toLowerCase()}`])}
        />
      </div>
      <Table
        label={`Call sites of both runs by ${by}`}
        id={(row) => row.key}
        rows={rows}
        sort="-size"
        empty="Nothing is live in either run."
        note={`${plural(changed.length, "row")} of ${grouped(rows.length)} changed`}
        onChoose={(row) => onChoose({ label: shortLine(row.key), sites: row.sites })}
        chooseTitle="Show only this in the flame graph and over time"
        columns={[
          { key: "size", label: "Change", right: true, title: "Sorted by the size of the change",
            value: (row) => Math.abs(row.new - row.old), render: (row) => <SignedChange value={row.new - row.old} unit={unit} /> },
          numberColumn("old", "Old", (row: ChangeRow) => row.old, size),
          numberColumn("new", "New", (row: ChangeRow) => row.new, size),
          { key: "key", label: BY[by], wide: true, value: (row) => row.key,
            render: (row) => <span class={row.known ? "path" : "soft"} title={row.key}>{by === "line" ? shortLine(row.key) : row.key}</span> },
        ]}
      />
    </>
  );
}

function SignedChange({ value, unit }: { value: number; unit: "bytes" | "count" }) {
  if (value === 0) return <span class="soft">same</span>;
  const text = unit === "bytes" ? signed(value) : `${value > 0 ? "+" : ""}${grouped(value)}`;
  return <span class={value > 0 ? "bad" : "good"} title={unit === "bytes" ? bytesOf(value) : ""}>{text}</span>;
}

interface ChangedProps {
  diff: DiffReport;
  onChoose: (chosen: Chosen, pool: string) => void;
}

/** The rows of `ttmem diff`, one table for each pool. */
export function ChangedRows({ diff, onChoose }: ChangedProps) {
  const { pools, by, new: side } = diff.diff;
  return (
    <section class="card" aria-label="Table of changes">
      <h2>
        Changes {side.moment} <span class="soft">bytes on all chips, by {by}, as ttmem diff prints them</span>
      </h2>
      {pools.length === 0 && <p class="empty">Nothing was live in either run.</p>}
      {pools.map((pool) => (
        <div class="diff-pool" key={pool.pool}>
          <h3>
            {poolWords(pool.pool)}: {short(pool.old)} → {short(pool.new)}{" "}
            <span class="soft">
              {pool.change === 0 ? "the same" : signed(pool.change)}; unchanged: {plural(pool.unchanged_groups, "group")},{" "}
              {short(pool.unchanged_bytes)}
            </span>
          </h3>
          {pool.rows.length > 0 && (
            <Table
              label={`Changes of ${poolWords(pool.pool)}`}
              id={(row: DiffRow) => row.key}
              rows={pool.rows}
              onChoose={(row) =>
                onChoose({ label: row.key, sites: diff.rows[pool.pool]?.[pool.rows.indexOf(row)] ?? [] }, pool.pool)
              }
              chooseTitle="Show only this in the flame graph and over time"
              columns={[
                { key: "change", label: "Change", right: true, value: (row) => row.change,
                  render: (row) => <SignedChange value={row.change} unit="bytes" /> },
                bytesColumn("old", "Old", (row: DiffRow) => row.old_bytes),
                bytesColumn("new", "New", (row: DiffRow) => row.new_bytes),
                { key: "count", label: "Count", right: true, value: (row) => row.new_count - row.old_count,
                  render: (row) => row.old_count === row.new_count ? grouped(row.new_count) : `${grouped(row.old_count)} → ${grouped(row.new_count)}` },
                { key: "what", label: "What happened", value: (row) => row.what.join("; ") },
                { key: "key", label: by.slice(0, 1).toUpperCase() + by.slice(1), wide: true, value: (row) => row.key,
                  render: (row) => <span class="path">{row.key}</span> },
              ]}
            />
          )}
        </div>
      ))}
    </section>
  );
}

/** Groups that are freed at another place than before. */
export function Lives({ diff }: { diff: DiffReport }) {
  const { lives } = diff.diff;
  if (lives.length === 0) return null;
  const freed = (was: boolean, until: string | null) => (was ? `after ${until ?? "a line that is not known"}` : "not by the program");
  return (
    <section class="card" aria-label="Freed at another place">
      <h2>Freed at another place</h2>
      <Table
        label="Groups that are freed at another place"
        id={(row: DiffLife) => row.pool + row.key}
        rows={lives}
        columns={[
          { key: "what", label: "What happened", value: (row) => lifeWords(row) },
          { key: "key", label: "Allocations", wide: true, value: (row) => row.key, render: (row) => <span class="path">{row.key}</span> },
          { key: "pool", label: "Pool", value: (row) => poolWords(row.pool) },
          { key: "old", label: "Old: freed", value: (row) => freed(row.old_freed, row.old_until) },
          { key: "new", label: "New: freed", value: (row) => freed(row.new_freed, row.new_until) },
        ]}
      />
    </section>
  );
}

function lifeWords(row: DiffLife): string {
  if (!row.new_freed) return "no longer freed by the program";
  if (!row.old_freed) return "now freed by the program";
  return row.longer ? "lives longer" : "freed earlier";
}
