# SPDX-License-Identifier: Apache-2.0
"""The screen of `ttmem l1`, compared with the files in tests/data/l1, and properties of all such screens.

`make screens` regenerates those files; then read the diff.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.l1_accounts import GRID, N150, Account
from tests.unit.test_smi_machines import RENEW
from tests.unit.test_smi_properties import anything, width_of
from ttmem.documents.common_text import chip_title
from ttmem.documents.cores import Cores, parse_core
from ttmem.model.core_sets import ROW, CoreRange, core_id, mask_of
from ttmem.model.events import Allocated, ProgramCompiled, ProgramRun
from ttmem.model.geometry import BOARDS
from ttmem.model.kinds import Confidence, Kind
from ttmem.show.l1_text import WORDS, render, worst_core
from ttmem.show.text import Style

SCREENS = Path(__file__).resolve().parent.parent / "data" / "l1"
Json = Any  # a document made by hand, or a part of one
STYLES = {"60": Style(60), "100": Style(100), "160": Style(160), "100-colour": Style(100, colour=True),
          "100-ascii": Style(100, ascii=True)}  # fmt: skip


def answer(account: Account, core: str | None = None, board: str | None = "n150", user_id: int = 0) -> Json:
    """The answer of a server for the chip of the account."""
    chip = account.ledger.chips["77"]
    chip.info = chip.info._replace(board=board)
    wanted = None if core is None else parse_core(core)
    found = asyncio.run(Cores(account.ledger).document("77", wanted, lambda owner: user_id == 0))
    found = json.loads(json.dumps(found))
    return found


def decode() -> Account:
    """Two programs share the grid, a third is cached and would end higher; weights and a cache are in L1."""
    account = Account(N150._replace(l1_small_size=32768))
    upper = mask_of([CoreRange(0, 0, 7, 3)])
    account.buffer(1300000, 98304, tag="kv_cache", layout=0)
    account.buffer(1400000, 32768, tag="weights", layout=2, core_count=8, size=8 * 32768)
    account.buffer(1499136 - 640, 640, Kind.L1_SMALL, tag="halo")
    account.part(1, 105824, 65536, GRID, tag="c_0")
    account.part(2, 105824, 65536, upper, tag="c_0")
    account.part(2, 171360, 131072, upper, tag="c_1")
    account.part(2, 1400000, 32768, upper, tag="c_2", shared=True)
    account.part(3, 105824, 900000, GRID, tag="c_0")
    account.part(2, 7, 6000, upper, Kind.KERNEL, tag="reader")
    for ident, tag in ((1, "ttnn::softmax"), (2, "ttnn::matmul"), (3, "ttnn::conv2d")):
        account.apply(ProgramCompiled(0, ident, 9000, 10 + ident, tag))
    account.apply(ProgramRun(0, 1, GRID), ProgramRun(0, 2, upper))
    return account


def clash() -> Account:
    """Nearly full: circular buffers overlap the buffer, and two allocators gave out the same place."""
    account = Account(BOARDS["p150"]._replace(live=True))
    grid = mask_of([CoreRange(0, 0, 10, 9)])
    account.buffer(200000, 1300000, tag="activation", allocator=1)
    account.buffer(1490000, 40000, tag="other mesh", allocator=2)
    account.part(1, 111744, 100000, grid, tag="c_0")
    account.apply(ProgramCompiled(0, 1, 9000, 1, "ttnn::matmul"), ProgramRun(0, 1, grid))
    return account


def legacy() -> Account:
    """A client that reports the sizes of buffers, but not per core, and not the addresses of circular buffers."""
    account = Account(N150, ("legacy", Confidence.REPORTED))
    account.apply(
        Allocated(0, Kind.L1, 1400000, 1 << 20),
        Allocated(0, Kind.L1, core_id(3, 4, 200000), 4096),
        Allocated(0, Kind.CB, 105824, 6400),
    )
    return account


def quiet() -> Account:
    """No process has reported anything about it."""
    return Account(BOARDS["n300"])


SCENES: dict[str, tuple[Callable[[], Account], str | None]] = {
    "decode": (decode, "n150"),
    "clash": (clash, "p150a"),
    "legacy": (legacy, None),
    "quiet": (quiet, "n300"),
}


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("scene", SCENES)
def test_the_screen(scene: str, style: str) -> None:
    make, board = SCENES[scene]
    text = render(answer(make(), "3,2", board), chip_title("0000:01:00.0", 0, board), STYLES[style]) + "\n"
    file = SCREENS / f"{scene}-{style}.txt"
    if RENEW:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8"), f"{file.name} differs; see the top of this file"


def test_no_screen_is_left_over() -> None:
    assert {file.stem for file in SCREENS.iterdir()} == {f"{scene}-{style}" for scene in SCENES for style in STYLES}


def test_both_sides_of_the_gap_are_named() -> None:
    found = answer(decode())
    worst, text = worst_core(found), render(found, "0", Style(100))
    assert worst is not None
    end = 171360 + 131072
    assert (worst["y"] < 4, worst["headroom"]) == (True, 1300000 - end)
    assert f"({1300000 - end:,} B)" in text
    assert f"lowest L1 buffer at {1300000:#x}: L1 buffer of 6.0 MiB, kv_cache, pid 1" in text
    assert f"circular buffers end at {end:#x}: program 2 ttnn::matmul, pid 1" in text
    assert f"highest end of all cached programs at {1005824:#x}: program 3 ttnn::conv2d" in text


def test_the_highest_of_all_cached_programs_may_be_on_other_cores() -> None:
    account = decode()
    account.part(4, 105824, 1_100_000, 1 << (7 * ROW + 7))
    text = render(answer(account), "0", Style(100))
    assert "Least headroom: core 0,0" in text
    assert f"highest end of all cached programs at {1205824:#x}: program 4, pid 1, headroom 92.0 KiB" in text


def test_what_another_user_may_not_see_is_not_told() -> None:
    told = json.dumps(answer(decode(), "3,2", user_id=1000))
    assert not re.search("kv_cache|weights|halo|ttnn::|reader|c_0", told)
    assert "None" not in render(json.loads(told), "0", Style(100))


def test_every_kind_of_segment_has_a_word() -> None:
    seen = {
        segment["kind"]
        for make, board in SCENES.values()
        for segment in answer(make(), "0,0", board)["core"]["segments"]
    }
    assert seen <= set(WORDS)
    assert {"firmware", "ring", "cb", "free", "l1", "l1_small", "small_free", "unknown"} <= seen


@st.composite
def answers(draw: Any) -> Json:
    """Any account's map, with names that are wide or contain control characters."""
    make, board = draw(st.sampled_from([*SCENES.values()]))
    account = make()
    geometry = account.geometry
    for number in range(draw(st.integers(0, 4))):
        reserved = draw(st.integers(1, geometry.l1_size)) * geometry.cores
        account.buffer(draw(st.integers(1, geometry.l1_size - 1)), reserved // geometry.cores, tag=draw(anything),
                       allocator=10 + number)  # fmt: skip
    if draw(st.booleans()):
        account.part(
            9, draw(st.integers(1, geometry.l1_size - 1)), draw(st.integers(1, 2_000_000)), 7, tag=draw(anything)
        )
        account.apply(ProgramCompiled(0, 9, 1, 1, draw(anything)), ProgramRun(0, 9, 7))
    core = draw(st.none() | st.tuples(st.integers(0, geometry.grid_x - 1), st.integers(0, geometry.grid_y - 1)))
    return answer(account, None if core is None else "{},{}".format(*core), board)


@settings(max_examples=60)
@given(answers(), st.integers(60, 200), st.booleans(), st.booleans())
def test_every_screen_fits_and_is_clean(found: Json, width: int, colour: bool, ascii: bool) -> None:
    text = render(found, "0", Style(width, colour, ascii))
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    assert (text == plain) or colour
    assert all(character.isprintable() or character == "\n" for character in plain)
    assert all(width_of(line) <= width for line in plain.split("\n"))
    assert plain.isascii() or not ascii
    size = found["l1"]["size"]
    for core in found["cores"]:
        if core["used"] is not None:
            assert core["used"] + core["free"] + core["unknown"] == size
