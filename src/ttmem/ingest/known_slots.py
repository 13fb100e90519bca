# SPDX-License-Identifier: Apache-2.0
"""What a reader knows of each slot of an agent's live table, to find the slots that changed among lost records."""

from __future__ import annotations

from array import array
from collections.abc import Iterator

from ttmem.wire.table_copy import TableCopy

_CHUNK_SLOTS = 4096


class KnownSlots:
    """The sequence and the name of the record that was last read for each slot.

    Freed slots keep theirs: the sequence of a record is never used again, so a slot that has the same sequence has the
    same allocation.
    """

    __slots__ = ("_most", "names", "programs", "sequences")

    def __init__(self, most: int) -> None:
        """``most`` is the number of slots of the table."""
        self._most = most
        self.sequences = array("Q")
        self.names = array("I")
        self.programs: dict[int, int] = {}  # of slots that hold, or once held, a part of a program

    def put(self, slot: int, sequence: int, name: int) -> None:
        if slot >= self._most:
            return  # the table had no room for it
        missing = slot + 1 - len(self.sequences)
        if missing > 0:
            missing = min(max(missing, len(self.sequences)), self._most - len(self.sequences))
            self.sequences.frombytes(bytes(missing * self.sequences.itemsize))
            self.names.frombytes(bytes(missing * self.names.itemsize))
        self.sequences[slot] = sequence
        self.names[slot] = name

    def changed(self, table: TableCopy) -> Iterator[list[tuple[int, int, bool]]]:
        """The slots that differ, each with its sequence in the table, and whether only its name differs.

        Some thousand slots are compared at a time; from then on, those of the table are the known ones.
        """
        size = max(len(table), len(self.sequences))
        for first in range(0, size, _CHUNK_SLOTS):
            last = min(first + _CHUNK_SLOTS, size)
            sequences, names = table.sequences(first, last), table.names(first, last)
            missing = last - first - len(sequences)
            if missing:  # the reader knows slots above the highest one of the table: they are free
                sequences += [0] * missing
                names += [0] * missing
            known, known_names = self.sequences[first:last].tolist(), self.names[first:last].tolist()
            known += [0] * (last - first - len(known))
            known_names += [0] * (last - first - len(known_names))
            if sequences == known and names == known_names:
                yield []
                continue
            found = [
                (slot, sequence, sequence == before)
                for slot, sequence, before, name, before_name in zip(
                    range(first, last), sequences, known, names, known_names
                )
                if sequence != before or (sequence and name != before_name)
            ]
            for slot, sequence, _ in found:
                self.put(slot, sequence, names[slot - first])
            yield found
