# SPDX-License-Identifier: Apache-2.0
"""The wheel that pip builds from the tree: with the agent for all Pythons, or without it if it cannot be compiled."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.support import ROOT
from ttmem import __version__

PARTS = ("pyproject.toml", "README.md", "LICENSE", "src", "native")
AGENT = "ttmem/agent/libttmem_agent.so"
COMPILED = {AGENT, "ttmem/agent/libttmem_fit.so", "ttmem/agent/ttmem_kernel_compiler"}
SYMBOLS = "ttmem/agent/symbols.def"


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the tree: a build must leave nothing in ours, and must not see files of other tests."""
    folder = tmp_path_factory.mktemp("tree")
    for part in PARTS:
        if (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
        else:
            shutil.copy(ROOT / part, folder)
    return folder


@pytest.fixture(scope="module")
def sdist(tree: Path) -> Path:
    code = "from scikit_build_core.build import build_sdist; print(build_sdist('dist'))"
    subprocess.run([sys.executable, "-c", code], cwd=tree, check=True, capture_output=True)
    (file,) = (tree / "dist").glob("*.tar.gz")
    return file


def pip(*arguments: str | Path, **env: str) -> subprocess.CompletedProcess[str]:
    """pip without the network: what a build needs is in this environment."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-cache-dir", *map(str, arguments)]
    return subprocess.run(command, env={**os.environ, **env}, capture_output=True, text=True, check=False)


def build(source: Path, out: Path, **env: str) -> subprocess.CompletedProcess[str]:
    return pip("wheel", "--verbose", "--no-build-isolation", "--no-deps", "--no-index", "-w", out, source, **env)


def installed(wheel: Path, folder: Path, code: str) -> list[str]:
    """Lines that code prints in an interpreter that sees only the wheel's contents."""
    done = pip("install", "--no-deps", "--no-index", "--target", folder, wheel)
    assert done.returncode == 0, done.stderr
    prelude = f"import sys; sys.path.insert(0, {str(folder)!r})\n"
    command = [sys.executable, "-I", "-S", "-c", prelude + code]
    return subprocess.run(command, cwd="/", capture_output=True, text=True, check=True).stdout.splitlines()


def test_the_source_package_has_all_that_a_build_needs(tree: Path, sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {
        str(path.relative_to(tree)) for part in ("src", "native") for path in (tree / part).rglob("*") if path.is_file()
    }
    assert "native/CMakeLists.txt" in wanted
    assert wanted <= packed


def test_one_wheel_for_all_pythons_with_the_agent_in_it(tree: Path, sdist: Path, tmp_path: Path) -> None:
    built = build(sdist, tmp_path, TTMEM_REQUIRE_AGENT="1")
    assert built.returncode == 0, built.stdout + built.stderr
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name == f"ttmem-{__version__}-py3-none-linux_{platform.machine()}.whl"
    with zipfile.ZipFile(wheel) as archive:
        packed = set(archive.namelist())
    sources = {str(path.relative_to(tree / "src")) for path in (tree / "src").rglob("*") if path.is_file()}
    assert {name for name in packed if name.startswith("ttmem/")} == sources | COMPILED | {SYMBOLS}

    shown = subprocess.run(
        [sys.executable, "-m", "auditwheel", "show", str(wheel)], capture_output=True, text=True, check=True
    )
    assert "manylinux_2_" in shown.stdout  # it needs only what every system of that age has

    folder = tmp_path / "site"
    assert installed(wheel, folder, "from ttmem.agent import library; print(library())") == [str(folder / AGENT)]


@pytest.mark.parametrize("broken", [{"CXX": "/bin/false"}, {"CXX": "/no/such/compiler"}])
def test_without_a_compiler_everything_else_is_installed(broken: dict[str, str], tree: Path, tmp_path: Path) -> None:
    built = build(tree, tmp_path, **broken, TTMEM_REQUIRE_AGENT="")
    assert built.returncode == 0, built.stdout + built.stderr
    assert "WITHOUT its native agent" in built.stdout + built.stderr
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name == f"ttmem-{__version__}-py3-none-any.whl"
    code = "from ttmem.agent import library, missing_reason; print(library()); print(missing_reason())"
    none, reason = installed(wheel, tmp_path / "site", code)
    assert none == "None"
    assert "Install one" in reason


def test_who_must_have_the_agent_gets_the_error(tree: Path, tmp_path: Path) -> None:
    built = build(tree, tmp_path, CXX="/bin/false", TTMEM_REQUIRE_AGENT="1")
    assert built.returncode != 0
    assert not list(tmp_path.glob("*.whl"))
