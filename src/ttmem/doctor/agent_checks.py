# SPDX-License-Identifier: Apache-2.0
"""Check of the native agent: whether it exists, has this version, and can be loaded by a program."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import ttmem
from ttmem.agent import NAME, AgentMissing, library
from ttmem.doctor import elf
from ttmem.doctor.context import DoctorContext
from ttmem.doctor.findings import Message, broken, ok, unknown, warning
from ttmem.doctor.required_symbols import required_symbols
from ttmem.run.environment import preload

_BUILD = "pip install -v --force-reinstall --no-deps --no-cache-dir ttmem (in a source tree: make setup)"
_SECONDS = 1.0
# The functions of a preloaded library are global. A separate process is used, so that it is never loaded here.
_ASK = """
import ctypes
version = ctypes.CDLL(None).ttmem_agent_version
version.restype = ctypes.c_char_p
print(version().decode())
"""


def agent(context: DoctorContext) -> Iterator[Message]:
    """Whether `ttmem run` would work."""
    try:
        loaded = preload(context.env)
        hooks = required_symbols().hooks
    except AgentMissing as missing:
        yield broken(
            NAME, str(missing), "follow this message; until then only programs that report by themselves are tracked"
        )
        return
    path = str(library(context.env))
    try:
        found = elf.read(path, hooks.values())
        machine = elf.machine_of("/proc/self/exe")
    except (OSError, elf.NotALibrary) as error:
        yield broken(path, f"it cannot be loaded: {error}", _BUILD)
        return
    if found.machine != machine:
        yield broken(
            path,
            f"it is for another processor (ELF machine {found.machine}, this is {machine})",
            f"build it here: {_BUILD}",
        )
        return
    lacking = sorted(name for name, symbol in hooks.items() if symbol not in found.defined)
    if lacking:
        yield warning(path, f"it does not replace {', '.join(lacking)}: it belongs to another version", _BUILD)
    yield _load(path, loaded, context)


def _load(path: str, loaded: str, context: DoctorContext) -> Message:
    looked = f"LD_PRELOAD={path} {context.python}"
    env = {**context.env, "LD_PRELOAD": loaded, "TTMEM_AGENT": "0", "LC_ALL": "C"}
    try:
        done = subprocess.run(
            [context.python, "-I", "-S", "-c", _ASK], env=env, capture_output=True, text=True, errors="replace",
            timeout=_SECONDS, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return unknown(looked, f"it could not be tried: {error}")
    version = done.stdout.strip()
    if not version and done.returncode == 0:  # an interpreter would have printed an error
        why = f"it could not be tried: {context.python} is not a Python interpreter"
        return unknown(looked, why, "name one: `ttmem doctor --python PATH`")
    if not version:
        # If a preloaded library lacks a dependency or a version of one, the program ends; other errors are ignored.
        words = (line for line in done.stderr.splitlines() if NAME in line or "shared libraries" in line)
        why = next(words, "no reason was printed")
        return broken(looked, f"the agent is not loaded: {why}", f"it needs glibc 2.34 or later and libgcc_s; {_BUILD}")
    if version != ttmem.__version__:
        return warning(looked, f"the agent belongs to ttmem {version}, this is {ttmem.__version__}", _BUILD)
    return ok(path, f"agent of ttmem {version}, loads")
