# SPDX-License-Identifier: Apache-2.0
"""The figures behind the sizing advice of a run, one set for each allocator."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ttmem.account.entities import Chip
from ttmem.account.size_extremes import Sizes
from ttmem.analyze.sizing import BankFreeSpace, Figures, SizingLine, advise
from ttmem.documents.common_text import short_line
from ttmem.model.kinds import KINDS, Kind
from ttmem.model.stack_frames import line_of
from ttmem.run.agent_listener import AgentListener
from ttmem.wire.agent_ring import Ring


class Advice(NamedTuple):
    """The advice on the chips of one mesh, as one process opened it."""

    pid: int
    chips: list[Chip]
    lines: list[SizingLine]


def advice(agents: Iterable[AgentListener]) -> Iterator[Advice]:
    for agent in agents:
        process = agent.source.process
        for sizes in _merged(agent):
            chips = [process.numbers[number] for number in sizes.numbers if number in process.numbers]
            lines = advise(figures(chips[0], sizes, agent.ring)) if chips else []
            if lines:
                yield Advice(process.info.pid, chips, lines)


def _merged(agent: AgentListener) -> list[Sizes]:
    """The sizes of complete accounts. Chips that were opened again with the same sizes are one entry."""
    found: dict[tuple[object, ...], Sizes] = {}
    for sizes in agent.sizes:
        if sizes.complete and not agent.lost:
            found.setdefault((sizes.numbers, sizes.geometry), Sizes(sizes.geometry, sizes.unit)).merge(sizes)
    return list(found.values())


def figures(chip: Chip, sizes: Sizes, ring: Ring) -> Figures:
    """The figures of one chip of a mesh; the others are in lock step with it."""
    found: Figures = {"ring_programs": sizes.programs, "ring_peak": sizes.ring[0] or None}
    found["ring_program"] = _name(ring, sizes.ring[1])
    if sizes.unit:
        found["unit"] = sizes.unit
    geometry = sizes.geometry
    if geometry is not None:
        found["ring_size"], found["dram_banks"] = geometry.ring_size, geometry.dram_banks
        found["l1_small_size"], found["trace_region"] = geometry.l1_small_size, geometry.trace_size
        found["l1_small_refused"], found["trace_refused"] = sizes.more_small, sizes.more_trace
        lowest = sizes.lowest_small
        found["l1_small_depth"] = 0 if lowest is None else geometry.l1_size - lowest
        found["trace_peak"] = chip.kinds[Kind.TRACE].peak.value
    if sizes.least is not None:
        found["headroom"] = sizes.least.room
        found["headroom_program"] = _name(ring, sizes.least.program)
        found["headroom_holder"] = _name(ring, sizes.least.holder)
    gaps: dict[str, BankFreeSpace] = {}
    for kind, scatter in sizes.scatters.items():
        gaps[KINDS[kind].name] = {"free": scatter.worst.free, "largest": scatter.worst.largest, "exact": scatter.exact}
    found["gaps"] = gaps
    return found


def _name(ring: Ring, blob: int) -> str | None:
    """The operation, and the line if known; both were read together with the record."""
    try:
        cause = ring.cause(blob)
    except ValueError:  # the memory is closed
        return None
    return " ".join(filter(None, (cause.tag, short_line(line_of(cause.stack))))) or None
