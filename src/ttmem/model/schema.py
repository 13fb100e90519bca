# SPDX-License-Identifier: Apache-2.0
"""The type of every JSON document: one TypedDict for each document, and one for each kind of row in it.

Rules:

* Bytes are integers. ``None`` is "not known", never 0. Only keys that are ``| None`` here may be null.
* A document names its schema in the key ``schema``. The constant with that name is next to the code that builds it.
* A class with ``total=False`` has the optional keys; its docstring states when they are present.

Import this module under ``TYPE_CHECKING`` only. Creating the classes takes 20 to 40 ms, about as long as all of `ttmem
smi`, and nothing needs them at run time. A test checks that no command loads it; others check that real documents have
exactly these keys, and that docs/json.md and docs/api.md list them.

It has more than 500 lines because it is a list of everything that ttmem outputs, in one place.
"""

from __future__ import annotations

from typing import Literal, TypedDict

# -- words that occur in many documents ------------------------------------------------------------------------------

CountedKind = Literal["dram", "l1", "l1_small", "trace", "cb"]  # the kinds that tt-metal's own counters have
MainPool = Literal["dram", "l1"]  # the pools that have a capacity
KindBytes = dict[str, int]  # bytes by kind of memory; a kind of which there is nothing may be left out


class Anomalies(TypedDict):
    """Number of events that contradict the account, by kind of anomaly (docs/accounting.md, rule 15)."""

    unknown_free: int
    double_free: int
    ambiguous: int
    misrouted: int
    replaced: int
    rejected: int
    dropped: int
    after_exit: int
    resynced: int


class UncertainRow(TypedDict):
    """A reason why numbers may be wrong, and how often an agent counted it."""

    reason: str
    count: int


class CountAndBytes(TypedDict):
    count: int
    bytes: int


class SumOverChips(TypedDict):
    """Bytes on all ``chips`` together, and on the one that has most of them.

    ``per_chip`` is the same on each chip if ``per_chip * chips == bytes``.
    """

    bytes: int
    per_chip: int
    chips: int


class CountOverChips(SumOverChips):
    """Allocations, each counted once for all its chips, and their bytes."""

    count: int


class PoolAmounts(TypedDict):
    """Allocations of any kind; their bytes are given for each pool, because those of different pools do not add up."""

    count: int
    pools: dict[str, CountOverChips]


class CoreWrite(TypedDict):
    """The core that an allocation was written to, and the region at that address."""

    x: int
    y: int
    address: int
    what: str


class AllocationRow(TypedDict):
    """One live allocation, once for all its chips. ``size`` and ``reserved`` are its bytes on each of them.

    ``chips`` are the requested chips that it is on, in the order of its mesh; ``other_chips`` the rest.
    """

    pid: int | None
    chips: list[str]
    other_chips: list[str]
    devices: list[int]
    kind: str
    id: str
    address: int
    size: int
    reserved: int | None
    refs: int
    since: float
    program: int | None
    cores: str | None
    core: CoreWrite | None
    shared: bool
    layout: str | None
    core_count: int | None
    per_core: bool
    tag: str | None
    operation: str | None
    shape: str | None
    line: str | None
    stack: list[str] | None
    source: str
    confidence: str
    not_counted: list[str]


# -- snapshot: GET /snapshot, ttmem smi --json -----------------------------------------------------------------------


class Snapshot(TypedDict):
    """The whole machine at one moment."""

    schema: Literal["ttmem.snapshot/1"]
    time: str
    host: str
    server: ServerRow | None
    sources: list[SourceState]
    driver: Driver | None
    chips: list[ChipRow]
    processes: list[ProcessRow]
    sums: Sums | None
    anomalies: Anomalies
    notes: list[Note]


class ServerRow(TypedDict):
    pid: int
    since: str
    events: int
    version: str
    clients: int
    lost_to_readers: int


class SourceState(TypedDict):
    """A source of a snapshot, and whether it could be read."""

    name: str
    state: str
    detail: str | None


class Driver(TypedDict):
    version: str | None
    loaded: bool


class Note(TypedDict):
    """A sentence about a chip or a process."""

    what: str
    chip: str | None
    pid: int | None
    text: str


class ChipRow(TypedDict):
    chip: str
    pci: str | None
    kmd: int | None
    arch: str | None
    board: str | None
    remote: bool | None
    identity: str
    unique_id: str | None
    joined_by: str | None
    held: bool | None
    serial: str | None
    asic_id: str | None
    firmware: Firmware
    pcie: PcieLink | None
    telemetry: Telemetry | None
    shm: ChipCounters | None
    memory: MemoryRow


class Firmware(TypedDict, total=False):
    """The versions that the driver shows; they depend on the chip."""

    bundle: str
    m3app: str
    m3bl: str
    arc: str
    eth: str
    ttflash: str


class PcieLink(TypedDict):
    speed_gts: float | None
    width: int | None
    max_speed_gts: float | None
    max_width: int | None
    numa: int | None


class DriverTelemetry(TypedDict):
    """The telemetry in the driver's files."""

    temperature_c: float | None
    temperature_max_c: float | None
    power_w: float | None
    power_max_w: float | None
    current_a: float | None
    current_max_a: float | None
    voltage_mv: int | None
    voltage_max_mv: int | None
    aiclk_mhz: int | None
    axiclk_mhz: int | None
    arcclk_mhz: int | None
    fan_rpm: int | None
    heartbeat: int | None
    alive: bool | None
    therm_trips: int | None
    state: str
    age_s: float | None
    implausible: dict[str, str]


class Telemetry(DriverTelemetry, total=False):
    """Adds values that only tt-umd can read. These keys are present if it was requested."""

    temperature_shutdown_c: float | None
    board_temperature_c: float | None
    dram_temperature_c: float | None
    board_power_w: float | None
    board_power_max_w: float | None
    aiclk_max_mhz: int | None
    fan_percent: float | None
    dram_speed: float | None
    dram_status: str | None


class CountedBytes(TypedDict):
    """Bytes by the kinds that tt-metal's own counters have."""

    dram: int
    l1: int
    l1_small: int
    trace: int
    cb: int


class StaleBytes(TypedDict):
    """Totals of the counters minus the bytes of living processes; there is no total of circular buffers."""

    dram: int
    l1: int
    l1_small: int
    trace: int
    cb: None


class ChipCounters(TypedDict):
    """tt-metal's own counters of a chip."""

    state: str
    why: str | None
    version: int | None
    live: CountedBytes | None
    stale: StaleBytes | None
    totals: CountedBytes | None
    updated: float | None


class MemoryRow(TypedDict):
    """The memory of a chip, pool by pool."""

    dram: DramRow
    l1: L1Row
    system: SystemMemory
    host: HostMemory
    reporter: ReporterRow
    completeness: float | None
    uncertain: list[ChipUncertainRow]
    confidence: ConfidenceBytes
    missing: list[str]
    unseen: list[UnseenRow]


class DramRow(TypedDict):
    used: int | None
    reserved: int | None
    capacity: int | None
    capacity_basis: str | None
    peak: int | None
    peak_at_most: int | None
    reserved_peak: int | None
    largest_free: int | None
    banks: int | None
    trace: TraceRow


class TraceRow(TypedDict):
    used: int | None
    reserved: int | None
    region: int | None


class L1Row(TypedDict):
    used: int | None
    reserved: int | None
    capacity: int | None
    capacity_basis: str | None
    peak: int | None
    peak_at_most: int | None
    reserved_peak: int | None
    largest_free: int | None
    bank_free: int | None
    banks: int | None
    at_once: int | None
    at_once_parts: AtOnceParts
    buffers: int | None
    small: L1SmallRow
    cb: HeldAndResident
    dfb: HeldAndResident
    scratchpad: int | None
    kernels: int | None
    scratchpad_resident: int | None
    kernels_resident: int | None
    firmware: int | None
    ring: RingRow
    physical: PhysicalL1


class AtOnceParts(TypedDict):
    """L1 in use at one time, by kind."""

    l1: int | None
    l1_small: int | None
    cb: int | None
    dfb: int | None
    scratchpad: int | None
    kernel: int | None
    firmware: int | None


class L1SmallRow(TypedDict):
    used: int | None
    reserved: int | None
    region: int | None
    peak: int | None
    peak_at_most: int | None


class HeldAndResident(TypedDict):
    held: int | None
    resident: int | None


class RingRow(TypedDict):
    used_max: int | None
    size: int | None


class PhysicalL1(TypedDict):
    """Occupied bytes of L1 and the least headroom, over the cores of a chip."""

    used: int | None
    max_core: int | None
    headroom_min: int | None
    age_s: float | None


class SystemMemory(TypedDict):
    fabric_kernels: int | None
    dispatch_kernels: int | None


class HostMemory(TypedDict):
    used: int | None


class ReporterRow(TypedDict):
    """L1 in buffers as reported by the allocators, and the tracked part of it."""

    total: int | None
    tracked: int | None
    inferred: int | None
    basis: str


class ChipUncertainRow(UncertainRow):
    """Adds the process whose agent counted it."""

    pid: int | None


class ConfidenceBytes(TypedDict):
    exact: int
    reported: int
    estimated: int


class UnseenRow(TypedDict):
    """A process for which some kinds are not known."""

    pid: int | None
    missing: list[str]


class ProcessRow(TypedDict):
    pid: int | None
    start: int | None
    user_id: int | None
    user: str | None
    name: str | None
    command: str | None
    container: str | None
    job: Job | None
    cpu_percent: float | None
    rss: int | None
    state: str
    seen: float | None
    exited: float | None
    claimed_pids: list[int]
    allocations: int | None
    sources: list[ProcessSource]
    holds: list[str]
    chips: list[ChipShare]
    failed: int
    last_failure: LastFailure | None
    uncertain: list[UncertainRow]
    anomalies: Anomalies


class Job(TypedDict):
    id: str
    name: str | None


class ProcessSource(TypedDict):
    """A source that reports on a process."""

    name: str
    confidence: str
    trouble: str | None
    unread: int
    shed: bool


class ChipShare(TypedDict):
    """The memory of a process on one chip."""

    chip: str
    metal_id: int | None
    metal_ids: list[int]
    dram: int | None
    peak_dram: int | None
    peak_dram_at_most: int | None
    l1: int | None
    peak_l1: int | None
    peak_l1_at_most: int | None
    host: int | None
    peak_host: int | None
    peak_host_at_most: int | None
    system: int | None
    peak_system: int | None
    peak_system_at_most: int | None
    kinds: KindBytes
    source: str
    shm: CountedBytes | None


class LastFailure(TypedDict):
    time: float
    text: str
    operation: str | None
    line: str | None


class Sums(TypedDict):
    """Sums over chips and processes."""

    host: HostSum
    boards: list[BoardSum]
    jobs: list[JobSum]


class HostSum(TypedDict):
    chips: list[str]
    idle: int
    processes: int
    dram: DramSum
    l1: L1Sum


class BoardSum(HostSum):
    serial: str | None
    board: str | None


class DramSum(TypedDict):
    """Each sum, and the number of chips for which it is completely known."""

    used: int | None
    used_on: int
    reserved: int | None
    reserved_on: int
    capacity: int | None
    capacity_on: int


class L1Sum(DramSum):
    at_once: int | None
    at_once_on: int


class JobSum(TypedDict):
    id: str | None
    name: str | None
    chips: list[str]
    processes: int
    states: StateCounts
    dram: JobPoolSum
    l1: JobPoolSum


class StateCounts(TypedDict):
    tracked: int
    untracked: int
    stale: int
    exited: int


class JobPoolSum(TypedDict):
    used: int | None
    used_on: int
    reserved: int | None
    reserved_on: int


# -- processes: GET /processes, GET /processes/{pid} -----------------------------------------------------------------


class Processes(TypedDict):
    schema: Literal["ttmem.processes/1"]
    processes: list[ProcessDetail]


class ProcessDetail(ProcessRow, total=False):
    """Adds the largest allocations that it held when it exited; only in ``/processes/{pid}``."""

    largest: list[AllocationRow]


# -- health: GET /health ---------------------------------------------------------------------------------------------


class ServerFigures(TypedDict):
    """Figures about the server itself, for /health, /metrics and the snapshot."""

    status: str
    parts: list[PartRow]
    pid: int
    since: float
    version: str
    clients: int
    accepted: int
    live_allocations: int
    unread_replies: int
    socket: str


class Health(TypedDict):
    schema: Literal["ttmem.health/1"]
    status: str
    parts: list[PartRow]
    pid: int
    since: str
    version: str
    clients: int
    accepted: int
    live_allocations: int
    unread_replies: int
    socket: str
    events: int


class PartRow(TypedDict):
    """A task that the server repeats at intervals."""

    name: str
    state: str
    detail: str | None
    since: float | None
    failures: int


# -- allocations: GET /allocations -----------------------------------------------------------------------------------


class Allocations(TypedDict):
    schema: Literal["ttmem.allocations/1"]
    matched: int
    pools: dict[str, SumOverChips]
    offset: int
    allocations: list[AllocationRow]


# -- breakdown: GET /breakdown ---------------------------------------------------------------------------------------


class Breakdown(TypedDict):
    schema: Literal["ttmem.breakdown/1"]
    by: str
    pools: list[BreakdownPoolRow]


class BreakdownSum(CountOverChips):
    """Allocations of one pool. ``other_chips`` is the number of chips that they are on and that were not requested."""

    reserved: int | None
    other_chips: int


class BreakdownPoolRow(BreakdownSum):
    pool: str
    groups: int
    rows: list[BreakdownRow]


class BreakdownAmounts(BreakdownSum):
    largest: int
    kinds: KindBytes


class BreakdownRow(BreakdownAmounts, total=False):
    """Adds one of these keys: the one that ``by`` names."""

    op: str | None
    line: str | None
    stack: str | None
    shape: str | None
    program: str | None
    kind: str | None


# -- peaks: GET /peaks, POST /peaks/reset ----------------------------------------------------------------------------


class Peaks(TypedDict):
    schema: Literal["ttmem.peaks/1"]
    since: str
    reset: str | None
    peaks: list[PeakRow]


class TotalOfChip(TypedDict):
    chip: str


class TotalName(TotalOfChip, total=False):
    """A ``pool`` or a ``kind`` on a chip; for one process, a kind on one ``device`` of the process."""

    pool: str
    device: int
    kind: str


class PeakOfChips(TypedDict):
    chips: list[str]


class PeakName(PeakOfChips, total=False):
    """A ``pool`` or a ``kind`` on each of some chips; for one process, a kind on these ``devices`` of the process."""

    pool: str
    devices: list[int]
    kind: str


class PeakRow(PeakName):
    """A peak that several chips have in common, with the same allocations."""

    per_chip: int
    at_most: int | None
    time: float | None
    largest: list[AllocationRow]


class PeakGroup(TypedDict):
    """Allocations that were live at a peak and are alike."""

    count: int
    size: int  # of each
    tag: str | None
    shape: str | None
    line: str | None


class PeaksReset(TypedDict):
    schema: Literal["ttmem.peaks_reset/1"]
    reset: str


# -- phases: GET /phases ---------------------------------------------------------------------------------------------


class Phases(TypedDict):
    schema: Literal["ttmem.phases/1"]
    processes: list[ProcessPhases]


class PhasesHead(TypedDict):
    """The process, and the number of its phases that are not completely kept or listed."""

    pid: int | None
    start: int | None
    state: str
    left_out: int
    missed: int


class ProcessPhases(PhasesHead):
    open: list[OpenPhase]
    ended: list[EndedPhase]


class OpenPhaseHead(TypedDict):
    path: str | None
    since: float
    complete: bool


class OpenPhase(OpenPhaseHead):
    rows: list[OpenPhaseRow]


class EndedPhaseHead(TypedDict):
    """All runs of one path."""

    path: str | None
    runs: int
    partial: int
    seconds: float
    since: float
    until: float


class EndedPhase(EndedPhaseHead):
    rows: list[EndedPhaseRow]


class PhaseRun(TypedDict):
    """A total in one run of a phase."""

    begin: int
    peak: int
    end: int
    delta: int


class OpenPhaseRow(TotalName):
    begin: int
    peak: int
    end: int
    delta: int


class EndedPhaseRow(TotalName):
    peak: int
    delta: int
    last: PhaseRun


# -- history: GET /history -------------------------------------------------------------------------------------------


class HistoryHead(TypedDict):
    schema: Literal["ttmem.history/1"]
    step: int
    since: float
    until: float
    left_out: int


class History(HistoryHead):
    series: list[HistorySeries]


class HistorySeries(TypedDict):
    """One quantity of one chip, as columns of equal length."""

    chip: str
    kind: str
    time: list[int]
    last: list[float]
    max: list[float]


# -- headroom: GET /headroom -----------------------------------------------------------------------------------------


class Headroom(TypedDict):
    schema: Literal["ttmem.headroom/1"]
    chips: list[ChipHeadroom]


class ChipHeadroom(TypedDict):
    chip: str
    floor: int | None
    floor_holder: AllocationRow | None
    launched: list[ProgramHeadroom]
    worst_cached: ProgramHeadroom | None


class ProgramHeadroom(TypedDict):
    program: int
    pid: int | None
    end: int
    headroom: int | None


# -- cores: GET /cores, ttmem l1 --json ------------------------------------------------------------------------------


class Cores(TypedDict):
    """The physical L1 of a chip. For a chip of unknown type, only ``chip`` and ``why`` are known."""

    schema: Literal["ttmem.cores/1"]
    chip: str
    why: str | None
    age_s: float | None
    basis: str | None
    grid: Grid | None
    dispatch: list[Grid]
    harvested: int | None
    l1: L1Layout | None
    used: int | None
    max_core: int | None
    headroom_min: int | None
    floor: FloorRow
    overlaps: list[list[OwnerRow]]
    unplaced: list[UnplacedRow]
    warnings: list[str]
    programs: list[CoreProgram]
    cores: list[CoreRow]
    core: CoreDetail | None


class Grid(TypedDict):
    """The size of the compute grid, or the coordinates of a core."""

    x: int
    y: int


class L1Layout(TypedDict):
    """The boundaries of the parts of a core's L1, as addresses."""

    size: int
    map_end: int
    base: int
    small_start: int


class FloorRow(TypedDict):
    address: int | None
    owner: OwnerRow | None


class OwnerRow(TypedDict):
    """An allocation in the L1 of a core."""

    pid: int | None
    name: str | None
    kind: str
    address: int
    size: int
    tag: str | None
    program: int | None
    operation: str | None
    allocator: int | None
    source: str


class UnplacedRow(TypedDict):
    why: str
    allocations: int
    bytes: int


class CoreProgram(TypedDict):
    pid: int | None
    name: str | None
    device: int
    program: int
    metal_id: int | None
    operation: str | None
    ring: int | None


class CoreRow(TypedDict):
    """One core. ``program`` is an index into the list of programs."""

    x: int
    y: int
    used: int | None
    free: int | None
    unknown: int | None
    largest_free: int | None
    overlap: int | None
    headroom: int | None
    end: int | None
    program: int | None
    worst: WorstProgram | None


class WorstProgram(TypedDict):
    program: int | None
    end: int
    headroom: int | None


class CoreDetail(TypedDict):
    x: int
    y: int
    top: OwnerRow | None
    segments: list[SegmentRow]
    listed_to: int | None
    kernels: list[KernelRow]


class SegmentRow(TypedDict):
    start: int
    end: int
    kind: str
    owners: list[SegmentOwner]
    inside: list[OwnerRow]


class SegmentOwner(OwnerRow):
    """Adds whether the buffer has data on this core, or only reserves the addresses."""

    data: bool | None


class KernelRow(TypedDict):
    tag: str | None
    size: int


# -- dump: GET /dump, ttmem dump --json ------------------------------------------------------------------------------


class Dump(TypedDict):
    schema: Literal["ttmem.dump/1"]
    time: str
    total: int
    groups: list[DumpGroup]
    anomalies: Anomalies
    uncertain: list[UncertainRow]


class DumpGroup(TypedDict):
    """All allocations on the same chips. ``other_chips``: they are also on these, which were not requested."""

    chips: list[str]
    other_chips: list[str]
    devices: list[int]
    kinds: list[DumpKind]


class DumpKind(CountOverChips):
    kind: str
    reserved: int | None
    large: CountAndBytes
    small: CountAndBytes
    allocations: list[AllocationRow]


# -- leaks: GET /leaks, ttmem leaks --json ---------------------------------------------------------------------------


class Leaks(TypedDict):
    schema: Literal["ttmem.leaks/1"]
    time: str
    since: str
    tracked_s: float
    judged: list[JudgedRow]
    verdict: LeakVerdict
    losses: Losses
    uncertain: list[UncertainRow]
    doubts: list[str]
    growing: list[LeakRow]
    held: list[LeakRow]
    left_out: LeaksLeftOut
    ignored: int
    program_cache: ProgramCacheRow
    trace: HeldRow
    system: HeldRow
    dead_process: list[DeadProcessRow]


JudgedRow = TypedDict(
    "JudgedRow",
    {"pid": "int | None", "by": str, "name": "str | None", "steps": int, "from": "float | None",
     "until": "float | None"},
)  # fmt: skip


class LeaksLeftOut(PoolAmounts):
    groups: int


class LeakVerdict(LeaksLeftOut):
    leak: bool


class Losses(TypedDict):
    dropped: int
    unknown_free: int


class HeldAges(TypedDict):
    oldest_s: float | None
    youngest_s: float | None


class HeldRow(PoolAmounts, HeldAges):
    """Allocations that are held for the same reason, and their ages."""


class ProgramCacheRow(HeldRow):
    likely: HeldRow


class LeakRow(CountAndBytes, HeldAges):
    """Allocations of one process and kind on the same chips with one origin; without a shape, of one ``size``."""

    pid: int | None
    name: str | None
    chips: list[str]
    other_chips: list[str]
    per_chip: int
    kind: str
    op: str | None
    line: str | None
    stack: list[str] | None
    shape: str | None
    size: int | None
    above_baseline: int | None
    growth: GrowthRow | None


class GrowthRow(TypedDict):
    """How a group grows. ``history`` has its number of allocations after each sixteenth of the steps."""

    since: float
    count: int
    per_step: float | None
    per_minute: float
    bytes_per_minute: float
    history: list[int] | None


class DeadProcessRow(PoolAmounts):
    """What a process held when it exited."""

    pid: int | None
    name: str | None
    exited: float
    ago_s: float
    largest: list[AllocationRow]


# -- diff: ttmem diff --json -----------------------------------------------------------------------------------------


class Diff(TypedDict):
    schema: Literal["ttmem.diff/1"]
    by: str
    old: DiffSide
    new: DiffSide
    headline: str
    same: bool
    figures: list[DiffFigure]
    pools: list[DiffPool]
    lives: list[DiffLife]
    exceeded: list[str]


class DiffSide(TypedDict):
    file: str
    what: str
    moment: str
    command: str | None
    boards: dict[str, int]
    incomplete: list[str]


class DiffFigure(TypedDict):
    """A figure of the whole run; null if it is not known."""

    name: str
    what: str
    old: int | None
    new: int | None
    change: int | None


class DiffPool(TypedDict):
    """What was held at the moment, with the bytes on all chips. ``rows`` has what changed."""

    pool: str
    old: int
    new: int
    change: int
    rows: list[DiffRow]
    unchanged_groups: int
    unchanged_bytes: int


class DiffLife(TypedDict):
    """A group that is freed at another place. Lines are those of the last buffer that was made before."""

    key: str
    pool: str
    made: int
    longer: bool
    old_freed: bool
    new_freed: bool
    old_until: str | None
    new_until: str | None


class DiffRow(TypedDict):
    key: str
    what: list[str]
    old_count: int
    new_count: int
    old_bytes: int
    new_bytes: int
    change: int


# -- explanation: ttmem explain --json -------------------------------------------------------------------------------


class Explanation(TypedDict):
    schema: Literal["ttmem.explain/1"]
    file: str
    failures: int
    explained: list[ExplainedRow]


class VerdictRow(TypedDict):
    """Why an allocation failed, and what to change."""

    headline: str
    held_by: str
    failure: FailureRow
    why: str
    operation: str | None
    line: str | None
    shape: str | None
    asked: int | None
    there: int | None
    missing: int | None
    free: int | None
    size: int | None
    holders: list[HolderRow]
    held: int
    wall: BlockRow | None
    program: FailedProgram | None
    parts: list[ProgramPart]
    advice: list[AdviceRow]
    unknown: list[str]
    sections: list[SectionRow]


class SectionRow(TypedDict):
    """A section of the explanation as text."""

    heading: str
    lines: list[str]


class ExplainedRow(VerdictRow):
    """Adds where the failure is in the file, and how often it occurred."""

    where: str
    times: int


class FailureType(TypedDict):
    type: str


class FailureRow(FailureType, total=False):
    """Adds every number of the message; the keys depend on ``type`` (analyze/failure_types.py)."""

    address: int | None
    alignment: int
    allocated: int | None
    bank_size: int | None
    banks: int
    core_type: str
    cores: str
    counts: str | None
    dependent: bool
    device: int
    end: int
    floor: int
    free: int | None
    freed: int | None
    global_circular: bool
    have: int
    kernels: str | None
    kind: str
    l1_size: int
    largest: int | None
    largest_window: int | None
    limit: int
    need: int | None
    operation: str
    other: int | None
    parts: list[list[str | int]]
    per_bank: int
    placeable: int | None
    program: int
    region: int
    ring: int
    service: bool
    size: int
    start: int
    windows: int | None


class BlockRow(TypedDict):
    """A buffer in a bank."""

    kind: str
    address: int
    size: int
    per_bank: int
    allocator: int
    tag: str | None
    shape: str | None
    line: str | None
    cause: str


class HolderRow(BlockRow):
    """Buffers that differ only in their addresses: the first of them, how many there are, and the lowest addresses."""

    buffers: int
    addresses: list[int]


class FailedProgram(TypedDict):
    id: int | None
    operation: str | None


class ProgramPart(TypedDict):
    kind: str
    start: int
    end: int
    cores: str
    tag: str | None


class AdviceRow(TypedDict):
    what: str
    value: int | None
    gives: int | None
    basis: str
    blocks: list[BlockRow]
    addresses: list[int]
    note: str | None
    text: str


# -- run: ttmem run --json -------------------------------------------------------------------------------------------


class Run(TypedDict):
    schema: Literal["ttmem.run/1"]
    command: list[str]
    exit_code: int
    started: float
    ended: float
    duration_s: float
    events: int
    dropped: int
    completeness: float | None
    uncertain: list[UncertainRow]
    unseen: list[UnseenProcess]
    trouble: list[str]
    agent: AgentCounters
    anomalies: Anomalies
    sizing: list[SizingRow]
    failed: int
    failures: list[RunFailure]
    chips: list[RunChip]
    peaks: list[PeakRow]
    breakdown: RunBreakdown
    peak_time: float | None
    peak: Snapshot
    final: Snapshot
    left_known: bool
    left_earlier: LeftEarlier
    left: list[LeftRow]


class RunChip(TypedDict):
    """A chip on which something was allocated: its peaks, and what was left on it."""

    chip: str
    board: str | None
    arch: str | None
    kinds: dict[str, KindPeak]
    dram: ReservedPeak
    l1: ReservedPeak


class KindPeak(TypedDict):
    peak: int
    peak_at_most: int | None
    end: int


class ReservedPeak(TypedDict):
    """Bytes of a pool that the allocators reserved."""

    reserved_peak: int
    reserved_peak_exact: bool
    reserved_end: int
    buffer_capacity: int | None


class UnseenProcess(TypedDict):
    pid: int
    name: str


class AgentCounters(TypedDict):
    """Counters, summed over the agents of a run."""

    unknown_frees: int
    earlier_frees: int
    replaced: int
    table_full: int
    blobs_full: int
    meshes_full: int
    failures: int


class SizingRow(TypedDict):
    pid: int
    chips: list[str]
    lines: list[SizingLineRow]


class SizingLineRow(TypedDict):
    what: str
    text: str
    value: int | None
    basis: str


class RunFailure(TypedDict):
    time: float
    pid: int
    text: str
    operation: str | None
    stack: list[str] | None
    verdict: VerdictRow


class RunBreakdown(TypedDict):
    """The allocations that were live at the peak, grouped by these keys."""

    op: list[BreakdownPoolRow]
    line: list[BreakdownPoolRow]
    shape: list[BreakdownPoolRow]
    kind: list[BreakdownPoolRow]
    program: list[BreakdownPoolRow]


class LeftEarlier(TypedDict):
    """Tensors that were left over earlier; the bytes of each are those on one of its chips."""

    tensors: int
    pools: dict[str, CountAndBytes]


class LeftRow(AllocationRow):
    """An allocation that was left, and the reason why it was held."""

    cause: str


# -- fit: ttmem fit --json --------------------------------------------------------------------------------------------


class Fit(TypedDict):
    """Whether a command fits on machines, found by running it on mock devices."""

    schema: Literal["ttmem.fit/1"]
    command: list[str]
    ttnn: FitTtnn
    real_kernels: bool
    fake_weights: bool
    varied: list[FitVaried]
    boards: list[FitBoard]
    borders: list[FitBorder]
    smallest: str | None
    exit_code: int


class FitVaried(TypedDict):
    """One --vary: a list of values, or a range in which the largest value that fits is searched."""

    name: str
    searched: bool
    values: list[int]
    first: int
    last: int


class FitBorder(TypedDict):
    """The largest value of a range that fits on a machine, for one combination of the other values."""

    board: str
    values: dict[str, str]
    name: str
    largest: int | None
    next: int | None
    next_verdict: str | None
    tried: list[int]
    fits_again: list[int]


class WhatIf(TypedDict):
    """Recorded allocations, repeated by the simulated allocator: as they were, and under other conditions."""

    schema: Literal["ttmem.what_if/1"]
    recording: str
    left_out: int
    devices: list[WhatIfDevice]
    exit_code: int


class WhatIfDevice(TypedDict):
    """A device, or a mesh of devices in lock step, which has one allocator."""

    numbers: list[int]
    exact: bool
    recorded: WhatIfRun
    changed: WhatIfRun


class WhatIfRun(TypedDict):
    steps: int
    moved: int
    estimated: int
    failed: int
    failures: list[WhatIfFailure]
    banks: dict[str, WhatIfBank]


class WhatIfFailure(TypedDict):
    step: int
    name: str
    text: str
    as_recorded: bool


class WhatIfBank(TypedDict):
    """Sizes of one bank."""

    size: int
    peak: int
    largest_free_min: int


class FitTtnn(TypedDict):
    python: str
    version: str | None
    root: str


class FitBoard(TypedDict):
    """One run of the command on one machine."""

    board: str
    values: dict[str, str]
    verdict: Literal["fits", "fails", "unknown"]
    reason: str
    command_exit_code: int
    duration_s: float
    stopped: bool
    chips: int
    failures: int
    failure: FitFailure | None
    dram: FitDram | None
    phases: list[FitPhase]
    kv: FitKv | None
    l1: FitL1 | None
    l1_small: FitRegion | None
    trace: FitTrace | None
    programs: int | None
    kernel_ring: FitRing | None
    unknown: list[FitUnknown]
    notes: list[str]
    output: list[str]


class FitFailure(TypedDict):
    """The first failed allocation, with the two lines of its explanation."""

    headline: str
    held_by: str
    operation: str | None
    line: str | None


class FitDram(TypedDict):
    """The DRAM of the allocator that came closest to its limit; all sizes are of one bank."""

    banks: int
    bank_size: int
    peak: int
    largest_free_min: int


class FitPhase(TypedDict):
    """DRAM in all runs of a phase, in one bank; phases in which nothing changed are left out."""

    phase: str
    peak: int
    largest_free_min: int


class FitKv(TypedDict):
    """A KV cache that would fit beside the rest, on each chip."""

    bytes_per_token: int
    bytes: int
    tokens: int


class FitL1(TypedDict):
    """The L1 of the tightest program; all sizes are of one core. The headroom is null if no program was launched."""

    bank_size: int
    buffers_peak: int | None
    reserved_peak: int | None
    largest_free_min: int | None
    headroom: int | None
    operation: str | None
    line: str | None
    limited_by: str | None


class FitRegion(TypedDict):
    declared: int
    needed: int


class FitRing(TypedDict):
    """The kernel ring of a core, and the program that needs most of it."""

    size: int
    needed: int
    operation: str | None


class FitTrace(TypedDict):
    declared: int
    captured: int
    launches: int


class FitUnknown(TypedDict):
    """Memory that a run on mock devices does not show, and the most that it can take in one DRAM bank."""

    what: str
    text: str
    bound: int | None


# -- doctor: ttmem doctor --json, ttmem doctor --wheel --json --------------------------------------------------------


class Doctor(TypedDict):
    schema: Literal["ttmem.doctor/1"]
    time: str
    version: str
    verdict: DoctorVerdict
    findings: list[FindingRow]


class LevelCounts(TypedDict):
    broken: int
    warning: int
    unknown: int
    ok: int


class DoctorVerdict(LevelCounts):
    exit_code: int


class FindingRow(TypedDict):
    check: str
    level: str
    looked_at: str
    found: str
    todo: str | None


class Wheel(TypedDict):
    schema: Literal["ttmem.wheel/1"]
    library: str
    kinds: list[WheelKinds]
    unknown: dict[str, list[str]]
    functions: list[WheelFunction]


class WheelKinds(TypedDict):
    """A group of kinds of memory, and why the agent does not track it."""

    what: str
    tracked: bool
    reason: str | None


class WheelFunction(TypedDict):
    name: str
    role: str
    state: str
    symbol: str


# -- import: ttmem import --json -------------------------------------------------------------------------------------


class ImportSummary(TypedDict):
    """What was read, and the resulting account."""

    schema: Literal["ttmem.import/1"]
    form: str
    ttnn: str | None
    virtual: bool
    confidence: str
    completeness: float | None
    nodes: int
    operations: int
    events: int
    programs: int
    cached_runs: int
    failures: int
    began: float | None
    clock: str
    unsized: int
    lacks: list[str]
    anomalies: dict[str, int]
    chips: list[ImportChip]
    file: str
    output: str


class Import(ImportSummary):
    """Adds the names of the input file and of the recording."""

    file: str
    output: str


class ImportChip(TypedDict):
    chip: str
    device: int | None
    board: str | None
    geometry: str | None
    kinds: dict[str, ImportKind]


class ImportKind(TypedDict):
    pool: str
    used: int
    reserved: int | None
    allocations: int
    peak: int
    peak_after_s: float
    peak_operation: str | None
    peak_line: str | None


# -- memory reports: ttmem dump --reports --json ---------------------------------------------------------------------


class MemoryReports(TypedDict):
    schema: Literal["ttmem.reports/1"]
    time: str
    folder: str
    reports: list[ReportRow]
    missing: list[str]
    incomparable: str | None
    problems: list[str]


class ReportRow(TypedDict):
    prefix: str
    files: list[ReportFile]
    states: list[ReportState]
    completeness: dict[str, ReportShare] | None


class ReportFile(TypedDict):
    name: str
    modified: str
    age_s: float


class ReportState(TypedDict):
    program: int | None
    memory: dict[str, ReportMemory]
    l1_space: ReportL1Space | None


class ReportMemory(TypedDict):
    banks: int | None
    per_bank: ReportAmounts | None
    all_banks: ReportAmounts | None
    fragmentation: float | None
    blocks: list[ReportBlock] | None


class ReportAmounts(TypedDict):
    total: int
    allocated: int
    free: int
    largest_free: int | None


class ReportBlock(TypedDict):
    ident: int
    address: int
    size: int
    previous: int | None
    next: int | None
    allocated: bool


class ReportL1Space(TypedDict):
    largest_free: int
    times_banks: int


class ReportShare(TypedDict):
    """Compares what the server tracks with the report."""

    tracked: int | None
    reported: int | None
    share: float | None


# -- statistics of a recording: `ttmem stats --json` -----------------------------------------------------------------


class Stats(TypedDict):
    """Times are seconds after the start of the recording."""

    schema: Literal["ttmem.stats/1"]
    command: str | None
    begin: str
    length_s: float
    from_s: float
    until_s: float
    chips: list[str]
    other_chips: int
    processes: int
    records: int
    events: int
    launches: int
    lost: int
    failures: int
    uncertain: list[UncertainRow]
    problems: list[str]
    kinds: list[StatsKindRow]
    sizes: list[StatsSizePool]
    tops: list[StatsTop]
    lives: list[StatsLives]
    freed_late: StatsFreedLate
    fragmentation: list[StatsFragmentation]
    phases: list[StatsPhase]
    programs: StatsPrograms
    kernel_ring: StatsKernelRing | None
    host: StatsHost | None


class StatsKindRow(TypedDict):
    """``start`` and ``made``, less ``freed``, is ``live``; ``temporary`` is a part of ``made``.

    Bytes are sums over the selected chips.
    """

    kind: str
    start: CountAndBytes
    made: CountAndBytes
    freed: CountAndBytes
    live: CountAndBytes
    temporary: CountAndBytes
    peak: StatsPeak | None


class StatsPeak(TypedDict):
    per_chip: int
    chips: list[str]
    after_s: float


class StatsSizePool(TypedDict):
    pool: str
    rows: list[StatsSize]


class StatsSize(TypedDict):
    """Allocations whose size on a chip is at least ``at_least`` and less than twice that."""

    at_least: int
    count: int
    bytes: int


class StatsTop(TypedDict):
    pool: str
    by: str
    groups: int
    rows: list[StatsCause]


class StatsCause(CountAndBytes):
    key: str | None
    temporary: CountAndBytes
    live: CountAndBytes
    rank: StatsRank


class StatsRank(TypedDict):
    bytes: int
    count: int
    temporary: int


class StatsLives(TypedDict):
    """How the allocations of a kind ended; all counts together are the allocations made in the window."""

    kind: str
    freed: int
    program_destroyed: int
    device_closed: int
    process_exited: int
    unknown: int
    live: int
    seconds: StatsAges | None


class StatsAges(TypedDict):
    median: float
    p90: float
    p99: float
    longest: float


class StatsFreedLate(TypedDict):
    groups: int
    count: int
    rows: list[StatsLate]


class StatsLate(CountAndBytes):
    pool: str
    line: str | None
    op: str | None
    device_closed: int
    process_exited: int
    longest_s: float


class StatsFragmentation(TypedDict):
    kind: str
    allocators: int
    examined: int
    moments: int
    bank_size: int
    banks: int
    worst: StatsFreeBlock | None
    smallest: StatsFreeBlock | None
    series: list[StatsFreeBlock]


class StatsFreeBlock(TypedDict):
    """Free bytes of a bank, and the largest free block in it."""

    after_s: float
    free: int
    largest: int
    chips: list[str]


class StatsPhase(TypedDict):
    phase: str
    pid: int | None
    runs: int
    moments: int
    dram: StatsFreeBlock | None
    l1: StatsFreeBlock | None


class StatsPrograms(TypedDict):
    start: int
    compiled: int
    destroyed: int
    live: int
    tenths: list[StatsTenth]


class StatsTenth(TypedDict):
    until_s: float
    compiled: int
    destroyed: int
    live: int


class StatsKernelRing(TypedDict):
    used_max: int
    size: int | None
    op: str | None
    line: str | None
    after_s: float
    chips: list[str]


class StatsHost(TypedDict):
    samples: int
    first: StatsHostSample
    peak: StatsHostSample
    last: StatsHostSample


class StatsHostSample(TypedDict):
    after_s: float
    processes: int
    resident: int
    huge_pages: int
    dram: int
    l1_buffers: int


# -- what was live at a moment, by call tree: `ttmem tree --json` ----------------------------------------------------


class CallTree(TypedDict):
    schema: Literal["ttmem.tree/1"]
    time: str
    search: str | None
    pools: list[CallTreePool]


class CallTreePool(CountOverChips):
    """``children`` are the outermost callers."""

    pool: str
    children: list[CallTreeNode]


class CallTreeNode(CountOverChips):
    """A frame or an operation, and what it and its ``children`` allocated."""

    name: str
    type: Literal["frame", "ttnn", "op", "unknown"]
    children: list[CallTreeNode]
