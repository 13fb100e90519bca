// SPDX-License-Identifier: Apache-2.0
// Generated from src/ttmem/model/schema.py and page_schema.py by `make web-types`. Do not edit.

export type CountedKind = "dram" | "l1" | "l1_small" | "trace" | "cb";

export type MainPool = "dram" | "l1";

export type KindBytes = Record<string, number>;

/** Number of events that contradict the account, by kind of anomaly (docs/accounting.md, rule 15). */
export interface Anomalies {
  unknown_free: number;
  double_free: number;
  ambiguous: number;
  misrouted: number;
  replaced: number;
  rejected: number;
  dropped: number;
  after_exit: number;
  resynced: number;
}

/** A reason why numbers may be wrong, and how often an agent counted it. */
export interface UncertainRow {
  reason: string;
  count: number;
}

export interface CountAndBytes {
  count: number;
  bytes: number;
}

/**
 * Bytes on all `chips` together, and on the one that has most of them.
 *
 * `per_chip` is the same on each chip if `per_chip * chips == bytes`.
 */
export interface SumOverChips {
  bytes: number;
  per_chip: number;
  chips: number;
}

/** Allocations, each counted once for all its chips, and their bytes. */
export interface CountOverChips {
  bytes: number;
  per_chip: number;
  chips: number;
  count: number;
}

/** Allocations of any kind; their bytes are given for each pool, because those of different pools do not add up. */
export interface PoolAmounts {
  count: number;
  pools: Record<string, CountOverChips>;
}

/** The core that an allocation was written to, and the region at that address. */
export interface CoreWrite {
  x: number;
  y: number;
  address: number;
  what: string;
}

/**
 * One live allocation, once for all its chips. `size` and `reserved` are its bytes on each of them.
 *
 * `chips` are the requested chips that it is on, in the order of its mesh; `other_chips` the rest.
 */
export interface AllocationRow {
  pid: number | null;
  chips: string[];
  other_chips: string[];
  devices: number[];
  kind: string;
  id: string;
  address: number;
  size: number;
  reserved: number | null;
  refs: number;
  since: number;
  program: number | null;
  cores: string | null;
  core: CoreWrite | null;
  shared: boolean;
  layout: string | null;
  core_count: number | null;
  per_core: boolean;
  tag: string | null;
  operation: string | null;
  shape: string | null;
  line: string | null;
  stack: string[] | null;
  source: string;
  confidence: string;
  not_counted: string[];
}

/** The whole machine at one moment. */
export interface Snapshot {
  schema: "ttmem.snapshot/1";
  time: string;
  host: string;
  server: ServerRow | null;
  sources: SourceState[];
  driver: Driver | null;
  chips: ChipRow[];
  processes: ProcessRow[];
  sums: Sums | null;
  anomalies: Anomalies;
  notes: Note[];
}

export interface ServerRow {
  pid: number;
  since: string;
  events: number;
  version: string;
  clients: number;
  lost_to_readers: number;
}

/** A source of a snapshot, and whether it could be read. */
export interface SourceState {
  name: string;
  state: string;
  detail: string | null;
}

export interface Driver {
  version: string | null;
  loaded: boolean;
}

/** A sentence about a chip or a process. */
export interface Note {
  what: string;
  chip: string | null;
  pid: number | null;
  text: string;
}

export interface ChipRow {
  chip: string;
  pci: string | null;
  kmd: number | null;
  arch: string | null;
  board: string | null;
  remote: boolean | null;
  identity: string;
  unique_id: string | null;
  joined_by: string | null;
  held: boolean | null;
  serial: string | null;
  asic_id: string | null;
  firmware: Firmware;
  pcie: PcieLink | null;
  telemetry: Telemetry | null;
  shm: ChipCounters | null;
  memory: MemoryRow;
}

/** The versions that the driver shows; they depend on the chip. */
export interface Firmware {
  bundle?: string;
  m3app?: string;
  m3bl?: string;
  arc?: string;
  eth?: string;
  ttflash?: string;
}

export interface PcieLink {
  speed_gts: number | null;
  width: number | null;
  max_speed_gts: number | null;
  max_width: number | null;
  numa: number | null;
}

/** The telemetry in the driver's files. */
export interface DriverTelemetry {
  temperature_c: number | null;
  temperature_max_c: number | null;
  power_w: number | null;
  power_max_w: number | null;
  current_a: number | null;
  current_max_a: number | null;
  voltage_mv: number | null;
  voltage_max_mv: number | null;
  aiclk_mhz: number | null;
  axiclk_mhz: number | null;
  arcclk_mhz: number | null;
  fan_rpm: number | null;
  heartbeat: number | null;
  alive: boolean | null;
  therm_trips: number | null;
  state: string;
  age_s: number | null;
  implausible: Record<string, string>;
}

/** Adds values that only tt-umd can read. These keys are present if it was requested. */
export interface Telemetry {
  temperature_c: number | null;
  temperature_max_c: number | null;
  power_w: number | null;
  power_max_w: number | null;
  current_a: number | null;
  current_max_a: number | null;
  voltage_mv: number | null;
  voltage_max_mv: number | null;
  aiclk_mhz: number | null;
  axiclk_mhz: number | null;
  arcclk_mhz: number | null;
  fan_rpm: number | null;
  heartbeat: number | null;
  alive: boolean | null;
  therm_trips: number | null;
  state: string;
  age_s: number | null;
  implausible: Record<string, string>;
  temperature_shutdown_c?: number | null;
  board_temperature_c?: number | null;
  dram_temperature_c?: number | null;
  board_power_w?: number | null;
  board_power_max_w?: number | null;
  aiclk_max_mhz?: number | null;
  fan_percent?: number | null;
  dram_speed?: number | null;
  dram_status?: string | null;
}

/** Bytes by the kinds that tt-metal's own counters have. */
export interface CountedBytes {
  dram: number;
  l1: number;
  l1_small: number;
  trace: number;
  cb: number;
}

/** Totals of the counters minus the bytes of living processes; there is no total of circular buffers. */
export interface StaleBytes {
  dram: number;
  l1: number;
  l1_small: number;
  trace: number;
  cb: null;
}

/** tt-metal's own counters of a chip. */
export interface ChipCounters {
  state: string;
  why: string | null;
  version: number | null;
  live: CountedBytes | null;
  stale: StaleBytes | null;
  totals: CountedBytes | null;
  updated: number | null;
}

/** The memory of a chip, pool by pool. */
export interface MemoryRow {
  dram: DramRow;
  l1: L1Row;
  system: SystemMemory;
  host: HostMemory;
  reporter: ReporterRow;
  completeness: number | null;
  uncertain: ChipUncertainRow[];
  confidence: ConfidenceBytes;
  missing: string[];
  unseen: UnseenRow[];
}

export interface DramRow {
  used: number | null;
  reserved: number | null;
  capacity: number | null;
  capacity_basis: string | null;
  peak: number | null;
  peak_at_most: number | null;
  reserved_peak: number | null;
  largest_free: number | null;
  banks: number | null;
  trace: TraceRow;
}

export interface TraceRow {
  used: number | null;
  reserved: number | null;
  region: number | null;
}

export interface L1Row {
  used: number | null;
  reserved: number | null;
  capacity: number | null;
  capacity_basis: string | null;
  peak: number | null;
  peak_at_most: number | null;
  reserved_peak: number | null;
  largest_free: number | null;
  bank_free: number | null;
  banks: number | null;
  at_once: number | null;
  at_once_parts: AtOnceParts;
  buffers: number | null;
  small: L1SmallRow;
  cb: HeldAndResident;
  dfb: HeldAndResident;
  scratchpad: number | null;
  kernels: number | null;
  scratchpad_resident: number | null;
  kernels_resident: number | null;
  firmware: number | null;
  ring: RingRow;
  physical: PhysicalL1;
}

/** L1 in use at one time, by kind. */
export interface AtOnceParts {
  l1: number | null;
  l1_small: number | null;
  cb: number | null;
  dfb: number | null;
  scratchpad: number | null;
  kernel: number | null;
  firmware: number | null;
}

export interface L1SmallRow {
  used: number | null;
  reserved: number | null;
  region: number | null;
  peak: number | null;
  peak_at_most: number | null;
}

export interface HeldAndResident {
  held: number | null;
  resident: number | null;
}

export interface RingRow {
  used_max: number | null;
  size: number | null;
}

/** Occupied bytes of L1 and the least headroom, over the cores of a chip. */
export interface PhysicalL1 {
  used: number | null;
  max_core: number | null;
  headroom_min: number | null;
  age_s: number | null;
}

export interface SystemMemory {
  fabric_kernels: number | null;
  dispatch_kernels: number | null;
}

export interface HostMemory {
  used: number | null;
}

/** L1 in buffers as reported by the allocators, and the tracked part of it. */
export interface ReporterRow {
  total: number | null;
  tracked: number | null;
  inferred: number | null;
  basis: string;
}

/** Adds the process whose agent counted it. */
export interface ChipUncertainRow {
  reason: string;
  count: number;
  pid: number | null;
}

export interface ConfidenceBytes {
  exact: number;
  reported: number;
  estimated: number;
}

/** A process for which some kinds are not known. */
export interface UnseenRow {
  pid: number | null;
  missing: string[];
}

export interface ProcessRow {
  pid: number | null;
  start: number | null;
  user_id: number | null;
  user: string | null;
  name: string | null;
  command: string | null;
  container: string | null;
  job: Job | null;
  cpu_percent: number | null;
  rss: number | null;
  state: string;
  seen: number | null;
  exited: number | null;
  claimed_pids: number[];
  allocations: number | null;
  sources: ProcessSource[];
  holds: string[];
  chips: ChipShare[];
  failed: number;
  last_failure: LastFailure | null;
  uncertain: UncertainRow[];
  anomalies: Anomalies;
}

export interface Job {
  id: string;
  name: string | null;
}

/** A source that reports on a process. */
export interface ProcessSource {
  name: string;
  confidence: string;
  trouble: string | null;
  unread: number;
  shed: boolean;
}

/** The memory of a process on one chip. */
export interface ChipShare {
  chip: string;
  metal_id: number | null;
  metal_ids: number[];
  dram: number | null;
  peak_dram: number | null;
  peak_dram_at_most: number | null;
  l1: number | null;
  peak_l1: number | null;
  peak_l1_at_most: number | null;
  host: number | null;
  peak_host: number | null;
  peak_host_at_most: number | null;
  system: number | null;
  peak_system: number | null;
  peak_system_at_most: number | null;
  kinds: Record<string, number>;
  source: string;
  shm: CountedBytes | null;
}

export interface LastFailure {
  time: number;
  text: string;
  operation: string | null;
  line: string | null;
}

/** Sums over chips and processes. */
export interface Sums {
  host: HostSum;
  boards: BoardSum[];
  jobs: JobSum[];
}

export interface HostSum {
  chips: string[];
  idle: number;
  processes: number;
  dram: DramSum;
  l1: L1Sum;
}

export interface BoardSum {
  chips: string[];
  idle: number;
  processes: number;
  dram: DramSum;
  l1: L1Sum;
  serial: string | null;
  board: string | null;
}

/** Each sum, and the number of chips for which it is completely known. */
export interface DramSum {
  used: number | null;
  used_on: number;
  reserved: number | null;
  reserved_on: number;
  capacity: number | null;
  capacity_on: number;
}

export interface L1Sum {
  used: number | null;
  used_on: number;
  reserved: number | null;
  reserved_on: number;
  capacity: number | null;
  capacity_on: number;
  at_once: number | null;
  at_once_on: number;
}

export interface JobSum {
  id: string | null;
  name: string | null;
  chips: string[];
  processes: number;
  states: StateCounts;
  dram: JobPoolSum;
  l1: JobPoolSum;
}

export interface StateCounts {
  tracked: number;
  untracked: number;
  stale: number;
  exited: number;
}

export interface JobPoolSum {
  used: number | null;
  used_on: number;
  reserved: number | null;
  reserved_on: number;
}

export interface Processes {
  schema: "ttmem.processes/1";
  processes: ProcessDetail[];
}

/** Adds the largest allocations that it held when it exited; only in `/processes/{pid}`. */
export interface ProcessDetail {
  pid: number | null;
  start: number | null;
  user_id: number | null;
  user: string | null;
  name: string | null;
  command: string | null;
  container: string | null;
  job: Job | null;
  cpu_percent: number | null;
  rss: number | null;
  state: string;
  seen: number | null;
  exited: number | null;
  claimed_pids: number[];
  allocations: number | null;
  sources: ProcessSource[];
  holds: string[];
  chips: ChipShare[];
  failed: number;
  last_failure: LastFailure | null;
  uncertain: UncertainRow[];
  anomalies: Anomalies;
  largest?: AllocationRow[];
}

/** Figures about the server itself, for /health, /metrics and the snapshot. */
export interface ServerFigures {
  status: string;
  parts: PartRow[];
  pid: number;
  since: number;
  version: string;
  clients: number;
  accepted: number;
  live_allocations: number;
  unread_replies: number;
  socket: string;
}

export interface Health {
  schema: "ttmem.health/1";
  status: string;
  parts: PartRow[];
  pid: number;
  since: string;
  version: string;
  clients: number;
  accepted: number;
  live_allocations: number;
  unread_replies: number;
  socket: string;
  events: number;
}

/** A task that the server repeats at intervals. */
export interface PartRow {
  name: string;
  state: string;
  detail: string | null;
  since: number | null;
  failures: number;
}

export interface Allocations {
  schema: "ttmem.allocations/1";
  matched: number;
  pools: Record<string, SumOverChips>;
  offset: number;
  allocations: AllocationRow[];
}

export interface Breakdown {
  schema: "ttmem.breakdown/1";
  by: string;
  pools: BreakdownPoolRow[];
}

/** Allocations of one pool. `other_chips` is the number of chips that they are on and that were not requested. */
export interface BreakdownSum {
  bytes: number;
  per_chip: number;
  chips: number;
  count: number;
  reserved: number | null;
  other_chips: number;
}

export interface BreakdownPoolRow {
  bytes: number;
  per_chip: number;
  chips: number;
  count: number;
  reserved: number | null;
  other_chips: number;
  pool: string;
  groups: number;
  rows: BreakdownRow[];
}

export interface BreakdownAmounts {
  bytes: number;
  per_chip: number;
  chips: number;
  count: number;
  reserved: number | null;
  other_chips: number;
  largest: number;
  kinds: Record<string, number>;
}

/** Adds one of these keys: the one that `by` names. */
export interface BreakdownRow {
  bytes: number;
  per_chip: number;
  chips: number;
  count: number;
  reserved: number | null;
  other_chips: number;
  largest: number;
  kinds: Record<string, number>;
  op?: string | null;
  line?: string | null;
  stack?: string | null;
  shape?: string | null;
  program?: string | null;
  kind?: string | null;
}

export interface Peaks {
  schema: "ttmem.peaks/1";
  since: string;
  reset: string | null;
  peaks: PeakRow[];
}

export interface TotalOfChip {
  chip: string;
}

/** A `pool` or a `kind` on a chip; for one process, a kind on one `device` of the process. */
export interface TotalName {
  chip: string;
  pool?: string;
  device?: number;
  kind?: string;
}

export interface PeakOfChips {
  chips: string[];
}

/** A `pool` or a `kind` on each of some chips; for one process, a kind on these `devices` of the process. */
export interface PeakName {
  chips: string[];
  pool?: string;
  devices?: number[];
  kind?: string;
}

/** A peak that several chips have in common, with the same allocations. */
export interface PeakRow {
  chips: string[];
  pool?: string;
  devices?: number[];
  kind?: string;
  per_chip: number;
  at_most: number | null;
  time: number | null;
  largest: AllocationRow[];
}

/** Allocations that were live at a peak and are alike. */
export interface PeakGroup {
  count: number;
  size: number;
  tag: string | null;
  shape: string | null;
  line: string | null;
}

export interface PeaksReset {
  schema: "ttmem.peaks_reset/1";
  reset: string;
}

export interface Phases {
  schema: "ttmem.phases/1";
  processes: ProcessPhases[];
}

/** The process, and the number of its phases that are not completely kept or listed. */
export interface PhasesHead {
  pid: number | null;
  start: number | null;
  state: string;
  left_out: number;
  missed: number;
}

export interface ProcessPhases {
  pid: number | null;
  start: number | null;
  state: string;
  left_out: number;
  missed: number;
  open: OpenPhase[];
  ended: EndedPhase[];
}

export interface OpenPhaseHead {
  path: string | null;
  since: number;
  complete: boolean;
}

export interface OpenPhase {
  path: string | null;
  since: number;
  complete: boolean;
  rows: OpenPhaseRow[];
}

/** All runs of one path. */
export interface EndedPhaseHead {
  path: string | null;
  runs: number;
  partial: number;
  seconds: number;
  since: number;
  until: number;
}

export interface EndedPhase {
  path: string | null;
  runs: number;
  partial: number;
  seconds: number;
  since: number;
  until: number;
  rows: EndedPhaseRow[];
}

/** A total in one run of a phase. */
export interface PhaseRun {
  begin: number;
  peak: number;
  end: number;
  delta: number;
}

export interface OpenPhaseRow {
  chip: string;
  pool?: string;
  device?: number;
  kind?: string;
  begin: number;
  peak: number;
  end: number;
  delta: number;
}

export interface EndedPhaseRow {
  chip: string;
  pool?: string;
  device?: number;
  kind?: string;
  peak: number;
  delta: number;
  last: PhaseRun;
}

export interface HistoryHead {
  schema: "ttmem.history/1";
  step: number;
  since: number;
  until: number;
  left_out: number;
}

export interface History {
  schema: "ttmem.history/1";
  step: number;
  since: number;
  until: number;
  left_out: number;
  series: HistorySeries[];
}

/** One quantity of one chip, as columns of equal length. */
export interface HistorySeries {
  chip: string;
  kind: string;
  time: number[];
  last: number[];
  max: number[];
}

export interface Headroom {
  schema: "ttmem.headroom/1";
  chips: ChipHeadroom[];
}

export interface ChipHeadroom {
  chip: string;
  floor: number | null;
  floor_holder: AllocationRow | null;
  launched: ProgramHeadroom[];
  worst_cached: ProgramHeadroom | null;
}

export interface ProgramHeadroom {
  program: number;
  pid: number | null;
  end: number;
  headroom: number | null;
}

/** The physical L1 of a chip. For a chip of unknown type, only `chip` and `why` are known. */
export interface Cores {
  schema: "ttmem.cores/1";
  chip: string;
  why: string | null;
  age_s: number | null;
  basis: string | null;
  grid: Grid | null;
  dispatch: Grid[];
  harvested: number | null;
  l1: L1Layout | null;
  used: number | null;
  max_core: number | null;
  headroom_min: number | null;
  floor: FloorRow;
  overlaps: OwnerRow[][];
  unplaced: UnplacedRow[];
  warnings: string[];
  programs: CoreProgram[];
  cores: CoreRow[];
  core: CoreDetail | null;
}

/** The size of the compute grid, or the coordinates of a core. */
export interface Grid {
  x: number;
  y: number;
}

/** The boundaries of the parts of a core's L1, as addresses. */
export interface L1Layout {
  size: number;
  map_end: number;
  base: number;
  small_start: number;
}

export interface FloorRow {
  address: number | null;
  owner: OwnerRow | null;
}

/** An allocation in the L1 of a core. */
export interface OwnerRow {
  pid: number | null;
  name: string | null;
  kind: string;
  address: number;
  size: number;
  tag: string | null;
  program: number | null;
  operation: string | null;
  allocator: number | null;
  source: string;
}

export interface UnplacedRow {
  why: string;
  allocations: number;
  bytes: number;
}

export interface CoreProgram {
  pid: number | null;
  name: string | null;
  device: number;
  program: number;
  metal_id: number | null;
  operation: string | null;
  ring: number | null;
}

/** One core. `program` is an index into the list of programs. */
export interface CoreRow {
  x: number;
  y: number;
  used: number | null;
  free: number | null;
  unknown: number | null;
  largest_free: number | null;
  overlap: number | null;
  headroom: number | null;
  end: number | null;
  program: number | null;
  worst: WorstProgram | null;
}

export interface WorstProgram {
  program: number | null;
  end: number;
  headroom: number | null;
}

export interface CoreDetail {
  x: number;
  y: number;
  top: OwnerRow | null;
  segments: SegmentRow[];
  listed_to: number | null;
  kernels: KernelRow[];
}

export interface SegmentRow {
  start: number;
  end: number;
  kind: string;
  owners: SegmentOwner[];
  inside: OwnerRow[];
}

/** Adds whether the buffer has data on this core, or only reserves the addresses. */
export interface SegmentOwner {
  pid: number | null;
  name: string | null;
  kind: string;
  address: number;
  size: number;
  tag: string | null;
  program: number | null;
  operation: string | null;
  allocator: number | null;
  source: string;
  data: boolean | null;
}

export interface KernelRow {
  tag: string | null;
  size: number;
}

export interface Dump {
  schema: "ttmem.dump/1";
  time: string;
  total: number;
  groups: DumpGroup[];
  anomalies: Anomalies;
  uncertain: UncertainRow[];
}

/** All allocations on the same chips. `other_chips`: they are also on these, which were not requested. */
export interface DumpGroup {
  chips: string[];
  other_chips: string[];
  devices: number[];
  kinds: DumpKind[];
}

export interface DumpKind {
  bytes: number;
  per_chip: number;
  chips: number;
  count: number;
  kind: string;
  reserved: number | null;
  large: CountAndBytes;
  small: CountAndBytes;
  allocations: AllocationRow[];
}

export interface Leaks {
  schema: "ttmem.leaks/1";
  time: string;
  since: string;
  tracked_s: number;
  judged: JudgedRow[];
  verdict: LeakVerdict;
  losses: Losses;
  uncertain: UncertainRow[];
  doubts: string[];
  growing: LeakRow[];
  held: LeakRow[];
  left_out: LeaksLeftOut;
  ignored: number;
  program_cache: ProgramCacheRow;
  trace: HeldRow;
  system: HeldRow;
  dead_process: DeadProcessRow[];
}

export interface JudgedRow {
  pid: number | null;
  by: string;
  name: string | null;
  steps: number;
  from: number | null;
  until: number | null;
}

export interface LeaksLeftOut {
  count: number;
  pools: Record<string, CountOverChips>;
  groups: number;
}

export interface LeakVerdict {
  count: number;
  pools: Record<string, CountOverChips>;
  groups: number;
  leak: boolean;
}

export interface Losses {
  dropped: number;
  unknown_free: number;
}

export interface HeldAges {
  oldest_s: number | null;
  youngest_s: number | null;
}

/** Allocations that are held for the same reason, and their ages. */
export interface HeldRow {
  count: number;
  pools: Record<string, CountOverChips>;
  oldest_s: number | null;
  youngest_s: number | null;
}

export interface ProgramCacheRow {
  count: number;
  pools: Record<string, CountOverChips>;
  oldest_s: number | null;
  youngest_s: number | null;
  likely: HeldRow;
}

/** Allocations of one process and kind on the same chips with one origin; without a shape, of one `size`. */
export interface LeakRow {
  count: number;
  bytes: number;
  oldest_s: number | null;
  youngest_s: number | null;
  pid: number | null;
  name: string | null;
  chips: string[];
  other_chips: string[];
  per_chip: number;
  kind: string;
  op: string | null;
  line: string | null;
  stack: string[] | null;
  shape: string | null;
  size: number | null;
  above_baseline: number | null;
  growth: GrowthRow | null;
}

/** How a group grows. `history` has its number of allocations after each sixteenth of the steps. */
export interface GrowthRow {
  since: number;
  count: number;
  per_step: number | null;
  per_minute: number;
  bytes_per_minute: number;
  history: number[] | null;
}

/** What a process held when it exited. */
export interface DeadProcessRow {
  count: number;
  pools: Record<string, CountOverChips>;
  pid: number | null;
  name: string | null;
  exited: number;
  ago_s: number;
  largest: AllocationRow[];
}

export interface Diff {
  schema: "ttmem.diff/1";
  by: string;
  old: DiffSide;
  new: DiffSide;
  headline: string;
  same: boolean;
  figures: DiffFigure[];
  pools: DiffPool[];
  lives: DiffLife[];
  exceeded: string[];
}

export interface DiffSide {
  file: string;
  what: string;
  moment: string;
  command: string | null;
  boards: Record<string, number>;
  incomplete: string[];
}

/** A figure of the whole run; null if it is not known. */
export interface DiffFigure {
  name: string;
  what: string;
  old: number | null;
  new: number | null;
  change: number | null;
}

/** What was held at the moment, with the bytes on all chips. `rows` has what changed. */
export interface DiffPool {
  pool: string;
  old: number;
  new: number;
  change: number;
  rows: DiffRow[];
  unchanged_groups: number;
  unchanged_bytes: number;
}

/** A group that is freed at another place. Lines are those of the last buffer that was made before. */
export interface DiffLife {
  key: string;
  pool: string;
  made: number;
  longer: boolean;
  old_freed: boolean;
  new_freed: boolean;
  old_until: string | null;
  new_until: string | null;
}

export interface DiffRow {
  key: string;
  what: string[];
  old_count: number;
  new_count: number;
  old_bytes: number;
  new_bytes: number;
  change: number;
}

export interface Explanation {
  schema: "ttmem.explain/1";
  file: string;
  failures: number;
  explained: ExplainedRow[];
}

/** Why an allocation failed, and what to change. */
export interface VerdictRow {
  headline: string;
  held_by: string;
  failure: FailureRow;
  why: string;
  operation: string | null;
  line: string | null;
  shape: string | null;
  asked: number | null;
  there: number | null;
  missing: number | null;
  free: number | null;
  size: number | null;
  holders: HolderRow[];
  held: number;
  wall: BlockRow | null;
  program: FailedProgram | null;
  parts: ProgramPart[];
  advice: AdviceRow[];
  unknown: string[];
  sections: SectionRow[];
}

/** A section of the explanation as text. */
export interface SectionRow {
  heading: string;
  lines: string[];
}

/** Adds where the failure is in the file, and how often it occurred. */
export interface ExplainedRow {
  headline: string;
  held_by: string;
  failure: FailureRow;
  why: string;
  operation: string | null;
  line: string | null;
  shape: string | null;
  asked: number | null;
  there: number | null;
  missing: number | null;
  free: number | null;
  size: number | null;
  holders: HolderRow[];
  held: number;
  wall: BlockRow | null;
  program: FailedProgram | null;
  parts: ProgramPart[];
  advice: AdviceRow[];
  unknown: string[];
  sections: SectionRow[];
  where: string;
  times: number;
}

export interface FailureType {
  type: string;
}

/** Adds every number of the message; the keys depend on `type` (analyze/failure_types.py). */
export interface FailureRow {
  type: string;
  address?: number | null;
  alignment?: number;
  allocated?: number | null;
  bank_size?: number | null;
  banks?: number;
  core_type?: string;
  cores?: string;
  counts?: string | null;
  dependent?: boolean;
  device?: number;
  end?: number;
  floor?: number;
  free?: number | null;
  freed?: number | null;
  global_circular?: boolean;
  have?: number;
  kernels?: string | null;
  kind?: string;
  l1_size?: number;
  largest?: number | null;
  largest_window?: number | null;
  limit?: number;
  need?: number | null;
  operation?: string;
  other?: number | null;
  parts?: ((string | number)[])[];
  per_bank?: number;
  placeable?: number | null;
  program?: number;
  region?: number;
  ring?: number;
  service?: boolean;
  size?: number;
  start?: number;
  windows?: number | null;
}

/** A buffer in a bank. */
export interface BlockRow {
  kind: string;
  address: number;
  size: number;
  per_bank: number;
  allocator: number;
  tag: string | null;
  shape: string | null;
  line: string | null;
  cause: string;
}

/** Buffers that differ only in their addresses: the first of them, how many there are, and the lowest addresses. */
export interface HolderRow {
  kind: string;
  address: number;
  size: number;
  per_bank: number;
  allocator: number;
  tag: string | null;
  shape: string | null;
  line: string | null;
  cause: string;
  buffers: number;
  addresses: number[];
}

export interface FailedProgram {
  id: number | null;
  operation: string | null;
}

export interface ProgramPart {
  kind: string;
  start: number;
  end: number;
  cores: string;
  tag: string | null;
}

export interface AdviceRow {
  what: string;
  value: number | null;
  gives: number | null;
  basis: string;
  blocks: BlockRow[];
  addresses: number[];
  note: string | null;
  text: string;
}

export interface Run {
  schema: "ttmem.run/1";
  command: string[];
  exit_code: number;
  started: number;
  ended: number;
  duration_s: number;
  events: number;
  dropped: number;
  completeness: number | null;
  uncertain: UncertainRow[];
  unseen: UnseenProcess[];
  trouble: string[];
  agent: AgentCounters;
  anomalies: Anomalies;
  sizing: SizingRow[];
  failed: number;
  failures: RunFailure[];
  chips: RunChip[];
  peaks: PeakRow[];
  breakdown: RunBreakdown;
  peak_time: number | null;
  peak: Snapshot;
  final: Snapshot;
  left_known: boolean;
  left_earlier: LeftEarlier;
  left: LeftRow[];
}

/** A chip on which something was allocated: its peaks, and what was left on it. */
export interface RunChip {
  chip: string;
  board: string | null;
  arch: string | null;
  kinds: Record<string, KindPeak>;
  dram: ReservedPeak;
  l1: ReservedPeak;
}

export interface KindPeak {
  peak: number;
  peak_at_most: number | null;
  end: number;
}

/** Bytes of a pool that the allocators reserved. */
export interface ReservedPeak {
  reserved_peak: number;
  reserved_peak_exact: boolean;
  reserved_end: number;
  buffer_capacity: number | null;
}

export interface UnseenProcess {
  pid: number;
  name: string;
}

/** Counters, summed over the agents of a run. */
export interface AgentCounters {
  unknown_frees: number;
  earlier_frees: number;
  replaced: number;
  table_full: number;
  blobs_full: number;
  meshes_full: number;
  failures: number;
}

export interface SizingRow {
  pid: number;
  chips: string[];
  lines: SizingLineRow[];
}

export interface SizingLineRow {
  what: string;
  text: string;
  value: number | null;
  basis: string;
}

export interface RunFailure {
  time: number;
  pid: number;
  text: string;
  operation: string | null;
  stack: string[] | null;
  verdict: VerdictRow;
}

/** The allocations that were live at the peak, grouped by these keys. */
export interface RunBreakdown {
  op: BreakdownPoolRow[];
  line: BreakdownPoolRow[];
  shape: BreakdownPoolRow[];
  kind: BreakdownPoolRow[];
  program: BreakdownPoolRow[];
}

/** Tensors that were left over earlier; the bytes of each are those on one of its chips. */
export interface LeftEarlier {
  tensors: number;
  pools: Record<string, CountAndBytes>;
}

/** An allocation that was left, and the reason why it was held. */
export interface LeftRow {
  pid: number | null;
  chips: string[];
  other_chips: string[];
  devices: number[];
  kind: string;
  id: string;
  address: number;
  size: number;
  reserved: number | null;
  refs: number;
  since: number;
  program: number | null;
  cores: string | null;
  core: CoreWrite | null;
  shared: boolean;
  layout: string | null;
  core_count: number | null;
  per_core: boolean;
  tag: string | null;
  operation: string | null;
  shape: string | null;
  line: string | null;
  stack: string[] | null;
  source: string;
  confidence: string;
  not_counted: string[];
  cause: string;
}

/** Whether a command fits on machines, found by running it on mock devices. */
export interface Fit {
  schema: "ttmem.fit/1";
  command: string[];
  ttnn: FitTtnn;
  real_kernels: boolean;
  fake_weights: boolean;
  varied: FitVaried[];
  boards: FitBoard[];
  borders: FitBorder[];
  smallest: string | null;
  exit_code: number;
}

/** One --vary: a list of values, or a range in which the largest value that fits is searched. */
export interface FitVaried {
  name: string;
  searched: boolean;
  values: number[];
  first: number;
  last: number;
}

/** The largest value of a range that fits on a machine, for one combination of the other values. */
export interface FitBorder {
  board: string;
  values: Record<string, string>;
  name: string;
  largest: number | null;
  next: number | null;
  next_verdict: string | null;
  tried: number[];
  fits_again: number[];
}

/** Recorded allocations, repeated by the simulated allocator: as they were, and under other conditions. */
export interface WhatIf {
  schema: "ttmem.what_if/1";
  recording: string;
  left_out: number;
  devices: WhatIfDevice[];
  exit_code: number;
}

/** A device, or a mesh of devices in lock step, which has one allocator. */
export interface WhatIfDevice {
  numbers: number[];
  exact: boolean;
  recorded: WhatIfRun;
  changed: WhatIfRun;
}

export interface WhatIfRun {
  steps: number;
  moved: number;
  estimated: number;
  failed: number;
  failures: WhatIfFailure[];
  banks: Record<string, WhatIfBank>;
}

export interface WhatIfFailure {
  step: number;
  name: string;
  text: string;
  as_recorded: boolean;
}

/** Sizes of one bank. */
export interface WhatIfBank {
  size: number;
  peak: number;
  largest_free_min: number;
}

export interface FitTtnn {
  python: string;
  version: string | null;
  root: string;
}

/** One run of the command on one machine. */
export interface FitBoard {
  board: string;
  values: Record<string, string>;
  verdict: "fits" | "fails" | "unknown";
  reason: string;
  command_exit_code: number;
  duration_s: number;
  stopped: boolean;
  chips: number;
  failures: number;
  failure: FitFailure | null;
  dram: FitDram | null;
  phases: FitPhase[];
  kv: FitKv | null;
  l1: FitL1 | null;
  l1_small: FitRegion | null;
  trace: FitTrace | null;
  programs: number | null;
  kernel_ring: FitRing | null;
  unknown: FitUnknown[];
  notes: string[];
  output: string[];
}

/** The first failed allocation, with the two lines of its explanation. */
export interface FitFailure {
  headline: string;
  held_by: string;
  operation: string | null;
  line: string | null;
}

/** The DRAM of the allocator that came closest to its limit; all sizes are of one bank. */
export interface FitDram {
  banks: number;
  bank_size: number;
  peak: number;
  largest_free_min: number;
}

/** DRAM in all runs of a phase, in one bank; phases in which nothing changed are left out. */
export interface FitPhase {
  phase: string;
  peak: number;
  largest_free_min: number;
}

/** A KV cache that would fit beside the rest, on each chip. */
export interface FitKv {
  bytes_per_token: number;
  bytes: number;
  tokens: number;
}

/** The L1 of the tightest program; all sizes are of one core. The headroom is null if no program was launched. */
export interface FitL1 {
  bank_size: number;
  buffers_peak: number | null;
  reserved_peak: number | null;
  largest_free_min: number | null;
  headroom: number | null;
  operation: string | null;
  line: string | null;
  limited_by: string | null;
}

export interface FitRegion {
  declared: number;
  needed: number;
}

/** The kernel ring of a core, and the program that needs most of it. */
export interface FitRing {
  size: number;
  needed: number;
  operation: string | null;
}

export interface FitTrace {
  declared: number;
  captured: number;
  launches: number;
}

/** Memory that a run on mock devices does not show, and the most that it can take in one DRAM bank. */
export interface FitUnknown {
  what: string;
  text: string;
  bound: number | null;
}

export interface Doctor {
  schema: "ttmem.doctor/1";
  time: string;
  version: string;
  verdict: DoctorVerdict;
  findings: FindingRow[];
}

export interface LevelCounts {
  broken: number;
  warning: number;
  unknown: number;
  ok: number;
}

export interface DoctorVerdict {
  broken: number;
  warning: number;
  unknown: number;
  ok: number;
  exit_code: number;
}

export interface FindingRow {
  check: string;
  level: string;
  looked_at: string;
  found: string;
  todo: string | null;
}

export interface Wheel {
  schema: "ttmem.wheel/1";
  library: string;
  kinds: WheelKinds[];
  unknown: Record<string, string[]>;
  functions: WheelFunction[];
}

/** A group of kinds of memory, and why the agent does not track it. */
export interface WheelKinds {
  what: string;
  tracked: boolean;
  reason: string | null;
}

export interface WheelFunction {
  name: string;
  role: string;
  state: string;
  symbol: string;
}

/** What was read, and the resulting account. */
export interface ImportSummary {
  schema: "ttmem.import/1";
  form: string;
  ttnn: string | null;
  virtual: boolean;
  confidence: string;
  completeness: number | null;
  nodes: number;
  operations: number;
  events: number;
  programs: number;
  cached_runs: number;
  failures: number;
  began: number | null;
  clock: string;
  unsized: number;
  lacks: string[];
  anomalies: Record<string, number>;
  chips: ImportChip[];
  file: string;
  output: string;
}

/** Adds the names of the input file and of the recording. */
export interface Import {
  schema: "ttmem.import/1";
  form: string;
  ttnn: string | null;
  virtual: boolean;
  confidence: string;
  completeness: number | null;
  nodes: number;
  operations: number;
  events: number;
  programs: number;
  cached_runs: number;
  failures: number;
  began: number | null;
  clock: string;
  unsized: number;
  lacks: string[];
  anomalies: Record<string, number>;
  chips: ImportChip[];
  file: string;
  output: string;
}

export interface ImportChip {
  chip: string;
  device: number | null;
  board: string | null;
  geometry: string | null;
  kinds: Record<string, ImportKind>;
}

export interface ImportKind {
  pool: string;
  used: number;
  reserved: number | null;
  allocations: number;
  peak: number;
  peak_after_s: number;
  peak_operation: string | null;
  peak_line: string | null;
}

export interface MemoryReports {
  schema: "ttmem.reports/1";
  time: string;
  folder: string;
  reports: ReportRow[];
  missing: string[];
  incomparable: string | null;
  problems: string[];
}

export interface ReportRow {
  prefix: string;
  files: ReportFile[];
  states: ReportState[];
  completeness: Record<string, ReportShare> | null;
}

export interface ReportFile {
  name: string;
  modified: string;
  age_s: number;
}

export interface ReportState {
  program: number | null;
  memory: Record<string, ReportMemory>;
  l1_space: ReportL1Space | null;
}

export interface ReportMemory {
  banks: number | null;
  per_bank: ReportAmounts | null;
  all_banks: ReportAmounts | null;
  fragmentation: number | null;
  blocks: ReportBlock[] | null;
}

export interface ReportAmounts {
  total: number;
  allocated: number;
  free: number;
  largest_free: number | null;
}

export interface ReportBlock {
  ident: number;
  address: number;
  size: number;
  previous: number | null;
  next: number | null;
  allocated: boolean;
}

export interface ReportL1Space {
  largest_free: number;
  times_banks: number;
}

/** Compares what the server tracks with the report. */
export interface ReportShare {
  tracked: number | null;
  reported: number | null;
  share: number | null;
}

/** Times are seconds after the start of the recording. */
export interface Stats {
  schema: "ttmem.stats/1";
  command: string | null;
  begin: string;
  length_s: number;
  from_s: number;
  until_s: number;
  chips: string[];
  other_chips: number;
  processes: number;
  records: number;
  events: number;
  launches: number;
  lost: number;
  failures: number;
  uncertain: UncertainRow[];
  problems: string[];
  kinds: StatsKindRow[];
  sizes: StatsSizePool[];
  tops: StatsTop[];
  lives: StatsLives[];
  freed_late: StatsFreedLate;
  fragmentation: StatsFragmentation[];
  phases: StatsPhase[];
  programs: StatsPrograms;
  kernel_ring: StatsKernelRing | null;
  host: StatsHost | null;
}

/**
 * `start` and `made`, less `freed`, is `live`; `temporary` is a part of `made`.
 *
 * Bytes are sums over the selected chips.
 */
export interface StatsKindRow {
  kind: string;
  start: CountAndBytes;
  made: CountAndBytes;
  freed: CountAndBytes;
  live: CountAndBytes;
  temporary: CountAndBytes;
  peak: StatsPeak | null;
}

export interface StatsPeak {
  per_chip: number;
  chips: string[];
  after_s: number;
}

export interface StatsSizePool {
  pool: string;
  rows: StatsSize[];
}

/** Allocations whose size on a chip is at least `at_least` and less than twice that. */
export interface StatsSize {
  at_least: number;
  count: number;
  bytes: number;
}

export interface StatsTop {
  pool: string;
  by: string;
  groups: number;
  rows: StatsCause[];
}

export interface StatsCause {
  count: number;
  bytes: number;
  key: string | null;
  temporary: CountAndBytes;
  live: CountAndBytes;
  rank: StatsRank;
}

export interface StatsRank {
  bytes: number;
  count: number;
  temporary: number;
}

/** How the allocations of a kind ended; all counts together are the allocations made in the window. */
export interface StatsLives {
  kind: string;
  freed: number;
  program_destroyed: number;
  device_closed: number;
  process_exited: number;
  unknown: number;
  live: number;
  seconds: StatsAges | null;
}

export interface StatsAges {
  median: number;
  p90: number;
  p99: number;
  longest: number;
}

export interface StatsFreedLate {
  groups: number;
  count: number;
  rows: StatsLate[];
}

export interface StatsLate {
  count: number;
  bytes: number;
  pool: string;
  line: string | null;
  op: string | null;
  device_closed: number;
  process_exited: number;
  longest_s: number;
}

export interface StatsFragmentation {
  kind: string;
  allocators: number;
  examined: number;
  moments: number;
  bank_size: number;
  banks: number;
  worst: StatsFreeBlock | null;
  smallest: StatsFreeBlock | null;
  series: StatsFreeBlock[];
}

/** Free bytes of a bank, and the largest free block in it. */
export interface StatsFreeBlock {
  after_s: number;
  free: number;
  largest: number;
  chips: string[];
}

export interface StatsPhase {
  phase: string;
  pid: number | null;
  runs: number;
  moments: number;
  dram: StatsFreeBlock | null;
  l1: StatsFreeBlock | null;
}

export interface StatsPrograms {
  start: number;
  compiled: number;
  destroyed: number;
  live: number;
  tenths: StatsTenth[];
}

export interface StatsTenth {
  until_s: number;
  compiled: number;
  destroyed: number;
  live: number;
}

export interface StatsKernelRing {
  used_max: number;
  size: number | null;
  op: string | null;
  line: string | null;
  after_s: number;
  chips: string[];
}

export interface StatsHost {
  samples: number;
  first: StatsHostSample;
  peak: StatsHostSample;
  last: StatsHostSample;
}

export interface StatsHostSample {
  after_s: number;
  processes: number;
  resident: number;
  huge_pages: number;
  dram: number;
  l1_buffers: number;
}

export interface CallTree {
  schema: "ttmem.tree/1";
  time: string;
  search: string | null;
  pools: CallTreePool[];
}

/** `children` are the outermost callers. */
export interface CallTreePool {
  bytes: number;
  per_chip: number;
  chips: number;
  count: number;
  pool: string;
  children: CallTreeNode[];
}

/** A frame or an operation, and what it and its `children` allocated. */
export interface CallTreeNode {
  bytes: number;
  per_chip: number;
  chips: number;
  count: number;
  name: string;
  type: "frame" | "ttnn" | "op" | "unknown";
  children: CallTreeNode[];
}

export type ColumnType = "u8" | "u16" | "u32" | "i64";

export interface PageColumn {
  name: string;
  type: "u8" | "u16" | "u32" | "i64";
  count: number;
  delta: boolean;
}

/** A section: columns, or a JSON text if `columns` is null. `bytes` is its compressed size. */
export interface PageSection {
  bytes: number;
  columns: PageColumn[] | null;
}

/** What a page shows of a recording. Large parts are in sections; their names are keys of `sections`. */
export interface Report {
  schema: "ttmem.report/1";
  ttmem: string;
  made: string;
  title: string;
  confidential: boolean;
  facts: ReportFact[];
  begin: string;
  begin_s: number;
  length_ns: number;
  records: number;
  events: number;
  launches: number;
  verdict: ReportVerdict;
  losses: ReportLosses;
  notes: string[];
  kinds: string[];
  pools: Record<string, number[]>;
  strings: string[];
  stacks: ReportStacks;
  sites: ReportSite[];
  groups: ReportGroup[];
  phases: ReportPhase[];
  marks: ReportMark[];
  moments: ReportMoment[];
  allocations: ReportAllocations;
  explained: RunFailure[];
  leaks: Leaks | null;
  sizing: SizingRow[] | null;
  stats: Stats;
  sections: Record<string, PageSection>;
}

/** A fact of the run, as text: command, host, board, ttnn, commit, exit code. */
export interface ReportFact {
  label: string;
  value: string;
}

/** `lines` are two sentences: what happened, and what made the peak or holds the memory. */
export interface ReportVerdict {
  status: "fits" | "out_of_memory" | "leaks" | "cannot_tell";
  lines: string[];
}

/** What the recording lacks. Each gap is a time range in which records of a process were lost. */
export interface ReportLosses {
  lost: number;
  gaps: ReportGap[];
  uncertain: string[];
  problems: string[];
  finished: boolean;
}

export interface ReportGap {
  pid: number;
  from_ns: number;
  until_ns: number;
  records: number;
}

/**
 * A tree of frames: node *n* is frame `name[n]` (a string) below node `parent[n]`, -1 for an outermost one.
 *
 * `type` is "frame" for a line of the program, "ttnn" for frames of ttnn itself.
 */
export interface ReportStacks {
  parent: number[];
  name: number[];
  type: ("frame" | "ttnn")[];
}

/**
 * What makes allocations: operation, shape, line and stack, for one kind.
 *
 * `other` is set for the rest of a kind: call sites that have no entry of their own; `op` is then -1.
 */
export interface ReportSite {
  kind: number;
  op: number;
  shape: number;
  line: number;
  stack: number;
  part: number;
  other: number;
}

/**
 * Chips that hold the same buffers at every moment. The programs of `shown_chip` are shown.
 *
 * The buckets of `timeline` divide the time from 0 to `length_ns` equally; those of a level divide its range.
 * `windows` has columns time (i64 ns of each edge, ascending; the first is -1, before everything, the last
 * `length_ns` - 1), site (u32), and for each of these sites one value per edge, site by site: allocated, freed (i64,
 * bytes) and made, ended (u32, allocations). They are sums up to and including the edge. What was live at the start is
 * in the first edge.
 */
export interface ReportGroup {
  name: string;
  chips: string[];
  chip_names: string[];
  shown_chip: string;
  differences: string[];
  pools: ReportPool[];
  series: ReportSeries[];
  timeline: string;
  levels: ReportLevel[];
  windows: string | null;
  maps: ReportMap[];
}

/** The peak of a pool on a chip, and the call sites that were live then, most bytes first. */
export interface ReportPool {
  pool: string;
  capacity: number | null;
  peak: number;
  peak_at_most: number | null;
  peak_ns: number | null;
  at_peak: ReportShare[];
  rest: number;
  end: number;
  smallest_largest_free: number | null;
  banks: number | null;
}

export interface ReportShare {
  site: number;
  count: number;
  bytes: number;
}

/**
 * One line of a chart. Its columns in a timeline section are `NAME.low`, `NAME.high` and `NAME.last`.
 *
 * -1 is a value that is not known. `panel` says which series are drawn on one axis.
 */
export interface ReportSeries {
  name: string;
  label: string;
  unit: "bytes" | "per_second" | "count";
  panel: string;
  capacity: number | null;
  confidence: string;
}

/** A part of the timeline in more detail, with the same series. */
export interface ReportLevel {
  from_ns: number;
  until_ns: number;
  section: string;
}

/**
 * Addresses over time in one bank; for L1 the same on all cores.
 *
 * `rectangles` has columns begin, end (i64 ns; -1: live at the end), address, size (i64), site (u32), row (i64:
 * number of the allocation). `coverage` has one u8 column `used` of `columns` x `rows` cells, column by column
 * from the lowest address: the part of the cell that is in use by allocations that have no rectangle, 0 to 255.
 * `reach` has begin, end (i64 ns), top (i64 address), site (u32): up to which address the programs reach, or null.
 */
export interface ReportMap {
  pool: string;
  label: string;
  base: number;
  size: number;
  banks: number;
  main_base: number;
  main_size: number;
  total: number;
  rectangles: string;
  coverage: string | null;
  columns: number;
  rows: number;
  reach: string | null;
}

export interface ReportPhase {
  name: string;
  pid: number | null;
  depth: number;
  from_ns: number;
  until_ns: number | null;
  groups: number[];
}

/** `explained` is the index of its explanation. `count` is how many there were about that time. */
export interface ReportMark {
  type: "failure" | "compile" | "mark" | "peak" | "close";
  time_ns: number;
  text: string;
  group: number;
  explained: number | null;
  count: number;
}

/** A moment with maps of the cores: `cores` is a JSON section with a `CoresAtMoment`. */
export interface ReportMoment {
  time_ns: number;
  words: string;
  group: number;
  cores: string;
}

/** The document of `ttmem l1`, and the maps of cores; cores that are alike have one entry. */
export interface CoresAtMoment {
  cores: Record<string, unknown>;
  details: CoresAlike[];
}

export interface CoresAlike {
  at: number[][];
  detail: Record<string, unknown>;
}

/**
 * A selection of the allocations. `section` has columns id, begin, end, address, size, counted (i64), ended_by,
 * kind, chosen (u8), groups, site, program (u32).
 *
 * `id` is the row of the table, as in `ReportMap`. `end` is -1 if it is live at the end, `address` if it is not
 * known. `groups` has a bit for each of the first 32 chip groups that have it. `ended_by` is an index into
 * `ends`. `chosen` has bits: 1 among the largest, 2 among the longest-lived, 4 never
 * freed, 8 live at a peak, 16 freed late (only when its device was closed or its process exited).
 */
export interface ReportAllocations {
  section: string;
  rows: number;
  total: number;
  ends: string[];
}

/**
 * What a page shows of two recordings: what differs, and of each its timeline and the sums of its call sites.
 *
 * `strings`, `stacks` and `sites` are those of both recordings: call sites that are the same in both, as
 * `ttmem diff` matches them, are one. `rows` has the call sites of each row of `diff`, by its pool.
 */
export interface DiffReport {
  schema: "ttmem.diff_report/1";
  ttmem: string;
  made: string;
  title: string;
  diff: Diff;
  counts: string[];
  more_is_better: string[];
  kinds: string[];
  pools: Record<string, number[]>;
  strings: string[];
  stacks: ReportStacks;
  sites: ReportSite[];
  rows: Record<string, number[][]>;
  old: DiffReportSide;
  new: DiffReportSide;
}

/**
 * One of two recordings, as in `Report`. `moment_ns` is the moment that was compared.
 *
 * `sites` has the call site of `DiffReport` for each number in the windows of `groups`, which have no maps.
 * In the file, the names of `sections` begin with "old/" or "new/".
 */
export interface DiffReportSide {
  title: string;
  begin: string;
  length_ns: number;
  moment_ns: number;
  facts: ReportFact[];
  verdict: ReportVerdict;
  losses: ReportLosses;
  notes: string[];
  groups: ReportGroup[];
  phases: ReportPhase[];
  marks: ReportMark[];
  sites: number[];
  sections: Record<string, PageSection>;
}

/** What the live page of `ttmem web` knows from the start. */
export interface LivePage {
  ttmem: string;
  host: string;
  user: string;
  ssh: string | null;
  file: string | null;
}
