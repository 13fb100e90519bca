# SPDX-License-Identifier: Apache-2.0
"""The environment of a run on mock devices is its own, and nothing of it is left."""

from __future__ import annotations

from pathlib import Path

import pytest

from ttmem import agent
from ttmem.agent import AgentMissing
from ttmem.fit import mock_environment, ttnn_root
from ttmem.fit.mock_boards import BOARDS
from ttmem.fit.mock_environment import Machine, MockEnvironment
from ttmem.fit.ttnn_root import NoTtnn, Ttnn, ttnn_of

N300 = Machine("n300", BOARDS["n300"])


@pytest.fixture
def ttnn(tmp_path: Path) -> Ttnn:
    root = tmp_path / "ttnn"
    for folder in ("tt_metal", "runtime/hw", "runtime/sfpi/compiler/bin", "generated"):
        (root / folder).mkdir(parents=True)
    (root / "runtime/sfpi/compiler/bin/riscv-tt-elf-g++").write_text("the user's own")
    return Ttnn("python", "0.81.1", root)


def test_everything_is_in_a_folder_that_is_removed(ttnn: Ttnn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = tmp_path / "shm"
    shared.mkdir()
    monkeypatch.setattr(mock_environment, "_SHARED_MEMORY", shared)
    env = {"LD_PRELOAD": "/lib/asan.so", "TT_VISIBLE_DEVICES": "0", "TT_METAL_CACHE": "/mine", "KEEP": "1"}
    with MockEnvironment(N300, ttnn, env) as first, MockEnvironment(N300, ttnn, env) as second:
        assert not set(first.chip_ids.values()) & set(second.chip_ids.values())
        found = first.variables
        root = Path(found["TT_METAL_RUNTIME_ROOT"])
        own = [name for name in found if "/ttmem-fit-" in found[name] and not found[name].startswith(str(root.parent))]
        assert own == []
        assert "TT_VISIBLE_DEVICES" not in found
        assert (found["KEEP"], found["TTMEM_FIT_SKIP_VALIDATION"]) == ("1", "1")
        assert found["LD_PRELOAD"].startswith("/lib/asan.so:/")
        assert (root / "tt_metal").resolve() == ttnn.root / "tt_metal"
        assert not (root / "generated").exists()
        assert (root / "runtime/hw").is_symlink()
        compiler = root / "runtime/sfpi/compiler/bin/riscv-tt-elf-g++"
        assert compiler.read_bytes()[:4] == b"\x7fELF"
        others = [shared / f"tt_device_{chip}_memory" for chip in second.chip_ids.values()]
        for path in (*others, *(shared / f"tt_device_{chip}_memory" for chip in first.chip_ids.values())):
            path.touch()
        Path(found["TTMEM_FIT_REPORT"]).write_text("12 trace 3\n12 validation 0\nhalf a li")
        assert first.reported() == [("trace", 3), ("validation", 0)]
        first.close()
        assert sorted(shared.iterdir()) == sorted(others)
        assert not root.parent.exists()
    assert list(shared.iterdir()) == []
    assert (ttnn.root / "runtime/sfpi/compiler/bin/riscv-tt-elf-g++").read_text() == "the user's own"


def test_real_kernels_are_compiled_by_the_real_compiler(
    ttnn: Ttnn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with MockEnvironment(N300, ttnn, {}, real_kernels=True) as mock:
        root = Path(mock.variables["TT_METAL_RUNTIME_ROOT"])
        assert (root / "runtime/sfpi/compiler/bin/riscv-tt-elf-g++").read_text() == "the user's own"
        assert "TTMEM_SMALL_KERNELS" not in mock.variables
    (ttnn.root / "runtime/sfpi/compiler/bin/riscv-tt-elf-g++").unlink()
    monkeypatch.setattr(ttnn_root, "_INSTALLED_SFPI", tmp_path / "none")
    with pytest.raises(NoTtnn, match="install the sfpi package"):
        MockEnvironment(N300, ttnn, {}, real_kernels=True)


def test_without_the_library_nothing_is_started(ttnn: Ttnn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent, "FIT_LIBRARY", "libnothing.so")
    with pytest.raises(AgentMissing, match=r"without libnothing\.so"):
        MockEnvironment(N300, ttnn, {})


@pytest.mark.parametrize("first_line", ["#!{python}", "#!/usr/bin/env python3", "#!/bin/sh", ""])
def test_the_interpreter_of_a_command(first_line: str, tmp_path: Path) -> None:
    """An interpreter that answers as Python does, and has a ttnn in a source tree."""
    answer = '{"python": "3.10", "folder": "/nowhere/ttnn", "version": null}'
    python = tmp_path / "bin" / "python3"
    python.parent.mkdir()
    python.write_text(f"#!/bin/sh\necho '{answer}'\n")
    command = tmp_path / "bin" / "serve"
    command.write_text(first_line.format(python=python) + "\n")
    for path in (python, command):
        path.chmod(0o755)
    env = {"PATH": f"{python.parent}:/bin:/usr/bin", "TT_METAL_HOME": str(tmp_path)}
    with pytest.raises(NoTtnn, match=r"no tt_metal folder in /nowhere/ttnn; set TT_METAL_HOME"):
        ttnn_of(["serve"], env)
    (tmp_path / "tt_metal").mkdir()
    assert ttnn_of(["serve"], env) == Ttnn(str(python), None, tmp_path)
    assert ttnn_of(["serve"], env, str(python)).python == str(python)
