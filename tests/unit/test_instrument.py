# SPDX-License-Identifier: Apache-2.0
"""Tracking never disturbs operations; tests/integration/test_instrument.py has ttnn's own operations."""

from __future__ import annotations

import enum
import os
import sys
import threading
from collections.abc import Callable, Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests.unit.test_ttnn_graph import PROGRAM, buffer, cb, dfb, operation
from ttmem.collect.instrument import Instrument, instrument
from ttmem.model.kinds import Kind


class Recorder:
    """Replaces a client, and keeps what is reported to it."""

    def __init__(self, enabled: bool = True) -> None:
        self.enabled = enabled
        self.told: list[tuple[Any, ...]] = []

    def is_enabled(self) -> bool:
        return self.enabled

    def __getattr__(self, name: str) -> Callable[..., None]:
        if not name.startswith("report_"):
            raise AttributeError(name)
        keys = ("buffer_id", "cb_id", "dfb_id", "program", "size")
        return lambda **values: self.told.append((name[7:], *(values[key] for key in keys if key in values)))


class BufferType(enum.Enum):
    DRAM, L1, SYSTEM_MEMORY, L1_SMALL, TRACE = range(5)


class MeshDevice:
    def __init__(self, ident: int = 1) -> None:
        self.ident = ident
        self.shape = [1, 1]
        self.entries = 0

    def id(self) -> int:
        return self.ident

    def get_device_ids(self) -> list[int]:
        return [0]

    def get_submeshes(self) -> list[MeshDevice]:
        return []

    def num_program_cache_entries(self) -> int:
        return self.entries

    def arch(self) -> Any:
        return SimpleNamespace(name="WORMHOLE_B0")


class Tensor:
    def __init__(self, device: MeshDevice) -> None:
        self._device = device
        self.alive = True

    def is_allocated(self) -> bool:
        return self.alive

    def device(self) -> MeshDevice:
        return self._device

    def to(self, device: MeshDevice) -> Tensor:
        return Tensor(device)


class Graph:
    """Nested captures: each of them records what happens."""

    RunMode = SimpleNamespace(NORMAL="normal", NO_DISPATCH="virtual")

    def __init__(self) -> None:
        self.stack: list[tuple[str, list[Any]]] = []
        self.broken: str | None = None

    def begin_graph_capture(self, mode: str) -> None:
        if self.broken == "begin":
            raise RuntimeError("no capture today")
        self.stack.append((mode, []))

    def end_graph_capture(self) -> Any:
        _, nodes = self.stack.pop()
        if self.broken == "end":
            raise RuntimeError("the graph is lost")
        return [{"node_type": "buffer_allocate", "params": {}}] if self.broken == "nodes" else nodes

    def is_graph_capture_active(self) -> bool:
        return bool(self.stack)

    @property
    def virtual(self) -> bool:
        return any(mode == "virtual" for mode, _ in self.stack)

    def happens(self, *nodes: dict[str, Any]) -> None:
        for _, seen in self.stack:
            seen.extend(nodes)


class Ttnn(ModuleType):
    """The parts of ttnn that the tracking uses."""

    def __init__(self) -> None:
        super().__init__("ttnn")

        class FastOperation:
            def __init__(self, function: Callable[..., Any], cpp: bool = True) -> None:
                self.function = function
                self.is_cpp_operation = cpp
                self.python_fully_qualified_name = f"ttnn.{function.__name__}"

            def __call__(self, *args: Any, queue_id: int = 0, **kwargs: Any) -> Any:
                return self.function(*args, **kwargs)

        class Operation:
            def __call__(self) -> None:
                pass

        self.graph = Graph()
        self.buffers: list[Any] = []
        self.mesh = MeshDevice()
        self.Tensor, self.BufferType = type("Tensor", (Tensor,), {}), BufferType
        self.CONFIG = SimpleNamespace(enable_fast_runtime_mode=True, enable_comparison_mode=False, enable_logging=False)
        self.decorators = SimpleNamespace(FastOperation=FastOperation, Operation=Operation)
        self.get_memory_view = lambda device, kind: SimpleNamespace(num_banks=12, total_bytes_per_bank=1 << 20)
        self.get_allocator_base_address = lambda device, kind: 1024
        self.get_dram_alignment = lambda: 32
        info = SimpleNamespace(
            address_at_first_l1_cb_buffer=105824, worker_l1_size=1499136, num_x_compute_cores=8, num_y_compute_cores=8
        )
        reports = SimpleNamespace(get_buffers=lambda devices: self.buffers, get_device_info=lambda device: info)
        native = SimpleNamespace(
            get_max_worker_l1_unreserved_size=lambda: 1463968, close_device=lambda device: "closed", CreateDevice=None
        )
        multi = SimpleNamespace(MeshDevice=MeshDevice, open_mesh_device=lambda: self.mesh)
        self._ttnn = SimpleNamespace(graph=self.graph, reports=reports, device=native, multi_device=multi)

    def operation(self, function: Callable[..., Any], cpp: bool = True) -> Any:
        return self.decorators.FastOperation(function, cpp)

    def makes(self, name: str, *parts: dict[str, Any]) -> Callable[[Any], str]:
        """An operation that makes a program whose parts are known only from a virtual run."""

        def run(tensor: Any) -> str:
            if not self.graph.virtual:
                self.mesh.entries += 1
            self.graph.happens(*operation(name, self.graph.virtual, *(parts if self.graph.virtual else ())))
            return name

        return run


@pytest.fixture
def ttnn(monkeypatch: pytest.MonkeyPatch) -> Ttnn:
    module = Ttnn()
    monkeypatch.setitem(sys.modules, "ttnn", module)
    return module


@pytest.fixture
def client() -> Recorder:
    return Recorder()


@pytest.fixture
def tracking(ttnn: Ttnn, client: Any) -> Iterator[Instrument]:
    with instrument([ttnn.mesh], client=client) as found:
        assert client.told == [("device_open",)]
        client.told.clear()
        yield found


def counts(tracking: Instrument) -> dict[str, Any]:
    return {name: value for name, value in tracking.stats().items() if value}


def test_a_machine_without_ttnn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ttnn", None)
    with pytest.raises(ImportError, match=r"ttmem\.instrument\(\) tracks ttnn, which cannot be imported here"):
        instrument()


def test_a_ttnn_of_another_shape(ttnn: Ttnn) -> None:
    del ttnn._ttnn.reports.get_buffers
    with pytest.raises(RuntimeError, match=r"this ttnn has no _ttnn\.reports\.get_buffers, which .* needs"):
        instrument()


def test_only_one_at_a_time(tracking: Instrument) -> None:
    with pytest.raises(RuntimeError, match=r"active already; call stop\(\) on it first"):
        instrument()
    tracking.stop()
    instrument(client=tracking.client).stop()


def test_a_client_that_does_not_report_costs_nothing(ttnn: Ttnn) -> None:
    before = ttnn.decorators.FastOperation.__call__
    client: Any = Recorder(enabled=False)
    with instrument([ttnn.mesh], client=client):
        assert ttnn.decorators.FastOperation.__call__ is before
    assert not client.told


def test_stop_leaves_ttnn_as_it_was(ttnn: Ttnn, client: Any) -> None:
    def functions() -> list[Any]:
        owners = (ttnn.decorators.FastOperation, ttnn.decorators.Operation, ttnn.Tensor, ttnn._ttnn.device)
        return [getattr(owner, name) for owner, name in zip(owners, ("__call__", "__call__", "to", "close_device"))]

    before = functions()
    tracking = instrument(client=client)
    assert not any(now is then for now, then in zip(functions(), before))
    tracking.stop()
    assert functions() == before
    tracking.stop()


def test_an_operation(ttnn: Ttnn, tracking: Instrument, client: Recorder) -> None:
    def pad(*args: Any, **kwargs: Any) -> tuple[Any, ...]:
        ttnn.graph.happens(buffer(True, 64), buffer(True, 128), buffer(False, 64))
        return args, kwargs

    assert ttnn.operation(pad)(1, mode="zero") == ((1,), {"mode": "zero"})
    assert client.told == [("allocation", 64, 8192), ("allocation", 128, 8192), ("deallocation", 64)]
    assert counts(tracking) == {"operations": 1}
    assert not ttnn.graph.stack


def test_what_happens_between_operations(ttnn: Ttnn, tracking: Instrument, client: Recorder) -> None:
    ttnn.buffers = [SimpleNamespace(buffer_type=BufferType.L1, address=a, max_size_per_bank=64) for a in (96, 32)]
    tracking.poll()
    assert sorted(client.told) == [("allocation", 32, 64 * 12), ("allocation", 96, 64 * 12)]
    del ttnn.buffers[0], client.told[:]
    ttnn.operation(lambda: None)()
    assert client.told == [("deallocation", 96)]
    assert counts(tracking) == {"operations": 1, "found": 2}


def test_an_error_of_an_operation_goes_through(ttnn: Ttnn, tracking: Instrument, client: Recorder) -> None:
    error = RuntimeError("Out of Memory")

    def fail() -> None:
        ttnn.graph.happens(buffer(True, 64), *operation("A", False, cb(0, 96, 105824)))
        raise error

    with pytest.raises(RuntimeError) as raised:
        ttnn.operation(fail)()
    assert raised.value is error
    # The program was not cached, so it is gone, and it is not run again.
    assert [what for what, *_ in client.told] == [
        "allocation",
        "program_compiled",
        "cb_allocation",
        "program_destroyed",
    ]
    assert not ttnn.graph.stack


@pytest.mark.parametrize("broken", ["begin", "end", "nodes"])
def test_trouble_with_captures_is_counted(broken: str, ttnn: Ttnn, tracking: Instrument) -> None:
    ttnn.graph.broken = broken
    assert ttnn.operation(lambda: "result")() == "result"
    assert tracking.stats()["errors"] == 1
    assert tracking.stats()["trouble"]
    ttnn.graph.broken = None
    assert ttnn.operation(lambda: "result")() == "result"
    assert tracking.stats()["errors"] == 1


def test_a_device_that_was_closed_behind_our_back(ttnn: Ttnn, tracking: Instrument, client: Recorder) -> None:
    ttnn.operation(lambda: ttnn.graph.happens(buffer(True, 64)))()
    client.told.clear()
    ttnn._ttnn.reports.get_buffers = None
    for _ in range(2):
        assert ttnn.operation(lambda: "result")() == "result"
    assert client.told == [("deallocation", 64), ("device_close",)]
    assert tracking.stats()["errors"] == 1


def test_a_capture_of_the_workload_is_left_alone(ttnn: Ttnn, tracking: Instrument, client: Recorder) -> None:
    ttnn.graph.begin_graph_capture("normal")
    inner = ttnn.operation(lambda: ttnn.graph.happens(buffer(True, 64)))
    ttnn.operation(lambda: inner(), cpp=False)()
    assert ttnn.graph.end_graph_capture() == [buffer(True, 64)]
    assert not client.told
    assert counts(tracking) == {"operations": 1, "skipped": 1}


def test_an_operation_inside_another(ttnn: Ttnn, tracking: Instrument, client: Recorder) -> None:
    """It is tracked by itself, and what the other one did before and after is not lost."""
    inner = ttnn.operation(ttnn.makes("Inner", dfb(4096)))

    def outer(tensor: Any) -> str:
        ttnn.graph.happens(buffer(True, 64))
        result = inner(tensor)
        ttnn.graph.happens(buffer(False, 64))
        return str(result)

    assert ttnn.operation(outer, cpp=False)(None) == "Inner"
    assert client.told == [
        ("allocation", 64, 8192),
        ("program_compiled", 1),
        ("dfb_allocation", 105824, 1, 64 * 4096),
        ("deallocation", 64),
    ]
    assert counts(tracking) == {"operations": 1, "virtual": 1}
    assert not ttnn.graph.stack


def test_in_slow_mode_the_inner_capture_is_not_ours(ttnn: Ttnn, tracking: Instrument, client: Recorder) -> None:
    ttnn.CONFIG.enable_logging = True
    inner = ttnn.operation(ttnn.makes("Inner", dfb(4096)))

    def outer(tensor: Any) -> int:
        ttnn.graph.begin_graph_capture("normal")
        inner(tensor)
        return len(ttnn.graph.end_graph_capture())

    assert ttnn.operation(outer, cpp=False)(None) == len(operation("Inner", False))
    assert client.told == [("program_compiled", 1)]
    assert counts(tracking) == {"operations": 1, "unknown": 1}


def test_a_virtual_run(ttnn: Ttnn, tracking: Instrument, client: Recorder) -> None:
    relu = ttnn.operation(ttnn.makes("Relu", dfb(4096)))
    assert relu(ttnn.Tensor(ttnn.mesh), queue_id=1) == "Relu"
    assert client.told == [("program_compiled", 1), ("dfb_allocation", 105824, 1, 64 * 4096)]
    ttnn.mesh.entries = 0
    tracking.poll()
    assert client.told[2:] == [("program_destroyed", 1)]


def test_no_virtual_run_with_what_was_freed(ttnn: Ttnn, tracking: Instrument) -> None:
    makes = ttnn.makes("Move", dfb(4096))

    def move(tensors: list[Any]) -> None:
        makes(tensors[0])
        tensors[0].alive = False

    ttnn.operation(move)([ttnn.Tensor(ttnn.mesh)])
    assert counts(tracking) == {"operations": 1, "unknown": 1}


def test_a_virtual_run_that_fails(ttnn: Ttnn, tracking: Instrument) -> None:
    makes = ttnn.makes("Odd")

    def odd(tensor: Any) -> str:
        if ttnn.graph.virtual:
            raise RuntimeError("cannot be virtual")
        return makes(tensor)

    assert ttnn.operation(odd)(None) == "Odd"
    assert counts(tracking) == {
        "operations": 1, "virtual": 1, "unknown": 1, "errors": 1, "trouble": "RuntimeError: cannot be virtual"
    }  # fmt: skip
    assert not ttnn.graph.stack


def test_without_dataflow_buffers_nothing_is_virtual(ttnn: Ttnn, client: Any) -> None:
    with instrument([ttnn.mesh], client=client, dataflow_buffers=False) as tracking:
        ttnn.operation(ttnn.makes("Relu", dfb(4096)))(None)
        assert counts(tracking) == {"operations": 1}


def test_a_device_nobody_mentioned(ttnn: Ttnn, tracking: Instrument, client: Recorder) -> None:
    """It is found with the tensors of the operation. Events on a device that is not found are counted."""
    elsewhere = [
        {**node, "params": {**node["params"], "device_id": 7}} for node in (buffer(True, 64), buffer(True, 96))
    ]
    run = ttnn.operation(lambda *tensors: ttnn.graph.happens(*elsewhere))
    run()
    assert counts(tracking) == {"operations": 1, "lost": 2}
    run([ttnn.Tensor(MeshDevice(7))])
    assert [what for what, *_ in client.told] == ["allocation", "allocation"]


def test_opening_and_closing(ttnn: Ttnn, client: Any) -> None:
    with instrument(client=client):
        device = ttnn._ttnn.multi_device.open_mesh_device()
        ttnn.operation(lambda: ttnn.graph.happens(buffer(True, 64, int(Kind.L1)), PROGRAM))()
        assert ttnn._ttnn.device.close_device(device) == "closed"
        assert [what for what, *_ in client.told] == ["device_open", "allocation", "deallocation", "device_close"]


def test_a_child_process_is_silent(
    ttnn: Ttnn, tracking: Instrument, client: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have inherited a lock that will never be released."""
    tracking._lock = None  # type: ignore[assignment]
    with monkeypatch.context() as child:
        child.setattr(os, "getpid", lambda: -1)
        assert ttnn.operation(lambda: ttnn.graph.stack == [])()
        ttnn._ttnn.multi_device.open_mesh_device()
        assert ttnn._ttnn.device.close_device(ttnn.mesh) == "closed"
        tracking.poll()
        tracking.stop()
    assert not client.told
    assert not counts(tracking)
    tracking._lock = threading.RLock()  # for the parent's stop


def test_stopped_by_an_operation(ttnn: Ttnn, tracking: Instrument) -> None:
    """Its capture is ended anyway."""
    ttnn.operation(tracking.stop)()
    assert not ttnn.graph.stack


def test_one_device_or_several(ttnn: Ttnn, client: Any) -> None:
    for given in (ttnn.mesh, [ttnn.mesh], (ttnn.mesh, MeshDevice(2))):
        with instrument(given, client=client) as tracking:
            assert not counts(tracking)
    assert client.told == [("device_open",)] * 3
