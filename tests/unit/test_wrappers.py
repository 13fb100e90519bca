# SPDX-License-Identifier: Apache-2.0
"""The wrappers pass everything on, and report only what happened."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from ttmem.collect import wrappers
from ttmem.collect.l1_tracker import L1Tracker
from ttmem.collect.wrappers import (
    add_kernel_with_tracking,
    create_circular_buffer_with_tracking,
    free_circular_buffer_with_tracking,
    unload_kernel_with_tracking,
)
from ttmem.model.core_sets import CoreRange, mask_of
from ttmem.model.kinds import Confidence

FOUR = [CoreRange(0, 0, 1, 1)]
MASK = mask_of(FOUR)
CB: dict[str, Any] = {"device": 3, "size": 4096, "cores": FOUR, "index": 5}
KERNEL: dict[str, Any] = {"device": 3, "cores": FOUR}


class Recorder:
    """Replaces a client, and keeps what is reported to it."""

    def __init__(self, **made_with: Any) -> None:
        self.made_with = made_with
        self.told: list[tuple[str, dict[str, Any]]] = []

    def __getattr__(self, name: str) -> Callable[..., None]:
        if not name.startswith("report_"):
            raise AttributeError(name)
        return lambda **values: self.told.append((name, values))


class Runtime:
    """Keeps its arguments, and returns a handle."""

    def __init__(self, result: Any = None) -> None:
        self.result = object() if result is None else result
        self.calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.calls.append((args, kwargs))
        return self.result


ALL = [
    (create_circular_buffer_with_tracking, CB),
    (free_circular_buffer_with_tracking, CB),
    (add_kernel_with_tracking, KERNEL),
    (unload_kernel_with_tracking, {**KERNEL, "kernel": 1}),
]


@pytest.mark.parametrize(("wrapper", "values"), ALL)
def test_arguments_and_result_are_the_runtimes_own(wrapper: Callable[..., Any], values: dict[str, Any]) -> None:
    runtime, client = Runtime(), Recorder()
    assert wrapper(runtime, "config", 7, **values, client=client, page_size=2048) is runtime.result
    assert runtime.calls == [(("config", 7), {"page_size": 2048})]
    assert len(client.told) == 1


@pytest.mark.parametrize(("wrapper", "values"), ALL)
def test_a_failure_goes_through_and_nothing_is_reported(wrapper: Callable[..., Any], values: dict[str, Any]) -> None:
    error = ValueError("out of L1")  # of the type that invalid values raise in the tracking
    client, tracker = Recorder(), L1Tracker()

    def fail() -> None:
        raise error

    with pytest.raises(ValueError, match="out of L1") as raised:
        wrapper(fail, **values, client=client, tracker=tracker)
    assert raised.value is error
    assert not client.told
    assert tracker.cb_total == tracker.num_kernels == 0


@pytest.mark.parametrize(("wrapper", "values"), ALL)
@pytest.mark.parametrize("cores", [[], "nonsense", None, [(0,)]])
def test_bad_values_do_not_lose_the_result(wrapper: Callable[..., Any], values: dict[str, Any], cores: Any) -> None:
    runtime, client, tracker = Runtime(), Recorder(), L1Tracker()
    assert wrapper(runtime, **{**values, "cores": cores}, client=client, tracker=tracker) is runtime.result
    assert not client.told


def test_a_circular_buffer_with_an_address() -> None:
    client: Any = Recorder()
    create_circular_buffer_with_tracking(Runtime(), **CB, address=105824, program=9, client=client)
    free_circular_buffer_with_tracking(Runtime(), **CB, address=105824, program=9, client=client)
    place = {"device_id": 3, "cb_id": 105824, "program": 9, "cores": MASK}
    assert client.told == [
        ("report_cb_allocation", {**place, "size": 4 * 4096}),
        ("report_cb_deallocation", place),
    ]


def test_circular_buffers_without_addresses_are_told_apart_and_have_no_place() -> None:
    client: Any = Recorder()
    others: tuple[dict[str, Any], ...] = ({}, {"index": 6}, {"cores": [(7, 7)]})
    for other in others:
        create_circular_buffer_with_tracking(Runtime(), **{**CB, **other}, client=client)
    created = [values["cb_id"] for _, values in client.told]
    assert len(set(created)) == 3
    assert {values["cores"] for _, values in client.told} == {0}
    client.told.clear()
    for other in others:
        free_circular_buffer_with_tracking(Runtime(), **{**CB, **other}, client=client)
    assert [values["cb_id"] for _, values in client.told] == created


def test_a_kernel_is_known_by_its_handle() -> None:
    client: Any = Recorder()
    handle = add_kernel_with_tracking(Runtime(result=17), **KERNEL, size=1000, program=2, client=client)
    unload_kernel_with_tracking(Runtime(), **KERNEL, size=1000, kernel=handle, program=2, client=client)
    kernel = {"device_id": 3, "kernel_id": 17, "program": 2, "cores": MASK}
    assert client.told == [
        ("report_kernel_load", {**kernel, "size": 4000}),
        ("report_kernel_unload", kernel),
    ]


def test_a_number_that_is_given_comes_before_the_handle() -> None:
    client: Any = Recorder()
    add_kernel_with_tracking(Runtime(result=17), **KERNEL, kernel=4, client=client)
    add_kernel_with_tracking(Runtime(), **KERNEL, client=client)
    add_kernel_with_tracking(Runtime(), **KERNEL, client=client)
    first, *unnamed = [values["kernel_id"] for _, values in client.told]
    assert first == 4
    assert len(set(unnamed)) == 2


def test_an_estimate_is_reported_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wrappers, "AllocationClient", Recorder)
    monkeypatch.setattr(wrappers, "_clients", {})
    create_circular_buffer_with_tracking(Runtime(), **CB)
    add_kernel_with_tracking(Runtime(result=1), **KERNEL, size=1000)
    add_kernel_with_tracking(Runtime(result=2), **KERNEL)
    unload_kernel_with_tracking(Runtime(), **KERNEL, kernel=2)
    told: dict[Confidence, Any] = {
        client.made_with["confidence"]: [(name, values.get("size")) for name, values in client.told]
        for client in cast(dict[Confidence, Recorder], wrappers._clients).values()
    }
    assert told == {
        Confidence.REPORTED: [("report_cb_allocation", 16384)],
        Confidence.ESTIMATED: [
            ("report_kernel_load", 4000),
            ("report_kernel_load", 4 * 50 * 1024),
            ("report_kernel_unload", None),
        ],
    }


def test_a_tracker_adds_up_instead_of_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wrappers, "_clients", {})
    tracker = L1Tracker()
    create_circular_buffer_with_tracking(Runtime(), **CB, tracker=tracker)
    add_kernel_with_tracking(Runtime(result=1), **KERNEL, tracker=tracker)
    assert (tracker.cb_total, tracker.kernel_est, tracker.num_kernels) == (16384, 4 * 50 * 1024, 1)
    free_circular_buffer_with_tracking(Runtime(), **CB, tracker=tracker)
    unload_kernel_with_tracking(Runtime(), **KERNEL, kernel=1, tracker=tracker)
    assert (tracker.cb_total, tracker.kernel_est, tracker.num_kernels) == (0, 0, 0)
    assert not wrappers._clients
