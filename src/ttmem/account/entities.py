# SPDX-License-Identifier: Apache-2.0
"""The chips and processes of the account, and the sources through which processes report."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ttmem.account import launches
from ttmem.account.allocations import Allocation, Holding, Program
from ttmem.account.phases import Phases
from ttmem.account.totals import Total, TotalWithContents
from ttmem.model.geometry import Geometry, board_geometry
from ttmem.model.identity import ASSUMED, ChipInfo, ProcessInfo
from ttmem.model.kinds import KINDS, Confidence, Kind, Pool, covers

if TYPE_CHECKING:
    from ttmem.account.dead_processes import DeadAllocations
    from ttmem.account.launches import Launch
    from ttmem.model.events import Device, Failed, ProgramRun


class EmptyTotals:
    """The totals of chips that never held anything. All such chips share them."""

    __slots__ = ("kinds", "pools")

    def __init__(self) -> None:
        self.kinds = [Total() for _ in KINDS]
        self.pools = [Total() for _ in Pool]


class Chip:
    """One chip: its totals by kind and by pool, and the program that ran last on each core.

    Chips on which the same leaves count share these totals (see `shared_totals`).
    """

    __slots__ = ("all_chips", "covered", "folded", "found", "geometry", "holdings", "info", "kinds", "launched",
                 "left", "named_by", "pools", "resident")  # fmt: skip

    def __init__(
        self, info: ChipInfo, nothing: EmptyTotals | None = None, all_chips: TotalWithContents | None = None
    ) -> None:
        """``nothing`` has the totals that all chips without allocations share."""
        nothing = nothing or EmptyTotals()
        self.info = info
        self.found = False  # True: a chip of this machine; False: only a process reported it
        self.named_by: int | None = None  # the user whose process reported it first
        self.all_chips = all_chips  # the total over all chips, if the caller wants one
        # As reported by a process, else from the table of boards.
        self.geometry: Geometry | None = info.geometry or board_geometry(info.board, info.arch)
        self.kinds = nothing.kinds.copy()
        self.pools = nothing.pools.copy()
        self.holdings: list[Holding] = []
        self.resident: list[tuple[Program, int]] = []  # (program, cores) after the launch ``folded``
        self.folded = 0  # sequence number of the latest launch that ``resident`` includes
        self.launched = False  # whether any launch was seen on this chip
        self.left: float | None = None  # when something last stopped counting here, at the latest with its process
        self.covered: frozenset[Kind] = frozenset()  # kinds that its sources report if there are any

    @property
    def id(self) -> str:
        return self.info.id

    @property
    def assumed(self) -> bool:
        return self.info.id.startswith(ASSUMED)

    def totals(self) -> Iterator[Total]:
        yield from self.kinds
        yield from self.pools

    def resident_programs(self) -> list[tuple[Program, int]]:
        """The programs that ran last, each with the cores on which nothing ran after it. The latest launch is last."""
        return launches.resident(self)

    def resident_bytes(self, kind: Kind) -> int | None:
        """Bytes of a kind of the program that ran last on each core; None if launches or cores are unknown."""
        if not self.launched:
            return None
        total = 0
        for program, cores in launches.resident(self):
            leaf = program.holding.leaves[kind]
            if leaf is not None and self in leaf.chips:
                part = program.resident(kind, cores)
                if part is None:
                    return None
                total += part
        return total


class Share:
    """One process on one chip: totals by pool, and the source that counts for each kind (rule 12).

    Shares of a process in which the same leaves count have the same totals.
    """

    __slots__ = ("chip", "moved_in", "pools", "voices")

    def __init__(self, chip: Chip, nothing: list[Total]) -> None:
        """``nothing`` has the totals that all chips share on which the process never held anything."""
        self.chip = chip
        self.pools = nothing.copy()
        self.voices: list[Source | None] = [None] * len(KINDS)
        # By kind: sequence number of the last event with which earlier allocations began to count on the chip.
        self.moved_in = [0] * len(KINDS)

    def leave(self) -> None:
        """Remove the chip from the totals: the process does not use it any more."""
        for total in self.pools:
            total.chips -= {self.chip}


class Failures:
    """The number of failed allocations, and the last ones."""

    __slots__ = ("count", "last")

    KEPT = 8

    def __init__(self) -> None:
        self.count = 0
        self.last: deque[tuple[float, Failed]] = deque(maxlen=self.KEPT)

    def append(self, failure: tuple[float, Failed]) -> None:
        self.count += 1
        self.last.append(failure)


class Process:
    """A process and everything that its sources hold. After its exit, its totals stay as they were then."""

    __slots__ = (
        "anomalies",
        "claimed",
        "count",
        "dead_allocations",
        "exited",
        "failures",
        "info",
        "nothing",
        "numbers",
        "phases",
        "seen",
        "shares",
        "sources",
        "uncertain",
    )  # fmt: skip

    def __init__(self, info: ProcessInfo, time: float) -> None:
        self.info = info
        self.seen = time
        self.exited: float | None = None
        self.anomalies: Counter[str] = Counter()
        self.uncertain: Counter[str] = Counter()  # by reason, see `uncertainty`
        self.claimed: set[int] = set()  # pids in its records, which are labels only (rule 2)
        self.count = 0  # live allocations, over all sources
        self.numbers: dict[int, Chip] = {}  # by device number
        self.shares: dict[str, Share] = {}  # by chip id
        self.nothing = [Total() for _ in Pool]  # the totals of chips on which it never held anything
        self.sources: dict[str, Source] = {}
        self.dead_allocations: list[DeadAllocations] = []  # after its exit: the allocations of its holdings
        self.phases = Phases(self)
        self.failures = Failures()

    def holdings(self) -> Iterator[Holding]:
        for source in self.sources.values():
            yield from source.holdings.values()

    def largest_left(self, count: int) -> list[Allocation]:
        """The largest allocations that it still held when it exited."""
        found = [allocation for dead in self.dead_allocations for allocation in dead.largest(count)]
        return sorted(found, key=lambda allocation: (-allocation.size, -allocation.born))[:count]


class Source:
    """One stream of reports from one process: the legacy client, our client, or the agent."""

    __slots__ = ("confidence", "confirmed", "confirmed_phases", "confirmed_programs", "covered", "frees_elsewhere",
                 "generation", "held_back", "holdings", "in_gap", "kindless", "launches", "name", "process",
                 "pruned", "reset_in_gap", "shed", "stale_launches", "sweep", "swept", "totals", "trouble", "unread",
                 "workloads")  # fmt: skip

    def __init__(self, process: Process, name: str, confidence: Confidence) -> None:
        self.process = process
        self.name = name
        self.confidence = confidence
        self.holdings: dict[Device, Holding] = {}
        self.totals: dict[tuple[int, Kind], Total] = {}  # by device number and kind
        self.launches: dict[Program | int, Launch] = {}  # by program or workload id; the latest is last
        self.stale_launches = 0  # programs destroyed since `launches` was last emptied
        self.pruned = 0  # the last of `launches` when those that do not matter any more were dropped
        self.workloads: dict[int, tuple[tuple[ProgramRun, ...], tuple[tuple[Program, int], ...]]] = {}
        self.generation: int | None = None  # of the current resync; None: no resync
        self.sweep: Iterator[None] | None = None  # removes what the resync did not confirm; see `resync`
        self.swept = False  # all of it is removed
        self.confirmed: set[Allocation] = set()
        self.confirmed_programs: set[Program] = set()
        self.confirmed_phases: set[int] = set()
        self.in_gap = False  # its records are not read at the moment, or what was lost is being corrected
        self.reset_in_gap = False  # the peaks were reset meanwhile
        self.held_back: list[Total] = []  # totals that raise no peaks until it is caught up
        self.unread = 0  # records that it wrote and that are not applied yet
        self.shed = False  # it writes more than can be read: its totals are renewed about once a second
        self.frees_elsewhere = False  # whether it ever freed on a device other than 0 (rule 5)
        self.covered = covers(name)  # the kinds that it reports if there are any
        self.trouble: str | None = None  # a sentence: what it cannot see, and why
        self.kindless = name == "legacy"  # its frees do not include the kind
