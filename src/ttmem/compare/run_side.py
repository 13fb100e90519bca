# SPDX-License-Identifier: Apache-2.0
"""One side of a comparison from the document of a run, schema "ttmem.run/1"."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from ttmem.compare.sides import CompareError, Held, HeldOrigin, Side
from ttmem.model.kinds import KIND_BY_LABEL

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ttmem.model import schema


def run_side(path: str, document: Mapping[str, object], by: str) -> Side:
    """A run's document has groups by one property each, so ``by`` decides how they are compared."""
    if document.get("schema") != "ttmem.run/1":
        raise CompareError(f"{path} is neither a recording nor the output of `ttmem run --json`")
    run = cast("schema.Run", document)
    chips = run["chips"]

    def peak(kind: str) -> int:
        return max((chip["kinds"].get(kind, {"peak": 0})["peak"] for chip in chips), default=0)

    return Side(
        path=path,
        what="run",
        moment="at the peak of all buffers",
        command=" ".join(run["command"]),
        boards=[str(chip["board"]) for chip in chips],
        figures={
            "dram": max((chip["dram"]["reserved_peak"] for chip in chips), default=0),
            "l1": max((chip["l1"]["reserved_peak"] for chip in chips), default=0),
            "l1_small": peak("l1_small"),
            "trace": peak("trace"),
            "failed": run["failed"],
        },
        held=[
            _held(row, pool, by)
            for pool in run["breakdown"][by]  # type: ignore[literal-required]
            if pool["pool"] != "system"
            for row in pool["rows"]
        ],
        incomplete=[*([f"{run['dropped']:,} records were lost"] if run["dropped"] else []), *run["trouble"]],
    )


def _held(row: schema.BreakdownRow, pool: schema.BreakdownPoolRow, by: str) -> Held:
    kinds = [kind for kind in row["kinds"] if kind in KIND_BY_LABEL]
    kind = {"dram": "dram", "l1_buffers": "l1", "programs": "cb", "host": "host"}.get(pool["pool"], kinds[0])
    key = cast("str | None", row.get(by))
    origin = HeldOrigin(
        key if by == "kind" and key else kind,
        key if by == "op" else None,
        key if by == "shape" else None,
        key if by == "line" else None,
        key if by == "program" else None,
    )
    return Held(origin, row["count"], row["bytes"])
