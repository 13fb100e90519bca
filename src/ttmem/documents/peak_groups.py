# SPDX-License-Identifier: Apache-2.0
"""Groups the allocations of a kind on a chip that are alike: same size, operation, shape and line."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ttmem.account.call_sites import stack_of
from ttmem.account.ledger import Ledger
from ttmem.account.live_set import counted_chips
from ttmem.model.kinds import KIND_BY_LABEL
from ttmem.model.stack_frames import line_of

if TYPE_CHECKING:
    from ttmem.model.schema import PeakGroup


def alike(ledger: Ledger, chip: str, kind: str) -> list[PeakGroup]:
    """All live allocations of a kind on a chip, those with the most bytes first."""
    wanted = KIND_BY_LABEL[kind]
    counts: Counter[tuple[int, str | None, str | None, str | None]] = Counter()
    for item in ledger.allocations():
        if item.kind is wanted and item.refs and any(one.id == chip for one in counted_chips(item)):
            extra = item.extra
            tag, shape = (None, None) if extra is None else (extra.tag, extra.shape)
            counts[item.counted, tag, shape, line_of(stack_of(item))] += 1
    groups: list[PeakGroup] = [
        {"count": count, "size": size, "tag": tag, "shape": shape, "line": line}
        for (size, tag, shape, line), count in counts.items()
    ]
    return sorted(groups, key=_order)


def _order(group: PeakGroup) -> tuple[object, ...]:
    return -group["count"] * group["size"], -group["size"], str(group["tag"]), str(group["line"])
