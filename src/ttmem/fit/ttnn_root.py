# SPDX-License-Identifier: Apache-2.0
"""The ttnn that a command uses, and a root folder for it with another kernel compiler, made of symbolic links."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ttmem import agent
from ttmem.doctor.locate import locate

_SECONDS = 30.0  # for the interpreter's answer; it only has to find a package
_COMPILER = Path("compiler") / "bin" / "riscv-tt-elf-g++"
_INSTALLED_SFPI = Path("/opt/tenstorrent/sfpi")
_NOT_LINKED = {"runtime", "generated", "built", ".git"}  # ttnn writes into these, or does not need them
_PYTHON = re.compile(r"(python|pypy)[\d.]*")


class NoTtnn(Exception):
    """The ttnn of the command cannot be used; the message says why and what to do."""


class Ttnn(NamedTuple):
    """The ttnn of a command: the interpreter that was asked, its version, and tt-metal's root folder."""

    python: str
    version: str | None
    root: Path


def ttnn_of(command: Sequence[str], env: Mapping[str, str], python: str | None = None) -> Ttnn:
    """The ttnn that a command will import. ``python`` is its interpreter, if the command does not show it."""
    interpreter = python or _interpreter(command[0], env)
    found = locate(interpreter, env, seconds=_SECONDS)
    if isinstance(found, str):
        raise NoTtnn(f"{interpreter} cannot be asked for its ttnn: {found}; name the interpreter with --python")
    source = env.get("TT_METAL_HOME") or env.get("TT_METAL_RUNTIME_ROOT")
    for root in (found.folder, source):
        if root is not None and (Path(root) / "tt_metal").is_dir():
            return Ttnn(interpreter, found.version, Path(root).absolute())
    if found.folder is None and source is None:
        raise NoTtnn(
            f"{interpreter} has no ttnn; activate the environment of the model, or name its interpreter with --python"
        )
    raise NoTtnn(
        f"there is no tt_metal folder in {found.folder or source}; set TT_METAL_HOME to the source tree of ttnn"
    )


def _interpreter(program: str, env: Mapping[str, str]) -> str:
    """The Python that a program runs on: itself, that of its first line, else the first one on PATH."""
    search = env.get("PATH")
    path = shutil.which(program, path=search)
    if path is not None and _PYTHON.fullmatch(os.path.basename(path)):
        return path
    if path is not None:
        with open(path, "rb") as file:
            first = file.readline(512).decode("utf-8", "replace")
        words = first[2:].split() if first.startswith("#!") else []
        if words and os.path.basename(words[0]) == "env":
            words = [word for word in words[1:] if not word.startswith("-")]
        found = shutil.which(words[0], path=search) if words else None
        if found is not None and _PYTHON.fullmatch(os.path.basename(found)):
            return found
    for name in ("python", "python3"):
        found = shutil.which(name, path=search)
        if found is not None:
            return found
    raise NoTtnn(f"no Python was found for {program}; name the interpreter of the model with --python")


def link_root(ttnn: Ttnn, root: Path, real_kernels: bool) -> None:
    """Make a root folder that is ttnn's own except for the kernel compiler. Nothing is written into ttnn's."""
    root.mkdir()
    _link_all(ttnn.root, root, _NOT_LINKED)
    runtime = root / "runtime"
    runtime.mkdir()
    _link_all(ttnn.root / "runtime", runtime, {"sfpi"})
    if real_kernels:
        (runtime / "sfpi").symlink_to(_real_sfpi(ttnn))
        return
    compiler = runtime / "sfpi" / _COMPILER
    compiler.parent.mkdir(parents=True)
    (runtime / "sfpi" / "include").mkdir()
    shutil.copyfile(agent.require_file(agent.KERNEL_COMPILER), compiler)  # some installers drop the mode of files
    compiler.chmod(0o755)


def _link_all(source: Path, target: Path, but: set[str]) -> None:
    if source.is_dir():
        for path in source.iterdir():
            if path.name not in but:
                (target / path.name).symlink_to(path)


def _real_sfpi(ttnn: Ttnn) -> Path:
    for sfpi in (ttnn.root / "runtime" / "sfpi", _INSTALLED_SFPI):
        if (sfpi / _COMPILER).exists():
            return sfpi
    raise NoTtnn(
        f"--real-kernels needs Tenstorrent's kernel compiler, and neither {ttnn.root / 'runtime' / 'sfpi'} nor "
        f"{_INSTALLED_SFPI} has it; install the sfpi package, or leave the option out"
    )
