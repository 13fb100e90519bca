# SPDX-License-Identifier: Apache-2.0
"""Checks of ttnn, which is not imported: where it is, and what of its libtt_metal.so the agent can use."""

from __future__ import annotations

import os
from collections.abc import Iterator

from ttmem.doctor import elf
from ttmem.doctor.findings import Said, broken, ok, some, unknown, warning
from ttmem.doctor.locate import Wheel
from ttmem.doctor.needs import CALLS, EXTRAS, HOOKS, NEEDS
from ttmem.doctor.scene import Scene

_PYTHONS = ("3.10", "3.12")  # that there are wheels for
_PROVEN = "use a ttnn that ttmem is proven with: 0.81.1"


def ttnn(scene: Scene) -> Iterator[Said]:
    """Is ttnn there?"""
    found = scene.wheel
    if isinstance(found, str):
        yield unknown(scene.python, f"that interpreter cannot be asked: {found}", "name another with --python PATH")
        return
    looked = f"{scene.python} (Python {found.python})"
    if found.folder is None:
        wheels = "" if found.python in _PYTHONS else f"; there are wheels for Python {' and '.join(_PYTHONS)} only"
        yield unknown(looked, f"no ttnn there{wheels}", "name the interpreter of your program with --python PATH")
        return
    library = _library(found.folder, scene)
    if library is None:
        yield warning(
            found.folder, f"ttnn {found.version or ''} has no libtt_metal.so where one is expected",
            "is it built? TT_METAL_HOME names the tree of a build from source",
        )  # fmt: skip
        return
    yield ok(looked, f"ttnn {found.version or '(version not known)'}, {library}")


def _library(folder: str, scene: Scene) -> str | None:
    """In a wheel below the package, in a source tree in its build folder."""
    trees = [folder, scene.env.get("TT_METAL_HOME") or folder, os.path.dirname(os.path.dirname(folder))]
    places = [os.path.join(tree, "build/lib/libtt_metal.so") for tree in trees]
    return next((place for place in places if os.path.isfile(place)), None)


def hooks(scene: Scene) -> Iterator[Said]:
    """Hook by hook: what would the agent see with the libraries that are installed or in use?"""
    libraries: dict[tuple[int, int], str] = {}
    found = scene.wheel
    installed = _library(found.folder, scene) if isinstance(found, Wheel) and found.folder else None
    for path in [installed, *(user.metal for user in scene.users)]:
        try:
            status = os.stat(path or "")
            libraries.setdefault((status.st_dev, status.st_ino), path or "")
        except OSError:
            continue
    if not libraries:
        yield unknown("libtt_metal.so", "none is installed here or in use", "name an interpreter with --python PATH")
    for path in libraries.values():
        try:
            yield from _hooks_of(path)
        except (OSError, elf.NotALibrary) as error:
            yield unknown(path, f"it cannot be read: {error}")


def _hooks_of(path: str) -> Iterator[Said]:
    names = {**HOOKS, **CALLS}
    library = elf.read(path, names.values())
    defined = library.defined | _in_dependencies(path, library, set(names.values()) - library.defined)
    missing = {name for name, symbol in names.items() if symbol not in defined}
    uncalled = {name for name, symbol in HOOKS.items() if symbol not in library.called} - missing
    tracked = 0
    for number, need in enumerate(NEEDS):
        lacks = [name for name in (*need.hooks, *need.calls) if name in missing]
        passed = [name for name in need.hooks if name in uncalled]
        if not lacks and not passed:
            tracked += 1
            continue
        parts = [f"has no {some(lacks)}" if lacks else "", f"does not call {some(passed)} in a way that can be seen"]
        why = " and ".join(part for part, there in zip(parts, (lacks, passed), strict=True) if there)
        if number == 0:
            yield broken(path, f"nothing is tracked, because buffers are not: this libtt_metal {why}", _PROVEN)
            return
        yield warning(path, f"{need.what} are not tracked: this libtt_metal {why}", f"it is unknown, not 0; {_PROVEN}")
    for what, wanted in EXTRAS.items():
        lacks = [name for name in wanted if name in missing]
        if lacks:
            yield warning(path, f"not known with this libtt_metal: {what} (no {some(lacks)})", _PROVEN)
    if tracked == len(NEEDS) and not missing:
        yield ok(path, f"all {len(names)} functions are there: {some([need.what for need in NEEDS], 9)} are tracked")


def _in_dependencies(path: str, library: elf.Library, names: set[str]) -> set[str]:
    """What the libraries it needs have: those that lie beside it, as all of tt-metal's do."""
    found: set[str] = set()
    for needed in library.needed:
        beside = os.path.join(os.path.dirname(path), needed)
        if names - found and os.path.isfile(beside):
            found |= elf.read(beside, names - found).defined
    return found
