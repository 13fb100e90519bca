# SPDX-License-Identifier: Apache-2.0
"""Jobs that return, raise and hang."""

from __future__ import annotations

import _thread
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support import wait_until
from ttmem.sources.polling import Rounds

SHORT = 1.0  # for jobs that hang as long as the test wants; enough for quick jobs beside them
LONG = 30.0  # for jobs that must not count as hanging on a busy machine


class Hanging:
    """Jobs that hang until they are let go."""

    def __init__(self) -> None:
        self.released = threading.Event()
        self.begun: list[str] = []
        self.ended: list[str] = []

    def job(self, name: str) -> Callable[[], str]:
        def call() -> str:
            self.begun.append(name)
            self.released.wait()
            self.ended.append(name)
            return f"late {name}"

        return call


@pytest.fixture
def hanging() -> Iterator[Hanging]:
    made = Hanging()
    yield made
    made.released.set()


def quick(value: Any) -> Callable[[], Any]:
    return lambda: value


def threads() -> set[str]:
    """Threads of this process, by the kernel's ids: those of other tests may end meanwhile."""
    return set(os.listdir("/proc/self/task"))


def test_values_in_the_order_given() -> None:
    outcomes = Rounds(LONG).run({name: quick(name.upper()) for name in "zebra"})
    assert list(outcomes) == list("zebra")
    assert [outcome.value for outcome in outcomes.values()] == list("ZEBRA")
    assert {(outcome.error, outcome.hangs, outcome.age) for outcome in outcomes.values()} == {(None, False, 0.0)}


def test_nothing_to_do() -> None:
    assert Rounds(LONG).run({}) == {}


def test_one_worker_does_a_round_in_order_and_not_the_caller() -> None:
    threads: list[int] = []
    Rounds(LONG).run({number: lambda: threads.append(_thread.get_ident()) for number in range(20)})
    assert len(threads) == 20
    assert len(set(threads)) == 1
    assert threads[0] != _thread.get_ident()


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(3), KeyboardInterrupt()])
def test_what_a_job_raises_is_its_outcome(error: BaseException) -> None:
    def fail() -> None:
        raise error

    outcomes = Rounds(LONG).run({"bad": fail, "good": quick(1)})
    assert outcomes["bad"].error is error
    assert outcomes["bad"].value is None
    assert outcomes["good"].value == 1


def test_others_go_on_without_one_that_hangs(hanging: Hanging) -> None:
    jobs: dict[Any, Any] = {"stuck": hanging.job("stuck"), **{number: quick(number) for number in range(31)}}
    outcomes = Rounds(SHORT).run(jobs)
    assert outcomes["stuck"].hangs
    assert outcomes["stuck"].value is None
    assert outcomes["stuck"].age >= SHORT
    assert [outcomes[number].value for number in range(31)] == list(range(31))


def test_what_hangs_is_not_started_again_and_its_late_answer_counts(hanging: Hanging) -> None:
    rounds = Rounds(SHORT)
    jobs = {"stuck": hanging.job("stuck"), "good": quick(1)}
    ages = []
    for _ in range(5):
        outcomes = rounds.run(jobs)
        assert outcomes["stuck"].hangs
        assert outcomes["good"].value == 1
        ages.append(outcomes["stuck"].age)
    assert ages == sorted(ages)
    assert hanging.begun == ["stuck"]
    hanging.released.set()
    wait_until(lambda: hanging.ended, "the late answer")
    late = wait_until(lambda: not (outcome := rounds.run(jobs)["stuck"]).hangs and outcome, "a round with it")
    assert late.value == "late stuck"
    assert hanging.begun == ["stuck"], "the late answer was used before the job was started again"
    again = rounds.run(jobs)["stuck"]
    assert (again.value, again.age) == ("late stuck", 0.0)
    assert hanging.begun == ["stuck", "stuck"]


def test_the_age_of_a_late_answer_counts_from_when_it_came(hanging: Hanging) -> None:
    rounds = Rounds(SHORT)
    job = hanging.job("stuck")
    before = time.monotonic()
    assert rounds.run({"stuck": job})["stuck"].hangs
    hanging.released.set()
    released = time.monotonic()
    wait_until(lambda: rounds._begun["stuck"].ended is not None, "the late answer")
    ended = time.monotonic()
    wait_until(lambda: time.monotonic() > ended + 0.05, "some age")
    asked = time.monotonic()
    outcome = rounds.run({"stuck": job})["stuck"]
    assert asked - ended <= outcome.age <= time.monotonic() - released < time.monotonic() - before


def test_no_more_threads_than_jobs_that_hang(hanging: Hanging) -> None:
    rounds = Rounds(SHORT)
    jobs = {number: hanging.job(str(number)) for number in range(8)}
    before = threads()
    for _ in range(10):
        assert all(outcome.hangs for outcome in rounds.run(jobs).values())
    new = threads() - before
    assert len(new) == 8
    hanging.released.set()
    wait_until(lambda: not new & threads(), "the end of the threads")


@pytest.mark.alone
def test_a_round_takes_no_longer_than_twice_the_patience(hanging: Hanging) -> None:
    rounds = Rounds(SHORT)
    began = time.monotonic()
    outcomes = rounds.run({number: hanging.job(str(number)) for number in range(16)})
    took = time.monotonic() - began
    assert all(outcome.hangs for outcome in outcomes.values())
    assert 2 * SHORT <= took < 16 * SHORT, "they hung beside each other, not one after another"
    rounds.patience = LONG
    began = time.monotonic()
    rounds.run({number: hanging.job(str(number)) for number in range(16)})
    assert time.monotonic() - began < LONG, "what is known to hang is not waited for"


@pytest.mark.alone
def test_jobs_that_are_slow_together_but_not_alone_do_not_hang() -> None:
    # Each takes a twentieth of the patience; one after the other, they would take one and a half times that.
    outcomes = Rounds(2.0).run({number: lambda: time.sleep(0.1) for number in range(30)})
    assert not [number for number, outcome in outcomes.items() if outcome.hangs]


def test_a_key_that_is_no_longer_asked_for_is_forgotten_once_it_came_back(hanging: Hanging) -> None:
    rounds = Rounds(SHORT)
    rounds.run({"stuck": hanging.job("stuck")})
    rounds.run({"good": quick(1)})
    assert list(rounds._begun) == ["stuck"]
    hanging.released.set()
    wait_until(lambda: rounds.run({"good": quick(1)}) and not rounds._begun, "the late answer")


def test_no_more_threads_to_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(_thread, "start_new_thread", refuse)
    rounds = Rounds(LONG)
    for _ in range(2):
        outcomes = rounds.run({"a": quick(1), "b": quick(2)})
        assert [str(outcome.error) for outcome in outcomes.values()] == ["can't start new thread"] * 2
        assert not any(outcome.hangs for outcome in outcomes.values())
    monkeypatch.undo()
    assert rounds.run({"a": quick(1)})["a"].value == 1


def test_a_job_that_hangs_keeps_no_program_from_ending() -> None:
    program = """
import os
from ttmem.sources.polling import Rounds
inside, outside = os.pipe()
print(Rounds(0.05).run({0: lambda: os.read(inside, 1)})[0].hangs)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr, done.returncode) == ("True\n", "", 0)
