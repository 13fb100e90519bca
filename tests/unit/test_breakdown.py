# SPDX-License-Identifier: Apache-2.0
"""Breakdowns: each allocation counts once, in its group, and users see only keys that they may see."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttmem.account.ledger import Ledger
from ttmem.analyze import breakdown
from ttmem.analyze.breakdown import KEYS, Breakdown, contains, has_key
from ttmem.analyze.chip_sums import CountedChips
from ttmem.model.events import Allocated, Event, Extra, ProgramCompiled
from ttmem.model.identity import ProcessInfo
from ttmem.model.kinds import BREAKDOWN_POOLS, BUFFER_KINDS, KINDS, BreakdownPool, Confidence, Kind

STACK = "/v/site-packages/ttnn/decorators.py:1 __call__\n/me/model.py:{} forward\n/me/main.py:9 <module>"


def ledger_of(*events: Event, user_id: int = 0, ledger: Ledger | None = None) -> Ledger:
    ledger = ledger or Ledger()
    source = ledger.source(0.0, ProcessInfo(100 + user_id, 1, user_id=user_id), "agent", Confidence.EXACT)
    for event in events:
        ledger.apply(0.0, source, event)
    return ledger


def grouped(ledger: Ledger, by: str, **more: Any) -> dict[str, dict[str | None, Any]]:
    """The rows of each pool, by their keys."""
    found = Breakdown(by, **more)
    for allocation in ledger.allocations():
        found.add(allocation)
    document = found.document()
    assert (document["schema"], document["by"]) == ("ttmem.breakdown/1", by)
    pools: dict[str, dict[str | None, Any]] = {}
    for pool in document["pools"]:
        rows: list[Any] = [*pool["rows"]]
        assert pool["groups"] == len(rows)
        assert pool["bytes"] == sum(row["bytes"] for row in rows)
        assert pool["count"] == sum(row["count"] for row in rows)
        assert [row["bytes"] for row in rows] == sorted((row["bytes"] for row in rows), reverse=True)
        pools[pool["pool"]] = {row[by]: row for row in rows}
    assert list(pools) == [pool.label for pool in BreakdownPool if pool.label in pools], "in one order"
    return pools


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
    sizes = {
        by: {pool: {key: row["bytes"] for key, row in rows.items()} for pool, rows in grouped(ledger, by).items()}
        for by in KEYS
    }
    lines = {n: f"/me/model.py:{n} forward" for n in (1, 2, 5)}
    stacks = {n: STACK.format(n) for n in (1, 2, 5)}
    assert sizes["op"] == {
        "dram": {"ttnn.add": 64, "ttnn.relu": 32, None: 8}, "l1_buffers": {"ttnn.add": 16}, "programs": {"ttnn.add": 6}
    }  # fmt: skip
    assert sizes["line"] == {"dram": {lines[1]: 96, None: 8}, "l1_buffers": {lines[2]: 16}, "programs": {lines[5]: 6}}
    assert sizes["stack"] == {
        "dram": {stacks[1]: 96, None: 8}, "l1_buffers": {stacks[2]: 16}, "programs": {stacks[5]: 6}
    }  # fmt: skip
    assert sizes["shape"] == {
        "dram": {"[32, 1] bfloat16 tile": 96, None: 8}, "l1_buffers": {None: 16}, "programs": {None: 6}
    }  # fmt: skip
    program = {"pid 100 program 7 ttnn.add": 6}
    assert sizes["program"] == {"dram": {None: 104}, "l1_buffers": {None: 16}, "programs": program}
    assert sizes["kind"] == {"dram": {"dram": 104}, "l1_buffers": {"l1": 16}, "programs": {"cb": 4, "kernel": 2}}
    assert grouped(ledger, "line")["dram"][lines[1]] == {
        "line": lines[1], "count": 2, "bytes": 96, "per_chip": 96, "reserved": 256, "chips": 1, "other_chips": 0,
        "largest": 64, "kinds": {"dram": 96},
    }  # fmt: skip
    assert grouped(ledger, "line")["dram"][None]["reserved"] is None, "not known, which is not 0"
    assert grouped(ledger, "op")["programs"]["ttnn.add"]["kinds"] == {"cb": 4, "kernel": 2}


def test_every_kind_is_in_one_pool() -> None:
    assert sorted(kind for kinds in BREAKDOWN_POOLS.values() for kind in kinds) == sorted(KINDS)


def test_the_chips_of_a_row_are_counted() -> None:
    events = [buffer(0x1000, 64, 1, tag="ttnn.add")._replace(device=device) for device in (0, 1, 2)]
    found = Breakdown("op")
    for allocation in ledger_of(*events, buffer(0x2000, 8, tag="ttnn.relu")).allocations():
        found.add(allocation)
    (pool,) = found.document()["pools"]
    assert (pool["count"], pool["bytes"], pool["chips"]) == (4, 200, 3)
    assert [(row["op"], row["chips"]) for row in pool["rows"]] == [("ttnn.add", 3), ("ttnn.relu", 1)]


def test_a_limit_is_for_each_pool() -> None:
    found = Breakdown("op")
    events = [buffer(0x1000 * n, n, tag=f"op {n}", kind=kind) for kind in (Kind.DRAM, Kind.L1) for n in (1, 2, 3)]
    for allocation in ledger_of(*events).allocations():
        found.add(allocation)
    for pool in found.document(2)["pools"]:
        assert [row["op"] for row in pool["rows"]] == ["op 3", "op 2"]
        assert (pool["groups"], pool["count"], pool["bytes"]) == (3, 3, 6), "of all rows, listed or not"


def test_what_somebody_may_not_see_is_counted_without_its_name() -> None:
    ledger = ledger_of(buffer(0x1000, 64, 1, tag="ttnn.add"), user_id=1000)
    ledger_of(buffer(0x1000, 32, 2, tag="ttnn.secret"), user_id=1001, ledger=ledger)
    for by in KEYS:
        seen = grouped(ledger, by, may_see=lambda user_id: user_id == 1000)
        assert sum(row["bytes"] for row in seen["dram"].values()) == 96
        assert "secret" not in repr(seen)
        assert "model.py:2" not in repr(seen)
    assert grouped(ledger, "op", may_see=lambda user_id: user_id == 1000)["dram"][None]["bytes"] == 32
    assert grouped(ledger, "kind", may_see=lambda user_id: False)["dram"]["dram"]["bytes"] == 96


def test_the_allocations_of_a_row_are_found_again() -> None:
    ledger = ledger_of(
        buffer(0x1000, 64, 1, tag="ttnn.add", shape="[32, 1] bfloat16 tile"),
        buffer(0x2000, 32, 2, tag="ttnn.relu"),
        buffer(0x4000, 8),
        ProgramCompiled(0, 7, 0, 3, "ttnn.add", STACK.format(5)),
        Allocated(0, Kind.KERNEL, 0x200, 2, 7, 0, Extra(None, 3, 0, "reader (NCRISC: 2 B)")),
    )
    ledger_of(buffer(0x5000, 16, 9, tag="ttnn.secret"), user_id=1001, ledger=ledger)
    everything = list(ledger.allocations())
    for may_see in (lambda user_id: True, lambda user_id: user_id == 0):
        for by in KEYS:
            for rows in grouped(ledger, by, may_see=may_see).values():
                for key, row in rows.items():
                    kinds = row["kinds"]
                    matches = has_key(by, key or "", may_see)
                    found = [one for one in everything if one.kind.label in kinds and matches(one)]
                    assert (len(found), sum(one.counted for one in found)) == (row["count"], row["bytes"]), (by, key)


def test_a_text_is_searched_in_operations_tags_lines_and_shapes() -> None:
    ledger = ledger_of(
        buffer(0x1000, 64, 1, tag="ttnn.Add", shape="[32, 1] bfloat16 tile"),
        ProgramCompiled(0, 7, 0, 3, "ttnn.matmul", STACK.format(5)),
        Allocated(0, Kind.KERNEL, 0x200, 2, 7, 0, Extra(None, 3, 0, "reader (NCRISC: 2 B)")),
    )
    ledger_of(buffer(0x5000, 16, 9, tag="ttnn.secret"), user_id=1001, ledger=ledger)

    def found(text: str) -> list[int]:
        matches = contains(text, lambda user_id: user_id == 0)
        return sorted(allocation.address for allocation in ledger.allocations() if matches(allocation))

    assert found("ADD") == found("bfloat16") == found("[32, 1]") == found("model.py:1 ") == [0x1000]
    assert found("matmul") == found("ncrisc") == found("model.py:5") == [0x200]
    assert found("forward") == [0x200, 0x1000]
    assert found("decorators.py") == [], "frames of ttnn are not the user's line"
    assert found("secret") == found("model.py:9") == [], "which the reader may not see"


def test_more_rows_than_are_kept_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The row for the rest has all remaining allocations, not only the last of them."""
    monkeypatch.setattr(breakdown, "MOST_ROWS", 3)
    ledger = ledger_of(*(buffer(0x1000 * n, 10 + n, n, tag=f"op {n}") for n in range(1, 9)))
    found = grouped(ledger, "op")["dram"]
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
            found = [row for rows in grouped(ledger, by, may_see=may_see).values() for row in rows.values()]
            assert sum(row["bytes"] for row in found) == sum(row[1] for row in rows)
            assert sum(row["count"] for row in found) == len(rows)
            assert max((row["largest"] for row in found), default=0) == max((row[1] for row in rows), default=0)
            for row in found:
                assert sum(row["kinds"].values()) == row["bytes"]


def test_an_allocation_on_a_mesh_is_counted_once() -> None:
    mesh = [buffer(0x1000 * n, 64, tag="ttnn.add", reserved=128)._replace(device=(0, 1, 2, 3)) for n in (1, 2)]
    alone = buffer(0x9000, 8, tag="ttnn.add", reserved=16)._replace(device=2)
    row = grouped(ledger_of(*mesh, alone), "op")["dram"]["ttnn.add"]
    sums = {"count": 3, "bytes": 4 * 128 + 8, "per_chip": 128 + 8, "chips": 4, "reserved": 4 * 256 + 16}
    assert row == {"op": "ttnn.add", **sums, "other_chips": 0, "largest": 64, "kinds": {"dram": 4 * 128 + 8}}


def test_a_breakdown_of_one_chip_of_a_mesh() -> None:
    ledger = ledger_of(buffer(0x1000, 64, tag="ttnn.add")._replace(device=(0, 1, 2, 3)))
    second = CountedChips(lambda holding: holding.chips[1:2])
    row = grouped(ledger, "op", counted=second)["dram"]["ttnn.add"]
    assert (row["count"], row["bytes"], row["per_chip"], row["chips"], row["other_chips"]) == (1, 64, 64, 1, 3)
