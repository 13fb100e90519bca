# SPDX-License-Identifier: Apache-2.0
"""Manual tracking: the calls, numbers and printed lines of the original guide, and additions."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.test_sender import in_time, interrupted
from ttmem.collect.client import AllocationClient
from ttmem.collect.l1_tracker import L1Tracker
from ttmem.model.core_sets import CoreRange, mask_of

KIB = 1024
# As the guide prints it: an empty line before and after.
BLOCK = """
============================================================
L1 Memory Usage Breakdown
============================================================
Circular Buffers:      95.2 MB
Kernel Code (est):     15.3 MB
  (128 kernels)
Total L1 Overhead:    110.5 MB
============================================================

"""


def test_the_guides_block_byte_for_byte(capsys: pytest.CaptureFixture[str]) -> None:
    tracker = L1Tracker()
    for tiles in (40000, 8742):  # 95.2 MiB of 2 KiB tiles
        tracker.track_cb(tiles, 2048)
    for cores in [2] * 71 + [3] * 57:  # 128 kernels on 313 cores together
        tracker.track_kernel(num_cores=cores)
    assert capsys.readouterr().out == ""
    assert tracker.summary() is None  # type: ignore[func-returns-value]
    assert capsys.readouterr().out == BLOCK
    assert (tracker.cb_total, tracker.kernel_est, tracker.num_kernels) == (48742 * 2048, 313 * 50 * KIB, 128)


def test_calls_return_bytes() -> None:
    tracker = L1Tracker()
    assert tracker.track_cb(1024, 2048) == tracker.track_cb(num_tiles=1024, tile_size=2048) == 2 << 20
    assert tracker.track_kernel() == 51200
    assert tracker.track_kernel(num_cores=64) == 64 * 51200
    assert (tracker.cb_total, tracker.kernel_est, tracker.num_kernels) == (4 << 20, 65 * 51200, 2)


def test_the_short_form(capsys: pytest.CaptureFixture[str]) -> None:
    tracker = L1Tracker()
    assert tracker.cb_alloc(tiles=1024, tile_size=2048) is None  # type: ignore[func-returns-value]
    assert capsys.readouterr().out == "CB: +2.0MB\n"
    assert tracker.kernel_add(cores=64) is None  # type: ignore[func-returns-value]
    assert tracker.kernel_add() is None  # type: ignore[func-returns-value]
    assert capsys.readouterr().out == ""
    assert tracker.show() is None  # type: ignore[func-returns-value]
    assert capsys.readouterr().out == "\nL1: CBs=2.0MB, Kernels=3.2MB\n"
    assert (tracker.cb, tracker.kern) == (2 << 20, 65 * 51200)


def test_both_forms_have_one_state() -> None:
    tracker = L1Tracker()
    tracker.cb_alloc(3, 1000)
    tracker.track_cb(1, 1)
    tracker.kernel_add(2)
    tracker.track_kernel(3)
    assert tracker.cb == tracker.cb_total == 3001
    assert tracker.kern == tracker.kernel_est == 5 * 51200
    assert tracker.num_kernels == 2


def test_frees_take_back_what_was_tracked() -> None:
    tracker = L1Tracker()
    tracker.track_cb(8, 2048)
    tracker.track_cb(8, 2048)
    tracker.track_kernel(4)
    assert tracker.free_cb(8, 2048) == 8 * 2048
    assert tracker.cb_total == 8 * 2048
    assert tracker.unload_kernel(4) == 4 * 51200
    assert tracker.free_cb(8, 2048) == 8 * 2048
    assert (tracker.cb_total, tracker.kernel_est, tracker.num_kernels) == (0, 0, 0)
    with pytest.raises(ValueError, match="no circular buffer of 8 tiles of 2048 B is tracked; give the same values"):
        tracker.free_cb(8, 2048)
    with pytest.raises(ValueError, match="no kernel on 4 cores is tracked"):
        tracker.unload_kernel(4)
    assert (tracker.cb_total, tracker.kernel_est, tracker.num_kernels) == (0, 0, 0)


def test_a_free_must_name_the_same_cores() -> None:
    tracker = L1Tracker()
    tracker.track_cb(8, 2048, cores=[(0, 0), (1, 0)])
    with pytest.raises(ValueError, match="with the same cores"):
        tracker.free_cb(8, 2048)
    assert tracker.free_cb(8, 2048, cores=[CoreRange(0, 0, 1, 0)]) == 2 * 8 * 2048
    assert tracker.per_core() == {}


@pytest.mark.parametrize(
    "cores",
    [
        mask_of([CoreRange(1, 2, 2, 3)]),
        [CoreRange(1, 2, 2, 3)],
        [(1, 2), (2, 2), (1, 3), (2, 3)],
        [(1, 2), CoreRange(2, 2, 2, 3), (1, 3), (1, 3)],
    ],
)
def test_cores_in_every_form(cores: Any) -> None:
    tracker = L1Tracker()
    assert tracker.track_cb(8, 2048, cores=cores) == 4 * 8 * 2048
    assert tracker.track_kernel(cores=cores) == 4 * 51200
    assert tracker.track_kernel(4, cores=cores) == 4 * 51200
    each = 8 * 2048 + 2 * 51200
    assert tracker.per_core() == {(1, 2): each, (2, 2): each, (1, 3): each, (2, 3): each}
    assert sum(tracker.per_core().values()) == tracker.cb_total + tracker.kernel_est


def test_the_fullest_core_is_said_when_cores_are_known(capsys: pytest.CaptureFixture[str]) -> None:
    tracker = L1Tracker()
    tracker.track_cb(8, 2048, cores=[CoreRange(0, 0, 7, 7)])
    tracker.track_cb(4, 2048, cores=[(3, 5)])
    tracker.track_cb(1000, 2048)
    assert max(tracker.per_core().values()) == tracker.per_core()[3, 5] == 12 * 2048
    tracker.summary()
    assert "\nFullest core:          24.0 KB on (x=3,y=5)\n" in capsys.readouterr().out


def test_nothing_is_not_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    tracker = L1Tracker()
    assert tracker.track_cb(0, 2048) == 0
    assert tracker.track_kernel(0) == 0
    assert tracker.num_kernels == 1
    assert tracker.unload_kernel(0) == 0
    tracker.summary()
    assert "Total L1 Overhead:      0.0 MB" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda t: t.track_cb(-1, 2048), "num_tiles is -1; give a whole number"),
        (lambda t: t.track_cb(1, -2048), "tile_size is -2048; give a whole number"),
        (lambda t: t.track_cb("8", 2048), "num_tiles is '8'; give a whole number"),
        (lambda t: t.track_cb(8, None), "tile_size is None; give a whole number"),
        (lambda t: t.track_cb(float("nan"), 2), "num_tiles is nan; give a whole number"),
        (lambda t: t.cb_alloc(1.5, 2), "num_tiles is 1.5; give a whole number"),
        (lambda t: t.track_kernel(-4), "num_cores is -4; give a whole number"),
        (lambda t: t.kernel_add([1]), r"num_cores is \[1\]; give a whole number"),
        (lambda t: t.track_cb(8, 2048, cores=[]), "names no core; leave it out"),
        (lambda t: t.track_cb(8, 2048, cores=-1), "names no core; leave it out"),
        (lambda t: t.track_cb(8, 2048, cores=[(64, 0)]), r"outside 0\.\.63"),
        (lambda t: t.track_cb(8, 2048, cores=(3, 5)), r"give a mask, or CoreRange or \(x, y\) values"),
        (lambda t: t.track_cb(8, 2048, cores=["ab"]), r"give a mask, or CoreRange or \(x, y\) values"),
        (lambda t: t.track_cb(8, 2048, cores=[(1, 2, 3)]), r"give a mask, or CoreRange or \(x, y\) values"),
        (lambda t: t.track_kernel(3, cores=[(0, 0), (1, 0)]), "num_cores is 3 but cores has 2; give only one"),
        (lambda t: L1Tracker(device=-1), "device is -1"),
    ],
)
def test_bad_values_are_named_and_change_nothing(call: Callable[[L1Tracker], Any], words: str) -> None:
    tracker = L1Tracker()
    with pytest.raises(ValueError, match=words):
        call(tracker)
    assert (tracker.cb_total, tracker.kernel_est, tracker.num_kernels, tracker.per_core()) == (0, 0, 0, {})


def test_a_free_in_another_thread_does_not_overtake_its_allocation() -> None:
    reported = []

    class Slow(AllocationClient):
        """While an allocation is reported, another thread frees it."""

        def report_cb_allocation(self, **_: Any) -> None:
            other.start()
            other.join(0.2)  # if it does not wait for us, it has finished by then
            reported.append("allocated")

        def report_cb_deallocation(self, **_: Any) -> None:
            reported.append("freed")

    tracker = L1Tracker(client=Slow(enabled=False))
    other = threading.Thread(target=tracker.free_cb, args=(8, 2048))
    assert tracker.track_cb(8, 2048) == 8 * 2048
    other.join()
    assert reported == ["allocated", "freed"]
    assert tracker.cb_total == 0


@pytest.mark.parametrize("call", ["track_cb", "per_core"])
def test_what_is_freed_by_the_collector_in_the_midst_of_a_call(call: str) -> None:
    tracker = L1Tracker()
    tracker.track_cb(2, 2048, cores=[(0, 0)])

    def come_and_go() -> None:
        tracker.track_cb(1, 32, cores=[(1, 1)])
        tracker.free_cb(1, 32, cores=[(1, 1)])

    calls = {"track_cb": lambda: tracker.track_cb(1, 2048), "per_core": tracker.per_core}
    turns = itertools.count()

    def work() -> None:
        while interrupted(next(turns), calls[call], come_and_go):
            pass

    assert in_time(work)
    assert tracker.cb_total == (2 + (next(turns) if call == "track_cb" else 0)) * 2048
    assert tracker.per_core() == {(0, 0): 4096}


def test_without_a_client_nothing_is_reported_and_with_one_a_dead_server_changes_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TT_ALLOC_TRACKING_ENABLED", "1")
    assert L1Tracker().client is None
    client = AllocationClient(enabled=True, socket_path=str(folder / "nobody.sock"))
    outputs = []
    for tracker in (L1Tracker(), L1Tracker(client=client)):
        assert tracker.track_cb(8, 2048, cores=[(0, 0)]) == 8 * 2048
        assert tracker.track_kernel() == 51200
        assert tracker.free_cb(8, 2048, cores=[(0, 0)]) == 8 * 2048
        tracker.track_cb(0, 0)
        tracker.summary()
        outputs.append(capsys.readouterr())
    assert outputs[0] == outputs[1]
    assert client.stats()["rejected"] == 0
    client.close(0)
