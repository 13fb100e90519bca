# SPDX-License-Identifier: Apache-2.0
"""Allocations put together: each counts once, in the group of what made it, and none for those who may not know."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttmem.account.ledger import Ledger
from ttmem.analyze import breakdown
from ttmem.analyze.breakdown import KEYS, Breakdown
from ttmem.model.events import Allocated, Event, Extra, ProgramCompiled
from ttmem.model.identity import ProcessInfo
from ttmem.model.kinds import BUFFER_KINDS, Confidence, Kind

STACK = "/v/site-packages/ttnn/decorators.py:1 __call__\n/me/model.py:{} forward\n/me/main.py:9 <module>"


def ledger_of(*events: Event, user_id: int = 0, ledger: Ledger | None = None) -> Ledger:
    ledger = ledger or Ledger()
    source = ledger.source(0.0, ProcessInfo(100 + user_id, 1, user_id=user_id), "agent", Confidence.EXACT)
    for event in events:
        ledger.apply(0.0, source, event)
    return ledger


def grouped(ledger: Ledger, by: str, **more: Any) -> dict[str | None, Any]:
    found = Breakdown(by, **more)
    for allocation in ledger.allocations():
        found.add(allocation)
    document = found.document()
    assert (document["schema"], document["by"]) == ("ttmem.breakdown/1", by)
    result: list[Any] = [*document["rows"]]
    assert document["count"] == len(result)
    assert document["bytes"] == sum(row["bytes"] for row in result)
    assert [row["bytes"] for row in result] == sorted((row["bytes"] for row in result), reverse=True)
    return {row[by]: row for row in result}


def buffer(address: int, size: int, line: int | None = None, **extra: Any) -> Allocated:
    stack = None if line is None else STACK.format(line)
    return Allocated(0, extra.pop("kind", Kind.DRAM), address, size, extra=Extra(stack=stack, **extra))


def test_each_way() -> None:
    ledger = ledger_of(
        buffer(0x1000, 64, 1, tag="ttnn.add", shape="[32, 1] bfloat16 tile", reserved=128),
        buffer(0x2000, 32, 1, tag="ttnn.relu", shape="[32, 1] bfloat16 tile", reserved=128),
        buffer(0x3000, 16, 2, tag="ttnn.add", reserved=128, kind=Kind.L1),
        buffer(0x4000, 8, reserved=None),
        ProgramCompiled(0, 7, 0, 3, "ttnn.add", STACK.format(5)),
        Allocated(0, Kind.CB, 0x100, 4, 7, 0, Extra(None, 3, 0, None)),
        Allocated(0, Kind.KERNEL, 0x200, 2, 7, 0, Extra(None, 3, 0, "reader (NCRISC: 2 B)")),
        Allocated(0, Kind.CB, 0x3000, 16, 7, 0, Extra(None, 3, 0, None, shared=True)),
    )
    sizes = {by: {key: row["bytes"] for key, row in grouped(ledger, by).items()} for by in KEYS}
    lines = {n: f"/me/model.py:{n} forward" for n in (1, 2, 5)}
    assert sizes["op"] == {"ttnn.add": 64 + 16 + 4 + 2, "ttnn.relu": 32, None: 8}
    assert sizes["line"] == {lines[1]: 96, lines[2]: 16, lines[5]: 6, None: 8}
    assert sizes["stack"] == {STACK.format(1): 96, STACK.format(2): 16, STACK.format(5): 6, None: 8}
    assert sizes["shape"] == {"[32, 1] bfloat16 tile": 96, None: 30}
    assert sizes["program"] == {"pid 100 program 7 ttnn.add": 6, None: 120}
    assert sizes["kind"] == {"dram": 104, "l1": 16, "cb": 4, "kernel": 2}
    one = grouped(ledger, "line")[lines[1]]
    assert one == {"line": lines[1], "count": 2, "bytes": 96, "reserved": 256, "largest": 64, "kinds": {"dram": 96}}
    assert grouped(ledger, "line")[None]["reserved"] is None, "not known, which is not 0"
    assert grouped(ledger, "op")["ttnn.add"]["kinds"] == {"dram": 64, "l1": 16, "cb": 4, "kernel": 2}


def test_what_somebody_may_not_see_is_counted_without_its_name() -> None:
    ledger = ledger_of(buffer(0x1000, 64, 1, tag="ttnn.add"), user_id=1000)
    ledger_of(buffer(0x1000, 32, 2, tag="ttnn.secret"), user_id=1001, ledger=ledger)
    for by in KEYS:
        seen = grouped(ledger, by, may_see=lambda user_id: user_id == 1000)
        assert sum(row["bytes"] for row in seen.values()) == 96
        assert "secret" not in repr(seen)
        assert "model.py:2" not in repr(seen)
    assert grouped(ledger, "op", may_see=lambda user_id: user_id == 1000)[None]["bytes"] == 32
    assert grouped(ledger, "kind", may_see=lambda user_id: False)["dram"]["bytes"] == 96


def test_more_rows_than_are_kept_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which has all that was left over, not the last of it."""
    monkeypatch.setattr(breakdown, "MOST_ROWS", 3)
    ledger = ledger_of(*(buffer(0x1000 * n, 10 + n, n, tag=f"op {n}") for n in range(1, 9)))
    found = grouped(ledger, "op")
    assert {key: row["count"] for key, row in found.items()} == {"op 1": 1, "op 2": 1, "op 3": 1, None: 5}
    assert sum(row["bytes"] for row in found.values()) == sum(10 + n for n in range(1, 9))


allocations = st.lists(
    st.tuples(
        st.sampled_from(BUFFER_KINDS),
        st.integers(1, 1 << 30),
        st.sampled_from([None, "ttnn.add", "ttnn.relu"]),
        st.sampled_from([None, 1, 2]),
        st.sampled_from([None, "[1] bfloat16 tile"]),
        st.sampled_from([None, 4096]),
        st.integers(0, 2),
    ),
    max_size=30,
)


@given(allocations)
def test_nothing_is_lost_and_nothing_counts_twice(rows: list[tuple[Any, ...]]) -> None:
    ledger = Ledger()
    for at, (kind, size, tag, line, shape, reserved, user_id) in enumerate(rows):
        event = buffer(0x1000 * (at + 1), size, line, kind=kind, tag=tag, shape=shape, reserved=reserved)
        ledger_of(event, user_id=user_id, ledger=ledger)
    for by in KEYS:
        for may_see in (lambda user_id: True, lambda user_id: user_id == 1):
            found = grouped(ledger, by, may_see=may_see).values()
            assert sum(row["bytes"] for row in found) == sum(row[1] for row in rows)
            assert sum(row["count"] for row in found) == len(rows)
            assert max((row["largest"] for row in found), default=0) == max((row[1] for row in rows), default=0)
            for row in found:
                assert sum(row["kinds"].values()) == row["bytes"]
