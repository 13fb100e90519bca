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
    """The totals of whatever holds nothing yet: all chips, or all chips of a process, share them until they do."""

    __slots__ = ("kinds", "pools")

    def __init__(self) -> None:
        self.kinds = [Total() for _ in KINDS]
        self.pools = [Total() for _ in Pool]


class Chip:
    """One chip: its totals by kind and by pool, and which program ran last on which core.

    Chips on which the same leaves count share these totals (see `shared_totals`).
    """

    __slots__ = ("all_chips", "covered", "folded", "found", "geometry", "holdings", "info", "kinds", "launched",
                 "named_by", "pools", "resident")  # fmt: skip

    def __init__(
        self, info: ChipInfo, nothing: EmptyTotals | None = None, all_chips: TotalWithContents | None = None
    ) -> None:
        """``nothing`` are the totals of all chips that never held anything."""
        nothing = nothing or EmptyTotals()
        self.info = info
        self.found = False  # is it one of the machine's own, or did only a process name it
        self.named_by: int | None = None  # the user whose process named it first
        self.all_chips = all_chips  # the total over all chips, if one is kept
        # Live geometry if a process told it, else the table's figures for the board.
        self.geometry: Geometry | None = info.geometry or board_geometry(info.board, info.arch)
        self.kinds = nothing.kinds.copy()
        self.pools = nothing.pools.copy()
        self.holdings: list[Holding] = []
        self.resident: list[tuple[Program, int]] = []  # as of the launch ``folded``
        self.folded = 0
        self.launched = False  # was a launch ever seen here
        self.covered: frozenset[Kind] = frozenset()  # what the sources heard so far would have reported

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
        """The programs that ran last, each with the cores on which nothing ran after it; the latest launch last."""
        return launches.resident(self)

    def resident_bytes(self, kind: Kind) -> int | None:
        """Bytes of a kind that belong to the program last run on each core; None if no launch was ever seen."""
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
    """One process on one chip: totals by pool, and which of its sources is believed about each kind.

    Shares of the process in which the same leaves count have the same totals.
    """

    __slots__ = ("chip", "pools", "voices")

    def __init__(self, chip: Chip, nothing: list[Total]) -> None:
        """``nothing`` are the totals of all chips on which the process never held anything."""
        self.chip = chip
        self.pools = nothing.copy()
        self.voices: list[Source | None] = [None] * len(KINDS)

    def leave(self) -> None:
        """The process is not on this chip any more."""
        for total in self.pools:
            total.chips -= {self.chip}


class Failures:
    """How often the runtime threw where memory is taken, and the last times."""

    __slots__ = ("count", "last")

    KEPT = 8

    def __init__(self) -> None:
        self.count = 0
        self.last: deque[tuple[float, Failed]] = deque(maxlen=self.KEPT)

    def append(self, failure: tuple[float, Failed]) -> None:
        self.count += 1
        self.last.append(failure)


class Process:
    """A process and everything its sources hold. Once it has exited, its totals stay as they were then."""

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
        self.uncertain: Counter[str] = Counter()  # by reason: see `uncertainty`
        self.claimed: set[int] = set()
        self.count = 0  # live allocations, over all sources
        self.numbers: dict[int, Chip] = {}
        self.shares: dict[str, Share] = {}
        self.nothing = [Total() for _ in Pool]  # of chips on which it never held anything
        self.sources: dict[str, Source] = {}
        self.dead_allocations: list[DeadAllocations] = []  # once exited: what its holdings held
        self.phases = Phases(self)
        self.failures = Failures()

    def holdings(self) -> Iterator[Holding]:
        for source in self.sources.values():
            yield from source.holdings.values()

    def largest_left(self, count: int) -> list[Allocation]:
        """The largest allocations it still held when it died."""
        found = [allocation for dead in self.dead_allocations for allocation in dead.largest(count)]
        return sorted(found, key=lambda allocation: (-allocation.size, -allocation.born))[:count]


class Source:
    """One stream of reports by one process: the legacy client, our client, the agent."""

    __slots__ = ("confidence", "confirmed", "confirmed_phases", "confirmed_programs", "covered", "frees_elsewhere",
                 "generation", "holdings", "kindless", "launches", "name", "process", "stale_launches", "totals",
                 "trouble", "workloads")  # fmt: skip

    def __init__(self, process: Process, name: str, confidence: Confidence) -> None:
        self.process = process
        self.name = name
        self.confidence = confidence
        self.holdings: dict[Device, Holding] = {}
        self.totals: dict[tuple[int, Kind], Total] = {}  # what it holds of a kind on its device of a number
        self.launches: dict[Program | int, Launch] = {}  # by program or workload, the latest last
        self.stale_launches = 0  # how many programs were destroyed since these were last folded
        self.workloads: dict[int, tuple[tuple[ProgramRun, ...], tuple[tuple[Program, int], ...]]] = {}
        self.generation: int | None = None  # of the resync under way
        self.confirmed: set[Allocation] = set()
        self.confirmed_programs: set[Program] = set()
        self.confirmed_phases: set[int] = set()
        self.frees_elsewhere = False  # has it ever freed on a device other than 0
        self.covered = covers(name)  # the kinds it would report if they existed
        self.trouble: str | None = None  # in words: what it cannot see, and why
        self.kindless = name == "legacy"  # its frees do not carry the kind of what they free
