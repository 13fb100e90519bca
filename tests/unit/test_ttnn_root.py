# SPDX-License-Identifier: Apache-2.0
"""The root folder of a run: ttnn's own by symbolic links, except for the kernel compiler."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ttmem.fit import ttnn_root
from ttmem.fit.ttnn_root import NoTtnn, Ttnn, link_root

COMPILER = Path("compiler/bin/riscv-tt-elf-g++")


@pytest.fixture
def ttnn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ttnn:
    monkeypatch.setattr(ttnn_root, "_INSTALLED_SFPI", tmp_path / "opt")
    root = tmp_path / "ttnn"
    for name in ("tt_metal", "runtime/hw", "generated"):
        (root / name).mkdir(parents=True)
    return Ttnn("python", "0.81.1", root)


def install(sfpi: Path) -> Path:
    (sfpi / COMPILER).parent.mkdir(parents=True)
    (sfpi / COMPILER).write_text("the user's")
    return sfpi


def test_everything_else_is_a_link_and_the_compiler_is_a_stand_in(ttnn: Ttnn, tmp_path: Path) -> None:
    install(ttnn.root / "runtime" / "sfpi")
    link_root(ttnn, tmp_path / "root", real_kernels=False)
    assert sorted(os.listdir(tmp_path / "root")) == ["runtime", "tt_metal"]
    assert (tmp_path / "root" / "runtime" / "hw").resolve() == ttnn.root / "runtime" / "hw"
    compiler = tmp_path / "root" / "runtime" / "sfpi" / COMPILER
    assert os.access(compiler, os.X_OK)
    assert compiler.read_bytes()[:4] == b"\x7fELF"
    assert (ttnn.root / "runtime" / "sfpi" / COMPILER).read_text() == "the user's"


@pytest.mark.parametrize("place", ["ttnn/runtime/sfpi", "opt"])
def test_real_kernels_use_the_compiler_of_the_user(place: str, ttnn: Ttnn, tmp_path: Path) -> None:
    sfpi = install(tmp_path / place)
    link_root(ttnn, tmp_path / "root", real_kernels=True)
    assert (tmp_path / "root" / "runtime" / "sfpi").resolve() == sfpi


def test_without_a_compiler_there_are_no_real_kernels(ttnn: Ttnn, tmp_path: Path) -> None:
    with pytest.raises(NoTtnn, match=r"needs Tenstorrent's kernel compiler, and neither .*runtime/sfpi nor .*opt has"):
        link_root(ttnn, tmp_path / "root", real_kernels=True)
