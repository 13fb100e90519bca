# SPDX-License-Identifier: Apache-2.0
"""The environment variables that make the agent track a process."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ttmem.agent import AgentMissing, require

RUN_SOCKET = "TTMEM_RUN_SOCKET"
STACKS = "TTMEM_STACKS"  # number of Python frames to record with each event


def preload(env: Mapping[str, str]) -> str:
    """LD_PRELOAD with the agent after the existing libraries, because a sanitizer must come first."""
    library = checked_path(require(env))
    others = [path for path in env.get("LD_PRELOAD", "").replace(" ", ":").split(":") if path]
    if library not in others:
        others.append(library)
    return ":".join(others)


def checked_path(library: Path) -> str:
    """The path of a library of ours, if LD_PRELOAD can contain it."""
    if any(mark in str(library) for mark in " :"):
        raise AgentMissing(
            f"the agent is at {library}, but the loader splits LD_PRELOAD at spaces and colons; copy it to a path "
            "without them and set TTMEM_AGENT_LIBRARY to that"
        )
    return str(library)


def variables(
    env: Mapping[str, str], *, socket: str | None, run_socket: str | None = None, stacks: int | None = None
) -> dict[str, str]:
    """The variables to add to an environment so that a ttnn process in it reports."""
    found = {"LD_PRELOAD": preload(env)}
    if socket is not None:
        found["TTMEM_SOCKET"] = socket
    if run_socket is not None:  # an outer `ttmem run` still gets the events
        found[RUN_SOCKET] = ":".join([run_socket, *filter(None, [env.get(RUN_SOCKET)])])
    if stacks is not None:
        found[STACKS] = str(stacks)
    return found
