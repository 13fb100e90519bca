# SPDX-License-Identifier: Apache-2.0
"""The findings of `ttmem leaks` as text; the last line is the verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ttmem.documents.common_text import local_time
from ttmem.documents.leaks import age_text
from ttmem.documents.pool_amounts import amounts_text, merged, pool_amounts
from ttmem.model.kinds import KIND_BY_LABEL
from ttmem.model.printable import printable_data
from ttmem.model.uncertain_reasons import counts_text
from ttmem.model.units import human

if TYPE_CHECKING:
    from ttmem.model import schema
    from ttmem.show.chip_table import Names

_SHOWN = 20
_DEAD_SHOWN = 5


def render(data: schema.Leaks, names: Names) -> str:
    """The text of a document with schema "ttmem.leaks/1"."""
    data = printable_data(data)
    verdict = data["verdict"]
    lines = [f"tracking since {local_time(data['since'])}, for {age_text(data['tracked_s'])}", ""]
    lines += _leaks(data, names) if verdict["leak"] else ["leak: nothing"]
    lines += [
        f"young, held for less than {age_text(data['older_s'])}: {amounts_text(data['young']['pools'])}",
        _cause(
            "program cache",
            data["program_cache"],
            "device.clear_program_cache() frees it, device.disable_and_clear_program_cache() permanently",
        ),
    ]
    likely = data["program_cache"]["likely"]
    if likely["count"]:
        lines.append(f"  of these, likely held by the cache: {amounts_text(likely['pools'])}")
    lines += [
        _cause("trace", data["trace"], "allocated at capture, not at replay; ttnn.release_trace() frees it"),
        _cause("system", data["system"], "the runtime's own while a device is open"),
        *_dead(data["dead_process"]),
        "",
        *(f"doubt: {doubt}" for doubt in data["doubts"]),
    ]
    found = "no leak"
    if verdict["leak"]:
        groups = f"{verdict['groups']:,} group{'s' * (verdict['groups'] != 1)}"
        found = f"leak: {groups}, {amounts_text(verdict['pools'], 'buffer')}"
    doubt = f"uncertain ({counts_text(data['uncertain'])}): " if data["uncertain"] else ""
    lines.append(f"verdict: {doubt}{found}")
    return "\n".join(lines)


def _cause(name: str, found: schema.HeldRow, advice: str) -> str:
    if found["oldest_s"] is None:
        return f"{name}: nothing"
    return f"{name}: {amounts_text(found['pools'])}, oldest {age_text(found['oldest_s'])}; {advice}"


def _who(one: schema.LeakRow | schema.DeadProcessRow) -> str:
    return f"{one['pid'] or 'an unseen process'}{' ' + one['name'] if one['name'] else ''}"


def _leaks(data: schema.Leaks, names: Names) -> list[str]:
    amount, older = amounts_text(data["verdict"]["pools"], "buffer"), age_text(data["older_s"])
    lines = [
        f"leak: {amount}, held for {older} or longer by living processes",
        f"  {'bytes':>10} {'count':>9} {'oldest':>8} {'youngest':>8}  {'kind':<5} {'process':<20} chip, what",
    ]
    for group in data["leaks"][:_SHOWN]:
        what = group["tag"] or ("of other sizes" if group["size"] is None else f"{human(group['size'])} each")
        ages = f"{age_text(group['oldest_s'] or 0.0):>8} {age_text(group['youngest_s'] or 0.0):>8}"
        lines.append(
            f"  {human(group['bytes']):>10} {group['count']:>9,} {ages}  {group['kind']:<5} {_who(group):<20} "
            f"{names.short_title(group['chip'])}, {what}{', grows' * group['grows']}"
        )
    more, left_out = data["leaks"][_SHOWN:], data["left_out"]
    if more:
        listed = pool_amounts((KIND_BY_LABEL[group["kind"]], group["count"], group["bytes"]) for group in more)
        rest = amounts_text(merged(listed, left_out["pools"]), "buffer")
        lines.append(f"  and {len(more) + left_out['groups']:,} more groups, {rest}")
    chips = dict.fromkeys(group["chip"] for group in data["leaks"][:_SHOWN])
    return lines + [f"  {title}" for title in map(names.title, chips) if "(" in title]


def _dead(dead: list[schema.DeadProcessRow]) -> list[str]:
    if not dead:
        return ["dead processes: none held anything when it exited"]
    lines = [
        f"dead process: {_who(one)} died {age_text(one['ago_s'])} ago, holding {amounts_text(one['pools'])}; "
        "freed at its exit"
        for one in dead[:_DEAD_SHOWN]
    ]
    return lines + ([f"dead process: and {len(dead) - _DEAD_SHOWN:,} more"] if len(dead) > _DEAD_SHOWN else [])
