# SPDX-License-Identifier: Apache-2.0
"""The comparison of two runs as a document, schema "ttmem.diff/1"."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from ttmem.compare.matching import Pair, matched
from ttmem.compare.sides import CompareError, Held, Side
from ttmem.documents.breakdown_words import NO_KEY, POOLS
from ttmem.documents.common_text import short_line
from ttmem.documents.diff_words import COUNTS, FIGURES, MORE_IS_BETTER, life_text
from ttmem.model.kinds import BreakdownPool
from ttmem.model.stack_frames import caller_of, line_of
from ttmem.model.units import human

if TYPE_CHECKING:
    from ttmem.model import schema

SCHEMA: Final = "ttmem.diff/1"
_NUMBER = re.compile(r":\d+ ")  # of a line: code that moved is the same code
BY = ("line", "op", "shape", "kind", "program")


class Limit(NamedTuple):
    """How much worse a figure may become: bytes or a number, or a part of the old value."""

    figure: str
    text: str
    amount: int | None
    share: float | None

    def allowed(self, old: int) -> float:
        return self.amount if self.amount is not None else old * (self.share or 0.0)


def compare(old: Side, new: Side, by: str, limits: Sequence[Limit] = ()) -> schema.Diff:
    """The whole document."""
    pairs = matched(old.held, new.held)
    pools = [pool for pool in (_pool(pool, pairs, by) for pool in BreakdownPool) if pool is not None]
    figures = list(_figures(old, new))
    lives = _lives(pairs)
    return {
        "schema": SCHEMA,
        "by": by,
        "old": _side(old),
        "new": _side(new),
        "headline": _headline(pools, lives, figures, new.moment),
        "same": not (lives or any(one["change"] for one in figures) or any(pool["rows"] for pool in pools)),
        "figures": figures,
        "pools": pools,
        "lives": lives,
        "exceeded": [words for limit in limits if (words := _exceeded(limit, old, new)) is not None],
    }


def _side(side: Side) -> schema.DiffSide:
    boards = {board: side.boards.count(board) for board in side.boards}
    return {
        "file": side.path,
        "what": side.what,
        "moment": side.moment,
        "command": side.command,
        "boards": boards,
        "incomplete": side.incomplete,
    }


def _figures(old: Side, new: Side) -> Iterator[schema.DiffFigure]:
    for name, what in FIGURES.items():
        before, after = old.figures.get(name), new.figures.get(name)
        if before is not None or after is not None:
            change = None if before is None or after is None else after - before
            yield {"name": name, "what": what, "old": before, "new": after, "change": change}


def _lives(pairs: Sequence[Pair]) -> list[schema.DiffLife]:
    """What is freed at another place than before, or no longer by the program, or only now."""
    moved = {line_of(old.origin.stack): line_of(new.origin.stack) for old, new in pairs if old and new}
    found: list[schema.DiffLife] = []
    for old, new in pairs:
        if old is None or new is None or old.made == -1 or new.made == -1:
            continue
        if (old.freed, moved.get(old.until, old.until)) == (new.freed, new.until):
            continue
        found.append(
            {
                "key": row_key(old, new, "line"),
                "pool": new.origin.pool.label,
                "made": new.made,
                "longer": not new.freed or (old.freed and new.life > old.life),
                "old_freed": old.freed,
                "new_freed": new.freed,
                "old_until": short_line(old.until),
                "new_until": short_line(new.until),
            }
        )
    return sorted(found, key=lambda row: (not row["longer"], row["key"]))


def _pool(pool: BreakdownPool, pairs: Iterable[Pair], by: str) -> schema.DiffPool | None:
    """What changed in one pool, the largest change first; None if neither run has any of it."""
    mine = [pair for pair in pairs if _any(pair).origin.pool == pool]
    rows: dict[str, schema.DiffRow] = {}
    unchanged = {"groups": 0, "bytes": 0}
    for old, new in mine:
        was, now = _amounts(old), _amounts(new)
        if was == now:
            if was[0]:
                unchanged["groups"] += 1
                unchanged["bytes"] += now[1]
            continue
        key = row_key(old, new, by)
        row = rows.setdefault(
            key,
            {"key": key, "what": [], "old_count": 0, "new_count": 0, "old_bytes": 0, "new_bytes": 0, "change": 0},
        )
        words = _what(old, new)
        row["what"] = row["what"] if words in row["what"] else [*row["what"], words]
        row["old_count"] += was[0]
        row["new_count"] += now[0]
        row["old_bytes"] += was[1]
        row["new_bytes"] += now[1]
        row["change"] += now[1] - was[1]
    if not mine or not (rows or unchanged["groups"]):
        return None
    before, after = (sum(_amounts(side)[1] for side in sides) for sides in zip(*mine))
    return {
        "pool": pool.label,
        "old": before,
        "new": after,
        "change": after - before,
        "rows": sorted(rows.values(), key=lambda row: (-abs(row["change"]), row["key"])),
        "unchanged_groups": unchanged["groups"],
        "unchanged_bytes": unchanged["bytes"],
    }


def _any(pair: Pair) -> Held:
    one = pair.new or pair.old
    assert one is not None
    return one


def _amounts(one: Held | None) -> tuple[int, int]:
    return (0, 0) if one is None else (one.live, one.bytes)


def row_key(old: Held | None, new: Held | None, by: str) -> str:
    """What a row is called: its properties, and the old ones of those that changed."""
    both = [_parts(one, by) for one in (old, new) if one is not None]
    parts = [
        now
        if _NUMBER.sub(" ", was or "") == _NUMBER.sub(" ", now or "")
        else f"{was or 'unknown'} → {now or 'unknown'}"
        for was, now in zip(both[0], both[-1])
    ]
    return ", ".join(part for part in parts if part) or NO_KEY[by]


def _parts(one: Held, by: str) -> tuple[str | None, ...]:
    """The properties that a row names. A line alone is often that of a helper, so its caller is named as well."""
    origin = one.origin
    if by == "line":
        line, caller = short_line(line_of(origin.stack)), short_line(caller_of(origin.stack))
        return f"{line} (called from {caller})" if line and caller else line, origin.op, origin.shape
    return ({"op": origin.op, "shape": origin.shape, "program": origin.program, "kind": origin.kind}[by],)


def _what(old: Held | None, new: Held | None) -> str:
    """What happened to a group, in words."""
    if old is None or (old.made == -1 and not old.live):
        return "appeared"
    if new is None or (new.made == -1 and not new.live):
        return "gone"
    if new.origin.pool == BreakdownPool.PROGRAMS and not (old.live and new.live):
        return "now compiled before this moment" if new.live else "now compiled after this moment, or freed"
    if not old.live:
        return "lives longer" + _until(new)
    if not new.live:
        return "freed earlier" + _until(new)
    if old.origin.shape != new.origin.shape:
        return "another shape"
    if old.origin.op != new.origin.op:
        return "another operation"
    return "grew" if new.bytes > old.bytes else "shrank" if new.bytes < old.bytes else "other number"


def _until(new: Held) -> str:
    return "" if new.until is None else f", until after {short_line(new.until)}"


def _headline(
    pools: Sequence[schema.DiffPool],
    lives: Sequence[schema.DiffLife],
    figures: Sequence[schema.DiffFigure],
    moment: str,
) -> str:
    """The change that matters most, in one sentence."""
    for pool in pools:
        if pool["change"]:
            same_sign = [row for row in pool["rows"] if row["change"] * pool["change"] > 0]
            row = same_sign[0]
            sign = "+" if pool["change"] > 0 else "-"
            amount = f"{sign}{human(abs(pool['change']))} of {POOLS[pool['pool']]} {moment}"
            counts = f" ({row['old_count']:,} → {row['new_count']:,})" if row["old_count"] != row["new_count"] else ""
            return f"{amount}: {row['key'] or pool['pool']}: {'; '.join(row['what'])}{counts}"
    if lives:
        return f"the same bytes {moment}; {life_text(lives[0])}"
    for one in figures:
        if one["change"] and one["old"] is not None and one["new"] is not None:
            show = _plain if one["name"] in COUNTS else human
            return f"the same bytes {moment}; {one['what']}: {show(one['old'])} → {show(one['new'])}"
    if any(pool["rows"] for pool in pools):
        return f"the same bytes {moment}, in other groups"
    return "no difference"


def _plain(value: int) -> str:
    return f"{value:,}"


def _exceeded(limit: Limit, old: Side, new: Side) -> str | None:
    """The words of a limit that is exceeded."""
    before, after = old.figures.get(limit.figure), new.figures.get(limit.figure)
    if before is None or after is None:
        side = old if before is None else new
        raise CompareError(f"--fail {limit.text}: {limit.figure} is not known of {side.path}")
    worse = before - after if limit.figure in MORE_IS_BETTER else after - before
    if worse <= limit.allowed(before):
        return None
    show = _plain if limit.figure in COUNTS else human
    return f"{FIGURES[limit.figure]}: {show(before)} → {show(after)}, more than {limit.text} worse"
