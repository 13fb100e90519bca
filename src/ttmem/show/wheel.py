# SPDX-License-Identifier: Apache-2.0
"""What the agent would see with a ttnn, as text and as data: kinds of memory first, then hook by hook."""

from __future__ import annotations

from typing import Any

from ttmem.account.printable import printable
from ttmem.doctor.hooks import IN_ITS_STEAD, MISSING, THERE, UNSEEN, Coverage

SCHEMA = "ttmem.wheel/1"
_ROLES = {"hook": "the agent stands in for", "call": "the agent calls"}
_WORDS = {
    THERE: "there",
    IN_ITS_STEAD: "not there, as in older versions; another way is checked when a program starts",
    MISSING: "MISSING",
    UNSEEN: "there, but not called by the library itself in a way that can be seen",
}


def render(coverage: Coverage, *, verbose: bool = False) -> str:
    """``verbose`` adds the functions' symbols."""
    lines = [coverage.library]
    for kinds in coverage.kinds:
        state = "tracked" if kinds.reason is None else f"NOT TRACKED: {kinds.reason}"
        lines.append(f"  {kinds.what:<18} {state}")
    for what, lacks in coverage.unknown.items():
        lines.append(f"  not known: {what} (no {', '.join(lacks)})")
    for role, words in _ROLES.items():
        lines += ["", f"  {words}"]
        for function in coverage.functions:
            if function.role == role:
                lines.append(f"    {function.name:<22} {_WORDS[function.state]}")
                lines += [f"    {'':<22} {function.symbol}"] * verbose
    return "\n".join(map(printable, [*lines, "", verdict_line(coverage)]))


def verdict_line(coverage: Coverage) -> str:
    tracked = ", ".join(coverage.tracked) or "nothing"
    return f"ttmem doctor --wheel: {len(coverage.tracked)} of {len(coverage.kinds)} tracked: {tracked}"


def data(coverage: Coverage) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "library": coverage.library,
        "kinds": [{"what": what, "tracked": reason is None, "reason": reason} for what, reason in coverage.kinds],
        "unknown": coverage.unknown,
        "functions": [function._asdict() for function in coverage.functions],
    }
