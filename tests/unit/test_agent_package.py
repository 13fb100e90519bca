# SPDX-License-Identifier: Apache-2.0
"""The agent's library is found, and can be loaded into any process."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests import elf
from ttmem import __version__, agent

EXPORTS = re.compile(r"_ZNK?2tt8tt_metal|ttmem_agent_")
# libdl and libpthread: separate libraries in a glibc older than 2.34.
NEEDED = re.compile(r"(libc\.so\.6|libgcc_s\.so\.1|ld-linux-.*\.so\.\d|libdl\.so\.2|libpthread\.so\.0)")
NEWEST_GLIBC = (2, 34)  # the requirement of ttnn's own wheels
MOST_BYTES = 400_000


@pytest.fixture(scope="module")
def path() -> Path:
    found = agent.library({})
    assert found is not None, agent.missing_reason({})
    return found


@pytest.fixture(scope="module")
def library(path: Path) -> elf.Library:
    return elf.read(path)


def test_it_is_found_as_a_file(path: Path) -> None:
    assert path.name == agent.NAME
    assert path.is_absolute()
    assert agent.missing_reason({}) is None
    assert agent.require({}) == path


def test_another_one_can_be_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "mine.so"
    other.touch()
    assert agent.library({"TTMEM_AGENT_LIBRARY": str(other)}) == other
    monkeypatch.chdir(tmp_path)
    assert agent.library({"TTMEM_AGENT_LIBRARY": "mine.so"}) == other, "a child may have another current directory"


def test_an_empty_choice_is_none(path: Path) -> None:
    assert agent.library({"TTMEM_AGENT_LIBRARY": ""}) == path


def test_a_wrong_choice_is_an_error_and_not_the_packaged_one() -> None:
    env = {"TTMEM_AGENT_LIBRARY": "/nowhere/agent.so"}
    assert agent.library(env) is None
    with pytest.raises(
        agent.AgentMissing, match=r"^TTMEM_AGENT_LIBRARY is /nowhere/agent.so, and there is no such file"
    ):
        agent.require(env)


def test_without_an_agent_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(agent, "files", lambda package: tmp_path)
    assert agent.library({}) is None
    with pytest.raises(agent.AgentMissing, match=r"C\+\+17 compiler.*pip install .*--no-cache-dir"):
        agent.require({})


def test_it_shows_only_its_own_names(library: elf.Library) -> None:
    exported = {symbol.name for symbol in library.symbols if symbol.defined}
    assert "ttmem_agent_version" in exported
    assert {name for name in exported if not EXPORTS.match(name)} == set()


def test_it_brings_no_other_library(library: elf.Library) -> None:
    assert [name for name in library.needed if not NEEDED.fullmatch(name)] == []
    assert "libgcc_s.so.1" in library.needed, "with an unwinder of its own, an exception through a hook is an abort"


def test_it_loads_with_an_older_glibc(library: elf.Library) -> None:
    too_new = [
        f"{symbol.name}@{symbol.version}"
        for symbol in library.symbols
        if symbol.version.startswith("GLIBC_") and _number(symbol.version) > NEWEST_GLIBC
    ]
    assert too_new == [], "see native/src/glibc.cpp; std::from_chars instead of strtol and sscanf helps too"


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.removeprefix("GLIBC_").split(".") if part.isdigit())


@pytest.mark.parametrize("name", [agent.FIT_LIBRARY, agent.KERNEL_COMPILER])
def test_the_files_of_fit_load_anywhere(name: str) -> None:
    found = elf.read(agent.require_file(name))
    assert [name for name in found.needed if not NEEDED.fullmatch(name)] == []
    versions = [symbol.version for symbol in found.symbols if symbol.version.startswith("GLIBC_")]
    assert max(map(_number, versions)) <= NEWEST_GLIBC


def test_the_library_of_fit_shows_only_what_it_replaces() -> None:
    """Functions of tt-metal, and those that open files."""
    found = elf.read(agent.require_file(agent.FIT_LIBRARY))
    exported = {symbol.name for symbol in found.symbols if symbol.defined}
    of_metal = ("_ZN2tt8tt_metal", "_ZNK2tt8tt_metal", "_Z14convert_layoutI", "_Z17pack_as_bfp_tilesI")
    others = {name for name in exported if not name.startswith(of_metal)}
    assert others == {"open", "open64", "__open_2", "__open64_2"}


def test_its_pages_are_shared_and_few(library: elf.Library) -> None:
    assert elf.DT_TEXTREL not in library.tags, "compiled without -fPIC"
    assert library.loaded < MOST_BYTES


def test_a_child_does_not_notice_it(path: Path) -> None:
    child = subprocess.run(
        ["/bin/sh", "-c", "exec /bin/echo fine"],
        env={**os.environ, "LD_PRELOAD": str(path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (child.returncode, child.stdout, child.stderr) == (0, "fine\n", "")


def test_it_is_the_agent_of_this_version(path: Path) -> None:
    assert __version__.encode() in path.read_bytes()
