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

PARTS = ("pyproject.toml", "README.md", "LICENSE", "src", "native", "web")
AGENT = "ttmem/agent/libttmem_agent.so"
COMPILED = {AGENT, "ttmem/agent/libttmem_fit.so", "ttmem/agent/ttmem_kernel_compiler"}
SYMBOLS = "ttmem/agent/symbols.def"
PAGES = ("live.css", "live.js", "report.css", "report.js")


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the tree: a build must leave nothing in ours, and must not see files of other tests."""
    folder = tmp_path_factory.mktemp("tree")
    for part in PARTS:
        if (ROOT / part).is_dir():
            ignored = shutil.ignore_patterns("__pycache__", "*.so", "node_modules")
            shutil.copytree(ROOT / part, folder / part, ignore=ignored)
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
        str(path.relative_to(tree))
        for part in ("src", "native", "web/src", "web/style", "web/dist")
        for path in (tree / part).rglob("*")
        if path.is_file()
    }
    assert {"native/CMakeLists.txt", "web/src/report.tsx"} <= wanted
    assert wanted | {"web/build.cmake", "web/package-lock.json", "web/.npmrc"} <= packed


def test_one_wheel_for_all_pythons_with_the_agent_in_it(tree: Path, sdist: Path, tmp_path: Path) -> None:
    built = build(sdist, tmp_path, TTMEM_REQUIRE_AGENT="1")
    assert built.returncode == 0, built.stdout + built.stderr
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name == f"ttmem-{__version__}-py3-none-linux_{platform.machine()}.whl"
    with zipfile.ZipFile(wheel) as archive:
        packed = set(archive.namelist())
    sources = {str(path.relative_to(tree / "src")) for path in (tree / "src").rglob("*") if path.is_file()}
    pages = {f"ttmem/pages/bundle/{name}" for name in PAGES if (tree / "web" / "dist" / name).exists()}
    assert {name for name in packed if name.startswith("ttmem/")} == sources | COMPILED | {SYMBOLS} | pages

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


def programs(folder: Path, **scripts: str) -> str:
    """A PATH with these scripts and what a shell needs, so that no program of the system is found besides."""
    folder.mkdir()
    for name, text in scripts.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    for name in ("sh", "ln", "env"):
        (folder / name).symlink_to(shutil.which(name) or f"/bin/{name}")
    return str(folder)


def build_pages(source: Path, tmp_path: Path, **env: str) -> tuple[subprocess.CompletedProcess[str], list[str]]:
    """Runs the step that CMake runs for the pages; returns the names of the files that it would install."""
    cmake = shutil.which("cmake") or str(Path(sys.executable).with_name("cmake"))
    work = tmp_path / "out"
    options = {"SOURCE": source, "WORK": work / "work", "BUNDLE": work / "bundle", "PYTHON": sys.executable}
    command = [cmake, *(f"-D{name}={value}" for name, value in options.items()), "-P", str(source / "build.cmake")]
    environment = {**os.environ, "TTMEM_REQUIRE_WEB": "", "TTMEM_NODE_FROM_PYPI": "", **env}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return done, sorted(path.name for path in (work / "bundle").glob("*"))


@pytest.mark.parametrize(
    ("scripts", "reason"),
    [
        ({}, "there is no npm on PATH"),
        ({"node": "echo v18.20.4", "npm": "true"}, "Node.js is '18.20.4'"),
        ({"node": "echo v22.12.0", "npm": "echo the registry is gone; exit 1"}, "the registry is gone"),
    ],
)
def test_without_npm_the_pages_are_left_out_with_a_warning(
    scripts: dict[str, str], reason: str, tree: Path, tmp_path: Path
) -> None:
    path = programs(tmp_path / "bin", **scripts)
    done, files = build_pages(tree / "web", tmp_path, PATH=path)
    assert (done.returncode, files) == (0, [])
    assert "The pages were not built" in done.stderr
    assert reason in " ".join(done.stderr.split())
    done, files = build_pages(tree / "web", tmp_path, PATH=path, TTMEM_REQUIRE_WEB="1")
    assert done.returncode != 0
    assert files == []


def test_a_source_package_needs_no_npm(tree: Path, tmp_path: Path) -> None:
    shutil.copytree(tree / "web", tmp_path / "sdist" / "web")
    (tmp_path / "sdist" / "PKG-INFO").touch()
    dist = tmp_path / "sdist" / "web" / "dist"
    dist.mkdir(exist_ok=True)
    for name in PAGES:
        (dist / name).write_text(name)
    done, files = build_pages(dist.parent, tmp_path, PATH=programs(tmp_path / "bin"), TTMEM_REQUIRE_WEB="1")
    assert done.returncode == 0, done.stderr
    assert files == sorted(PAGES)


def test_npm_builds_the_pages(tree: Path, tmp_path: Path) -> None:
    """With the packages that are there already instead of the network; the rest is done by the real npm."""
    npm, modules = shutil.which("npm"), ROOT / "web" / "node_modules"
    if npm is None or not modules.exists():
        pytest.skip("needs npm, and web/node_modules of `make web`")
    linked = f'[ "$1" = ci ] && exec ln -s {modules} node_modules; exec {npm} "$@"'
    path = programs(tmp_path / "bin", npm=linked)
    done, files = build_pages(tree / "web", tmp_path, PATH=f"{path}:{os.environ['PATH']}", TTMEM_REQUIRE_WEB="1")
    assert done.returncode == 0, done.stderr
    assert files == sorted(PAGES)
    for name in ("live.js", "report.js"):
        assert (tmp_path / "out" / "bundle" / name).stat().st_size <= 250_000
