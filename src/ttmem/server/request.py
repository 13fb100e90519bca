# SPDX-License-Identifier: Apache-2.0
"""What a request asks: the routes there are, parameters checked, and whose secrets the asker may be shown."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from ttmem.account.allocations import Allocation, Holding
from ttmem.account.entities import Chip, Process
from ttmem.account.ledger import Ledger
from ttmem.model.kinds import KIND_BY_LABEL, KINDS
from ttmem.server.http_server import HttpError, Request, Response

MAX_LIMIT = 10_000


class Route(NamedTuple):
    method: str
    path: str
    handler: Callable[[Request], Awaitable[Response]]
    parameters: tuple[str, ...] = ()
    lists: bool = False  # does it go through everything that is live: only so many do that at once

    def matches(self, path: str) -> bool:
        if self.path.endswith("{pid}"):
            head = self.path[: -len("{pid}")]
            return path.startswith(head) and "/" not in path[len(head) :] and len(path) > len(head)
        return path == self.path


def sees(user_id: int | None) -> Callable[[int | None], bool]:
    """Whose command lines and tags a reader may be shown: their own, or everybody's if they are root."""
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


def processes(ledger: Ledger, pid: int) -> list[Process]:
    """Those of that pid, the living first, then those that departed last."""
    known = (*ledger.processes.values(), *reversed(ledger.departed))
    found = [process for process in known if process.info.pid == pid]
    if not found:
        raise HttpError(404, f"no process {pid} has reported; /processes lists those that have")
    return found


def chips_filter(query: dict[str, str]) -> Callable[[Holding], tuple[Chip, ...]]:
    """Whose allocations a request is about, and on which of their chips."""
    chips = query["chip"].split(",") if "chip" in query else None
    device = integer(query["device"], "device") if "device" in query else None
    pid = integer(query["pid"], "pid") if "pid" in query else None

    def wanted(holding: Holding) -> tuple[Chip, ...]:
        if pid is not None and holding.source.process.info.pid != pid:
            return ()
        if chips is None and device is None:
            return holding.chips
        return tuple(
            chip
            for number, chip in zip(holding.numbers, holding.chips)
            if (chips is None or chip.id in chips) and (device is None or number == device)
        )

    return wanted


def allocations_filter(query: dict[str, str], may_see: Callable[[int | None], bool]) -> Callable[[Allocation], bool]:
    """What a request asks of each allocation; a tag that the reader may not see matches nothing."""
    label = kind(query.get("kind"))
    of_kind = KIND_BY_LABEL[label] if label is not None else None
    tag = query.get("tag")
    least = integer(query.get("min_size", "0"), "min_size")

    def wanted(item: Allocation) -> bool:
        return (of_kind is None or item.kind is of_kind) and item.size >= least and (tag is None or tagged(item))

    def tagged(item: Allocation) -> bool:
        found = item.extra.tag if item.extra is not None else None
        return found is not None and str(tag) in found and may_see(item.holding.source.process.info.user_id)

    return wanted
