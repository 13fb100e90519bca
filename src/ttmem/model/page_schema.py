# SPDX-License-Identifier: Apache-2.0
"""The types of the data in a page: the JSON document of a report, and the columns of its binary sections.

As in `schema`: bytes are integers, ``None`` is "not known", and the module is imported under ``TYPE_CHECKING`` only.
`web/src/documents.ts` has the same types for the pages; it is generated from this module and from `schema`.

Times end in ``_ns`` and are nanoseconds since the start of the recording, always below 2**53. Bytes are those on one
chip unless a key says otherwise. An index into `Report.strings`, ``sites`` or ``groups`` is -1 if there is none.

A binary section is one compressed block (zlib format). It has the columns that its `PageSection` lists, one after the
other. A column is stored as differences if ``delta`` is set (each value less the one before; the first is unchanged),
then as byte planes: the lowest bytes of all values, the next ones, and so on. ``i64`` is read as a float of 53 bits.
"""

from __future__ import annotations

from typing import Literal, TypedDict

from ttmem.model.schema import Diff, Leaks, RunFailure, SizingRow, Stats

ColumnType = Literal["u8", "u16", "u32", "i64"]


class PageColumn(TypedDict):
    name: str
    type: ColumnType
    count: int
    delta: bool


class PageSection(TypedDict):
    """A section: columns, or a JSON text if ``columns`` is null. ``bytes`` is its compressed size."""

    bytes: int
    columns: list[PageColumn] | None


class Report(TypedDict):
    """What a page shows of a recording. Large parts are in sections; their names are keys of ``sections``."""

    schema: Literal["ttmem.report/1"]
    ttmem: str  # version
    made: str  # when the report was made
    title: str
    confidential: bool
    facts: list[ReportFact]
    begin: str
    begin_s: float
    length_ns: int  # all events are before it
    records: int
    events: int
    launches: int
    verdict: ReportVerdict
    losses: ReportLosses
    notes: list[str]  # where the page shows less than the recording has
    kinds: list[str]  # labels of kinds, by number
    pools: dict[str, list[int]]  # kinds of each breakdown pool; sizes of different pools are never added up
    strings: list[str]
    stacks: ReportStacks
    sites: list[ReportSite]
    groups: list[ReportGroup]
    phases: list[ReportPhase]
    marks: list[ReportMark]
    moments: list[ReportMoment]
    allocations: ReportAllocations
    explained: list[RunFailure]
    leaks: Leaks | None
    sizing: list[SizingRow] | None
    stats: Stats
    sections: dict[str, PageSection]


class ReportFact(TypedDict):
    """A fact of the run, as text: command, host, board, ttnn, commit, exit code."""

    label: str
    value: str


class ReportVerdict(TypedDict):
    """``lines`` are two sentences: what happened, and what made the peak or holds the memory."""

    status: Literal["fits", "out_of_memory", "leaks", "cannot_tell"]
    lines: list[str]


class ReportLosses(TypedDict):
    """What the recording lacks. Each gap is a time range in which records of a process were lost."""

    lost: int
    gaps: list[ReportGap]
    uncertain: list[str]
    problems: list[str]
    finished: bool


class ReportGap(TypedDict):
    pid: int
    from_ns: int
    until_ns: int
    records: int


class ReportStacks(TypedDict):
    """A tree of frames: node *n* is frame ``name[n]`` (a string) below node ``parent[n]``, -1 for an outermost one.

    ``type`` is "frame" for a line of the program, "ttnn" for frames of ttnn itself.
    """

    parent: list[int]
    name: list[int]
    type: list[Literal["frame", "ttnn"]]


class ReportSite(TypedDict):
    """What makes allocations: operation, shape, line and stack, for one kind.

    ``other`` is set for the rest of a kind: call sites that have no entry of their own; ``op`` is then -1.
    """

    kind: int
    op: int
    shape: int
    line: int
    stack: int  # node of `ReportStacks`
    part: int  # which part of a program
    other: int  # how many call sites it stands for, 0 for one of its own


class ReportGroup(TypedDict):
    """Chips that hold the same buffers at every moment. The programs of ``shown_chip`` are shown.

    The buckets of ``timeline`` divide the time from 0 to ``length_ns`` equally; those of a level divide its range.
    ``windows`` has columns time (i64 ns of each edge, ascending; the first is -1, before everything, the last
    ``length_ns`` - 1), site (u32), and for each of these sites one value per edge, site by site: allocated, freed (i64,
    bytes) and made, ended (u32, allocations). They are sums up to and including the edge. What was live at the start is
    in the first edge.
    """

    name: str
    chips: list[str]
    chip_names: list[str]
    shown_chip: str
    differences: list[str]  # in words: where the chips differ
    pools: list[ReportPool]
    series: list[ReportSeries]
    timeline: str
    levels: list[ReportLevel]
    windows: str | None
    maps: list[ReportMap]


class ReportPool(TypedDict):
    """The peak of a pool on a chip, and the call sites that were live then, most bytes first."""

    pool: str
    capacity: int | None
    peak: int
    peak_at_most: int | None  # None: the peak is exact
    peak_ns: int | None
    at_peak: list[ReportShare]
    rest: int  # bytes at the peak that are not in ``at_peak``
    end: int
    smallest_largest_free: int | None  # in one bank
    banks: int | None


class ReportShare(TypedDict):
    site: int
    count: int
    bytes: int


class ReportSeries(TypedDict):
    """One line of a chart. Its columns in a timeline section are ``NAME.low``, ``NAME.high`` and ``NAME.last``.

    -1 is a value that is not known. ``panel`` says which series are drawn on one axis.
    """

    name: str
    label: str
    unit: Literal["bytes", "per_second", "count"]
    panel: str
    capacity: int | None
    confidence: str


class ReportLevel(TypedDict):
    """A part of the timeline in more detail, with the same series."""

    from_ns: int
    until_ns: int
    section: str


class ReportMap(TypedDict):
    """Addresses over time in one bank; for L1 the same on all cores.

    ``rectangles`` has columns begin, end (i64 ns; -1: live at the end), address, size (i64), site (u32), row (i64:
    number of the allocation). ``coverage`` has one u8 column ``used`` of ``columns`` x ``rows`` cells, column by column
    from the lowest address: the part of the cell that is in use by allocations that have no rectangle, 0 to 255.
    ``reach`` has begin, end (i64 ns), top (i64 address), site (u32): up to which address the programs reach, or null.
    """

    pool: str
    label: str
    base: int
    size: int
    banks: int
    main_base: int  # addresses of buffers in L1 or DRAM; those outside are of L1_SMALL or traces
    main_size: int
    total: int  # allocations that there were
    rectangles: str
    coverage: str | None
    columns: int
    rows: int
    reach: str | None


class ReportPhase(TypedDict):
    name: str
    pid: int | None
    depth: int
    from_ns: int
    until_ns: int | None
    groups: list[int]


class ReportMark(TypedDict):
    """``explained`` is the index of its explanation. ``count`` is how many there were about that time."""

    type: Literal["failure", "compile", "mark", "peak", "close"]
    time_ns: int
    text: str
    group: int
    explained: int | None
    count: int


class ReportMoment(TypedDict):
    """A moment with maps of the cores: ``cores`` is a JSON section with a `CoresAtMoment`."""

    time_ns: int
    words: str
    group: int
    cores: str


class CoresAtMoment(TypedDict):
    """The document of `ttmem l1`, and the maps of cores; cores that are alike have one entry."""

    cores: dict[str, object]  # "ttmem.cores/1"
    details: list[CoresAlike]


class CoresAlike(TypedDict):
    at: list[list[int]]  # [x, y] of each core
    detail: dict[str, object]  # `CoreDetail` of the first


class ReportAllocations(TypedDict):
    """A selection of the allocations. ``section`` has columns id, begin, end, address, size, counted (i64), ended_by,
    kind, chosen (u8), groups, site, program (u32).

    ``id`` is the row of the table, as in `ReportMap`. ``end`` is -1 if it is live at the end, ``address`` if it is not
    known. ``groups`` has a bit for each of the first 32 chip groups that have it. ``ended_by`` is an index into
    ``ends``. ``chosen`` has bits: 1 among the largest, 2 among the longest-lived, 4 never
    freed, 8 live at a peak, 16 freed late (only when its device was closed or its process exited).
    """

    section: str
    rows: int
    total: int
    ends: list[str]


class DiffReport(TypedDict):
    """What a page shows of two recordings: what differs, and of each its timeline and the sums of its call sites.

    ``strings``, ``stacks`` and ``sites`` are those of both recordings: call sites that are the same in both, as
    `ttmem diff` matches them, are one. ``rows`` has the call sites of each row of ``diff``, by its pool.
    """

    schema: Literal["ttmem.diff_report/1"]
    ttmem: str  # version
    made: str
    title: str
    diff: Diff
    counts: list[str]  # figures of ``diff`` that are numbers, not bytes
    more_is_better: list[str]  # figures of ``diff`` that became worse if they are smaller
    kinds: list[str]
    pools: dict[str, list[int]]
    strings: list[str]
    stacks: ReportStacks
    sites: list[ReportSite]
    rows: dict[str, list[list[int]]]
    old: DiffReportSide
    new: DiffReportSide


class DiffReportSide(TypedDict):
    """One of two recordings, as in `Report`. ``moment_ns`` is the moment that was compared.

    ``sites`` has the call site of `DiffReport` for each number in the windows of ``groups``, which have no maps.
    In the file, the names of ``sections`` begin with "old/" or "new/".
    """

    title: str
    begin: str
    length_ns: int
    moment_ns: int
    facts: list[ReportFact]
    verdict: ReportVerdict
    losses: ReportLosses
    notes: list[str]
    groups: list[ReportGroup]
    phases: list[ReportPhase]
    marks: list[ReportMark]
    sites: list[int]
    sections: dict[str, PageSection]


class LivePage(TypedDict):
    """What the live page of `ttmem web` knows from the start."""

    ttmem: str  # version
    host: str
    user: str
    ssh: str | None  # the command with which the page is reached from another machine
    file: str | None  # name of the recording that is served, null for the current state
