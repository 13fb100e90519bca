// SPDX-License-Identifier: Apache-2.0
/** Temperatures, power, clocks, links and firmware of all chips. */
import type { ChipRow, Telemetry } from "../documents";
import { Table, type TableColumn } from "../parts/table";
import { chipDetails } from "./chip_names";
import { TimeCharts } from "./time_charts";
import { found, type ViewProps } from "./view_props";

const NUMBERS: readonly { key: keyof Telemetry; label: string; unit: string; limit?: keyof Telemetry }[] = [
  { key: "temperature_c", label: "temperature", unit: "°C", limit: "temperature_max_c" },
  { key: "power_w", label: "power", unit: "W", limit: "power_max_w" },
  { key: "current_a", label: "current", unit: "A", limit: "current_max_a" },
  { key: "voltage_mv", label: "voltage", unit: "mV", limit: "voltage_max_mv" },
  { key: "aiclk_mhz", label: "AICLK", unit: "MHz" },
  { key: "axiclk_mhz", label: "AXICLK", unit: "MHz" },
  { key: "arcclk_mhz", label: "ARCCLK", unit: "MHz" },
  { key: "fan_rpm", label: "fan", unit: "rpm" },
];

export function TelemetryView(props: ViewProps) {
  const { snapshot, names, text } = props;
  const rows = snapshot.chips.filter((chip) => found(text, names.of(chip.chip), chipDetails(chip)));
  const shown = NUMBERS.filter(({ key }) => snapshot.chips.some((chip) => chip.telemetry?.[key] != null));
  const columns: TableColumn<ChipRow>[] = [
    { key: "chip", label: "chip", value: (row) => names.number.get(row.chip) ?? null, render: (row) => <span title={chipDetails(row)}>{names.of(row.chip)}</span> },
    { key: "board", label: "board", value: (row) => row.board ?? row.arch },
    { key: "pci", label: "PCI address", value: (row) => row.pci ?? (row.remote ? "remote" : null), render: (row) => <code>{row.pci ?? (row.remote ? "remote" : "-")}</code> },
    {
      key: "state",
      label: "state",
      value: (row) => row.telemetry?.state ?? "none",
      render: (row) => <span class={`mark ${row.telemetry?.state === "ok" ? "tracked" : "untracked"}`}>{row.telemetry?.state ?? "none"}</span>,
    },
    ...shown.map(({ key, label, unit, limit }): TableColumn<ChipRow> => {
      const value = (row: ChipRow) => (row.telemetry?.[key] as number | null | undefined) ?? null;
      return {
        key,
        label,
        right: true,
        value,
        render: (row) => {
          const own = value(row);
          const most = limit === undefined ? null : ((row.telemetry?.[limit] as number | null | undefined) ?? null);
          if (own === null) return "-";
          return (
            <span class={most !== null && own > 0.95 * most ? "bad" : ""} title={most === null ? "" : `limit ${most} ${unit}`}>
              {Math.round(own)} {unit}
            </span>
          );
        },
      };
    }),
    {
      key: "pcie",
      label: "PCIe",
      value: (row) => row.pcie?.speed_gts ?? null,
      render: (row) => {
        const link = row.pcie;
        if (link === null) return "-";
        const slow = link.speed_gts !== link.max_speed_gts || link.width !== link.max_width;
        return (
          <span class={slow ? "bad" : ""} title={`possible: ${link.max_speed_gts} GT/s x${link.max_width}`}>
            {link.speed_gts} GT/s x{link.width}
          </span>
        );
      },
    },
    { key: "firmware", label: "firmware", value: (row) => row.firmware.bundle ?? null },
    { key: "trips", label: "thermal trips", value: (row) => row.telemetry?.therm_trips ?? null, right: true },
  ];
  return (
    <>
      <TimeCharts {...props} series={["temperature_c", "power_w", "aiclk_mhz"]} height={120} />
      <section class="panel">
        <h2>
          Telemetry <span>driver {snapshot.driver?.version ?? "not known"}</span>
        </h2>
        <Table
          label="Telemetry"
          rows={rows}
          id={(row) => row.chip}
          columns={columns}
          sort="chip"
          first={32}
          chosen={(row) => row.chip === props.chip}
          chooseTitle="Show the charts of this chip"
          onChoose={(row) => props.setChip(row.chip === props.chip ? null : row.chip)}
          empty="no chip was found"
        />
      </section>
    </>
  );
}
