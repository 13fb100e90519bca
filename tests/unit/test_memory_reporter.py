# SPDX-License-Identifier: Apache-2.0
"""The reporter: its chips, its two figures, and that errors of a runtime do not escape."""

from __future__ import annotations

import gc
import os
import signal
import threading
import weakref
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest

from ttmem.collect.client import AllocationClient
from ttmem.collect.memory_reporter import KINDS, MemoryReporter, running
from ttmem.model.events import Event, Viewed
from ttmem.model.kinds import Kind

MB = 1_000_000
NUMBERS = count()


def view_of(allocated: int, banks: int = 64) -> Any:
    return SimpleNamespace(
        num_banks=banks, total_bytes_per_bank=1 << 20, total_bytes_allocated_per_bank=allocated,
        total_bytes_free_per_bank=(1 << 20) - allocated, largest_contiguous_bytes_free_per_bank=77,
    )  # fmt: skip


class Told(AllocationClient):
    """A client whose events stay here."""

    def __init__(self) -> None:
        super().__init__(enabled=True, socket_path=f"/nowhere/{next(NUMBERS)}", source="reporter")
        self.events: list[Event] = []
        self._sender.put = self.events.append  # type: ignore[method-assign,assignment]


def reporter_of(devices: list[Any], view: Any, **keywords: Any) -> tuple[MemoryReporter, list[Event]]:
    client = Told()
    return MemoryReporter(devices, client=client, view=view, **keywords), client.events


@pytest.mark.parametrize(
    ("total", "tracked", "inferred"),
    [
        (952 * MB // 10, 15 * MB // 10, 937 * MB // 10),
        (52 * MB // 10, 0, 52 * MB // 10),
        (64 * 100, 64 * 101, 0),
    ],
)
def test_total_and_what_is_inferred(total: int, tracked: int, inferred: int) -> None:
    reporter, _ = reporter_of([0], lambda device, kind: view_of(total // 64 if kind is Kind.L1 else 1))
    assert reporter.total(0) is None, "nobody has looked yet"
    assert not reporter.available
    assert reporter.publish()
    assert (reporter.total(0), reporter.inferred(0, tracked)) == (total, inferred)
    assert reporter.status(0) == "available"


def test_everything_is_published() -> None:
    sizes = {kind: 100 + kind for kind in KINDS}
    reporter, events = reporter_of([5], lambda device, kind: view_of(sizes[kind], banks=8))
    reporter.publish()
    assert sorted(events) == sorted(Viewed(5, 0, kind, 8, 1 << 20, sizes[kind], 77) for kind in KINDS)


def test_every_chip_of_a_mesh() -> None:
    """With the allocator of the mesh, whether the runtime has methods or attributes."""
    real = SimpleNamespace(id=lambda: 2, get_device_ids=lambda: [4, 6])
    simulated = SimpleNamespace(id=9, get_devices=lambda: [SimpleNamespace(id=1)])
    reporter, events = reporter_of([real, simulated], lambda device, kind: view_of(3))
    reporter.publish()
    assert {(event.device, event.allocator) for event in events if isinstance(event, Viewed)} == {
        (4, 3), (6, 3), (1, 10),
    }  # fmt: skip
    assert reporter.total(6) == 3 * 64


def test_a_device_in_two_meshes_has_two_allocators() -> None:
    meshes = [SimpleNamespace(id=lambda: 0, get_device_ids=lambda: [0, 1]),
              SimpleNamespace(id=lambda: 1, get_device_ids=lambda: [1])]  # fmt: skip
    reporter, _ = reporter_of(meshes, lambda device, kind: view_of(10))
    reporter.publish()
    assert (reporter.total(0), reporter.total(1)) == (640, 1280)


class Flaky:
    """A runtime whose device can be closed."""

    def __init__(self) -> None:
        self.closed = False

    def __call__(self, device: Any, kind: Kind) -> Any:
        if self.closed:
            raise RuntimeError("the device is closed\nbacktrace:\n ...")
        return view_of(5)


def test_a_closed_device_is_unavailable_and_its_views_are_taken_back() -> None:
    runtime = Flaky()
    reporter, events = reporter_of([0], runtime)
    reporter.publish()
    runtime.closed = True
    events.clear()
    assert not reporter.publish()
    assert not reporter.available
    assert reporter.errors == 1
    assert (reporter.total(0), reporter.inferred(0, 0)) == (None, None)
    assert reporter.status(0) == "unavailable: the device is closed"
    assert {event.banks for event in events if isinstance(event, Viewed)} == {0}
    assert len(events) == len(KINDS)
    events.clear()
    reporter.publish()
    assert events == [], "taken back once"
    runtime.closed = False
    assert reporter.publish()
    assert reporter.status(0) == "available"


def test_one_bad_device_does_not_hide_another() -> None:
    def view(device: Any, kind: Kind) -> Any:
        if device == 0:
            raise RuntimeError
        return view_of(1)

    reporter, _ = reporter_of([0, 1], view)
    assert not reporter.publish()
    assert (reporter.total(0), reporter.total(1)) == (None, 64)
    assert reporter.status(0) == "unavailable: RuntimeError"
    assert reporter.status(7).startswith("unavailable: not one of")


def test_the_thread_publishes_and_survives_errors() -> None:
    looks, enough, runtime = [], threading.Event(), Flaky()

    def view(device: Any, kind: Kind) -> Any:
        looks.append(kind)
        runtime.closed = len(looks) % 2 == 0
        if len(looks) > 40:
            enough.set()
        return runtime(device, kind)

    with reporter_of([0], view, interval=0.0001)[0] as reporter:
        assert enough.wait(30)
    assert reporter.errors > 1
    assert not reporter.is_running()
    count = len(looks)
    assert reporter._thread is not None
    assert not reporter._thread.is_alive()
    assert len(looks) == count


def test_a_forgotten_reporter_is_let_go() -> None:
    looked = threading.Event()

    def view(device: Any, kind: Kind) -> Any:
        looked.set()
        return view_of(1)

    reporter, _ = reporter_of([0], view, interval=0.001)
    gone, thread = weakref.ref(reporter), reporter._thread
    assert looked.wait(30)
    del reporter
    assert thread is not None
    thread.join(30)
    gc.collect()
    assert gone() is None


def test_the_newest_that_runs() -> None:
    first, _ = reporter_of([0], Flaky())
    second, _ = reporter_of([0], Flaky())
    assert running() is second
    second.stop()
    assert running() is first
    first.stop()
    assert running() not in (first, second)


def test_its_own_client_tracks_nothing() -> None:
    """So that it is never used as the source of allocations. It ends with the reporter."""
    reporter = MemoryReporter([0], view=Flaky())
    assert reporter.client.source == "reporter"
    assert reporter.client.is_enabled()
    reporter.stop()
    assert not reporter.client.is_enabled()


def test_a_client_that_was_given_stays_open() -> None:
    reporter, _ = reporter_of([0], Flaky())
    reporter.stop()
    assert reporter.client.is_enabled()
    reporter.client.close(0)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_fork_while_the_thread_looks() -> None:
    """The thread that holds the lock does not exist in the child, which can still read the views and stop."""
    looking, done = threading.Event(), threading.Event()

    def view(device: Any, kind: Kind) -> Any:
        if threading.current_thread() is not threading.main_thread():
            looking.set()
            assert done.wait(30)
        return view_of(5)

    reporter, _ = reporter_of([0], view, interval=0.001)
    assert looking.wait(30)
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        code = 1
        try:
            reporter.publish()
            running_before = reporter.is_running()
            reporter.stop()
            code = 0 if running_before and not reporter.is_running() and reporter.total(0) == 320 else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    done.set()
    reporter.stop()
