# SPDX-License-Identifier: Apache-2.0
"""A workload's queries about its own memory, the meter that answers, and phases that never disturb it."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import ttmem
from tests.support import not_none, wait_until
from tests.unit.test_meters import Allocators
from ttmem.collect import client as client_module
from ttmem.collect import memory, memory_reporter
from ttmem.collect.client import AllocationClient
from ttmem.collect.memory import NoMeter, phase
from ttmem.collect.memory_reporter import MemoryReporter
from ttmem.model.events import Event, PhaseBegan, PhaseEnded


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Removes the meters that other tests left."""
    monkeypatch.setattr(client_module, "_clients", weakref.WeakSet())
    monkeypatch.setattr(memory_reporter, "_reporters", [])


@pytest.fixture
def client(tmp_path: Path) -> Iterator[AllocationClient]:
    client = AllocationClient(enabled=True, socket_path=str(tmp_path / "nobody.sock"))
    yield client
    client.close(0)


@contextmanager
def held(lock: Any) -> Iterator[None]:
    """A lock that another thread has."""
    taken, done = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            taken.set()
            done.wait(30)

    thread = threading.Thread(target=hold)
    thread.start()
    assert taken.wait(30)
    yield
    done.set()
    thread.join()


def allocate(client: AllocationClient, place: int, size: int, kind: str = "dram", device: int = 0) -> None:
    client.report_allocation(device_id=device, size=size, buffer_type=kind, buffer_id=place, reserved=size + 24)


def free(client: AllocationClient, place: int, kind: str = "dram", device: int = 0) -> None:
    client.report_deallocation(device_id=device, buffer_id=place, buffer_type=kind)


# -- statistics --------------------------------------------------------------------------------------------------


def test_now_and_at_most(client: AllocationClient) -> None:
    allocate(client, 1, 1000)
    allocate(client, 2, 500)
    free(client, 2)
    allocate(client, 3, 70, "l1", device=1)
    assert (ttmem.memory_allocated(), ttmem.max_memory_allocated()) == (1000, 1500)
    assert (ttmem.memory_reserved(0), ttmem.max_memory_reserved(0)) == (1024, 1548)
    assert (ttmem.memory_allocated(1), ttmem.memory_allocated(1, "l1"), ttmem.memory_allocated(kind="l1")) == (
        0,
        70,
        70,
    )
    assert ttmem.memory_allocated(7, "l1_pool") == 0


def test_peaks_of_one_device_start_anew(client: AllocationClient) -> None:
    for device in (0, 1):
        allocate(client, 1, 100, device=device)
        free(client, 1, device=device)
    ttmem.reset_peak_memory_stats(0)
    assert [ttmem.max_memory_allocated(device) for device in (0, 1, None)] == [0, 100, 100]
    ttmem.reset_peak_memory_stats()
    assert [ttmem.max_memory_allocated(device) for device in (0, 1, None)] == [0, 0, 0]
    allocate(client, 1, 30, device=1)
    assert [ttmem.max_memory_reserved(device) for device in (0, 1, None)] == [0, 54, 54]


@pytest.mark.parametrize("device", ["x", 0.0, [0]])
def test_devices_that_are_no_numbers(client: AllocationClient, device: Any) -> None:
    with phase("one") as one:
        pass
    for ask in (
        ttmem.memory_allocated, ttmem.max_memory_reserved, ttmem.reset_peak_memory_stats, ttmem.memory_summary,
        lambda number: one.peak(device=number),
    ):  # fmt: skip
        with pytest.raises(ValueError, match="give tt-metal's number of a chip, or None for all"):
            ask(device)


def test_kinds_that_do_not_exist(client: AllocationClient) -> None:
    with pytest.raises(ValueError, match="there is no kind 'DRAM'; there are dram_pool, l1_pool, dram"):
        ttmem.memory_allocated(kind="DRAM")


def test_a_kind_that_the_meter_does_not_see(client: AllocationClient) -> None:
    with pytest.raises(NoMeter, match="the client of this process does not track dfb; `ttmem run"):
        ttmem.memory_allocated(kind="dfb")


def test_reserved_that_nobody_said(client: AllocationClient) -> None:
    client.report_allocation(device_id=0, size=10, buffer_type="dram", buffer_id=1)
    with pytest.raises(NoMeter, match="is not known for all allocations"):
        ttmem.memory_reserved()
    assert ttmem.memory_allocated() == 10


def test_without_a_meter_it_says_what_to_do() -> None:
    for ask in (ttmem.memory_allocated, ttmem.max_memory_reserved, ttmem.reset_peak_memory_stats, ttmem.memory_summary):
        with pytest.raises(NoMeter, match=r"ttmem run -- .*TT_ALLOC_TRACKING_ENABLED=1.*MemoryReporter"):
            ask()


def test_the_table(client: AllocationClient) -> None:
    allocate(client, 1, 2048)
    client.report_cb_allocation(device_id=0, size=512, cb_id=1)
    lines = ttmem.memory_summary().splitlines()
    assert lines[0] == f"memory of process {os.getpid()} by the client; peaks are exact about what was reported"
    assert [line.split() for line in lines[1:]] == [
        ["DEVICE", "KIND", "ALLOCATED", "PEAK", "RESERVED", "PEAK"],
        *(
            [where, *row]
            for where in ("0", "all")
            for row in (
                ["dram_pool", "2.0", "KiB", "2.0", "KiB", "2.0", "KiB", "2.0", "KiB"],
                ["l1_pool", "512", "B", "512", "B", "0", "B", "0", "B"],
                ["dram", "2.0", "KiB", "2.0", "KiB", "2.0", "KiB", "2.0", "KiB"],
                ["cb", "512", "B", "512", "B", "0", "B", "0", "B"],
            )
        ),
    ]
    assert [line.split()[0] for line in ttmem.memory_summary(0).splitlines()[2:]] == ["0"] * 4


# -- which meter -------------------------------------------------------------------------------------------------


def test_the_newest_client_that_tracks_buffers(client: AllocationClient, tmp_path: Path) -> None:
    allocate(client, 1, 10)
    other = AllocationClient(enabled=True, socket_path=str(tmp_path / "other.sock"))
    tracker = AllocationClient(enabled=True, socket_path=str(tmp_path / "other.sock"), source="l1_tracker")
    allocate(other, 1, 20)
    assert ttmem.memory_allocated() == 20
    other.close(0)
    assert ttmem.memory_allocated() == 10
    tracker.close(0)


def test_a_reporter_if_there_is_nothing_better(tmp_path: Path) -> None:
    with MemoryReporter([0], view=Allocators(dram=10), client=AllocationClient(enabled=False)):
        assert ttmem.memory_allocated() == ttmem.memory_reserved(0) == 80
        assert "by the reporter; peaks are only as sampled" in ttmem.memory_summary()
        with phase("seen") as seen:
            pass
        assert (seen.meter, seen.end("dram"), seen.peak("cb")) == ("reporter", 80, None)
        client = AllocationClient(enabled=True, socket_path=str(tmp_path / "nobody.sock"))
        allocate(client, 1, 7)
        assert ttmem.memory_allocated() == 7
        client.close(0)
    with pytest.raises(NoMeter):
        ttmem.memory_allocated()


def test_peaks_stay_while_other_meters_come_and_go(client: AllocationClient, tmp_path: Path) -> None:
    def visit() -> None:
        for path in (str(tmp_path / "other.sock"), not_none(client._paths)[0]):
            other = AllocationClient(enabled=True, socket_path=path)
            ttmem.memory_allocated()
            with phase("visit"):
                pass
            other.close(0)

    allocate(client, 1, 1000)
    free(client, 1)
    with phase("first"):
        pass
    visit()
    assert ttmem.max_memory_allocated() == 1000
    with phase("outer") as outer:
        allocate(client, 1, 700)
        free(client, 1)
        visit()
        with phase("inner"):
            pass
    assert outer.peak() == 700


def test_peaks_of_a_reporter_stay_and_are_kept_once(tmp_path: Path) -> None:
    allocators = Allocators(dram=10)
    with MemoryReporter([0], view=allocators, client=AllocationClient(enabled=False)):
        assert ttmem.memory_allocated() == 80
        allocators.allocated["dram"] = 1
        client = AllocationClient(enabled=True, socket_path=str(tmp_path / "nobody.sock"))
        assert ttmem.max_memory_allocated() == 0
        client.close(0)
        assert (ttmem.memory_allocated(), ttmem.max_memory_allocated()) == (8, 80)


def test_peaks_go_with_what_they_are_of(tmp_path: Path) -> None:
    client = AllocationClient(enabled=True, socket_path=str(tmp_path / "nobody.sock"))
    ttmem.memory_allocated()
    sender = weakref.ref(client._sender)
    assert sender() in memory._peaks
    client.close(0)
    del client
    wait_until(lambda: gc.collect() is not None and sender() is None, "the end of its thread")


# -- phases ------------------------------------------------------------------------------------------------------


def figures(one: phase, kind: str = "dram_pool", device: int | None = None) -> tuple[int | None, ...]:
    return one.begin(kind, device), one.peak(kind, device), one.end(kind, device), one.delta(kind, device)


def test_nested_phases(client: AllocationClient) -> None:
    allocate(client, 1, 1000)
    with phase("decode") as decode:
        allocate(client, 2, 700)
        free(client, 2)
        with phase("attention") as attention:
            allocate(client, 2, 300)
        with phase("mlp") as mlp:
            free(client, 2)
            allocate(client, 3, 5, "l1")
    assert figures(decode) == (1000, 1700, 1000, 0)
    assert figures(attention) == (1000, 1300, 1300, 300)
    assert figures(mlp) == (1300, 1300, 1000, -300)
    assert figures(mlp, "l1", 0) == figures(decode, "l1_pool") == (0, 5, 5, 5)
    assert figures(mlp, "l1", 9) == (0, 0, 0, 0)
    assert figures(mlp, "dfb") == (None, None, None, None)
    assert decode.meter == "client"


def test_phases_do_not_touch_the_users_maxima(client: AllocationClient) -> None:
    allocate(client, 1, 900)
    free(client, 1)
    with phase("one"):
        allocate(client, 1, 100)
        assert ttmem.max_memory_allocated() == 900
        ttmem.reset_peak_memory_stats()
        assert ttmem.max_memory_allocated() == 100
        allocate(client, 2, 50)
        free(client, 2)
        with phase("two"):
            pass
    assert ttmem.max_memory_allocated() == 150


def test_a_reset_does_not_touch_an_open_phase(client: AllocationClient) -> None:
    with phase("one") as one:
        allocate(client, 1, 900)
        free(client, 1)
        ttmem.reset_peak_memory_stats()
    assert one.peak() == 900


def test_a_phase_within_itself(client: AllocationClient, told: list[Event]) -> None:
    one = phase("one")
    with one:
        allocate(client, 1, 100)
        with one:
            allocate(client, 2, 7)
        assert figures(one) == (100, 107, 107, 7)
    assert figures(one) == (0, 107, 107, 107)
    began = [event for event in told if isinstance(event, PhaseBegan)]
    assert [event.parent for event in began] == [0, began[0].ident]
    assert [event.ident for event in told if isinstance(event, PhaseEnded)] == [b.ident for b in reversed(began)]


def test_before_it_ends_nothing_is_known(client: AllocationClient) -> None:
    with phase("one") as one:
        assert (one.peak(), one.end(), one.delta()) == (None, None, None)


def test_an_error_of_the_workload_ends_the_phase(client: AllocationClient) -> None:
    one = phase("one")

    def fail() -> None:
        with one:
            allocate(client, 1, 5)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert one.delta() == 5


def test_without_a_meter_a_phase_is_silent() -> None:
    with phase("one") as one:
        pass
    assert one.meter is None
    assert figures(one) == (None, None, None, None)


class Broken:
    """A meter that fails in a given way."""

    def __init__(self, *failing: str) -> None:
        self._failing = failing

    def __getattr__(self, name: str) -> Any:
        def call(*_: Any) -> dict[Any, Any]:
            if name in self._failing:
                raise OSError(name)
            return {}

        return call


@pytest.mark.parametrize("failing", ["phase_began", "phase_ended"])
def test_a_meter_that_fails_is_not_the_workloads_affair(failing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = memory.PhaseRecorder("client", Broken(failing), memory.Peaks())
    monkeypatch.setattr(memory, "_recorder", lambda: broken)
    with phase("one") as one:
        pass
    assert (one.meter, one.peak()) == (None, None)


@pytest.fixture
def told(client: AllocationClient, monkeypatch: pytest.MonkeyPatch) -> list[Event]:
    """What the client sends, except for allocations."""
    events: list[Event] = []
    fold = client._sender._live.fold

    def listen(event: Event) -> Event:
        if isinstance(event, (PhaseBegan, PhaseEnded)):
            events.append(event)
        return fold(event)

    monkeypatch.setattr(client._sender._live, "fold", listen)
    return events


def tree(events: list[Event]) -> dict[str, str | None]:
    names = {event.ident: event.name for event in events if isinstance(event, PhaseBegan)}
    return {event.name: names.get(event.parent) for event in events if isinstance(event, PhaseBegan)}


def test_a_function_is_a_phase_each_time_it_is_called(client: AllocationClient, told: list[Event]) -> None:
    @phase("step")
    def step(depth: int) -> int:
        """Goes down."""
        return depth if depth == 0 else step(depth - 1)

    assert step(2) == 0
    assert (step.__name__, step.__doc__) == ("step", "Goes down.")
    began = [event for event in told if isinstance(event, PhaseBegan)]
    assert [event.name for event in began] == ["step"] * 3
    assert [event.parent for event in began] == [0, began[0].ident, began[1].ident]
    assert [event.ident for event in told if isinstance(event, PhaseEnded)] == [b.ident for b in reversed(began)]


def test_each_thread_nests_by_itself(client: AllocationClient, told: list[Event]) -> None:
    inside, done = threading.Event(), threading.Event()

    def other() -> None:
        with phase("thread"):
            inside.set()
            assert done.wait(30)
            with phase("inner"):
                pass

    thread = threading.Thread(target=other)
    with phase("main"):
        thread.start()
        assert inside.wait(30)
        with phase("also"):
            done.set()
            thread.join()
    assert tree(told) == {"main": None, "thread": None, "also": "main", "inner": "thread"}


def test_each_task_nests_by_itself(client: AllocationClient, told: list[Event]) -> None:
    async def task(name: str) -> None:
        with phase(name):
            await asyncio.sleep(0)
            with phase(f"in {name}"):
                await asyncio.sleep(0)

    async def main() -> None:
        await asyncio.gather(task("a"), task("b"))

    asyncio.run(main())
    assert tree(told) == {"a": None, "b": None, "in a": "a", "in b": "b"}


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_starts_with_nothing(client: AllocationClient) -> None:
    allocate(client, 1, 1000)
    assert ttmem.memory_allocated() == 1000
    code = 1
    with phase("parent") as one:
        with held(memory._recorder().peaks.lock):  # by a thread that does not exist in the child
            child = os.fork()
        if child == 0:
            signal.alarm(20)
            try:
                allocate(client, 1, 7)
                one.__exit__(None, None, None)
                code = 0 if (ttmem.memory_allocated(), one.end()) == (7, 7) else 2
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert one.end() == 1000
