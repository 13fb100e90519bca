# SPDX-License-Identifier: Apache-2.0
"""The memory reports that tt-metal writes as CSV files: ``ttnn.dump_device_memory_state`` and ``EnableMemoryReports``.

Three files with a common prefix form one report. The rows of ``memory_usage_summary.csv`` have no names: they are DRAM,
L1, L1_SMALL, per bank. The sections of ``detailed_memory_usage.csv`` have sums over all banks, but the block table of
one bank, with addresses relative to the allocator's base. In ``l1_usage_summary.csv``, "Total Free L1 Space" is not the
free space: it is the largest free block times the number of banks. Files with the prefix ``program_`` have one record
per program.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator
from typing import NamedTuple, NoReturn, TextIO, TypeVar

from ttmem.model.kinds import Kind
from ttmem.model.printable import printable

KINDS = (Kind.DRAM, Kind.L1, Kind.L1_SMALL)
SUMMARY, L1_SUMMARY, DETAILED = "memory_usage_summary.csv", "l1_usage_summary.csv", "detailed_memory_usage.csv"

_L1_TITLE = "This report indicates available space for interleaving L1 buffers"
_SUMMARY_HEADER = ", Total Allocatable Size (B), Total Allocated (B), Total Free (B), Largest Free Block (B)"
_L1_HEADER = ", Largest Contiguous Free Block (B), Total Free L1 Space (B)"
_PROGRAM = "Program ID"
_TOTALS = ("allocatable", "allocated", "free")
_TABLE_HEADER = ["Block", "Address", "Size", "PrevID", "NextID", "Allocated"]
_NONE = ("none", "-1", str((1 << 64) - 1))
_NUMBER = re.compile(r"[0-9]{1,18}")
_MAX_LINE_BYTES = 1 << 20  # longest line that a block table can have; a file with longer lines is not text
_QUOTED_CHARACTERS = 60

T = TypeVar("T")
Moment = tuple[int, int | None]  # position in the file, program
Found = tuple[Moment, Kind, T]


class ReportError(Exception):
    """The folder cannot be read or has no reports; the message is for the user."""


class Amounts(NamedTuple):
    """Bytes of one bank, or of all. ``largest_free`` is None if the file does not have it."""

    total: int
    allocated: int
    free: int
    largest_free: int | None

    @property
    def fragmentation(self) -> float | None:
        """The share of the free bytes outside the largest free block; None if not known.

        >>> Amounts(total=100, allocated=20, free=80, largest_free=60).fragmentation
        0.25
        """
        if self.largest_free is None or not 0 < self.largest_free <= self.free:
            return None
        return 1 - self.largest_free / self.free


class Block(NamedTuple):
    """A row of the block table. ``address`` is relative to the allocator's base; the size is per bank."""

    ident: int
    address: int
    size: int
    previous: int | None
    next: int | None
    allocated: bool


class Memory(NamedTuple):
    """The data of the files about one kind; None for missing values."""

    kind: Kind
    banks: int | None
    per_bank: Amounts | None
    all_banks: Amounts | None
    blocks: tuple[Block, ...] | None


class L1Space(NamedTuple):
    """The data of ``l1_usage_summary.csv``: the largest free block of a bank, and that times the number of banks."""

    largest_free: int
    times_banks: int


class State(NamedTuple):
    """The state at one time: of a dump, or of the compilation of a program."""

    program: int | None
    memories: tuple[Memory, ...]
    l1_space: L1Space | None


class File(NamedTuple):
    """A file of a report, and when it was written, in seconds since 1970."""

    name: str
    modified: float


class MemoryReport(NamedTuple):
    """The files with one prefix."""

    prefix: str
    files: tuple[File, ...]
    states: tuple[State, ...]


class Reports(NamedTuple):
    """The reports in a folder, and a sentence for each problem."""

    reports: tuple[MemoryReport, ...]
    problems: tuple[str, ...]


def read(folder: str) -> Reports:
    """All reports in a folder. An error in a file affects only the rest of that file."""
    try:
        names = sorted(os.listdir(folder))
    except OSError as error:
        raise ReportError(f"cannot read {printable(folder)}: {error.strerror}") from None
    found: dict[str, dict[str, str]] = {}
    for name in names:
        for suffix in (SUMMARY, L1_SUMMARY, DETAILED):
            if name.endswith(suffix):
                found.setdefault(name[: -len(suffix)], {})[suffix] = os.path.join(folder, name)
    if not found:
        raise ReportError(
            f"no memory reports in {printable(folder)}: expected files like {SUMMARY} or {DETAILED}, with any prefix; "
            "ttnn.dump_device_memory_state writes them to generated/reports"
        )
    problems: list[str] = []
    return Reports(tuple(_report(prefix, paths, problems) for prefix, paths in found.items()), tuple(problems))


def _report(prefix: str, paths: dict[str, str], problems: list[str]) -> MemoryReport:
    files: list[File] = []
    banks = _parsed(paths.get(SUMMARY), _summary, files, problems)
    sections = _parsed(paths.get(DETAILED), _detailed, files, problems)
    spaces = _parsed(paths.get(L1_SUMMARY), _l1_summary, files, problems)
    states = []
    for moment in dict.fromkeys((*banks, *sections, *spaces)):
        space = spaces.get(moment, {}).get(Kind.L1)
        memories = []
        for kind in KINDS:
            bank = banks.get(moment, {}).get(kind)
            section = sections.get(moment, {}).get(kind)
            if bank is not None or section is not None:
                memories.append(_memory(kind, bank, section))
                if not _of_one_moment(memories[-1], space):
                    program = "" if moment[1] is None else f" of program {moment[1]}"
                    problems.append(
                        f"{printable(min(paths.values()))}: its numbers of {kind.name}{program} are not those of the "
                        f"other files with the prefix '{printable(prefix)}': they were not written together"
                    )
        states.append(State(moment[1], tuple(memories), space))
    return MemoryReport(printable(prefix), tuple(files), tuple(states))


def _memory(kind: Kind, bank: Amounts | None, section: _Section | None) -> Memory:
    if section is None:
        return Memory(kind, None, bank, None, None)
    if bank is None:
        return Memory(kind, None, None, section.amounts, section.blocks)
    banks = section.amounts.total // bank.total if bank.total else 0
    if not banks or any(one * banks != all_ for one, all_ in zip(bank[:3], section.amounts)):
        return Memory(kind, None, bank, section.amounts, section.blocks)
    largest = None if bank.largest_free is None else bank.largest_free * banks
    return Memory(kind, banks, bank, section.amounts._replace(largest_free=largest), section.blocks)


def _of_one_moment(memory: Memory, space: L1Space | None) -> bool:
    """Whether the files can have been written together.

    A kind without a region (L1_SMALL) has no banks and only zeros.
    """
    bank, all_banks = memory.per_bank, memory.all_banks
    if bank is not None and all_banks is not None and memory.banks is None and (any(bank[:3]) or any(all_banks[:3])):
        return False
    return space is None or bank is None or memory.kind is not Kind.L1 or space.largest_free == bank.largest_free


class _Unreadable(Exception):
    """The problem and its position."""


class _Lines:
    """The lines of a file, with line numbers."""

    def __init__(self, path: str, file: TextIO) -> None:
        self._path = path
        self._file = file
        self._number = 0
        self._line: str | None = None

    def next(self) -> str | None:
        """The next line, None at the end."""
        self._number += 1
        line = self._file.readline(_MAX_LINE_BYTES)
        self._line = line.rstrip("\r\n") if line else None
        if line and not line.endswith("\n"):
            self.fail("a complete line")
        return self._line

    def fail(self, expected: str) -> NoReturn:
        """Raise an error about the line that was just read."""
        if self._line is None:
            found = "the file ends: it was cut off, or is still being written"
        else:
            found = (
                f"it is {self._line[:_QUOTED_CHARACTERS] + ('...' if len(self._line) > _QUOTED_CHARACTERS else '')!r}"
            )
        raise _Unreadable(f"{printable(self._path)}: line {self._number}: expected {expected}, but {found}")

    def require(self, text: str) -> None:
        if self.next() != text:
            self.fail(repr(text))

    def require_header(self, header: str) -> bool:
        """The header, with or without programs."""
        line = self.next()
        if line not in (header, _PROGRAM + header):
            self.fail(f"{header!r}, perhaps after {_PROGRAM!r}")
        return line != header

    def bytes(self, fields: list[str]) -> list[int]:
        if not all(_NUMBER.fullmatch(field) for field in fields):
            self.fail("numbers of bytes")
        return [int(field) for field in fields]

    def row(self, count: int, what: str) -> list[str] | None:
        """The fields of a row; None at the end of the file."""
        line = self.next()
        if line is None:
            return None
        fields = line.split(",")
        if len(fields) != count:
            self.fail(f"{what}, {count} fields with commas between them")
        return fields

    def program(self, text: str, programs: bool) -> int | None:
        """The first field of a row."""
        if not programs:
            if text:
                self.fail("nothing before the first comma")
            return None
        if not _NUMBER.fullmatch(text):
            self.fail("the number of a program before the first comma")
        return int(text)


def _parsed(
    path: str | None, parse: Callable[[_Lines], Iterator[Found[T]]], files: list[File], problems: list[str]
) -> dict[Moment, dict[Kind, T]]:
    """The contents of a file up to the first error."""
    found: dict[Moment, dict[Kind, T]] = {}
    if path is None:
        return found
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # opening a pipe would wait for a writer
            raise _Unreadable(f"{printable(path)}: not a regular file")
        with open(path, encoding="utf-8", errors="backslashreplace", newline="\n") as file:
            files.append(File(printable(os.path.basename(path)), os.fstat(file.fileno()).st_mtime))
            for moment, kind, value in parse(_Lines(path, file)):
                found.setdefault(moment, {})[kind] = value
    except _Unreadable as error:
        problems.append(str(error))
    except OSError as error:
        problems.append(f"{printable(path)}: {error.strerror}")
    return found


def _summary(lines: _Lines) -> Iterator[Found[Amounts]]:
    programs = lines.require_header(_SUMMARY_HEADER)
    place = 0
    while place == 0 or programs:
        program = None
        for kind in KINDS:
            row = lines.row(5, f"the row of {kind.name}")
            if row is None:
                if kind is Kind.DRAM and programs:
                    return
                lines.fail(f"the row of {kind.name}")
            named = lines.program(row[0], programs and kind is Kind.DRAM)
            program = named if kind is Kind.DRAM else program
            yield (place, program), kind, Amounts(*lines.bytes(row[1:]))
        place += 1
    if lines.next() is not None:
        lines.fail("the end of the file")


def _l1_summary(lines: _Lines) -> Iterator[Found[L1Space]]:
    lines.require(_L1_TITLE)
    programs = lines.require_header(_L1_HEADER)
    place = 0
    while (row := lines.row(3, "the row of L1")) is not None:
        if place and not programs:
            lines.fail("the end of the file")
        program = lines.program(row[0], programs)
        yield (place, program), Kind.L1, L1Space(*lines.bytes(row[1:]))
        place += 1
    if not place and not programs:
        lines.fail("the row of L1")


class _Section(NamedTuple):
    amounts: Amounts
    blocks: tuple[Block, ...]


def _detailed(lines: _Lines) -> Iterator[Found[_Section]]:
    place, program, programs = 0, None, False
    line = lines.next()
    if line is None:
        lines.fail("a section such as ',DRAM'")
    while line is not None:
        for kind in KINDS:
            ident, _, name = (line or "").partition(",")
            if name != kind.name:
                lines.fail(f"the section of {kind.name}, such as ',{kind.name}'")
            if kind is Kind.DRAM:
                if place == 0:
                    programs = bool(ident)
                elif not programs:
                    lines.fail("the end of the file")
                program = lines.program(ident, programs)
            else:
                lines.program(ident, False)
            total, allocated, free = (_total(lines, word) for word in _TOTALS)
            blocks, line = _blocks(lines)
            yield (place, program), kind, _Section(Amounts(total, allocated, free, None), blocks)
        place += 1


def _total(lines: _Lines, word: str) -> int:
    label = f",Total {word} (B):,"
    line = lines.next() or ""
    if not line.startswith(label):
        lines.fail(f"{label!r} and a number")
    return lines.bytes([line[len(label) :]])[0]


def _blocks(lines: _Lines) -> tuple[tuple[Block, ...], str | None]:
    """The block table, and the line after it."""
    line = lines.next()
    while line != "Block table:":  # skip lists of free blocks, which the table contains as well
        if line is None or line.startswith(","):
            lines.fail("'Block table:'")
        line = lines.next()
    if (lines.next() or "").split() != _TABLE_HEADER:
        lines.fail(f"the columns {' '.join(_TABLE_HEADER)}")
    blocks: list[Block] = []
    line = lines.next()
    while line is not None and "," not in line:
        fields = line.split()
        if len(fields) != len(_TABLE_HEADER) or fields[5] not in ("yes", "no"):
            lines.fail("a row of the block table")
        ident, address, size = lines.bytes(fields[:3])
        before, after = (None if field in _NONE else lines.bytes([field])[0] for field in fields[3:5])
        blocks.append(Block(ident, address, size, before, after, fields[5] == "yes"))
        line = lines.next()
    there: set[int | None] = {None, *(block.ident for block in blocks)}
    missing = [other for block in blocks for other in block[3:5] if other not in there]
    if missing or not blocks:
        lines.fail(f"block {missing[0]} in the block table" if missing else "a row of the block table")
    return tuple(blocks), line
