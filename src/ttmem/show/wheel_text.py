# SPDX-License-Identifier: Apache-2.0
"""What the agent can track with a ttnn wheel, as text: kinds of memory first, then functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ttmem.model.schema import Wheel
    from ttmem.show.text import Style

_ROLES = {"hook": "the agent stands in for", "call": "the agent calls"}
_STATES = {
    "there": "there",
    "stood in for": "not there, as in older versions; another way is checked when a program starts",
    "missing": "MISSING",
    "not called": "there, but not called by the library itself in a way that can be seen",
}


def render(document: Wheel, style: Style, *, verbose: bool = False) -> str:
    """The text of a document with schema "ttmem.wheel/1"; ``verbose`` adds the functions' symbols."""
    lines = [document["library"]]
    for kinds in document["kinds"]:
        state = "tracked" if kinds["tracked"] else f"NOT TRACKED: {kinds['reason']}"
        lines.append(f"  {kinds['what']:<18} {state}")
    for what, lacks in document["unknown"].items():
        lines.append(f"  not known: {what} (no {', '.join(lacks)})")
    for role, title in _ROLES.items():
        lines += ["", f"  {title}"]
        for function in document["functions"]:
            if function["role"] == role:
                lines.append(f"    {function['name']:<22} {_STATES[function['state']]}")
                lines += [f"    {'':<22} {function['symbol']}"] * verbose
    return "\n".join(map(style.clean, [*lines, "", verdict_line(document)]))


def verdict_line(document: Wheel) -> str:
    """The number of tracked kinds of memory, in one line."""
    tracked = [kinds["what"] for kinds in document["kinds"] if kinds["tracked"]]
    return (
        f"ttmem doctor --wheel: {len(tracked)} of {len(document['kinds'])} tracked: {', '.join(tracked) or 'nothing'}"
    )
