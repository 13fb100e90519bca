# SPDX-License-Identifier: Apache-2.0
"""The doctor looks for the same functions in libtt_metal.so as the built agent."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import elf
from tests.support import ROOT
from ttmem import agent
from ttmem.cli import main
from ttmem.doctor import required_symbols as module
from ttmem.doctor.required_symbols import BUFFER_FIELDS, KindRequirement, Substitute, parse, required_symbols

PREFIX = "_ZN2tt8tt_metal"  # of every hook: the agent compares this part of a symbol first
MANGLED = re.compile(rb"(?<![\w.])_Z(?:TV)?NK?2tt\w+(?=\0)")


@pytest.fixture
def no_agent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """As in an installation without the native agent."""
    monkeypatch.setattr(module, "files", lambda package: tmp_path)
    required_symbols.cache_clear()
    yield
    required_symbols.cache_clear()


def test_the_list_is_the_one_that_the_agent_was_built_with() -> None:
    installed = agent.require({}).with_name(module.NAME)
    assert installed.read_bytes() == (ROOT / "native/src/symbols.def").read_bytes()


def test_the_agent_hooks_what_the_list_says() -> None:
    exported = {symbol.name for symbol in elf.read(agent.require({})).symbols if symbol.defined}
    hooked = {name for name in exported if not name.startswith("ttmem_agent_")}
    assert hooked == set(required_symbols().hooks.values())


def test_the_agent_looks_up_what_the_list_says() -> None:
    """Every tt-metal function whose name is in the library itself."""
    named = {name.decode() for name in MANGLED.findall(agent.require({}).read_bytes())}
    wanted = required_symbols()
    assert named - {PREFIX} == {*wanted.hooks.values(), *wanted.calls.values(), *wanted.older.values()}


def test_of_every_function_it_is_said_what_it_is_for() -> None:
    wanted = required_symbols()
    needed = {name for need in wanted.needs for name in (*need.hooks, *need.calls)}
    extra = [name for names in wanted.unknown.values() for name in names]
    assert needed | set(extra) == {*wanted.hooks, *wanted.calls}
    assert len(extra) == len(set(extra))
    assert not needed & set(extra)
    assert all(need.hooks and need.calls for need in wanted.needs)


def test_every_older_function_is_part_of_a_substitute() -> None:
    wanted = required_symbols()
    known = {*wanted.hooks, *wanted.calls, *wanted.older}
    needed = {name for substitute in wanted.substitutes.values() for name in substitute.needed}
    missing = {name for substitute in wanted.substitutes.values() for name in substitute.missing}
    assert set(wanted.older) <= needed <= known
    assert missing <= set(wanted.calls)
    assert BUFFER_FIELDS in wanted.substitutes
    assert wanted.programs_since in wanted.hooks


def test_a_list_is_read_as_a_compiler_reads_it() -> None:
    found = parse(
        """
        // A comment, with (parentheses.
        #ifndef TTMEM_HOOK
        #define TTMEM_HOOK(name, ...)
        #endif
        TTMEM_GROUP(one, "the first", bit(Kind::kA) | bit(Kind::kB))
        TTMEM_GROUP(two, "the second", bit(Kind::kC))
        TTMEM_HOOK(open, bool, (void* self, Span banks), one | two, "",
                   "_Zopen")
        TTMEM_CALL(size, two, "", "_Zsize")
        TTMEM_CALL(name, none, "names, of (some) things", "_Zname")
        TTMEM_OLDER(old_name, "_Zold")
        TTMEM_SUBSTITUTE(names, (name), (old_name,
                                         open))
        TTMEM_PROGRAMS_SINCE(open)
        """
    )
    assert (found.hooks, found.calls, found.older) == (
        {"open": "_Zopen"},
        {"size": "_Zsize", "name": "_Zname"},
        {"old_name": "_Zold"},
    )
    assert found.needs == (
        KindRequirement("the first", ("open",), ()),
        KindRequirement("the second", ("open",), ("size",)),
    )
    assert found.unknown == {"names, of (some) things": ("name",)}
    assert found.substitutes == {"names": Substitute(("name",), ("old_name", "open"))}
    assert found.programs_since == "open"


@pytest.mark.parametrize("text", ["TTMEM_HOOK", "TTMEM_CALL(a, none", "TTMEM_OTHER(a)", "TTMEM_CALL(a, none, b, c d)"])
def test_a_damaged_list_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse(text)


@pytest.mark.usefixtures("no_agent")
def test_without_an_agent_the_doctor_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(agent.AgentMissing, match=r"symbols\.def does not exist: it is installed with the native agent"):
        required_symbols()
    assert main(["doctor", "--wheel", str(agent.require({}))]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("ttmem doctor: --wheel: ")
    assert "it is installed with the native agent (libttmem_agent.so), and this ttmem has none" in said.err
