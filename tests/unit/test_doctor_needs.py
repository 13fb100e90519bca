# SPDX-License-Identifier: Apache-2.0
"""What the doctor looks for in libtt_metal.so is what the agent looks for, function by function."""

from __future__ import annotations

import re

from tests.support import ROOT
from ttmem.doctor.needs import CALLS, EXTRAS, FIRST_PROGRAMS, HOOKS, IN_PLACE, INSTEAD, NEEDS, OLDER

HEADER = (ROOT / "native/src/metal.h").read_text()
SOURCE = (ROOT / "native/src/metal.cpp").read_text()


def table(macro: str) -> dict[str, str]:
    start = HEADER.index(f"#define {macro}(X)")
    body = HEADER[start : HEADER.index("\n\n", start)]
    return dict(re.findall(r'X\((\w+),\s*"([^"]+)"\)', body))


def requirements() -> list[tuple[str, tuple[str, ...], tuple[str, ...]]]:
    start = SOURCE.index("kRequirements[] = {")
    body = SOURCE[start : SOURCE.index("\n};", start)]
    parts = re.split(r'\{"([\w ]+)",', body)[1:]
    return [
        (what, tuple(re.findall(r"kHook_(\w+)", text)), tuple(re.findall(r"kCall_(\w+)", text)))
        for what, text in zip(parts[::2], parts[1::2], strict=True)
    ]


def test_hooks_and_calls_are_the_agents() -> None:
    assert table("TTMEM_HOOKS") == HOOKS
    assert table("TTMEM_CALLS") == CALLS
    assert table("TTMEM_OLDER") == OLDER


def test_needs_are_the_agents() -> None:
    assert [tuple(need) for need in NEEDS] == requirements()


def test_of_every_function_it_is_said_what_it_is_for() -> None:
    needed = {name for need in NEEDS for name in (*need.hooks, *need.calls)}
    extra = [name for names in EXTRAS.values() for name in names]
    assert needed | set(extra) == {*HOOKS, *CALLS}
    assert len(extra) == len(set(extra))
    assert not needed & set(extra)


def test_what_stands_in_is_the_agents() -> None:
    """The conditions of older.cpp, places.cpp and agent.cpp, in the same words."""
    older = (ROOT / "native/src/older.cpp").read_text()
    asked = older[older.index("bool asked =") : older.index("bool layout =")]
    lacking = re.findall(r"!metal\.has\(kCall_(\w+)\)", asked)
    wanted = {*re.findall(r"(?<!!)metal\.has\(kCall_(\w+)\)", asked), *re.findall(r"kHook_(\w+)", asked)}
    assert tuple(lacking) == IN_PLACE
    for name in IN_PLACE:
        assert set(INSTEAD[name]) == wanted
    assert set(INSTEAD["buffer_layout"]) == {*wanted, "buffer_cores"}
    assert f"odd_programs = metal.hooks[kHook_{FIRST_PROGRAMS}] == nullptr" in older
    assert set(OLDER) == {name for names in INSTEAD.values() for name in names} & set(OLDER)
    everything = older + "".join((ROOT / f"native/src/{name}.cpp").read_text() for name in ("places", "agent"))
    assert all(f"kCall_{name}" in everything for name in (*INSTEAD, *OLDER))
