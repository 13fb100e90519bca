# SPDX-License-Identifier: Apache-2.0
"""ttnn wheels below .cache/, with a compiler that compiles nothing, ready to run on mock devices."""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from typing import NamedTuple

from tests.mock.boards import board_named, descriptor
from ttmem.agent import KERNEL_COMPILER, require_file
from ttmem.fit.mock_environment import settings_for

VERSION = "0.81.1"
PYTHONS = ("3.10", "3.12")  # the versions there are wheels for

ROOT = Path(__file__).resolve().parent.parent.parent
CACHE = ROOT / ".cache" / "ttnn"
SHARED_MEMORY = Path("/dev/shm")

# A caller's settings of these kinds would change what is tested. If CI is set, ttnn paints its log.
_DROPPED = ("TT_", "TTNN_", "TTMEM_", "OMPI_", "PYTHON", "LD_PRELOAD", "VIRTUAL_ENV", "CI")


class Wheel(NamedTuple):
    """An interpreter that can `import ttnn`.

    >>> ttnn = wheel("3.12")
    >>> subprocess.run([ttnn.python, "program.py"], env=ttnn.environment("n150", folder, chip_id_seed=1), check=True)
    >>> remove_statistics("n150", chip_id_seed=1)
    """

    python: str
    package: Path
    version: str = VERSION

    def environment(self, board: str, folder: Path, chip_id_seed: int, cache: Path | None = None) -> dict[str, str]:
        """The whole environment of a process on that machine; everything it writes goes into the folder.

        `cache` is where kernels are kept, by default in the folder. Processes may share one, also at the same time:
        ttnn gives every file a name of its own and renames it when it is whole. With the stub compiler a fresh one
        costs so little that a test should only share one if that is what it tests.
        """
        for name in ("home", "tmp", "logs"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        described = folder / f"{board}.yaml"
        described.write_text(descriptor(board, chip_ids(board, chip_id_seed)))
        return {
            **{key: value for key, value in os.environ.items() if not key.startswith(_DROPPED)},
            **settings_for(self.version),
            "HOME": str(folder / "home"),
            "TMPDIR": str(folder / "tmp"),
            "TT_METAL_MOCK_CLUSTER_DESC_PATH": str(described),
            "TT_METAL_CACHE": str(cache or folder / "cache"),
            "TT_METAL_LOGS_PATH": str(folder / "logs"),
            "TT_LOGGER_LEVEL": "error",
            "LOGURU_LEVEL": "ERROR",
            "PYTHONDONTWRITEBYTECODE": "1",
            "OMPI_MCA_btl": "self",  # otherwise each process leaves 16 MiB in /dev/shm
        }


def in_turn(cases: Iterable[str]) -> list[tuple[str, str]]:
    """Each case with one version of Python. Both wheels are built from the same C++, so each runs half of the cases.

    >>> in_turn(["one", "two", "three"])
    [('one', '3.10'), ('two', '3.12'), ('three', '3.10')]
    """
    return list(zip(cases, cycle(PYTHONS)))


def chip_ids(board: str, chip_id_seed: int) -> dict[int, int]:
    """The unique id of each chip: different for each seed, and always the same."""
    return {chip: _chip_id(f"{chip_id_seed}/{chip}") for chip in board_named(board).chips}


def _chip_id(name: str) -> int:
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little")


def statistics(board: str, chip_id_seed: int) -> dict[int, Path]:
    """The paths of ttnn's shared-memory statistics of each chip."""
    return {
        chip: SHARED_MEMORY / f"tt_device_{chip_id}_memory" for chip, chip_id in chip_ids(board, chip_id_seed).items()
    }


def remove_statistics(board: str, chip_id_seed: int) -> None:
    """Remove these files, because ttnn never does."""
    for path in statistics(board, chip_id_seed).values():
        path.unlink(missing_ok=True)


@functools.cache
def wheel(python: str, version: str = VERSION) -> Wheel:
    """ttnn for this version of Python. The first call installs it, which takes a minute."""
    folder = CACHE / f"{version}-py{python}"
    base = None if version == VERSION else wheel(python)
    with _locked(folder.with_name(f"{folder.name}.lock")):
        _install(folder, python, version, base)
        package = _packages(folder, python) / "ttnn"
        if (package / "tt_metal" / "sfpi-version").exists():  # before 0.67 there is no firmware to build kernels for
            _install_compiler(package)
    return Wheel(str(folder / "bin" / "python"), package, version)


def _packages(folder: Path, python: str) -> Path:
    return folder / "lib" / f"python{python}" / "site-packages"


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _install(folder: Path, python: str, version: str = VERSION, base: Wheel | None = None) -> None:
    """With `base`, everything but ttnn itself is taken from there: what other versions need is the same."""
    complete = folder / ".complete"  # written last: a folder without it was interrupted
    own = str(folder / "bin" / "python")
    if complete.exists() and _answers([own], python):
        return
    shutil.rmtree(folder, ignore_errors=True)
    install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input", f"ttnn=={version}"]
    if base is None:
        _run([interpreter(python), "-m", "venv", str(folder)])
        _run([own, *install])
    else:
        _run([interpreter(python), "-m", "venv", "--without-pip", str(folder)])
        packages = _packages(folder, python)
        _run([base.python, *install, "--no-deps", "--no-compile", "--ignore-installed", "--prefix", str(folder)])
        (packages / "base.pth").write_text(f"{base.package.parent.resolve()}\n")  # comes after its own packages
    complete.touch()


def _install_compiler(package: Path) -> None:
    """The stand-in of `ttmem fit`; it reads the version to print from the wheel."""
    compiler = require_file(KERNEL_COMPILER).read_bytes()
    made_from = hashlib.sha256(compiler).hexdigest()
    sfpi = package / "runtime" / "sfpi"
    stamp = sfpi / "made-from"
    if stamp.exists() and stamp.read_text() == made_from:
        return
    target = sfpi / "compiler" / "bin" / "riscv-tt-elf-g++"
    for needed in (target.parent, sfpi / "include"):
        needed.mkdir(parents=True, exist_ok=True)
    scratch = target.with_name(f".{os.getpid()}")
    scratch.write_bytes(compiler)
    scratch.chmod(0o755)
    scratch.rename(target)
    stamp.write_text(made_from)


def _run(command: list[str]) -> None:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed with {done.returncode}:\n{done.stdout}")


def interpreter(python: str) -> str:
    """An installed Python of that version that really runs and can make a virtual environment."""
    roots = dict.fromkeys(Path(root) for root in (os.environ.get("PYENV_ROOT"), Path.home() / ".pyenv") if root)
    candidates = [sys.executable, f"python{python}"]
    for root in roots:
        candidates += sorted(str(path) for path in root.glob(f"versions/{python}.*/bin/python{python}"))[::-1]
    for candidate in candidates:
        if _answers([candidate], python):
            return candidate
    raise RuntimeError(
        f"these tests run the ttnn wheel and need Python {python} with venv: no python{python} that works is on PATH, "
        f"nor below {' or '.join(str(root / 'versions') for root in roots)}; install one, for example with "
        f"`pyenv install {python}` or `apt install python{python}-venv`"
    )


def _answers(command: list[str], python: str) -> bool:
    """Whether it is there and is that version; pyenv's shims are there for versions that are not."""
    code = "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2])"
    try:
        answer = subprocess.run([*command, "-c", code], capture_output=True, text=True)
    except OSError:
        return False
    return answer.stdout.strip() == python
