# SPDX-License-Identifier: Apache-2.0
"""Finds the native agent: the shared library that `ttmem run` loads into a process that uses ttnn."""

from __future__ import annotations

import os
from importlib.resources import files
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

NAME = "libttmem_agent.so"
VARIABLE = "TTMEM_AGENT_LIBRARY"


class AgentMissing(Exception):
    """This ttmem has no native agent; the text says what to do about it."""


def library(env: Mapping[str, str] = os.environ) -> Path | None:
    """The agent's shared library, or None; then `missing_reason` says why.

    TTMEM_AGENT_LIBRARY names another one. If that is no file there is no agent: the packaged one was not asked for.
    """
    chosen = env.get(VARIABLE)
    # Not beside __file__: in an editable install the sources are in src/ and what was compiled is in site-packages.
    path = Path(chosen).absolute() if chosen else Path(str(files("ttmem") / "agent" / NAME))
    return path if path.is_file() else None


def missing_reason(env: Mapping[str, str] = os.environ) -> str | None:
    """Why `library` has nothing to give, as a sentence for a user; None if it has."""
    if library(env) is not None:
        return None
    if env.get(VARIABLE):
        return f"{VARIABLE} is {env[VARIABLE]}, and there is no such file; unset it to use the agent ttmem came with"
    return (
        f"this ttmem was installed without its native agent ({NAME}): no C++17 compiler worked at that time. Install "
        "one (Debian, Ubuntu: apt install g++; Fedora, RHEL: dnf install gcc-c++ libstdc++-static), then: "
        "pip install -v --force-reinstall --no-deps --no-cache-dir ttmem (in a source tree: make setup)"
    )


def require(env: Mapping[str, str] = os.environ) -> Path:
    """The agent's shared library; AgentMissing if there is none."""
    path = library(env)
    if path is None:
        raise AgentMissing(missing_reason(env))
    return path
