# SPDX-License-Identifier: Apache-2.0
"""The loop for plain records, with records of a real ttnn that repeats its operations.

The account is compared with ttnn's own allocators, and with that of a reader that applies the records one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from tests.agents import fold_into, read_all, watched
from tests.oracle import Oracle
from tests.whole_account import everything, take_highs
from ttmem.account.ledger import Ledger
from ttmem.ingest.plain_ring_records import PlainRecords
from ttmem.ingest.ring_fold import RingFold
from ttmem.model.events import PeaksReset

ROUNDS = 40


@pytest.mark.parametrize(
    ("program", "board", "arguments"),
    [
        ("ttnn_random", "n150", ("--steps", "60", "--seed", "31")),
        ("ttnn_random_meshes", "t3k", ("--steps", "40", "--seed", "32", "--shape", "2x4", "--operations", "parts")),
        ("ttnn_random_meshes", "galaxy", ("--steps", "15", "--seed", "33", "--shape", "8x4", "--operations", "both")),
    ],
)
def test_repeated_operations(program: str, board: str, arguments: tuple[str, ...], folder: Path) -> None:
    plain, number = 0, 0
    apply_plain = PlainRecords.apply

    def counted(records: PlainRecords, batch: Sequence[tuple[int, ...]], newest: int) -> int:
        nonlocal plain
        done = apply_plain(records, batch, newest)
        plain += done
        return done

    single: Ledger = Ledger()
    fold: RingFold | None = None
    with (
        mock.patch.object(PlainRecords, "apply", counted),
        mock.patch.object(RingFold, "_now", return_value=0.0),  # the two readings differ in time
        watched("3.12", program, board, folder, *arguments, "--repeat", str(ROUNDS)) as (collector, running),
    ):
        oracle = Oracle(collector, running)
        for number, record in enumerate(running.records()):
            assert record["error"] is None
            oracle.compare(_meshes(record))
            fold = fold or fold_into(single, oracle.agent.reader(), running.pid, observer=lambda *_: None)
            read_all(fold)
            sources = oracle.agent.source, fold._source
            assert everything(collector.ledger, sources[0]) == everything(single, sources[1])
            if number % 3 == 1:
                highs, expected = map(take_highs, sources)
                assert highs == expected
            elif number % 7 == 2:
                for ledger in (collector.ledger, single):
                    ledger.apply(0.0, None, PeaksReset())
        oracle.nothing_odd()
        records = oracle.agent.fold.applied
    assert fold is not None
    with closing(fold.ring):
        assert fold.applied == records
    assert number > 10
    assert plain > number * ROUNDS, "most of the repeated operations"


def _meshes(record: dict[str, Any]) -> list[dict[str, Any]]:
    """What ttnn's allocators have on each mesh."""
    if "meshes" in record:
        meshes: list[dict[str, Any]] = record["meshes"]
        return meshes
    return [record] if record["views"] else []
