# SPDX-License-Identifier: Apache-2.0
"""The ttnn module of the workload: checks that it can be tracked, and wraps its functions."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

_TTNN = "ttnn"  # imported by the workload; ttmem does not depend on it
_NEEDED = (
    *("decorators.FastOperation", "decorators.Operation", "Tensor", "BufferType", "get_memory_view", "CONFIG"),
    *("_ttnn.graph.begin_graph_capture", "_ttnn.graph.end_graph_capture", "_ttnn.graph.is_graph_capture_active"),
    *("_ttnn.graph.RunMode.NORMAL", "_ttnn.graph.RunMode.NO_DISPATCH"),
    *("_ttnn.reports.get_buffers", "_ttnn.reports.get_device_info", "_ttnn.multi_device.MeshDevice"),
)


def import_ttnn() -> Any:
    try:
        ttnn = importlib.import_module(_TTNN)
    except ImportError as error:
        raise ImportError(f"ttmem.instrument() tracks ttnn, which cannot be imported here: {error}") from error
    missing = [path for path in _NEEDED if _find(ttnn, path) is None]
    if missing:
        raise RuntimeError(
            f"this ttnn has no {', '.join(missing)}, which ttmem.instrument() needs; it was made for ttnn 0.81. "
            "`ttmem run -- COMMAND` tracks other versions"
        )
    return ttnn


def _find(ttnn: Any, path: str) -> Any:
    return functools.reduce(lambda found, name: getattr(found, name, None), path.split("."), ttnn)


class Patches:
    """Functions of ttnn that were replaced by wrappers."""

    def __init__(self, ttnn: Any) -> None:
        self._ttnn = ttnn
        self._done: list[tuple[Any, str, Any, Any]] = []

    def replace(self, path: str, wrap: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
        """Replace the function at a dotted path; does nothing if this ttnn lacks it."""
        owner_path, _, name = path.rpartition(".")
        owner = _find(self._ttnn, owner_path) if owner_path else self._ttnn
        original = getattr(owner, name, None)
        if original is not None:
            ours = functools.update_wrapper(wrap(original), original)
            setattr(owner, name, ours)
            self._done.append((owner, name, original, ours))

    def undo(self) -> None:
        for owner, name, original, ours in reversed(self._done):
            if getattr(owner, name) is ours:  # else it was wrapped again, and our wrapper must stay
                setattr(owner, name, original)
        self._done.clear()


def flat(values: Iterable[Any]) -> Iterator[Any]:
    """Arguments, with lists of them flattened."""
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from flat(value)
        elif isinstance(value, Mapping):
            yield from flat(value.values())
        else:
            yield value


def intact(ttnn: Any, arguments: Iterable[Any]) -> bool:
    """Whether all tensor arguments of an operation are still allocated."""
    return all(value.is_allocated() for value in flat(arguments) if isinstance(value, ttnn.Tensor))


def devices(ttnn: Any, arguments: Iterable[Any]) -> Iterator[Any]:
    """The devices in the arguments of an operation, directly or through a tensor, and those made from them."""
    todo = []
    for value in flat(arguments):
        device = value.device() if isinstance(value, ttnn.Tensor) else value
        if isinstance(device, ttnn._ttnn.multi_device.MeshDevice):
            todo.append(device)
    while todo:
        device = todo.pop()
        yield device
        todo += device.get_submeshes()
