# SPDX-License-Identifier: Apache-2.0
"""Lists of a mesh and its parts under the agent: each buffer of stock ttnn is one row, and is on each of its chips."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

from tests.agents import watched
from tests.support import answered, api_over
from ttmem.model.kinds import KIND_BY_LABEL, Kind

Row = tuple[tuple[int, ...], int, int]  # devices, buffer type, address


def rows_of(answer: Any) -> Counter[Row]:
    assert answer["matched"] == len(answer["allocations"])
    return Counter(
        (tuple(row["devices"]), int(KIND_BY_LABEL[row["kind"]]), row["address"]) for row in answer["allocations"]
    )


def test_the_rows_are_the_buffers_of_ttnn(folder: Path) -> None:
    """All of them once; asked for one chip, those of every mesh that the chip is in."""
    several = Counter[int]()
    with watched("3.12", "ttnn_meshes", "t3k", folder, "--steps", "40") as (collector, program):
        api = api_over(collector.ledger, {"since": 0.0})

        def ask(path: str, **query: str) -> Any:
            return asyncio.run(answered(api, path, query))

        records = program.records()
        chips = [tuple(numbers) for numbers in next(records)["header"]["chips"]]
        for record in records:
            collector.drain()
            ttnn = Counter((chips[mesh], *buffer) for mesh, listed in enumerate(record["buffers"]) for buffer in listed)
            buffers = {"kind": ",".join(kind.label for kind in Kind if kind < Kind.CB), "limit": "10000"}
            assert rows_of(ask("/allocations", **buffers)) == ttnn, record
            for number in chips[0]:
                here = ask("/allocations", device=str(number), **buffers)
                assert {len(row["chips"]) for row in here["allocations"]} <= {1}
                found = Counter(
                    (len(row["other_chips"]) + 1, int(KIND_BY_LABEL[row["kind"]]), row["address"])
                    for row in here["allocations"]
                )
                on_chip = Counter[tuple[int, int, int]]()
                for (numbers, kind, address), count in ttnn.items():
                    if number in numbers:
                        on_chip[len(numbers), kind, address] += count
                assert found == on_chip, (number, record)
            several.update(len(numbers) for numbers, *_ in ttnn.elements())
            dump = ask("/dump", kind=buffers["kind"])
            assert (dump["total"], len(dump["groups"])) == (ttnn.total(), len({numbers for numbers, *_ in ttnn}))
            pools = ask("/breakdown", by="kind", kind=buffers["kind"])["pools"]
            assert sum(pool["count"] for pool in pools) == ttnn.total()
    assert set(several) == {8, 2, 4}, "a mesh and two parts of it"
