# SPDX-License-Identifier: Apache-2.0
"""The view of processes: screens of some machines character by character, keys and clicks.

`make screens` regenerates the files in tests/data/top; then read the diff.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import machines
from tests.screens import beside, checked, files_of, forms, lines
from tests.unit.test_signals import DEAF, PLAIN, Start, born, start  # noqa: F401
from tests.unit.test_smi_machines import GIB, MIB, PICTURES
from tests.unit.test_smi_properties import snapshots
from ttmem.documents import unknown_rows as blank
from ttmem.show.top.dashboard_state import Model
from ttmem.show.top.parts.process_tree import parent, tree
from ttmem.show.top.parts.rows import Characters, Row, Size
from ttmem.show.top.views.processes import Processes

Json = Any  # a document made by hand, or a part of one
SCENES = ("tracked", "t3k", "containers")
BOOTED = 1_767_300_000.0  # 23045 s before the time in the screens; their processes started 1000 s after it
NAMED = ("pid", "user", "name", "command", "container")


class Screen:
    """A view with its model, as text."""

    def __init__(self, snapshot: Json | None, size: Size = Size(120, 38), root: str = "/", **model: Any) -> None:
        self.model = Model(**model)
        self.view = Processes(root=root, booted=BOOTED)
        self.size, self.signs = size, Characters()
        if snapshot is not None:
            self.take(snapshot)
        self.rows()

    def take(self, snapshot: Json) -> None:
        self.model.take(snapshot, 0.0, 0.0)

    def rows(self) -> list[str]:
        return lines(self.view.rows(self.model, self.size, self.signs))

    def press(self, *keys: str) -> list[str]:
        for key in keys:
            assert self.view.press(key, self.model), key
            self.rows()
        return self.rows()

    def chosen(self) -> str:
        """The text of the row that is marked."""
        rows = self.view.rows(self.model, self.size, self.signs)
        marked = [text for row in rows for text, style in row if style == "select" and len(text) > 1]
        assert len(marked) == 1
        return marked[0]

    def pids(self) -> list[str]:
        """The processes in the list, from top to bottom."""
        rows = self.rows()
        end = next((n for n, row in enumerate(rows) if row.startswith("──")), len(rows))
        return [row.split()[0] for row in rows[2:end] if row[:7].strip().isdigit() or row[:7].strip() == "?"]


def process(pid: int | None, state: str = "tracked", *, dram: int | None = None, **values: Any) -> Json:
    out = {**blank.process(pid, state), "start": 100_000, "name": "python", "user": "ann", **values}
    if "chips" not in values and dram is not None:
        out["chips"] = [{**blank.share("u0"), "dram": dram, "l1": 0, "kinds": {"dram": dram}, "source": "server"}]
    return out


def picture_of(*processes: Json, **values: Any) -> Json:
    snapshot = blank.snapshot("2026-01-02T03:04:05.678901Z", "box")
    chips = [{**blank.chip(f"u{number}", board="n150"), "kmd": number} for number in range(4)]
    return {**snapshot, "chips": chips, "processes": list(processes), **values}


@pytest.mark.parametrize("scene", SCENES)
def test_the_screen(scene: str, folder: Path) -> None:
    """Other machines than those of test_top_screens; the first process is opened."""
    snapshot = PICTURES[scene](folder)

    def draw(size: Size, signs: Characters) -> list[Row]:
        screen = Screen(snapshot, size)
        screen.signs = signs
        screen.press("enter")
        return screen.view.rows(screen.model, size, signs)

    beside(f"processes-{scene}", forms(draw))


def test_no_screen_is_left_over() -> None:
    assert files_of("processes") == {f"processes-{scene}" for scene in SCENES}


KEYS = ["s", "S", "T", "enter", "x", "slash", "escape", "down", "up", "end", "home", "pagedown", "K", "n", "p", "1"]


@settings(max_examples=120)
@given(
    snapshots(), st.integers(1, 300), st.integers(1, 80), st.sampled_from(["ascii", "block"]),
    st.lists(st.sampled_from(KEYS), max_size=12),
)  # fmt: skip
def test_every_screen_fits(snapshot: Json, width: int, height: int, charts: str, keys: list[str]) -> None:
    model, view = Model(readonly=True), Processes(root="/nowhere", booted=BOOTED)
    model.take(snapshot, 0.0, 0.0)
    for key in ["", *keys]:
        view.press(key, model)
        rows = view.rows(model, Size(width, height), Characters(charts))
        checked(rows, Size(width, height), charts == "ascii")


def test_before_the_first_picture() -> None:
    assert Screen(None).rows()[2] == " Waiting for the first snapshot."


def test_nobody_is_there_and_what_to_do() -> None:
    text = " ".join(" ".join(Screen(picture_of()).rows()).split())
    assert "No process uses a chip, and none has reported anything." in text
    assert "`ttmem serve`" in text
    assert "`ttmem run -- COMMAND`" in text


def test_sums_over_chips_say_what_they_are() -> None:
    """24 and 12 GiB; the third chip is unknown. Peaks of two chips may have been at different times."""
    shares = [
        {**blank.share(f"u{number}"), "dram": size * GIB, "l1": MIB, "peak_dram": size * GIB, "peak_l1": MIB}
        for number, size in enumerate((24, 12))
    ]
    one = process(7, chips=shares, holds=["u0", "u1"])
    row = Screen(picture_of(one)).rows()[2].split()
    assert row[:8] == ["7", "ann", "python", "tracked", "0-1", "36.0G", "2.0M", "<36.0G"]
    rows = Screen(picture_of({**one, "holds": ["u0", "u1", "u2"]})).rows()
    assert rows[2].split()[4:8] == ["0-2", "36.0G+", "2.0M+", "-"]
    assert "+ at least: not known for every chip" in rows[3]


def test_programs_that_take_turns_in_l1_are_marked() -> None:
    snapshot = picture_of(process(7, chips=[{**blank.share("u0"), "l1": 200 * MIB, "source": "server"}]))
    snapshot["chips"][0]["memory"]["l1"]["at_once"] = 40 * MIB
    rows = Screen(snapshot).rows()
    assert "200M*" in rows[2].split()
    assert rows[3] == " * includes all cached programs, which use L1 in turn"


@pytest.mark.parametrize("charts", ["block", "ascii"])
def test_bars_are_in_proportion_and_in_the_colours_of_kinds(charts: str) -> None:
    """Two equal chips share a bar. Programs that use L1 in turn may have more L1 than there is: their bar is full."""
    shares = [
        {**blank.share(chip_id), "kinds": kinds, "source": "server"}
        for chip_id, kinds in (
            ("u0", {"dram": 6 * GIB, "trace": 3 * GIB, "l1": 60 * MIB, "cb": 60 * MIB}),
            ("u1", {"dram": 6 * GIB, "trace": 3 * GIB, "l1": 60 * MIB, "cb": 60 * MIB}),
            ("u2", {"dram": 3 * GIB}),
        )
    ]
    snapshot = picture_of(process(7, chips=shares))
    for chip in snapshot["chips"]:
        chip["memory"]["dram"]["capacity"], chip["memory"]["l1"]["capacity"] = 12 * GIB, 90 * MIB
    screen = Screen(snapshot, Size(160, 40))
    screen.signs = Characters(charts)
    rows = screen.view.rows(screen.model, screen.size, screen.signs)
    bars = [row for row in rows if row[1:2] in ([("DRAM ", "head")], [("L1   ", "head")])]
    assert [text.strip() for (text, _), *_ in bars] == ["chip 0-1 each", "", "chip 2"]
    lengths = [{name: len(text) for text, name in row[2:] if not set(text) - set("#tLC.█▓░")} for row in bars]
    for found, parts in zip(lengths, ((6, 3, 3), (60, 60), (3, 9))):
        width = sum(found.values())
        assert list(found.values()) == pytest.approx([part / sum(parts) * width for part in parts], abs=1)
    assert [list(found) for found in lengths] == [["dram", "trace", "track"], ["l1", "cb"], ["dram", "track"]]
    assert [" ".join("".join(text for text, _ in row).split()[-4:]) for row in bars] == [
        "6.0 GiB trace 3.0 GiB".partition(" ")[2], "MiB cb 60.0 MiB", "of 12.0 GiB 25%"
    ]  # fmt: skip


@pytest.mark.parametrize(("dram", "bar"), [(1, "█░░"), (12 * GIB - 1, "██░"), (12 * GIB, "███")])
def test_a_bar_is_empty_or_full_only_if_that_is_so(dram: int, bar: str) -> None:
    snapshot = picture_of(process(7, chips=[{**blank.share("u0"), "kinds": {"dram": dram}, "source": "server"}]))
    snapshot["chips"][0]["memory"]["dram"]["capacity"] = 12 * GIB
    (row,) = [row for row in Screen(snapshot, Size(160, 40)).rows() if row.startswith(" chip 0 DRAM ")]
    drawn = row.split()[3]
    assert drawn[0] + drawn[1] + drawn[-1] == bar


def test_what_programs_hold_in_turns_is_no_part_of_what_is_used() -> None:
    kinds = {"l1": 13 * MIB, "cb": 65 * MIB}
    snapshot = picture_of(process(7, chips=[{**blank.share("u0"), "l1": 78 * MIB, "kinds": kinds, "source": "server"}]))
    snapshot["chips"][0]["memory"]["l1"].update(capacity=90 * MIB, at_once=20 * MIB)
    (row,) = [row for row in Screen(snapshot, Size(160, 40)).rows() if row.startswith(" chip 0 L1 ")]
    assert "78.0 MiB with all cached programs, of 90.0 MiB  cb 65.0 MiB  l1 13.0 MiB" in row
    snapshot["chips"][0]["memory"]["l1"].update(at_once=78 * MIB)
    (row,) = [row for row in Screen(snapshot, Size(160, 40)).rows() if row.startswith(" chip 0 L1 ")]
    assert "78.0 MiB of 90.0 MiB 87%" in row


def test_where_not_all_kinds_can_be_named_the_largest_are() -> None:
    kinds = {"l1": 13 * MIB, "l1_small": 64 << 10, "cb": 65 * MIB, "kernel": MIB}
    snapshot = picture_of(process(7, chips=[{**blank.share("u0"), "kinds": kinds, "source": "server"}]))
    for width in (80, 90, 100, 120):
        (row,) = [row for row in Screen(snapshot, Size(width, 22)).rows() if row.startswith(" chip 0 L1 ")]
        named = re.findall(r"  (\w+) \d", row)
        assert named == sorted(kinds, key=kinds.__getitem__, reverse=True)[: len(named)]
        assert named


@pytest.mark.parametrize(("chips", "said"), [(3, ""), (4, "and 1 more chip"), (5, "and 2 more chips")])
def test_peaks_of_many_chips(chips: int, said: str) -> None:
    shares = [{**blank.share(f"u{number}"), "peak_dram": GIB + number, "peak_l1": MIB} for number in range(chips)]
    text = " ".join(" ".join(Screen(picture_of(process(7, chips=shares)), Size(200, 40)).rows()).split())
    assert re.findall(r"and \d more chips?\b", text) == ([said] if said else [])


def test_equal_peaks_of_chips_are_shown_once() -> None:
    shares = [{**blank.share(f"u{number}"), "peak_dram": GIB, "peak_l1": MIB} for number in range(4)]
    text = "\n".join(Screen(picture_of(process(7, chips=shares)), Size(200, 40)).rows())
    assert "Peaks on chip 0-3 each: DRAM 1.0 GiB, L1 buffers 1.0 MiB\n" in f"{text}\n"


def test_a_chosen_process_without_kinds_has_no_bars() -> None:
    screen = Screen(picture_of(process(7, "untracked", holds=["u0"])))
    assert not [row for row in screen.rows() if " DRAM " in row and "of" in row]


def test_columns_are_as_wide_as_what_is_in_them() -> None:
    """Neither the chips nor the command are cut: they use the room that a short name leaves."""
    one = process(7, dram=GIB, command="python -m serve --model llama --batch 32 --devices all of them")
    one["chips"] = [{**one["chips"][0], "chip": f"u{number}"} for number in (0, 2)]
    row = Screen(picture_of(one), Size(200, 30)).rows()[2]
    assert " 0,2 " in row
    assert one["command"] in row


def test_ages_are_those_of_the_processes() -> None:
    """Started 1000 s after boot, which was 23045.7 s before the screen; the one that exited lived 500 s."""
    gone = process(8, "exited", exited=BOOTED + 1500.0)
    rows = Screen(picture_of(process(7), gone, process(9, start=None))).rows()
    ages = {row.split()[0]: row for row in rows[2:5]}
    assert "6.1 h" in ages["7"]
    assert "8 min" in ages["8"]
    assert " h" not in ages["9"]
    assert " min" not in ages["9"]


def three() -> Screen:
    return Screen(
        picture_of(
            process(30, dram=5, name="b", user="zed", allocations=1),
            process(
                10, dram=9, name="C", user="ann", allocations=3, command="python -m serve", container="docker 3f2a"
            ),
            process(20, dram=7, name="a", user="bob", allocations=2),
            process(99, "exited", dram=100, name="gone"),
            process(50, "untracked", name="silent"),
        )
    )


def test_sorting() -> None:
    """Processes that have exited are always last, after living processes with unknown values."""
    screen = three()
    assert screen.pids() == ["10", "20", "30", "50", "99"]
    screen.press("S")
    assert screen.pids() == ["30", "20", "10", "50", "99"]
    seen = []
    for _ in range(20):
        screen.press("s")
        seen.append((screen.view.sort, screen.pids()))
    orders = dict(seen)
    assert orders["pid"] == ["10", "20", "30", "50", "99"]
    assert orders["name"] == ["20", "30", "10", "50", "99"]
    assert orders["user"][:4] in (["10", "50", "20", "30"], ["50", "10", "20", "30"])
    assert orders["allocations"] == ["10", "20", "30", "50", "99"]
    assert {"pid", "user", "name", "state", "chips", "dram", "l1", "age", "allocations"} <= set(orders)


def test_anomalies_have_a_column_only_if_there_are_any() -> None:
    screen = three()
    assert "ANOMALIES" not in screen.rows()[1]
    screen.model.processes[0]["anomalies"]["unknown_free"] = 3
    assert "ANOMALIES" in screen.rows()[1]


def test_a_click_on_a_title_sorts() -> None:
    screen = three()
    x = screen.rows()[1].index("NAME")
    assert screen.view.click(x, 1, screen.model)
    assert screen.pids() == ["20", "30", "10", "50", "99"]
    assert "NAME▴" in screen.rows()[1]
    screen.view.click(x, 1, screen.model)
    assert screen.pids() == ["50", "10", "30", "20", "99"]
    assert "NAME▾" in screen.rows()[1]


def test_a_click_on_a_row_chooses_and_opens_it() -> None:
    screen = three()
    assert screen.view.click(3, 3, screen.model)
    assert screen.chosen().split()[0] == "20"
    screen.view.click(3, 3, screen.model)
    assert "chip 0" in screen.rows()[4]
    assert not screen.view.click(3, 37, screen.model), "nothing is there"


@pytest.mark.parametrize(
    ("text", "pids"),
    [("bob", ["20"]), ("0", ["10", "20", "30", "50"]), ("SERVE", ["10"]), ("docker", ["10"]), ("silent", ["50"])],
)
def test_the_filter(text: str, pids: list[str]) -> None:
    screen = three()
    screen.press("slash", *text, "enter")
    assert screen.pids() == pids
    assert f"{len(pids)} match '{text}'" in screen.rows()[0]
    screen.press("escape")
    assert len(screen.pids()) == 5


def test_the_filter_by_user() -> None:
    users = [
        process(1, dram=3, user="ann"),
        process(2, dram=2, user="annika"),
        process(3, dram=1, user=None, user_id=7),
    ]
    screen = Screen(picture_of(*users))
    screen.press("slash", *["colon" if key == ":" else key for key in "user:ann"], "enter")
    assert screen.pids() == ["1"], "not everybody whose name begins so"
    screen.press("u")
    assert screen.pids() == ["1", "2", "3"], "u removes the filter"
    screen.press("down", "u")
    assert screen.pids() == ["2"]
    assert "1 match 'user:annika'" in screen.rows()[0]
    screen.press("escape", "end", "u")
    assert screen.pids() == ["3"], "without a name, by the number"
    screen.press("escape")
    screen.take(picture_of(process(4, user=None)))
    screen.rows()
    screen.press("u")
    assert screen.model.message == "the user of this process is not known"
    assert screen.pids() == ["4"]


def test_cpu_and_ram_of_the_host() -> None:
    some = [process(1, dram=3, rss=GIB, cpu_percent=99.6), process(2, dram=2, rss=3 * GIB, cpu_percent=0.2), process(3)]
    screen = Screen(picture_of(*some), Size(120, 38))
    head, *rows = screen.rows()[1:5]
    assert "CPU  HOST RAM" in head
    x = head.index("HOST RAM")
    assert [row[x - 10 : x + 8].split() for row in rows] == [["100%", "1.0G"], ["<1%", "3.0G"], ["-", "-"]]
    assert screen.view.click(x + 2, 1, screen.model)
    assert (screen.view.sort, screen.pids()) == ("rss", ["2", "1", "3"]), "by a click, as by the key"
    assert "uses 3.0 GiB of host RAM and 0% of a core" in "".join(screen.rows())
    assert "HOST" not in Screen(picture_of(process(3))).rows()[1], "a column needs something to show"


def test_a_filter_that_nothing_matches() -> None:
    screen = three()
    rows = screen.press("slash", "z", "z", "z")
    assert rows[0].startswith("Filter: zzz")
    assert rows[2] == " No process matches 'zzz'; escape clears the filter."
    screen.press("q", "1", "space", "escape")
    assert len(screen.pids()) == 5, "keys that mean something elsewhere were part of the text"


def test_the_chosen_process_stays_chosen() -> None:
    screen = three()
    screen.press("down")
    assert screen.chosen().split()[0] == "20"
    screen.take(picture_of(process(20, dram=1), process(10, dram=9), process(30, dram=8), process(40, dram=7)))
    assert screen.chosen().split()[0] == "20"
    assert screen.pids() == ["10", "30", "40", "20"]


def test_what_is_below_an_opened_process() -> None:
    kinds = {"dram": 3 * GIB, "trace": MIB, "l1": 2 * MIB, "cb": 0, "host": 4096}
    share = {"dram": 3 * GIB + MIB, "l1": 2 * MIB, "kinds": kinds, "source": "server"}
    shares = [{**blank.share(chip_id), **share} for chip_id in ("u2", "u0", "u1")]
    shares.append({**blank.share("u3"), "dram": 7 * GIB, "source": "shm"})
    rows = Screen(picture_of(process(7, chips=shares))).press("x")
    below = [row.split() for row in rows[3:9]]
    assert below == [
        ["chip", "0-2", "each", "3.0G", "2.0M"],
        ["dram", "3.0G"],
        ["trace", "1.0M"],
        ["l1", "2.0M"],
        ["host", "4.0K"],
        ["chip", "3,", "as", "tt-metal", "counts", "7.0G", "-"],
    ]
    assert rows[4].index("3.0G") == rows[3].index("3.0G"), "in the column of its pool"
    assert rows[6].index("2.0M") == rows[3].index("2.0M")


def test_closing_from_below() -> None:
    screen = three()
    screen.press("enter", "down", "down", "enter")
    assert screen.chosen().split()[0] == "10"
    assert not any("chip 0" in row for row in screen.rows()[:6])


def test_what_is_said_of_the_chosen_process() -> None:
    share = {
        **blank.share("u1"), "dram": 9 * GIB, "l1": 0, "kinds": {"dram": 9 * GIB}, "source": "server",
        "shm": {"dram": 8 * GIB, "l1": 0, "l1_small": 0, "trace": 0, "cb": 0},
    }  # fmt: skip
    anomalies = {**blank.process(1, "tracked")["anomalies"], "unknown_free": 3}
    sources = [{"name": "agent", "confidence": "exact", "trouble": "it cannot see traces"}]
    one = process(
        7, chips=[share], command="python llama.py", holds=["u1", "u2"], anomalies=anomalies, sources=sources,
        claimed_pids=[12],
    )  # fmt: skip
    notes = [
        {"what": "untracked", "chip": None, "pid": 7, "text": "a note on it"},
        {"what": "untracked", "chip": None, "pid": 8, "text": "a note on another"},
    ]
    rows = Screen(picture_of(one, notes=notes)).rows()
    text = " ".join(" ".join(rows).split())
    for said in (
        "── pid 7 python (ann) ─",
        "python llama.py",
        "calls itself pid 12",
        "By kind on chip 1: dram 9.0 GiB",
        "Open chips: 1-2; its memory on 2 is not known",
        "agent: it cannot see traces",
        "Anomalies: frees of unknown allocations 3",
        "Note: a note on it",
    ):
        assert said in text, said
    assert "a note on another" not in text
    assert "counters" not in text, "the two were not read at one moment; the server notes a difference that lasts"
    assert "tracked !" in rows[2]


def test_the_tree(folder: Path) -> None:
    """From the parents in /proc. A parent that is younger than its child has only reused the pid."""
    machine = machines.Machine(folder)
    for pid, above in ((10, 1), (20, 10), (30, 20), (40, 10), (50, 60), (60, 1)):
        stat = machine.process(pid, name="a (b) c") / "stat"
        stat.write_text(stat.read_text().replace(" S 1 ", f" S {above} "))
        assert parent(pid, str(folder)) == above
    assert parent(4711, str(folder)) is None
    listed = [process(pid, dram=pid, start=100) for pid in (40, 30, 20, 10, 50)]
    screen = Screen(picture_of(*listed, process(60, dram=60, start=101)), root=str(folder))
    screen.press("T")
    names = [row.split("ann")[1][:20].rstrip() for row in screen.rows()[2:8]]
    assert screen.pids() == ["60", "50", "10", "40", "20", "30"]
    assert [name.strip().removesuffix(" tracked").strip() for name in names] == [
        "python", "python", "python", "├─ python", "└─ python", "└─ python",
    ]  # fmt: skip
    (folder / "proc/30/stat").unlink()
    assert screen.rows()[7].split()[0] == "30", "what was seen once is remembered"
    screen.press("slash", "4", "0", "enter")
    assert screen.pids() == ["40"], "its parent does not match"


@given(st.integers(0, 12).flatmap(lambda n: st.tuples(st.just(n), st.dictionaries(*[st.integers(0, n or 1)] * 2))))
def test_a_tree_has_everybody_once(case: tuple[int, dict[int, int]]) -> None:
    """Even if wrong data makes a process its own grandparent."""
    count, above = case
    above = {a: b for a, b in above.items() if a < count and b < count}
    assert sorted(place for place, _ in tree(count, above, ascii=True)) == list(range(count))


def living(child: subprocess.Popen[bytes], **values: Any) -> Json:
    return process(child.pid, dram=5, start=born(child.pid), **values)


def test_kill(start: Start) -> None:  # noqa: F811
    """First SIGTERM, which it ignores, then SIGKILL; each only after y was pressed."""
    child = start(DEAF)
    screen = Screen(picture_of(living(child)))
    rows = screen.press("K")
    assert rows[0] == f"send SIGTERM to pid {child.pid} python (ann)? y/n"
    for key in ("n", "Y", "enter", "escape", "q"):
        screen.press(key)
        assert screen.model.message == "nothing was sent"
        assert "send SIGTERM" in screen.press("K")[0]
    screen.press("y")
    assert screen.model.message == (
        f"SIGTERM was sent to pid {child.pid} python (ann); if it does not end, K again offers SIGKILL"
    )
    assert screen.press("K")[0] == f"send SIGKILL to pid {child.pid} python (ann)? y/n"
    screen.press("y")
    assert child.wait(30) == -signal.SIGKILL
    screen.press("K", "y")
    assert "SIGKILL was not sent" in str(screen.model.message)


def test_a_new_process_with_an_old_pid_is_not_hit(start: Start) -> None:  # noqa: F811
    """The question was about one process; meanwhile another one has its pid."""
    child = start(PLAIN)
    screen = Screen(picture_of({**living(child), "start": born(child.pid) - 5}))
    screen.press("K", "y")
    assert "is another process by now" in str(screen.model.message)
    assert child.poll() is None


def test_the_question_is_about_who_was_chosen_then(start: Start) -> None:  # noqa: F811
    child, other = start(PLAIN), start(PLAIN)
    screen = Screen(picture_of(living(child)))
    screen.press("K")
    screen.take(picture_of({**living(other), "name": "innocent"}))
    assert f"pid {child.pid} " in screen.rows()[0]
    screen.press("y")
    assert child.wait(30) == -signal.SIGTERM
    assert other.poll() is None


@pytest.mark.parametrize(
    ("one", "readonly", "why"),
    [
        (process(4711, dram=1), True, "--readonly"),
        (process(None, "untracked"), False, "has no pid here"),
        (process(4711, "exited"), False, "has exited"),
        (process(1, dram=1), False, "pid 1 "),
        (process(os.getpid(), dram=1), False, "is this dashboard"),
    ],
)
def test_what_is_refused_is_said_at_once(one: Json, readonly: bool, why: str) -> None:
    screen = Screen(picture_of(one), readonly=readonly)
    assert "send" not in screen.press("K")[0]
    assert why in str(screen.model.message)


def test_nobody_to_kill() -> None:
    screen = Screen(picture_of())
    screen.press("K")
    assert screen.model.message == "no process is chosen"


def test_what_was_remembered_may_be_nonsense() -> None:
    screen = three()
    before = screen.pids()
    for wrong in ("colour", 7, None, ["dram"]):
        screen.view.sort = wrong  # type: ignore[assignment]
        assert screen.pids() == before
