# SPDX-License-Identifier: Apache-2.0
"""Parses out-of-memory and clash messages of tt-metal, in the wordings of all releases from 0.40 to 0.81.1.

A message may be anywhere in a text and may be wrapped: all white space is equivalent.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Union

from ttmem.analyze.failure_types import (
    ArenaFull,
    BelowLimit,
    Clash,
    CutsInto,
    Failure,
    OutOfMemory,
    PastEndOfL1,
    RingFull,
    TraceFull,
    TraceOverlap,
)
from ttmem.analyze.message_patterns import pattern
from ttmem.analyze.op_messages import ANCHORS, refusal_at
from ttmem.model.core_sets import MAX_Y, ROW, CoreRange, parse_ranges
from ttmem.model.kinds import Kind

LONGEST_CHARACTERS = 4096  # length of the longest message with its table
_KINDS = {kind.name: kind for kind in (Kind.DRAM, Kind.L1, Kind.L1_SMALL, Kind.TRACE)} | {"SYSTEM_MEMORY": Kind.HOST}
_PARTS = {"circular": Kind.CB, "dataflow": Kind.DFB}


def _int(text: str | None) -> int | None:
    return None if text is None else int(text)


# Of a backtrace, the agent keeps only whether it contains this name.
_BACKTRACE = re.compile(r"[^\n]{0,80}\n[^\n]{0,20}backtrace:\s*\n((?:[^\n]{0,20}--- [^\n]*(?:\n|$)){1,32})")
_GLOBAL_CIRCULAR = "GlobalCircularBuffer"


def _out_of_memory(match: re.Match[str], text: str) -> Failure | None:
    failure = _plain(match.groups())
    backtrace = _BACKTRACE.match(text, match.end(), match.start() + LONGEST_CHARACTERS)
    if failure is None or backtrace is None or _GLOBAL_CIRCULAR not in backtrace[1]:
        return failure
    return failure._replace(global_circular=True)


def _plain(groups: Sequence[str]) -> OutOfMemory | None:
    size, name, banks, per_bank, bank_size, allocated, free, largest = groups
    kind = _KINDS.get(name)
    if kind is None:
        return None
    known = _int(bank_size), _int(allocated), _int(free), _int(largest)
    return OutOfMemory(kind, int(size), int(banks), int(per_bank), *known)


def _dependent(match: re.Match[str], text: str) -> Failure | None:
    _, _, placeable, windows, largest_window = map(_int, match.groups()[8:])
    plain = _plain(match.groups()[:8])
    if plain is None:
        return None
    return plain._replace(placeable=placeable, windows=windows, largest_window=largest_window, dependent=True)


def _clash(match: re.Match[str], text: str) -> Failure | None:
    kind, program, cores, floor, _, end = match.groups()
    return _with_cores(cores, lambda where: Clash(_PARTS[kind], int(program), where, int(floor), int(end)))


def _service_clash(match: re.Match[str], text: str) -> Failure | None:
    cores, program, floor, end = match.groups()
    return _with_cores(cores, lambda where: Clash(Kind.CB, int(program), where, int(floor), int(end), True))


def _beyond(match: re.Match[str], text: str) -> Failure | None:
    kind, cores, end, size = match.groups()
    return _with_cores(cores, lambda where: PastEndOfL1(_PARTS[kind], where, int(end), int(size)))


def _with_cores(text: str, make: Callable[[CoreRange], Failure]) -> Failure | None:
    (cores,) = parse_ranges(text)
    valid = cores.x0 <= cores.x1 < ROW and cores.y0 <= cores.y1 < MAX_Y
    return make(cores) if valid else None


_TABLE_LINE = re.compile(r"[^\n]{0,40}?  ([a-z][a-z0-9 ]{2,24}?)  +(\d{1,20}) B\s*(?:\n|$)")
_TABLE_CORES = re.compile(r"[^\n]{0,40}?text-sizing group, cores +[^\n]{0,400}\n")
_TABLE_KERNELS = re.compile(r"[^\n]{0,40}?text-sizing group, kernels +([\w ,.:/<>-]{1,2000})")


def _ring(match: re.Match[str], text: str) -> Failure | None:
    size, ring, core_type, over = match.groups()
    parts: list[tuple[str, int]] = []
    kernels = None
    if over is not None:
        end = text.find("\n", match.end()) + 1 or len(text)
        while len(parts) < 32 and (line := _TABLE_LINE.match(text, end)):
            parts.append((line[1], int(line[2])))
            end = line.end()
        cores = _TABLE_CORES.match(text, end)
        names = _TABLE_KERNELS.match(text, cores.end() if cores else end)
        kernels = names[1].strip() if names else None
    return RingFull(int(size), int(ring), core_type, tuple(parts), kernels)


Reader = Callable[["re.Match[str]", str], Union[Failure, None]]

# In the order of matching; the longest wording of a message comes first.
_MESSAGES: list[tuple[re.Pattern[str], Reader]] = [
    (
        pattern(
            "Out of Memory: Not enough space to allocate # B {name} buffer across # banks, where each bank needs to "
            "store # B<<, but bank size is<< only>> # B<< (allocated: # B, free: # B, largest free block: # B)>>>>"
        ),
        _out_of_memory,
    ),
    (
        pattern(
            "Out of Memory: Not enough space after considering dependencies to allocate # B {name} across # banks "
            "(# B per bank), bank size is # B (allocated: # B, free: # B, largest free block: # B)<<. After "
            "subtracting # dependency range(s) and # additional occupied range(s), # B remained placeable across # "
            "window(s), largest # B>>"
        ),
        _dependent,
    ),
    (
        pattern(
            "Statically allocated {buffers} buffers in program # clash with L1 buffers on core range @. L1 buffer "
            "allocated at # and static {buffers} buffer region ends at #"
        ),
        _clash,
    ),
    (
        pattern(
            "Circular buffers on service-core range @ in program # clash with ServiceCoreManager-allocated L1 (lowest "
            "service allocation at #, CB region ends at #)"
        ),
        _service_clash,
    ),
    (
        pattern(
            "Statically allocated {buffers} buffers on core range @ grow to # B which is beyond max L1 size of # B"
        ),
        _beyond,
    ),
    (pattern("Program size (#) too large for kernel config buffer (#) on {name}<<, # B over:>>"), _ring),
    (
        pattern("Creating trace buffers of size #B on {device} #, but only #B is allocated for trace region"),
        lambda match, text: TraceFull(*map(int, match.groups())),
    ),
    (
        pattern(
            "Trace buffer at address # overlaps with DRAM activity during trace capture. Allocation high water mark: "
            "#, Deletion high water mark: #"
        ),
        lambda match, text: TraceOverlap(*map(int, match.groups())),
    ),
    (
        pattern(
            "Trace buffer at address # overlaps with buffers deallocated during trace capture (deletion high water "
            "mark: #)"
        ),
        lambda match, text: TraceOverlap(int(match[1]), freed=int(match[2])),
    ),
    (
        pattern(
            "Trace buffer at address # overlaps with buffers allocated during trace capture (allocation high water "
            "mark: #)"
        ),
        lambda match, text: TraceOverlap(int(match[1]), allocated=int(match[2])),
    ),
    (
        pattern(
            "Trace buffer at address # overlaps with DRAM activity captured by another live trace (maximum live trace "
            "high water mark: #)"
        ),
        lambda match, text: TraceOverlap(int(match[1]), other=int(match[2])),
    ),
    (
        pattern("Out of Memory: Cannot allocate at an address below #<<. {tried} at #>>"),
        lambda match, text: BelowLimit(int(match[1]), _int(match[2])),
    ),
    (
        pattern("Persistent L1 arena is out of memory: cannot place # bytes aligned to # on cores {cores} in [#, #)"),
        lambda match, text: ArenaFull(
            int(match[1]), int(match[2]), " ".join(match[3].split()), int(match[4]), int(match[5])
        ),
    ),
    (
        pattern("Shrink size # cuts into allocated block at address #"),
        lambda match, text: CutsInto(*map(int, match.groups())),
    ),
]

# The first words of each message: a fast filter, because almost no line of a log matches.
_ANCHOR = re.compile(
    r"Out\s+of\s+Memory:\s+(?:Not\s+enough|Cannot)\s|Statically\s+allocated\s+(?:circular|dataflow)\s+buffers|"
    r"Circular\s+buffers\s+on\s+service|Program\s+size\s+\(|Creating\s+trace\s+buffers|Trace\s+buffer\s+at\s+address|"
    r"Persistent\s+L1\s+arena|Shrink\s+size\s+\d|" + ANCHORS
)
# What parse() recognizes, for users.
WHAT = "out of memory, clashes, programs and traces that are too large, and operations that find too little L1"


class Found(NamedTuple):
    """A message in a text."""

    start: int
    end: int
    text: str
    failure: Failure


def find(text: str) -> Iterator[Found]:
    """Every message in a text, in order."""
    for anchor in _ANCHOR.finditer(text):
        found = _metal_at(text, anchor.start()) or refusal_at(text, anchor.start())
        if found is not None:
            match, failure = found
            yield Found(match.start(), match.end(), " ".join(match[0].split()), failure)


def _metal_at(text: str, at: int) -> tuple[re.Match[str], Failure] | None:
    """The message of tt-metal itself that begins at ``at``."""
    for known, read in _MESSAGES:
        match = known.match(text, at)
        failure = None if match is None else read(match, text)
        if match is not None and failure is not None:
            return match, failure
    return None


def parse(text: str) -> Failure | None:
    """The first known message in a text, None if there is none.

    >>> parse("TT_FATAL: Shrink size 4096 cuts into allocated block at address 1024")
    CutsInto(size=4096, address=1024)
    """
    return next((found.failure for found in find(text)), None)
