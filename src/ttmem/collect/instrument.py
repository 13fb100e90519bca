# SPDX-License-Identifier: Apache-2.0
"""Tracks ttnn from Python alone, with a graph capture around each operation."""

from __future__ import annotations

import atexit
import functools
import itertools
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, NamedTuple

from ttmem.collect.client import AllocationClient
from ttmem.collect.ttnn_graph import GraphBuffer, GraphProgram, hidden_parts, pairs, read
from ttmem.collect.ttnn_library import Patches, devices, flat, import_ttnn, intact
from ttmem.collect.ttnn_mesh import Mesh

# The paths through which a workload calls these functions.
_OPENING = (
    *("open_device", "device.open_device", "_ttnn.device.CreateDevice", "_ttnn.device.CreateDevices"),
    "_ttnn.multi_device.open_mesh_device",
)
_CLOSING = (
    *("_ttnn.device.close_device", "_ttnn.multi_device.close_mesh_device", "CloseDevice", "CloseDevices"),
    *("device.CloseDevice", "device.CloseDevices"),
)
_ALLOCATING = ("Tensor.to", "create_global_semaphore", "create_global_circular_buffer")  # that are not operations
_QUEUES = ("queue_id", "cq_id")  # arguments that an operation does not pass on

_STOP_SECONDS = 0.2  # wait for the server to apply the last events; the rest is still sent later
_COUNTS = ("operations", "skipped", "found", "lost", "virtual", "unknown", "errors")

_active: Instrument | None = None


def instrument(
    devices: Any = None, *, client: AllocationClient | None = None, dataflow_buffers: bool = True
) -> Instrument:
    """Report the allocations of ttnn until ``stop()``, or until the end of a ``with`` block.

    ``devices`` is one open ttnn device, or several; others are detected when opened or first used. Without
    ``dataflow_buffers``, nothing is run virtually, and dataflow buffers and scratchpads are unknown.
    """
    return Instrument(
        import_ttnn(), [device for device in flat([devices]) if device is not None], client, dataflow_buffers
    )


class _Call(NamedTuple):
    """A running operation. ``again`` is the function for a virtual run, None if that could have side effects."""

    name: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    again: Callable[..., Any] | None


class _Thread(threading.local):
    """The state of a thread, because captures are per thread."""

    depth = 0
    call: _Call | None = None  # the operation of the current capture, or None
    virtual = False


class Instrument:
    """Captures the graph of every ttnn operation of this process and reports it to the server.

    ::

        with ttmem.instrument() as tracking:
            model(inputs)
            print(tracking.stats())

    Tracked exactly: buffers that operations allocate and free, including those that exist only inside an operation, and
    the circular buffers of programs made from now on. Changes between operations, mainly freed tensors, are detected
    when the next operation begins or at ``poll()``. The size of a buffer that appears there is not known; its reserved
    size is used instead.

    ttnn reports dataflow buffers and scratchpads only for a run without dispatch. So an operation that made a program
    and succeeded is run again in this way, with its own arguments, unless it is written in Python or has freed one of
    its arguments. The addresses are computed from the way ttnn places these parts.

    Not tracked: kernels; which program ran last on a core; programs made before; programs that differ between the chips
    of a mesh; and operations while the workload itself captures a graph (their buffers are found later, their programs
    are not). Operations of several threads are reported in the order in which they end. Devices are kept alive until
    they are closed.

    Each operation costs about 0.4 ms more, and 1 µs for each live buffer. The native agent (``ttmem run``) tracks all
    of this at a lower cost.
    """

    def __init__(
        self, ttnn: Any, devices: Iterable[Any], client: AllocationClient | None, dataflow_buffers: bool
    ) -> None:
        global _active
        if _active is not None:
            raise RuntimeError("ttmem.instrument() is active already; call stop() on it first")
        self.client = client or AllocationClient(enabled=True, source="instrument")
        self._own_client = client is None
        self._ttnn = ttnn
        self._graph = ttnn._ttnn.graph
        self._dataflow_buffers = dataflow_buffers
        self._pid = os.getpid()
        self._lock = threading.RLock()
        self._thread = _Thread()
        self._running = 0  # running operations, on all threads
        self._meshes: dict[int, Mesh] = {}
        self._numbers = itertools.count(1)
        self._patches = Patches(ttnn)
        self._counts = dict.fromkeys(_COUNTS, 0)
        self._trouble: str | None = None
        self._on = self.client.is_enabled()
        if self._on:
            _active = self
            self._patch()
            for device in devices:
                self._safely(self._opened, device)
            atexit.register(self.stop)

    def __enter__(self) -> Instrument:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Restore ttnn. Reported allocations are withdrawn, because their frees would not be seen any more."""
        global _active
        if self._here():
            _active = None
            atexit.unregister(self.stop)
            self._patches.undo()
            with self._lock:
                self._on = False
                for mesh in list(self._meshes.values()):
                    self._forget(mesh)
            if self._own_client:
                connected = self.client.stats()["trouble"] is None
                self.client.close(_STOP_SECONDS if connected else 0.0)

    def poll(self) -> None:
        """Report changes since the last operation ended. Does not wait, and does nothing while operations run."""
        if self._here():
            with self._lock:
                if not self._running:
                    self._look()

    def _here(self) -> bool:
        """Whether to track. Not in a forked child: its state belongs to the parent, and a lock may be held."""
        return self._on and os.getpid() == self._pid

    def stats(self) -> dict[str, int | str | None]:
        """Statistics of the tracking.

        ``operations`` begun; those ``skipped`` because another capture was active; buffers ``found`` that no operation
        reported; events ``lost`` because their device could not be found; ``virtual`` runs; programs whose dataflow
        buffers are ``unknown``; ``errors``; ``trouble`` is the last error.
        """
        return {**self._counts, "trouble": self._trouble}

    # -- around an operation -------------------------------------------------------------------------------------

    def _follow(self, run: Callable[..., Any], call: _Call) -> Any:
        """Run an operation and report what it does. An error in the reporting does not affect the operation."""
        mine = self._thread
        inside = mine.depth > 0
        if not self._here() or mine.virtual or (inside and not self._divides(call)):
            return run(*call.args, **call.kwargs)
        around = mine.call
        if not inside:
            self._started()
        self._safely(self._begin, call, inside)
        mine.depth += 1
        succeeded = False
        try:
            result = run(*call.args, **call.kwargs)
            succeeded = True
            return result
        finally:
            mine.depth -= 1
            self._safely(self._end, succeeded)
            if inside:
                self._safely(self._capture, around)
            else:
                with self._lock:
                    self._running -= 1

    def _divides(self, call: _Call) -> bool:
        """Whether a nested operation is captured separately. Only then can it be run virtually by itself.

        In its slow mode, ttnn itself captures around this operation, and we must not end that capture.
        """
        config = self._ttnn.CONFIG
        return (
            call.again is not None
            and self._thread.call is not None
            and config.enable_fast_runtime_mode
            and not (config.enable_comparison_mode or config.enable_logging)
        )

    def _started(self) -> None:
        with self._lock:
            self._counts["operations"] += 1
            if not self._running:  # else buffers of an operation on another thread would look unexplained
                self._look()
            self._running += 1

    def _begin(self, call: _Call, inside: bool) -> None:
        if inside:
            self._take()
        elif self._graph.is_graph_capture_active():
            self._counts["skipped"] += 1
            return
        for device in devices(self._ttnn, (call.args, call.kwargs)):
            self._opened(device)  # before the operation, so that its buffers do not look like earlier ones
        self._capture(call)

    def _capture(self, call: _Call | None) -> None:
        if call is not None:
            self._graph.begin_graph_capture(self._graph.RunMode.NORMAL)
            self._thread.call = call

    def _end(self, succeeded: bool) -> None:
        call = self._thread.call
        if call is not None:
            programs = self._take()
            if self._dataflow_buffers and any(number is not None for _, number in programs):
                self._reveal(call if succeeded else call._replace(again=None), programs)

    def _take(self) -> list[tuple[GraphProgram, int | None]]:
        """End the capture and report its contents; returns the programs, with the numbers of new ones."""
        call, self._thread.call = self._thread.call, None
        events = list(read(self._graph.end_graph_capture() or ()))
        programs: list[tuple[GraphProgram, int | None]] = []
        with self._lock:
            if call is None or not self._on:
                return []
            for event in events:
                mesh = self._mesh(event.mesh, call)
                if mesh is None:
                    self._counts["lost"] += 1
                elif isinstance(event, GraphBuffer):
                    mesh.apply(event, call.name)
                elif event.cached:
                    programs.append((event, None))
                else:
                    number = next(self._numbers)
                    programs.append((event, number))
                    mesh.made(number, event)
            for ident in {program.mesh for program, _ in programs}:
                self._meshes[ident].settle([n for program, n in programs if program.mesh == ident and n is not None])
        return programs

    def _reveal(self, call: _Call, programs: list[tuple[GraphProgram, int | None]]) -> None:
        """Run an operation virtually and report what this shows about the programs it made."""
        runs: list[GraphProgram] = []
        if call.again is not None and intact(self._ttnn, (call.args, call.kwargs)):
            kwargs = {name: value for name, value in call.kwargs.items() if name not in _QUEUES}
            runs = self._run_virtually(functools.partial(call.again, *call.args, **kwargs))
        with self._lock:
            for (program, virtual), (_, number) in zip(pairs([p for p, _ in programs], runs), programs):
                mesh = self._meshes.get(program.mesh)
                if number is None or mesh is None or not mesh.holds(number):
                    continue
                parts = hidden_parts(program, virtual, mesh.base, mesh.unit)
                if parts is None:
                    self._counts["unknown"] += 1
                else:
                    mesh.revealed(number, parts, program.name)

    def _run_virtually(self, again: Callable[[], Any]) -> list[GraphProgram]:
        """The programs an operation would run. Nothing is allocated or sent to the device.

        The run finds its programs in the cache and sets their arguments to the virtual buffers. A real run sets them
        again before it dispatches.
        """
        self._counts["virtual"] += 1
        mine = self._thread
        mine.virtual = True
        self._graph.begin_graph_capture(self._graph.RunMode.NO_DISPATCH)
        try:
            again()  # its results must be freed before the capture ends
        except Exception as error:
            self._failed(error)
        finally:
            mine.virtual = False
            nodes = self._graph.end_graph_capture()
        return [event for event in read(nodes or ()) if isinstance(event, GraphProgram)]

    # -- devices -------------------------------------------------------------------------------------------------

    def _look(self) -> None:
        for mesh in list(self._meshes.values()):
            try:
                mesh.check_cache()
                self._counts["found"] += mesh.look()
            except Exception as error:  # closed in an unknown way
                self._failed(error)
                self._forget(mesh)

    def _mesh(self, ident: int, call: _Call) -> Mesh | None:
        """A device by its ttnn number; an unknown device is searched for in the arguments of the operation."""
        if ident not in self._meshes:
            for device in devices(self._ttnn, (call.args, call.kwargs)):
                if device.id() == ident:
                    self._opened(device)
                    break
        return self._meshes.get(ident)

    def _opened(self, device: Any) -> None:
        with self._lock:
            if device.id() in self._meshes or not self._on:
                return
            mesh = Mesh(self._ttnn, device, self.client)
            known = {chip for other in self._meshes.values() for chip in other.chips}
            for chip, info in mesh.chip_infos():
                if chip not in known:
                    self.client.report_device_open(device_id=chip, chip=info)
            self._meshes[mesh.ident] = mesh
            mesh.check_cache()
            self._counts["found"] += mesh.look()

    def _forget(self, mesh: Mesh) -> None:
        """Report a device as closed, and its chips too if no other device uses them."""
        del self._meshes[mesh.ident]
        mesh.forget()
        left = {chip for other in self._meshes.values() for chip in other.chips}
        if self._on or self._own_client:
            for chip in mesh.chips:
                if chip not in left:
                    self.client.report_device_close(device_id=chip)

    # -- patches -------------------------------------------------------------------------------------------------

    def _patch(self) -> None:
        for kind in ("FastOperation", "Operation"):
            self._patches.replace(f"decorators.{kind}.__call__", self._operation)
        for path in _ALLOCATING:
            self._patches.replace(path, functools.partial(self._allocating, f"ttnn.{path}"))
        for path in _OPENING:
            self._patches.replace(path, self._opening)
        for path in _CLOSING:
            self._patches.replace(path, self._closing)

    def _operation(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(operation: Any, /, *args: Any, **kwargs: Any) -> Any:
            again = operation.function if operation.is_cpp_operation else None
            run = functools.partial(original, operation)
            return self._follow(run, _Call(operation.python_fully_qualified_name, args, kwargs, again))

        return call

    def _allocating(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            return self._follow(original, _Call(name, args, kwargs, None))

        return call

    def _opening(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            opened = original(*args, **kwargs)
            for device in opened.values() if isinstance(opened, Mapping) else (opened,):
                self._safely(self._opened, device)
            return opened

        return call

    def _closing(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            closing: list[Mesh] = []
            self._safely(self._about_to_close, (*args, *kwargs.values()), closing)
            result = original(*args, **kwargs)
            self._safely(self._closed, closing)
            return result

        return call

    def _about_to_close(self, arguments: Iterable[Any], closing: list[Mesh]) -> None:
        """The devices that are closed together with this one."""
        with self._lock:
            for device in flat(arguments):
                mesh = self._meshes.get(device.id())
                if mesh is not None:
                    idents = [mesh.ident, *mesh.parts_of()]
                    closing += [self._meshes[ident] for ident in idents if ident in self._meshes]

    def _closed(self, meshes: list[Mesh]) -> None:
        with self._lock:
            for mesh in meshes:
                if self._meshes.get(mesh.ident) is mesh:
                    self._forget(mesh)

    # -- trouble -------------------------------------------------------------------------------------------------

    def _safely(self, function: Callable[..., None], *args: Any) -> None:
        try:
            if self._here() or self._thread.call is not None:  # end a capture in any case
                function(*args)
        except Exception as error:
            self._failed(error)

    def _failed(self, error: Exception) -> None:
        self._counts["errors"] += 1
        self._trouble = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
