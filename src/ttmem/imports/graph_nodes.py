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
    """Nodes by outermost function, each with all that is in it; what is in none comes by itself."""
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
    """Make the functions that executed a program known as such, as releases do that tell cache hits.

    Returns the number of parts that are in no function, of which nothing is known but that they exist.
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
    """What a node says of an error; today's releases have no such nodes, and tell it beside them."""
    found = (node["params"] or {} for node in nodes if node["node_type"] == "error")
    return next((str(params["error_message"]) for params in found if params.get("error_message")), None)


def thrown_at(nodes: list[Node]) -> int:
    """How many nodes of an operation that failed were before that.

    What comes after is all that an unwinding stack does: functions end, buffers and circular buffers go. ttnn ends the
    operation itself only when the next one begins, so what Python frees until then is among it.
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
    """A tensor in the words of the agent.

    >>> shape_of({"shape": "Shape([1, 1, 32, 128])", "dtype": "DataType::BFLOAT16", "layout": "Layout::TILE"})
    '[1, 1, 32, 128] bfloat16 tile'
    """
    shape = _DIMENSIONS.search(str(params.get("shape")))
    if shape is None:
        return None
    names = (str(params.get(name) or "").replace("::", ".").rpartition(".")[2].lower() for name in ("dtype", "layout"))
    return " ".join(filter(None, (shape[0], *names)))
