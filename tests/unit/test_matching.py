# SPDX-License-Identifier: Apache-2.0
"""Matching the allocations of two runs."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from ttmem.compare.diff_document import Limit, compare
from ttmem.compare.matching import matched
from ttmem.compare.sides import Held, HeldOrigin, Side
from ttmem.documents.diff_words import FIGURES

FRAMES = st.builds("{}.py:{} {}".format, st.sampled_from("ab"), st.integers(1, 30), st.sampled_from("fgh"))
ORIGINS = st.builds(
    HeldOrigin,
    st.sampled_from(["dram", "l1", "cb"]),
    st.sampled_from([None, "ttnn.add", "ttnn.zeros"]),
    st.sampled_from([None, "[1, 32]", "[1, 64]"]),
    st.one_of(st.none(), st.lists(FRAMES, min_size=1, max_size=3).map("\n".join)),
)
GROUPS = st.dictionaries(ORIGINS, st.tuples(st.integers(0, 3), st.integers(0, 5)), max_size=12).map(
    lambda found: [Held(origin, live, live * 100, live + more) for origin, (live, more) in found.items()]
)


def side(held: list[Held], **figures: int | None) -> Side:
    return Side("f", "recording", "at the peak", None, [], figures, held, [])


@given(GROUPS, GROUPS)
def test_every_group_is_in_one_pair(old: list[Held], new: list[Held]) -> None:
    pairs = matched(old, new)
    assert Counter(pair.old for pair in pairs if pair.old) == Counter(old)
    assert Counter(pair.new for pair in pairs if pair.new) == Counter(new)
    assert all(pair.old or pair.new for pair in pairs)
    same = {one.origin for one in old} & {one.origin for one in new}
    assert all(
        pair.old.origin == pair.new.origin for pair in pairs if pair.old and pair.new and pair.old.origin in same
    )


@given(GROUPS, GROUPS, st.sampled_from(["line", "op", "shape", "kind", "program"]))
def test_changes_add_up(old: list[Held], new: list[Held], by: str) -> None:
    """Rows and what is unchanged are all bytes of a pool, and the other direction is the negative."""
    forth, back = compare(side(old), side(new), by), compare(side(new), side(old), by)
    for pool in forth["pools"]:
        assert pool["change"] == pool["new"] - pool["old"] == sum(row["change"] for row in pool["rows"])
        assert pool["new"] == sum(row["new_bytes"] for row in pool["rows"]) + pool["unchanged_bytes"]
        assert pool["old"] == sum(row["old_bytes"] for row in pool["rows"]) + pool["unchanged_bytes"]
    totals = [{pool["pool"]: pool["change"] for pool in one["pools"]} for one in (forth, back)]
    assert totals[0] == {pool: -change for pool, change in totals[1].items()}
    assert forth["same"] == back["same"]


@given(GROUPS, st.randoms(use_true_random=False))
def test_the_order_of_groups_has_no_meaning(held: list[Held], chance: object) -> None:
    mixed = sorted(held, key=lambda _: chance.random())  # type: ignore[attr-defined]
    assert compare(side(held), side(mixed), "line")["same"]


@given(GROUPS, st.integers(1, 100))
def test_lines_that_moved_are_the_same(held: list[Held], by: int) -> None:
    """All lines of a file move by the same number."""

    def moved(stack: str | None) -> str | None:
        if stack is None:
            return None
        places = (frame.partition(":") for frame in stack.split("\n"))
        split = [(file, *rest.partition(" ")) for file, _, rest in places]
        return "\n".join(f"{file}:{int(line) + by} {function}" for file, line, _, function in split)

    new = [one._replace(origin=one.origin._replace(stack=moved(one.origin.stack))) for one in held]
    found = compare(side(held), side(new), "kind")
    assert found["same"], found


def test_limits() -> None:
    old, new = side([], dram=1000, headroom=500), side([], dram=1011, headroom=400)
    for name, amount, share, exceeded in (
        ("dram", None, 0.01, True), ("dram", None, 0.011, False), ("dram", 10, None, True), ("dram", 11, None, False),
        ("headroom", 99, None, True), ("headroom", 100, None, False),
    ):  # fmt: skip
        limit = Limit(name, f"{name}:X", amount, share)
        assert bool(compare(old, new, "line", [limit])["exceeded"]) is exceeded
        assert not compare(new, old, "line", [limit])["exceeded"], "it became better"
    assert set(FIGURES) >= {"dram", "headroom"}
