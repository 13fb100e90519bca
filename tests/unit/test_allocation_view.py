# SPDX-License-Identifier: Apache-2.0
"""The view of allocations and events: its requests to a real server, its screens character by character, its keys.

`make screens` regenerates the files in tests/data/top; then read the diff.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.screens import beside, checked, files_of, forms, lines
from tests.support import Server, wait_until
from tests.unit.test_smi_machines import GIB, MIB
from tests.unit.test_smi_properties import anything, sizes, snapshots
from ttmem import AllocationClient
from ttmem.documents import unknown_rows as blank
from ttmem.documents.pool_amounts import pool_amounts
from ttmem.model.kinds import KIND_BY_LABEL
from ttmem.show.top.dashboard_state import Answer, Model
from ttmem.show.top.parts import event_list as eventlist
from ttmem.show.top.parts.rows import Characters, Row, Size
from ttmem.show.top.views.allocation_view import Allocations

Json = Any  # a document made by hand, or a part of one
NOW = 1_767_323_045.0  # the second of the snapshots' time
KINDS = ("dram", "l1", "cb", "kernel", "dispatch_kernel")
SCENES = ("various", "rare", "alone")
TAGS = ("ttnn.matmul", None, "conv51.weight", "层.注意力.权重", "reader: 1408 B")


def allocation(number: int, **values: Any) -> Json:
    """As in the answer to /allocations. Another test compares its keys with those of a server."""
    return {
        "pid": 4711, "chips": [f"u{number % 4}"], "other_chips": [], "devices": [number % 4], "kind": KINDS[number % 5],
        "id": hex(4096 + 32 * number), "address": 4096 + 32 * number, "size": (100 - number) * MIB, "reserved": None,
        "refs": 1, "since": NOW - 10 * number, "program": None, "cores": None, "core": None, "shared": False,
        "layout": None, "core_count": None, "per_core": False, "tag": TAGS[number % 5], "operation": TAGS[number % 5],
        "shape": None, "line": None,
        "stack": None, "source": "agent", "confidence": "exact", "not_counted": [], **values,
    }  # fmt: skip


def answer_of(allocations: list[Json], matched: int | None = None, offset: int = 0) -> Answer:
    matched = len(allocations) if matched is None else matched
    pools = pool_amounts((KIND_BY_LABEL[one["kind"]], tuple(one["chips"]), 1, one["size"]) for one in allocations)
    return Answer({"matched": matched, "pools": pools, "offset": offset, "allocations": allocations}, None, 0.0)


def picture_of(server: bool = True, chips: int = 4) -> Json:
    snapshot: Json = blank.snapshot("2026-01-02T03:04:05.000Z", "box")
    snapshot["chips"] = [{**blank.chip(f"u{number}", board="n150"), "kmd": number} for number in range(chips)]
    snapshot["processes"] = [{**blank.process(4711, "tracked"), "name": "python", "allocations": 250}]
    snapshot["server"] = {"pid": 99, "version": "1.2.3", "events": 5} if server else None
    why = "no ttmem server answers on /run/ttmem/ttmem.sock; start one with `ttmem serve`"
    snapshot["sources"] = [] if server else [{"name": "server", "state": "not running", "detail": why}]
    return snapshot


class Screen:
    """The view with a model that has an answer to every request."""

    def __init__(self, allocations: list[Json] | Answer = (), size: Size = Size(120, 38), **snapshot: Any) -> None:  # type: ignore[assignment]
        self.model, self.view, self.size, self.signs = Model(), Allocations(), size, Characters()
        self.model.take(picture_of(**snapshot), 0.0, 0.0)
        self.answer = allocations if isinstance(allocations, Answer) else answer_of(list(allocations))
        self.rows()

    def rows(self) -> list[str]:
        self.view.rows(self.model, self.size, self.signs)
        for path in self.view.wants(self.model):
            if path != "/events":
                self.model.answers[path] = self.answer
        return lines(self.view.rows(self.model, self.size, self.signs))

    def press(self, *keys: str) -> list[str]:
        for key in keys:
            assert self.view.press(key, self.model), key
            self.rows()
        return self.rows()

    def query(self) -> dict[str, str]:
        (path,) = self.view.wants(self.model)
        assert urlsplit(path).path == "/allocations"
        return {name: values[0] for name, values in parse_qs(urlsplit(path).query).items()}

    def events(self, *events: Json, lost: int = 0) -> list[str]:
        self.model.answers["/events"] = Answer({"events": list(events), "lost": lost}, None, 0.0)
        return self.rows()


def event(number: int, name: str = "Allocated", **values: Any) -> Json:
    return {
        "time": NOW - 20 + number / 10, "event": name, "pid": 4711, "user_id": 0, "device": 0, "chip": "u0",
        "kind": "l1", "id": hex(4096 + number), "size": MIB, "refs": 1, "program": None, "tag": f"op {number}.",
        **values,
    }  # fmt: skip


def various() -> list[Json]:
    odd = [
        allocation(20, not_counted=["u0"], confidence="reported", source="client"),
        allocation(21, shared=True, cores="{[0-0 - 7-7]}"),
        allocation(22, confidence="estimated", reserved=77 * MIB, program=12, layout="height_sharded", core_count=64),
        allocation(23, core={"x": 3, "y": 4, "address": 0x3410, "what": "firmware"}, pid=None),
    ]
    return [allocation(number) for number in range(20)] + odd


def test_where_a_allocation_was_made_is_said() -> None:
    ttnn, mine, main = (
        "/v/site-packages/ttnn/decorators.py:9 call",
        "/me/llama/model.py:42 forward",
        "/me/run.py:7 main",
    )
    made = allocation(0, shape="[32, 4096] bfloat16", line=mine, stack=[ttnn, ttnn, mine, ttnn, main])
    rows = Screen([made]).rows()
    assert {"OPERATION", "LINE", "SHAPE"} <= set(rows[1].split())
    assert " llama/model.py:42 forward " in rows[2]
    assert rows[2].rstrip().endswith(" [32, 4096] bfloat16")
    at = next(number for number, row in enumerate(rows) if row.startswith(" Stack: "))
    assert "Shape: [32, 4096] bfloat16" in rows[at - 1]
    assert [row.removeprefix(" Stack: ").strip() for row in rows[at : at + 4]] == [
        *("... 2 frames in ttnn", mine, "... 1 frame in ttnn", main),
    ]
    rows = Screen([allocation(0)]).rows()
    assert not {"LINE", "SHAPE"} & set(rows[1].split())
    assert "Stack:" not in "\n".join(rows)


def test_of_a_kernel_the_operation_and_its_name_are_said() -> None:
    cores = {"cores": "{[0-0 - 7-7]}", "core_count": 64, "size": 64 * 100}
    rows = Screen([allocation(3, operation="ttnn.add", tag="reader (NCRISC: 100 B)", **cores)]).rows()
    assert " ttnn.add: reader " in rows[2]
    assert hex(4096 + 96) not in rows[2], "its id is no address"
    text = " ".join(" ".join(rows).split())
    assert "6,400 bytes over 64 cores, 100 on each;" in text
    assert "Operation: ttnn.add; Name: reader (NCRISC: 100 B)" in text


def test_more_than_there_is_room_for() -> None:
    stack = [f"/me/model.py:{number} f" for number in range(64)]
    screen = Screen([allocation(0, stack=stack, line=stack[0])], Size(120, 20))
    assert screen.rows()[-1] == " and 62 more lines", "of 66, 4 are shown"


@pytest.mark.parametrize("what", SCENES)
def test_the_screen(what: str) -> None:
    """Cases that are rarer than in test_top_screens: allocations and events of all kinds, and no server."""

    def draw(size: Size, signs: Characters) -> list[Row]:
        screen = Screen(answer_of(various(), 250), size, server=what != "alone")
        screen.signs = signs
        if what == "rare":
            screen.press("e")
            named = dict.fromkeys(("device", "chip", "kind", "id", "size", "refs", "program", "tag"))
            others = [
                event(200, "ProgramRun", **{**named, "device": 2, "program": 5, "cores": "{[0-0 - 7-7]}"}),
                event(201, "Mark", **named, text="step 1"),
                event(202, "Lost", **named, events=4711),
                event(203, "Freed", size=5 * GIB, kind="dram", chip="u3"),
                {"event": "lost", "count": 12},
            ]
            screen.events(*(event(number) for number in range(200)), *others, lost=12)
        else:
            screen.press("down", "down")
        return screen.view.rows(screen.model, size, signs)

    beside(f"allocations-{what}", forms(draw))


def test_no_screen_is_left_over() -> None:
    assert files_of("allocations") == {f"allocations-{what}" for what in SCENES}


@st.composite
def any_allocations(draw: Any) -> Json:
    place = st.none() | st.just({"x": 3, "y": 4, "address": 0x3410, "what": "firmware"})
    return allocation(
        draw(st.integers(0, 50)), tag=draw(st.none() | anything), pid=draw(st.sampled_from([None, 1, 1 << 22])),
        size=draw(sizes) or 0, reserved=draw(sizes), kind=draw(st.sampled_from(blank.KINDS)), core=draw(place),
        since=draw(st.floats(0, 2 * NOW)), not_counted=draw(st.sampled_from([[], ["u0"]])), shared=draw(st.booleans()),
        confidence=draw(st.sampled_from(["exact", "reported", "estimated"])), id=hex(draw(st.integers(0, 1 << 64))),
    )  # fmt: skip


@st.composite
def any_events(draw: Any) -> Json:
    names = st.sampled_from(["Allocated", "Freed", "Mark", "Viewed", "lost", "SomethingNew"])
    out = {"event": draw(names), "time": draw(st.none() | st.floats(0, 1e12)), "pid": draw(st.none() | st.just(7))}
    for name in draw(st.lists(st.sampled_from(["tag", "text", "name", "chip", "kind", "id", "cores"]))):
        out[name] = draw(st.none() | anything)
    return {**out, "size": draw(sizes)}


KEYS = (
    *("e", "s", "slash", "f", "c", "p", "m", "F", "escape", "enter", "1", "M", "up", "down", "end", "home", "pageup"),
    *("pagedown", "backspace"),
)


@settings(max_examples=120)
@given(
    snapshots(), st.lists(any_allocations(), max_size=5), st.lists(any_events(), max_size=5), st.integers(1, 300),
    st.integers(1, 80), st.sampled_from(["ascii", "block"]), st.lists(st.sampled_from(KEYS), max_size=12),
)  # fmt: skip
def test_every_screen_fits(
    snapshot: Json, allocations: list[Json], events: list[Json], width: int, height: int, charts: str, keys: list[str]
) -> None:
    model, view = Model(), Allocations()
    model.take(snapshot, 0.0, 0.0)
    model.answers["/events"] = Answer({"events": events, "lost": 3}, None, 0.0)
    for key in ["", *keys]:
        view.press(key, model)
        for path in view.wants(model):
            model.answers.setdefault(path, answer_of(allocations, 10 + len(allocations)))
        rows = view.rows(model, Size(width, height), Characters(charts))
        checked(rows, Size(width, height), charts == "ascii")


def test_without_a_server_nothing_is_asked_and_the_reason_is_said() -> None:
    screen = Screen(server=False)
    text = " ".join(" ".join(screen.rows()).split())
    assert "Allocations and events need a server: no ttmem server answers" in text
    assert "start one with `ttmem serve`" in text
    assert screen.view.wants(screen.model) == []
    assert screen.view.wants(Model()) == []


def test_what_the_keys_ask_for() -> None:
    screen = Screen(various())
    assert screen.query() == {"sort": "size", "limit": "90"}
    screen.press("s")
    assert screen.query()["sort"] == "newest"
    screen.press("s")
    assert screen.query()["sort"] == "oldest"
    screen.press("s", "f")
    assert screen.query() == {"sort": "size", "limit": "90", "kind": "dram"}
    screen.press("c")
    assert screen.query()["chip"] == "u0"
    screen.model.choose(2)
    assert screen.query()["chip"] == "u2", "the chip that was chosen meanwhile"
    screen.press("p")
    assert screen.query()["pid"] == "4711"
    screen.press("m", *"1", "full_stop", *"5M", "enter")
    assert screen.query()["min_size"] == str(3 * MIB // 2)
    rows = screen.press("slash", *"a&b", "space", "模", "enter")
    assert screen.query()["text"] == "a&b 模"
    assert "only dram, chip 2, pid 4711, from 1.5 MiB, text 'a&b 模'" in rows[0]
    screen.press("p", "c")
    assert not {"pid", "chip"} & set(screen.query())
    screen.press("escape")
    assert screen.query() == {"sort": "size", "limit": "90"}
    assert not screen.view.press("escape", screen.model), "there is no filter left to clear"


def test_only_the_chips_that_are_shown() -> None:
    screen = Screen(various())
    screen.model.pick(("0", "2"))
    assert screen.query()["chip"] == "u0,u2"
    assert "only chip 0,2" in screen.rows()[0]
    assert not screen.view.press("escape", screen.model), "it is not chosen here"
    screen.view.press("g", screen.model)
    assert "chip=u0%2Cu2" in screen.view.wants(screen.model)[0]
    screen.view.by = ""
    screen.press("c")
    assert screen.query()["chip"] == "u0"
    screen.press("c", "e")
    mesh = event(4, chip="u1", chips=["u1", "u2", "u3"], devices=[1, 2, 3])
    rows = screen.events(event(1, chip="u0"), event(2, chip="u1"), event(3, chip="u2"), mesh)
    assert numbers(rows) == [1, 3, 4], "an event on a mesh is on each of its chips"


def test_the_kinds_come_round() -> None:
    screen = Screen(various())
    seen = []
    for _ in blank.KINDS:
        screen.press("f")
        seen.append(screen.query()["kind"])
    assert seen == list(blank.KINDS)
    screen.press("f")
    assert "kind" not in screen.query()


def test_a_size_that_is_none() -> None:
    screen = Screen(various())
    screen.press("m", *"lots", "enter")
    assert str(screen.model.message).startswith("not a size: 'lots'; write bytes or a number with K, M, G or T")
    assert "min_size" not in screen.query()
    screen.press("escape")
    assert "min_size" not in screen.query()


def test_pages() -> None:
    """One more page on either side is requested. Rows that are not loaded yet are shown as such."""
    everything = [allocation(number % 90, id=hex(number)) for number in range(1000)]
    screen = Screen(answer_of(everything[:90], 1000))
    screen.press("end")
    query = screen.query()
    offset, limit = int(query["offset"]), int(query["limit"])
    assert offset <= 1000 - 29
    assert offset + limit >= 1000
    assert screen.rows()[5].strip() == "...", "of that page nothing is known"
    screen.answer = answer_of(everything[offset : offset + limit], 1000, offset)
    rows = screen.rows()
    assert f" {hex(997)} " in rows[28], "a circular buffer; kernels have no address"
    assert rows[31].startswith(" 972-1,000 of 1,000")
    screen.press("home")
    assert "offset" not in screen.query()


@given(st.integers(0, 5000), st.integers(1, 80))
def test_all_that_is_seen_is_asked_for(top: int, height: int) -> None:
    screen = Screen(various())
    cursor = screen.view._cursor
    cursor.top, cursor.height = top, height
    query = screen.query()
    first = int(query.get("offset", "0"))
    assert first <= top
    assert top + height <= first + int(query["limit"])


def test_beyond_what_the_server_gives() -> None:
    screen = Screen(answer_of([allocation(number) for number in range(40)], 2_000_000))
    screen.press("end")
    assert int(screen.query()["offset"]) < 100_000
    assert "(those beyond 100,000 cannot be shown)" in screen.rows()[-1] + screen.rows()[31]


def test_sums() -> None:
    """29 of 40 allocations fit. The sizes of pools are not added up."""
    allocations = [allocation(number) for number in range(40)]
    screen = Screen(answer_of(allocations))
    rows = screen.rows()
    sizes = [sum(range(100 - kind, 60, -5)) for kind in range(5)]  # MiB of every fifth
    programs = sizes[2] + sizes[3]
    shown = f"DRAM {sizes[0]}M, L1 {sizes[1]}M, programs {programs / 1024:.1f}G, runtime {sizes[4]}M"
    rows = Screen([{**one, "chips": ["u0"]} for one in allocations]).rows()
    assert rows[0] == f"ALLOCATIONS  40 allocations  {shown}"
    assert rows[31].rstrip() == " 1-29 of 40"
    assert "40 allocations of 250" in screen.press("f")[0], "so many there are, by the snapshot"


def test_an_allocation_of_a_mesh_is_one_row() -> None:
    """With its chips, its bytes on one chip, and sums on one chip and on all."""
    chips = ["u0", "u1", "u2", "u3"]
    mesh = allocation(0, chips=chips, devices=[0, 1, 2, 3], size=8 * MIB)
    part = allocation(5, chips=["u1"], devices=[1], other_chips=["u0", "u2"], size=MIB)
    screen = Screen([mesh, part])
    rows = screen.rows()
    assert rows[0] == "ALLOCATIONS  2 allocations  per chip: DRAM ≤ 9.0M"
    assert rows[1].split()[:4] == ["PID", "CHIPS", "KIND", "PER"]
    assert [row.split()[1:4] for row in rows[2:4]] == [["0-3", "dram", "8.0M"], ["1+", "dram", "1.0M"]]
    assert "+ also on other chips" in rows[4]
    text = " ".join(" ".join(rows).split())
    assert "8,388,608 bytes on each chip; 33,554,432 on all 4 chips: 0-3, which the process calls devices 0-3;" in text
    text = " ".join(" ".join(screen.press("down")).split())
    assert "1,048,576 bytes; chip 1, which the process calls device 1; also on chips 0,2;" in text
    wide = Screen([mesh, part], Size(170, 38)).rows()[0]
    assert wide == "ALLOCATIONS  2 allocations  per chip: DRAM ≤ 9.0 MiB; all chips: DRAM 33.0 MiB"


def test_what_is_not_counted_says_so() -> None:
    screen = Screen(various()[20:])
    rows = screen.rows()
    assert [row.split()[3][-1] for row in rows[2:5]] == ["x", "=", "~"]
    assert "x not counted, see below   = inside an L1 buffer, adds nothing   ~ estimated" in rows[6]
    text = " ".join(" ".join(rows).split())
    assert "reported, by client Not counted: a source with priority reports this kind" in text
    dim = screen.view.rows(screen.model, screen.size, screen.signs)[3]
    assert all(style != "dim" for _, style in dim), "only what is not counted is dim"
    text = " ".join(" ".join(screen.press("end")).split())
    assert "Written to core 3,4 at 0x3410: firmware" in text


def test_the_chosen_allocation_stays_chosen() -> None:
    screen = Screen(various())
    screen.press("down", "down")
    title = next(row for row in screen.rows() if row.startswith("──"))
    assert allocation(2)["id"] in title
    screen.answer = answer_of([allocation(77), *various()])
    assert title in screen.rows()


def test_a_click_on_a_title_sorts_and_one_on_a_row_chooses() -> None:
    screen = Screen(various())
    x = screen.rows()[1].index("AGE")
    for wanted in ("newest", "oldest", "newest"):
        assert screen.view.click(x, 1, screen.model)
        assert screen.query()["sort"] == wanted
    assert "AGE▴" in screen.rows()[1]
    assert screen.view.click(4, 5, screen.model)
    assert any(row.startswith("──") and allocation(3)["id"] in row for row in screen.rows())
    assert not screen.view.click(4, 37, screen.model)


def test_what_the_server_says_is_said() -> None:
    screen = Screen(Answer(None, "the server reports: limit is a whole number", 0.0))
    assert screen.rows()[2] == " the server reports: limit is a whole number"


def test_empty() -> None:
    screen = Screen([])
    assert "Nothing is allocated: no process that reports holds anything." in screen.rows()[2]
    assert "escape clears" in screen.press("f")[2]


def numbers(rows: list[str]) -> list[int]:
    """Which events are shown."""
    return [int(row.rsplit("op ", 1)[1].split(".")[0]) for row in rows[2:] if "op " in row]


def test_events_are_followed() -> None:
    screen = Screen(size=Size(160, 12))
    screen.press("e")
    assert screen.view.wants(screen.model) == ["/events"]
    rows = screen.events()
    assert rows[2] == " No event since this view was opened."
    assert numbers(screen.events(*map(event, range(50)))) == list(range(40, 50))
    assert numbers(screen.events(*map(event, range(51)))) == list(range(41, 51))


def test_events_are_held() -> None:
    screen = Screen(size=Size(160, 12))
    screen.press("e")
    screen.events(*map(event, range(50)))
    screen.press("F")
    assert numbers(screen.events(*map(event, range(20, 70)))) == list(range(40, 50))
    assert "held: F or end follows" in screen.rows()[0]
    assert numbers(screen.press("pageup")) == list(range(39, 49))
    screen.press("end")
    assert numbers(screen.rows()) == list(range(60, 70))
    assert numbers(screen.press("up")) == list(range(60, 70)), "who moves up wants to read"
    assert numbers(screen.events(*map(event, range(200)))) == list(range(60, 70))
    assert numbers(screen.press("F")) == list(range(190, 200))
    screen.view.click(3, 4, screen.model)
    assert not screen.view._follower.follows


def test_events_are_filtered() -> None:
    screen = Screen(size=Size(160, 30))
    screen.press("e")
    events = [event(number, kind=("l1", "dram")[number % 2], pid=100 + number % 3, size=number) for number in range(18)]
    screen.events(*events)
    assert numbers(screen.press("f")) == list(range(1, 18, 2))
    assert numbers(screen.press("up", "p")) == [3, 9, 15], "those of the process that event 15 is of"
    screen.press("escape", "end")
    assert numbers(screen.press("slash", *"OP", "space", "7", "full_stop", "enter")) == [7]
    screen.press("escape")
    assert numbers(screen.press("m", "1", "0", "enter")) == list(range(10, 18))
    rows = screen.press("slash", *"nothing", "enter")
    assert rows[2] == " None of the last events fits the filters."


def test_rates_and_losses() -> None:
    """30 events in the last ten seconds are 3 per second. Earlier events do not count."""
    events = [{"event": "Freed", "time": NOW - 60 + number} for number in range(40)]
    events += [{"event": name, "time": NOW - 9 + number / 10} for number in range(20) for name in ["Allocated"]]
    events += [{"event": "Mark", "time": NOW - 1 + number / 100} for number in range(10)]
    assert eventlist.rates(events, NOW) == [("Allocated", 2.0), ("Mark", 1.0)]
    assert eventlist.rates(events, NOW + 100) == []
    assert eventlist.rates([], NOW) == []
    heard = events[-10:]  # the view was opened two seconds ago, now, or long ago
    assert [eventlist.rates(heard, NOW, NOW - ago)[0][1] for ago in (2, 0.1, 1000)] == [5.0, 10.0, 1.0]
    many = [{"event": "Freed", "time": NOW - 0.5 + number / 2000} for number in range(1000)]
    assert eventlist.rates(many, NOW)[0][1] == pytest.approx(2000), "older ones are not kept"
    screen = Screen()
    screen.press("e")
    row = screen.events(*events, lost=4711)[0]
    assert row == "EVENTS  3.0 events/s  4,711 lost: too many for this screen  Allocated 2.0, Mark 1.0"


@pytest.fixture
def client(server: Server) -> Iterator[AllocationClient]:
    own = AllocationClient(enabled=True, socket_path=server.path)
    yield own
    own.close()


def test_a_real_server(server: Server, client: AllocationClient) -> None:
    """A real server answers every request of the view, with the same keys as above."""
    for number in range(120):
        client.report_allocation(
            device_id=number % 2, size=(number + 1) * 1024, buffer_type=("dram", "l1")[number % 2],
            buffer_id=4096 * number, tag=f"layer {number}",
        )  # fmt: skip
    assert client.flush()
    wait_until(lambda: server.get("/allocations?limit=1")["matched"] == 120, "the reports' arrival")
    model, view, size = Model(), Allocations(), Size(120, 38)
    model.take(server.snapshot(), 0.0, 0.0)  # type: ignore[arg-type]

    def rows(*keys: str) -> list[str]:
        for key in keys:
            assert view.press(key, model)
        for _ in range(2):
            view.rows(model, size, Characters())
            for path in view.wants(model):
                model.answers[path] = Answer(server.get(path), None, 0.0)
        return lines(view.rows(model, size, Characters()))

    first = rows()
    assert "120 allocations  DRAM 3.5M, L1 3.6M" in first[0]
    assert set(server.get("/allocations?limit=1")["allocations"][0]) == set(allocation(0))
    assert "layer 119" in first[2]
    assert "layer 0" in rows("end")[30]
    assert "60 allocations of 120" in rows("home", "f", "f")[0]
    assert "60 allocations of 120" in rows("escape", "c")[0]
    assert f"pid {os.getpid()}" in rows("escape", "p")[0]
    assert "21 allocations of 120" in rows("escape", "m", *"100K", "enter")[0]
    assert "11 allocations of 120" in rows("escape", "slash", *"er", "space", "7", "enter")[0]
    assert "layer 0" in rows("escape", "s", "s")[2]
    model.pick(("assumed:1",))
    assert "60 allocations " in rows()[0]
    model.pick(("assumed:0", "assumed:1"))
    assert "120 allocations " in rows()[0]
    rows("home", "g")
    rows("down")
    opened = rows("enter")
    assert "1 allocation of 120  only DRAM, layer 118, " in opened[0]
    assert "layer 118" in opened[2]
    rows("escape")
    for by in ("line", "shape", "program"):
        assert f"by {by}, 2 groups" in rows("g")[0]
        rows("home", "down")
        assert "60 allocations of 120  only DRAM, no " in rows("enter")[0]
        rows("escape")
    assert "Traceback" not in server.err.read_text()
