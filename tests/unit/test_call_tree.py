# SPDX-License-Identifier: Apache-2.0
"""Call trees: what is below which caller, what a search keeps, and sums over the chips of a mesh."""

from __future__ import annotations

from typing import Any

from tests.schema_conformance import problems
from ttmem.account.ledger import Ledger
from ttmem.analyze.breakdown import Breakdown
from ttmem.analyze.call_tree import CallTree
from ttmem.model import schema
from ttmem.model.events import Allocated, Device, DeviceOpened, Extra, ProgramCompiled
from ttmem.model.identity import ChipInfo, ProcessInfo
from ttmem.model.kinds import BreakdownPool, Confidence, Kind

TTNN = "site-packages/ttnn/decorators.py:7 __call__"
INIT = f"{TTNN}\nllama/model.py:6 __init__\nserve.py:9 main"
STEP = f"{TTNN}\nllama/model.py:22 step\nserve.py:15 main"


def account() -> Ledger:
    ledger = Ledger()
    source = ledger.source(0.0, ProcessInfo(1, 1), "client", Confidence.EXACT)
    for number in range(2):
        ledger.apply(1.0, source, DeviceOpened(number, ChipInfo(f"7{number}")))

    def made(
        address: int, size: int, kind: Kind = Kind.DRAM, device: Device = 0, program: int = 0, **extra: Any
    ) -> None:
        ledger.apply(2.0, source, Allocated(device, kind, address, size, program, 0, Extra(**extra)))

    made(1, 1000, device=(0, 1), tag="ttnn.zeros", stack=INIT, shape="[32, 32]")
    made(2, 500, tag="ttnn.zeros", stack=INIT, shape="[32, 16]")
    made(3, 200, tag="ttnn.add", stack=STEP)
    made(4, 100, tag="ttnn.relu", stack=STEP)
    made(5, 50, tag="weights")
    made(6, 7)
    made(7, 30, stack=STEP)
    made(8, 64, Kind.L1, tag="ttnn.add", stack=STEP)
    ledger.apply(3.0, source, ProgramCompiled(0, 9, 512, 1, "ttnn.add", STEP))
    made(9, 80, Kind.CB, program=9)
    return ledger


def tree(**options: Any) -> schema.CallTree:
    found = CallTree(**options)
    for allocation in account().allocations():
        found.add(allocation)
    document = found.document("now")
    assert problems(document, schema.CallTree) == []
    return document


def shown(nodes: list[schema.CallTreeNode]) -> list[Any]:
    """Name, count, bytes and what is below."""
    return [(node["name"], node["count"], node["bytes"], shown(node["children"])) for node in nodes]


def test_the_outermost_caller_is_first_and_the_operation_last() -> None:
    dram, l1, programs = tree()["pools"]
    assert (dram["pool"], dram["count"], dram["bytes"], dram["per_chip"], dram["chips"]) == ("dram", 7, 2887, 1887, 2)
    assert shown(dram["children"]) == [
        ("serve.py:9 main", 2, 2500, [("llama/model.py:6 __init__", 2, 2500, [("ttnn.zeros", 2, 2500, [])])]),
        (
            "serve.py:15 main", 3, 330,
            [(
                "llama/model.py:22 step", 3, 330,
                [("ttnn.add", 1, 200, []), ("ttnn.relu", 1, 100, []), ("... 1 frame in ttnn", 1, 30, [])],
            )],
        ),
        ("weights", 1, 50, []),
        ("no stack and no operation is known", 1, 7, []),
    ]  # fmt: skip
    step: list[Any] = [("serve.py:15 main", 1, 64, [("llama/model.py:22 step", 1, 64, [("ttnn.add", 1, 64, [])])])]
    assert shown(l1["children"]) == step
    assert [(node["name"], node["bytes"]) for node in programs["children"]] == [("serve.py:15 main", 80)]


def test_the_pools_are_those_of_a_breakdown() -> None:
    breakdown = Breakdown("op")
    for allocation in account().allocations():
        breakdown.add(allocation)
    found, wanted = tree()["pools"], breakdown.pools()
    assert [(pool["pool"], pool["count"], pool["bytes"], pool["per_chip"], pool["chips"]) for pool in found] == [
        (pool["pool"], pool["count"], pool["bytes"], pool["per_chip"], pool["chips"]) for pool in wanted
    ]


def test_a_search_keeps_allocations_that_match_in_a_caller_the_operation_or_the_shape() -> None:
    assert [pool["count"] for pool in tree(search="MODEL.py:22")["pools"]] == [3, 1, 1]
    assert [pool["bytes"] for pool in tree(search="relu")["pools"]] == [100]
    assert [pool["bytes"] for pool in tree(search="[32, 16]")["pools"]] == [500]
    assert tree(search="nothing")["pools"] == []


def test_one_pool() -> None:
    assert [pool["pool"] for pool in tree(pool=BreakdownPool.PROGRAMS)["pools"]] == ["programs"]
