# SPDX-License-Identifier: Apache-2.0
"""What holds of every screen, whatever is on it: it fits, it is clean, and nothing is fuller than full."""

from __future__ import annotations

import re
import unicodedata
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.snapshots import Account, counters, driver_chip, holder, machine, slot
from ttmem.documents import unknown_rows as blank
from ttmem.documents.merge import merge
from ttmem.model.core_sets import CoreRange, mask_of
from ttmem.model.events import Allocated, Extra, ProgramRun
from ttmem.model.kinds import Kind
from ttmem.model.uncertain_reasons import REASONS
from ttmem.show.smi_screen import render
from ttmem.show.text import Style

Json = Any
UNITS = {"": 1, "B": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40, "P": 1 << 50}
# A share of a capacity, in the table ("9.0G/12.0G") and in the breakdown ("9.0 GiB / 12.0 GiB").
PAIR = re.compile(r"([\d.]+) ?([BKMGTP]?)(?:iB)? ?/ ?([\d.]+) ?([BKMGTP])(?:iB)?(?!\w)")

anything = st.text(st.characters(codec="utf-8"), max_size=30) | st.sampled_from(
    ["python", "模型服务器模型服务器", "\x1b[2J\n", "é́́"]
)
sizes = st.none() | st.integers(0, 1 << 45) | st.sampled_from([0, 1, 1023, 1 << 30, 12 << 30, (1 << 40) - 1])
numbers = st.none() | st.floats(0, 300, allow_nan=False)
doubts = st.lists(
    st.builds(
        lambda reason, count: {"pid": 1, "reason": reason, "count": count},
        st.sampled_from([*REASONS, "of a newer agent"]),
        st.integers(1, 1 << 64),
    ),
    max_size=3,
)


def filled(draw: Any, part: Json) -> None:
    """Every number that is not known gets a value or stays unknown."""
    for key, value in part.items():
        if isinstance(value, dict):
            filled(draw, value)
        elif key in ("missing", "unseen", "capacity_basis", "basis"):
            continue
        elif key == "uncertain":
            part[key] = draw(doubts)
        elif key == "completeness":
            part[key] = draw(st.none() | st.floats(0, 1))
        elif key in ("exact", "reported", "estimated"):
            part[key] = draw(sizes) or 0
        else:
            part[key] = draw(sizes)


@st.composite
def chips(draw: Any, number: int, words: st.SearchStrategy[str]) -> Json:
    chip_id = draw(
        st.sampled_from([f"0000:{number:02x}:00.0", f"kmd:{number}", f"assumed:{number}", str(10**19 + number)])
    )
    chip: Json = blank.chip(chip_id, board=draw(st.sampled_from([None, "n150", "p150a"]) | words))
    if not chip_id.startswith("assumed"):
        chip.update(
            kmd=draw(st.sampled_from([None, number])), pci=draw(st.sampled_from([None, f"0000:{number:02x}:00.0"]))
        )
    chip["identity"] = "assumed" if chip_id.startswith("assumed") else "known"
    chip["remote"] = draw(st.sampled_from([None, False, True]))
    if draw(st.booleans()):
        state = draw(st.sampled_from(["ok", "in reset", "off the bus", "gone", "hangs", "no files"]))
        named = ("temperature_c", "temperature_max_c", "power_w", "power_max_w", "aiclk_mhz", "age_s")
        alive = draw(st.sampled_from([None, True, False]))
        chip["telemetry"] = {**{name: draw(numbers) for name in named}, "state": state, "alive": alive}
    filled(draw, chip["memory"])
    return chip


@st.composite
def snapshots(draw: Any, words: st.SearchStrategy[str] = anything) -> Json:
    snapshot: Json = blank.snapshot("2026-01-02T03:04:05.678901Z", draw(words))
    snapshot["chips"] = [draw(chips(number, words)) for number in range(draw(st.integers(0, 3)))]
    chip_ids = [chip["chip"] for chip in snapshot["chips"]] + ["elsewhere"]
    for number in range(draw(st.integers(0, 4))):
        state = draw(st.sampled_from(["tracked", "untracked", "stale", "exited"]))
        process: Json = blank.process(draw(st.none() | st.integers(1, 1 << 22)), state)
        for key in ("user", "name", "command", "container"):
            process[key] = draw(st.none() | words)
        process["uncertain"] = draw(doubts)
        process["holds"] = draw(st.lists(st.sampled_from(chip_ids), unique=True))
        process["exited"] = float(number) if state == "exited" else None
        for chip_id in draw(st.lists(st.sampled_from(chip_ids), unique=True)):
            share: Json = blank.share(chip_id)
            share.update({name: draw(sizes) for name in ("dram", "l1", "peak_dram", "peak_l1")})
            if draw(st.booleans()):
                share["shm"] = {kind: draw(sizes) or 0 for kind in ("dram", "l1", "l1_small", "trace", "cb")}
            process["chips"].append(share)
        trouble = draw(st.none() | words)
        process["sources"] = [{"name": "agent", "confidence": "exact", "trouble": trouble}]
        snapshot["processes"].append(process)
    snapshot["notes"] = [
        {"what": "x", "chip": None, "pid": None, "text": text} for text in draw(st.lists(words, max_size=3))
    ]
    snapshot["sources"] = [{"name": "shm", "state": "absent", "detail": draw(st.none() | words)}]
    snapshot["driver"] = draw(
        st.sampled_from([None, {"version": None, "loaded": True}, {"version": "2", "loaded": False}])
    )
    snapshot["server"] = draw(st.sampled_from([None, {"pid": 9, "version": "1", "events": 10**9}]))
    if snapshot["server"] is None:
        snapshot["sources"].append({"name": "server", "state": "not running", "detail": draw(st.none() | words)})
    return snapshot


def width_of(line: str) -> int:
    """Cells on a terminal, by the Unicode tables alone."""
    wide = sum(unicodedata.east_asian_width(character) in ("W", "F") for character in line)
    none = sum(unicodedata.category(character) in ("Mn", "Me") for character in line)
    return len(line) + wide - none


@settings(max_examples=80)
@given(snapshots(), st.integers(60, 200), st.booleans(), st.booleans(), st.booleans())
def test_every_screen(snapshot: Json, width: int, colour: bool, ascii: bool, in_full: bool) -> None:
    text = render(snapshot, Style(width, colour, ascii), in_full=in_full)
    plain = re.sub(r"\x1b\[[0-9]*m", "", text)
    assert (text == plain) or colour
    assert all(character.isprintable() or character == "\n" for character in plain)
    assert all(width_of(line) <= width for line in plain.split("\n"))
    assert plain.isascii() or not ascii
    for used, unit, size, of in PAIR.findall(plain):
        assert float(used) * UNITS[unit] <= float(size) * UNITS[of] * 1.0001, plain
    assert all(int(share) <= 100 for share in re.findall(r"(?<!\w)(\d+)%", plain)), plain


@settings(max_examples=40)
@given(snapshots(st.just("word")), st.integers(60, 200))
def test_nothing_unknown_shows_as_python_would_say_it(snapshot: Json, width: int) -> None:
    text = render(snapshot, Style(width))
    assert not re.search(r"\bnan\b|\bNone\b|\binf\b|\bTrue\b|\bFalse\b|[{}]", text), text


# -- what adds up

MIB = 1 << 20
GRID = mask_of([CoreRange(0, 0, 7, 7)])
PROGRAMS = (Kind.CB, Kind.DFB, Kind.SCRATCHPAD, Kind.KERNEL)
LINE = re.compile(r"^  ([A-Za-z][A-Za-z1_ ]+?) +(?:\[.*?\] +)?([\d.]+) (B|MiB|GiB)", re.MULTILINE)
few = st.integers(0, 7)


@st.composite
def worlds(draw: Any) -> Json:
    """A chip with two processes that report and up to two that are only counted; all sizes are whole MiB."""
    account = Account()
    for pid, name in ((1, "agent"), (2, draw(st.sampled_from(["agent", "legacy", "client"])))):
        account.tracked(pid, "77", dram=MIB, l1=MIB)
        source, address = account.source(pid, name), 1 << 30
        for kind in (Kind.DRAM, Kind.TRACE, Kind.L1, Kind.L1_SMALL, Kind.FIRMWARE):
            for size in draw(st.lists(st.integers(1, 7), max_size=2)):
                more = draw(st.none() | few)
                extra = None if more is None else Extra((size + more) * MIB)
                address += 1 << 25
                account.apply(source, Allocated(0, kind, address, size * MIB, extra=extra))
        for program in (1, 2):
            for kind in PROGRAMS:
                size = draw(st.integers(1, 7))
                cores = Extra(cores=GRID) if draw(st.booleans()) else None
                account.apply(source, Allocated(0, kind, 9000 + kind, size * MIB, program, extra=cores))
            if draw(st.booleans()):
                account.apply(source, ProgramRun(0, program, GRID))
    slots = [slot(8 + n, *(size * MIB for size in draw(st.tuples(*[few] * 5)))) for n in range(draw(st.integers(0, 2)))]
    return merge(account.snapshot(), machine(driver_chip(0), processes=[holder(1, 0)], shm=[counters(77, *slots)]))


@settings(max_examples=60)
@given(worlds(), st.sampled_from([60, 100, 300]))
def test_the_lines_of_a_breakdown_add_up_to_their_total(snapshot: Json, width: int) -> None:
    (chip,) = snapshot["chips"]
    assert sum(size or 0 for size in chip["memory"]["l1"]["at_once_parts"].values()) == chip["memory"]["l1"]["at_once"]
    text = render(snapshot, Style(width))
    found = [
        (name, float(size) * UNITS[unit[0]]) for name, size, unit in LINE.findall(text.partition("\n\nn150 chip ")[2])
    ]
    totals = [place for place, (name, _) in enumerate(found) if name.endswith(" total")]
    assert [found[place][0] for place in totals] == ["DRAM total", "L1 total"]
    dram, l1 = (size for name, size in found if name.endswith(" total"))
    assert not totals[0] or sum(size for _, size in found[: totals[0]]) == dram, text
    assert sum(size for _, size in found[totals[0] + 1 : totals[1]]) == l1, text
