# SPDX-License-Identifier: Apache-2.0
"""The nodes of one operation in a graph capture: begin and end, programs, tensors, and the error if it failed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ttmem.collect.ttnn_graph import Node

_PARTS = ("circular_buffer_allocate", "dataflow_buffer_allocate", "scratchpad_allocate")
_CLEARED = "circular_buffer_deallocate_all"
_OF_PROGRAMS = (*_PARTS, _CLEARED)
_GOING = ("function_end", "buffer_deallocate", _CLEARED, "error")
_FREES = "Tensor::deallocate"
_DIMENSIONS = re.compile(r"\[[^\n]*\]")


def operations(nodes: Iterable[Node]) -> Iterator[list[Node]]:
    """Nodes grouped by outermost function; a node outside any function forms its own group."""
    depth, held = 0, []
    for node in nodes:
        held.append(node)
        depth += {"function_start": 1, "function_end": -1}.get(node["node_type"], 0)
        if depth <= 0:
            yield held
            depth, held = 0, []
    if held:
        yield held


def functions(nodes: Iterable[Node]) -> list[str]:
    """The functions that begin, in order."""
    found = (node["params"] or {} for node in nodes if node["node_type"] == "function_start")
    return [str(params.get("name")) for params in found]


def mark_programs(nodes: Iterable[Node]) -> int:
    """Mark the functions that executed a program, as releases do that report cache hits.

    Returns the number of parts outside any function; nothing else is known about them.
    """
    open_: list[dict[str, Any]] = []
    stray = 0
    for node in nodes:
        what = node["node_type"]
        if what == "function_start":
            open_.append(node["params"] or {})
        elif what == "function_end":
            del open_[-1:]
        elif what in _OF_PROGRAMS and not any("program_cache_hit" in params for params in open_):
            stray += what in _PARTS and not open_
            if open_:
                open_[-1]["program_cache_hit"] = False
    return stray


def error_of(nodes: Iterable[Node]) -> str | None:
    """The error of a node. Current releases have no such nodes, and store errors separately."""
    found = (node["params"] or {} for node in nodes if node["node_type"] == "error")
    return next((str(params["error_message"]) for params in found if params.get("error_message")), None)


def thrown_at(nodes: list[Node]) -> int:
    """The number of nodes of a failed operation before the failure.

    Later nodes come from unwinding the stack: functions end, buffers and circular buffers are freed. ttnn ends the
    operation itself only when the next one begins, so the nodes include what Python frees until then.
    """
    for place in range(len(nodes), 0, -1):
        node = nodes[place - 1]
        freeing = node["node_type"] == "function_start" and (node["params"] or {}).get("name") == _FREES
        if node["node_type"] not in _GOING and not freeing:
            return place
    return 0


def shapes(nodes: Iterable[Node]) -> dict[int, str]:
    """The last tensor of the operation in each buffer, by the counter of the buffer's node and of the tensor's."""
    found: dict[int, str] = {}
    buffers = []
    for node in nodes:
        counter, what = node.get("counter"), node["node_type"]
        if counter is not None and what == "tensor" and (text := shape_of(node["params"] or {})):
            found[counter] = text
        elif counter is not None and what == "buffer":
            buffers.append((counter, node.get("connections") or ()))
    for counter, tensors in buffers:
        last = max((one for one in tensors if one in found), default=None)
        if last is not None:
            found[counter] = found[last]
    return found


def shape_of(params: Mapping[str, Any]) -> str | None:
    """The description of a tensor in the form that the agent uses.

    >>> shape_of({"shape": "Shape([1, 1, 32, 128])", "dtype": "DataType::BFLOAT16", "layout": "Layout::TILE"})
    '[1, 1, 32, 128] bfloat16 tile'
    """
    shape = _DIMENSIONS.search(str(params.get("shape")))
    if shape is None:
        return None
    names = (str(params.get(name) or "").replace("::", ".").rpartition(".")[2].lower() for name in ("dtype", "layout"))
    return " ".join(filter(None, (shape[0], *names)))
