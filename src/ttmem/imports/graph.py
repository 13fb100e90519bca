# SPDX-License-Identifier: Apache-2.0
"""Converts the nodes of a graph capture to steps: allocations, frees, programs and tensors, with time and operation.

``collect.ttnn_graph`` decodes the nodes, as in a workload with ``ttmem.instrument()``. This module adds what only a
file needs: the forms of older releases, the time, and allocations from before the capture.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Union

from ttmem.collect.ttnn_graph import GraphBuffer, GraphProgram, Node, read
from ttmem.documents.snapshot import LAYOUTS
from ttmem.imports.graph_nodes import error_of, functions, mark_programs, operations, shapes, thrown_at
from ttmem.imports.stacks import message_of
from ttmem.model.kinds import BUFFER_KINDS, Kind

MOST_DEVICES, MOST_BYTES = 1 << 16, 1 << 48  # larger values cannot come from ttnn
TICK_SECONDS = 1e-6  # minimum duration of a node, so that no two have the same time
_LAYOUT_CODES = {name.upper(): code for code, name in LAYOUTS.items()}
_BUFFERS = ("buffer_allocate", "buffer_deallocate")


class NotACapture(ValueError):
    """The input is not a recording of ttnn, or has an unknown form; the message gives the reason."""


class Seen(NamedTuple):
    """A buffer in the arguments of an operation, so it existed; its allocation and its banks are not in the capture."""

    mesh: int
    kind: Kind
    address: int
    size: int


class ListedBuffer(NamedTuple):
    """An entry of ttnn's list of buffers."""

    mesh: int
    kind: Kind
    address: int
    per_bank: int


class Ended(NamedTuple):
    """An operation ended; ttnn may have listed all buffers then, under this number."""

    number: int


class OperationFailed(NamedTuple):
    """An operation failed; this number of programs was being made, and they are gone."""

    text: str
    programs: int


Item = Union[GraphBuffer, GraphProgram, Seen, Ended, OperationFailed]


class Call(NamedTuple):
    """Data about the call of an operation that is not in its nodes."""

    stack: str | None = None
    error: str | None = None


class Step(NamedTuple):
    """One entry of a capture. ``time`` is in seconds from its beginning."""

    time: float
    operation: str | None
    item: Item
    layout: int | None = None
    cores: int = 0  # number of cores with data of a sharded buffer
    shape: str | None = None
    stack: str | None = None


class GraphCapture:
    """The contents of a file, in the order of events."""

    def __init__(self, form: str) -> None:
        self.form = form  # description of the form of the file
        self.version: str | None = None  # of ttnn
        self.began: float | None = None  # seconds since 1970
        self.steps: list[Step] = []
        self.listings: dict[int, list[ListedBuffer]] = {}  # by number of the operation before
        self._entries: dict[
            ListedBuffer, ListedBuffer
        ] = {}  # lists change little from operation to operation: share the objects
        self.devices: list[Mapping[str, Any]] = []  # ttnn's figures of each device, mesh or chip
        self.descriptor = ""  # of the machine's chips, as YAML
        self.complete = False  # whether the listings have all buffers, not only those of the capture
        self.renumbered = False  # whether device ids differ from those of the process
        self.calls: dict[str, deque[Call]] = {}  # of each operation, in order
        self.meshes: dict[int, set[int]] = {}  # chips that tensors or circular buffers refer to
        self.executed: dict[int, set[int]] = {}  # chips on which a mesh's programs ran
        self.nodes = self.operations = self.cached = self.stray = 0
        self.virtual = False  # captured without executing
        self.timed = False
        self._now = 0.0
        self._node: Node = {}
        self._functions: list[tuple[str, float]] = []
        self._operation: str | None = None
        self._call = Call()
        self._tensors: dict[int, tuple[int, Kind, int]] = {}  # of the current operation: mesh, kind, address by counter
        self._shapes: dict[int, str] = {}  # of the current operation: shapes by the counter of the buffer's node
        self._allocated: dict[int, Mapping[str, Any]] = {}  # by the counter of their buffer node

    def listed(self, number: int, mesh: int, kind: int, address: int, per_bank: int) -> None:
        """Add a buffer of ttnn's list after an operation."""
        entry = ListedBuffer(mesh, BUFFER_KINDS[kind], address, per_bank)
        self.listings.setdefault(number, []).append(self._entries.setdefault(entry, entry))

    # -- reading nodes --------------------------------------------------------------------------------------------

    def add(self, nodes: Iterable[Any], number: int | None = None, call: Call | None = None) -> None:
        """Add the nodes of a capture, or of one operation with its number and the data about its call."""
        for operation in operations(self._checked(nodes)):
            named = functions(operation)
            self._add_operation(operation, number, (call or self._call_of(named)) if named else Call())
            if call is not None and named:
                call = call._replace(error=None)  # the error is used only once

    def _checked(self, nodes: Iterable[Any]) -> Iterator[Node]:
        for node in nodes:
            self.nodes += 1
            if not (isinstance(node, dict) and isinstance(node.get("node_type"), str)):
                raise NotACapture(f"entry {self.nodes} is not a node of a graph capture: it has no node_type")
            if not isinstance(node.get("params"), (dict, type(None))):
                raise NotACapture(f"node {self.nodes}, {node['node_type']}: params is not an object")
            yield node

    def _add_operation(self, nodes: list[Node], number: int | None, call: Call) -> None:
        self._tensors.clear()
        self._functions.clear()
        self._operation = None
        self._call = call
        try:
            self._shapes = shapes(nodes)
            error = call.error or error_of(nodes)
            thrown = len(nodes) if error is None else thrown_at(nodes)
            self.stray += mark_programs(nodes[:thrown])
            self._take(nodes[:thrown])
            if error is not None:
                self._threw(error)
                self._take(nodes[thrown:])
        except (ValueError, KeyError, TypeError, AttributeError, IndexError) as problem:
            what = f"{self._node.get('node_type')} {self._node.get('counter', '')}".strip()
            raise NotACapture(f"node {what} does not have ttnn's format: {type(problem).__name__}: {problem}") from None
        if self._operation is not None:
            counter = next(node.get("counter", -1) for node in nodes if node["node_type"] == "function_start")
            self.operations += 1
            self.steps.append(Step(self._now, self._operation, Ended(int(counter) if number is None else number)))

    def _call_of(self, named: list[str]) -> Call:
        """The data about the call of the outermost function; entries of nested functions are skipped."""
        calls = [waiting.popleft() if (waiting := self.calls.get(name)) else Call() for name in named]
        return calls[0]

    def _take(self, nodes: list[Node]) -> None:
        for item in read(self._passing(nodes)):
            self._step(item)

    def _threw(self, error: str) -> None:
        """A program in the graph whose function has not ended was not finished."""
        programs = 0
        for step in reversed(self.steps):
            if step.time != self._now or not isinstance(step.item, GraphProgram):
                break
            programs += 1
        self._now += TICK_SECONDS
        threw = OperationFailed(message_of(error), programs)
        self.steps.append(Step(self._now, self._operation, threw, stack=self._call.stack))

    def _step(self, item: GraphBuffer | GraphProgram) -> None:
        """Add a step at the time of the last node."""
        for one in item.parts if isinstance(item, GraphProgram) else [item]:
            device = one.mesh if isinstance(one, GraphBuffer) else one.device
            if not (0 <= device < MOST_DEVICES and 0 <= one.address < MOST_BYTES and 0 <= one.size < MOST_BYTES):
                raise ValueError(f"device {device}, address {one.address}, size {one.size}")
        if isinstance(item, GraphProgram):
            self.cached += item.cached
            for part in item.parts:
                self.virtual |= not part.address and not part.shared
                if part.address:
                    self.meshes.setdefault(item.mesh, set()).add(part.device)
            self.steps.append(Step(self._now, self._operation, item, stack=self._call.stack))
            return
        params = self._node["params"]
        self.virtual |= item.came and not item.address and item.kind is not Kind.HOST
        layout = _LAYOUT_CODES.get(str(params.get("layout")))
        cores = int(params.get("num_cores") or 0)
        shape = self._shapes.get((self._node.get("connections") or [-1])[0])
        self.steps.append(Step(self._now, self._operation, item, layout, cores, shape, self._call.stack))

    def _passing(self, nodes: list[Node]) -> Iterator[Node]:
        """Nodes for the reader, converted to the current form; also advances the clock."""
        for node in nodes:
            self._now += TICK_SECONDS
            what, params = node["node_type"], node["params"] or {}
            if what == "function_start":
                self._start(str(params["name"]))
            elif what == "function_end":
                self._end(node)
            elif what == "tensor":
                self._tensor(node.get("counter"), params)
            elif what == "buffer":
                self._buffer(node, params)
            elif what == "program_execution":
                self.executed.setdefault(int(params["device_id"]), set()).add(int(params["physical_device_id"]))
            elif what in _BUFFERS:
                node = {**node, "params": self._modern(node, params)}
            self._node = node
            yield node

    def _start(self, name: str) -> None:
        if not self._functions:
            self._operation = name
        self._functions.append((name, self._now))

    def _end(self, node: Node) -> None:
        took = node.get("duration_ns")
        if self._functions:
            _, began = self._functions.pop()
            if took is not None:
                self.timed = True
                self._now = max(self._now, began + int(took) / 1e9)

    def _tensor(self, counter: Any, params: Mapping[str, Any]) -> None:
        """Note the chips of a mesh, and the address of a tensor."""
        several = params.get("device_tensors")
        for one in json.loads(several) if isinstance(several, str) else several or ():
            self.meshes.setdefault(int(one["mesh_device_id"]), set()).add(int(one["device_id"]))
        if counter is not None and None not in (params.get("device_id"), params.get("buffer_type")):
            place = int(params.get("address") or 0)
            self._tensors[counter] = int(params["device_id"]), BUFFER_KINDS[int(params["buffer_type"])], place

    def _buffer(self, node: Node, params: Mapping[str, Any]) -> None:
        """A buffer that first occurs in the capture. If a tensor in it came earlier, it existed before the capture."""
        for counter in node.get("connections") or ():
            if counter in self._tensors and self._tensors[counter][2]:
                seen = Seen(*self._tensors[counter], int(params["size"]))
                layout = _LAYOUT_CODES.get(str(params.get("layout")))
                self.steps.append(Step(self._now, self._operation, seen, layout, shape=self._shapes.get(counter)))
                return

    def _modern(self, node: Node, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """The params of a buffer in the form since 0.69; bytes per bank are 0 if unknown."""
        connected = node.get("connections") or [None]
        if "address" not in params:  # then only the allocation has it
            params = {**self._allocated.get(connected[0], {}), **params}
        if node["node_type"] == "buffer_allocate":
            self._allocated[connected[0]] = params
        kind = {"buffer_type": Kind[str(params["type"])].value} if "buffer_type" not in params else {}
        return {"max_size_per_bank": 0, "device_id": 0, **kind, **params}
