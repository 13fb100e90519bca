# SPDX-License-Identifier: Apache-2.0
"""Repeats recorded allocations on the simulated allocator, under other conditions: `ttmem fit --replay`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from ttmem.fit.recorded_steps import KINDS, Recorded, Step, Steps
from ttmem.model.geometry import BOARDS, Geometry
from ttmem.model.kinds import Kind
from ttmem.sim.allocator import Allocator
from ttmem.sim.board_types import SILICON
from ttmem.sim.errors import OutOfMemory, SimError
from ttmem.sim.tensors import BufferNeed

if TYPE_CHECKING:
    from ttmem.model import schema

SCHEMA: Final = "ttmem.what_if/1"
TABLE_NAMES = {"t3k": "n300", "galaxy": "galaxy-wormhole"}  # the chips of a machine, in the table of boards
_PAGES = (4096, 2048, 1088, 1024, 576)  # tiles; the largest that explains a size is taken
_MOST_FAILURES = 20


class Conditions(NamedTuple):
    """What is different from the recorded run; None and False change nothing."""

    board: str | None = None
    l1_small: int | None = None
    trace_region: int | None = None
    largest_first: bool = False
    free_early: Callable[[str], bool] | None = None


class Outcome(NamedTuple):
    """What the simulated allocator did."""

    steps: int
    moved: int  # buffers with another address than recorded
    estimated: int  # buffers whose size in a bank was guessed
    failures: list[schema.WhatIfFailure]
    failed: int
    banks: dict[str, schema.WhatIfBank]


def what_if(recorded: Recorded, conditions: Conditions, path: str) -> schema.WhatIf:
    """The recorded steps as they were, and under the conditions, on each device."""
    devices = [_on_device(steps, conditions) for steps in recorded.allocators]
    return {
        "schema": SCHEMA,
        "recording": path,
        "left_out": recorded.left_out,
        "devices": devices,
        "exit_code": 4 if any(device["changed"]["failed"] for device in devices) else 0,
    }


def _on_device(steps: Steps, conditions: Conditions) -> schema.WhatIfDevice:
    as_recorded = simulate(steps.steps, steps.geometry, steps.geometry, None)
    changed = steps.geometry
    if conditions.board is not None:
        table = BOARDS[TABLE_NAMES.get(conditions.board, conditions.board)]
        changed = table._replace(l1_small_size=changed.l1_small_size, trace_size=changed.trace_size)
    if conditions.l1_small is not None:
        changed = changed._replace(l1_small_size=conditions.l1_small)
    if conditions.trace_region is not None:
        changed = changed._replace(trace_size=-(-conditions.trace_region // changed.dram_banks))
    order = largest_first(steps.steps) if conditions.largest_first else steps.steps
    other = simulate(order, steps.geometry, changed, conditions.free_early)
    return {
        "numbers": list(steps.numbers),
        "exact": not as_recorded.moved,
        "recorded": _row(as_recorded),
        "changed": _row(other),
    }


def _row(outcome: Outcome) -> schema.WhatIfRun:
    return {
        "steps": outcome.steps,
        "moved": outcome.moved,
        "estimated": outcome.estimated,
        "failed": outcome.failed,
        "failures": outcome.failures,
        "banks": outcome.banks,
    }


def largest_first(steps: Sequence[Step]) -> list[Step]:
    """The steps with every run of allocations, without a free between them, in the order of their sizes."""
    places: dict[int, int] = {}
    order: list[tuple[int, Step]] = []
    run: list[tuple[int, Step]] = []

    def end_run() -> None:
        order.extend(sorted(run, key=lambda one: -one[1].per_bank))
        run.clear()

    for number, step in enumerate(steps):
        if step.frees is None:
            run.append((number, step))
        else:
            end_run()
            order.append((number, step))
    end_run()
    for place, (number, _) in enumerate(order):
        places[number] = place
    return [step if step.frees is None else step._replace(frees=places[step.frees]) for _, step in order]


def simulate(
    steps: Sequence[Step], recorded: Geometry, geometry: Geometry, free_early: Callable[[str], bool] | None
) -> Outcome:
    """Repeat steps that were recorded with one geometry with another one."""
    silicon = SILICON[geometry.arch]
    allocator = Allocator(
        geometry,
        dram_base=silicon.dram_base,
        dram_alignment=silicon.dram_alignment,
        l1_small_size=geometry.l1_small_size,
        trace_region_size=geometry.trace_size * geometry.dram_banks,
    )
    addresses: dict[int, int] = {}
    failures: list[schema.WhatIfFailure] = []
    failed = moved = estimated = 0
    peaks = {kind: _Peak(allocator, kind) for kind in KINDS}
    for number, step in enumerate(steps):
        if step.frees is not None:
            address = addresses.pop(step.frees, None)
            if address is not None:
                allocator.free(step.kind, address)
            continue
        need, guessed = _need(step, allocator, geometry)
        estimated += guessed
        try:
            address = allocator.allocate(step.kind, need)
        except (OutOfMemory, SimError) as error:
            failed += 1
            if len(failures) < _MOST_FAILURES:
                failures.append({"step": number, "name": step.name, "text": str(error), "as_recorded": step.failed})
            continue
        moved += step.address is not None and address != step.address
        peaks[step.kind].look()
        if free_early is not None and free_early(step.name):
            allocator.free(step.kind, address)
        else:
            addresses[number] = address
    banks = {kind.label: peaks[kind].row() for kind in KINDS if peaks[kind].size}
    return Outcome(len(steps), moved, estimated, failures, failed, banks)


class _Peak:
    """Most bytes in use in a bank, and the lowest value of the largest free block."""

    def __init__(self, allocator: Allocator, kind: Kind) -> None:
        self._allocator, self._kind = allocator, kind
        start = allocator.statistics(kind)
        self.size, self.peak, self.least = start[0], 0, start[3]

    def look(self) -> None:
        _, used, _, largest = self._allocator.statistics(self._kind)
        self.peak, self.least = max(self.peak, used), min(self.least, largest)

    def row(self) -> schema.WhatIfBank:
        return {"size": self.size, "peak": self.peak, "largest_free_min": self.least}


def _need(step: Step, allocator: Allocator, geometry: Geometry) -> tuple[BufferNeed, bool]:
    """What a step needs in each bank, and whether that is a guess: with another number of banks, its page counts."""
    banks = allocator.banks(step.kind) or (geometry.dram_banks if step.kind is Kind.DRAM else geometry.cores)
    if banks == step.banks or step.sharded:
        return BufferNeed(0, 0, min(banks, step.banks), 0, step.per_bank, step.size, step.sharded), False
    if step.page is not None:
        page, guessed = step.page, False
    else:
        pages = [one for one in _PAGES if -(-step.size // one // step.banks) * one == step.per_bank]
        page, guessed = pages[0] if pages else 32, True
    pages_in_all = -(-step.size // page)
    per_bank = -(-pages_in_all // banks) * page
    return BufferNeed(page, page, banks, pages_in_all, per_bank, step.size), guessed
