# SPDX-License-Identifier: Apache-2.0
"""Checks of ttnn, without importing it: where it is, and what the agent can use of its libtt_metal.so."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from ttmem.agent import AgentMissing
from ttmem.doctor import elf
from ttmem.doctor.context import DoctorContext
from ttmem.doctor.findings import Message, broken, ok, some, unknown, warning
from ttmem.doctor.hook_coverage import IN_ITS_STEAD, look
from ttmem.doctor.locate import Wheel, locate

_PYTHONS = ("3.10", "3.12")  # versions that ttnn has wheels for
_PROVEN = "use a version of ttnn that ttmem is tested with: 0.81.1, or one that docs/compatibility.md lists as exact"


def ttnn(context: DoctorContext) -> Iterator[Message]:
    """Whether ttnn is installed."""
    found = context.wheel
    if isinstance(found, str):
        yield unknown(
            context.python,
            f"this interpreter could not be queried: {found}",
            "name another: `ttmem doctor --python PATH`",
        )
        return
    looked = f"{context.python} (Python {found.python})"
    if found.folder is None:
        wheels = "" if found.python in _PYTHONS else f"; there are wheels for Python {' and '.join(_PYTHONS)} only"
        yield unknown(
            looked, f"no ttnn there{wheels}", "name the interpreter of your program: `ttmem doctor --python PATH`"
        )
        return
    library = library_of(found.folder, context.env)
    if library is None:
        yield warning(
            found.folder, f"ttnn {found.version or ''} has no libtt_metal.so where one is expected",
            "check that it is built; for a build from source, set TT_METAL_HOME to its folder",
        )  # fmt: skip
        return
    yield ok(looked, f"ttnn {found.version or '(version not known)'}, {library}")


_MOST_LEVELS = 5  # below a folder that is searched


def library_of(folder: str, env: Mapping[str, str]) -> str | None:
    """The libtt_metal.so of a package: below the package in a wheel, in the build folder of a source tree."""
    trees = [folder, env.get("TT_METAL_HOME") or folder, os.path.dirname(os.path.dirname(folder))]
    candidates = [os.path.join(tree, "build/lib/libtt_metal.so") for tree in trees]
    return next((candidate for candidate in candidates if os.path.isfile(candidate)), None)


def find(path: str, env: Mapping[str, str]) -> str:
    """The libtt_metal.so for a path: the library itself, a folder of ttnn or one above it, or an interpreter.

    OSError if there is none.
    """
    if os.path.isdir(path):
        folders = [path, os.path.join(path, "ttnn")]
        candidates = [*(os.path.join(folder, "build/lib/libtt_metal.so") for folder in folders)]
        candidates.append(os.path.join(path, "libtt_metal.so"))
        found = next((candidate for candidate in candidates if os.path.isfile(candidate)), None) or _below(path)
        if found is None:
            raise OSError(f"{path} is not a folder of ttnn: there is no {candidates[0]}, nor another libtt_metal.so")
        return found
    if ".so" in os.path.basename(path) and os.path.isfile(path):
        return path
    if os.path.dirname(path) and not os.path.exists(path):
        raise OSError(f"{path}: No such file or directory; name a folder of ttnn, its libtt_metal.so or an interpreter")
    where = locate(path, env)
    if isinstance(where, str) and os.path.isfile(path):
        raise OSError(f"{path} is neither a libtt_metal.so nor an interpreter")
    if isinstance(where, str):
        raise OSError(f"{path} is neither a libtt_metal.so nor an interpreter: {where}")
    library = library_of(where.folder, env) if where.folder else None
    if library is None:
        raise OSError(f"{path} (Python {where.python}) has no ttnn with a libtt_metal.so; name one")
    return library


def _below(path: str) -> str | None:
    """A libtt_metal.so somewhere below a folder: of the plugin of tt-xla, or in a build folder of another name."""
    top = path.rstrip("/").count("/")
    for folder, below, files in os.walk(path):
        if "libtt_metal.so" in files:
            return os.path.join(folder, "libtt_metal.so")
        if folder.count("/") - top >= _MOST_LEVELS:
            below.clear()
        below.sort()
    return None


def hooks(context: DoctorContext) -> Iterator[Message]:
    """What the agent can track with the libraries that are installed or in use."""
    libraries: dict[tuple[int, int], str] = {}
    found = context.wheel
    installed = library_of(found.folder, context.env) if isinstance(found, Wheel) and found.folder else None
    for path in [installed, *(user.metal for user in context.users)]:
        try:
            status = os.stat(path or "")
            libraries.setdefault((status.st_dev, status.st_ino), path or "")
        except OSError:
            continue
    if not libraries:
        yield unknown(
            "libtt_metal.so", "none is installed here or in use", "name an interpreter: `ttmem doctor --python PATH`"
        )
    for path in libraries.values():
        try:
            yield from _hooks_of(path)
        except (OSError, elf.NotALibrary) as error:
            yield unknown(path, f"it cannot be read: {error}")
        except AgentMissing as missing:
            yield unknown(path, f"the functions that the agent needs are not known: {missing}")


def _hooks_of(path: str) -> Iterator[Message]:
    found = look(path)
    first = found.kinds[0]
    if first.reason is not None:
        yield broken(path, f"nothing is tracked, because {first.what} are not: {first.reason}", _PROVEN)
        return
    for kinds in found.kinds:
        if kinds.reason is not None:
            todo = f"it is unknown, not 0; {_PROVEN}"
            yield warning(path, f"{kinds.what} are not tracked: {kinds.reason}", todo)
    for what, lacks in found.unknown.items():
        yield warning(path, f"not known with this libtt_metal: {what} (no {some(lacks)})", _PROVEN)
    stood_in = found.named(IN_ITS_STEAD)
    if not found.unknown and len(found.tracked) == len(found.kinds):
        older = f", or replaced as in older versions ({some(stood_in)})" if stood_in else ""
        count = len(found.functions)
        yield ok(path, f"all {count} functions are available{older}: {some(found.tracked, 9)} are tracked")
