// SPDX-License-Identifier: Apache-2.0
/** What is live now: a flame graph by call stack, and tables by operation, line, shape, program and kind. */
import { useMemo, useState } from "preact/hooks";
import type { AllocationRow, Allocations, Breakdown, BreakdownRow } from "../documents";
import { ButtonGroup } from "../parts/button_group";
import { FlameGraph } from "../parts/flame_graph";
import { address, bytesOf, grouped, percent, short } from "../parts/format";
import { Table, type TableColumn } from "../parts/table";
import { bytesColumn, countColumn } from "../parts/table_columns";
import { ageText } from "./banner";
import { ChipChooser } from "./chip_chooser";
import { chipList } from "./chip_names";
import { useDocument } from "./live_data";
import { liveFlame } from "./live_flame";
import type { ViewProps } from "./view_props";

const POOLS: readonly { pool: string; label: string; kinds: string; note: string }[] = [
  { pool: "dram", label: "DRAM", kinds: "dram,trace", note: "" },
  { pool: "l1_buffers", label: "L1 buffers", kinds: "l1,l1_small", note: "Sizes are sums over all cores." },
  {
    pool: "programs",
    label: "cached programs",
    kinds: "cb,dfb,scratchpad,kernel",
    note: "Cached programs use L1 in turn: their sum is more than is in use at one time.",
  },
  { pool: "host", label: "host memory", kinds: "host", note: "" },
  { pool: "system", label: "the runtime's own", kinds: "fabric_kernel,dispatch_kernel,firmware", note: "" },
];
const KEYS = [
  ["op", "operation"],
  ["line", "line"],
  ["shape", "shape"],
  ["program", "program"],
  ["kind", "kind"],
] as const;
const UNITS = [
  ["bytes", "bytes"],
  ["count", "count"],
] as const;
type Key = (typeof KEYS)[number][0];
const BREAKDOWN_MS = 3000; // the server examines all live allocations
const SITES = 2000;

export function AllocationsView(props: ViewProps) {
  const { chip, text, names } = props;
  const [pool, setPool] = useState("dram");
  const [by, setBy] = useState<Key>("op");
  const [unit, setUnit] = useState<"bytes" | "count">("bytes");
  const [row, setRow] = useState<{ key: Key; value: string | null } | null>(null);
  const shown = POOLS.find((one) => one.pool === pool) ?? POOLS[0];
  const path = (route: string, more: Record<string, string>) => {
    const query = new URLSearchParams({ kind: shown.kinds, ...more });
    if (chip !== null) query.set("chip", chip);
    if (text !== "") query.set("text", text);
    return `${route}?${query}`;
  };
  const stacks = useDocument<Breakdown>(path("breakdown", { by: "stack", limit: String(SITES) }), BREAKDOWN_MS);
  // The flame graph needs operations only without stacks; the table by operation has the same answer.
  const needsOps = by === "op" || (stacks.data !== null && !hasStacks(stacks.data, pool));
  const ops = useDocument<Breakdown>(needsOps ? path("breakdown", { by: "op", limit: String(SITES) }) : null, BREAKDOWN_MS);
  const other = useDocument<Breakdown>(by === "op" ? null : path("breakdown", { by, limit: String(SITES) }), BREAKDOWN_MS);
  const table = by === "op" ? ops : other;
  const chosen: Record<string, string> = row === null || row.key === "kind" ? {} : { [row.key]: row.value ?? "" };
  const list = useDocument<Allocations>(path("allocations", { limit: "50", ...chosen }), BREAKDOWN_MS);
  const flame = useMemo(() => liveFlame(stacks.data, ops.data, pool, unit), [stacks.data, ops.data, pool, unit]);
  const whole = poolOf(table.data, pool);
  const scope = chip === null ? "summed over all chips" : `on ${names.of(chip)}`;
  const error = table.error ?? stacks.error;
  return (
    <>
      <section class="panel">
        <div class="part-bar">
          <ButtonGroup
            class="seg"
            label="Pool"
            options={POOLS.map((one) => [one.pool, one.label])}
            chosen={pool}
            onChoose={(one) => {
              setPool(one);
              setRow(null);
            }}
          />
          <ChipChooser {...props} all="all chips" />
          <ButtonGroup class="seg" label="Bytes or count" options={UNITS} chosen={unit} onChoose={setUnit} />
          <span class="part-space" />
          <span>
            {whole === null
              ? ""
              : `${grouped(whole.count)} live allocations, at most ${short(whole.per_chip)} per chip, ${short(whole.bytes)} on ${whole.chips === 1 ? "one chip" : `${whole.chips} chips`}`}
          </span>
        </div>
        {error !== null && <p class="bad">{error}</p>}
        <h2>
          Live now <span>{flame.stacks.parent.length > 0 ? "by call stack" : "by operation; `ttmem run --stacks` records call stacks"}, bytes {scope}. {shown.note}</span>
        </h2>
        <FlameGraph
          strings={flame.strings}
          stacks={flame.stacks}
          sites={flame.sites}
          kinds={flame.kinds}
          values={flame.values}
          counts={flame.counts}
          unit={unit}
          label={`${shown.label}, live now`}
          maxHeight={300}
        />
      </section>
      <section class="panel">
        <div class="part-bar">
          <h2>By</h2>
          <ButtonGroup
            class="seg"
            label="Group by"
            options={KEYS}
            chosen={by}
            onChoose={(key) => {
              setBy(key);
              setRow(null);
            }}
          />
        </div>
        <Table
          label={`${shown.label} by ${by}`}
          rows={whole?.rows ?? []}
          id={(one) => String(one[by] ?? "")}
          columns={breakdownColumns(by, whole?.bytes ?? 0)}
          sort="-per_chip"
          first={12}
          chosen={(one) => row !== null && row.key === by && row.value === (one[by] ?? null)}
          chooseTitle="List the allocations of this row"
          onChoose={(one) => setRow(row?.value === (one[by] ?? null) && row?.key === by ? null : { key: by, value: one[by] ?? null })}
          empty={table.data === null ? "asking the server …" : "nothing is live"}
          note={whole !== null && whole.groups > whole.rows.length ? `the largest ${whole.rows.length} of ${grouped(whole.groups)} rows` : ""}
        />
      </section>
      <section class="panel">
        <h2>
          Largest allocations{" "}
          <span>
            {row === null ? "" : `of ${row.value ?? "those without this property"}, `}
            {list.data === null ? "" : `${grouped(list.data.matched)} match`}
          </span>
        </h2>
        <Table
          label="Allocations"
          rows={list.data?.allocations ?? []}
          id={(one) => `${one.pid} ${one.kind} ${one.id} ${one.chips[0]} ${one.since}`}
          columns={allocationColumns(props)}
          sort="-size"
          first={12}
          empty={list.data === null ? "asking the server …" : "nothing is live"}
        />
      </section>
    </>
  );
}

function hasStacks(document: Breakdown, pool: string): boolean {
  return poolOf(document, pool)?.rows.some((row) => row.stack != null) ?? false;
}

function poolOf(document: Breakdown | null, pool: string) {
  return document?.pools.find((one) => one.pool === pool) ?? null;
}

export function breakdownColumns(by: Key, whole: number): TableColumn<BreakdownRow>[] {
  return [
    { key: by, label: KEYS.find(([key]) => key === by)?.[1] ?? by, value: (row) => row[by] ?? null, render: (row) => <span class="clip" title={row[by] ?? ""}>{row[by] ?? "not known"}</span>, wide: true },
    bytesColumn("per_chip", "per chip", (row) => row.per_chip, "bytes on the chip that has most of this row"),
    { key: "share", label: "share", title: "of the pool, on all these chips", value: (row) => row.bytes, render: (row) => (whole > 0 ? percent(row.bytes / whole) : "-"), right: true },
    countColumn("count", "allocations", (row) => row.count),
    bytesColumn("largest", "largest", (row) => row.largest, "the largest on one chip"),
    { key: "chips", label: "chips", value: (row) => row.chips, right: true },
    bytesColumn("bytes", "on all chips", (row) => row.bytes),
    { key: "kinds", label: "kinds", value: (row) => Object.keys(row.kinds).join(", ") },
  ];
}

export function allocationColumns({ names, snapshot }: Pick<ViewProps, "names" | "snapshot">): TableColumn<AllocationRow>[] {
  const now = Date.parse(snapshot.time);
  const chips = (row: AllocationRow) => chipList([...row.chips, ...row.other_chips].flatMap((id) => names.number.get(id) ?? []));
  return [
    { key: "size", label: "size per chip", value: (row) => row.size, render: (row) => <span title={`${bytesOf(row.size)} requested, ${bytesOf(row.reserved)} reserved`}>{short(row.size)}</span>, right: true },
    { key: "kind", label: "kind", value: (row) => row.kind },
    { key: "operation", label: "operation or tag", value: (row) => row.operation ?? row.tag, wide: true, render: (row) => <span class="clip" title={(row.stack ?? []).join("\n")}>{row.operation ?? row.tag ?? "-"}</span> },
    { key: "shape", label: "shape", value: (row) => row.shape },
    { key: "line", label: "line", value: (row) => row.line, render: (row) => <span class="clip" title={row.line ?? ""}>{row.line ?? "-"}</span> },
    { key: "address", label: "address", value: (row) => row.address, render: (row) => <code>{address(row.address)}</code>, right: true },
    { key: "chips", label: "chips", value: chips },
    { key: "pid", label: "pid", value: (row) => row.pid, right: true },
    { key: "since", label: "age", value: (row) => row.since, render: (row) => ageText(now - 1000 * row.since), right: true },
  ];
}
