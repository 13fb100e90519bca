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
FIT_LIBRARY = "libttmem_fit.so"  # loaded by `ttmem fit` beside the agent
KERNEL_COMPILER = "ttmem_kernel_compiler"  # the stand-in of `ttmem fit`
VARIABLE = "TTMEM_AGENT_LIBRARY"


class AgentMissing(Exception):
    """This ttmem has no native agent; the message says what to do."""


def library(env: Mapping[str, str] = os.environ) -> Path | None:
    """The agent's shared library, or None; then `missing_reason` has the reason.

    TTMEM_AGENT_LIBRARY names another library. If that file does not exist there is no agent: the packaged library is
    not used instead.
    """
    chosen = env.get(VARIABLE)
    # Not next to __file__: an editable install has the sources in src/ and the compiled library in site-packages.
    path = Path(chosen).absolute() if chosen else Path(str(files("ttmem") / "agent" / NAME))
    return path if path.is_file() else None


def missing_reason(env: Mapping[str, str] = os.environ) -> str | None:
    """Why `library` returns None, as a sentence for the user; None if there is an agent."""
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


def require_file(name: str) -> Path:
    """Another file that was compiled with the agent; AgentMissing if there is none."""
    path = Path(str(files("ttmem") / "agent" / name))
    if not path.is_file():
        raise AgentMissing(missing_reason({}) or f"this ttmem was installed without {name}; install it again")
    return path
