# SPDX-License-Identifier: Apache-2.0
"""Periodic work continues when a part of it fails, and reports the failure once."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ttmem.server.guard import Guard


@pytest.fixture
def lines() -> list[str]:
    return []


@pytest.fixture
def guard(lines: list[str]) -> Guard:
    times = iter(range(1000))
    return Guard(lines.append, lambda: float(next(times)))


def failing(text: str = "disk full") -> Callable[[], None]:
    def work() -> None:
        raise OSError(text)

    return work


def state(guard: Guard, name: str) -> tuple[str, str | None]:
    (found,) = (part for part in guard.json() if part["name"] == name)
    return found["state"], found["detail"]


def test_a_failure_is_reported_once_and_counted_each_time(guard: Guard, lines: list[str]) -> None:
    for _ in range(50):
        guard.run("history", failing())
    assert lines == ["history failed: OSError: disk full; it is tried again"]
    assert state(guard, "history") == ("failing", "OSError: disk full")
    assert guard.json()[0]["failures"] == 50
    assert guard.json()[0]["since"] == 0.0  # the time of the first failure, not of the last one
    assert not guard.all_well


def test_a_part_that_works_again_says_so(guard: Guard, lines: list[str]) -> None:
    guard.run("history", failing())
    guard.run("history", lambda: None)
    guard.run("history", lambda: None)
    assert lines[1:] == ["history works again"]
    assert state(guard, "history") == ("ok", None)
    assert guard.json()[0]["since"] is None
    assert guard.all_well


def test_parts_are_apart(guard: Guard) -> None:
    done = []
    guard.run("history", failing())
    guard.run("flush", lambda: done.append(1))
    assert done == [1]
    assert state(guard, "flush") == ("ok", None)


def test_failures_that_are_new_each_time_do_not_fill_the_log(guard: Guard, lines: list[str]) -> None:
    for number in range(1000):
        guard.run("history", failing(f"value {number}"))
    assert len(lines) == 64


def test_work_that_waits_is_not_well(guard: Guard, lines: list[str]) -> None:
    guard.run("clients", lambda: "new clients wait for file descriptors")
    assert state(guard, "clients") == ("waiting", "new clients wait for file descriptors")
    assert not guard.all_well
    guard.run("clients", lambda: True)  # other values have no effect
    assert state(guard, "clients") == ("ok", None)
    assert lines == []


def test_what_ends_the_server_is_not_caught(guard: Guard) -> None:
    def stop() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        guard.run("history", stop)
