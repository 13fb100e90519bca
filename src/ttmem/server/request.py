# SPDX-License-Identifier: Apache-2.0
"""Routes, checks of parameters, and which users' private texts a reader may see."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from ttmem.account.allocations import Allocation, Holding
from ttmem.account.entities import Chip, Process
from ttmem.account.ledger import Ledger
from ttmem.analyze.breakdown import contains, has_key
from ttmem.model.kinds import KIND_BY_LABEL, KINDS, Kind
from ttmem.server.http_server import HttpError, Request, Response

Viewer = Callable[[int | None], bool]  # may the reader see what belongs to this user?
MAX_LIMIT = 10_000
HOLDING_FILTERS = ("chip", "device", "pid")
ROW_FILTERS = ("op", "line", "shape", "program")  # each stands for one row of a breakdown by it
ALLOCATION_FILTERS = ("kind", "min_size", "text", *ROW_FILTERS)


class Route(NamedTuple):
    method: str
    path: str
    handler: Callable[[Request], Awaitable[Response]]
    parameters: tuple[str, ...] = ()
    lists: bool = False  # whether it examines all live allocations; the number of such requests at a time is limited

    def matches(self, path: str) -> bool:
        if self.path.endswith("{pid}"):
            head = self.path[: -len("{pid}")]
            return path.startswith(head) and "/" not in path[len(head) :] and len(path) > len(head)
        return path == self.path


def sees(user_id: int | None) -> Viewer:
    """Whose command lines and tags a reader may be shown: their own, or those of all users for root."""
    return lambda owner: user_id == 0 or (user_id is not None and user_id == owner)


def integer(text: str, name: str) -> int:
    try:
        value = int(text, 0)
    except ValueError:
        raise HttpError(400, f"{name} must be a whole number, not {text!r}") from None
    if not 0 <= value < 1 << 63:
        raise HttpError(400, f"{name} must not be negative or huge, but is {text}")
    return value


def limit(query: dict[str, str]) -> int:
    return min(integer(query.get("limit", "100"), "limit"), MAX_LIMIT)


def moment(text: str | None, default: float, name: str) -> float:
    if text is None:
        return default
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not math.isfinite(found):
        raise HttpError(400, f"{name} is seconds since 1970, not {text!r}")
    return found


def kind(text: str | None) -> str | None:
    if text is not None and text not in KIND_BY_LABEL:
        raise HttpError(400, f"kind is one of {', '.join(one.label for one in KINDS)}, not {text!r}")
    return text


def kinds(text: str | None) -> frozenset[Kind]:
    """The kinds that are named, separated by commas; all if none is."""
    if text is None:
        return frozenset(KINDS)
    return frozenset(KIND_BY_LABEL[str(kind(label))] for label in text.split(","))


def processes(ledger: Ledger, pid: int) -> list[Process]:
    """The processes with this pid: living ones first, then exited ones, the latest first."""
    known = (*ledger.processes.values(), *reversed(ledger.departed))
    found = [process for process in known if process.info.pid == pid]
    if not found:
        raise HttpError(404, f"no process {pid} has reported to the server; `ttmem smi` lists the processes")
    return found


def chips_filter(query: dict[str, str]) -> Callable[[Holding], tuple[Chip, ...]]:
    """A filter for holdings: returns the chips of a holding that a request selects, in the order of its mesh."""
    chips = query["chip"].split(",") if "chip" in query else None
    device = integer(query["device"], "device") if "device" in query else None
    pids = {integer(text, "pid") for text in query["pid"].split(",")} if "pid" in query else None

    known: dict[Holding, tuple[Chip, ...]] = {}

    def wanted(holding: Holding) -> tuple[Chip, ...]:
        found = known.get(holding)
        if found is None:
            found = known[holding] = of(holding)
        return found

    def of(holding: Holding) -> tuple[Chip, ...]:
        if pids is not None and holding.source.process.info.pid not in pids:
            return ()
        if chips is None and device is None:
            return holding.chips
        return tuple(
            chip
            for number, chip in zip(holding.numbers, holding.chips)
            if (chips is None or chip.id in chips) and (device is None or number == device)
        )

    return wanted


def allocations_filter(query: dict[str, str], may_see: Viewer) -> Callable[[Allocation], bool]:
    """What a request asks of each allocation; a text that the reader may not see matches nothing."""
    of_kinds = kinds(query.get("kind"))
    least = integer(query.get("min_size", "0"), "min_size")
    tests = [has_key(by, query[by], may_see) for by in ROW_FILTERS if by in query]
    if query.get("text"):
        tests.append(contains(query["text"], may_see))

    def wanted(item: Allocation) -> bool:
        return item.kind in of_kinds and item.size >= least and all(test(item) for test in tests)

    return wanted
