# SPDX-License-Identifier: Apache-2.0
"""Tracks ttnn from Python alone, by watching what each of its operations allocates."""

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

# Where the workload looks these up when it calls them.
_OPENING = (
    *("open_device", "device.open_device", "_ttnn.device.CreateDevice", "_ttnn.device.CreateDevices"),
    "_ttnn.multi_device.open_mesh_device",
)
_CLOSING = (
    *("_ttnn.device.close_device", "_ttnn.multi_device.close_mesh_device", "CloseDevice", "CloseDevices"),
    *("device.CloseDevice", "device.CloseDevices"),
)
_ALLOCATING = ("Tensor.to", "create_global_semaphore", "create_global_circular_buffer")  # and are no operations
_QUEUES = ("queue_id", "cq_id")  # an operation takes these for itself

_STOP_SECONDS = 0.2  # for the server to take the last events; what it has not taken then is still sent
_COUNTS = ("operations", "skipped", "found", "lost", "virtual", "unknown", "errors")

_active: Instrument | None = None


def instrument(
    devices: Any = None, *, client: AllocationClient | None = None, dataflow_buffers: bool = True
) -> Instrument:
    """Report what ttnn allocates from now on until ``stop()``, or until the end of a ``with`` block.

    ``devices`` is a ttnn device that is open already, or several; others are noticed when opened or first used.
    Without ``dataflow_buffers`` nothing is run virtually, and neither these nor scratchpads are known.
    """
    return Instrument(
        import_ttnn(), [device for device in flat([devices]) if device is not None], client, dataflow_buffers
    )


class _Call(NamedTuple):
    """An operation that runs. ``again`` is what to call for a virtual run, None if that could have effects."""

    name: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    again: Callable[..., Any] | None


class _Thread(threading.local):
    """What a thread is doing: captures belong to threads."""

    depth = 0
    call: _Call | None = None  # what the capture that is under way belongs to; None if there is none
    virtual = False


class Instrument:
    """Follows every ttnn operation of this process with a graph capture and reports to the server what it tells.

    ::

        with ttmem.instrument() as tracking:
            model(inputs)
            print(tracking.stats())

    Seen exactly: buffers that operations allocate and free, also those that live only inside one, and the circular
    buffers of programs made from now on. What happens between operations, above all tensors that die, is noticed when
    the next one begins or at ``poll()``; a buffer that appears there has no known size, and what it takes of the banks
    stands for it.

    Dataflow buffers and scratchpads are told by ttnn only for a run without dispatch. So an operation that made a
    program is run once more in that way, with its own arguments, when it has succeeded; not if it is written in Python
    or has freed one of its arguments. Their addresses are worked out, by the way ttnn places them.

    Not seen: kernels, which program ran last on a core, programs made before, programs that differ from chip to chip of
    a mesh, and what an operation does while the workload itself captures a graph (later its buffers are found, its
    programs are not). Operations of several threads are each seen, but in the order in which they end. Devices are held
    until they are closed.

    An operation costs some 0.4 ms more, and 1 µs for each live buffer. The native agent (``ttmem run``) sees all of
    this for less.
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
        self._running = 0  # operations under way, on all threads
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
        """Leave ttnn as it was. What was reported is taken back, for from now on nobody would see it go."""
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
        """Look for what happened since the last operation ended. Waits for nothing; not while operations run."""
        if self._here():
            with self._lock:
                if not self._running:
                    self._look()

    def _here(self) -> bool:
        """Is there anything to track? Not in a forked child: what it inherited is its parent's, maybe a locked lock."""
        return self._on and os.getpid() == self._pid

    def stats(self) -> dict[str, int | str | None]:
        """How the tracking fares.

        ``operations`` begun; of these ``skipped`` because a capture of somebody else was under way; buffers ``found``
        that no operation told; events ``lost`` on a device that could not be found; ``virtual`` runs; programs whose
        dataflow buffers are ``unknown``; ``errors``, of which ``trouble`` is the last.
        """
        return {**self._counts, "trouble": self._trouble}

    # -- around an operation -------------------------------------------------------------------------------------

    def _follow(self, run: Callable[..., Any], call: _Call) -> Any:
        """Run an operation and report what it does. Whatever goes wrong with the latter, the former goes on."""
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
        """Is an operation inside another followed on its own? Only then can it be run virtually on its own.

        In its slow mode ttnn captures too, around this operation, and that capture is not ours to end.
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
            if not self._running:  # else the buffers of another thread's operation would seem to come from nowhere
                self._look()
            self._running += 1

    def _begin(self, call: _Call, inside: bool) -> None:
        if inside:
            self._take()
        elif self._graph.is_graph_capture_active():
            self._counts["skipped"] += 1
            return
        for device in devices(self._ttnn, (call.args, call.kwargs)):
            self._opened(device)  # before the operation: what it makes there must not seem to have been there
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
        """End the capture and report what it tells; the programs, and for those that were made their numbers."""
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
        """Run an operation virtually and report what that tells of the programs it made."""
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

        It finds its programs in the cache and sets their arguments to the virtual buffers; each run for real sets them
        anew before it dispatches.
        """
        self._counts["virtual"] += 1
        mine = self._thread
        mine.virtual = True
        self._graph.begin_graph_capture(self._graph.RunMode.NO_DISPATCH)
        try:
            again()  # its results must die before the capture ends
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
            except Exception as error:  # closed in a way we do not know of
                self._failed(error)
                self._forget(mesh)

    def _mesh(self, ident: int, call: _Call) -> Mesh | None:
        """A device by the number that ttnn gives it; one never heard of is looked for where the operation got it."""
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
        """Report a device as closed, and its chips too if no other is on them."""
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
        """Which devices go with the one that is closed."""
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
            if self._here() or self._thread.call is not None:  # a capture that was begun is ended in any case
                function(*args)
        except Exception as error:
            self._failed(error)

    def _failed(self, error: Exception) -> None:
        self._counts["errors"] += 1
        self._trouble = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
