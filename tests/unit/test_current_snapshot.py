# SPDX-License-Identifier: Apache-2.0
"""The account merged with the last sample of the machine: before the first sample, after it, and after failures."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests import snapshots
from ttmem.documents import unknown_rows as blank
from ttmem.server import current_snapshot
from ttmem.server.current_snapshot import CurrentSnapshot

Json = dict[str, Any]


def account(user_id: int | None) -> Any:
    return lambda: blank.snapshot("now", "here")


def states(current: CurrentSnapshot) -> dict[str, str]:
    return {source["name"]: source["state"] for source in current.merged(0)()["sources"]}


def details(current: CurrentSnapshot) -> set[str | None]:
    return {source["detail"] for source in current.merged(0)()["sources"]}


def test_without_a_machine_it_is_the_account() -> None:
    current = CurrentSnapshot(account, machine=False)
    assert current.merged(0)() == blank.snapshot("now", "here")
    assert current.chips() == []


def test_before_and_after_the_first_look() -> None:
    current = CurrentSnapshot(account, machine=True)
    assert set(states(current).values()) == {"late"}
    assert details(current) == {"not read yet"}
    current.store(snapshots.machine(snapshots.driver_chip(0)))
    assert len(current.chips()) == len(current.merged(0)()["chips"]) == 1
    assert "late" not in states(current).values()


def test_looks_that_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last sample stays, and is marked as late after a while. The same failure is reported once."""
    warned: list[str] = []
    current = CurrentSnapshot(account, machine=True, warn=warned.append)
    current.store(snapshots.machine(snapshots.driver_chip(0)))
    for _ in range(3):
        current.failed(RuntimeError("the disk is on fire"))
    assert warned == ["cannot read the machine: RuntimeError: the disk is on fire"]
    assert "late" not in states(current).values()
    monkeypatch.setattr(current_snapshot, "_LATE_SECONDS", -1.0)
    assert set(states(current).values()) == {"late"}
    assert details(current) == {
        "the machine was last read 0 s ago: RuntimeError: the disk is on fire",
    }
    assert len(current.merged(0)()["chips"]) == 1


def test_a_comparison_is_with_an_account_that_is_up_to_date() -> None:
    order: list[str] = []

    def take(user_id: int | None) -> Any:
        order.append(f"account for {user_id}")
        return account(user_id)

    async def compare() -> None:
        current = CurrentSnapshot(take, machine=True, catch_up=lambda: order.append("catch up"))
        current.compare(snapshots.machine(), 0.0)  # no process holds a chip: nothing to compare
        assert order == []
        current.compare(snapshots.machine(processes=[snapshots.holder(7, 0)]), 0.0)
        assert current._comparison is not None
        await current._comparison

    asyncio.run(compare())
    assert order == ["catch up", "account for 0"]
