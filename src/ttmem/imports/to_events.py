# SPDX-License-Identifier: Apache-2.0
"""Translates a recording of ttnn to events of the account; missing data is not invented."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ttmem.analyze.failure_messages import parse
from ttmem.analyze.failure_types import Clash
from ttmem.collect.ttnn_graph import GraphBuffer, GraphPart, GraphProgram, placed
from ttmem.imports.board_lookup import BoardLookup
from ttmem.imports.graph import TICK_SECONDS, Ended, GraphCapture, OperationFailed, Seen, Step
from ttmem.model.events import (
    Allocated,
    DeviceOpened,
    Event,
    Extra,
    Failed,
    Freed,
    ProgramCompiled,
    ProgramDestroyed,
    ProgramRun,
    Sees,
)
from ttmem.model.kinds import Confidence, Kind

BEFORE = "before the capture"
_Place = tuple[int, Kind, int]  # mesh, kind, address
_ALWAYS = (Kind.DRAM, Kind.L1, Kind.L1_SMALL, Kind.TRACE)
_VIRTUAL = (Kind.CB, Kind.DFB, Kind.SCRATCHPAD)


class _Known(NamedTuple):
    """The known properties of a buffer; 0 is unknown."""

    size: int = 0
    per_bank: int = 0
    layout: int | None = None
    cores: int = 0
    shape: str | None = None
    stack: str | None = None


class EventTranslation:
    """The events of a recording. ``programs``, ``failures`` and ``unsized`` are final after all events were read."""

    def __init__(self, recording: GraphCapture, board: str | None = None) -> None:
        self.recording = recording
        self.machine = BoardLookup(recording, board)
        self.confidence = Confidence.ESTIMATED if recording.virtual else Confidence.REPORTED
        self.began = recording.began or 0.0
        self._complete = recording.complete
        self._listed: set[_Place] = set()  # entries of _first that come only from ttnn's first list
        self._first = self._before()
        self._begin()

    def _begin(self) -> None:
        self.programs = 0
        self.failures = 0  # those that can be explained
        self.unsized = 0  # buffers left out because their size is unknown
        self._live: dict[_Place, int] = {}  # size
        self._answered = set(self._listed)  # places that ttnn's next list will confirm or not
        self._at_work: list[tuple[int, int]] = []  # chip and program, in a virtual run
        self._newest: list[ProgramCompiled] = []  # of the program before, for each chip

    # -- missing data --------------------------------------------------------------------------------------------

    def lacks(self) -> list[str]:
        """Descriptions of data that is not in the file."""
        recording = self.recording
        if recording.virtual:
            missing = ["kernels", "addresses of buffers: nothing was executed", "which programs stay cached"]
        else:
            runs = f"{recording.cached} run{'s' if recording.cached > 1 else ''}"
            cached = f" ({runs} here)" if recording.cached else ""
            missing = [
                "kernels",
                "dataflow buffers and scratchpads",
                f"circular buffers of programs that were cached before{cached}",
                "which program is resident",
            ]
        if not self._complete:
            missing.append("earlier buffers that no operation used")
        if recording.renumbered:
            missing.append("what was freed after the last operation")
        missing.append("other threads")
        if recording.stray:
            missing.append(f"which programs the {recording.stray} parts outside of any operation belong to")
        return missing

    def _sees(self) -> Sees:
        kinds = [*_ALWAYS, *(_VIRTUAL if self.recording.virtual else () if self.recording.cached else (Kind.CB,))]
        return Sees(sum(1 << kind for kind in kinds), f"not in ttnn's file: {'; '.join(self.lacks())}")

    # -- events --------------------------------------------------------------------------------------------------

    def events(self) -> Iterator[tuple[float, Event]]:
        """The events with their times, in seconds since 1970, or since the start of the capture if that is unknown."""
        self._begin()
        began = self.began
        yield began, self._sees()
        for chip in self.machine.chips:
            yield began, DeviceOpened(chip, self.machine.info(chip))
        for place, known in self._first.items():
            for event in self._came(place, known, BEFORE):
                yield began, event
        for steps in self._by_operation():
            for event in self._between(steps):
                yield began + steps[0].time, event
            for step in steps:
                for event in self._events_of(step):
                    yield began + step.time, event

    def _by_operation(self) -> Iterator[list[Step]]:
        """The steps of each operation, with those after the previous operation."""
        held: list[Step] = []
        for step in self.recording.steps:
            held.append(step)
            if isinstance(step.item, Ended):
                yield held
                held = []
        if held:
            yield held

    def _events_of(self, step: Step) -> Iterable[Event]:
        item = step.item
        if isinstance(item, GraphBuffer):
            place = item.mesh, item.kind, item.address
            if not item.came:
                return self._gone(place, item.size)
            known = _Known(item.size, item.per_bank, step.layout, step.cores, step.shape, step.stack)
            return [*(self._gone(place) if item.address else ()), *self._came(place, known, step.operation)]
        if isinstance(item, OperationFailed):
            return self._threw(item, step)
        return self._program(item, step) if isinstance(item, GraphProgram) else ()

    def _before(self) -> dict[_Place, _Known]:
        """Buffers from before the capture: freed or used without an allocation, or in the first of ttnn's lists."""
        found: dict[_Place, _Known] = {}
        came: set[_Place] = set()
        first = True
        for step in self.recording.steps:
            item = step.item
            if isinstance(item, GraphBuffer) and item.address:
                place = item.mesh, item.kind, item.address
                if not item.came and place not in came:
                    shape = found.get(place, _Known()).shape
                    found[place] = _Known(item.size, item.per_bank, step.layout, step.cores, shape)
                came.add(place)
            elif isinstance(item, Seen) and item[:3] not in came:
                place = item[:3]
                found[place] = found.get(place, _Known())._replace(size=item.size, layout=step.layout, shape=step.shape)
            elif isinstance(item, Ended) and item.number in self.recording.listings:
                for listed in self.recording.listings[item.number]:
                    place = listed[:3]
                    self._complete |= first and place not in came
                    if place in found:
                        found[place] = found[place]._replace(per_bank=found[place].per_bank or listed.per_bank)
                    elif place not in came and first:
                        found[place] = _Known(per_bank=listed.per_bank)
                        self._listed.add(place)
                    elif place not in came:
                        came.add(place)  # allocated later, in an unknown way
                first = False
        return found

    def _between(self, steps: list[Step]) -> Iterator[Event]:
        """Differences between ttnn's list after an operation and the buffers known from the operations so far.

        A database lacks what happens between operations. Its operations are complete, so a difference arose before the
        operation.
        """
        last = steps[-1].item
        listing = self.recording.listings.get(last.number, ()) if isinstance(last, Ended) else ()
        listed = {entry[:3] for entry in listing}
        meshes = {mesh for mesh, _, _ in listed}
        named = {(i.mesh, i.kind, i.address) for i in (step.item for step in steps) if isinstance(i, GraphBuffer)}
        accounted = listed | named
        for place in [place for place in self._answered if place[0] in meshes and place not in accounted]:
            yield from self._gone(place)
        for entry in listing:
            if entry[:3] not in self._live and entry[:3] not in named:
                yield from self._came(entry[:3], _Known(per_bank=entry.per_bank), None)
        self._answered |= listed

    def _came(self, place: _Place, known: _Known, tag: str | None) -> Iterator[Event]:
        mesh, kind, address = place
        reserved = self.machine.reserved(mesh, kind, known.per_bank)
        # ttnn's list has no requested sizes: use the reserved size.
        size = known.size or reserved or 0
        if not size:
            self.unsized += 1
            return
        if address:
            self._live[place] = size
            if tag is not BEFORE:
                self._answered.add(place)
        extra = Extra(
            reserved, allocator=mesh + 1, tag=tag, layout=known.layout, core_count=known.cores, shape=known.shape,
            stack=known.stack,
        )  # fmt: skip
        for chip in self.machine.meshes[mesh]:
            yield Allocated(chip, kind, address, size, extra=extra)

    def _gone(self, place: _Place, size: int = 0) -> Iterator[Event]:
        """A free. A virtual run has no addresses; then the account matches by size."""
        mesh, kind, address = place
        self._answered.discard(place)
        if self._live.pop(place, None) or (not address and size):
            for chip in self.machine.meshes[mesh]:
                yield Freed(chip, kind, address, size, allocator=mesh + 1)

    # -- programs ------------------------------------------------------------------------------------------------

    def _program(self, program: GraphProgram, step: Step) -> Iterator[Event]:
        chips = self.machine.meshes[program.mesh]
        if not self.recording.virtual:
            self._newest = []
            if program.parts:
                self.programs += 1
                for chip in sorted({part.device for part in program.parts}):
                    mine = [part for part in program.parts if part.device == chip]
                    yield from self._made(chip, program.name, mine, step)
            return
        # Each program replaces the previous one, which frees all its parts.
        yield from (ProgramDestroyed(chip, number) for chip, number in self._at_work if chip in chips)
        self._at_work = [one for one in self._at_work if one[0] not in chips]
        one_each = len(program.groups) == len(chips) > 1  # the groups are in the order of the chips
        for place, group in enumerate(program.groups):
            parts = self._placed(program.mesh, group)
            if not parts:
                continue
            self.programs += 1
            for chip in [chips[place]] if one_each else chips:
                yield from self._made(chip, program.name, parts, step)
                cores = 0
                for part in parts:
                    cores |= part.cores
                yield ProgramRun(chip, self.programs, cores)
                self._at_work.append((chip, self.programs))

    def _made(self, chip: int, name: str, parts: list[GraphPart], step: Step) -> Iterator[Event]:
        """The newest program, on a chip.

        It belongs to its operation, and its parts have the name of the inner function.
        """
        compiled = ProgramCompiled(chip, self.programs, 0, 0, step.operation or name, step.stack)
        self._newest.append(compiled)
        yield compiled
        shared: dict[tuple[int, int], int] = {}
        for part in parts:
            # Views of one tensor may have different sizes; they share its memory.
            if part.shared and shared.setdefault((part.address, part.cores), part.size) != part.size:
                continue
            extra = Extra(cores=part.cores, tag=name, shared=part.shared, stack=step.stack)
            yield Allocated(chip, part.kind, part.address, part.total, self.programs, extra=extra)

    def _threw(self, threw: OperationFailed, step: Step) -> Iterator[Event]:
        """A failure. The live allocations are those known so far. A program that was being made is removed."""
        failure = parse(threw.text)
        unfinished = self._newest if threw.programs and not self.recording.virtual else []
        if failure is not None:
            self.failures += 1
            if isinstance(failure, Clash):  # only this message has tt-metal's number of the program
                yield from (one._replace(metal_id=failure.program) for one in unfinished)
            yield Failed(None, threw.text, step.operation, step.stack)
        yield from (ProgramDestroyed(one.device, one.program) for one in unfinished)
        self._newest = []

    def _placed(self, mesh: int, group: list[GraphPart]) -> list[GraphPart]:
        """The parts of a program that was not executed, with their expected addresses.

        As a sum if these are unknown.
        """
        geometry, unit = self.machine.geometry(mesh), self.machine.unit(mesh)
        if geometry is not None and unit is not None:
            return placed((), group, geometry.l1_base, unit)
        sizes = Counter[tuple[Kind, int]]()
        for part in group:
            if not part.shared:
                sizes[part.kind, part.cores] += part.size
        return [GraphPart(mesh, kind, 0, size, cores, False) for (kind, cores), size in sizes.items()]


def step_at(recording: GraphCapture, seconds: float) -> Step | None:
    """The step at this number of seconds after the beginning; None before the first."""
    place = bisect_left(recording.steps, seconds - TICK_SECONDS / 2, key=lambda step: step.time)
    return recording.steps[place] if seconds > 0 and place < len(recording.steps) else None
