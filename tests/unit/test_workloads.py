# SPDX-License-Identifier: Apache-2.0
"""Every workload on every machine, in this process and without a server: it ends and frees everything."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from ttmem.collect.client import ENABLE_VARIABLE
from ttmem.model.kinds import Kind
from ttmem.sim import device as devices
from ttmem.sim import truth
from ttmem.sim.board_types import MACHINES
from ttmem.sim.device import SYSTEM_KERNELS, AnyDevice, default_tracker
from ttmem.sim.errors import SimError
from ttmem.sim.workloads import HELD, WORKLOADS, WorkerPart, find, parts_of

ROUNDS = {"decode": 33}  # the KV cache grows at the 32nd token
# Those that free all they allocated before they close their device, and the step by which they have.
TIDY = {"matmul": "freed everything", "conv": "freed everything", "decode": "cleared the program cache"}


@pytest.fixture(autouse=True)
def unreported(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The tracker of the process, whose client is not enabled; devices that other tests forgot are closed."""
    for device in devices.opened():
        device.close()
    monkeypatch.delenv(ENABLE_VARIABLE, raising=False)
    default_tracker.cache_clear()
    yield
    default_tracker.cache_clear()


def steps_of(name: str, machine: str, part: int = 0, parts: int = 1) -> Iterator[str]:
    return find(name)(WorkerPart(machine, part, parts), ROUNDS.get(name, WORKLOADS[name].rounds))


def held(device: AnyDevice) -> dict[str, dict[str, Any]]:
    return {chip_id: one.json() for chip_id, one in truth.held([device]).items()}


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("name", WORKLOADS)
def test_runs_to_its_end_and_leaves_nothing(name: str, machine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    killed: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda pid, number: killed.append((pid, number)))
    parts = parts_of(name, machine)
    chips: list[str] = []
    for part in range(parts):
        said, seen = [], []
        for did in steps_of(name, machine, part, parts):
            said.append(did)
            seen += devices.opened()
            if did == said[0]:
                before = held(seen[-1])
            elif did == HELD:
                most = held(seen[-1])
                assert most.keys() == before.keys()
                assert all(most[chip_id]["reserved"] != before[chip_id]["reserved"] for chip_id in before)
                chips += most
            elif did == TIDY.get(name):
                assert held(seen[-1]) == before
        assert said.count(HELD) == (name != "crash")
        assert TIDY.get(name) in (None, said[-1])
        (device,) = set(seen)  # one, and open after every step
        assert devices.opened() == []
        assert held(device) == {}
    assert len(set(chips)) == len(chips)  # no two processes share one
    if name == "crash":
        assert killed == [(os.getpid(), signal.SIGKILL)]
    else:
        assert killed == []
        assert len(chips) >= parts


@pytest.mark.parametrize("name", WORKLOADS)
def test_may_be_ended_after_any_step(name: str) -> None:
    """Its device is closed when the caller requests no further step."""
    steps = steps_of(name, "n150")
    for _ in range(2):
        next(steps)
        assert truth.held(devices.opened())
    steps.close()  # type: ignore[attr-defined]
    assert devices.opened() == []


def test_an_open_device_holds_what_it_was_opened_with() -> None:
    steps = steps_of("matmul", "p150")
    next(steps)
    (device,) = devices.opened()
    (chip,) = truth.held([device]).values()
    geometry = device.allocator.geometry
    assert chip.used == {
        Kind.FIRMWARE: geometry.map_end * geometry.cores,
        Kind.FABRIC_KERNEL: SYSTEM_KERNELS[0][2] * SYSTEM_KERNELS[0][3],
        Kind.DISPATCH_KERNEL: SYSTEM_KERNELS[1][2] * SYSTEM_KERNELS[1][3],
    }
    steps.close()  # type: ignore[attr-defined]


def test_what_does_not_exist_is_named() -> None:
    with pytest.raises(SimError, match="there is no workload 'prefill'; there are decode, "):
        find("prefill")
    with pytest.raises(SimError, match="there is no machine 'n151' to simulate; there are n150, "):
        parts_of("matmul", "n151")
