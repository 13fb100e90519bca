# SPDX-License-Identifier: Apache-2.0
"""The dashboard on a recording: keys and clicks, the feed behind them, and what is on the screen then."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.recorded_stories import REFUSED, START, story_file
from tests.support import PATIENCE
from ttmem.model.events import Allocated, DeviceOpened, Event, Extra, Failed, PhaseBegan, PhaseEnded
from ttmem.model.geometry import BOARDS
from ttmem.model.identity import ChipInfo
from ttmem.model.kinds import Kind
from ttmem.recording.recording_file import Recording
from ttmem.server.recorded_api import RecordedApi
from ttmem.show.top.dashboard import Dashboard
from ttmem.show.top.dashboard_state import Model
from ttmem.show.top.parts.data_feed import FeedUpdate
from ttmem.show.top.parts.recording_feed import RecordingFeed
from ttmem.show.top.parts.rows import Characters, Size, text_of
from ttmem.show.top.playback import Playback, Step, ToMoment, ToTime
from ttmem.show.top.settings import Settings
from ttmem.show.top.start import views_of


def never(update: FeedUpdate) -> None:
    raise AssertionError("a feed that was not started calls nobody")


class Player:
    """A dashboard and its feed, without thread and terminal."""

    def __init__(self, path: str, settings: str, size: Size = Size(120, 40)) -> None:
        self.recording = Recording(path)
        self.source = RecordedApi(self.recording)
        self.feed = RecordingFeed(never, self.source)
        self.player = Playback("story.ttmem", self.recording.begin, self.recording.end)
        self.dashboard = Dashboard(Model(playback=self.player), views_of(None), Settings(settings), Characters("ascii"))
        self.size = size
        self.work()

    def work(self) -> None:
        """Until there is nothing left to do."""
        self.text()
        while True:
            asked = self.dashboard.wants()
            self.feed.want(asked, 0.5)
            self.feed.seek(self.player.requests())
            update = self.feed.round()
            if update is not None:
                self.dashboard.take(update, asked)
                self.text()
            elif self.feed._idle:
                return

    def press(self, *keys: str) -> str:
        for key in keys:
            self.dashboard.press(key, key if len(key) == 1 else None)
            self.text()
        self.work()
        return self.text()

    def text(self) -> str:
        rows = self.dashboard.rows(self.size, 0.0)
        assert len(rows) == self.size.height
        return "\n".join(text_of(row) for row in rows)

    def close(self) -> None:
        self.source.close()
        self.recording.close()


@pytest.fixture
def player(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Player]:
    monkeypatch.setenv("TTMEM_DEBUG", "1")  # an error in a view is an error of the test
    made = Player(story_file(folder), str(folder / "top.json"))
    yield made
    made.close()


def test_it_opens_at_the_last_failed_allocation(player: Player) -> None:
    first, *_, slider, moment, last = player.text().splitlines()
    assert first.endswith("box  +7.000000s  RECORDING")
    assert moment.startswith(" +7.000000s of 10.000s  at the last failed allocation")
    assert slider.startswith(" = 1x ")
    assert "space play" in last
    assert slider.count("^") + slider.count("|") + slider.count("x") >= 5


def test_every_view_at_several_moments(player: Player) -> None:
    """The numbers are those of the moment; the documents themselves are compared in test_recorded_api."""
    assert "101M/12.0G" not in player.press("1", "circumflex_accent")
    assert "300M/12.0G" in player.press("right_curly_bracket", "right_curly_bracket")
    assert "DRAM 2% 300M/12.0G" in player.press("2", "z")
    assert "+0.00s" in player.text()
    assert "no telemetry" in player.press("3")
    assert "By kind on chip 0: dram 300.0 MiB, l1 3.0 MiB" in player.press("4")
    assert "used" in player.press("5")
    text = player.press("6")
    assert "3 allocations" in text
    assert "ttnn.matmul" in text
    assert "at the end of phase prefill" in player.press(*["right_square_bracket"] * 9)
    text = player.press("right_square_bracket")
    assert "there is no later start or end of a phase" in text
    text = player.press("n")
    assert "at failed allocation 1 of 2" in text
    assert "ttnn.softmax" in text
    assert "ttnn.matmul" not in text
    text = player.press("e")
    assert "Out of Memory" in text
    assert "Allocated" in text


def test_unknown_readings_are_not_zero(player: Player) -> None:
    text = player.press("3")
    assert "Not known: " in text
    assert "0 W" not in text
    assert "POWER" not in player.press("1") or "     -  " in player.text()


def test_a_moment_that_is_typed(player: Player) -> None:
    assert "phase:NAME" in player.press("at")
    text = player.press(*"+2.7s", "enter")
    assert "+2.700000s of 10.000s  2.7s after its start" in text
    text = player.press("at", *"gold", "enter")
    assert "'gold' is not a moment" in text
    assert "+2.700000s" in text, "it stays where it was"


def test_clicks_and_drags(player: Player) -> None:
    height = player.size.height
    assert player.dashboard.drags(height - 3)
    assert not player.dashboard.drags(height - 2)
    player.dashboard.click(60, height - 3)
    player.work()
    half = player.player.position.time
    assert abs(half - START - 5.0) < 0.5
    player.dashboard.drag(90)
    player.work()
    assert player.player.position.time > half
    player.press("2")
    player.dashboard.click(30, 10)  # in a chart
    player.work()
    assert START < player.player.position.time < half


def test_the_charts_are_those_of_the_recording(player: Player) -> None:
    """Their cursor is the moment, which the arrows move."""
    text = player.press("2")
    assert "Memory, the whole recording" in text
    before = player.player.position.time
    player.press("left")
    assert player.player.position.time < before
    model = player.dashboard.model
    assert model.until == player.player.position.time
    assert START < model.past.newest <= START + 10.01, "nothing of today"
    text = player.press("W", "W")
    assert "Memory, 2.5 s" in text
    span = model.span(2.5)
    assert span.until - 2.5 < player.player.position.time < span.until
    assert "the whole recording" in player.press("a")


def test_keys_of_a_view_come_first(player: Player) -> None:
    before = player.player.position
    player.press("5")
    player.press("right", "left", "up")
    assert player.player.position == before, "arrows choose a core"
    player.press("left_parenthesis")
    assert player.player.position.time < before.time
    player.press("6", "slash", "n", ",", "enter")
    assert player.player.playing is False
    assert "text 'n,'" in player.text()


def test_processes_are_not_those_of_this_machine(player: Player) -> None:
    assert "no signals: this is a recording" in player.press("4", "K")
    player.press("T")
    assert "pid 4711" in player.text()


def test_help_names_the_keys(player: Player) -> None:
    text = player.press("h")
    assert "Keys of the recording" in text
    for key in ("{ }", "[ ]", ", .", "N, n", "( )", "^ $", "@"):
        assert key in text
    assert "refresh more often" not in text
    assert text.count("space ") == 2, "once in the help, once in the last line"


@pytest.mark.parametrize("size", [Size(80, 24), Size(200, 60), Size(60, 11), Size(30, 5), Size(10, 2)])
def test_every_size(folder: Path, size: Size, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TTMEM_DEBUG", "1")
    made = Player(story_file(folder), str(folder / "top.json"), size)
    for view in "123456":
        made.press(view)
    made.close()


def test_hostile_texts_of_a_recording(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names of phases, operations and chips are printable in every view, and the chip can still be asked for."""
    monkeypatch.setenv("TTMEM_DEBUG", "1")
    bad = "\x1b[2J\x07\nrow"
    story: list[tuple[float, Event]] = [
        (0.0, DeviceOpened(0, ChipInfo(f"77{bad}", board="n150", geometry=BOARDS["n150"]))),
        (1.0, PhaseBegan(1, bad)),
        (2.0, Allocated(0, Kind.L1, 0x2000, 3 << 20, 0, 0, Extra(tag=bad))),
        (3.0, PhaseEnded(1)),
        (4.0, Failed(0, REFUSED + bad)),
    ]
    made = Player(story_file(folder, story), str(folder / "top.json"))
    for key in ("1", "2", "z", "3", "4", "5", "6", "e"):
        for step in ("left_square_bracket", "right_square_bracket", "comma", "full_stop", "n"):
            text = made.press(key, step)
            assert all(line.isprintable() for line in text.split("\n"))
    text = made.press("5")
    assert "fullest core" in text
    made.close()


# -- requests --------------------------------------------------------------------------------------------------------


def test_a_time_replaces_what_waits_and_steps_add_up(player: Player) -> None:
    feed = player.feed
    feed.seek([ToTime(START + 1), Step("event", 1), ToTime(START + 2), Step("event", 1), Step("event", 1)])
    assert feed._requests == [ToTime(START + 2), Step("event", 2)]
    feed.seek([Step("peak", 1)])
    assert feed._requests == [ToTime(START + 2), Step("event", 2), Step("peak", 1)]
    feed.seek([ToMoment("end")])
    assert feed._requests == [ToMoment("end")]
    update = feed.round()
    assert update is not None
    assert update.recorded is not None
    assert update.recorded.done == 7


def test_answers_of_a_moment_that_nobody_wants_any_more(player: Player) -> None:
    """Between two answers it looks whether another moment is wanted."""
    player.feed.want(["/allocations", "/headroom?chip=770"], 0.5)
    player.feed.seek([ToTime(START + 3)])
    answer = player.source.answer

    def impatient(path: str) -> object:
        player.feed.seek([ToTime(START + 5)])
        return answer(path)

    player.source.answer = impatient  # type: ignore[method-assign]
    update = player.feed.round()
    assert update is not None
    assert set(update.answers) == {"/allocations"}
    player.source.answer = answer  # type: ignore[method-assign]
    update = player.feed.round()
    assert update is not None
    assert set(update.answers) == {"/allocations", "/headroom?chip=770"}


def test_answers_of_another_moment_are_forgotten(player: Player) -> None:
    assert "ALLOCATIONS  4 allocations" in player.press("6")
    player.press("1")
    player.press("circumflex_accent")
    player.dashboard.press("6")
    assert "asking..." in player.text(), "until the answer for this moment is there"
    assert "ttnn" not in player.text()
    player.work()
    assert "Nothing is allocated at this moment" in player.text()


def test_in_a_thread(folder: Path) -> None:
    updates: queue.Queue[FeedUpdate] = queue.Queue()
    with Recording(story_file(folder)) as recording:
        feed = RecordingFeed(updates.put, RecordedApi(recording))
        feed.start()
        feed.seek([ToTime(START + 3)])
        while True:
            found = updates.get(timeout=PATIENCE).recorded
            assert found is not None
            if found.position is not None and found.done == 1:
                assert found.position.time == START + 3
                break
        feed.close()
        feed.join(PATIENCE)
        assert not feed._thread.is_alive()


def test_an_error_of_our_own_is_shown(player: Player, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TTMEM_DEBUG")
    update = player.feed._broken(RuntimeError("odd"))
    player.dashboard.take(update, [])
    assert "internal error: RuntimeError: odd" in player.text()
