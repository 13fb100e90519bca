// SPDX-License-Identifier: Apache-2.0
/** The listed allocations, with filters: those that are live at the moment, made in the window, or all. */
import { useMemo, useState } from "preact/hooks";
import { usePageColours } from "../parts/canvas";
import { css, kindColour } from "../parts/colours";
import { grouped, plural, shortLine } from "../parts/format";
import type { TableColumn } from "../parts/table";
import { Table } from "../parts/table";
import { addressColumn, bytesColumn, countColumn, durationColumn, momentColumn } from "../parts/table_columns";
import { useAsync } from "../parts/use_async";
import type { AllocationFilter, AllocationKey } from "./allocation_rows";
import { CHOSEN, filterRows, lifeOf, sortedRows } from "./allocation_rows";
import type { View } from "./view";
import { kindWords } from "./words";
import { showing } from "./zoom";

const LEAST: readonly (readonly [number, string])[] = [
  [0, "any size"],
  [1 << 10, "from 1 KiB"],
  [1 << 16, "from 64 KiB"],
  [1 << 20, "from 1 MiB"],
  [1 << 24, "from 16 MiB"],
  [1 << 28, "from 256 MiB"],
];
const FLAGS: readonly (readonly [AllocationFilter["flag"], string])[] = [
  [0, "freed or not"],
  [CHOSEN.neverFreed, "never freed"],
  [CHOSEN.freedLate, "freed late"],
];
const LIVES: readonly (readonly [AllocationFilter["life"], string])[] = [
  ["any", "any lifetime"],
  ["short", "short: below 1 % of the run"],
  ["long", "long: over half of the run"],
];

export function AllocationTable({ view }: { view: View }) {
  const { report, sections, state, change, mask, from, until, window } = view;
  const { theme } = usePageColours();
  const [scope, setScope] = useState<AllocationFilter["scope"] | null>(null);
  const [least, setLeast] = useState(0);
  const [flag, setFlag] = useState<AllocationFilter["flag"]>(0);
  const [life, setLife] = useState<AllocationFilter["life"]>("any");
  const [sort, setSort] = useState("-size");
  const name = report.allocations.section;
  const { value: columns, error } = useAsync(sections.has(name) ? name : null, () => sections.columns(name));
  const order = useMemo(
    () => columns && sortedRows(columns, report, sort.replace("-", "") as AllocationKey, sort.startsWith("-")),
    [columns, sort],
  );
  // Until the reader chooses: what a moment has is live, what a window has was made in it.
  const effective = scope === null || (scope === "made" && !window) ? (window ? "made" : "live") : scope;
  const rows = useMemo(() => {
    if (columns === null || order === null) return [];
    const filter = { scope: effective, from, until, group: state.group, mask, least, life, flag };
    return filterRows(order, columns, filter, report.length_ns);
  }, [order, effective, from, until, state.group, mask, least, life, flag]);
  const listed = useMemo(() => {
    if (columns === null) return [];
    const site = (row: number) => report.sites[columns.site[row]];
    const text = (number: number | undefined) => (number === undefined || number < 0 ? "" : report.strings[number]);
    const fine = Math.max(1e3, report.length_ns / 1e5);
    const all: TableColumn<number>[] = [
      bytesColumn("size", "Size", (row) => columns.size[row], "Bytes on each chip"),
      {
        key: "kind",
        label: "Kind",
        value: (row) => report.kinds[columns.kind[row]],
        render: (row) => (
          <span class="origin">
            <i style={{ background: css(kindColour(report.kinds[columns.kind[row]], theme)) }} />
            {kindWords(report.kinds[columns.kind[row]])}
          </span>
        ),
      },
      {
        key: "site",
        label: "Made by",
        wide: true,
        value: (row) => [text(site(row)?.line), text(site(row)?.op), text(site(row)?.shape)].filter(Boolean).join(" "),
        render: (row) => (
          <span class="made-by" title={`${text(site(row)?.line)}\n${text(site(row)?.op)} ${text(site(row)?.shape)}`}>
            <b>{text(site(row)?.op) || "not known"}</b> <span class="soft">{text(site(row)?.shape)}</span>{" "}
            <span class="path">{shortLine(text(site(row)?.line))}</span>
          </span>
        ),
      },
      momentColumn("begin", "Made at", (row) => columns.begin[row], fine),
      durationColumn(
        "life",
        "Lived",
        (row) => lifeOf(columns, row, report.length_ns),
        "To the end of the recording if it was not freed",
      ),
      {
        key: "ended_by",
        label: "Ended by",
        value: (row) => report.allocations.ends[columns.ended_by[row]] ?? "",
        render: (row) => (
          <span class={columns.end[row] < 0 ? "soft" : columns.chosen[row] & CHOSEN.freedLate ? "warn" : ""}>
            {report.allocations.ends[columns.ended_by[row]] ?? ""}
          </span>
        ),
      },
      addressColumn("Address", (row) => columns.address[row], "In each bank"),
      {
        key: "program",
        label: "Program",
        right: true,
        value: (row) => columns.program[row] || null,
        render: (row) => (columns.program[row] ? columns.program[row] : ""),
      },
      countColumn("id", "Number", (row) => columns.id[row], "Number of the allocation in the recording"),
    ];
    return all;
  }, [columns, theme, report]);
  const choose = (row: number) => {
    if (columns === null) return;
    const end = columns.end[row] < 0 ? report.length_ns : columns.end[row];
    const begin = columns.begin[row];
    change({ from: begin, until: Math.max(begin, end), view: showing(state.view, begin, end, report.length_ns) });
  };
  const { rows: kept, total } = report.allocations;
  return (
    <>
      <div class="toolbar">
        <div class="segmented" role="group" aria-label="Which allocations">
          <button type="button" aria-pressed={effective === "live"} onClick={() => setScope("live")}>
            {window ? "Live at the end of the window" : "Live at the moment"}
          </button>
          <button
            type="button"
            aria-pressed={effective === "made"}
            disabled={!window}
            onClick={() => setScope("made")}
            title={window ? "" : "Choose a window first"}
          >
            Made in the window
          </button>
          <button type="button" aria-pressed={effective === "all"} onClick={() => setScope("all")}>
            All listed
          </button>
        </div>
        <Choice label="Size" options={LEAST} value={least} onChoose={setLeast} />
        <Choice label="Lifetime" options={LIVES} value={life} onChoose={setLife} />
        <Choice label="Freed" options={FLAGS} value={flag} onChoose={setFlag} />
      </div>
      {error !== null && <p class="problem">The allocations cannot be shown: {error}</p>}
      <Table
        label="Allocations"
        columns={listed}
        rows={rows}
        id={(row) => row}
        sort={sort}
        onSort={setSort}
        first={14}
        onChoose={choose}
        chooseTitle="Choose the life of this allocation as the window"
        empty={columns === null ? "Decoding…" : "No allocation passes the filters."}
        note={
          <>
            {plural(rows.length, "allocation")} of {grouped(kept)} listed
            {kept < total &&
              ` (${grouped(total)} were made: the largest, longest-lived and never freed ones are listed)`}
          </>
        }
      />
    </>
  );
}

function Choice<T extends string | number>({
  label,
  options,
  value,
  onChoose,
}: {
  label: string;
  options: readonly (readonly [T, string])[];
  value: T;
  onChoose: (value: T) => void;
}) {
  return (
    <select
      aria-label={label}
      value={String(value)}
      onChange={(event) => onChoose(options[event.currentTarget.selectedIndex][0])}
    >
      {options.map(([option, words]) => (
        <option key={String(option)} value={String(option)}>
          {words}
        </option>
      ))}
    </select>
  );
}
