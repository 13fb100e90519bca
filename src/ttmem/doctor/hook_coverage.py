# SPDX-License-Identifier: Apache-2.0
"""Finds which functions of the agent's list a libtt_metal.so provides, from the file alone."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, NamedTuple

from ttmem.doctor import elf
from ttmem.doctor.findings import some
from ttmem.doctor.required_symbols import BUFFER_FIELDS, RequiredSymbols, required_symbols

if TYPE_CHECKING:
    from ttmem.model import schema

SCHEMA: Final = "ttmem.wheel/1"
THERE, IN_ITS_STEAD, MISSING, UNSEEN = "there", "stood in for", "missing", "not called"
_OLD = "it is older than 0.75, and its data about programs was never verified"


class Function(NamedTuple):
    """One function that the agent needs, and its state in this library."""

    name: str
    role: str  # the agent replaces it ("hook"), or calls it ("call")
    state: str
    symbol: str


class Kinds(NamedTuple):
    """A group of kinds of memory; ``reason`` is why it is not tracked, None if it is."""

    what: str
    reason: str | None


class Coverage(NamedTuple):
    """The kinds of memory that would be tracked with a library, and the functions they need."""

    library: str
    kinds: list[Kinds]
    unknown: dict[str, list[str]]
    """What else is not known with this library, and the functions it lacks for that."""
    functions: list[Function]

    @property
    def tracked(self) -> list[str]:
        return [kinds.what for kinds in self.kinds if kinds.reason is None]

    def named(self, state: str) -> list[str]:
        """The functions in this state."""
        return [function.name for function in self.functions if function.state == state]

    def document(self) -> schema.Wheel:
        """The coverage as a document, schema "ttmem.wheel/1"."""
        return {
            "schema": SCHEMA,
            "library": self.library,
            "kinds": [{"what": what, "tracked": reason is None, "reason": reason} for what, reason in self.kinds],
            "unknown": self.unknown,
            "functions": [
                {"name": name, "role": role, "state": state, "symbol": symbol}
                for name, role, state, symbol in self.functions
            ],
        }


def look(path: str) -> Coverage:
    """The coverage of a library.

    OSError or elf.NotALibrary if it cannot be read; AgentMissing without a native agent.
    """
    wanted = required_symbols()
    names = {**wanted.hooks, **wanted.calls, **wanted.older}
    library = elf.read(path, names.values())
    defined = library.defined | _in_dependencies(path, library, set(names.values()) - library.defined)
    absent = {name for name, symbol in names.items() if symbol not in defined}
    stood_in = _stood_in(wanted, absent)
    unseen = {name for name, symbol in wanted.hooks.items() if symbol not in library.called} - absent
    missing = absent - stood_in
    old = stood_in.issuperset(wanted.substitutes[BUFFER_FIELDS].missing) and wanted.programs_since in absent
    kinds: list[Kinds] = []
    for need in wanted.needs:
        reason = _reason(
            [name for name in (*need.hooks, *need.calls) if name in missing],
            [name for name in need.hooks if name in unseen],
        )
        if kinds and kinds[0].reason is not None:
            reason = "buffers are not tracked, and everything depends on them"
        elif kinds and old:
            reason = _OLD
        kinds.append(Kinds(need.what, reason))
    lacking = {what: [name for name in names if name in missing] for what, names in wanted.unknown.items()}
    functions = [
        Function(
            name,
            role,
            IN_ITS_STEAD if name in stood_in else MISSING if name in missing else UNSEEN if name in unseen else THERE,
            symbol,
        )
        for role, table in (("hook", wanted.hooks), ("call", wanted.calls))
        for name, symbol in table.items()
    ]
    return Coverage(path, kinds, {what: lacks for what, lacks in lacking.items() if lacks}, functions)


def _stood_in(wanted: RequiredSymbols, absent: set[str]) -> set[str]:
    """The functions that the agent does not need, because a substitute applies."""
    found: set[str] = set()
    for substitute in wanted.substitutes.values():
        if absent.issuperset(substitute.missing) and not absent.intersection(substitute.needed) - found:
            found.update(substitute.missing)
    return found


def _reason(lacks: list[str], passed: list[str]) -> str | None:
    parts = [f"has no {some(lacks)}" if lacks else "", f"does not call {some(passed)} in a way that can be seen"]
    there = [part for part, wanted in zip(parts, (lacks, passed), strict=True) if wanted]
    return f"this libtt_metal {' and '.join(there)}" if there else None


def _in_dependencies(path: str, library: elf.Library, names: set[str]) -> set[str]:
    """The names that dependencies in the same folder define; all of tt-metal's libraries are in one folder."""
    found: set[str] = set()
    for needed in library.needed:
        beside = os.path.join(os.path.dirname(path), needed)
        if names - found and os.path.isfile(beside):
            found |= elf.read(beside, names - found).defined
    return found
