# SPDX-License-Identifier: Apache-2.0
"""The readings of meters: for a client everything up to the call, for a reporter the allocators' figures."""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ttmem.collect.client import AllocationClient
from ttmem.collect.client_totals import ClientTotals
from ttmem.collect.memory_reporter import MemoryReporter
from ttmem.collect.meters import ClientMeter, Meter, Reading, ReporterMeter
from ttmem.model.events import PhaseBegan
from ttmem.model.kinds import Kind


@pytest.fixture
def client(tmp_path: Path) -> Iterator[AllocationClient]:
    client = AllocationClient(enabled=True, socket_path=str(tmp_path / "nobody.sock"))
    yield client
    client.close(0)


def used(meter: Meter) -> dict[Any, int]:
    return {key: reading.used for key, reading in meter.read().items() if reading.used}


def test_a_kind_counts_on_its_device_in_its_pool_and_in_all(client: AllocationClient) -> None:
    meter = ClientMeter(client)
    client.report_allocation(device_id=0, size=100, buffer_type="dram", buffer_id=1)
    client.report_allocation(device_id=1, size=20, buffer_type="trace", buffer_id=1)
    client.report_cb_allocation(device_id=1, size=3, cb_id=1)
    client.report_cb_allocation(device_id=1, size=1000, cb_id=2, shared=True)
    client.report_allocation(device_id=1, size=7, buffer_type="host", buffer_id=1)
    assert used(meter) == {
        (0, "dram"): 100, (0, "dram_pool"): 100,
        (1, "trace"): 20, (1, "dram_pool"): 20, (1, "cb"): 3, (1, "l1_pool"): 3, (1, "host"): 7,
        (None, "dram"): 100, (None, "trace"): 20, (None, "dram_pool"): 120, (None, "cb"): 3, (None, "l1_pool"): 3,
        (None, "host"): 7,
    }  # fmt: skip


def test_what_a_client_would_report_is_zero_and_not_unknown(client: AllocationClient) -> None:
    readings = ClientMeter(client).read()
    assert readings[None, "l1"] == readings[None, "l1_pool"] == Reading(0, 0, 0, 0)
    assert (None, "dfb") not in readings


def test_a_reading_has_everything_that_was_reported_before_it(client: AllocationClient) -> None:
    """Although the sending thread may not have run."""
    meter = ClientMeter(client)
    for number in range(3000):
        client.report_allocation(device_id=0, size=10, buffer_type="l1", buffer_id=number + 1)
        if number % 100 == 0:
            assert meter.read()[0, "l1"].used == 10 * (number + 1)
    assert meter.read()[0, "l1"].peak == 30_000


def test_peaks_start_anew(client: AllocationClient) -> None:
    meter = ClientMeter(client)
    client.report_allocation(device_id=0, size=100, buffer_type="l1", buffer_id=1, reserved=128)
    client.report_allocation(device_id=0, size=50, buffer_type="l1", buffer_id=2, reserved=64)
    client.report_deallocation(device_id=0, buffer_id=1)
    assert meter.read()[0, "l1"] == meter.read_and_reset()[0, "l1"] == Reading(50, 64, 150, 192)
    assert meter.read()[0, "l1"] == Reading(50, 64, 50, 64)
    client.report_allocation(device_id=0, size=1, buffer_type="l1", buffer_id=3, reserved=32)
    meter.reset_peaks()
    client.report_deallocation(device_id=0, buffer_id=3)
    assert meter.read()[0, "l1"] == Reading(50, 64, 51, 96)


def test_what_the_allocator_took_is_known_only_if_it_was_said_of_all(client: AllocationClient) -> None:
    meter = ClientMeter(client)
    client.report_allocation(device_id=0, size=100, buffer_type="l1", buffer_id=1, reserved=128)
    client.report_allocation(device_id=0, size=100, buffer_type="l1", buffer_id=2)
    client.report_cb_allocation(device_id=0, size=5, cb_id=9)
    assert meter.read()[0, "l1_pool"] == Reading(205, None, 205, None)
    client.report_deallocation(device_id=0, buffer_id=2)
    assert meter.read_and_reset()[0, "l1_pool"] == Reading(105, 128, 205, None)
    assert meter.read()[0, "l1_pool"] == Reading(105, 128, 105, 128)


def test_a_phase_begins_and_ends_between_two_events(client: AllocationClient) -> None:
    """While many threads allocate, the peak of a phase is at least its values at the start and the end."""
    meter = ClientMeter(client)

    def allocate(first: int) -> None:
        for _ in range(20):
            for number in range(first, first + 50):
                client.report_allocation(device_id=0, size=64, buffer_type="l1", buffer_id=number)
            for number in range(first, first + 50):
                client.report_deallocation(device_id=0, buffer_id=number, buffer_type="l1")

    threads = [threading.Thread(target=allocate, args=(1000 * n,)) for n in range(1, 4)]
    for thread in threads:
        thread.start()
    nothing = Reading(0, 0, 0, 0)
    for ident in itertools.count(1):
        began = meter.phase_began(ident, "phase", 0).get((0, "l1"), nothing)
        ended = meter.phase_ended(ident).get((0, "l1"), nothing)
        assert max(began.used, ended.used) <= ended.peak <= 3 * 50 * 64
        if not any(thread.is_alive() for thread in threads):
            break
    assert meter.read()[0, "l1"].used == 0


def test_a_mark_is_where_it_was_made(client: AllocationClient) -> None:
    """Later events are not included in its reading, even if they are already in the queue."""
    sender, mark = client._sender, PhaseBegan(1, "here")
    client.report_allocation(device_id=0, size=1, buffer_type="l1", buffer_id=1)

    class Queue(deque[Any]):
        """Another thread allocates when the mark is in the queue."""

        def append(self, event: Any) -> None:
            super().append(event)
            if not isinstance(event, tuple):
                client.report_allocation(device_id=0, size=1000, buffer_type="l1", buffer_id=2)

    sender._queue = Queue(sender._queue)
    assert sender.measure(mark=mark)[0, "l1"].used == 1
    assert sender._live.tally.read()[0, "l1"].used == 1001


def test_a_client_that_was_closed_still_knows(client: AllocationClient) -> None:
    meter = ClientMeter(client)
    client.report_allocation(device_id=0, size=100, buffer_type="l1", buffer_id=1)
    meter.read()
    client.close(0)
    assert meter.phase_ended(1)[0, "l1"].used == 100


def test_every_turn_of_a_phase_starts_peaks_anew(client: AllocationClient) -> None:
    meter = ClientMeter(client)
    for turn in (partial(meter.phase_began, 1, "phase", 0), partial(meter.phase_ended, 1)):
        client.report_allocation(device_id=0, size=100, buffer_type="l1", buffer_id=1)
        client.report_deallocation(device_id=0, buffer_id=1, buffer_type="l1")
        assert turn()[0, "l1"].peak == 100
        assert meter.read()[0, "l1"].peak == 0


# -- reporters ---------------------------------------------------------------------------------------------------


class Allocators:
    """Replaces a runtime: bytes allocated in one of 8 banks, by kind."""

    def __init__(self, **allocated: int) -> None:
        self.allocated = allocated

    def __call__(self, device: Any, kind: Kind) -> Any:
        allocated = self.allocated.get(kind.label, 0)
        return SimpleNamespace(
            num_banks=8,
            total_bytes_per_bank=1000,
            total_bytes_allocated_per_bank=allocated,
            total_bytes_free_per_bank=1000 - allocated,
            largest_contiguous_bytes_free_per_bank=900 - allocated,
        )


def test_a_reporter_is_asked_when_it_is_read() -> None:
    allocators = Allocators(dram=10, trace=1, l1=5)
    meter = ReporterMeter(MemoryReporter([0, 3], view=allocators, client=AllocationClient(enabled=False)))
    readings = meter.read()
    assert readings[0, "dram"] == readings[3, "dram"] == Reading(80, 80, 80, 80)
    assert (readings[0, "dram_pool"].used, readings[None, "dram_pool"].used) == (88, 176)
    assert (readings[3, "l1_pool"].used, readings[3, "l1_small"].used) == (40, 0)
    assert (None, "cb") not in readings
    allocators.allocated["dram"] = 4
    assert meter.read()[0, "dram"] == Reading(32, 32, 80, 80)


def test_of_peaks_it_knows_what_it_has_seen() -> None:
    allocators = Allocators(l1=1)
    reporter = MemoryReporter([0], view=allocators, client=AllocationClient(enabled=False))
    meter = ReporterMeter(reporter)
    meter.read_and_reset()
    allocators.allocated["l1"] = 50  # not sampled
    allocators.allocated["l1"] = 7
    reporter.publish()
    allocators.allocated["l1"] = 2
    assert meter.read_and_reset()[0, "l1"] == Reading(16, 16, 56, 56)
    assert meter.read()[0, "l1"].peak == 16


def test_tallies_of_nothing() -> None:
    assert ClientTotals().read() == {}
