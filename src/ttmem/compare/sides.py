# SPDX-License-Identifier: Apache-2.0
"""What one of two runs contributes to a comparison. Nothing here depends on times, addresses or process ids."""

from __future__ import annotations

from typing import NamedTuple

from ttmem.model.kinds import BREAKDOWN_POOL_OF, KIND_BY_LABEL, BreakdownPool


class HeldOrigin(NamedTuple):
    """What made some allocations, as far as it is known."""

    kind: str
    op: str | None
    shape: str | None
    stack: str | None
    program: str | None = None

    @property
    def pool(self) -> BreakdownPool:
        return BREAKDOWN_POOL_OF[KIND_BY_LABEL[self.kind]]


class Held(NamedTuple):
    """Allocations of one origin at the moment."""

    origin: HeldOrigin
    live: int  # how many; one on several chips is one
    bytes: int  # on all chips
    made: int = -1  # in the whole run; -1 if unknown
    freed: bool = False  # by the program itself
    until: str | None = None  # if so, the line of the last allocation before most of them were freed
    life: int = 0  # if so, how many allocations were made meanwhile: the median


class Side(NamedTuple):
    """One run."""

    path: str
    what: str  # "recording" or "run"
    moment: str  # in words
    command: str | None
    boards: list[str]  # the board of each chip
    figures: dict[str, int | None]
    held: list[Held]
    incomplete: list[str]  # reasons why figures may be too low


class CompareError(ValueError):
    """A file that cannot be compared; the text says why."""
