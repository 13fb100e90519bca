# SPDX-License-Identifier: Apache-2.0
"""What a reader knows of each slot of an agent's live table, to find the slots that changed among lost records."""

from __future__ import annotations

from array import array
from collections.abc import Iterator

from ttmem.wire.agent_ring import BINARY, KEPT
from ttmem.wire.table_copy import TableCopy

CHUNK_SLOTS = 1024
_MARKS = bytes(flags & (BINARY | KEPT) for flags in range(256))  # what may change while an allocation is live


class KnownSlots:
    """The sequence, the name and the flags of the last allocation in each slot, if it was ever in the account.

    Freed slots keep theirs: the sequence of a record is never used again, so a slot that has the same sequence has the
    same allocation.
    """

    __slots__ = ("flags", "most", "names", "programs", "sequences")

    def __init__(self, most: int) -> None:
        """``most`` is the number of slots of the table."""
        self.most = most
        self.sequences = array("Q")
        self.names = array("I")
        self.flags = bytearray()
        self.programs: dict[int, int] = {}  # of slots that hold, or once held, a part of a program

    def put(self, slot: int, sequence: int, name: int, flags: int) -> None:
        if slot >= self.most:
            return  # the table had no room for it
        missing = slot + 1 - len(self.sequences)
        if missing > 0:
            missing = min(max(missing, len(self.sequences)), self.most - len(self.sequences))
            self.sequences.frombytes(bytes(missing * self.sequences.itemsize))
            self.names.frombytes(bytes(missing * self.names.itemsize))
            self.flags += bytes(missing)
        self.sequences[slot] = sequence
        self.names[slot] = name
        self.flags[slot] = flags

    def describe(self, slot: int, name: int, flags: int) -> None:
        """More is known of the allocation in a slot."""
        if slot < len(self.sequences):
            self.names[slot] = name
            self.flags[slot] = flags

    def changed(self, table: TableCopy) -> Iterator[list[tuple[int, int, bool]]]:
        """The slots that differ, each with its sequence in the table, and whether only its name or its flags differ.

        Some thousand slots are compared at a time; from then on, those of the table are the known ones.
        """
        size = max(len(table), len(self.sequences))
        for first in range(0, size, CHUNK_SLOTS):
            last = min(first + CHUNK_SLOTS, size)
            size_of_chunk = last - first
            sequences, names = table.sequences(first, last), table.names(first, last)
            flags = table.flags(first, last)
            missing = size_of_chunk - len(sequences)
            if missing:  # the reader knows slots above the highest one of the table: they are free
                sequences += [0] * missing
                names += [0] * missing
                flags += bytes(missing)
            known, known_names = self.sequences[first:last].tolist(), self.names[first:last].tolist()
            missing = size_of_chunk - len(known)
            known += [0] * missing
            known_names += [0] * missing
            marks = flags.translate(_MARKS)
            known_marks = (bytes(self.flags[first:last]) + bytes(missing)).translate(_MARKS)
            if sequences == known and names == known_names and marks == known_marks:
                yield []
                continue
            found = [
                (slot, sequence, sequence == before)
                for slot, sequence, before, name, before_name, mark, before_mark in zip(
                    range(first, last), sequences, known, names, known_names, marks, known_marks
                )
                if sequence != before or (sequence and (name != before_name or mark != before_mark))
            ]
            for slot, sequence, _ in found:
                self.put(slot, sequence, names[slot - first], flags[slot - first])
            yield found
